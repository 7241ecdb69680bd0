//! What can be written on the command line.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::{Args, Parser, Subcommand, ValueEnum};
use greenroom_core::config::Layer;

use crate::bridge::Target;
use crate::history;

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

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct BrowserFlags {
    /// Attach a running browser by the address of its debugging port; `|` and a command behind it say how to start it.
    /// May be given several times
    #[arg(long = "browserUrl", alias = "browser-url", value_name = "URL")]
    urls: Vec<String>,

    /// Attach a running browser by its WebSocket address. May be given several times
    #[arg(long = "wsEndpoint", alias = "ws-endpoint", value_name = "URL")]
    sockets: Vec<String>,
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
        browsers: BrowserFlags,
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
        browsers: BrowserFlags,
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
    /// List the calls on record, newest last
    Calls(CallsFlags),
    /// Show everything about a call on record
    Show(ShowFlags),
    /// Copy everything on record about a session to a folder or a zip file
    Export(ExportFlags),
    /// Look after the database of calls
    Db {
        #[command(subcommand)]
        command: DbCommand,
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

#[derive(Debug, Args)]
pub(crate) struct CallsFlags {
    /// Only calls of this session
    #[arg(long)]
    pub(crate) session: Option<String>,
    /// Only calls of this tool
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Only calls that ended like this, or have not
    #[arg(long)]
    pub(crate) status: Option<Status>,
    /// Only calls since then: `10m`, `2h`, `3d` ago, or a time such as `2026-11-15T08:00:00Z`
    #[arg(long, value_name = "TIME", value_parser = history::time::since)]
    pub(crate) since: Option<SystemTime>,
    /// How many at most, the newest
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: usize,
    /// Go on with new calls as they are answered, until interrupted
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// As JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Status {
    Success,
    Error,
    Pending,
}

#[derive(Debug, Args)]
pub(crate) struct ShowFlags {
    /// Ref id of the call, or its first characters
    #[arg(value_name = "REF")]
    pub(crate) call: String,
    /// Only the snapshot of the page, or the text of the answer where there is none; as it is
    #[arg(long, group = "part")]
    pub(crate) content: bool,
    /// Only the result, byte for byte
    #[arg(long, group = "part")]
    pub(crate) result: bool,
    /// Only what the tool was called with
    #[arg(long, group = "part")]
    pub(crate) params: bool,
    /// Only what the page wrote to its console
    #[arg(long, group = "part")]
    pub(crate) console: bool,
    /// Everything but the contents, as JSON
    #[arg(long, group = "part")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportFlags {
    /// Name of the session
    pub(crate) session: String,
    /// Where to; the name of a zip file makes one [default: SESSION-DATE in the working directory]
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// As one zip file
    #[arg(long)]
    pub(crate) zip: bool,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum DbCommand {
    /// Say how much there is, how large it is and where
    Stats {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Make the file as small as it can be
    Vacuum,
    /// Look for damage; exits with 1 when there is some
    Check,
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
        let browsers = match &self.command {
            Command::Serve { browsers, .. } | Command::Mcp { browsers, .. } => browsers.clone(),
            _ => BrowserFlags::default(),
        };
        // One value with a line for each.
        let lines = |values: Vec<String>| Some(values.join("\n")).filter(|lines| !lines.is_empty());
        let common = &self.common;
        let flags = [
            ("BROWSER_URLS", "--browserUrl", lines(browsers.urls)),
            ("WS_ENDPOINTS", "--wsEndpoint", lines(browsers.sockets)),
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
