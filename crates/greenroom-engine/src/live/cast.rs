//! One capture of a session's page, for all who watch it in the same size and quality.
//!
//! A picture is only taken while somebody wishes for one; who is slow, or has had enough for the moment, does not wish. The
//! pump follows the session from browser to browser.

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use greenroom_upstream::live::{Cast, CastOptions};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::fleet::SessionSeat;
use crate::sessions::Session;

/// How often a page is looked at whose browser has no screencast, unless a call has just been answered.
const POLL_EVERY: Duration = Duration::from_millis(500);
const POLL_LIMIT: Duration = Duration::from_secs(10);

/// How soon a capture that could not be started is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// A page at one moment.
#[derive(Debug)]
pub struct Picture {
    /// Grows with every picture of a session.
    pub sequence: u64,
    pub jpeg: Bytes,
    pub captured: SystemTime,
    /// What it shows, in CSS pixels.
    pub viewport: (u32, u32),
    pub(super) arrived: Instant,
}

/// What the pump and the viewers share.
pub(super) struct Hub {
    pub(super) newest: watch::Sender<Option<Arc<Picture>>>,
    wishes: watch::Sender<usize>,
}

/// Somebody wants a picture.
pub(super) struct Wish<'a>(&'a Hub);

impl Hub {
    pub(super) fn wish(&self) -> Wish<'_> {
        self.wishes.send_modify(|count| *count += 1);
        Wish(self)
    }

    async fn wished(&self) {
        let mut wishes = self.wishes.subscribe();
        let _ = wishes.wait_for(|count| *count > 0).await;
    }

    fn publish(&self, picture: Picture) {
        self.newest.send_replace(Some(Arc::new(picture)));
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.0.wishes.send_modify(|count| *count -= 1);
    }
}

/// A capture under way. It ends with the last who watches.
pub(crate) struct SharedCast {
    pub(super) hub: Arc<Hub>,
    pump: AbortHandle,
}

impl Drop for SharedCast {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

impl SharedCast {
    /// The capture of that size and quality, started if there is none.
    pub(super) fn of(session: &Arc<Session>, options: CastOptions) -> Arc<Self> {
        let mut casts = session.live.casts();
        casts.retain(|_, cast| cast.strong_count() > 0);
        if let Some(cast) = casts.get(&options).and_then(Weak::upgrade) {
            return cast;
        }
        let hub = Arc::new(Hub { newest: watch::channel(None).0, wishes: watch::channel(0).0 });
        let pump = tokio::spawn(pump(Arc::downgrade(session), options, Arc::clone(&hub))).abort_handle();
        let cast = Arc::new(Self { hub, pump });
        casts.insert(options, Arc::downgrade(&cast));
        cast
    }
}

/// Captures, from one browser of the session after another.
async fn pump(session: Weak<Session>, options: CastOptions, hub: Arc<Hub>) {
    loop {
        let Some(strong) = session.upgrade() else { return };
        let mut changes = strong.live.changes();
        let seat = strong.browser();
        drop(strong);
        let Some(seat) = seat else {
            if changes.changed().await.is_err() {
                return;
            }
            continue;
        };
        let cast = match seat.upstream.live().filter(greenroom_upstream::live::Live::has_cast) {
            Some(live) => Some(live.cast(options).await),
            None => None,
        };
        match cast {
            Some(Ok(cast)) => {
                // The browser is not kept by who watches it.
                drop(seat);
                from_cast(cast, &session, &hub).await;
            }
            Some(Err(error)) => tracing::debug!(%error, "a page could not be captured"),
            None => from_polls(seat, &session, &hub).await,
        }
        sleep(RETRY).await;
    }
}

async fn from_cast(mut cast: Cast, session: &Weak<Session>, hub: &Hub) {
    loop {
        hub.wished().await;
        let Some(frame) = cast.next().await else { return };
        let Some(session) = session.upgrade() else { return };
        hub.publish(Picture {
            sequence: session.live.next_picture(),
            jpeg: frame.jpeg,
            captured: frame.captured,
            viewport: frame.viewport,
            arrived: Instant::now(),
        });
    }
}

/// Takes screenshots through MCP, in turn with the session's calls.
async fn from_polls(seat: Arc<SessionSeat>, session: &Weak<Session>, hub: &Hub) {
    let (mut last, mut calls, mut due) = (Bytes::new(), None, Instant::now());
    loop {
        hub.wished().await;
        let Some(strong) = session.upgrade() else { return };
        let mut changes = strong.live.changes();
        // A page that a call has just changed is looked at at once.
        while Some(strong.calls()) == calls && Instant::now() < due {
            tokio::select! {
                () = sleep_until(due) => {}
                _ = changes.changed() => {}
            }
        }
        let is_same = |now: &Arc<SessionSeat>| Arc::ptr_eq(now, &seat);
        if !strong.browser().as_ref().is_some_and(is_same) {
            return;
        }
        let Some((tool, arguments)) = strong.fleet.driver.screenshot_call() else {
            let _ = changes.changed().await;
            continue;
        };
        let turn = strong.turn().await;
        calls = Some(strong.calls());
        let picture = match seat.upstream.call(tool, &arguments, None) {
            Ok(pending) => timeout(POLL_LIMIT, pending).await,
            Err(_) => return,
        };
        drop(turn);
        due = Instant::now() + POLL_EVERY;
        let Some(jpeg) = picture.ok().and_then(Result::ok).as_deref().and_then(image) else { continue };
        if jpeg == last {
            continue;
        }
        last = jpeg.clone();
        hub.publish(Picture {
            sequence: strong.live.next_picture(),
            viewport: jpeg_size(&jpeg).unwrap_or_default(),
            jpeg,
            captured: SystemTime::now(),
            arrived: Instant::now(),
        });
    }
}

/// The image that a result holds.
pub(crate) fn image(result: &[u8]) -> Option<Bytes> {
    let result: Value = serde_json::from_slice(result).ok()?;
    let data =
        result["content"].as_array()?.iter().find(|block| block["type"] == "image")?["data"].as_str()?;
    STANDARD.decode(data).ok().map(Bytes::from)
}

/// Width and height, from the head of a JPEG.
pub(crate) fn jpeg_size(jpeg: &[u8]) -> Option<(u32, u32)> {
    let mut rest = jpeg.strip_prefix(&[0xFF, 0xD8])?;
    loop {
        let [0xFF, marker, high, low, ..] = *rest else { return None };
        // Segments that begin a frame; three of their numbers are something else.
        if matches!(marker, 0xC0..=0xCF) && !matches!(marker, 0xC4 | 0xC8 | 0xCC) {
            let [height, width] = [rest.get(5..7)?, rest.get(7..9)?];
            let number = |bytes: &[u8]| u32::from(bytes[0]) << 8 | u32::from(bytes[1]);
            return Some((number(width), number(height)));
        }
        rest = rest.get(2 + usize::from(u16::from_be_bytes([high, low]))..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::jpeg_size;

    #[test]
    fn the_size_of_a_jpeg_is_in_its_head() {
        let head = [
            0xFF, 0xD8, 0xFF, 0xE0, 0, 4, 1, 2, 0xFF, 0xC4, 0, 3, 9, 0xFF, 0xC2, 0, 11, 8, 2, 0xD0, 5, 0, 3,
            0, 0, 0,
        ];
        assert_eq!(jpeg_size(&head), Some((1280, 720)));
        assert_eq!(jpeg_size(&head[..14]), None);
        assert_eq!(jpeg_size(b"\x89PNG"), None);
    }
}
