//! The pools over HTTP: looking at them, restarting, scaling.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use greenroom_core::target::UnknownPool;
use greenroom_engine::{CallFailure, Engine, Scaled, StatusReport};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error;
use super::failure::{ErrorBody, Refused};
use super::given;

/// How the pools are: the report of `browser_pool_status`, how many calls wait and sessions live in each, and how the
/// record is.
#[derive(Deserialize, Serialize, ToSchema)]
pub(super) struct PoolsShown {
    pools: Vec<PoolShown>,
    summary: SummaryShown,
    history: HistoryShown,
}

#[derive(Deserialize, Serialize, ToSchema)]
struct PoolShown {
    name: String,
    description: String,
    is_default: bool,
    total_instances: usize,
    healthy_instances: usize,
    leased_instances: usize,
    available_instances: usize,
    instances: Vec<InstanceShown>,
    waiting_calls: usize,
    sessions: usize,
}

#[derive(Deserialize, Serialize, ToSchema)]
struct InstanceShown {
    id: String,
    alias: Option<String>,
    /// `healthy`, `failed` or `starting`.
    status: String,
    leased: bool,
    lease_duration_ms: Option<u64>,
    #[schema(format = "date-time")]
    lease_started_at: Option<String>,
    browser: String,
    headless: Option<bool>,
    process_id: Option<u32>,
    health_check: HealthCheckShown,
}

#[derive(Deserialize, Serialize, ToSchema)]
struct HealthCheckShown {
    #[schema(format = "date-time")]
    last_check: Option<String>,
    responsive: bool,
    error: Option<String>,
}

#[derive(Deserialize, Serialize, ToSchema)]
struct SummaryShown {
    total_pools: usize,
    total_instances: usize,
    healthy_instances: usize,
    failed_instances: usize,
    leased_instances: usize,
    available_instances: usize,
}

#[derive(Deserialize, Serialize, ToSchema)]
struct HistoryShown {
    /// `on`, `off`, or `failing`: calls go on, and are not written down.
    state: String,
    /// Calls that could not be written down since the start.
    lost: u64,
    error: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct InstanceRestart {
    pool: String,
    instance: String,
    status: &'static str,
}

#[derive(Serialize, ToSchema)]
pub(super) struct PoolRestart {
    pool: String,
    instances: Vec<String>,
    status: &'static str,
}

/// What scaling has begun.
#[derive(Serialize, ToSchema)]
pub(super) struct ScaleAnswer {
    pool: String,
    instances: usize,
    added: Vec<u32>,
    /// These go when their leases have ended.
    draining: Vec<u32>,
}

const RESTARTING: &str = "restarting";

/// How large a pool is to be.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// 1 to 1000.
    #[serde(deserialize_with = "given::whole")]
    #[schema(minimum = 1, maximum = 1000)]
    instances: usize,
}

/// As many as one pool can have.
const MOST_INSTANCES: usize = 1000;

/// Show all pools
#[utoipa::path(
    get, path = "/api/pools", tag = "pools", operation_id = "list_pools",
    responses((status = 200, description = "The pools, a summary, and how the record of calls is.", body = PoolsShown)),
)]
pub(super) async fn all(State(engine): State<Engine>) -> Response {
    shown(engine.status(None))
}

/// Show one pool
#[utoipa::path(
    get, path = "/api/pools/{pool}", tag = "pools", operation_id = "get_pool",
    params(("pool" = String, Path, description = "Name of the pool.")),
    responses(
        (status = 200, description = "As for all pools, with one in it.", body = PoolsShown),
        (status = 400, description = "`invalid_request`: the address is not right.", body = ErrorBody),
        (status = 404, description = "`not_found`", body = ErrorBody),
    ),
)]
pub(super) async fn one(
    State(engine): State<Engine>,
    pool: Result<Path<String>, PathRejection>,
) -> Result<Response, Refused> {
    let Path(pool) = pool?;
    Ok(shown(engine.status(Some(&pool))))
}

fn shown(report: Result<StatusReport, UnknownPool>) -> Response {
    match report {
        Ok(report) => Json(typed(&report)).into_response(),
        Err(unknown) => not_found(&format!("Invalid pool name: {unknown}")),
    }
}

fn typed(report: &StatusReport) -> PoolsShown {
    let mut shown = serde_json::to_value(report).expect("a report is plain JSON");
    for (pool, shown) in report.pools.iter().zip(shown["pools"].as_array_mut().into_iter().flatten()) {
        shown["waiting_calls"] = pool.waiting.into();
        shown["sessions"] = pool.sessions.into();
    }
    shown["history"] = serde_json::to_value(&report.history).expect("a report is plain JSON");
    serde_json::from_value(shown).expect("the two have the same fields")
}

/// Start one instance anew
#[utoipa::path(
    post, path = "/api/pools/{pool}/instances/{instance}/restart", tag = "pools", operation_id = "restart_instance",
    params(("pool" = String, Path, description = "Name of the pool."), ("instance" = String, Path, description = "Number or alias.")),
    responses(
        (status = 202, description = "It is being started.", body = InstanceRestart),
        (status = 400, description = "`invalid_request`: the address is not right.", body = ErrorBody),
        (status = 404, description = "`not_found`", body = ErrorBody),
    ),
)]
pub(super) async fn restart(
    State(engine): State<Engine>,
    names: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, Refused> {
    let Path((pool, instance)) = names?;
    Ok(match engine.restart(&pool, &instance, "asked for over HTTP") {
        Ok(()) => {
            let body = InstanceRestart { pool, instance, status: RESTARTING };
            (StatusCode::ACCEPTED, Json(body)).into_response()
        }
        Err(failure) => not_found(&failure.to_string()),
    })
}

/// Start every instance of a pool anew
#[utoipa::path(
    post, path = "/api/pools/{pool}/restart", tag = "pools", operation_id = "restart_pool",
    params(("pool" = String, Path, description = "Name of the pool.")),
    responses(
        (status = 202, description = "They are being started.", body = PoolRestart),
        (status = 400, description = "`invalid_request`: the address is not right.", body = ErrorBody),
        (status = 404, description = "`not_found`", body = ErrorBody),
    ),
)]
pub(super) async fn restart_all(
    State(engine): State<Engine>,
    pool: Result<Path<String>, PathRejection>,
) -> Result<Response, Refused> {
    let Path(pool) = pool?;
    Ok(match engine.restart_pool(&pool, "asked for over HTTP") {
        Ok(instances) => {
            let body = PoolRestart { pool, instances, status: RESTARTING };
            (StatusCode::ACCEPTED, Json(body)).into_response()
        }
        Err(failure @ CallFailure::UnknownPool(_)) => not_found(&failure.to_string()),
        Err(failure) => error(StatusCode::INTERNAL_SERVER_ERROR, "failed", &failure.to_string()),
    })
}

/// Change how many instances a pool has
#[utoipa::path(
    post, path = "/api/pools/{pool}/scale", tag = "pools", operation_id = "scale_pool",
    params(("pool" = String, Path, description = "Name of the pool.")), request_body = Wanted,
    responses(
        (status = 202, description = "Those that are added, and those that go when they are done.", body = ScaleAnswer),
        (status = 400, description = "`bad_request`; `invalid_request`: the address is not right.", body = ErrorBody),
        (status = 404, description = "`not_found`", body = ErrorBody),
        (status = 409, description = "`misconfigured`", body = ErrorBody),
    ),
)]
pub(super) async fn scale(
    State(engine): State<Engine>,
    pool: Result<Path<String>, PathRejection>,
    body: Bytes,
) -> Result<Response, Refused> {
    let Path(pool) = pool?;
    let wanted = match serde_json::from_slice::<Wanted>(&body) {
        Ok(wanted) if (1..=MOST_INSTANCES).contains(&wanted.instances) => wanted.instances,
        _ => {
            let message = format!("Send {{\"instances\": N}}, with N from 1 to {MOST_INSTANCES}.");
            return Ok(error(StatusCode::BAD_REQUEST, "bad_request", &message));
        }
    };
    Ok(match engine.scale(&pool, wanted) {
        Ok(Ok(Scaled { pool, instances, added, draining })) => {
            let body = ScaleAnswer { pool, instances, added, draining };
            (StatusCode::ACCEPTED, Json(body)).into_response()
        }
        Ok(Err(mistakes)) => error(StatusCode::CONFLICT, "misconfigured", &mistakes.to_string()),
        Err(unknown) => not_found(&format!("Invalid pool name: {unknown}")),
    })
}

fn not_found(message: &str) -> Response {
    error(StatusCode::NOT_FOUND, "not_found", message)
}

#[cfg(test)]
mod tests {
    use greenroom_engine::StatusReport;
    use serde_json::{Value, json};

    use super::typed;

    #[test]
    fn nothing_of_a_report_is_lost() {
        let report = json!({
            "pools": [{
                "name": "MAIN", "description": "", "is_default": true, "total_instances": 1, "healthy_instances": 1,
                "leased_instances": 1, "available_instances": 0, "waiting": 2, "sessions": 3,
                "instances": [{
                    "id": "0", "alias": "a", "status": "healthy", "leased": true, "lease_duration_ms": 1,
                    "lease_started_at": "t", "browser": "chromium", "headless": true, "process_id": 7,
                    "health_check": { "last_check": "t", "responsive": true, "error": null },
                }],
            }],
            "summary": {
                "total_pools": 1, "total_instances": 1, "healthy_instances": 1, "failed_instances": 0,
                "leased_instances": 1, "available_instances": 0,
            },
            "history": { "state": "on", "lost": 4, "error": null },
        });
        let report: StatusReport = serde_json::from_value(report).expect("a report");
        let mut shown = serde_json::to_value(typed(&report)).expect("it is JSON");
        let pool = shown["pools"][0].as_object_mut().expect("a pool");
        assert_eq!((pool.remove("waiting_calls"), pool.remove("sessions")), (Some(json!(2)), Some(json!(3))));
        let history = shown.as_object_mut().and_then(|shown| shown.remove("history"));
        assert_eq!(history, Some(json!({ "state": "on", "lost": 4, "error": null })));
        let whole: Value = serde_json::to_value(&report).expect("it is JSON");
        assert_eq!(shown, whole);
    }
}
