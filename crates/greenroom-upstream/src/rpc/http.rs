//! MCP's Streamable HTTP transport, client side: one POST a message, answers as JSON or as an event stream, and
//! a GET stream for what the server says unasked.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Method, Response, StatusCode};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::peer::{CallError, Ended, Outgoing, Peer, ServerInfo, WeakPeer};
use super::sse::{Event, EventReader};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// How long a message that needs no answer may hold up the next one.
const NOTICE_LIMIT: Duration = Duration::from_secs(5);

/// Connects and shakes hands, since the session's id and the protocol's version travel in headers from then on.
pub async fn connect_http(
    url: &str,
    roots: Vec<String>,
    message_limit: usize,
) -> Result<(Peer, ServerInfo), CallError> {
    // The first wins, and all are the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // An upstream is a server the operator named; a proxy meant for the outside must not see it.
    let client = Client::builder()
        .no_proxy()
        .connect_timeout(Duration::from_secs(10))
        .build()
        .map_err(|error| CallError::Transport(error.to_string()))?;
    let (queue, messages) = mpsc::unbounded_channel();
    let closing = CancellationToken::new();
    let link = Arc::new(Link {
        client,
        url: url.to_owned(),
        session: OnceLock::new(),
        version: OnceLock::new(),
        limit: message_limit,
    });
    let sender =
        Posts { queue, closing: closing.clone(), _closed_when_dropped: closing.clone().drop_guard() };
    let mut weak = None;
    let peer = Peer::new(roots, message_limit, |peer| {
        weak = Some(peer);
        Box::new(sender)
    });
    let weak = weak.expect("the peer was just made");
    tokio::spawn(post_in_order(Arc::clone(&link), weak.clone(), messages, closing.clone()));
    let info = peer.initialize().await?;
    let _ = link.version.set(info.protocol_version.clone());
    tokio::spawn(listen(link, weak, closing));
    Ok((peer, info))
}

struct Posts {
    queue: mpsc::UnboundedSender<(Option<u64>, Bytes)>,
    closing: CancellationToken,
    _closed_when_dropped: tokio_util::sync::DropGuard,
}

impl Outgoing for Posts {
    fn send(&self, id: Option<u64>, message: Bytes) {
        let _ = self.queue.send((id, message));
    }

    fn close(&self) {
        self.closing.cancel();
    }
}

struct Link {
    client: Client,
    url: String,
    session: OnceLock<HeaderValue>,
    version: OnceLock<String>,
    limit: usize,
}

impl Link {
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(session) = self.session.get() {
            headers.insert(SESSION, session.clone());
        }
        if let Some(version) = self.version.get().and_then(|version| HeaderValue::from_str(version).ok()) {
            headers.insert(VERSION, version);
        }
        headers
    }

    fn broken(&self, error: &reqwest::Error) -> CallError {
        CallError::Transport(format!("the connection to {} broke: {}", self.url, root(error)))
    }

    async fn post(&self, message: Bytes) -> Result<Response, CallError> {
        let response = self
            .client
            .post(&self.url)
            .headers(self.headers())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(message)
            .send()
            .await
            .map_err(|error| {
                CallError::Transport(format!("{} cannot be reached: {}", self.url, root(&error)))
            })?;
        if let Some(session) = response.headers().get(SESSION) {
            let _ = self.session.set(session.clone());
        }
        Ok(response)
    }
}

/// reqwest's own message repeats the address; the innermost cause is what a person needs.
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// Requests run beside one another; what needs no answer is accepted by the server before the next message
/// leaves, so that `notifications/initialized` is never overtaken.
async fn post_in_order(
    link: Arc<Link>,
    peer: WeakPeer,
    mut messages: mpsc::UnboundedReceiver<(Option<u64>, Bytes)>,
    closing: CancellationToken,
) {
    while let Some(Some((id, message))) = closing.run_until_cancelled(messages.recv()).await {
        let exchange = exchange(Arc::clone(&link), peer.clone(), id, message);
        match id {
            None => {
                let exchange = tokio::time::timeout(NOTICE_LIMIT, exchange);
                if let Some(Err(_)) = closing.run_until_cancelled(exchange).await {
                    tracing::debug!("the upstream did not accept a notification in time");
                }
            }
            Some(_) => {
                let closing = closing.clone();
                tokio::spawn(async move {
                    // A peer that is gone needs no answers: the stream is closed with it.
                    let _ = closing.run_until_cancelled(exchange).await;
                });
            }
        }
    }
    if link.session.get().is_some() {
        let goodbye =
            link.client.delete(&link.url).headers(link.headers()).timeout(Duration::from_secs(2)).send();
        let _ = goodbye.await;
    }
    if let Some(peer) = peer.get() {
        peer.end(Ended::because("the connection was closed"));
    }
}

async fn exchange(link: Arc<Link>, peer: WeakPeer, id: Option<u64>, message: Bytes) {
    let outcome = match link.post(message).await {
        Ok(response) => read_response(&link, &peer, id, response).await,
        Err(error) => Err(error),
    };
    let Some(peer) = peer.get() else { return };
    match (outcome, id) {
        (Err(CallError::Ended(ended)), _) => peer.end(ended),
        (Err(error), Some(id)) => peer.fail(id, error),
        (Err(error), None) => tracing::debug!(%error, "the upstream did not take a notification"),
        // Answered requests are out of the map by now; this reaches only one whose stream ended early.
        (Ok(()), Some(id)) => {
            peer.fail(id, CallError::Transport("the server closed the stream without an answer".to_owned()));
        }
        (Ok(()), None) => {}
    }
}

async fn read_response(
    link: &Link,
    peer: &WeakPeer,
    id: Option<u64>,
    response: Response,
) -> Result<(), CallError> {
    let status = response.status();
    if status == StatusCode::NOT_FOUND && link.session.get().is_some() {
        return Err(Ended::because("the server no longer knows our MCP session").into());
    }
    if status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT {
        return Ok(());
    }
    let content_type = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_ascii_lowercase();
    if content_type.starts_with("text/event-stream") {
        return read_events(link, peer, id, response).await;
    }
    let body = read_body(link, response).await?;
    if content_type.starts_with("application/json") && (status.is_success() || is_answer(&body)) {
        if let Some(peer) = peer.get() {
            peer.incoming(&body);
        }
        return Ok(());
    }
    let start = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
    Err(CallError::Transport(format!("the server answered {status}: {start}")))
}

/// Some servers answer protocol errors with an HTTP error and the JSON-RPC answer in the body.
fn is_answer(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(body)
        .is_ok_and(|value| value.get("id").is_some_and(|id| !id.is_null()))
}

async fn read_body(link: &Link, response: Response) -> Result<Bytes, CallError> {
    let mut body = BytesMut::new();
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| link.broken(&error))?;
        if body.len() + chunk.len() > link.limit {
            return Err(CallError::TooLarge { limit: link.limit });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

async fn read_events(
    link: &Link,
    peer: &WeakPeer,
    id: Option<u64>,
    response: Response,
) -> Result<(), CallError> {
    let mut reader = EventReader::new(link.limit);
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| link.broken(&error))?;
        for event in reader.push(&chunk) {
            let Some(peer) = peer.get() else { return Ok(()) };
            match (event, id) {
                (Event::Data(message), _) => peer.incoming(&message),
                // On a request's own stream it can only be that request's answer.
                (Event::TooLarge, Some(_)) => return Err(CallError::TooLarge { limit: link.limit }),
                (Event::TooLarge, None) => {
                    tracing::warn!("the upstream sent an event over the limit; dropped");
                }
            }
        }
    }
    Ok(())
}

/// Holds the GET stream open, where the server offers one.
async fn listen(link: Arc<Link>, peer: WeakPeer, closing: CancellationToken) {
    let mut pause = Duration::from_millis(500);
    loop {
        let attempt = async {
            let request = link
                .client
                .request(Method::GET, &link.url)
                .headers(link.headers())
                .header(ACCEPT, "text/event-stream");
            match request.send().await {
                Ok(response) if response.status().is_success() => {
                    let _ = read_events(&link, &peer, None, response).await;
                    Some(Duration::from_millis(500))
                }
                // Not offered, or not any more.
                Ok(_) => None,
                Err(_) => Some((pause * 2).min(Duration::from_secs(30))),
            }
        };
        match closing.run_until_cancelled(attempt).await.flatten() {
            Some(next) => pause = next,
            None => return,
        }
        if closing.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}
