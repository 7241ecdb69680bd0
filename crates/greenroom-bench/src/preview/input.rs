//! How soon a page knows of a click, and how soon the one who clicked does.
//!
//! The page's title says when it was clicked, by the same clock.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use tokio::time::{sleep, timeout};

use super::page::{Page, with_session};
use super::viewer::{Frame, INTERVAL_MS, Seen, Viewer};
use crate::measure::say;
use crate::sessions::rig::Rig;

const SESSION: &str = "input";
/// Somewhere in the lower half of the usual viewport.
const PLACE: (u32, u32) = (640, 540);
/// Between two clicks. It is not a multiple of anything that goes on.
const PAUSE: Duration = Duration::from_millis(173);
/// What one click may take.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) clicks: u64,
}

/// Times from the message that was sent up.
pub(super) struct Lane {
    pub(super) page: Page,
    /// To the page's own handler.
    pub(super) reached: Vec<Duration>,
    /// To the answer that it is done.
    pub(super) done: Vec<Duration>,
    /// To a state that has the title which the handler set.
    pub(super) told: Vec<Duration>,
    /// To a frame that was captured after the handler ran.
    pub(super) shown: Vec<Duration>,
}

pub(super) async fn measure(plan: Plan, rig: &Rig<'_>) -> Result<Vec<Lane>> {
    with_session(rig, None, SESSION, async |gateway, agent| {
        let mut lanes = Vec::new();
        for page in [Page::Still, Page::Moving] {
            say(format_args!("input: {} clicks", plan.clicks));
            page.show(agent, rig).await?;
            let mut viewer = Viewer::open(gateway, SESSION, INTERVAL_MS).await?;
            viewer.until_frame().await?;
            let mut lane = Lane::new(page);
            for number in 1..=plan.clicks {
                viewer.watch(PAUSE).await?;
                timeout(PATIENCE, lane.click(number, &mut viewer))
                    .await
                    .with_context(|| format!("click {number} was not seen"))??;
            }
            lanes.push(lane);
            // The next viewer is to be the only one.
            drop(viewer);
            sleep(PAUSE).await;
        }
        Ok(lanes)
    })
    .await
}

impl Lane {
    fn new(page: Page) -> Self {
        Self { page, reached: Vec::new(), done: Vec::new(), told: Vec::new(), shown: Vec::new() }
    }

    async fn click(&mut self, number: u64, viewer: &mut Viewer) -> Result<()> {
        let (began, sent) = (Instant::now(), SystemTime::now());
        viewer.click(number, PLACE).await?;
        let (mut done, mut told) = (None, None);
        let mut frames: Vec<Frame> = Vec::new();
        loop {
            match viewer.next().await? {
                Seen::Done(id) if id == number => done = Some(began.elapsed()),
                Seen::Done(_) => {}
                Seen::Frame(frame) => frames.push(frame),
                Seen::State(state) => {
                    if let Some(reached) = clicked(&state.page_title, number) {
                        told.get_or_insert((began.elapsed(), reached));
                    }
                }
            }
            let Some((done, (told, reached))) = done.zip(told) else { continue };
            if let Some(frame) = frames.iter().find(|frame| frame.captured >= reached) {
                self.done.push(done);
                self.told.push(told);
                // The page's clock has whole milliseconds.
                self.reached.push(reached.duration_since(sent).unwrap_or_default());
                self.shown.push(frame.arrived.duration_since(sent).unwrap_or_default());
                return Ok(());
            }
        }
    }
}

/// When the page was clicked for the `number`th time, if the title tells of that.
fn clicked(title: &str, number: u64) -> Option<SystemTime> {
    let (count, time) = title.strip_prefix("Click ")?.split_once(" at ")?;
    let is_it = count.parse() == Ok(number);
    is_it.then_some(SystemTime::UNIX_EPOCH + Duration::from_millis(time.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_tells_of_a_click() {
        let at = |ms| Some(SystemTime::UNIX_EPOCH + Duration::from_millis(ms));
        assert_eq!(clicked("Click 7 at 1500", 7), at(1500));
        assert_eq!(clicked("Click 6 at 1500", 7), None);
        assert_eq!(clicked("Target - Test site", 7), None);
        assert_eq!(clicked("Click 7 at noon", 7), None);
    }
}
