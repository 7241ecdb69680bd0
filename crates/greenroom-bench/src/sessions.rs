//! The command `sessions`: what a browser of its own costs every agent, through one gateway and with a browser server
//! for each, in the same run and with the same browser.

mod latency;
mod memory;
mod report;
pub(crate) mod rig;
mod throughput;
pub(crate) mod tree;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::binaries::Binaries;
use crate::machine::Machine;
use crate::report::publish;
use report::Report;
use rig::Rig;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// A short run, to see that everything works
    #[arg(long)]
    quick: bool,

    /// With how many sessions memory is measured [default: 1,5,20,50, with --quick 1,5,20]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=200))]
    counts: Option<Vec<u16>>,
}

pub(crate) async fn run(options: &Options) -> Result<ExitCode> {
    let binaries = Binaries::build()?;
    let rig = Rig::new(&binaries)?;
    let mut machine = Machine::look(&binaries, false).await;
    machine.versions.extend(rig.versions());

    let (latency, throughput) = options.plans();
    let memory = memory::measure(&options.counts(), &rig).await;
    let latency = latency::measure(latency, &rig).await;
    let throughput = throughput::measure(throughput, &rig).await;
    machine.look_again();

    let report = Report::new(machine, memory, latency, throughput);
    publish(&report, options.json.as_deref())?;
    // Slowness is for the reader to judge. A part that does not work is a failure.
    Ok(if report.all_ran() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Options {
    fn counts(&self) -> Vec<usize> {
        let usual: &[u16] = if self.quick { &[1, 5, 20] } else { &[1, 5, 20, 50] };
        let mut counts: Vec<_> =
            self.counts.as_deref().unwrap_or(usual).iter().map(|count| usize::from(*count)).collect();
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    fn plans(&self) -> (latency::Plan, throughput::Plan) {
        let seconds = Duration::from_secs;
        if self.quick {
            (
                latency::Plan { rounds: 3, budget: seconds(30) },
                throughput::Plan { rounds: 2, time: seconds(4) },
            )
        } else {
            (
                latency::Plan { rounds: 10, budget: seconds(120) },
                throughput::Plan { rounds: 4, time: seconds(8) },
            )
        }
    }
}
