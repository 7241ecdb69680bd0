//! Waiting on a condition instead of on the clock.

use std::thread;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(10);

/// Polls `condition` until it holds.
///
/// # Panics
///
/// When it does not hold within `limit`, naming `what` was waited for.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < until, "waited {limit:?} in vain for: {what}");
        thread::sleep(POLL);
    }
}
