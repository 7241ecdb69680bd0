//! The tunnel into the host: our Node script around `@playwright/mcp` (`host/PROTOCOL.md`).

use std::collections::HashMap;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use greenroom_core::IdScanner;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot, watch};

use crate::live::Side;
use crate::process::{self, Epilogue, Looker, Output, Process, SpawnError, Spawned, Watch};
use crate::rpc::{Ended, Outgoing, Peer};
use crate::run_folder::Run;

/// The script, the file to run first. They are written beside the installed packages, so that they find them.
pub(crate) const SCRIPTS: [(&str, &str); 4] = [
    ("host.cjs", include_str!("../host/host.cjs")),
    ("live.cjs", include_str!("../host/live.cjs")),
    ("cast.cjs", include_str!("../host/cast.cjs")),
    ("promises.cjs", include_str!("../host/promises.cjs")),
];

const KIND_CONTROL: u8 = 1;
const KIND_MCP: u8 = 2;
const KIND_CAST: u8 = 3;
const KIND_BYTES: u8 = 4;
/// Kind and context; the length counts them.
const PREFIX_BYTES: usize = 5;

/// How long the host has to close its browser when asked to exit.
const EXIT_GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("a socket pair for the browser host could not be made")]
    Socket(#[source] std::io::Error),
    /// The host answered that it could not.
    #[error("{0}")]
    Refused(String),
    #[error("the browser did not finish {what} within {} s", limit.as_secs())]
    TooSlow { what: &'static str, limit: Duration },
    #[error(transparent)]
    Ended(#[from] Ended),
}

impl HostError {
    pub(crate) fn context_gone() -> Self {
        Ended::because("the browser context was closed").into()
    }
}

/// What the frames go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// One end of a socket pair, as the host's standard input.
    Socket,
    /// Standard input and output, for a Node that cannot inherit a socket.
    Pipes,
}

/// What a host says of itself when it has started.
#[derive(Clone, Debug, Deserialize)]
pub struct Started {
    /// The versions of Node and of `@playwright/mcp`.
    pub node: String,
    pub mcp: String,
    /// Its number in the system that it runs in, which need not be ours.
    pub pid: u32,
}

type Reading = Box<dyn AsyncRead + Send + Unpin>;
type Writing = Box<dyn AsyncWrite + Send + Unpin>;

/// A running host. Dropping it kills the process, and with it the browser.
pub struct Host {
    shared: Arc<Shared>,
    process: Process,
}

struct Shared {
    outgoing: mpsc::UnboundedSender<Bytes>,
    next_request: AtomicU64,
    next_context: AtomicU32,
    state: Mutex<State>,
    over: watch::Sender<Option<Ended>>,
    /// Whether a connection ends when the browser does.
    ends_with_browser: AtomicBool,
    is_chromium: AtomicBool,
    process: Looker,
}

enum State {
    Running {
        requests: HashMap<u64, oneshot::Sender<Result<Answer, HostError>>>,
        contexts: HashMap<u32, Context>,
    },
    Ended(Ended),
}

/// What a request is answered with.
enum Answer {
    Json(Box<RawValue>),
    Bytes(Bytes),
}

/// The two ways into a context.
#[derive(Clone)]
struct Context {
    peer: Peer,
    side: Arc<Side>,
}

impl Context {
    fn end(&self, ended: Ended) {
        self.side.end();
        self.peer.end(ended);
    }
}

impl Host {
    /// Starts the command, which is Node with the script as its argument. [`Host::start`] comes next.
    pub async fn spawn(command: Command, wire: Wire, run: &Arc<Run>) -> Result<Self, HostError> {
        Self::spawn_with(command, wire, run, None).await
    }

    pub(crate) async fn spawn_with(
        mut command: Command,
        wire: Wire,
        run: &Arc<Run>,
        epilogue: Option<Epilogue>,
    ) -> Result<Self, HostError> {
        let (process, reading, writing): (Process, Reading, Writing) = match wire {
            Wire::Socket => {
                let (ours, theirs) = StdUnixStream::pair().map_err(HostError::Socket)?;
                ours.set_nonblocking(true).map_err(HostError::Socket)?;
                let ours = UnixStream::from_std(ours).map_err(HostError::Socket)?;
                let stdin = Some(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
                let spawned = process::spawn_with(command, stdin, Output::Logged, run, epilogue).await?;
                let (reading, writing) = ours.into_split();
                (spawned.process, Box::new(reading), Box::new(writing))
            }
            Wire::Pipes => {
                command.arg("--pipes");
                let Spawned { process, stdin, stdout } =
                    process::spawn_with(command, None, Output::Piped, run, epilogue).await?;
                let (stdin, stdout) = (stdin.expect("it is piped"), stdout.expect("it is piped"));
                (process, Box::new(stdout), Box::new(stdin))
            }
        };
        let (outgoing, queue) = mpsc::unbounded_channel();
        let state = Mutex::new(State::Running { requests: HashMap::new(), contexts: HashMap::new() });
        let shared = Arc::new(Shared {
            outgoing,
            next_request: AtomicU64::new(1),
            next_context: AtomicU32::new(1),
            state,
            over: watch::channel(None).0,
            ends_with_browser: AtomicBool::new(false),
            is_chromium: AtomicBool::new(false),
            process: process.looker(),
        });
        tokio::spawn(write_frames(writing, queue));
        tokio::spawn(read_frames(reading, Arc::downgrade(&shared), process.watch()));
        Ok(Self { shared, process })
    }

    /// The first request: how browsers are launched, and the configuration of the connections.
    pub async fn start(&self, start: Value) -> Result<Started, HostError> {
        self.shared.is_chromium.store(start["launch"]["type"] == "chromium", Ordering::Relaxed);
        let started: Started = read(&self.request(HOST, "start", start).await?)?;
        tracing::debug!(pid = self.pid(), node = started.node, mcp = started.mcp, "browser host is up");
        Ok(started)
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// From now on connections end with the browser. Otherwise the next call of each gets a new one without a word,
    /// which is right only where nobody holds a page that they would miss.
    pub(crate) fn end_connections_with_browser(&self) {
        self.shared.ends_with_browser.store(true, Ordering::Relaxed);
    }

    /// Sees the process without keeping it alive.
    pub(crate) fn watch(&self) -> Watch {
        self.process.watch()
    }

    /// Takes note of what runs below it.
    pub(crate) fn look(&self) {
        self.process.look();
    }

    /// Opens a context with an MCP connection of its own. The browser itself is launched by its first call.
    ///
    /// `mcp` replaces parts of the configuration that all connections have.
    pub async fn open(
        &self,
        options: Value,
        mcp: Value,
        roots: Vec<String>,
        message_limit: usize,
    ) -> Result<(ContextId, Peer), HostError> {
        let id = self.shared.next_context.fetch_add(1, Ordering::Relaxed);
        let link = Tunnel { context: id, shared: Arc::downgrade(&self.shared) };
        let peer = Peer::new(roots, message_limit, |_| Box::new(link));
        match &mut *self.shared.state() {
            State::Running { contexts, .. } => {
                contexts.insert(id, Context { peer: peer.clone(), side: Arc::new(Side::new()) })
            }
            State::Ended(ended) => return Err(ended.clone().into()),
        };
        if let Err(error) =
            self.request(ContextId(id), "open", json!({ "options": options, "mcp": mcp })).await
        {
            self.shared.forget(id);
            return Err(error);
        }
        Ok((ContextId(id), peer))
    }

    /// Has the browser that isolated contexts share launched now.
    pub async fn warm_up(&self) -> Result<(), HostError> {
        self.request(HOST, "warm", json!({})).await.map(drop)
    }

    /// Closes a context without waiting for it, if it is not closed yet.
    pub(crate) fn let_go(&self, context: ContextId) {
        if let Some(open) = self.shared.forget(context.0) {
            self.shared.send(context.0, &json!({ "id": 0, "op": "close" }));
            open.end(Ended::because("the browser context was closed"));
        }
    }

    /// Closes a context and its connection. Returns when the browser has let go of it.
    pub async fn close(&self, context: ContextId) {
        let _ = self.request(context, "close", json!({})).await;
        if let Some(open) = self.shared.forget(context.0) {
            open.end(Ended::because("the browser context was closed"));
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(&*self.shared.state(), State::Ended(_))
    }

    /// Why it is over, once it is.
    pub(crate) async fn ended(&self) -> Ended {
        let mut over = self.shared.over.subscribe();
        match over.wait_for(Option::is_some).await.map(|ended| ended.clone()) {
            Ok(Some(ended)) => ended,
            _ => Ended::because("the browser host has gone"),
        }
    }

    /// Has the browser of a context launched now rather than by its first call.
    pub async fn warm(&self, context: ContextId) -> Result<(), HostError> {
        self.request(context, "warm", json!({})).await.map(drop)
    }

    /// Ends the navigations under way in a context.
    pub async fn stop_loading(&self, context: ContextId) -> Result<(), HostError> {
        self.request(context, "stop_loading", json!({})).await.map(drop)
    }

    /// Closes a context's pages; its connection stays and its next call begins with a new context.
    pub async fn reset(&self, context: ContextId) -> Result<(), HostError> {
        self.request(context, "reset", json!({})).await.map(drop)
    }

    /// A round trip to the browser. `false`: none is running, so there is nothing to be ill.
    pub async fn probe(&self) -> Result<bool, HostError> {
        #[derive(Deserialize)]
        struct Probe {
            browser: bool,
        }
        read::<Probe>(&self.request(HOST, "probe", json!({})).await?).map(|probe| probe.browser)
    }

    /// Asks the host to close its browser and go; ends it the hard way when it does not.
    pub async fn exit(&self) {
        self.process.look_well().await;
        let id = self.shared.next_request.fetch_add(1, Ordering::Relaxed);
        self.shared.send(0, &json!({ "id": id, "op": "exit" }));
        self.process.end(EXIT_GRACE).await;
    }

    pub(crate) fn is_chromium(&self) -> bool {
        self.shared.is_chromium.load(Ordering::Relaxed)
    }

    /// Where what the host pushes for a context is left.
    pub(crate) fn side(&self, context: ContextId) -> Option<Arc<Side>> {
        self.shared.context(context.0).map(|open| open.side)
    }

    pub(crate) fn sender(&self) -> Sender {
        Sender(Arc::downgrade(&self.shared))
    }

    pub(crate) async fn request(
        &self,
        context: ContextId,
        op: &str,
        arguments: Value,
    ) -> Result<Box<RawValue>, HostError> {
        match self.ask(context, op, arguments).await? {
            Answer::Json(answer) => Ok(answer),
            Answer::Bytes(_) => Err(HostError::Refused(format!("the browser host answered {op} with bytes"))),
        }
    }

    /// For what is answered by something other than JSON.
    pub(crate) async fn request_bytes(
        &self,
        context: ContextId,
        op: &str,
        arguments: Value,
    ) -> Result<Bytes, HostError> {
        match self.ask(context, op, arguments).await? {
            Answer::Bytes(bytes) => Ok(bytes),
            Answer::Json(_) => {
                Err(HostError::Refused(format!("the browser host answered {op} without bytes")))
            }
        }
    }

    async fn ask(&self, context: ContextId, op: &str, mut arguments: Value) -> Result<Answer, HostError> {
        let id = self.shared.next_request.fetch_add(1, Ordering::Relaxed);
        arguments["id"] = id.into();
        arguments["op"] = op.into();
        let (reply, answer) = oneshot::channel();
        match &mut *self.shared.state() {
            State::Running { requests, .. } => requests.insert(id, reply),
            State::Ended(ended) => return Err(ended.clone().into()),
        };
        let _waiting = Waiting { id, shared: &self.shared };
        self.shared.send(context.0, &arguments);
        answer.await.unwrap_or_else(|_| Err(Ended::because("the browser host has gone").into()))
    }
}

/// One who waits for an answer. The host need not give one: who stops waiting is forgotten.
struct Waiting<'a> {
    id: u64,
    shared: &'a Shared,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.waiting(self.id);
    }
}

/// Tells the host what it does not answer, without keeping it alive.
pub(crate) struct Sender(Weak<Shared>);

impl Sender {
    pub(crate) fn send(&self, context: ContextId, message: &Value) {
        if let Some(shared) = self.0.upgrade() {
            shared.send(context.0, message);
        }
    }
}

fn read<'a, T: Deserialize<'a>>(answer: &'a RawValue) -> Result<T, HostError> {
    serde_json::from_str(answer.get()).map_err(|error| HostError::Refused(error.to_string()))
}

impl Drop for Host {
    fn drop(&mut self) {
        self.shared.end(&Ended::because("the browser host was ended"));
    }
}

/// One context of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextId(u32);

/// The host itself.
const HOST: ContextId = ContextId(0);

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, context: u32, control: &Value) {
        let payload = serde_json::to_vec(control).expect("control messages are plain JSON");
        let _ = self.outgoing.send(frame(KIND_CONTROL, context, &payload));
    }

    fn control(&self, context: u32, payload: &[u8]) {
        #[derive(Deserialize)]
        struct Control<'a> {
            id: Option<u64>,
            #[serde(borrow, default)]
            ok: Option<&'a RawValue>,
            error: Option<String>,
            event: Option<String>,
            version: Option<String>,
        }
        let Ok(control) = serde_json::from_slice::<Control<'_>>(payload) else {
            tracing::warn!("the browser host sent a control message that cannot be read; ignored");
            return;
        };
        if let Some(event) = control.event {
            if event == "pages" {
                if let Some(open) = self.context(context) {
                    open.side.pages(payload);
                }
                return;
            }
            // A browser is new, or gone: who belongs to the host has changed.
            self.process.look();
            tracing::info!(event, version = control.version, "browser host");
            if event == "browser_gone" && self.ends_with_browser.load(Ordering::Relaxed) {
                self.lose_contexts();
            }
            return;
        }
        if let Some(id) = control.id {
            let null = || RawValue::from_string("null".to_owned()).expect("null is JSON");
            let answer = match control.error {
                Some(error) => Err(HostError::Refused(error)),
                None => Ok(Answer::Json(control.ok.map_or_else(null, ToOwned::to_owned))),
            };
            self.answer(id, answer);
        }
    }

    /// An answer that is not JSON: u32 request, bytes.
    fn bytes(&self, mut payload: Bytes) {
        if let Ok(id) = payload.try_get_u32() {
            self.answer(id.into(), Ok(Answer::Bytes(payload)));
        }
    }

    fn answer(&self, id: u64, answer: Result<Answer, HostError>) {
        if let Some(waiting) = self.waiting(id) {
            let _ = waiting.send(answer);
        }
    }

    /// Who waits for the answer to a request, for the last time.
    fn waiting(&self, id: u64) -> Option<oneshot::Sender<Result<Answer, HostError>>> {
        match &mut *self.state() {
            State::Running { requests, .. } => requests.remove(&id),
            State::Ended(_) => None,
        }
    }

    /// The browser has gone, and every context with it.
    fn lose_contexts(&self) {
        let lost = match &mut *self.state() {
            State::Running { contexts, .. } => std::mem::take(contexts),
            State::Ended(_) => return,
        };
        for (context, open) in lost {
            self.send(context, &json!({ "id": 0, "op": "close" }));
            open.end(Ended::because("the browser has gone"));
        }
    }

    fn forget(&self, context: u32) -> Option<Context> {
        match &mut *self.state() {
            State::Running { contexts, .. } => contexts.remove(&context),
            State::Ended(_) => None,
        }
    }

    fn context(&self, context: u32) -> Option<Context> {
        match &*self.state() {
            State::Running { contexts, .. } => contexts.get(&context).cloned(),
            State::Ended(_) => None,
        }
    }

    fn end(&self, ended: &Ended) {
        let before = std::mem::replace(&mut *self.state(), State::Ended(ended.clone()));
        if let State::Running { requests, contexts } = before {
            for reply in requests.into_values() {
                let _ = reply.send(Err(ended.clone().into()));
            }
            for open in contexts.into_values() {
                open.end(ended.clone());
            }
            self.over.send_replace(Some(ended.clone()));
        }
    }
}

struct Tunnel {
    context: u32,
    // Weak: the host's table of contexts holds the peer, which holds this.
    shared: Weak<Shared>,
}

impl Outgoing for Tunnel {
    fn send(&self, _id: Option<u64>, message: Bytes) {
        if let Some(shared) = self.shared.upgrade() {
            let _ = shared.outgoing.send(frame(KIND_MCP, self.context, &message));
        }
    }

    fn close(&self) {
        let Some(shared) = self.shared.upgrade() else { return };
        shared.send(self.context, &json!({ "id": 0, "op": "close" }));
        if let Some(open) = shared.forget(self.context) {
            open.end(Ended::because("the browser context was closed"));
        }
    }
}

fn frame(kind: u8, context: u32, payload: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(4 + PREFIX_BYTES + payload.len());
    frame.put_u32(u32::try_from(PREFIX_BYTES + payload.len()).expect("requests are limited far below 4 GiB"));
    frame.put_u8(kind);
    frame.put_u32(context);
    frame.put_slice(payload);
    frame.freeze()
}

async fn write_frames(mut writing: Writing, mut queue: mpsc::UnboundedReceiver<Bytes>) {
    while let Some(frame) = queue.recv().await {
        if writing.write_all(&frame).await.is_err() {
            return;
        }
    }
}

async fn read_frames(reading: Reading, shared: Weak<Shared>, process: Watch) {
    let mut reading = BufReader::with_capacity(64 * 1024, reading);
    // Whatever ends the reading ends the host: a tunnel that lost its place cannot be trusted again.
    while let Ok(()) = read_frame(&mut reading, &shared).await {}
    let ended = process.obituary("the browser host (node)").await;
    if let Some(shared) = shared.upgrade() {
        shared.end(&ended);
    }
}

async fn read_frame(reading: &mut BufReader<Reading>, shared: &Weak<Shared>) -> std::io::Result<()> {
    let length = reading.read_u32().await? as usize;
    let kind = reading.read_u8().await?;
    let context = reading.read_u32().await?;
    let Some(mut rest) = length.checked_sub(PREFIX_BYTES) else {
        return Err(std::io::Error::other("a frame shorter than its prefix"));
    };
    let gone = || std::io::Error::other("nobody listens any more");
    let open = shared.upgrade().ok_or_else(gone)?.context(context);
    if let Some(Context { peer, .. }) = &open
        && [KIND_MCP, KIND_BYTES].contains(&kind)
        && rest > peer.message_limit()
    {
        let request = if kind == KIND_BYTES { Some(reading.read_u32().await?) } else { None };
        rest -= request.map_or(0, |_| size_of::<u32>());
        let (size, mut scanner) = (rest, IdScanner::default());
        let mut chunk = vec![0; 64 * 1024];
        while rest > 0 {
            let part = chunk.len().min(rest);
            reading.read_exact(&mut chunk[..part]).await?;
            scanner.feed(&chunk[..part]);
            rest -= part;
        }
        match request {
            Some(request) => {
                let limit = peer.message_limit();
                let why =
                    format!("the browser's answer has {size} bytes; the limit is {limit} (MAX_MESSAGE_MB)");
                shared.upgrade().ok_or_else(gone)?.answer(request.into(), Err(HostError::Refused(why)));
            }
            None => peer.oversized(scanner.number()),
        }
        return Ok(());
    }
    let mut payload = BytesMut::zeroed(rest);
    reading.read_exact(&mut payload).await?;
    let payload = payload.freeze();
    match (kind, open) {
        (KIND_CONTROL, _) => shared.upgrade().ok_or_else(gone)?.control(context, &payload),
        (KIND_BYTES, _) => shared.upgrade().ok_or_else(gone)?.bytes(payload),
        (KIND_MCP, Some(open)) => open.peer.incoming(&payload),
        (KIND_CAST, Some(open)) => open.side.frame(payload),
        // A context that has just been closed, or a kind of a newer script.
        _ => tracing::debug!(kind, context, "a frame for nobody"),
    }
    Ok(())
}
