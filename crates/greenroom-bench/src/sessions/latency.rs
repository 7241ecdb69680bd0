//! From the first call of a new session to its answer.
//!
//! Round by round, every way once, so that what disturbs the machine disturbs all alike.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::rig::{Agent, Gateway, Rig};
use crate::measure::say;
use crate::samples::Samples;

/// Calls in a session that is there, for each call that makes one.
const WARM_CALLS: usize = 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) rounds: usize,
    /// No round is begun after this.
    pub(super) budget: Duration,
}

/// All of them navigate to the same page.
#[derive(Default)]
pub(super) struct Figures {
    /// In a session that has been there.
    pub(super) warm_navigate: Samples,
    /// In a new session that finds a warm seat.
    pub(super) warm_seat: Samples,
    /// In a new session without one, on a host that runs.
    pub(super) no_seat: Samples,
    /// In the first session of a gateway, which has no host yet.
    pub(super) cold_gateway: Samples,
    /// In a browser server that is started for it, from its start on.
    pub(super) cold_server: Samples,
}

struct Running {
    gateway: Gateway,
    /// The session that stays.
    agent: Agent,
}

pub(super) async fn measure(plan: Plan, rig: &Rig<'_>) -> Result<Figures> {
    let began = Instant::now();
    let warm = Running::start(rig, 1).await?;
    let without = Running::start(rig, 0).await;
    let (mut warm, mut without) = match without {
        Ok(without) => (warm, without),
        Err(error) => {
            warm.gateway.end().await;
            return Err(error);
        }
    };
    let mut figures = Figures::default();
    let mut outcome = Ok(());
    for round in 1..=plan.rounds {
        if round > 1 && began.elapsed() > plan.budget {
            say("the rest of the rounds is left out: time is up");
            break;
        }
        say(format_args!("first answers: round {round} of {}", plan.rounds));
        outcome = figures.add_round(round, rig, &mut warm, &mut without).await;
        if outcome.is_err() {
            break;
        }
    }
    let words = [warm.gateway.last_words(), without.gateway.last_words()].join("; ");
    warm.gateway.end().await;
    without.gateway.end().await;
    outcome.context(words).map(|()| figures)
}

impl Running {
    async fn start(rig: &Rig<'_>, warm: usize) -> Result<Self> {
        let gateway = rig.gateway(Some(warm)).await?;
        let mut agent = gateway.agent("stays".to_owned()).await?;
        rig.navigate(&mut agent).await.with_context(|| gateway.last_words())?;
        Ok(Self { gateway, agent })
    }

    /// The first call of a new session. A seat that was taken before has been replaced by then.
    async fn first_call(&self, rig: &Rig<'_>, round: usize) -> Result<Duration> {
        let mut agent = self.gateway.agent(format!("new-{round}")).await?;
        self.gateway.tree().rest().await;
        let took = rig.navigate(&mut agent).await?;
        agent.close().await?;
        Ok(took)
    }
}

impl Figures {
    async fn add_round(
        &mut self,
        round: usize,
        rig: &Rig<'_>,
        warm: &mut Running,
        without: &mut Running,
    ) -> Result<()> {
        warm.gateway.tree().rest().await;
        let mut calls = Vec::new();
        for _ in 0..WARM_CALLS {
            calls.push(rig.navigate(&mut warm.agent).await?);
        }
        self.warm_navigate.add_round(calls);
        self.warm_seat.add_round(vec![warm.first_call(rig, round).await?]);
        self.no_seat.add_round(vec![without.first_call(rig, round).await?]);
        warm.gateway.tree().rest().await;
        self.cold_gateway.add_round(vec![cold_gateway(rig).await?]);
        self.cold_server.add_round(vec![cold_server(rig).await?]);
        Ok(())
    }
}

/// The gateway listens and the client has greeted; everything else happens in the call.
async fn cold_gateway(rig: &Rig<'_>) -> Result<Duration> {
    let gateway = rig.gateway(Some(0)).await?;
    let first = async {
        let mut agent = gateway.agent("first".to_owned()).await?;
        gateway.tree().rest().await;
        rig.navigate(&mut agent).await
    };
    let took = first.await.with_context(|| gateway.last_words());
    gateway.end().await;
    took
}

/// Start, greeting and first call.
async fn cold_server(rig: &Rig<'_>) -> Result<Duration> {
    let began = Instant::now();
    let (server, mut agent) = rig.upstream().await?;
    let navigated = rig.navigate(&mut agent).await.with_context(|| server.last_words());
    let took = began.elapsed();
    server.end().await;
    navigated.map(|_| took)
}
