//! What there is to know about the pools: the answer of `browser_pool_status`, of `greenroom status` and of the
//! resource `greenroom://status`.

use std::borrow::Cow;
use std::time::SystemTime;

use greenroom_core::supervision::Supervision;
use greenroom_upstream::instance::{State, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::pool::{Leased, Pool, Seat};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StatusReport {
    pub pools: Vec<PoolReport>,
    pub summary: Summary,
    /// Whether calls are written down. Not part of the tool's answer.
    #[serde(skip_serializing, default)]
    pub history: HistoryReport,
}

/// How the record is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HistoryReport {
    /// `on`, `off`, or `failing`: calls go on, and are not written down.
    pub state: Cow<'static, str>,
    /// Calls that could not be written down since the start.
    pub lost: u64,
    pub error: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolReport {
    pub name: String,
    pub description: String,
    pub is_default: bool,
    pub total_instances: usize,
    pub healthy_instances: usize,
    pub leased_instances: usize,
    pub available_instances: usize,
    pub instances: Vec<InstanceReport>,
    /// How many calls wait for a browser. Not part of the tool's answer.
    #[serde(skip_serializing, default)]
    pub waiting: usize,
    /// How many sessions live in it, beside its instances. Not part of the tool's answer.
    #[serde(skip_serializing, default)]
    pub sessions: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InstanceReport {
    pub id: String,
    pub alias: Option<String>,
    pub status: Health,
    pub leased: bool,
    pub lease_duration_ms: Option<u64>,
    pub lease_started_at: Option<String>,
    pub browser: String,
    pub headless: Option<bool>,
    pub process_id: Option<u32>,
    pub health_check: HealthCheck,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    Healthy,
    Failed,
    Starting,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HealthCheck {
    pub last_check: Option<String>,
    pub responsive: bool,
    pub error: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    pub total_pools: usize,
    pub total_instances: usize,
    pub healthy_instances: usize,
    pub failed_instances: usize,
    pub leased_instances: usize,
    pub available_instances: usize,
}

impl StatusReport {
    pub(crate) fn of<'a>(
        pools: impl Iterator<Item = &'a Pool>,
        sessions: impl Fn(&str) -> usize,
        history: HistoryReport,
    ) -> Self {
        let pools: Vec<_> = pools.map(|known| pool(known, sessions(known.name()))).collect();
        let sum = |count: fn(&PoolReport) -> usize| pools.iter().map(count).sum();
        let failed = |instance: &&InstanceReport| instance.status == Health::Failed;
        let summary = Summary {
            total_pools: pools.len(),
            total_instances: sum(|pool| pool.total_instances),
            healthy_instances: sum(|pool| pool.healthy_instances),
            failed_instances: pools.iter().flat_map(|pool| &pool.instances).filter(failed).count(),
            leased_instances: sum(|pool| pool.leased_instances),
            available_instances: sum(|pool| pool.available_instances),
        };
        Self { pools, summary, history }
    }
}

impl StatusReport {
    /// Where there are sessions only.
    pub(crate) fn leave_out_instances(&mut self) {
        for pool in &mut self.pools {
            pool.instances.clear();
            for count in [
                &mut pool.total_instances,
                &mut pool.healthy_instances,
                &mut pool.leased_instances,
                &mut pool.available_instances,
            ] {
                *count = 0;
            }
        }
        self.summary = Summary { total_pools: self.pools.len(), ..Summary::default() };
    }
}

impl PoolReport {
    /// Whether no instance is left that could serve.
    pub fn is_down(&self) -> bool {
        !self.instances.is_empty() && self.instances.iter().all(|instance| instance.status == Health::Failed)
    }
}

fn pool(pool: &Pool, sessions: usize) -> PoolReport {
    let instances: Vec<_> =
        pool.snapshot().iter().map(|(seat, status, leased)| instance(seat, status, *leased)).collect();
    // Healthy is who answers; one that has missed a check is not handed out.
    let healthy =
        |instance: &&InstanceReport| instance.status == Health::Healthy && instance.health_check.responsive;
    PoolReport {
        name: pool.config.name.clone(),
        description: pool.config.description.clone(),
        is_default: pool.config.is_default,
        total_instances: instances.len(),
        healthy_instances: instances.iter().filter(healthy).count(),
        leased_instances: instances.iter().filter(|instance| instance.leased).count(),
        available_instances: instances.iter().filter(healthy).filter(|instance| !instance.leased).count(),
        instances,
        waiting: pool.waiting(),
        sessions,
    }
}

fn instance(seat: &Seat, status: &Status, leased: Option<Leased>) -> InstanceReport {
    let (health, process_id) = health(status, &seat.config.upstream.supervision);
    let (browser, headless) = seat.browser();
    let check = status.last_check.as_ref();
    let error = match &status.state {
        State::Ready(_) => None,
        State::Unhealthy(_) => check.and_then(|check| check.error.clone()),
        _ => status.last_failure.as_ref().map(ToString::to_string),
    };
    InstanceReport {
        id: seat.member.to_string(),
        alias: seat.alias.clone(),
        status: health,
        leased: leased.is_some(),
        lease_duration_ms: leased
            .map(|lease| u64::try_from(lease.since.elapsed().as_millis()).unwrap_or(u64::MAX)),
        lease_started_at: leased.map(|lease| timestamp(lease.at)),
        browser,
        headless,
        process_id,
        health_check: HealthCheck {
            last_check: check.map(|check| timestamp(check.at)),
            responsive: matches!(status.state, State::Ready(_)),
            error,
        },
    }
}

fn health(status: &Status, supervision: &Supervision) -> (Health, Option<u32>) {
    match &status.state {
        State::Ready(upstream) => (Health::Healthy, upstream.pid()),
        // Failed is said when enough checks were missed, and not before.
        State::Unhealthy(upstream) if status.misses < supervision.check_failures => {
            (Health::Healthy, upstream.pid())
        }
        State::Unhealthy(upstream) => (Health::Failed, upstream.pid()),
        State::Starting | State::Restarting => (Health::Starting, None),
        // Nobody has asked for it yet, so it is as good as starting; one that could not be started is not.
        State::Stopped if status.refusals == 0 => (Health::Starting, None),
        State::Stopped | State::Failed | State::Stopping => (Health::Failed, None),
    }
}

/// In UTC, to the millisecond.
pub(crate) fn timestamp(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map_or_else(|_| String::new(), |time| format!("{time:.3}"))
}

/// The JSON Schema of a report.
pub(crate) fn schema() -> Value {
    let count = json!({ "type": "integer", "minimum": 0 });
    let text = json!({ "type": "string" });
    let maybe_text = json!({ "type": ["string", "null"] });
    let maybe_count = json!({ "type": ["integer", "null"] });
    let health_check = object(&json!({
        "last_check": maybe_text, "responsive": { "type": "boolean" }, "error": maybe_text,
    }));
    let instance = object(&json!({
        "id": text, "alias": maybe_text, "status": { "enum": ["healthy", "failed", "starting"] },
        "leased": { "type": "boolean" }, "lease_duration_ms": maybe_count, "lease_started_at": maybe_text,
        "browser": text, "headless": { "type": ["boolean", "null"] }, "process_id": maybe_count,
        "health_check": health_check,
    }));
    let pool = object(&json!({
        "name": text, "description": text, "is_default": { "type": "boolean" }, "total_instances": count,
        "healthy_instances": count, "leased_instances": count, "available_instances": count,
        "instances": { "type": "array", "items": instance },
    }));
    object(&json!({
        "pools": { "type": "array", "items": pool },
        "summary": object(&json!({
            "total_pools": count, "total_instances": count, "healthy_instances": count,
            "failed_instances": count, "leased_instances": count, "available_instances": count,
        })),
    }))
}

/// An object of which every property is there.
fn object(properties: &Value) -> Value {
    let required: Vec<_> = properties.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}
