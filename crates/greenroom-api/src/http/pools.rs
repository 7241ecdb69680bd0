//! The pools over HTTP: looking at them, restarting, scaling.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use greenroom_core::target::UnknownPool;
use greenroom_engine::{CallFailure, Engine, StatusReport};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::error;
use super::failure::ErrorBody;

/// How large a pool is to be.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// 1 to 1000.
    instances: usize,
}

/// As many as one pool can have.
const MOST_INSTANCES: usize = 1000;

/// Show all pools
#[utoipa::path(
    get, path = "/api/pools", tag = "pools", operation_id = "list_pools",
    responses((status = 200, description = "The pools, a summary, and how the record of calls is.", body = Object)),
)]
pub(super) async fn all(State(engine): State<Engine>) -> Response {
    shown(engine.status(None))
}

/// Show one pool
#[utoipa::path(
    get, path = "/api/pools/{pool}", tag = "pools", operation_id = "get_pool",
    params(("pool" = String, Path, description = "Name of the pool.")),
    responses(
        (status = 200, description = "As for all pools, with one in it.", body = Object),
        (status = 404, description = "`not_found`", body = ErrorBody),
    ),
)]
pub(super) async fn one(State(engine): State<Engine>, Path(pool): Path<String>) -> Response {
    shown(engine.status(Some(&pool)))
}

/// The report of `browser_pool_status`, how many calls wait and sessions live in each pool, and how the record is.
fn shown(report: Result<StatusReport, UnknownPool>) -> Response {
    let report = match report {
        Ok(report) => report,
        Err(unknown) => return not_found(&format!("Invalid pool name: {unknown}")),
    };
    let mut shown = serde_json::to_value(&report).expect("a report is plain JSON");
    for (pool, shown) in report.pools.iter().zip(shown["pools"].as_array_mut().into_iter().flatten()) {
        shown["waiting_calls"] = pool.waiting.into();
        shown["sessions"] = pool.sessions.into();
    }
    shown["history"] = serde_json::to_value(&report.history).expect("a report is plain JSON");
    Json(shown).into_response()
}

/// Start one instance anew
#[utoipa::path(
    post, path = "/api/pools/{pool}/instances/{instance}/restart", tag = "pools", operation_id = "restart_instance",
    params(("pool" = String, Path, description = "Name of the pool."), ("instance" = String, Path, description = "Number or alias.")),
    responses(
        (status = 202, description = "It is being started.", body = Object),
        (status = 404, description = "`not_found`", body = ErrorBody),
    ),
)]
pub(super) async fn restart(
    State(engine): State<Engine>,
    Path((pool, instance)): Path<(String, String)>,
) -> Response {
    match engine.restart(&pool, &instance, "asked for over HTTP") {
        Ok(()) => {
            let body = json!({ "pool": pool, "instance": instance, "status": "restarting" });
            (StatusCode::ACCEPTED, Json(body)).into_response()
        }
        Err(failure) => not_found(&failure.to_string()),
    }
}

/// Start every instance of a pool anew
#[utoipa::path(
    post, path = "/api/pools/{pool}/restart", tag = "pools", operation_id = "restart_pool",
    params(("pool" = String, Path, description = "Name of the pool.")),
    responses(
        (status = 202, description = "They are being started.", body = Object),
        (status = 404, description = "`not_found`", body = ErrorBody),
    ),
)]
pub(super) async fn restart_all(State(engine): State<Engine>, Path(pool): Path<String>) -> Response {
    match engine.restart_pool(&pool, "asked for over HTTP") {
        Ok(instances) => {
            let body = json!({ "pool": pool, "instances": instances, "status": "restarting" });
            (StatusCode::ACCEPTED, Json(body)).into_response()
        }
        Err(failure @ CallFailure::UnknownPool(_)) => not_found(&failure.to_string()),
        Err(failure) => error(StatusCode::INTERNAL_SERVER_ERROR, "failed", &failure.to_string()),
    }
}

/// Change how many instances a pool has
#[utoipa::path(
    post, path = "/api/pools/{pool}/scale", tag = "pools", operation_id = "scale_pool",
    params(("pool" = String, Path, description = "Name of the pool.")), request_body = Wanted,
    responses(
        (status = 202, description = "Those that are added, and those that go when they are done.", body = Object),
        (status = 400, description = "`bad_request`", body = ErrorBody),
        (status = 404, description = "`not_found`", body = ErrorBody),
        (status = 409, description = "`misconfigured`", body = ErrorBody),
    ),
)]
pub(super) async fn scale(State(engine): State<Engine>, Path(pool): Path<String>, body: Bytes) -> Response {
    let wanted = match serde_json::from_slice::<Wanted>(&body) {
        Ok(wanted) if (1..=MOST_INSTANCES).contains(&wanted.instances) => wanted.instances,
        _ => {
            let message = format!("Send {{\"instances\": N}}, with N from 1 to {MOST_INSTANCES}.");
            return error(StatusCode::BAD_REQUEST, "bad_request", &message);
        }
    };
    match engine.scale(&pool, wanted) {
        Ok(Ok(scaled)) => (StatusCode::ACCEPTED, Json(scaled)).into_response(),
        Ok(Err(mistakes)) => error(StatusCode::CONFLICT, "misconfigured", &mistakes.to_string()),
        Err(unknown) => not_found(&format!("Invalid pool name: {unknown}")),
    }
}

fn not_found(message: &str) -> Response {
    error(StatusCode::NOT_FOUND, "not_found", message)
}
