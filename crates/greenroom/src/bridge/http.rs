//! The way to a server over Streamable HTTP, made to look like a connection that carries lines.
//!
//! Every line of the agent is a POST; what comes back, as JSON or as events, are lines for the agent. When the server does
//! not answer any more, or has forgotten our MCP session, the connection ends, and the bridge makes another.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use greenroom_api::local::{ConnectError, Hello};
use greenroom_api::mcp::lines::{LineReader, write_lines};
use greenroom_upstream::rpc::{Event, EventReader};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::desk::answers;
use super::target::{LONGEST_ANSWER, Link};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const PIPE_BYTES: usize = 256 * 1024;
/// How long the server may take to say who it is, and to take what needs no answer.
const SHORT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// Scheme, host and port.
    origin: String,
    /// Where MCP is spoken.
    endpoint: String,
}

impl Address {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) =
            text.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_host = !authority.is_empty() && !authority.contains(['?', '#', ' ']);
        let origin = format!("{scheme}://{authority}");
        let endpoint = format!("{origin}/{}", if path.is_empty() { "mcp" } else { path });
        is_host.then_some(Self { origin, endpoint })
    }

    /// Asks who is there, and opens the way.
    pub(super) async fn connect(&self, hello: &Hello, max_line: usize) -> Result<Link, ConnectError> {
        // What a server has is only compared over its socket, so nothing may be asked for.
        if let Some(wishes) = hello.wishes() {
            return Err(ConnectError::Refused(format!(
                "a server that is reached over HTTP runs with its own configuration, and this process was given {wishes}; \
                 give it to the server"
            )));
        }
        // The first wins, and all are the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().connect_timeout(SHORT).build();
        let client = client.map_err(|error| ConnectError::Refused(error.to_string()))?;
        let not_there = |_| ConnectError::NotThere(self.origin.clone().into());
        let answer = client.get(format!("{}/healthz", self.origin)).timeout(SHORT).send();
        let body = answer.await.map_err(not_there)?.bytes().await.map_err(not_there)?;
        let health: Value = serde_json::from_slice(&body).unwrap_or_default();
        let version = health["version"].as_str().ok_or_else(|| {
            ConnectError::Refused(format!("what answers on {} is not greenroom", self.origin))
        })?;
        hello.check_version(version)?;
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let way = Arc::new(Way {
            client,
            endpoint: self.endpoint.clone(),
            session: OnceLock::new(),
            version: OnceLock::new(),
            broken: CancellationToken::new(),
        });
        tokio::spawn(carry(way, far));
        let (reader, writer) = tokio::io::split(near);
        let lines = LineReader::new(Box::pin(reader), LONGEST_ANSWER);
        Ok(Link { lines, writer: Box::pin(writer), max_line })
    }
}

struct Way {
    client: Client,
    endpoint: String,
    session: OnceLock<HeaderValue>,
    /// What the older era's handshake has settled on.
    version: OnceLock<HeaderValue>,
    broken: CancellationToken,
}

/// What a POST has to know about its message.
#[derive(Default, Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Default, Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uri: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Cow<'a, str>>,
}

async fn carry(way: Arc<Way>, far: DuplexStream) {
    let (reader, writer) = tokio::io::split(far);
    let mut lines = LineReader::new(Box::pin(reader), LONGEST_ANSWER);
    let (out, writing) = write_lines(Box::pin(writer));
    while let Some(Some(Ok(line))) = way.broken.run_until_cancelled(lines.next_line()).await {
        let head = serde_json::from_slice::<Head<'_>>(&line).unwrap_or_default();
        let method = head.method.as_deref().unwrap_or_default();
        let (has_answer, opens) = (head.id.is_some() && head.method.is_some(), method == "initialize");
        let listens = method == "notifications/initialized";
        let exchange = exchange(Arc::clone(&way), line.clone(), out.clone());
        if !has_answer || opens {
            // The next message counts on this one: on its session, or on the server's having heard it.
            exchange.await;
        } else {
            tokio::spawn(exchange);
        }
        if listens {
            tokio::spawn(listen(Arc::clone(&way), out.clone()));
        }
    }
    way.broken.cancel();
    if way.session.get().is_some() {
        let goodbye = way.client.delete(&way.endpoint).headers(way.headers()).timeout(Duration::from_secs(1));
        let _ = goodbye.send().await;
    }
    drop(out);
    let _ = writing.await;
}

/// Why a message has no answer of the server's.
enum Trouble {
    Broken,
    Answered(String),
}

async fn exchange(way: Arc<Way>, line: Bytes, out: mpsc::Sender<Bytes>) {
    let outcome = way.broken.run_until_cancelled(way.post(&line, &out)).await;
    match outcome {
        None | Some(Ok(())) => {}
        Some(Err(Trouble::Broken)) => way.broken.cancel(),
        Some(Err(Trouble::Answered(problem))) => {
            let head = serde_json::from_slice::<Head<'_>>(&line).unwrap_or_default();
            match head.id {
                Some(id) if head.method.is_some() => {
                    let error = json!({ "code": -32000, "message": problem });
                    let id = id.get();
                    let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}\n");
                    let _ = out.send(answer.into()).await;
                }
                _ => tracing::debug!(problem, "the server did not take a notification"),
            }
        }
    }
}

/// Passes on what the server says unasked, as long as it has something to say it on.
async fn listen(way: Arc<Way>, out: mpsc::Sender<Bytes>) {
    let listening = async {
        loop {
            let request = way.client.get(&way.endpoint).headers(way.headers());
            match request.header(ACCEPT, "text/event-stream").send().await {
                Ok(response) if response.status().is_success() => {
                    let _ = read_events(response, None, &out).await;
                }
                Ok(response) if response.status() == StatusCode::METHOD_NOT_ALLOWED => return,
                // It is not there any more, or does not know us any more.
                _ => return way.broken.cancel(),
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let _ = way.broken.run_until_cancelled(listening).await;
}

impl Way {
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(session) = self.session.get() {
            headers.insert(SESSION, session.clone());
        }
        if let Some(version) = self.version.get() {
            headers.insert(VERSION, version.clone());
        }
        headers
    }

    /// In the newer era every request says in its headers what it is about, and there are no sessions.
    fn headers_for(&self, head: &Head<'_>) -> HeaderMap {
        let params = head.params.as_ref();
        let version = params.and_then(|params| params.meta.as_ref()?.version.as_deref());
        let Some(version) = version else { return self.headers() };
        let name = params.and_then(|params| match head.method.as_deref()? {
            "tools/call" | "prompts/get" => params.name.as_deref(),
            "resources/read" => params.uri.as_deref(),
            _ => None,
        });
        let said = [(VERSION, Some(version)), ("mcp-method", head.method.as_deref()), ("mcp-name", name)];
        let mut headers = HeaderMap::new();
        for (header, value) in said {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.insert(header, value);
            }
        }
        headers
    }

    async fn post(&self, line: &Bytes, out: &mpsc::Sender<Bytes>) -> Result<(), Trouble> {
        let head = serde_json::from_slice::<Head<'_>>(line).unwrap_or_default();
        let request = self
            .client
            .post(&self.endpoint)
            .headers(self.headers_for(&head))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(line.slice_ref(line.trim_ascii()));
        let response = request.send().await.map_err(|_| Trouble::Broken)?;
        if response.status() == StatusCode::NOT_FOUND && self.session.get().is_some() {
            return Err(Trouble::Broken);
        }
        let opens = head.method.as_deref() == Some("initialize");
        if opens && let Some(session) = response.headers().get(SESSION) {
            let _ = self.session.set(session.clone());
        }
        let id = head.id.filter(|_| head.method.is_some());
        let id = id.and_then(|id| serde_json::from_str::<Value>(id.get()).ok()).map(|id| id.to_string());
        let answer = read(response, id.as_deref(), out).await?;
        if opens && let Some(answer) = answer {
            let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
            let version = answer["result"]["protocolVersion"].as_str().unwrap_or_default();
            if let Ok(version) = HeaderValue::from_str(version) {
                let _ = self.version.set(version);
            }
        }
        Ok(())
    }
}

/// Passes on everything that a POST brought. Returns the answer among it.
async fn read(
    response: Response,
    id: Option<&str>,
    out: &mpsc::Sender<Bytes>,
) -> Result<Option<Bytes>, Trouble> {
    let status = response.status();
    if status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT {
        return Ok(None);
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.to_ascii_lowercase().starts_with("text/event-stream") {
        // A stream that ends too early was cut off.
        return match (read_events(response, id, out).await, id) {
            (None, Some(_)) => Err(Trouble::Broken),
            (answer, _) => Ok(answer),
        };
    }
    let body = response.bytes().await.map_err(|_| Trouble::Broken)?;
    let is_answer = match id {
        Some(id) => answers(&body).as_deref() == Some(id),
        // What is no message gets an answer without an id.
        None => serde_json::from_slice::<Value>(&body).is_ok_and(|body| body.get("jsonrpc").is_some()),
    };
    if is_answer {
        let answer = in_one_line(&body);
        let _ = out.send(answer.clone()).await;
        return Ok(Some(answer));
    }
    let start = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
    Err(Trouble::Answered(format!("The server answered {status}: {start}")))
}

async fn read_events(response: Response, id: Option<&str>, out: &mpsc::Sender<Bytes>) -> Option<Bytes> {
    let (mut reader, mut stream) = (EventReader::new(LONGEST_ANSWER), response.bytes_stream());
    let mut answer = None;
    while let Some(Ok(chunk)) = stream.next().await {
        for event in reader.push(&chunk) {
            let Event::Data(data) = event else { continue };
            let line = in_one_line(&data);
            if id.is_some() && answers(&line).as_deref() == id {
                answer = Some(line.clone());
            }
            out.send(line).await.ok()?;
        }
    }
    answer
}

/// Between the tokens of JSON a line's end is a space like any other, and inside of them there is none.
fn in_one_line(message: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(message.len() + 1);
    line.extend(message.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    line.extend_from_slice(b"\n");
    line.freeze()
}
