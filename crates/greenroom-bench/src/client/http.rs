//! MCP over Streamable HTTP, in both of its eras.

mod body;
mod connection;
mod events;
mod head;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::Flood;
use super::call::{self, Call, LEGACY_REVISION, MODERN_REVISION};
use super::lease::Lease;
use connection::{Answer, Connection};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Era {
    /// 2025-11-25: a session is opened, and named with every request.
    Sessions,
    /// 2026-07-28: every request stands alone.
    Stateless,
}

pub(crate) struct HttpClient {
    endpoint: Arc<Endpoint>,
    connection: Option<Connection>,
}

/// What all connections of a client share.
struct Endpoint {
    authority: String,
    path: String,
    era: Era,
    /// Some servers of the older era do without.
    session: Option<String>,
    last_id: AtomicU64,
}

impl HttpClient {
    /// A client of the endpoint at `url`. In the era of sessions it opens one.
    pub(crate) async fn connect(url: &str, era: Era) -> Result<Self> {
        let rest = url.strip_prefix("http://").with_context(|| format!("{url} is not an http URL"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let mut endpoint = Endpoint {
            authority: authority.to_owned(),
            path: format!("/{path}"),
            era,
            session: None,
            last_id: AtomicU64::new(0),
        };
        if era == Era::Sessions {
            let mut connection = Connection::open(&endpoint.authority).await?;
            let id = endpoint.next_id();
            let answer = connection.send(&endpoint.post("", &call::initialize(id))).await?;
            answer.find(|message| {
                Ok(call::response(message)?.filter(|(answered, _)| *answered == id).map(|_| ()))
            })?;
            endpoint.session = answer.session;
            let mut connection = Connection::open(&endpoint.authority).await?;
            let answer = connection.send(&endpoint.post("", call::INITIALIZED)).await?;
            ensure!(answer.status < 300, "the notification was answered with status {}", answer.status);
        }
        Ok(Self { endpoint: Arc::new(endpoint), connection: None })
    }

    pub(crate) async fn reconnect(&mut self) -> Result<()> {
        self.connection = Some(Connection::open(&self.endpoint.authority).await?);
        Ok(())
    }

    pub(crate) async fn call(&mut self, call: &Call) -> Result<Duration> {
        self.endpoint.call(&mut self.connection, call).await
    }

    /// A call that a pool serves; the answer has to say which of its instances did.
    pub(crate) async fn leased_call(&mut self, call: &Call) -> Result<(Duration, Lease)> {
        let read = |message: &[u8], id| {
            call.is_answered_by(message, id)?.then(|| Lease::of_answer(message)).transpose()
        };
        self.endpoint.exchange(&mut self.connection, call, read).await
    }

    /// A call with all that it answers.
    pub(crate) async fn ask(&mut self, call: &Call) -> Result<(Duration, Value)> {
        let read = |message: &[u8], id| {
            call.is_answered_by(message, id)?.then(|| call::result_of(message)).transpose()
        };
        self.endpoint.exchange(&mut self.connection, call, read).await
    }

    /// One kept connection for each call in flight, all of one session. They begin together, once each of them has
    /// made a call that does not count.
    pub(super) async fn flood(&mut self, call: &Call, in_flight: usize, time: Duration) -> Result<Flood> {
        let together = Arc::new(Barrier::new(in_flight + 1));
        let call = Arc::new(call.clone());
        let mut workers = JoinSet::new();
        for _ in 0..in_flight {
            let (endpoint, call) = (Arc::clone(&self.endpoint), Arc::clone(&call));
            let together = Arc::clone(&together);
            workers.spawn(async move {
                let mut connection = None;
                let ready = endpoint.call(&mut connection, &call).await;
                together.wait().await;
                ready?;
                let began = Instant::now();
                let mut calls = 0;
                while began.elapsed() < time {
                    endpoint.call(&mut connection, &call).await?;
                    calls += 1;
                }
                anyhow::Ok(calls)
            });
        }
        together.wait().await;
        let began = Instant::now();
        let mut calls = 0;
        while let Some(worker) = workers.join_next().await {
            calls += worker??;
        }
        Ok(Flood { calls, took: began.elapsed() })
    }
}

impl Endpoint {
    async fn call(&self, connection: &mut Option<Connection>, call: &Call) -> Result<Duration> {
        let read = |message: &[u8], id| Ok(call.is_answered_by(message, id)?.then_some(()));
        let (took, ()) = self.exchange(connection, call, read).await?;
        Ok(took)
    }

    /// The time until the answer was complete, and what `read` makes of it. Until its stream has ended too the
    /// connection is not free, so that is waited for, but not counted: a client has what it wants by then.
    async fn exchange<T>(
        &self,
        connection: &mut Option<Connection>,
        call: &Call,
        read: impl Fn(&[u8], u64) -> Result<Option<T>>,
    ) -> Result<(Duration, T)> {
        let id = self.next_id();
        let request = match self.era {
            Era::Sessions => self.post("", &call.message(id)),
            Era::Stateless => {
                let headers = format!("Mcp-Method: tools/call\r\nMcp-Name: {}\r\n", call.tool);
                self.post(&headers, &call.modern_message(id))
            }
        };
        let began = Instant::now();
        let mut open = match connection.take() {
            Some(open) => open,
            None => Connection::open(&self.authority).await?,
        };
        let answer = open.send(&request).await?;
        let (arrived, found) = answer.find(|message| read(message, id))?;
        if answer.keeps_connection {
            *connection = Some(open);
        }
        Ok((arrived - began, found))
    }

    fn post(&self, headers: &str, body: &str) -> Vec<u8> {
        let Self { authority, path, session, .. } = self;
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{headers}"
        );
        let revision = match self.era {
            Era::Sessions => LEGACY_REVISION,
            Era::Stateless => MODERN_REVISION,
        };
        // In the era of sessions the revision is agreed on by `initialize`, and said from then on.
        let greeting = self.era == Era::Sessions && body.contains(r#""method":"initialize""#);
        if !greeting {
            request.push_str(&format!("MCP-Protocol-Version: {revision}\r\n"));
        }
        if let Some(session) = session {
            request.push_str(&format!("Mcp-Session-Id: {session}\r\n"));
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        request.into_bytes()
    }

    fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Answer {
    /// The first message in which `look` finds something: when it arrived, and what that is.
    fn find<T>(&self, look: impl Fn(&[u8]) -> Result<Option<T>>) -> Result<(Instant, T)> {
        for (arrived, message) in self.messages() {
            // A server may begin a stream with an event that has nothing to say yet.
            if message.is_empty() {
                continue;
            }
            if let Some(found) = look(&message).with_context(|| format!("status {}", self.status))? {
                return Ok((arrived, found));
            }
        }
        bail!("status {} without the answer", self.status)
    }
}
