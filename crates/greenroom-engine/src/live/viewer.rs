//! Somebody who watches a session.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use greenroom_upstream::live::CastOptions;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::SessionView;
use super::cast::{Picture, SharedCast};
use crate::sessions::Session;

/// A picture of this age may be about to be replaced, and a newer one is waited for as long again.
const FRESH: Duration = Duration::from_millis(50);

/// How often a viewer is told that the session has changed, at most.
const STATE_EVERY: Duration = Duration::from_millis(50);

/// What a viewer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewOptions {
    /// Of the JPEG, 1 to 100.
    pub quality: u8,
    /// In pixels. A picture that is smaller stays as it is.
    pub max_width: u32,
    /// From one picture to the next, at least.
    pub interval: Duration,
}

impl ViewOptions {
    fn cast(self) -> CastOptions {
        CastOptions { quality: self.quality, max_width: self.max_width }
    }
}

/// What there is to see.
#[derive(Debug)]
pub enum Sight {
    State(Box<SessionView>),
    Picture(Arc<Picture>),
    /// The session has ended, and why.
    Gone(String),
}

pub struct Viewer {
    session: Arc<Session>,
    options: ViewOptions,
    cast: Arc<SharedCast>,
    newest: watch::Receiver<Option<Arc<Picture>>>,
    changes: watch::Receiver<u64>,
    told: Option<SessionView>,
    /// When the state may be told again.
    state_due: Instant,
    /// The last picture that was handed out.
    seen: u64,
    picture_due: Instant,
    /// Until when a newer picture is waited for than the one that is there.
    grace: Option<Instant>,
}

impl Viewer {
    pub(crate) fn new(session: Arc<Session>, options: ViewOptions) -> Self {
        session.live.viewers.fetch_add(1, Ordering::Relaxed);
        session.touch();
        let cast = SharedCast::of(&session, options.cast());
        let now = Instant::now();
        Self {
            newest: cast.hub.newest.subscribe(),
            changes: session.live.changes(),
            session,
            options,
            cast,
            told: None,
            state_due: now,
            seen: 0,
            picture_due: now,
            grace: None,
        }
    }

    pub fn options(&self) -> ViewOptions {
        self.options
    }

    /// Wants something else from now on.
    pub fn set_options(&mut self, options: ViewOptions) {
        if options.cast() != self.options.cast() {
            self.cast = SharedCast::of(&self.session, options.cast());
            self.newest = self.cast.hub.newest.subscribe();
        }
        self.options = options;
        self.picture_due = self.picture_due.min(Instant::now() + options.interval);
    }

    /// Has the picture of that number already, from a connection before this one.
    pub fn resume_after(&mut self, sequence: u64) {
        self.seen = sequence;
    }

    /// What is new, the state before pictures. A picture only when it is wanted: whoever cannot take one now does not cause
    /// one. May be dropped at any time, and asked again.
    pub async fn next(&mut self, wants_picture: bool) -> Sight {
        loop {
            if let Some(reason) = self.session.closed() {
                return Sight::Gone(reason);
            }
            let is_changed = self.told.is_none() || self.changes.has_changed().unwrap_or(false);
            if is_changed && Instant::now() >= self.state_due {
                self.changes.mark_unchanged();
                let view = self.session.view();
                if !self.told.as_ref().is_some_and(|told| told.is_like(&view)) {
                    self.told = Some(view.clone());
                    self.state_due = Instant::now() + STATE_EVERY;
                    return Sight::State(Box::new(view));
                }
                continue;
            }
            let Self { changes, state_due, newest, cast, grace, .. } = self;
            let picture = picture(cast, newest, self.seen, self.picture_due, grace);
            tokio::select! {
                biased;
                () = sleep_until(*state_due), if is_changed => {}
                // `has_changed` is asked above; this only wakes, and may not use it up.
                () = woken(changes), if !is_changed => {}
                picture = picture, if wants_picture => {
                    self.seen = picture.sequence;
                    self.grace = None;
                    self.picture_due = (self.picture_due + self.options.interval).max(Instant::now());
                    return Sight::Picture(picture);
                }
            }
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.session.live.viewers.fetch_sub(1, Ordering::Relaxed);
        self.session.touch();
    }
}

/// Waits for a change without taking note of it.
async fn woken(changes: &watch::Receiver<u64>) {
    let mut changes = changes.clone();
    if changes.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A picture that has not been seen, not before its time.
async fn picture(
    cast: &SharedCast,
    newest: &mut watch::Receiver<Option<Arc<Picture>>>,
    seen: u64,
    due: Instant,
    grace: &mut Option<Instant>,
) -> Arc<Picture> {
    sleep_until(due).await;
    let _wish = cast.hub.wish();
    let unseen = |newest: &watch::Receiver<Option<Arc<Picture>>>| {
        newest.borrow().as_ref().filter(|picture| picture.sequence > seen).cloned()
    };
    let mut there = unseen(newest);
    if there.as_ref().is_some_and(|picture| picture.arrived.elapsed() > FRESH) {
        // Taken for somebody else, some time ago.
        let until = *grace.get_or_insert_with(|| Instant::now() + FRESH);
        newest.mark_unchanged();
        let _ = timeout_at(until, newest.changed()).await;
        there = unseen(newest);
    }
    loop {
        if let Some(picture) = there {
            return picture;
        }
        if newest.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        there = unseen(newest);
    }
}
