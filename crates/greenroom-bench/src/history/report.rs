//! What is said about a run of `history`.

use std::fmt;

use anyhow::Result;
use serde::Serialize;

use super::reading;
use super::recording::{self, IN_FLIGHT, Kind, Way};
use super::task::{Mode, Run, STEPS, Spent};
use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::promise::Judged;
use crate::report::rate;
use crate::samples::{Samples, Summary};

const ADDED_MS: f64 = 1.0;
const CALLS_PER_SECOND: f64 = 5000.0;
const PAGE_MS: f64 = 5.0;
/// Of what whole snapshots in every reply cost.
const DIFF_SHARE: f64 = 0.25;

#[derive(Serialize)]
pub(super) struct Report {
    machine: Machine,
    in_flight: usize,
    recording: Vec<LaneReport>,
    reading: Outcome<Reading>,
    steps: usize,
    task: Vec<TaskReport>,
    verdict: Vec<Judged>,
}

#[derive(Serialize)]
struct LaneReport {
    name: String,
    #[serde(skip)]
    kind: Kind,
    #[serde(skip)]
    way: Way,
    #[serde(flatten)]
    outcome: Outcome<Lane>,
}

#[derive(Serialize)]
struct Lane {
    call: Summary,
    /// The median of the rounds.
    calls_per_second: f64,
    calls_per_second_by_round: Vec<f64>,
    calls_made: usize,
    calls_on_record: usize,
}

#[derive(Serialize)]
struct Reading {
    snapshot_bytes: usize,
    snapshot_lines: usize,
    first_page: Summary,
    page: Summary,
    search: Summary,
    first_query: Summary,
    query: Summary,
}

#[derive(Serialize)]
struct TaskReport {
    mode: Mode,
    #[serde(flatten)]
    outcome: Outcome<Spent>,
}

impl Report {
    pub(super) fn new(
        machine: Machine,
        lanes: Vec<recording::Lane>,
        reading: Result<reading::Figures>,
        runs: Vec<Run>,
    ) -> Self {
        let recording: Vec<_> = lanes.into_iter().map(LaneReport::new).collect();
        let reading = Outcome::of(reading, Reading::new);
        let task: Vec<_> = runs
            .into_iter()
            .map(|Run { mode, outcome }| TaskReport { mode, outcome: Outcome::new(outcome) })
            .collect();
        let mut verdict = judge_recording(&recording);
        verdict.push(judge_reading(reading.ran().map(|reading| reading.page.p50_ms)));
        verdict.push(judge_task(&task));
        Self { machine, in_flight: IN_FLIGHT, recording, reading, steps: STEPS, task, verdict }
    }

    pub(super) fn all_ran(&self) -> bool {
        self.recording.iter().all(|lane| lane.outcome.ran().is_some())
            && self.reading.ran().is_some()
            && self.task.iter().all(|run| run.outcome.ran().is_some())
    }
}

impl LaneReport {
    fn new(recording::Lane { kind, way, outcome }: recording::Lane) -> Self {
        let way_name = match way {
            Way::Stdio => "stdio",
            Way::Http => "http",
        };
        let name = match kind {
            Kind::Direct => format!("direct, {way_name}"),
            Kind::Off => format!("greenroom {way_name}, no history"),
            Kind::On => format!("greenroom {way_name}, history"),
        };
        Self { name, kind, way, outcome: Outcome::of(outcome, Lane::new) }
    }
}

impl Lane {
    fn new(figures: &recording::Figures) -> Option<Self> {
        let by_round: Vec<_> =
            figures.floods.iter().map(|flood| rate(flood.calls, flood.took.as_secs_f64())).collect();
        let mut sorted = by_round.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Self {
            call: figures.calls.summary()?,
            calls_per_second: *sorted.get(sorted.len() / 2)?,
            calls_per_second_by_round: by_round,
            calls_made: figures.made,
            calls_on_record: figures.recorded,
        })
    }
}

impl Reading {
    fn new(figures: &reading::Figures) -> Option<Self> {
        Some(Self {
            snapshot_bytes: figures.snapshot_bytes,
            snapshot_lines: figures.snapshot_lines,
            first_page: Samples::summary(&figures.first_page)?,
            page: figures.page.summary()?,
            search: figures.search.summary()?,
            first_query: figures.first_query.summary()?,
            query: figures.query.summary()?,
        })
    }
}

fn judge_recording(lanes: &[LaneReport]) -> Vec<Judged> {
    let find = |kind: Kind, way: Way| {
        lanes.iter().find(|lane| lane.kind == kind && lane.way == way).and_then(|lane| lane.outcome.ran())
    };
    let mut verdict = Vec::new();
    for (way, name) in [(Way::Stdio, "stdio"), (Way::Http, "http")] {
        let (off, on) = (find(Kind::Off, way), find(Kind::On, way));
        let promise = format!("{name}: writing a call down adds at most {ADDED_MS} ms to it");
        let added = on.zip(off).map(|(on, off)| on.call.p50_ms - off.call.p50_ms);
        verdict.push(Judged::new(promise, added, |ms| (ms <= ADDED_MS, format!("{ms:+.3} ms"))));
    }
    for (way, name) in [(Way::Stdio, "stdio"), (Way::Http, "http")] {
        let promise = format!(
            "{name}: at least {CALLS_PER_SECOND} calls/s, all of them on record, with {IN_FLIGHT} in flight"
        );
        let rate = find(Kind::On, way).map(|on| on.calls_per_second);
        verdict.push(Judged::new(promise, rate, |rate| {
            (rate >= CALLS_PER_SECOND, format!("{rate:.0} calls/s"))
        }));
    }
    verdict
}

fn judge_reading(page_ms: Option<f64>) -> Judged {
    let promise = format!("a page of a large snapshot takes at most {PAGE_MS} ms once it was read");
    Judged::new(promise, page_ms, |ms| (ms <= PAGE_MS, format!("{ms:.2} ms")))
}

fn judge_task(runs: &[TaskReport]) -> Judged {
    let total = |mode| {
        let run = runs.iter().find(|run| run.mode == mode)?;
        run.outcome.ran().map(|spent| spent.total() as f64)
    };
    let promise = format!(
        "{STEPS} steps are done with `diff` in at most {DIFF_SHARE} of the bytes of inline snapshots"
    );
    let share = total(Mode::Diff).zip(total(Mode::Inline)).map(|(diff, inline)| diff / inline);
    Judged::new(promise, share, |share| (share <= DIFF_SHARE, format!("{share:.3}")))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}", self.machine)?;
        writeln!(f, "Small calls: one in flight, ms; {IN_FLIGHT} in flight, calls/s:")?;
        let columns = ["p50", "p99", "calls/s", "made", "on record"].map(|name| format!("{name:>9}"));
        writeln!(f, "{:32} {}  calls/s by round", "", columns.join(" "))?;
        for LaneReport { name, outcome, .. } in &self.recording {
            match outcome {
                Outcome::Ran(lane) => writeln!(f, "{name:32} {lane}")?,
                Outcome::NotRun { reason } => writeln!(f, "{name:32} not run: {reason}")?,
            }
        }
        match &self.reading {
            Outcome::Ran(reading) => write!(f, "\n{reading}")?,
            Outcome::NotRun { reason } => writeln!(f, "\nReading a large snapshot: not run: {reason}")?,
        }
        writeln!(f, "\n{STEPS} steps on the test site, bytes that reach the agent:")?;
        self.write_task(f)?;
        writeln!(f)?;
        self.verdict.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl Report {
    fn write_task(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = ["bytes", "share", "step 1", "2 to 20", "share", "actions", "reads"];
        writeln!(f, "{:8} {}", "replies", columns.map(|name| format!("{name:>9}")).join(" "))?;
        let inline = self.task.iter().find(|run| run.mode == Mode::Inline).and_then(|run| run.outcome.ran());
        for TaskReport { mode, outcome } in &self.task {
            let name = mode.name();
            match outcome {
                Outcome::Ran(spent) => {
                    let share = |of: fn(&Spent) -> usize| match inline {
                        Some(inline) => format!("{:.3}", of(spent) as f64 / of(inline) as f64),
                        None => String::new(),
                    };
                    let (total, after) = (spent.total(), spent.after_the_list());
                    writeln!(
                        f,
                        "{name:8} {total:>9} {:>9} {:>9} {after:>9} {:>9} {:>9} {:>9}",
                        share(Spent::total),
                        total - after,
                        share(Spent::after_the_list),
                        spent.bytes.len(),
                        spent.reads
                    )?;
                }
                Outcome::NotRun { reason } => writeln!(f, "{name:8} not done: {reason}")?,
            }
        }
        writeln!(f, "\nBytes by step:")?;
        for TaskReport { mode, outcome } in &self.task {
            if let Outcome::Ran(spent) = outcome {
                let steps: Vec<_> = spent.bytes.iter().map(ToString::to_string).collect();
                writeln!(f, "{:8} {}", mode.name(), steps.join(" "))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { p50_ms, p99_ms, .. } = &self.call;
        let rounds: Vec<_> = self.calls_per_second_by_round.iter().map(|rate| format!("{rate:.0}")).collect();
        write!(
            f,
            "{p50_ms:>9.3} {p99_ms:>9.3} {:>9.0} {:>9} {:>9}  {}",
            self.calls_per_second,
            self.calls_made,
            self.calls_on_record,
            rounds.join(" ")
        )
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, lines) = (self.snapshot_bytes, self.snapshot_lines);
        writeln!(f, "Reading a snapshot of {bytes} bytes, {lines} lines, over http, ms:")?;
        let rows = [
            ("a page of it, the first time", &self.first_page),
            ("a page of it, later", &self.page),
            ("search_for", &self.search),
            ("query, the first time", &self.first_query),
            ("query, later", &self.query),
        ];
        for (name, Summary { calls, p50_ms, p99_ms, .. }) in rows {
            writeln!(f, "{name:32} p50 {p50_ms:>8.2}, p99 {p99_ms:>8.2} of {calls} calls")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(judged: &Judged) -> String {
        judged.to_string()[..4].to_owned()
    }

    fn lane(kind: Kind, way: Way, p50_ms: f64, calls_per_second: f64) -> LaneReport {
        let call = Summary { calls: 1, p50_ms, p99_ms: p50_ms, p50_ms_by_round: vec![p50_ms] };
        let lane = Lane {
            call,
            calls_per_second,
            calls_per_second_by_round: Vec::new(),
            calls_made: 1,
            calls_on_record: 1,
        };
        LaneReport { name: String::new(), kind, way, outcome: Outcome::Ran(lane) }
    }

    #[test]
    fn recording_is_judged_against_the_same_way_without_it() {
        let lanes = [
            lane(Kind::Direct, Way::Stdio, 0.0, 1e6),
            lane(Kind::Off, Way::Stdio, 1.0, 1e6),
            lane(Kind::On, Way::Stdio, 2.0, 5000.0),
            lane(Kind::Off, Way::Http, 1.0, 1e6),
            lane(Kind::On, Way::Http, 2.1, 4999.0),
        ];
        let words: Vec<_> = judge_recording(&lanes).iter().map(word).collect();
        assert_eq!(words, ["PASS", "MISS", "PASS", "MISS"]);
        let words: Vec<_> = judge_recording(&lanes[..2]).iter().map(word).collect();
        assert_eq!(words, ["----"; 4]);
    }

    #[test]
    fn reading_and_the_task_are_judged_at_their_limits() {
        assert_eq!(word(&judge_reading(Some(5.0))), "PASS");
        assert_eq!(word(&judge_reading(Some(5.1))), "MISS");
        let run = |mode, bytes: &[usize]| TaskReport {
            mode,
            outcome: Outcome::Ran(Spent { bytes: bytes.to_vec(), reads: 0 }),
        };
        let judge =
            |diff: &[usize]| word(&judge_task(&[run(Mode::Inline, &[50, 50]), run(Mode::Diff, diff)]));
        assert_eq!(judge(&[20, 5]), "PASS");
        assert_eq!(judge(&[20, 6]), "MISS");
        let failed = TaskReport { mode: Mode::Diff, outcome: Outcome::NotRun { reason: "no".to_owned() } };
        assert_eq!(word(&judge_task(&[run(Mode::Inline, &[50]), failed])), "----");
    }
}
