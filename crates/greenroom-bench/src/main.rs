//! Greenroom's benchmarks.
//!
//! `cargo run --release -p greenroom-bench -- overhead` says what a tool call costs on its way through
//! Greenroom, against the same call made straight to the server behind it and, with `--peers`, through other
//! gateways of the same kind. `leases` says what the lease queue costs, and what a pool makes of many callers.
//! `sessions` says what a browser of an agent's own costs, beside a browser server for each. `history` says what it
//! costs to write every call down, and what reading in small pieces saves. `preview` says what those who watch a session
//! get to see, and what that costs its agent and the machine.
//!
//! ```text
//! overhead ─► binaries   builds what is measured
//!          ─► routes     starts one server for each route; peers.rs knows those of others
//!          ─► measure    calls them in turn, round by round, through client.rs
//!          ─► report     table, verdict, JSON
//! leases   ─► queue      the state machine alone: time and memory
//!          ─► pool       many callers over HTTP, beside a direct upstream for each instance
//! sessions ─► rig        starts gateways and browser servers, all with the same browser
//!          ─► memory, latency, throughput
//! history  ─► recording  the same calls with and without a record
//!          ─► reading    pieces of a large snapshot
//!          ─► task       what reaches an agent in twenty steps on a real page, by kind of reply
//! preview  ─► viewer     watches over a WebSocket, or stalls
//!          ─► frames, flatness, work, slowdown, input
//! ```

mod binaries;
mod client;
mod history;
mod leases;
mod machine;
mod measure;
mod outcome;
mod overhead;
mod peers;
mod preview;
mod promise;
mod report;
mod routes;
mod samples;
mod server;
mod sessions;
mod startup;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Parser)]
#[command(name = "greenroom-bench", about = "Greenroom's benchmarks", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// What a tool call costs on its way through Greenroom
    Overhead(overhead::Options),
    /// What writing every call down costs, and what reading it in small pieces saves
    History(history::Options),
    /// What handing a browser on costs, and what a pool of two makes of fifty callers
    Leases(leases::Options),
    /// What a browser for every agent costs, beside a browser server for every agent
    Sessions(sessions::Options),
    /// What watching a session shows, and what it costs
    Preview(preview::Options),
}

fn main() -> anyhow::Result<ExitCode> {
    let command = Cli::parse().command;
    // One thread: a call that hops between threads of the client would be slower for reasons of the client's own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let run = async {
            match command {
                Command::Overhead(options) => overhead::run(&options).await,
                Command::History(options) => history::run(&options).await,
                Command::Leases(options) => leases::run(&options).await,
                Command::Sessions(options) => sessions::run(&options).await,
                Command::Preview(options) => preview::run(&options).await,
            }
        };
        // Dropping the run ends what it has started.
        tokio::select! {
            outcome = run => outcome,
            signal = interrupted() => anyhow::bail!("interrupted by {}", signal?),
        }
    })
}

/// Waits for a request to stop, and says which it was.
async fn interrupted() -> std::io::Result<&'static str> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupt = tokio::signal::ctrl_c() => interrupt.map(|()| "SIGINT"),
        _ = terminate.recv() => Ok("SIGTERM"),
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
