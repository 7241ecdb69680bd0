//! Many callers of one pool over HTTP, beside its upstreams spoken to directly with one call in flight each: as
//! much as they can do.

use std::collections::BTreeMap;
use std::mem;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::binaries::Binaries;
use crate::client::{Call, Client, Era, HttpClient, Lease};
use crate::measure::say;
use crate::report::rate;
use crate::routes;
use crate::samples::Samples;
use crate::server::Server;

pub(super) const CALLERS: usize = 50;
pub(super) const INSTANCES: usize = 2;
/// What one round may take, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) rounds: usize,
    /// Calls on each side in each round, over all callers.
    pub(super) calls: usize,
}

/// One side of the comparison, and what became of it.
pub(super) struct Lane {
    pub(super) name: &'static str,
    pub(super) outcome: Result<Figures>,
}

#[derive(Default)]
pub(super) struct Figures {
    /// From asking to the answer, the waiting included.
    pub(super) calls: Samples,
    /// The waiting, by Greenroom's own account.
    pub(super) waited: Samples,
    pub(super) calls_per_second: Vec<f64>,
    pub(super) by_instance: BTreeMap<String, usize>,
}

struct Side {
    servers: Vec<Server>,
    callers: Callers,
}

enum Callers {
    /// One for each upstream.
    Direct(Vec<Client>),
    Pool(Vec<HttpClient>),
}

#[derive(Default)]
struct Round {
    took: Duration,
    calls: Vec<Duration>,
    leases: Vec<Lease>,
}

/// Round by round, each side in turn, so that what disturbs the machine disturbs both alike.
pub(super) async fn measure(plan: Plan, binaries: &Binaries, scratch: &Path) -> Vec<Lane> {
    let mut lanes = [
        ("direct, one call in flight each", direct(binaries, scratch).await, Figures::default()),
        ("greenroom http, one pool", pool(binaries, scratch).await, Figures::default()),
    ];
    // The first round warms up, and does not count.
    for round in 0..=plan.rounds {
        for (name, state, figures) in &mut lanes {
            let Ok(side) = state else { continue };
            say(format_args!("round {round} of {}: {name}", plan.rounds));
            match side.run_round(plan.calls).await {
                Ok(measured) if round > 0 => figures.add(measured),
                Ok(_) => {}
                Err(error) => {
                    if let Ok(side) = mem::replace(state, Err(error)) {
                        side.end().await;
                    }
                }
            }
        }
    }
    let mut measured = Vec::new();
    for (name, state, figures) in lanes {
        let outcome = match state {
            Ok(side) => {
                side.end().await;
                Ok(figures)
            }
            Err(error) => Err(error),
        };
        measured.push(Lane { name, outcome });
    }
    measured
}

async fn direct(binaries: &Binaries, scratch: &Path) -> Result<Side> {
    let (mut servers, mut clients) = (Vec::new(), Vec::new());
    for index in 0..INSTANCES {
        let log = scratch.join(format!("direct-{index}.log"));
        let open = routes::over_stdio(Command::new(&binaries.fake_upstream), &log).await?;
        servers.push(open.server);
        clients.push(open.client);
    }
    Ok(Side { servers, callers: Callers::Direct(clients) })
}

async fn pool(binaries: &Binaries, scratch: &Path) -> Result<Side> {
    let mut command = routes::greenroom(binaries, &scratch.join("pool"), &["serve", "--port", "0"]);
    command
        .env("PW_MCP_PROXY__DEFAULT_INSTANCES", INSTANCES.to_string())
        .env("PW_MCP_PROXY__DEFAULT_IS_DEFAULT", "true");
    let log = scratch.join("pool.log");
    let (server, url) = Server::start_announced(command, &log, "greenroom listening on ").await?;
    let callers = connect(&format!("{url}/mcp")).await.with_context(|| server.last_words())?;
    Ok(Side { servers: vec![server], callers: Callers::Pool(callers) })
}

async fn connect(url: &str) -> Result<Vec<HttpClient>> {
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        callers.push(HttpClient::connect(url, Era::Sessions).await?);
    }
    Ok(callers)
}

impl Side {
    async fn run_round(&mut self, calls: usize) -> Result<Round> {
        let round = async {
            match &mut self.callers {
                Callers::Direct(clients) => in_turn_each(clients, calls).await,
                Callers::Pool(callers) => all_at_once(callers, calls).await,
            }
        };
        let measured = timeout(PATIENCE, round).await.context("the round did not come to its end");
        measured.and_then(|round| round).map_err(|error| {
            let words: Vec<_> = self.servers.iter().map(Server::last_words).collect();
            anyhow!("{error:#}; {}", words.join("; "))
        })
    }

    async fn end(self) {
        for server in self.servers {
            server.end().await;
        }
    }
}

/// Each upstream has one call in flight until all of its share are made.
async fn in_turn_each(clients: &mut Vec<Client>, calls: usize) -> Result<Round> {
    let share = calls / clients.len();
    let began = Instant::now();
    let mut working = JoinSet::new();
    for mut client in mem::take(clients) {
        working.spawn(async move {
            let made = client.in_turn(&Call::small(), 0, share, PATIENCE).await?;
            anyhow::Ok((client, made))
        });
    }
    let mut round = Round::default();
    while let Some(done) = working.join_next().await {
        let (client, made) = done??;
        clients.push(client);
        round.calls.extend(made);
    }
    round.took = began.elapsed();
    Ok(round)
}

/// Every caller calls again as soon as it has its answer.
async fn all_at_once(callers: &mut Vec<HttpClient>, calls: usize) -> Result<Round> {
    let share = calls / callers.len();
    for caller in callers.iter_mut() {
        // The server may have closed a connection that was left alone while the other side was measured.
        caller.reconnect().await?;
    }
    let began = Instant::now();
    let mut working = JoinSet::new();
    for mut caller in mem::take(callers) {
        working.spawn(async move {
            let call = Call::small();
            let mut made = Vec::with_capacity(share);
            for _ in 0..share {
                made.push(caller.leased_call(&call).await?);
            }
            anyhow::Ok((caller, made))
        });
    }
    let mut round = Round::default();
    while let Some(done) = working.join_next().await {
        let (caller, made) = done??;
        callers.push(caller);
        let (calls, leases): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        round.calls.extend(calls);
        round.leases.extend(leases);
    }
    round.took = began.elapsed();
    check(&round.leases)?;
    Ok(round)
}

/// That the calls were served by one pool, and by all of its instances.
fn check(leases: &[Lease]) -> Result<()> {
    let mut seen: Vec<_> = leases.iter().map(|lease| format!("{}/{}", lease.pool, lease.instance)).collect();
    seen.sort_unstable();
    seen.dedup();
    let one_pool = leases.iter().all(|lease| lease.pool == leases[0].pool);
    ensure!(
        one_pool && seen.len() == INSTANCES,
        "one pool of {INSTANCES} instances was to serve the calls, and these did: {}",
        seen.join(", ")
    );
    Ok(())
}

impl Figures {
    fn add(&mut self, round: Round) {
        self.calls_per_second.push(rate(round.calls.len(), round.took.as_secs_f64()));
        self.calls.add_round(round.calls);
        self.waited.add_round(round.leases.iter().map(|lease| lease.waited).collect());
        for lease in round.leases {
            *self.by_instance.entry(lease.instance).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests;
