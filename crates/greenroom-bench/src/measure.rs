//! Measuring the routes: round by round, each route in turn, so that what disturbs the machine disturbs all alike.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{sleep, timeout};

use crate::binaries::Binaries;
use crate::client::{Call, Client, Flood};
use crate::routes::{OpenRoute, Route};
use crate::samples::Samples;

pub(crate) const IN_FLIGHT: usize = 32;
const KB_100: usize = 100 * 1000;
const MB_1: usize = 1000 * 1000;
/// Calls that open a connection and fill caches before those that count.
const WARM_UP: usize = 10;
/// How long a server is left alone before its idle memory is read, at first and after the load.
const SETTLE: Duration = Duration::from_secs(2);
/// What a measurement may take beyond its budget before the route is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much is measured on each route, over all rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) small_calls: usize,
    /// How long many calls are kept in flight, in each round.
    pub(crate) flood: Duration,
    /// The most that one kind of call may take in one round; a slow route makes fewer calls.
    pub(crate) budget: Duration,
}

/// What one route gave.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) small: Samples,
    pub(crate) kb_100: Samples,
    pub(crate) mb_1: Samples,
    pub(crate) floods: Vec<Flood>,
    /// Resident memory of the route's server, before any call and after all of them.
    pub(crate) idle_rss_kb: u64,
    pub(crate) loaded_rss_kb: u64,
}

pub(crate) struct Measured {
    pub(crate) route: Route,
    pub(crate) outcome: Result<Figures>,
}

/// A route under measurement. One that fails is left alone from then on.
struct Lane {
    route: Route,
    figures: Figures,
    state: Result<OpenRoute>,
}

pub(crate) async fn measure(
    routes: Vec<Route>,
    plan: Plan,
    binaries: &Binaries,
    scratch: &Path,
) -> Vec<Measured> {
    let mut lanes = Vec::new();
    for route in routes {
        say(format_args!("starting {}", route.name));
        let opened = timeout(Duration::from_secs(400), route.open(binaries, scratch)).await;
        let state = opened.context("did not answer the greeting").and_then(|opened| opened);
        lanes.push(Lane { route, figures: Figures::default(), state });
    }
    sleep(SETTLE).await;
    for lane in &mut lanes {
        if let Ok(open) = &lane.state {
            lane.figures.idle_rss_kb = open.server.rss_kb();
        }
    }
    // The first round does not count. It starts the servers behind, and warms up programs whose code is compiled while
    // it runs: measured cold, some would look half as fast as they are.
    for round in 0..=plan.rounds {
        for lane in &mut lanes {
            let name = &lane.route.name;
            if round == 0 {
                say(format_args!("warming up {name}"));
            } else {
                say(format_args!("round {round} of {}: {name}", plan.rounds));
            }
            lane.run_round(plan, round > 0).await;
        }
    }
    sleep(SETTLE).await;
    let mut measured = Vec::new();
    for Lane { route, mut figures, state } in lanes {
        let outcome = match state {
            Ok(open) => {
                figures.loaded_rss_kb = open.server.rss_kb();
                open.server.end().await;
                Ok(figures)
            }
            Err(error) => Err(error),
        };
        measured.push(Measured { route, outcome });
    }
    measured
}

impl Lane {
    async fn run_round(&mut self, plan: Plan, counts: bool) {
        let Ok(open) = &mut self.state else { return };
        let figures = if counts { &mut self.figures } else { &mut Figures::default() };
        if let Err(error) = figures.add_round(&mut open.client, plan).await {
            let error = error.context(open.server.last_words());
            if let Ok(open) = std::mem::replace(&mut self.state, Err(error)) {
                open.server.end().await;
            }
        }
    }
}

impl Figures {
    async fn add_round(&mut self, client: &mut Client, plan: Plan) -> Result<()> {
        let kinds = [
            ("small calls", Call::small(), plan.small_calls, &mut self.small),
            ("results of 100 KB", Call::of_size(KB_100), plan.small_calls / 5, &mut self.kb_100),
            ("results of 1 MB", Call::of_size(MB_1), plan.small_calls / 10, &mut self.mb_1),
        ];
        for (what, call, calls, samples) in kinds {
            let count = calls.div_ceil(plan.rounds);
            let latencies =
                timeout(PATIENCE + plan.budget, client.in_turn(&call, WARM_UP, count, plan.budget))
                    .await
                    .with_context(|| format!("{what}: no answer"))?
                    .with_context(|| what.to_owned())?;
            samples.add_round(latencies);
        }
        let flood = timeout(PATIENCE + plan.flood, client.flood(&Call::small(), IN_FLIGHT, plan.flood))
            .await
            .with_context(|| format!("{IN_FLIGHT} in flight: no answer"))?
            .with_context(|| format!("{IN_FLIGHT} in flight"))?;
        self.floods.push(flood);
        Ok(())
    }
}

/// Progress is for the one who waits, and not part of the output.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "  {line}");
}
