//! Latencies, and what is said about them.

use std::time::Duration;

use serde::Serialize;

/// The latencies of one kind of call on one route, round by round.
#[derive(Default)]
pub(crate) struct Samples(Vec<Vec<Duration>>);

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) calls: usize,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// How far the rounds are apart tells how quiet the machine was.
    pub(crate) p50_ms_by_round: Vec<f64>,
}

/// What is said about times that are not calls.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Spread {
    pub(crate) count: usize,
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
}

impl Spread {
    /// `None` where there are none.
    pub(crate) fn of(times: &[Duration]) -> Option<Self> {
        Some(Self {
            count: times.len(),
            p50_ms: millis(percentile(times, 50.0)?),
            p95_ms: millis(percentile(times, 95.0)?),
        })
    }
}

impl Samples {
    pub(crate) fn add_round(&mut self, latencies: Vec<Duration>) {
        self.0.push(latencies);
    }

    /// `None` where there were no calls.
    pub(crate) fn summary(&self) -> Option<Summary> {
        let all: Vec<_> = self.0.iter().flatten().copied().collect();
        Some(Summary {
            calls: all.len(),
            p50_ms: millis(percentile(&all, 50.0)?),
            p99_ms: millis(percentile(&all, 99.0)?),
            p50_ms_by_round: self.0.iter().filter_map(|round| percentile(round, 50.0)).map(millis).collect(),
        })
    }
}

/// The nearest-rank percentile: the smallest latency that at least `percent` of all are not above.
pub(crate) fn percentile(latencies: &[Duration], percent: f64) -> Option<Duration> {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// The middle one, or the upper of the two in the middle.
pub(crate) fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(numbers: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        numbers.into_iter().map(Duration::from_millis).collect()
    }

    #[test]
    fn a_percentile_is_one_of_the_samples() {
        let hundred = ms((1..=100).rev());
        assert_eq!(percentile(&hundred, 50.0), Some(Duration::from_millis(50)));
        assert_eq!(percentile(&hundred, 99.0), Some(Duration::from_millis(99)));
        assert_eq!(percentile(&hundred, 100.0), Some(Duration::from_millis(100)));
        assert_eq!(percentile(&hundred, 0.0), Some(Duration::from_millis(1)));
    }

    #[test]
    fn few_samples_give_their_largest_as_the_99th() {
        assert_eq!(percentile(&ms([3, 1, 2]), 99.0), Some(Duration::from_millis(3)));
        assert_eq!(percentile(&ms([3, 1, 2]), 50.0), Some(Duration::from_millis(2)));
        assert_eq!(percentile(&ms([7]), 50.0), Some(Duration::from_millis(7)));
    }

    #[test]
    fn a_spread_has_a_middle_and_nearly_an_end() {
        let Spread { count, p50_ms, p95_ms } = Spread::of(&ms((1..=20).rev())).unwrap();
        assert_eq!((count, p50_ms as u64, p95_ms as u64), (20, 10, 19));
        assert_eq!(median(&[3.0, 9.0, 1.0]), Some(3.0));
        assert_eq!(median(&[3.0, 1.0]), Some(3.0));
    }

    #[test]
    fn nothing_has_no_percentile() {
        assert!(Spread::of(&[]).is_none());
        assert_eq!(median(&[]), None);
        assert_eq!(percentile(&[], 50.0), None);
        assert!(Samples::default().summary().is_none());
    }

    #[test]
    fn a_summary_covers_all_rounds_and_shows_each() {
        let mut samples = Samples::default();
        samples.add_round(ms([1, 1, 1]));
        samples.add_round(ms([9, 9, 9, 9]));
        let summary = samples.summary().unwrap();
        assert_eq!(summary.calls, 7);
        assert!((summary.p50_ms - 9.0).abs() < 1e-9);
        assert_eq!(summary.p50_ms_by_round.len(), 2);
        assert!((summary.p50_ms_by_round[0] - 1.0).abs() < 1e-9);
    }
}
