//! What every request passes before anything else looks at it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use greenroom_core::config::HttpConfig;
use http_body_util::BodyExt;
use rmcp::model::ClientJsonRpcMessage;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::error;
use crate::mcp::Refusal;

/// Which names and origins are ours. A web page in somebody's browser can send requests to loopback, under a name
/// of its own choosing; checking both is what keeps it from driving our browsers.
pub(super) struct Door {
    hosts: Vec<String>,
    /// Our own.
    origins: Vec<String>,
    /// Those of others that may ask (WEB_ORIGINS).
    guests: Vec<String>,
}

impl Door {
    pub(super) fn new(local: SocketAddr, config: &HttpConfig) -> Self {
        let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        hosts.push(local.ip().to_string());
        let mut origins: Vec<_> = hosts
            .iter()
            .map(|host| match host.parse::<IpAddr>() {
                Ok(IpAddr::V6(ip)) => format!("http://[{ip}]:{}", local.port()),
                _ => format!("http://{host}:{}", local.port()),
            })
            .collect();
        if let Some(url) = &config.public_url
            && let Ok(uri) = url.parse::<Uri>()
            && let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority())
        {
            hosts.push(bare(authority.host()));
            origins.push(format!("{scheme}://{authority}").to_ascii_lowercase());
        }
        let guests =
            config.web_origins.iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase());
        Self { hosts, origins, guests: guests.collect() }
    }

    fn refusal(&self, uri: &Uri, headers: &HeaderMap) -> Option<String> {
        let host = headers.get(HOST).map(|value| value.to_str().unwrap_or_default());
        let host = host.or_else(|| uri.authority().map(http::uri::Authority::as_str)).unwrap_or_default();
        let name = host.parse::<http::uri::Authority>().map(|authority| bare(authority.host()));
        if !name.is_ok_and(|name| self.hosts.contains(&name)) {
            return Some(format!(
                "The Host header `{host}` does not name this server. Use its own address, or set PUBLIC_URL when it \
                 stands behind a proxy."
            ));
        }
        let origin = headers.get(ORIGIN)?.to_str().unwrap_or_default().to_ascii_lowercase();
        (!self.origins.contains(&origin) && !self.guests.contains(&origin)).then(|| {
            format!(
                "Requests from web pages of `{origin}` are not accepted. Set PUBLIC_URL if that is this server, or add it to \
                 WEB_ORIGINS if its pages may use this one."
            )
        })
    }

    /// The origin that asks, as it wrote it, where it is a guest.
    fn guest(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        let is_guest = self.guests.contains(&origin.to_str().ok()?.to_ascii_lowercase());
        is_guest.then(|| origin.clone())
    }

    /// Lets a guest's browser hand over the answer.
    fn permit(&self, response: &mut Response, guest: Option<HeaderValue>) {
        if self.guests.is_empty() {
            return;
        }
        let headers = response.headers_mut();
        headers.append(VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = guest {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        }
    }
}

fn bare(host: &str) -> String {
    host.trim_matches(['[', ']']).to_ascii_lowercase()
}

pub(super) async fn check(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    match door.refusal(request.uri(), request.headers()) {
        None => {
            let guest = door.guest(request.headers());
            let is_question = request.method() == Method::OPTIONS
                && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
            let mut response = match guest.is_some() && is_question {
                true => allowed(),
                false => next.run(request).await,
            };
            door.permit(&mut response, guest);
            response
        }
        Some(message) => {
            tracing::warn!(message, path = request.uri().path(), "refused a request");
            if request.uri().path().ends_with("/mcp") {
                protocol_error(StatusCode::FORBIDDEN, -32600, &message)
            } else {
                error(StatusCode::FORBIDDEN, "forbidden", &message)
            }
        }
    }
}

/// What a guest's page may ask for.
fn allowed() -> Response {
    let headers = [
        (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"),
        (ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, last-event-id"),
        (ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Reads a POST's body. Gives it back beside the request, for the case that it is refused later.
pub(super) async fn read(request: Request, max_body: usize) -> Result<(Request, Bytes), Response> {
    let (parts, body) = request.into_parts();
    let bytes = collect(body, max_body).await.map_err(|()| {
        protocol_error(StatusCode::BAD_REQUEST, -32700, "Parse error: the request broke off.")
    })?;
    let Some(bytes) = bytes else {
        let message =
            format!("The request is larger than {} MiB (MAX_REQUEST_MB).", max_body / (1024 * 1024));
        return Err(protocol_error(StatusCode::PAYLOAD_TOO_LARGE, -32600, &message));
    };
    Ok((Request::from_parts(parts, Body::from(bytes.clone())), bytes))
}

/// What rmcp answers, as plain text, to a body that it cannot read.
const UNREADABLE: &str = "fail to deserialize request body";

/// Says what is wrong with a body that rmcp could not read, as a protocol error.
pub(super) async fn explain(response: Response, body: &Bytes) -> Response {
    if response.status() != StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return response;
    }
    let (parts, text) = response.into_parts();
    let text = text.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    if !text.starts_with(UNREADABLE.as_bytes()) {
        return Response::from_parts(parts, Body::from(text));
    }
    match serde_json::from_slice::<ClientJsonRpcMessage>(body) {
        Err(problem) => {
            let refusal = Refusal::unreadable(body.trim_ascii(), &problem);
            json_response(StatusCode::BAD_REQUEST, refusal.body())
        }
        Ok(_) => Response::from_parts(parts, Body::from(text)),
    }
}

/// The body, or `None` when it is too large; an error when it breaks off. What is too large is still read for a while, so that a client that is
/// busy sending gets to see the answer.
pub(super) async fn collect(mut body: Body, limit: usize) -> Result<Option<Bytes>, ()> {
    const PATIENCE: usize = 512 * 1024 * 1024;
    let (mut bytes, mut seen) = (BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(drop)?.into_data() else { continue };
        seen += data.len();
        if seen <= limit {
            bytes.extend_from_slice(&data);
        } else if seen > PATIENCE {
            break;
        } else {
            bytes.clear();
        }
    }
    Ok((seen <= limit).then(|| bytes.freeze()))
}

/// A call of a tool, as far as its place in line depends on it.
pub(super) struct Call {
    pub(super) tool: String,
    arguments: Box<RawValue>,
}

impl Call {
    /// `None` when a body is something else.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Head<'a> {
            #[serde(borrow, default)]
            method: Option<Cow<'a, str>>,
            #[serde(borrow, default)]
            params: Option<&'a RawValue>,
        }
        #[derive(serde::Deserialize)]
        struct Params {
            name: String,
            #[serde(default)]
            arguments: Option<Box<RawValue>>,
        }
        let head: Head<'_> = serde_json::from_slice(body).ok()?;
        if head.method.as_deref() != Some("tools/call") {
            return None;
        }
        let params: Params = serde_json::from_str(head.params?.get()).ok()?;
        Some(Self { tool: params.name, arguments: params.arguments.unwrap_or_default() })
    }

    /// One argument, read out of what may be large.
    pub(super) fn argument(&self, name: &str) -> Option<Value> {
        let arguments: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_str(self.arguments.get()).ok()?;
        serde_json::from_str(arguments.get(name)?.get()).ok()
    }
}

/// Turns a plain-text refusal of rmcp's into a protocol error with the same status.
pub(super) async fn in_protocol(response: Response) -> Response {
    let status = response.status();
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_json = content_type.is_some_and(|content_type| content_type.starts_with("application/json"));
    if is_json || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = body.collect().await.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
    let code = if status == StatusCode::NOT_FOUND { -32001 } else { -32600 };
    let refusal = protocol_error(status, code, &text.unwrap_or_default());
    let (new, body) = refusal.into_parts();
    parts.headers.extend(new.headers);
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, body)
}

fn protocol_error(status: StatusCode, code: i32, message: &str) -> Response {
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } });
    json_response(status, body.to_string().into_bytes())
}

fn json_response(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}
