//! Greenroom's command line. `run.rs` is where the parts are put together.

mod bridge;
mod cli;
mod config_files;
mod config_show;
mod doctor;
mod exit;
mod history;
mod install_view;
mod local_client;
mod logging;
mod orphans;
mod pools;
mod run;
mod signals;
mod table;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match run::run(&cli) {
        Ok(code) => code,
        Err(error) => exit::report(&error),
    }
}
