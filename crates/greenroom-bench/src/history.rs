//! The command `history`: what it costs to write every call down, and what an agent saves that reads in small pieces.

mod reading;
mod recording;
mod report;
mod sight;
mod task;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::binaries::Binaries;
use crate::machine::Machine;
use crate::report::publish;
use crate::sessions::rig::Rig;
use report::Report;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// A short run, to see that everything works
    #[arg(long)]
    quick: bool,

    /// Write what each step of the task brought to this folder, a file for each kind of reply
    #[arg(long, value_name = "FOLDER")]
    transcripts: Option<PathBuf>,
}

pub(crate) async fn run(options: &Options) -> Result<ExitCode> {
    let binaries = Binaries::build()?;
    let scratch = tempfile::tempdir().context("no scratch folder could be made")?;
    let rig = Rig::new(&binaries)?;
    let mut machine = Machine::look(&binaries, false).await;
    machine.versions.extend(rig.versions());

    let (recording, reading) = options.plans();
    let lanes = recording::measure(recording, &binaries, scratch.path()).await;
    let reading = reading::measure(reading, &rig).await;
    let task = task::measure(&rig, options.transcripts.as_deref()).await;
    machine.look_again();

    let report = Report::new(machine, lanes, reading, task);
    publish(&report, options.json.as_deref())?;
    // Slowness is for the reader to judge. A part that does not work is a failure.
    Ok(if report.all_ran() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Options {
    fn plans(&self) -> (recording::Plan, reading::Plan) {
        let millis = Duration::from_millis;
        if self.quick {
            (
                recording::Plan { rounds: 10, block: 40, floods: 2, flood: millis(1000) },
                reading::Plan { pages: 2, reads: 50 },
            )
        } else {
            (
                recording::Plan { rounds: 40, block: 100, floods: 5, flood: millis(2000) },
                reading::Plan { pages: 5, reads: 100 },
            )
        }
    }
}
