//! A wait that something else can cut short.
//!
//! Closed at first, opened once, never closed again. A call that sleeps waits on one, so that a cancellation
//! ends it at once; so does a slow page, so that stopping the site does not wait for it.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::lock::lock;

#[derive(Default)]
pub(crate) struct Latch {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Latch {
    pub(crate) fn open(&self) {
        *lock(&self.open) = true;
        self.opened.notify_all();
    }

    pub(crate) fn is_open(&self) -> bool {
        *lock(&self.open)
    }

    /// Waits until the latch opens, at most `limit`. True if it opened.
    pub(crate) fn wait_for(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut open = lock(&self.open);
        while !*open {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            open = self.opened.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *open
    }

    pub(crate) fn wait(&self) {
        let mut open = lock(&self.open);
        while !*open {
            open = self.opened.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
