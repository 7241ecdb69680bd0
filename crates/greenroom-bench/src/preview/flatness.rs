//! Whether anything piles up for a viewer who does not read, beside one who does.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use tokio::time::timeout;

use super::page::{Page, with_session};
use super::viewer::{Seen, Stalled, Viewer};
use crate::measure::say;
use crate::report::megabytes;
use crate::sessions::rig::{Gateway, Rig};

const SESSION: &str = "flatness";
/// As fast as may be asked for.
const INTERVAL_MS: u64 = 16;
/// So many come before memory is looked at for the first time.
const WARM_UP: usize = 100;
/// What may pass until the next one comes.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often memory is looked at after that.
const READINGS: usize = 10;

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) frames: usize,
    /// It ends here, however many have come.
    pub(super) budget: Duration,
}

#[derive(Debug, Serialize)]
pub(super) struct Figures {
    pub(super) frames: usize,
    pub(super) bytes: usize,
    pub(super) seconds: f64,
    pub(super) readings: Vec<Reading>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Reading {
    /// So many had come by then.
    pub(super) frames: usize,
    /// Resident memory.
    pub(super) greenroom_mb: f64,
    /// Proportional set size.
    pub(super) node_mb: f64,
}

impl Figures {
    /// The readings at the beginning, in the middle and at the end.
    pub(super) fn landmarks(&self) -> Option<[Reading; 3]> {
        let (first, last) = (self.readings.first()?, self.readings.last()?);
        let middle = self.readings.iter().find(|reading| reading.frames * 2 >= last.frames)?;
        Some([*first, *middle, *last])
    }

    /// What Greenroom has more at the end than in the middle.
    pub(super) fn growth_mb(&self) -> Option<f64> {
        self.landmarks().map(|[_, middle, end]| end.greenroom_mb - middle.greenroom_mb)
    }

    pub(super) fn bytes_per_frame(&self) -> f64 {
        self.bytes as f64 / self.frames as f64
    }

    fn read(&mut self, gateway: &Gateway) {
        let (greenroom_mb, node_mb) = (megabytes(gateway.rss_kb()), gateway.tree().memory().node);
        say(format_args!("memory: {greenroom_mb:.1} MB after {} frames", self.frames));
        self.readings.push(Reading { frames: self.frames, greenroom_mb, node_mb });
    }
}

pub(super) async fn measure(plan: Plan, rig: &Rig<'_>) -> Result<Figures> {
    with_session(rig, None, SESSION, async |gateway, agent| {
        Page::Moving.show(agent, rig).await?;
        let mut stalled = Stalled::open(gateway, SESSION, INTERVAL_MS).await?;
        let mut viewer = Viewer::open(gateway, SESSION, INTERVAL_MS).await?;
        viewer.until_viewers(2).await?;
        for _ in 0..WARM_UP {
            viewer.until_frame().await?;
        }
        let began = Instant::now();
        let mut figures = Figures { frames: 0, bytes: 0, seconds: 0.0, readings: Vec::new() };
        figures.read(gateway);
        while figures.frames < plan.frames && began.elapsed() < plan.budget {
            match timeout(PATIENCE, viewer.next()).await.context("no frame came")?? {
                Seen::Frame(frame) => figures.bytes += frame.bytes,
                Seen::State(state) => {
                    ensure!(state.viewers == 2, "the one who does not read was sent away");
                    continue;
                }
                Seen::Done(_) => continue,
            }
            stalled.stay().await?;
            figures.frames += 1;
            if figures.frames.is_multiple_of(plan.frames / READINGS) {
                figures.read(gateway);
            }
        }
        figures.seconds = began.elapsed().as_secs_f64();
        if figures.frames < plan.frames {
            figures.read(gateway);
        }
        Ok(figures)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_from_the_middle_to_the_end() {
        let readings = [(0, 20.0), (250, 28.0), (500, 30.0), (750, 40.0), (1000, 33.0)]
            .map(|(frames, greenroom_mb)| Reading { frames, greenroom_mb, node_mb: 0.0 });
        let figures = Figures { frames: 1000, bytes: 5000, seconds: 1.0, readings: readings.into() };
        assert_eq!(figures.landmarks().unwrap().map(|reading| reading.frames), [0, 500, 1000]);
        assert!((figures.growth_mb().unwrap() - 3.0).abs() < 1e-9);
        assert!((figures.bytes_per_frame() - 5.0).abs() < 1e-9);
        assert!(Figures { readings: Vec::new(), ..figures }.growth_mb().is_none());
    }
}
