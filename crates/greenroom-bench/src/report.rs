//! What is said about a run: the same figures as a table, as a verdict and as JSON.

mod table;
mod verdict;

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::machine::Machine;
use crate::measure::{Figures, IN_FLIGHT, Measured};
use crate::routes::{DIRECT, Kind};
use crate::samples::Summary;
use crate::startup::Startup;
use verdict::Verdict;

/// Prints a report, and writes it to a file as JSON if asked to.
pub(crate) fn publish(report: &(impl fmt::Display + Serialize), json: Option<&Path>) -> Result<()> {
    // A reader that has gone away is no error.
    let _ = write!(io::stdout().lock(), "{report}");
    if let Some(file) = json {
        let json = serde_json::to_string_pretty(report)?;
        fs::write(file, json + "\n").with_context(|| format!("{} cannot be written", file.display()))?;
    }
    Ok(())
}

#[derive(Serialize)]
pub(crate) struct Report {
    machine: Machine,
    in_flight: usize,
    startup: StartupReport,
    routes: Vec<RouteReport>,
    verdict: Verdict,
}

/// From spawning the program to its answer to `initialize`.
#[derive(Serialize)]
struct StartupReport {
    direct: Option<Summary>,
    greenroom: Option<Summary>,
}

#[derive(Serialize)]
struct RouteReport {
    name: String,
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    package: Option<String>,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Ran(Box<RouteFigures>),
    NotRun { reason: String },
}

#[derive(Serialize)]
struct RouteFigures {
    small: Latency,
    kb_100: Latency,
    mb_1: Latency,
    calls_per_second: f64,
    calls_per_second_by_round: Vec<f64>,
    idle_rss_mb: f64,
    loaded_rss_mb: f64,
}

#[derive(Serialize)]
struct Latency {
    #[serde(flatten)]
    summary: Summary,
    /// How much the median is above the one of the direct route.
    over_direct_ms: Option<f64>,
}

impl Report {
    pub(crate) fn new(machine: Machine, startup: &Startup, measured: Vec<Measured>) -> Self {
        let mut routes: Vec<_> = measured.into_iter().map(RouteReport::new).collect();
        compare_with_direct(&mut routes);
        Self {
            machine,
            in_flight: IN_FLIGHT,
            startup: StartupReport {
                direct: startup.direct.summary(),
                greenroom: startup.greenroom.summary(),
            },
            verdict: Verdict::new(&routes),
            routes,
        }
    }

    /// Whether every route worked but those of peers, which are not ours to repair.
    pub(crate) fn ours_all_ran(&self) -> bool {
        self.routes.iter().all(|route| route.kind == Kind::Peer || route.figures().is_some())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        table::write(self, f)?;
        write!(f, "\n{}", self.verdict)
    }
}

impl RouteReport {
    fn new(Measured { route, outcome }: Measured) -> Self {
        let outcome = match outcome.map(|figures| RouteFigures::new(&figures)) {
            Ok(Some(figures)) => Outcome::Ran(Box::new(figures)),
            Ok(None) => Outcome::NotRun { reason: "no calls were made".to_owned() },
            Err(error) => Outcome::NotRun { reason: format!("{error:#}") },
        };
        Self { name: route.name, kind: route.kind, package: route.package, outcome }
    }

    fn figures(&self) -> Option<&RouteFigures> {
        match &self.outcome {
            Outcome::Ran(figures) => Some(figures),
            Outcome::NotRun { .. } => None,
        }
    }
}

impl RouteFigures {
    fn new(figures: &Figures) -> Option<Self> {
        let latency = |summary| Latency { summary, over_direct_ms: None };
        let (calls, seconds) = figures.floods.iter().fold((0, 0.0), |(calls, seconds), flood| {
            (calls + flood.calls, seconds + flood.took.as_secs_f64())
        });
        Some(Self {
            small: latency(figures.small.summary()?),
            kb_100: latency(figures.kb_100.summary()?),
            mb_1: latency(figures.mb_1.summary()?),
            calls_per_second: rate(calls, seconds),
            calls_per_second_by_round: figures
                .floods
                .iter()
                .map(|flood| rate(flood.calls, flood.took.as_secs_f64()))
                .collect(),
            idle_rss_mb: megabytes(figures.idle_rss_kb),
            loaded_rss_mb: megabytes(figures.loaded_rss_kb),
        })
    }

    fn latencies(&mut self) -> [&mut Latency; 3] {
        [&mut self.small, &mut self.kb_100, &mut self.mb_1]
    }
}

fn compare_with_direct(routes: &mut [RouteReport]) {
    let direct = routes.iter().find(|route| route.name == DIRECT).and_then(RouteReport::figures);
    let Some(direct) = direct else { return };
    let base = [&direct.small, &direct.kb_100, &direct.mb_1].map(|latency| latency.summary.p50_ms);
    for route in routes.iter_mut().filter(|route| route.name != DIRECT) {
        if let Outcome::Ran(figures) = &mut route.outcome {
            for (latency, base) in figures.latencies().into_iter().zip(base) {
                latency.over_direct_ms = Some(latency.summary.p50_ms - base);
            }
        }
    }
}

pub(crate) fn rate(calls: usize, seconds: f64) -> f64 {
    calls as f64 / seconds
}

/// From the kernel's KiB to MB.
pub(crate) fn megabytes(kib: u64) -> f64 {
    kib as f64 * 1024.0 / 1e6
}
