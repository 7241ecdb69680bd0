//! Pools of the fake upstream: who gets which instance, when, and what callers hear.

mod addresses;
mod bulk;
mod failures;
mod lifetime;
mod order;
mod status;
mod waiting;

use std::time::Duration;

use futures::FutureExt;
use greenroom_engine::{
    CallFailure, CallHandle, CallRequest, Health, InstanceReport, Origin, Outcome, PoolReport, Progress,
};
use greenroom_testkit::{fake_upstream, wait_until};
use greenroom_upstream::driver::Overlap;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::Rig;

/// Far more than anything here takes; only a test that fails gets to know it.
const LIMIT: Duration = Duration::from_secs(60);

/// Reports of one call, in calls that make many.
const REPORTS: usize = 1024;

/// The fake upstream, as a command.
fn fake(flags: &str) -> String {
    format!("{} {flags}", fake_upstream().display())
}

/// An engine with pools; `settings` are variables without `GREENROOM_`: `_MAIN_INSTANCES=2`.
fn pools(flags: &str, settings: &[&str]) -> Rig {
    let settings: Vec<_> = settings
        .iter()
        .map(|setting| setting.split_once('=').expect("NAME=value"))
        .map(|(name, value)| (format!("GREENROOM_{name}"), value))
        .collect();
    let settings: Vec<_> = settings.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    Rig::with(&fake(flags), Overlap::Beside, &settings)
}

/// An engine with the pool MAIN alone, all of it up.
fn main_pool(instances: usize, settings: &[&str]) -> Rig {
    let count = format!("_MAIN_INSTANCES={instances}");
    let all: Vec<_> =
        [&*count, "_MAIN_IS_DEFAULT=true"].into_iter().chain(settings.iter().copied()).collect();
    let rig = pools("", &all);
    rig.wait_for_healthy("MAIN", instances);
    rig
}

impl Rig {
    fn pool(&self, name: &str) -> PoolReport {
        self.engine.status(Some(name)).unwrap().pools.remove(0)
    }

    fn instance(&self, pool: &str, id: usize) -> InstanceReport {
        let id = id.to_string();
        self.pool(pool).instances.into_iter().find(|instance| instance.id == id).expect("it is in the pool")
    }

    fn wait_for_healthy(&self, pool: &str, count: usize) {
        wait_until("instances to be healthy", LIMIT, || self.pool(pool).healthy_instances == count);
    }

    fn wait_for_failed(&self, pool: &str, id: usize) {
        wait_until("an instance to fail", LIMIT, || self.instance(pool, id).status == Health::Failed);
    }

    /// Until so many wait in MAIN.
    fn wait_for_queue(&self, waiting: usize) {
        wait_until("the queue to be that long", LIMIT, || self.pool("MAIN").waiting == waiting);
    }

    /// Nobody waits and nothing is leased.
    fn wait_for_rest(&self) {
        wait_until("everything to be returned", LIMIT, || {
            let pools = self.engine.status(None).unwrap().pools;
            pools.iter().all(|pool| pool.waiting == 0 && pool.leased_instances == 0)
        });
    }

    /// A call with its reports.
    fn watched(&self, tool: &str, arguments: Value) -> Watched {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let (sender, reports) = mpsc::channel(REPORTS);
        let request = CallRequest {
            origin: Origin::local(),
            tool: tool.to_owned(),
            arguments,
            place: None,
            ref_id: None,
            progress: Some(sender),
        };
        Watched { handle: self.engine.call(request), reports }
    }

    /// A call that runs until it is cancelled, and says when it has begun.
    fn endless(&self, mut address: Value) -> Watched {
        address["steps"] = json!(1_000_000_000);
        address["delay_ms"] = json!(5);
        self.watched("progress", address)
    }

    /// An endless call that has begun on this instance of MAIN.
    async fn occupied(&self, instance: usize) -> Watched {
        let mut call = self.endless(json!({ "browser_instance": instance }));
        call.begun().await;
        call
    }

    /// The result of a call, as JSON.
    async fn result(&self, tool: &str, arguments: Value) -> Value {
        result(self.call(tool, arguments).outcome().await)
    }

    /// Which process of MAIN has this number.
    async fn pid_of(&self, instance: usize) -> u32 {
        self.text("pid", json!({ "browser_instance": instance })).await.parse().unwrap()
    }
}

struct Watched {
    handle: CallHandle,
    reports: mpsc::Receiver<Progress>,
}

impl Watched {
    /// Waits until the upstream has reported, so it is at work on this call.
    async fn begun(&mut self) {
        loop {
            let report = self.reports.recv().await.expect("the call goes on");
            if is_upstreams(&report) {
                return;
            }
        }
    }

    /// Whether the upstream has reported by now.
    fn has_begun(&mut self) -> bool {
        while let Ok(report) = self.reports.try_recv() {
            if is_upstreams(&report) {
                return true;
            }
        }
        false
    }

    fn has_ended(&mut self) -> bool {
        self.handle.outcome().now_or_never().is_some()
    }

    /// Cancels it and returns the instance that it ran on, or `None` if it waited.
    async fn end(mut self) -> Option<String> {
        self.handle.cancel();
        let outcome = self.handle.outcome().await;
        assert!(matches!(outcome.result, Err(CallFailure::Cancelled)), "{outcome:?}");
        outcome.served.and_then(|served| served.instance)
    }

    async fn failure(mut self) -> String {
        let failed = self.handle.outcome().await.result.expect_err("this call cannot succeed");
        failed.to_string()
    }
}

fn is_upstreams(report: &Progress) -> bool {
    report.message.as_deref().is_some_and(|message| message.starts_with("step "))
}

fn result(outcome: Outcome) -> Value {
    let bytes = outcome.result.unwrap_or_else(|failure| panic!("{failure}"));
    serde_json::from_slice(&bytes).unwrap()
}

/// Which instance served a call that succeeded.
async fn served(mut call: CallHandle) -> String {
    let outcome = call.outcome().await;
    outcome.result.unwrap_or_else(|failure| panic!("{failure}"));
    outcome.served.and_then(|served| served.instance).expect("it ran on an instance")
}
