//! What watching costs the machine: processor time of Greenroom, its host and the browser together.
//!
//! Each round has a session of its own, so that there is a time before anybody watched.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use tokio::time::sleep;

use super::page::{Page, with_session};
use super::viewer::{INTERVAL_MS, Viewer};
use crate::measure::say;
use crate::sessions::rig::{Agent, Gateway, Rig};
use crate::sessions::tree::Work;

/// After a scene has been set.
const SETTLE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) rounds: usize,
    /// How long each scene takes, in each round.
    pub(super) time: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Scene {
    pub(super) page: Page,
    pub(super) viewers: usize,
    /// Whether anybody has watched the session before.
    pub(super) was_watched: bool,
}

/// In the order in which they are played.
const SCENES: [Scene; 6] = [
    Scene { page: Page::Moving, viewers: 0, was_watched: false },
    Scene { page: Page::Moving, viewers: 1, was_watched: false },
    Scene { page: Page::Moving, viewers: 10, was_watched: true },
    Scene { page: Page::Moving, viewers: 0, was_watched: true },
    Scene { page: Page::Still, viewers: 0, was_watched: true },
    Scene { page: Page::Still, viewers: 1, was_watched: true },
];

pub(super) struct Lane {
    pub(super) scene: Scene,
    /// In each second, by round.
    pub(super) work: Vec<Work>,
}

pub(super) async fn measure(plan: Plan, rig: &Rig<'_>) -> Result<Vec<Lane>> {
    with_session(rig, None, "first", async |gateway, first| {
        // Another session stays, so that the browser does too.
        Page::Still.show(first, rig).await?;
        let mut lanes = SCENES.map(|scene| Lane { scene, work: Vec::new() });
        for round in 1..=plan.rounds {
            say(format_args!("processor time: round {round} of {}", plan.rounds));
            let session = format!("work-{round}");
            let mut agent = gateway.agent(session.clone()).await?;
            Page::Still.show(&mut agent, rig).await?;
            gateway.tree().rest().await;
            for lane in &mut lanes {
                lane.add_round(plan.time, rig, gateway, &session, &mut agent).await?;
            }
            agent.close().await?;
        }
        Ok(lanes.into())
    })
    .await
}

impl Lane {
    async fn add_round(
        &mut self,
        time: Duration,
        rig: &Rig<'_>,
        gateway: &Gateway,
        session: &str,
        agent: &mut Agent,
    ) -> Result<()> {
        self.scene.page.show(agent, rig).await?;
        let mut watching = Vec::new();
        for _ in 0..self.scene.viewers {
            let mut viewer = Viewer::open(gateway, session, INTERVAL_MS).await?;
            viewer.until_frame().await?;
            watching.push(viewer.keep_watching());
        }
        sleep(SETTLE).await;
        let (tree, began) = (gateway.tree(), Instant::now());
        let before = tree.work();
        sleep(time).await;
        self.work.push(tree.work().since(&before, began.elapsed().as_secs_f64()));
        for viewer in watching {
            viewer.end().await?;
        }
        Ok(())
    }
}
