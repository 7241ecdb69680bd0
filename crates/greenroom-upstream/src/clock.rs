//! Noticing that the machine has slept.
//!
//! Deadlines run on monotonic time, which on Linux stands still while the machine is suspended, so none passes then.
//! Health is another matter: what a browser missed while everything slept says nothing about it.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// How much the machine has slept since it was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slept(Duration);

pub(crate) fn slept() -> Slept {
    let read = |clock: ClockId| clock_gettime(clock).map(Duration::from).unwrap_or_default();
    Slept(read(ClockId::CLOCK_BOOTTIME).saturating_sub(read(ClockId::CLOCK_MONOTONIC)))
}

impl Slept {
    /// Whether it has slept since that earlier look. Reading two clocks takes a moment, hence the second.
    pub(crate) fn more_than(self, earlier: Self) -> bool {
        self.0.saturating_sub(earlier.0) > Duration::from_secs(1)
    }
}
