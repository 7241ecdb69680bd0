//! One MCP connection, whatever it travels on.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::message::{self, Envelope, ErrorObject};

/// The newest revision that the upstream servers speak.
const PROTOCOL_VERSION: &str = "2025-11-25";

/// Pages of a list that are read at most.
const MOST_PAGES: usize = 200;

/// Where a peer's messages go.
pub trait Outgoing: Send + Sync {
    /// Sends without waiting. `id` is the request's own when the message is one, so that the transport can fail
    /// just that call. A transport that is gone says so through [`Peer::end`].
    fn send(&self, id: Option<u64>, message: Bytes);

    /// Says goodbye to the server in the transport's own way.
    fn close(&self);
}

/// Why a connection is over, in words for a person, with the last lines the process printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub reason: String,
    pub last_output: Vec<String>,
}

impl Ended {
    pub fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), last_output: Vec::new() }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if !self.last_output.is_empty() {
            write!(f, "; its last output was:\n{}", self.last_output.join("\n"))?;
        }
        Ok(())
    }
}

impl std::error::Error for Ended {}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server answered with a protocol error, passed on as it is.
    #[error("{message}")]
    Rpc { code: i64, message: String, data: Option<Box<RawValue>> },
    #[error(
        "the answer was larger than the limit of {} MiB (MAX_MESSAGE_MB) and was dropped; ask for less, or raise \
         the limit",
        limit / (1024 * 1024)
    )]
    TooLarge { limit: usize },
    /// This one exchange failed; the connection may live on.
    #[error("{0}")]
    Transport(String),
    #[error(transparent)]
    Ended(#[from] Ended),
}

/// How far a call has come.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Progress {
    pub progress: f64,
    #[serde(default)]
    pub total: Option<f64>,
    #[serde(default)]
    pub message: Option<String>,
}

/// What a server says without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    ToolsChanged,
}

/// What a server said about itself at `initialize`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    pub protocol_version: String,
    pub server_info: Implementation,
    #[serde(default)]
    pub instructions: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Implementation {
    pub name: String,
    #[serde(default)]
    pub version: String,
}

#[derive(Clone)]
pub struct Peer(Arc<Shared>);

/// A peer that a transport can hold without keeping the connection alive.
#[derive(Clone)]
pub struct WeakPeer(Weak<Shared>);

impl WeakPeer {
    pub fn get(&self) -> Option<Peer> {
        self.0.upgrade().map(Peer)
    }
}

struct Shared {
    outgoing: Box<dyn Outgoing>,
    next_id: AtomicU64,
    // A std mutex: it is held for a map operation and never across an await.
    waiting: Mutex<Waiting>,
    roots: Vec<String>,
    message_limit: usize,
    notices: broadcast::Sender<Notice>,
    ended: watch::Sender<Option<Ended>>,
}

enum Waiting {
    Open(HashMap<u64, Waiter>),
    Ended(Ended),
}

struct Waiter {
    answer: oneshot::Sender<Result<Bytes, CallError>>,
    progress: Option<mpsc::Sender<Progress>>,
}

impl Peer {
    /// `roots` are `file:` URIs; none means that the capability is not declared.
    pub fn new(
        roots: Vec<String>,
        message_limit: usize,
        outgoing: impl FnOnce(WeakPeer) -> Box<dyn Outgoing>,
    ) -> Self {
        Self(Arc::new_cyclic(|weak| Shared {
            outgoing: outgoing(WeakPeer(weak.clone())),
            next_id: AtomicU64::new(1),
            waiting: Mutex::new(Waiting::Open(HashMap::new())),
            roots,
            message_limit,
            notices: broadcast::channel(16).0,
            ended: watch::channel(None).0,
        }))
    }

    pub fn message_limit(&self) -> usize {
        self.0.message_limit
    }

    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.0.notices.subscribe()
    }

    pub fn downgrade(&self) -> WeakPeer {
        WeakPeer(Arc::downgrade(&self.0))
    }

    /// Whether somebody waits for an answer.
    pub fn is_busy(&self) -> bool {
        matches!(&*self.waiting(), Waiting::Open(waiting) if !waiting.is_empty())
    }

    pub fn has_ended(&self) -> bool {
        matches!(*self.waiting(), Waiting::Ended(_))
    }

    /// Returns when the connection is over.
    pub fn ended(&self) -> impl Future<Output = Ended> + Send + use<> {
        let mut ended = self.0.ended.subscribe();
        async move {
            match ended.wait_for(Option::is_some).await {
                Ok(ended) => ended.clone().expect("waited for it"),
                Err(_) => Ended::because("the connection was dropped"),
            }
        }
    }

    // ---- asking ------------------------------------------------------------------------------------------------

    /// Sends a request. The answer is awaited on what is returned; dropping that forgets the request.
    pub fn request(&self, method: &str, params: impl Serialize) -> Result<Pending, Ended> {
        let id = self.next_id();
        self.start(id, message::request(id, method, params), None)
    }

    /// Calls a tool. Progress is asked for only when somebody wants to hear it.
    pub fn call_tool(
        &self,
        name: &str,
        arguments: &impl Serialize,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<Pending, Ended> {
        #[derive(Serialize)]
        struct Params<'a, A> {
            name: &'a str,
            arguments: &'a A,
            #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
            meta: Option<Meta>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Meta {
            progress_token: u64,
        }
        let id = self.next_id();
        // The request's own number is its token: unique on this connection, whatever the caller's was.
        let meta = progress.is_some().then_some(Meta { progress_token: id });
        self.start(id, message::request(id, "tools/call", Params { name, arguments, meta }), progress)
    }

    pub fn notify(&self, method: &str, params: Option<impl Serialize>) {
        self.0.outgoing.send(None, message::notification(method, params));
    }

    /// Asks the server to go. What it still answers is still delivered.
    pub fn close(&self) {
        self.0.outgoing.close();
    }

    /// Tells the server that nobody waits for this request any more. It may go on, and may still answer.
    pub fn cancel(&self, id: u64, reason: &str) {
        self.notify(
            "notifications/cancelled",
            Some(serde_json::json!({ "requestId": id, "reason": reason })),
        );
    }

    pub async fn initialize(&self) -> Result<ServerInfo, CallError> {
        let capabilities =
            if self.0.roots.is_empty() { serde_json::json!({}) } else { serde_json::json!({ "roots": {} }) };
        let params = serde_json::json!({
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": capabilities,
            "clientInfo": { "name": "greenroom", "version": env!("CARGO_PKG_VERSION") },
        });
        let result = self.request("initialize", params)?.await?;
        let info = serde_json::from_slice(&result).map_err(|error| {
            CallError::Transport(format!("its answer to `initialize` cannot be read: {error}"))
        })?;
        self.notify("notifications/initialized", None::<()>);
        Ok(info)
    }

    /// All tools, over all pages, each as the server wrote it.
    pub async fn list_tools(&self) -> Result<Vec<Box<RawValue>>, CallError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Page {
            tools: Vec<Box<RawValue>>,
            #[serde(default)]
            next_cursor: Option<String>,
        }
        let mut tools = Vec::new();
        let mut cursor: Option<String> = None;
        // A server whose cursors go in circles would keep us here for ever.
        let mut seen = HashSet::new();
        loop {
            let params = cursor
                .as_ref()
                .map_or_else(|| serde_json::json!({}), |at| serde_json::json!({ "cursor": at }));
            let result = self.request("tools/list", params)?.await?;
            let page: Page = serde_json::from_slice(&result).map_err(|error| {
                CallError::Transport(format!("its list of tools cannot be read: {error}"))
            })?;
            tools.extend(page.tools);
            match page.next_cursor {
                Some(next) if seen.len() < MOST_PAGES && seen.insert(next.clone()) => cursor = Some(next),
                _ => return Ok(tools),
            }
        }
    }

    fn next_id(&self) -> u64 {
        self.0.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn start(
        &self,
        id: u64,
        message: Bytes,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<Pending, Ended> {
        let (answer, receiver) = oneshot::channel();
        match &mut *self.waiting() {
            Waiting::Open(waiters) => waiters.insert(id, Waiter { answer, progress }),
            Waiting::Ended(ended) => return Err(ended.clone()),
        };
        self.0.outgoing.send(Some(id), message);
        Ok(Pending { id, receiver, peer: WeakPeer(Arc::downgrade(&self.0)) })
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, id: u64) -> Option<Waiter> {
        match &mut *self.waiting() {
            Waiting::Open(waiters) => waiters.remove(&id),
            Waiting::Ended(_) => None,
        }
    }

    // ---- what the transport says -------------------------------------------------------------------------------

    /// Takes one message that arrived. What is no JSON-RPC is logged and survived.
    pub fn incoming(&self, bytes: &Bytes) {
        let envelope: Envelope<'_> = match serde_json::from_slice(bytes) {
            Ok(envelope) => envelope,
            Err(error) => {
                let start = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]);
                tracing::warn!(%error, %start, "the upstream sent something that is not JSON-RPC; ignored");
                return;
            }
        };
        match (envelope.method.as_deref(), envelope.id) {
            (Some(method), Some(id)) => self.answer(method, id),
            (Some(method), None) => self.notified(method, envelope.params),
            (None, Some(id)) => self.answered(bytes, id, &envelope),
            (None, None) => tracing::warn!("the upstream sent a message with neither id nor method; ignored"),
        }
    }

    /// A message was over the limit and has been thrown away. Never leaves its caller waiting: when nobody can
    /// tell whose answer it was, all who wait are told.
    pub fn oversized(&self, id: Option<u64>) {
        let limit = self.message_limit();
        tracing::warn!(?id, limit, "the upstream sent a message over the limit; dropped");
        match id {
            Some(id) => self.fail(id, CallError::TooLarge { limit }),
            None => {
                let waiters = match &mut *self.waiting() {
                    Waiting::Open(waiters) => std::mem::take(waiters),
                    Waiting::Ended(_) => return,
                };
                for waiter in waiters.into_values() {
                    let _ = waiter.answer.send(Err(CallError::TooLarge { limit }));
                }
            }
        }
    }

    /// One exchange failed.
    pub fn fail(&self, id: u64, error: CallError) {
        if let Some(waiter) = self.take(id) {
            let _ = waiter.answer.send(Err(error));
        }
    }

    /// The connection is over; everyone who waits hears so at once. The first reason stands.
    pub fn end(&self, ended: Ended) {
        let before = {
            let mut waiting = self.waiting();
            if matches!(*waiting, Waiting::Ended(_)) {
                return;
            }
            std::mem::replace(&mut *waiting, Waiting::Ended(ended.clone()))
        };
        if let Waiting::Open(waiters) = before {
            for waiter in waiters.into_values() {
                let _ = waiter.answer.send(Err(CallError::Ended(ended.clone())));
            }
        }
        self.0.ended.send_replace(Some(ended));
    }

    fn answered(&self, bytes: &Bytes, id: &RawValue, envelope: &Envelope<'_>) {
        let waiter = id.get().parse().ok().and_then(|id| self.take(id));
        let Some(waiter) = waiter else {
            // Late answers to requests that were cancelled or timed out end here.
            tracing::debug!(id = id.get(), "the upstream answered a request that nobody waits for");
            return;
        };
        let outcome = match (envelope.result, envelope.error) {
            (Some(result), _) => Ok(bytes.slice_ref(result.get().as_bytes())),
            (None, Some(error)) => Err(match serde_json::from_str::<ErrorObject>(error.get()) {
                Ok(error) => CallError::Rpc { code: error.code, message: error.message, data: error.data },
                Err(_) => CallError::Rpc { code: -32603, message: error.get().to_owned(), data: None },
            }),
            (None, None) => Err(CallError::Transport("the answer had neither result nor error".to_owned())),
        };
        let _ = waiter.answer.send(outcome);
    }

    fn notified(&self, method: &str, params: Option<&RawValue>) {
        match method {
            "notifications/progress" => {
                #[derive(Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Params {
                    progress_token: u64,
                    #[serde(flatten)]
                    progress: Progress,
                }
                let parsed = params.and_then(|params| serde_json::from_str::<Params>(params.get()).ok());
                let Some(Params { progress_token, progress }) = parsed else { return };
                if let Waiting::Open(waiters) = &*self.waiting()
                    && let Some(sender) =
                        waiters.get(&progress_token).and_then(|waiter| waiter.progress.as_ref())
                {
                    // Full: the consumer is slow, and the next report will say more than this one.
                    let _ = sender.try_send(progress);
                }
            }
            "notifications/tools/list_changed" => {
                let _ = self.0.notices.send(Notice::ToolsChanged);
            }
            "notifications/message" => {
                tracing::debug!(params = params.map(RawValue::get), "message from the upstream");
            }
            other => tracing::trace!(method = other, "notification from the upstream"),
        }
    }

    fn answer(&self, method: &str, id: &RawValue) {
        let outcome = match method {
            "ping" => Ok(serde_json::json!({})),
            "roots/list" if !self.0.roots.is_empty() => {
                let roots: Vec<_> =
                    self.0.roots.iter().map(|uri| serde_json::json!({ "uri": uri })).collect();
                Ok(serde_json::json!({ "roots": roots }))
            }
            _ => Err((-32601, "Method not found")),
        };
        self.0.outgoing.send(None, message::answer(id, outcome));
    }
}

/// A request that has been sent. Awaiting it gives the result's bytes exactly as they came.
pub struct Pending {
    id: u64,
    receiver: oneshot::Receiver<Result<Bytes, CallError>>,
    peer: WeakPeer,
}

impl Pending {
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Future for Pending {
    type Output = Result<Bytes, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(context).map(|received| {
            received.unwrap_or_else(|_| Err(Ended::because("the connection was dropped").into()))
        })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(peer) = self.peer.get() {
            peer.take(self.id);
        }
    }
}
