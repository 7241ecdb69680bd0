//! The command `leases`: what it costs to hand a browser on, in the queue alone and end to end.

mod pool;
mod queue;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use crate::binaries::Binaries;
use crate::machine::Machine;
use crate::report::publish;
use report::Report;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// A short run, to see that everything works
    #[arg(long)]
    quick: bool,
}

pub(crate) async fn run(options: &Options) -> Result<ExitCode> {
    let binaries = Binaries::build()?;
    let scratch = tempfile::tempdir().context("no scratch folder could be made")?;
    let mut machine = Machine::look(&binaries, false).await;
    let (batches, rounds, calls) = if options.quick { (40, 2, 2000) } else { (400, 5, 20_000) };
    let queue = queue::measure(batches)?;
    let lanes = pool::measure(pool::Plan { rounds, calls }, &binaries, scratch.path()).await;
    machine.look_again();

    let report = Report::new(machine, queue, lanes);
    publish(&report, options.json.as_deref())?;
    // Slowness is for the reader to judge. A side that does not work is a failure.
    Ok(if report.all_ran() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
