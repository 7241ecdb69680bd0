//! The command `overhead`, from its options to its report.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::binaries::Binaries;
use crate::machine::Machine;
use crate::measure::{self, Plan};
use crate::report::{self, Report};
use crate::{routes, startup};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Measure other gateways too; they are installed from their registries
    #[arg(long)]
    peers: bool,

    /// Write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Small calls on each route; a fifth as many return 100 KB and a tenth 1 MB [default: 2000, with --quick 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..))]
    calls: Option<u32>,

    /// A short run, to see that everything works
    #[arg(long)]
    quick: bool,
}

pub(crate) async fn run(options: &Options) -> Result<ExitCode> {
    let binaries = Binaries::build()?;
    let scratch = tempfile::tempdir().context("no scratch folder could be made")?;
    let mut machine = Machine::look(&binaries, options.peers).await;
    let starts = if options.quick { 3 } else { 20 };
    let startup = startup::measure(starts, &binaries, scratch.path()).await?;
    let routes = routes::all(options.peers);
    let measured = measure::measure(routes, options.plan(), &binaries, scratch.path()).await;
    machine.look_again();

    let report = Report::new(machine, &startup, measured);
    report::publish(&report, options.json.as_deref())?;
    // Slowness is for the reader to judge. A route of our own that does not work is a failure.
    Ok(if report.ours_all_ran() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Options {
    fn plan(&self) -> Plan {
        let (rounds, calls, flood, budget) = if self.quick { (2, 200, 300, 1) } else { (5, 2000, 1000, 3) };
        Plan {
            rounds,
            small_calls: self.calls.map_or(calls, |calls| calls as usize),
            flood: Duration::from_millis(flood),
            budget: Duration::from_secs(budget),
        }
    }
}
