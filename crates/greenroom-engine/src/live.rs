//! Sessions as a person sees them: what they look like from outside, the pictures of their pages, and a hand inside.
//!
//! ```text
//!   page ──► cast (one for each size and quality) ──► viewer, at its own pace
//!   person ──► the page, beside the agent's calls; or in their place, while they have control
//! ```
//!
//! Nothing is captured unless somebody watches. Watching is no activity, and takes nothing from calls but processor time.

pub(crate) mod cast;
pub(crate) mod person;
pub(crate) mod viewer;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use greenroom_upstream::live::{CastOptions, Dialog, Tab};
use tokio::sync::watch;

use cast::SharedCast;

/// How a session is, as the service tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStatus {
    /// It has no browser yet.
    Starting,
    Running,
    /// Its browser could not be started, or is lost. The next call tries again.
    Error,
    /// It has ended.
    Stopped,
}

/// Where pictures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pictures {
    Screencast,
    /// Screenshots, taken again and again.
    Polling,
    None,
}

/// What a session was started for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conversation {
    pub conversation: String,
    pub profile: String,
}

/// What is to be seen of a session from outside.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionView {
    pub id: String,
    pub status: SessionStatus,
    pub url: Option<String>,
    pub title: Option<String>,
    pub viewport: Option<(u32, u32)>,
    pub tabs: Vec<Tab>,
    pub dialog: Option<Dialog>,
    pub created: SystemTime,
    pub last_activity: SystemTime,
    pub conversation: Option<Conversation>,
    pub pool: String,
    pub seat: String,
    pub calls: u64,
    pub is_busy: bool,
    /// What is left of its idle time, where it runs out.
    pub idle_left: Option<Duration>,
    pub viewers: usize,
    /// Since when a person has control, if one has.
    pub control: Option<SystemTime>,
    pub error: Option<String>,
    pub pictures: Pictures,
    pub can_input: bool,
}

impl SessionView {
    /// Whether two say the same, but for the time that passes.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let timeless = |view: &Self| Self { idle_left: None, ..view.clone() };
        timeless(self) == timeless(other)
    }
}

/// The part of a session that is for those who watch.
pub(crate) struct Live {
    /// Counts whatever has changed.
    changes: watch::Sender<u64>,
    casts: Mutex<HashMap<CastOptions, Weak<SharedCast>>>,
    viewers: AtomicUsize,
    /// The number of the last picture.
    pictures: AtomicU64,
}

impl Live {
    pub(crate) fn new() -> Self {
        Self {
            changes: watch::channel(0).0,
            casts: Mutex::default(),
            viewers: AtomicUsize::new(0),
            pictures: AtomicU64::new(0),
        }
    }

    pub(crate) fn touch(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn viewers(&self) -> usize {
        self.viewers.load(Ordering::Relaxed)
    }

    fn next_picture(&self) -> u64 {
        self.pictures.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn casts(&self) -> MutexGuard<'_, HashMap<CastOptions, Weak<SharedCast>>> {
        self.casts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
