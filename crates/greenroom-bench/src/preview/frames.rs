//! How many frames viewers get of a page that never rests, and how old they are.
//!
//! Round by round, every company of viewers once, so that what disturbs the machine disturbs all alike.

use std::time::Duration;

use anyhow::Result;

use super::page::{Page, with_session};
use super::viewer::{INTERVAL_MS, Stalled, Viewer};
use crate::measure::say;
use crate::report::rate;
use crate::sessions::rig::{Gateway, Rig};

const SESSION: &str = "frames";
/// What comes first does not count: a screencast begins.
const WARM_UP: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) rounds: usize,
    /// How long each company watches, in each round.
    pub(super) time: Duration,
}

/// Who watches at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Company {
    pub(super) live: usize,
    pub(super) stalled: usize,
}

pub(super) const ONE: Company = Company { live: 1, stalled: 0 };
pub(super) const TEN: Company = Company { live: 10, stalled: 0 };
pub(super) const ONE_OF_TEN_STALLED: Company = Company { live: 9, stalled: 1 };

pub(super) struct Lane {
    pub(super) company: Company,
    /// Frames in a second, of each viewer in each round.
    pub(super) rates: Vec<f64>,
    pub(super) ages: Vec<Duration>,
    pub(super) bytes: usize,
}

pub(super) async fn measure(plan: Plan, rig: &Rig<'_>) -> Result<Vec<Lane>> {
    with_session(rig, None, SESSION, async |gateway, agent| {
        Page::Moving.show(agent, rig).await?;
        let mut lanes = [ONE, TEN, ONE_OF_TEN_STALLED].map(|company| Lane {
            company,
            rates: Vec::new(),
            ages: Vec::new(),
            bytes: 0,
        });
        for round in 1..=plan.rounds {
            say(format_args!("frames: round {round} of {}", plan.rounds));
            for lane in &mut lanes {
                lane.add_round(gateway, plan.time).await?;
            }
        }
        Ok(lanes.into())
    })
    .await
}

impl Lane {
    async fn add_round(&mut self, gateway: &Gateway, time: Duration) -> Result<()> {
        let Company { live, stalled } = self.company;
        let mut idle = Vec::new();
        for _ in 0..stalled {
            idle.push(Stalled::open(gateway, SESSION, INTERVAL_MS).await?);
        }
        let mut viewers = Vec::new();
        for _ in 0..live {
            viewers.push(Viewer::open(gateway, SESSION, INTERVAL_MS).await?);
        }
        let watching = viewers.iter_mut().map(|viewer| async {
            viewer.until_viewers(live + stalled).await?;
            viewer.watch(WARM_UP).await?;
            viewer.watch(time).await
        });
        for frames in futures::future::try_join_all(watching).await? {
            self.rates.push(rate(frames.len(), time.as_secs_f64()));
            self.ages.extend(frames.iter().map(super::viewer::Frame::age));
            self.bytes += frames.iter().map(|frame| frame.bytes).sum::<usize>();
        }
        drop(idle);
        Ok(())
    }
}
