//! What a session needs in memory: many in one gateway, and a browser server for each.

use std::fs;

use anyhow::{Context, Result};
use serde::Serialize;
use tokio::task::JoinSet;

use super::rig::{Agent, Gateway, Rig};
use super::tree::{Memory, Tree};
use crate::measure::say;
use crate::server::Server;

/// So many begin at once. More would only fight for the machine's few cores.
const AT_ONCE: usize = 4;
/// Browser servers of their own are not started beyond this: each is a whole browser.
const MOST_SERVERS: usize = 20;
/// What one of them is taken to need, so that none is started where memory is short.
const SERVER_MB: f64 = 400.0;

pub(super) struct Measured {
    pub(super) gateway: Result<Growth>,
    pub(super) servers: Result<Growth>,
}

#[derive(Debug, Serialize)]
pub(super) struct Growth {
    /// Without a session, in MB.
    pub(super) base: f64,
    pub(super) points: Vec<Point>,
}

#[derive(Debug, Serialize)]
pub(super) struct Point {
    pub(super) sessions: usize,
    pub(super) per_session: f64,
    pub(super) memory: Memory,
}

impl Growth {
    pub(super) fn per_session(&self, sessions: usize) -> Option<f64> {
        self.points.iter().find(|point| point.sessions == sessions).map(|point| point.per_session)
    }

    fn add(&mut self, sessions: usize, memory: Memory) {
        let per_session = memory.above(self.base) / sessions as f64;
        say(format_args!("{sessions}: {:.0} MB, {per_session:.1} MB each", memory.total));
        self.points.push(Point { sessions, per_session, memory });
    }
}

/// One side after the other: pages that both would share must not make either look smaller.
pub(super) async fn measure(counts: &[usize], rig: &Rig<'_>) -> Measured {
    say("memory: sessions of one gateway");
    let gateway = sessions(counts, rig).await;
    say("memory: a browser server each");
    let servers = servers(counts, rig).await;
    Measured { gateway, servers }
}

async fn sessions(counts: &[usize], rig: &Rig<'_>) -> Result<Growth> {
    let gateway = rig.gateway(None).await?;
    let grown = grow_sessions(counts, rig, &gateway).await.with_context(|| gateway.last_words());
    gateway.end().await;
    grown
}

async fn grow_sessions(counts: &[usize], rig: &Rig<'_>, gateway: &Gateway) -> Result<Growth> {
    let tree = gateway.tree();
    tree.rest().await;
    let mut growth = Growth { base: tree.memory().total, points: Vec::new() };
    let mut there = 0;
    for count in counts {
        while there < *count {
            let batch = AT_ONCE.min(count - there);
            let begin = (there..there + batch).map(|number| async move {
                let mut agent = gateway.agent(format!("memory-{number}")).await?;
                rig.navigate_and_look(&mut agent, 0).await
            });
            try_all(begin).await?;
            there += batch;
        }
        tree.rest().await;
        growth.add(*count, tree.memory());
    }
    Ok(growth)
}

async fn servers(counts: &[usize], rig: &Rig<'_>) -> Result<Growth> {
    let mut running: Vec<(Server, Agent)> = Vec::new();
    let grown = grow_servers(counts, rig, &mut running).await;
    end_all(running.into_iter().map(|(server, _)| server)).await;
    grown
}

async fn grow_servers(counts: &[usize], rig: &Rig<'_>, running: &mut Vec<(Server, Agent)>) -> Result<Growth> {
    let mut growth = Growth { base: 0.0, points: Vec::new() };
    for count in counts.iter().copied().filter(|count| *count <= MOST_SERVERS) {
        let missing = count - running.len();
        if missing as f64 * SERVER_MB > available_mb() {
            say(format_args!("{count}: left out, memory is short"));
            break;
        }
        while running.len() < count {
            let begin = (0..AT_ONCE.min(count - running.len())).map(|_| async {
                let (server, mut agent) = rig.upstream().await?;
                rig.navigate_and_look(&mut agent, 0).await.with_context(|| server.last_words())?;
                Ok((server, agent))
            });
            running.extend(try_all(begin).await?);
        }
        let tree = Tree::of(running.iter().map(|(server, _)| server.pid()).collect());
        tree.rest().await;
        growth.add(count, tree.memory());
    }
    Ok(growth)
}

/// All of them at once; the first failure is the failure of all.
pub(super) async fn try_all<T>(
    begin: impl Iterator<Item = impl Future<Output = Result<T>>>,
) -> Result<Vec<T>> {
    futures::future::try_join_all(begin).await
}

/// Ends servers, a few at a time: one after another takes long.
pub(super) async fn end_all(servers: impl Iterator<Item = Server>) {
    let mut ending = JoinSet::new();
    for server in servers {
        ending.spawn(server.end());
    }
    while ending.join_next().await.is_some() {}
}

fn available_mb() -> f64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse().ok());
    crate::report::megabytes(kib.unwrap_or(0))
}
