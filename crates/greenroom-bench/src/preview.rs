//! The command `preview`: what those who watch a session get to see and how old it is, what it costs the machine and the
//! session's agent, and how soon a page knows what a person does to it.

mod flatness;
mod frames;
mod input;
mod page;
mod report;
mod slowdown;
mod viewer;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::binaries::Binaries;
use crate::machine::Machine;
use crate::report::publish;
use crate::sessions::rig::Rig;
use report::{Measured, Report};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// A short run, to see that everything works
    #[arg(long)]
    quick: bool,
}

struct Plans {
    frames: frames::Plan,
    flatness: flatness::Plan,
    work: work::Plan,
    slowdown: slowdown::Plan,
    input: input::Plan,
}

pub(crate) async fn run(options: &Options) -> Result<ExitCode> {
    let binaries = Binaries::build()?;
    let rig = Rig::new(&binaries)?;
    let mut machine = Machine::look(&binaries, false).await;
    machine.versions.extend(rig.versions());

    let plans = options.plans();
    let measured = Measured {
        frames: frames::measure(plans.frames, &rig).await,
        flatness: flatness::measure(plans.flatness, &rig).await,
        work: work::measure(plans.work, &rig).await,
        slowdown: slowdown::measure(plans.slowdown, &rig).await,
        input: input::measure(plans.input, &rig).await,
    };
    machine.look_again();

    let report = Report::new(machine, measured);
    publish(&report, options.json.as_deref())?;
    // Slowness is for the reader to judge. A part that does not work is a failure.
    Ok(if report.all_ran() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Options {
    fn plans(&self) -> Plans {
        let seconds = Duration::from_secs;
        if self.quick {
            Plans {
                frames: frames::Plan { rounds: 1, time: seconds(4) },
                flatness: flatness::Plan { frames: 1_000, budget: seconds(90) },
                work: work::Plan { rounds: 1, time: seconds(4) },
                slowdown: slowdown::Plan { rounds: 3, turns: 4 },
                input: input::Plan { clicks: 15 },
            }
        } else {
            Plans {
                frames: frames::Plan { rounds: 4, time: seconds(6) },
                flatness: flatness::Plan { frames: 10_000, budget: seconds(900) },
                work: work::Plan { rounds: 4, time: seconds(6) },
                slowdown: slowdown::Plan { rounds: 16, turns: 5 },
                input: input::Plan { clicks: 80 },
            }
        }
    }
}
