//! MCP sessions of the older era, on our own clock.
//!
//! rmcp ends a session after a fixed silence even while a call is running. Here its clock is off, and a session is
//! closed when nothing has touched it for the idle time: no request, no open stream, no call. Browsers do not hang
//! on these sessions, so a client that finds its session gone simply begins another.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use rmcp::model::{ClientJsonRpcMessage, Extensions, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionTransport,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Sessions that are kept at once. Clients that never say goodbye are common.
const MOST_SESSIONS: usize = 1000;

/// How long the answer to a finished request is kept for a client whose connection broke at that moment.
const REPLAY: Duration = Duration::from_secs(1);

pub(super) struct Sessions {
    inner: LocalSessionManager,
    idle: Option<Duration>,
    activity: Activity,
}

/// When each session was last used, and what still uses it.
#[derive(Clone, Default)]
pub(crate) struct Activity(Arc<Mutex<HashMap<SessionId, Use>>>);

struct Use {
    last: Instant,
    /// Open streams and calls in flight.
    now: usize,
}

/// Keeps a session in use.
pub(crate) struct InUse {
    id: SessionId,
    activity: Activity,
}

impl Activity {
    fn entries(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Use>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self, id: &SessionId) {
        self.entries().entry(Arc::clone(id)).or_insert_with(Use::new).last = Instant::now();
    }

    fn begin(&self, id: &SessionId) -> InUse {
        self.entries().entry(Arc::clone(id)).or_insert_with(Use::new).now += 1;
        InUse { id: Arc::clone(id), activity: self.clone() }
    }

    /// For the length of a call that arrived on a session.
    pub(crate) fn call(&self, extensions: &Extensions) -> Option<InUse> {
        let headers = &extensions.get::<http::request::Parts>()?.headers;
        let id: SessionId = Arc::from(headers.get("mcp-session-id")?.to_str().ok()?);
        // A header of the newer era's means nothing and must leave nothing.
        let is_known = self.entries().contains_key(&id);
        is_known.then(|| self.begin(&id))
    }

    /// The session that has been idle longest, once there are too many.
    fn surplus(&self) -> Option<SessionId> {
        let entries = self.entries();
        let idle = entries.iter().filter(|(_, entry)| entry.now == 0);
        let oldest = || idle.min_by_key(|(_, entry)| entry.last).map(|(id, _)| Arc::clone(id));
        (entries.len() >= MOST_SESSIONS).then(oldest).flatten()
    }

    fn forget(&self, id: &SessionId) {
        self.entries().remove(id);
    }

    fn idle_since(&self, limit: Duration) -> Vec<SessionId> {
        let entries = self.entries();
        let idle = |entry: &Use| entry.now == 0 && entry.last.elapsed() >= limit;
        entries.iter().filter(|(_, entry)| idle(entry)).map(|(id, _)| Arc::clone(id)).collect()
    }
}

impl Use {
    fn new() -> Self {
        Self { last: Instant::now(), now: 0 }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(entry) = self.activity.entries().get_mut(&self.id) {
            entry.now = entry.now.saturating_sub(1);
            entry.last = Instant::now();
        }
    }
}

impl Sessions {
    pub(super) fn new(idle: Option<Duration>) -> Self {
        let mut inner = LocalSessionManager::default();
        inner.session_config.keep_alive = None;
        inner.session_config.completed_cache_ttl = REPLAY;
        Self { inner, idle, activity: Activity::default() }
    }

    pub(super) fn activity(&self) -> Activity {
        self.activity.clone()
    }

    /// Closes what has been idle too long, until `shutdown`.
    pub(super) async fn expire(self: Arc<Self>, shutdown: CancellationToken) {
        let Some(idle) = self.idle else { return };
        let every = (idle / 4).clamp(Duration::from_millis(50), Duration::from_secs(30));
        while shutdown.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
            for id in self.activity.idle_since(idle) {
                tracing::debug!(session = %id, "an MCP session was idle too long; closed");
                let _ = self.close_session(&id).await;
            }
        }
    }
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = SessionTransport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        if let Some(surplus) = self.activity.surplus() {
            tracing::debug!(session = %surplus, "too many MCP sessions; the one that was idle longest is closed");
            let _ = self.close_session(&surplus).await;
        }
        let (id, transport) = self.inner.create_session().await?;
        self.activity.touch(&id);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        let known = self.inner.has_session(id).await?;
        if known {
            self.activity.touch(id);
        }
        Ok(known)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.activity.forget(id);
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.watched(id, self.inner.create_stream(id, message).await?))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.watched(id, self.inner.create_standalone_stream(id).await?))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.watched(id, self.inner.resume(id, last_event_id).await?))
    }
}

impl Sessions {
    fn watched<S>(&self, id: &SessionId, stream: S) -> Watched<S> {
        Watched { stream: Box::pin(stream), _in_use: self.activity.begin(id) }
    }
}

/// A stream that keeps its session in use while it is open.
struct Watched<S> {
    stream: Pin<Box<S>>,
    _in_use: InUse,
}

impl<S: Stream> Stream for Watched<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.stream.as_mut().poll_next(context)
    }
}
