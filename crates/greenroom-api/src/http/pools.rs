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

use super::error;

/// As many as one pool can have.
const MOST_INSTANCES: usize = 1000;

pub(super) async fn all(State(engine): State<Engine>) -> Response {
    shown(engine.status(None))
}

pub(super) async fn one(State(engine): State<Engine>, Path(pool): Path<String>) -> Response {
    shown(engine.status(Some(&pool)))
}

/// The report of `browser_pool_status`, and how many calls wait and sessions live in each pool.
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
    Json(shown).into_response()
}

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

pub(super) async fn scale(State(engine): State<Engine>, Path(pool): Path<String>, body: Bytes) -> Response {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        instances: usize,
    }
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
