//! The HTTP listener: MCP at `/mcp`, sessions, calls, their record and the pools under `/api`, the web page, and the two
//! probes.

mod blobs;
mod browser_sessions;
mod browsers;
mod calls;
mod failure;
mod front;
mod live;
mod openapi;
mod pools;
mod sessions;
mod streams;
mod ui;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::serve::ListenerExt;
use axum::{Json, Router};
use greenroom_core::config::HttpConfig;
use greenroom_core::target::SessionName;
use greenroom_engine::{Bound, Caller, Engine, Origin};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::mcp::{Arrival, McpServer, McpServerFactory};
use front::Door;
use sessions::Sessions;

pub(crate) use sessions::Activity;

/// How long open connections have to end once we stop.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// Serves on the listener until `shutdown` is cancelled.
pub async fn serve_http(
    listener: TcpListener,
    engine: Engine,
    config: &HttpConfig,
    session_per_connection: bool,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let local = listener.local_addr()?;
    let sockets = TaskTracker::new();
    let router = router(local, engine, config, session_per_connection, &shutdown, &sockets);
    // Without it a small answer waits for the client's delayed acknowledgement: 40 ms instead of less than one.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        hold_little(stream);
    });
    let serving = axum::serve(listener, router).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let serving = serving.into_future();
    tokio::pin!(serving);
    tokio::select! {
        result = &mut serving => return result,
        () = shutdown.cancelled() => {}
    }
    sockets.close();
    let ended = async {
        let result = serving.await;
        // They have left HTTP, so nobody else waits for them to say goodbye.
        sockets.wait().await;
        result
    };
    match tokio::time::timeout(CLOSE_LIMIT, ended).await {
        Ok(result) => result,
        Err(_) => {
            tracing::debug!("connections that stayed open were cut off");
            Ok(())
        }
    }
}

/// How much may wait in the kernel to be sent on one connection.
#[cfg(target_os = "linux")]
const MOST_UNSENT: u32 = 128 * 1024;

/// The kernel would take megabytes of pictures for somebody who reads slowly, and they would see what was seconds ago. With a limit on what
/// is not sent yet, the next picture is only chosen when the last is on its way.
#[cfg(target_os = "linux")]
fn hold_little(stream: &TcpStream) {
    if let Err(error) = socket2::SockRef::from(stream).set_tcp_notsent_lowat(MOST_UNSENT) {
        tracing::debug!(%error, "TCP_NOTSENT_LOWAT could not be set");
    }
}

/// Other systems keep to the size of their buffers.
#[cfg(not(target_os = "linux"))]
fn hold_little(_: &TcpStream) {}

fn router(
    local: SocketAddr,
    engine: Engine,
    config: &HttpConfig,
    session_per_connection: bool,
    shutdown: &CancellationToken,
    sockets: &TaskTracker,
) -> Router {
    let sessions = Arc::new(Sessions::new(config.mcp_session_idle));
    tokio::spawn(Arc::clone(&sessions).expire(shutdown.clone()));
    let factory = McpServerFactory::with_activity(engine.clone(), Origin::local(), sessions.activity());
    // The door below checks Host and Origin for every route, this one included.
    let settings = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_cancellation_token(shutdown.clone())
        .with_max_request_body_bytes(config.max_request_bytes);
    let service = StreamableHttpService::new(move || Ok(factory.server()), sessions, settings);
    let (door, max_body) = (Arc::new(Door::new(local, config)), config.max_request_bytes);
    let endpoint = Endpoint { service, engine: engine.clone(), max_body, session_per_connection };
    let bound = endpoint.clone();
    let base = config.public_url.clone().unwrap_or_else(|| format!("http://{local}"));
    let (api, state) = openapi::routes(engine, max_body, &base, shutdown, sockets);
    ui::routes(api)
        .route("/mcp", any(move |request| mcp(endpoint.clone(), request)))
        .route("/sessions/{id}/mcp", any(move |Path(id), request| session_mcp(bound.clone(), id, request)))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .with_state(state)
        .layer(middleware::from_fn_with_state(door, front::check))
}

/// What `/mcp` and the doors of single sessions share.
#[derive(Clone)]
struct Endpoint {
    service: StreamableHttpService<McpServer, Sessions>,
    engine: Engine,
    max_body: usize,
    session_per_connection: bool,
}

/// For clients that say in their calls where they want to run.
async fn mcp(endpoint: Endpoint, request: Request) -> Response {
    let connection = request.headers().get("mcp-session-id").and_then(|id| id.to_str().ok());
    let session = match connection.filter(|_| endpoint.session_per_connection) {
        Some(id) => SessionName::new(format!("connection-{id}")).map_or(Bound::Free, Bound::Implied),
        None => Bound::Free,
    };
    serve_mcp(endpoint, Origin { caller: Caller::local(), session }, request).await
}

/// The door of one session, for clients that know nothing of sessions.
async fn session_mcp(endpoint: Endpoint, id: String, request: Request) -> Response {
    if !endpoint.engine.modes().has_sessions() {
        return error(
            StatusCode::NOT_FOUND,
            "not_found",
            "There are no sessions with this configuration (ADDRESSING).",
        );
    }
    match SessionName::new(id) {
        Ok(name) => {
            let origin = Origin { caller: Caller::local(), session: Bound::Fixed(name) };
            serve_mcp(endpoint, origin, request).await
        }
        Err(wrong) => error(StatusCode::BAD_REQUEST, "bad_request", &wrong.to_string()),
    }
}

async fn serve_mcp(endpoint: Endpoint, origin: Origin, mut request: Request) -> Response {
    let Endpoint { service, engine, max_body, .. } = endpoint;
    // For GET and DELETE too; those are read by nobody else.
    request.extensions_mut().insert(origin.clone());
    if request.method() != Method::POST {
        return front::in_protocol(service.handle(request).await.map(Body::new)).await;
    }
    match front::read(request, max_body).await {
        Ok((mut request, body)) => {
            if let Some(call) = front::Call::read(&body)
                && let Some(arrival) = Arrival::now(&engine, &origin, &call.tool, |name| call.argument(name))
            {
                request.extensions_mut().insert(arrival);
            }
            request.extensions_mut().insert(origin);
            let response = service.handle(request).await.map(Body::new);
            front::in_protocol(front::explain(response, &body).await).await
        }
        Err(response) => response,
    }
}

/// The process lives.
async fn healthz() -> Json<serde_json::Value> {
    Json(json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }))
}

/// Calls are taken, and the default pool has a browser for them or can have one.
async fn readyz(State(engine): State<Engine>) -> Response {
    if engine.is_stopping() {
        return error(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", "Greenroom is shutting down.");
    }
    let Ok(status) = engine.status(None) else { return not_found().await };
    let down: Vec<_> = status.pools.iter().filter(|pool| pool.is_down()).collect();
    if let Some(pool) = down.iter().find(|pool| pool.is_default) {
        let causes = pool.instances.iter().filter_map(|instance| instance.health_check.error.as_deref());
        let message = format!(
            "The default pool {} has no instance left that works; restart them by hand. {}",
            pool.name,
            causes.collect::<Vec<_>>().join(" ")
        );
        return error(StatusCode::SERVICE_UNAVAILABLE, "degraded", &message);
    }
    let down: Vec<_> = down.iter().map(|pool| &pool.name).collect();
    Json(json!({ "status": "ready", "summary": status.summary, "pools_down": down })).into_response()
}

async fn not_found() -> Response {
    error(
        StatusCode::NOT_FOUND,
        "not_found",
        "There is nothing here. The MCP endpoint is /mcp, the web page is /.",
    )
}

async fn wrong_method() -> Response {
    error(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "This address does not take that HTTP method.",
    )
}

/// The one format of errors outside of MCP.
fn error(status: StatusCode, kind: &str, message: &str) -> Response {
    (status, Json(json!({ "error": kind, "message": message, "details": {} }))).into_response()
}
