//! How much slower an agent's calls are while somebody watches.
//!
//! The same calls in the same session, watched and not, in blocks that take turns, and with a browser server spoken to
//! directly. Actions do not wait for what they set off: that wait is the same whoever watches, and would hide the rest.

use std::time::Instant;

use anyhow::{Context, Result};

use super::page::{self, Page, with_session};
use super::viewer::{INTERVAL_MS, Viewer};
use crate::measure::say;
use crate::report::rate;
use crate::samples::Samples;
use crate::sessions::rig::{Agent, Gateway, Rig};

const SESSION: &str = "slowdown";
const SETTLE_MS: u64 = 0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) rounds: usize,
    /// In each block. A turn is a navigation, a snapshot and a click.
    pub(super) turns: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Direct,
    Unwatched,
    Watched,
}

/// What calls took on one page.
pub(super) struct Lane {
    pub(super) page: Page,
    pub(super) direct: Calls,
    pub(super) unwatched: Calls,
    pub(super) watched: Calls,
    /// Frames in a second that the viewer got meanwhile, by round.
    pub(super) frames_per_second: Vec<f64>,
}

#[derive(Default)]
pub(super) struct Calls {
    pub(super) navigate: Samples,
    pub(super) snapshot: Samples,
    pub(super) click: Samples,
}

struct Agents<'a> {
    gateway: &'a Gateway,
    session: &'a mut Agent,
    direct: Agent,
}

pub(super) async fn measure(plan: Plan, rig: &Rig<'_>) -> Result<Vec<Lane>> {
    let (server, direct) = rig.upstream_settling(SETTLE_MS).await?;
    let lanes = with_session(rig, Some(SETTLE_MS), SESSION, async |gateway, session| {
        rounds(plan, rig, Agents { gateway, session, direct }).await
    })
    .await
    .with_context(|| server.last_words());
    server.end().await;
    lanes
}

async fn rounds(plan: Plan, rig: &Rig<'_>, mut agents: Agents<'_>) -> Result<Vec<Lane>> {
    let mut lanes = [Page::Still, Page::Moving].map(|page| Lane {
        page,
        direct: Calls::default(),
        unwatched: Calls::default(),
        watched: Calls::default(),
        frames_per_second: Vec::new(),
    });
    // The first round starts the browsers, and does not count.
    for round in 0..=plan.rounds {
        say(format_args!("calls while watched: round {round} of {}", plan.rounds));
        // Neither is always the first.
        let mut ways = [Way::Unwatched, Way::Watched, Way::Direct];
        if round % 2 == 1 {
            ways.swap(0, 1);
        }
        for lane in &mut lanes {
            for way in ways {
                lane.block(way, plan.turns, rig, &mut agents, round > 0).await?;
            }
        }
    }
    Ok(lanes.into())
}

impl Lane {
    async fn block(
        &mut self,
        way: Way,
        turns: usize,
        rig: &Rig<'_>,
        agents: &mut Agents<'_>,
        counts: bool,
    ) -> Result<()> {
        let viewer = match way {
            Way::Watched => {
                let mut viewer = Viewer::open(agents.gateway, SESSION, INTERVAL_MS).await?;
                // In the first round there is no page yet.
                viewer.until_viewers(1).await?;
                Some(viewer.keep_watching())
            }
            Way::Direct | Way::Unwatched => None,
        };
        let (agent, calls) = match way {
            Way::Direct => (&mut agents.direct, &mut self.direct),
            Way::Unwatched => (&mut *agents.session, &mut self.unwatched),
            Way::Watched => (&mut *agents.session, &mut self.watched),
        };
        // Others have just been at work.
        self.page.show(agent, rig).await?;
        let calls = if counts { calls } else { &mut Calls::default() };
        let began = Instant::now();
        calls.add_round(self.page, turns, rig, agent).await?;
        let took = began.elapsed().as_secs_f64();
        if let Some(viewer) = viewer {
            let frames = viewer.end().await?;
            if counts {
                self.frames_per_second.push(rate(frames.len(), took));
            }
        }
        Ok(())
    }
}

impl Calls {
    async fn add_round(&mut self, page: Page, turns: usize, rig: &Rig<'_>, agent: &mut Agent) -> Result<()> {
        let (mut navigate, mut snapshot, mut click) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..turns {
            navigate.push(page.show(agent, rig).await?);
            snapshot.push(page::look(agent).await?);
            click.push(page::click(agent).await?);
        }
        self.navigate.add_round(navigate);
        self.snapshot.add_round(snapshot);
        self.click.add_round(click);
        Ok(())
    }
}
