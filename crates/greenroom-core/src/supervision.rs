//! When an upstream is ill, when it is started again, and when it is given up: decisions, with the time passed in.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How supervision is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supervision {
    pub check_interval: Duration,
    pub check_timeout: Duration,
    /// Misses in a row that make an upstream ill for good.
    pub check_failures: u32,
    pub restart_max: u32,
    pub restart_window: Duration,
    /// The first pause before a restart; each further one in the window is twice as long.
    pub restart_pause: Duration,
}

impl Default for Supervision {
    fn default() -> Self {
        Self {
            check_interval: Duration::from_secs(20),
            check_timeout: Duration::from_secs(5),
            check_failures: 3,
            restart_max: 3,
            restart_window: Duration::from_secs(300),
            restart_pause: Duration::from_secs(1),
        }
    }
}

/// What follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// Start again after the pause; `attempt` counts within the window, from 1.
    Restart { attempt: u32, pause: Duration },
    /// The budget is spent: a person has to look.
    GiveUp,
}

/// How many restarts are left. Old ones are forgiven as they leave the window.
#[derive(Clone, Debug)]
pub struct RestartBudget {
    max: u32,
    window: Duration,
    pause: Duration,
    recent: VecDeque<Instant>,
}

impl RestartBudget {
    pub fn new(supervision: &Supervision) -> Self {
        Self {
            max: supervision.restart_max,
            window: supervision.restart_window,
            pause: supervision.restart_pause,
            recent: VecDeque::new(),
        }
    }

    pub fn after_failure(&mut self, now: Instant) -> AfterFailure {
        while self.recent.front().is_some_and(|then| now.duration_since(*then) >= self.window) {
            self.recent.pop_front();
        }
        let used = u32::try_from(self.recent.len()).unwrap_or(u32::MAX);
        if used >= self.max {
            return AfterFailure::GiveUp;
        }
        self.recent.push_back(now);
        let pause = self.pause.saturating_mul(1 << used.min(10));
        AfterFailure::Restart { attempt: used + 1, pause }
    }

    /// A person asked for it: begin with a full budget.
    pub fn refill(&mut self) {
        self.recent.clear();
    }
}

/// Health as the checks see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Well,
    /// Missed some, and may come back by itself.
    Missing(u32),
    /// Missed too many.
    Ill,
}

/// Counts missed checks in a row.
#[derive(Clone, Debug)]
pub struct HealthTally {
    limit: u32,
    misses: u32,
}

impl HealthTally {
    pub fn new(supervision: &Supervision) -> Self {
        Self { limit: supervision.check_failures.max(1), misses: 0 }
    }

    pub fn answered(&mut self) -> Health {
        self.misses = 0;
        Health::Well
    }

    pub fn missed(&mut self) -> Health {
        self.misses = self.misses.saturating_add(1);
        if self.misses >= self.limit { Health::Ill } else { Health::Missing(self.misses) }
    }

    /// The clock has jumped: the machine slept, or we did. What was missed then says nothing.
    pub fn begin_anew(&mut self) {
        self.misses = 0;
    }
}

/// Whether so much more time than planned has passed between two looks that something must have slept.
pub fn is_jump(planned: Duration, passed: Duration) -> bool {
    passed > planned * 2 + Duration::from_secs(5)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{AfterFailure, Health, HealthTally, RestartBudget, Supervision, is_jump};

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn restarts_come_after_one_two_and_four_seconds_and_then_no_more() {
        let mut budget = RestartBudget::new(&Supervision::default());
        let now = Instant::now();
        let restart = |attempt, pause| AfterFailure::Restart { attempt, pause: seconds(pause) };
        assert_eq!(budget.after_failure(now), restart(1, 1));
        assert_eq!(budget.after_failure(now + seconds(2)), restart(2, 2));
        assert_eq!(budget.after_failure(now + seconds(5)), restart(3, 4));
        assert_eq!(budget.after_failure(now + seconds(10)), AfterFailure::GiveUp);
    }

    #[test]
    fn old_restarts_are_forgiven_one_by_one() {
        let mut budget = RestartBudget::new(&Supervision::default());
        let now = Instant::now();
        for offset in [0, 100, 200] {
            budget.after_failure(now + seconds(offset));
        }
        assert_eq!(budget.after_failure(now + seconds(299)), AfterFailure::GiveUp);
        let again = budget.after_failure(now + seconds(300));
        assert_eq!(again, AfterFailure::Restart { attempt: 3, pause: seconds(4) });
        assert_eq!(budget.after_failure(now + seconds(301)), AfterFailure::GiveUp);
    }

    #[test]
    fn a_restart_by_hand_begins_with_a_full_budget() {
        let mut budget = RestartBudget::new(&Supervision { restart_max: 1, ..Supervision::default() });
        let now = Instant::now();
        budget.after_failure(now);
        assert_eq!(budget.after_failure(now), AfterFailure::GiveUp);
        budget.refill();
        assert_ne!(budget.after_failure(now), AfterFailure::GiveUp);
    }

    #[test]
    fn with_no_restarts_allowed_the_first_failure_is_the_last() {
        let mut budget = RestartBudget::new(&Supervision { restart_max: 0, ..Supervision::default() });
        assert_eq!(budget.after_failure(Instant::now()), AfterFailure::GiveUp);
    }

    #[test]
    fn three_misses_in_a_row_make_ill_and_an_answer_between_does_not() {
        let mut tally = HealthTally::new(&Supervision::default());
        assert_eq!(tally.missed(), Health::Missing(1));
        assert_eq!(tally.missed(), Health::Missing(2));
        assert_eq!(tally.answered(), Health::Well);
        tally.missed();
        tally.missed();
        assert_eq!(tally.missed(), Health::Ill);
    }

    #[test]
    fn a_jump_of_the_clock_forgives_what_was_missed() {
        let mut tally = HealthTally::new(&Supervision::default());
        tally.missed();
        tally.missed();
        tally.begin_anew();
        assert_eq!(tally.missed(), Health::Missing(1));
    }

    #[test]
    fn a_late_look_is_no_jump_but_a_sleep_is() {
        assert!(!is_jump(seconds(20), seconds(25)));
        assert!(!is_jump(seconds(20), seconds(45)));
        assert!(is_jump(seconds(20), seconds(3600)));
    }
}
