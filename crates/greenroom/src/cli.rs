//! What can be written on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use greenroom_core::config::Layer;

use crate::bridge::Target;

const EXIT_CODES: &str = "Exit codes: 0 ended as asked; 1 failed while running; 2 wrong usage or configuration; \
    3 something could not be installed; 4 the address cannot be listened on, or the server given with --connect \
    cannot be used; 130 interrupted while starting, or a second time while stopping.";

#[derive(Debug, Parser)]
#[command(name = "greenroom", version, about = "A browser gateway for AI agents", after_help = EXIT_CODES)]
#[command(disable_help_subcommand = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Configuration file, instead of greenroom.toml in the working directory and in your configuration folder
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Folder for everything Greenroom keeps [default: $XDG_DATA_HOME/greenroom]
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(crate) data_dir: Option<String>,

    /// What is logged to stderr: error, warn, info, debug, trace, or a filter [default: info]
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log: Option<String>,

    /// How it is logged: text or json [default: text]
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve MCP over HTTP, at /mcp, and to every `greenroom mcp` of the same user and data folder
    Serve {
        /// Address to listen on [default: 127.0.0.1]
        #[arg(long)]
        host: Option<String>,
        /// Port to listen on; 0 takes any free one [default: 34501]
        #[arg(long)]
        port: Option<String>,
        #[command(flatten)]
        install: InstallFlags,
    },
    /// Serve MCP over stdin and stdout, for an agent's configuration file. Where a `greenroom serve` of the same user and
    /// data folder runs, its browsers are used, and they stay when the agent goes
    Mcp {
        /// Serve from this process, also where a server runs
        #[arg(long)]
        standalone: bool,
        /// Use this server and no other: `unix:PATH`, the socket in its data folder, or `http://HOST:PORT`
        #[arg(long, value_name = "URL", conflicts_with = "standalone")]
        connect: Option<Target>,
        #[command(flatten)]
        install: InstallFlags,
    },
    /// Fetch the browser server, and a browser if this machine has none
    Install,
    /// Look for what is missing or wrong on this machine, and say what to do
    Doctor,
    /// Show the pools of a running `greenroom serve`
    Status {
        /// Only this pool
        pool: Option<String>,
        /// Show it again every second, until interrupted
        #[arg(long, short)]
        watch: bool,
        /// As JSON
        #[arg(long, conflicts_with = "watch")]
        json: bool,
        #[command(flatten)]
        server: ServerFlags,
    },
    /// Start browsers of a running `greenroom serve` anew: one, those of a pool, or all
    Restart {
        /// The pool; not given: all
        pool: Option<String>,
        /// Number or alias of one of its instances; not given: all
        instance: Option<String>,
        #[command(flatten)]
        server: ServerFlags,
    },
    /// Change how many instances a pool of a running `greenroom serve` has
    Scale {
        pool: String,
        /// How many it shall have; those that go finish what they are doing
        #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
        instances: u32,
        #[command(flatten)]
        server: ServerFlags,
    },
    /// Clean up after a run that was killed; started by Greenroom itself
    #[command(hide = true)]
    Guard { folder: PathBuf },
    /// Look at the configuration
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
}

/// Where a running server is.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerFlags {
    /// Address of the server [default: 127.0.0.1]
    #[arg(long)]
    host: Option<String>,
    /// Its port [default: 34501]
    #[arg(long)]
    port: Option<String>,
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct InstallFlags {
    /// Fail when something is missing instead of installing it
    #[arg(long)]
    pub(crate) no_install: bool,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say whether the configuration is right, and everything that is not
    Check,
    /// Show the effective value of every key and where it comes from
    Show {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

impl Cli {
    /// The flags that are configuration keys too.
    pub(crate) fn layer(&self) -> Layer {
        let (host, port) = match &self.command {
            Command::Serve { host, port, .. } => (host.clone(), port.clone()),
            Command::Status { server, .. }
            | Command::Restart { server, .. }
            | Command::Scale { server, .. } => (server.host.clone(), server.port.clone()),
            _ => (None, None),
        };
        let common = &self.common;
        let flags = [
            ("HTTP_HOST", "--host", host),
            ("HTTP_PORT", "--port", port),
            ("DATA_DIR", "--data-dir", common.data_dir.clone()),
            ("LOG", "--log", common.log.clone()),
            ("LOG_FORMAT", "--log-format", common.log_format.clone()),
        ];
        Layer::command_line(flags.into_iter().filter_map(|(key, flag, value)| Some((key, flag, value?))))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
