//! How many calls get through with many agents at work: sessions of one gateway beside a browser server for each.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::memory::{end_all, try_all};
use super::rig::{Agent, Gateway, Rig};
use crate::measure::say;
use crate::report::rate;
use crate::samples::Samples;
use crate::server::Server;

pub(super) const AGENTS: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) rounds: usize,
    /// What one side has in each round.
    pub(super) time: Duration,
}

#[derive(Default)]
pub(super) struct Side {
    pub(super) calls_per_second: Vec<f64>,
    pub(super) navigate: Samples,
    pub(super) snapshot: Samples,
}

pub(super) struct Figures {
    pub(super) sessions: Side,
    pub(super) servers: Side,
}

/// Both sides are up all the time; while one works, the other rests.
pub(super) async fn measure(plan: Plan, rig: &Rig<'_>) -> Result<Figures> {
    let gateway = rig.gateway(None).await?;
    let mut servers = Vec::new();
    let measured = rounds(plan, rig, &gateway, &mut servers).await.with_context(|| gateway.last_words());
    gateway.end().await;
    end_all(servers.into_iter()).await;
    measured
}

async fn rounds(plan: Plan, rig: &Rig<'_>, gateway: &Gateway, servers: &mut Vec<Server>) -> Result<Figures> {
    say(format_args!("throughput: starting {AGENTS} of each"));
    let mut in_sessions = try_all((0..AGENTS).map(|number| gateway.agent(format!("agent-{number}")))).await?;
    let mut with_servers = Vec::new();
    for (server, agent) in try_all((0..AGENTS).map(|_| rig.upstream())).await? {
        servers.push(server);
        with_servers.push(agent);
    }
    // Every one has its browser before the first round.
    for agents in [&mut in_sessions, &mut with_servers] {
        try_all(agents.iter_mut().map(|agent| rig.navigate_and_look(agent, 0))).await?;
    }
    gateway.tree().rest().await;
    let mut figures = Figures { sessions: Side::default(), servers: Side::default() };
    for round in 1..=plan.rounds {
        say(format_args!("throughput: round {round} of {}", plan.rounds));
        figures.sessions.add_round(&mut in_sessions, plan.time, rig).await?;
        figures.servers.add_round(&mut with_servers, plan.time, rig).await?;
    }
    Ok(figures)
}

impl Side {
    /// Each agent navigates and looks, again and again, until the time is up.
    async fn add_round(&mut self, agents: &mut [Agent], time: Duration, rig: &Rig<'_>) -> Result<()> {
        let began = Instant::now();
        let work = agents.iter_mut().map(|agent| async move {
            let mut made = Vec::new();
            while began.elapsed() < time {
                made.push(rig.navigate_and_look(agent, made.len() + 1).await?);
            }
            Ok(made)
        });
        let made: Vec<_> = try_all(work).await?.into_iter().flatten().collect();
        self.calls_per_second.push(rate(2 * made.len(), began.elapsed().as_secs_f64()));
        let (navigate, snapshot) = made.into_iter().map(|[navigate, snapshot]| (navigate, snapshot)).unzip();
        self.navigate.add_round(navigate);
        self.snapshot.add_round(snapshot);
        Ok(())
    }
}
