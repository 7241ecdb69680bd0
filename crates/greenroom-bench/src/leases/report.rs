//! What is said about a run of `leases`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::pool::{self, CALLERS, INSTANCES};
use super::queue::{Cost, Figures, Memory};
use crate::machine::Machine;
use crate::promise::Judged;
use crate::samples::Summary;

/// The promise about the longest line.
const LONG_LINE: usize = 10_000;
const HAND_ON_US: f64 = 5.0;
/// What resident memory moves by for reasons of the allocator's own.
const NOISE_MB: f64 = 1.0;

#[derive(Serialize)]
pub(super) struct Report {
    machine: Machine,
    queue: Figures,
    callers: usize,
    instances: usize,
    sides: Vec<SideReport>,
    verdict: Vec<Judged>,
}

#[derive(Serialize)]
struct SideReport {
    name: &'static str,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Ran(Box<SideFigures>),
    NotRun { reason: String },
}

#[derive(Serialize)]
struct SideFigures {
    /// The median of the rounds.
    calls_per_second: f64,
    calls_per_second_by_round: Vec<f64>,
    /// The waiting included.
    call: Summary,
    waited: Option<Summary>,
    by_instance: BTreeMap<String, usize>,
}

impl Report {
    pub(super) fn new(machine: Machine, queue: Figures, lanes: Vec<pool::Lane>) -> Self {
        Self {
            machine,
            verdict: judge(&queue),
            queue,
            callers: CALLERS,
            instances: INSTANCES,
            sides: lanes.into_iter().map(SideReport::new).collect(),
        }
    }

    pub(super) fn all_ran(&self) -> bool {
        self.sides.iter().all(|side| matches!(side.outcome, Outcome::Ran(_)))
    }
}

fn judge(queue: &Figures) -> Vec<Judged> {
    let long = queue.costs.iter().filter(|cost| cost.waiting == LONG_LINE);
    let mut verdict: Vec<_> = long
        .map(|Cost { members, p50_ns, .. }| {
            let promise = format!(
                "{members} members: handing a lease on with {LONG_LINE} waiting takes under {HAND_ON_US} µs"
            );
            Judged::new(promise, Some(p50_ns / 1e3), |us| (us < HAND_ON_US, format!("{us:.3} µs")))
        })
        .collect();
    let Memory { leases, .. } = queue.memory;
    let promise = format!("{leases} leases leave nothing behind: memory grows by at most {NOISE_MB} MB");
    let growth = Some(queue.memory.growth_mb());
    verdict.push(Judged::new(promise, growth, |growth| (growth <= NOISE_MB, format!("{growth:+.2} MB"))));
    verdict
}

impl SideReport {
    fn new(pool::Lane { name, outcome }: pool::Lane) -> Self {
        let outcome = match outcome.map(|figures| SideFigures::new(&figures)) {
            Ok(Some(figures)) => Outcome::Ran(Box::new(figures)),
            Ok(None) => Outcome::NotRun { reason: "no calls were made".to_owned() },
            Err(error) => Outcome::NotRun { reason: format!("{error:#}") },
        };
        Self { name, outcome }
    }
}

impl SideFigures {
    fn new(figures: &pool::Figures) -> Option<Self> {
        let mut rates = figures.calls_per_second.clone();
        rates.sort_unstable_by(f64::total_cmp);
        Some(Self {
            calls_per_second: *rates.get(rates.len() / 2)?,
            calls_per_second_by_round: figures.calls_per_second.clone(),
            call: figures.calls.summary()?,
            waited: figures.waited.summary(),
            by_instance: figures.by_instance.clone(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}", self.machine)?;
        writeln!(f, "The queue alone, ns for one release and one request:")?;
        writeln!(f, "{:>9} {:>9} {:>9} {:>9}", "members", "waiting", "p50", "p99")?;
        for Cost { members, waiting, p50_ns, p99_ns } in &self.queue.costs {
            writeln!(f, "{members:>9} {waiting:>9} {p50_ns:>9.0} {p99_ns:>9.0}")?;
        }
        let Memory { leases, before_mb, after_mb } = &self.queue.memory;
        writeln!(f, "memory {before_mb:.2} MB, and {after_mb:.2} MB {leases} leases later\n")?;

        let Self { callers, instances, .. } = self;
        writeln!(f, "{callers} callers of {instances} instances, small calls, ms:")?;
        let columns = ["calls/s", "p50", "p99", "wait p50", "wait p99"].map(|name| format!("{name:>9}"));
        writeln!(f, "{:32} {}  calls by instance", "", columns.join(" "))?;
        for SideReport { name, outcome } in &self.sides {
            match outcome {
                Outcome::Ran(figures) => writeln!(f, "{name:32} {figures}")?,
                Outcome::NotRun { reason } => writeln!(f, "{name:32} not run: {reason}")?,
            }
        }
        writeln!(f)?;
        for line in &self.verdict {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

impl fmt::Display for SideFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { p50_ms, p99_ms, .. } = &self.call;
        write!(f, "{:>9.0} {p50_ms:>9.3} {p99_ms:>9.3}", self.calls_per_second)?;
        match &self.waited {
            Some(Summary { p50_ms, p99_ms, .. }) => write!(f, " {p50_ms:>9.3} {p99_ms:>9.3}")?,
            None => write!(f, " {:>9} {:>9}", "", "")?,
        }
        let shares: Vec<_> =
            self.by_instance.iter().map(|(name, calls)| format!("{name}: {calls}")).collect();
        write!(f, "  {}", shares.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(p50_ns: f64, after_mb: f64) -> Vec<String> {
        let cost = |waiting, p50_ns| Cost { members: 2, waiting, p50_ns, p99_ns: 1e9 };
        let costs = vec![cost(1, 9e9), cost(LONG_LINE, p50_ns)];
        let memory = Memory { leases: 7, before_mb: 5.0, after_mb };
        judge(&Figures { costs, memory }).iter().map(|line| line.to_string()[..4].to_owned()).collect()
    }

    #[test]
    fn the_longest_line_and_the_growth_are_judged() {
        assert_eq!(verdict(4_999.0, 6.0), ["PASS", "PASS"]);
        assert_eq!(verdict(5_000.0, 6.1), ["MISS", "MISS"]);
        // Less than before is no growth.
        assert_eq!(verdict(1.0, 1.0), ["PASS", "PASS"]);
    }

    #[test]
    fn a_side_that_did_not_run_says_why() {
        let lane = pool::Lane { name: "pool", outcome: Err(anyhow::anyhow!("inner").context("outer")) };
        let Outcome::NotRun { reason } = SideReport::new(lane).outcome else { panic!("it did not run") };
        assert_eq!(reason, "outer: inner");
    }
}
