//! Logs go to stderr, always: stdout belongs to the protocol.

use std::io::IsTerminal;

use anyhow::{Context, Result};
use greenroom_core::config::{Config, LogFormat};
use tracing_subscriber::EnvFilter;

use crate::exit::Exit;

/// The filter that the configuration asks for, or what is wrong with it.
pub(crate) fn filter(config: &Config) -> Result<EnvFilter> {
    // rmcp reports every refused request and every connection; ours say it once, and better.
    let quiet = if config.log.contains("rmcp") { "" } else { ",rmcp=off" };
    EnvFilter::try_new(format!("{}{quiet}", config.log))
        .with_context(|| format!("LOG: `{}` is not a filter. Give a level such as `info`", config.log))
        .context(Exit::Usage)
}

pub(crate) fn start(config: &Config) -> Result<()> {
    let logger = tracing_subscriber::fmt()
        .with_env_filter(filter(config)?)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match config.log_format {
        LogFormat::Text => logger.compact().init(),
        LogFormat::Json => logger.json().flatten_event(true).init(),
    }
    Ok(())
}
