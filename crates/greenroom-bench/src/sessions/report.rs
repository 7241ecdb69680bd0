//! What is said about a run of `sessions`.

use std::fmt;

use anyhow::Result;
use serde::Serialize;

use super::rig::SETTLE_MS;
use super::throughput::AGENTS;
use super::tree::Memory;
use super::{latency, memory, throughput};
use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::promise::Judged;
use crate::samples::{Samples, Summary};

/// The promises about memory are made for so many sessions.
const MANY: usize = 20;
const SESSION_MB: f64 = 45.0;
/// Of what a browser server for each needs.
const SHARE: f64 = 0.25;
/// A new session with a warm seat, against a navigation in one that is there.
const WARM_TIMES: f64 = 1.5;
/// The first session of all, against a browser server that is started for it.
const COLD_TIMES: f64 = 1.2;

#[derive(Serialize)]
pub(super) struct Report {
    machine: Machine,
    settle_ms: u64,
    memory: Sides<memory::Growth>,
    first_answer: Outcome<FirstAnswers>,
    throughput: Outcome<Rates>,
    verdict: Vec<Judged>,
}

#[derive(Serialize)]
struct Sides<T> {
    sessions: Outcome<T>,
    servers: Outcome<T>,
}

#[derive(Serialize)]
struct FirstAnswers {
    warm_navigate: Summary,
    warm_seat: Summary,
    no_seat: Summary,
    cold_gateway: Summary,
    cold_server: Summary,
}

#[derive(Serialize)]
struct Rates {
    agents: usize,
    sessions: Rate,
    servers: Rate,
}

#[derive(Serialize)]
struct Rate {
    /// The median of the rounds.
    calls_per_second: f64,
    calls_per_second_by_round: Vec<f64>,
    navigate: Summary,
    snapshot: Summary,
}

impl Report {
    pub(super) fn new(
        machine: Machine,
        memory: memory::Measured,
        first_answer: Result<latency::Figures>,
        throughput: Result<throughput::Figures>,
    ) -> Self {
        let memory = Sides { sessions: Outcome::new(memory.gateway), servers: Outcome::new(memory.servers) };
        let first_answer = Outcome::of(first_answer, FirstAnswers::new);
        let throughput = Outcome::of(throughput, Rates::new);
        let mut verdict = judge_memory(memory.sessions.ran(), memory.servers.ran());
        verdict.extend(judge_first_answer(first_answer.ran()));
        verdict.push(judge_throughput(throughput.ran()));
        Self { machine, settle_ms: SETTLE_MS, memory, first_answer, throughput, verdict }
    }

    pub(super) fn all_ran(&self) -> bool {
        self.memory.sessions.ran().is_some()
            && self.memory.servers.ran().is_some()
            && self.first_answer.ran().is_some()
            && self.throughput.ran().is_some()
    }
}

impl FirstAnswers {
    fn new(figures: &latency::Figures) -> Option<Self> {
        Some(Self {
            warm_navigate: figures.warm_navigate.summary()?,
            warm_seat: figures.warm_seat.summary()?,
            no_seat: figures.no_seat.summary()?,
            cold_gateway: figures.cold_gateway.summary()?,
            cold_server: figures.cold_server.summary()?,
        })
    }
}

impl Rates {
    fn new(figures: &throughput::Figures) -> Option<Self> {
        let side = |side: &throughput::Side| {
            let mut rates = side.calls_per_second.clone();
            rates.sort_unstable_by(f64::total_cmp);
            let summary = Samples::summary;
            Some(Rate {
                calls_per_second: *rates.get(rates.len() / 2)?,
                calls_per_second_by_round: side.calls_per_second.clone(),
                navigate: summary(&side.navigate)?,
                snapshot: summary(&side.snapshot)?,
            })
        };
        Some(Self { agents: AGENTS, sessions: side(&figures.sessions)?, servers: side(&figures.servers)? })
    }
}

fn judge_memory(sessions: Option<&memory::Growth>, servers: Option<&memory::Growth>) -> Vec<Judged> {
    let session = sessions.and_then(|growth| growth.per_session(MANY));
    let server = servers.and_then(|growth| growth.per_session(MANY));
    let promise = format!("a session needs at most {SESSION_MB} MB with {MANY} of them");
    let first = Judged::new(promise, session, |mb| (mb <= SESSION_MB, format!("{mb:.1} MB")));
    let promise =
        format!("{MANY} sessions need at most {SHARE} of what {MANY} browser servers of their own do");
    let share = session.zip(server).map(|(session, server)| session / server);
    vec![first, Judged::new(promise, share, |share| (share <= SHARE, format!("{share:.3}")))]
}

fn judge_first_answer(figures: Option<&FirstAnswers>) -> Vec<Judged> {
    let times = |one: fn(&FirstAnswers) -> &Summary, other: fn(&FirstAnswers) -> &Summary| {
        figures.map(|figures| one(figures).p50_ms / other(figures).p50_ms)
    };
    let judge = |promise: String, times: Option<f64>, limit: f64| {
        Judged::new(promise, times, |times| (times <= limit, format!("{times:.2} times")))
    };
    vec![
        judge(
            format!(
                "a new session's first answer, with a warm seat, takes at most {WARM_TIMES} times a warm navigate"
            ),
            times(|figures| &figures.warm_seat, |figures| &figures.warm_navigate),
            WARM_TIMES,
        ),
        judge(
            format!(
                "and the first of a cold gateway at most {COLD_TIMES} times a browser server's own cold start"
            ),
            times(|figures| &figures.cold_gateway, |figures| &figures.cold_server),
            COLD_TIMES,
        ),
    ]
}

fn judge_throughput(figures: Option<&Rates>) -> Judged {
    let promise =
        format!("{AGENTS} sessions at once make at least the calls of {AGENTS} browser servers of their own");
    let times = figures.map(|figures| figures.sessions.calls_per_second / figures.servers.calls_per_second);
    Judged::new(promise, times, |times| (times >= 1.0, format!("{times:.2} times")))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}", self.machine)?;
        writeln!(f, "Memory, MB (proportional set size of the whole tree):")?;
        let columns = ["sessions", "each", "total", "greenroom", "node", "browser", "renderers", "other"];
        writeln!(f, "{:18} {}", "", columns.map(|name| format!("{name:>9}")).join(" "))?;
        write_growth("one gateway", &self.memory.sessions, f)?;
        write_growth("a server each", &self.memory.servers, f)?;

        writeln!(f, "\nA navigation, from call to answer, ms (settling: {} ms):", self.settle_ms)?;
        match &self.first_answer {
            Outcome::Ran(figures) => {
                write_summary("in a session that is there", &figures.warm_navigate, f)?;
                write_summary("new session, warm seat", &figures.warm_seat, f)?;
                write_summary("new session, no warm seat, host up", &figures.no_seat, f)?;
                write_summary("first session of a cold gateway", &figures.cold_gateway, f)?;
                write_summary("browser server, started for it", &figures.cold_server, f)?;
            }
            Outcome::NotRun { reason } => writeln!(f, "not run: {reason}")?,
        }

        writeln!(f, "\n{AGENTS} agents, each navigates and takes a snapshot in turn:")?;
        match &self.throughput {
            Outcome::Ran(figures) => {
                write!(f, "{:36} {}", "sessions of one gateway", figures.sessions)?;
                write!(f, "{:36} {}", "a browser server each", figures.servers)?;
            }
            Outcome::NotRun { reason } => writeln!(f, "not run: {reason}")?,
        }
        writeln!(f)?;
        self.verdict.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

fn write_growth(name: &str, growth: &Outcome<memory::Growth>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match growth {
        Outcome::Ran(growth) => {
            if growth.base > 0.0 {
                writeln!(f, "{name:18} {:>9} {:>9} {:>9.1}", 0, "", growth.base)?;
            }
            for memory::Point { sessions, per_session, memory } in &growth.points {
                let Memory { total, greenroom, node, browser, renderers, other } = memory;
                let parts =
                    [total, greenroom, node, browser, renderers, other].map(|mb| format!("{mb:>9.1}"));
                writeln!(f, "{name:18} {sessions:>9} {per_session:>9.1} {}", parts.join(" "))?;
            }
            Ok(())
        }
        Outcome::NotRun { reason } => writeln!(f, "{name:18} not run: {reason}"),
    }
}

fn write_summary(name: &str, summary: &Summary, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Summary { calls, p50_ms, p50_ms_by_round, .. } = summary;
    let rounds: Vec<_> = p50_ms_by_round.iter().map(|ms| format!("{ms:.0}")).collect();
    writeln!(f, "{name:36} p50 {p50_ms:>6.0} of {calls:>2} calls; by round {}", rounds.join(" "))
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounds: Vec<_> = self.calls_per_second_by_round.iter().map(|rate| format!("{rate:.1}")).collect();
        writeln!(
            f,
            "{:>6.1} calls/s; navigate p50 {:.0} ms, snapshot p50 {:.0} ms; by round {}",
            self.calls_per_second,
            self.navigate.p50_ms,
            self.snapshot.p50_ms,
            rounds.join(" ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(judged: &Judged) -> String {
        judged.to_string()[..4].to_owned()
    }

    fn growth(per_session: f64) -> memory::Growth {
        let point =
            |sessions, per_session| memory::Point { sessions, per_session, memory: Memory::default() };
        memory::Growth { base: 0.0, points: vec![point(1, 999.0), point(MANY, per_session)] }
    }

    #[test]
    fn memory_is_judged_where_many_sessions_were_measured() {
        let judge = |session, server: Option<f64>| {
            let server = server.map(growth);
            judge_memory(Some(&growth(session)), server.as_ref()).iter().map(word).collect::<Vec<_>>()
        };
        assert_eq!(judge(45.0, Some(180.0)), ["PASS", "PASS"]);
        assert_eq!(judge(45.1, Some(180.0)), ["MISS", "MISS"]);
        assert_eq!(judge(40.0, None), ["PASS", "----"]);
        let few = memory::Growth { base: 0.0, points: Vec::new() };
        assert_eq!(word(&judge_memory(Some(&few), None)[0]), "----");
    }

    #[test]
    fn medians_are_compared() {
        let summary = |p50_ms| Summary { calls: 1, p50_ms, p99_ms: p50_ms, p50_ms_by_round: vec![p50_ms] };
        let figures = |warm_seat, cold_gateway| FirstAnswers {
            warm_navigate: summary(100.0),
            warm_seat: summary(warm_seat),
            no_seat: summary(900.0),
            cold_gateway: summary(cold_gateway),
            cold_server: summary(1000.0),
        };
        let judge =
            |figures: &FirstAnswers| judge_first_answer(Some(figures)).iter().map(word).collect::<Vec<_>>();
        assert_eq!(judge(&figures(150.0, 1200.0)), ["PASS", "PASS"]);
        assert_eq!(judge(&figures(151.0, 1201.0)), ["MISS", "MISS"]);

        let rate = |calls_per_second| Rate {
            calls_per_second,
            calls_per_second_by_round: Vec::new(),
            navigate: summary(1.0),
            snapshot: summary(1.0),
        };
        let sides = |sessions| Rates { agents: AGENTS, sessions: rate(sessions), servers: rate(10.0) };
        assert_eq!(word(&judge_throughput(Some(&sides(10.0)))), "PASS");
        assert_eq!(word(&judge_throughput(Some(&sides(9.9)))), "MISS");
    }
}
