//! The engine's handle: takes calls and sends each on its way.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::join_all;
use greenroom_core::config::{Addressing, HistoryConfig, Isolation, Mistakes, PoolConfig, Reply, Start};
use greenroom_core::ids::{RefId, SessionId};
use greenroom_core::percent::escape;
use greenroom_core::target::{
    Address, Modes, Parameters, SessionMode, SessionName, Target, UnknownPool, resolve,
};
use greenroom_store::CallStatus;
use greenroom_upstream::instance::{Failure, Unavailable};
use serde_json::{Map, Value, json};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bulk;
use crate::call::{Bound, CallFailure, CallHandle, CallRequest, Origin, Outcome};
use crate::capture::Caught;
use crate::fleet::{self, Fleet, Wishes};
use crate::history::{self, History};
use crate::note::{Entry, Note};
use crate::own::{
    BulkArguments, CreateArguments, NoArguments, OwnTool, PoolStatusArguments, SessionArguments,
};
use crate::pool::{DriverFactory, Pool, Scaled};
use crate::reading::{self, Blob, BlobArguments, Content, Desk, Shelf};
use crate::reply::Manner;
use crate::running::{Reporter, Running, Spot};
use crate::session_files::{SessionFile, SessionFolders};
use crate::sessions::{Caller, Plan, SessionKey, SessionReport, Sessions};
use crate::status::StatusReport;
use crate::tools::{Additions, Kind, Lookup, ToolBooks, ToolList};

pub struct EngineConfig {
    /// The default pool first.
    pub pools: Vec<PoolConfig>,
    pub addressing: Addressing,
    /// How long calls in flight have to finish when we are asked to stop.
    pub drain: Duration,
    /// `None`: one caller may have any number of sessions.
    pub max_sessions_per_caller: Option<usize>,
    /// How long the files of a session stay after its end.
    pub session_files_grace: Duration,
    /// Folders that sessions may read from beside their own.
    pub readable: Vec<PathBuf>,
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// Names this life of the process.
    pub run_id: String,
    /// `None`: nothing is written down.
    pub history: Option<HistoryConfig>,
}

#[derive(Clone)]
pub struct Engine(Arc<Shared>);

pub(crate) struct Shared {
    pools: Vec<Arc<Pool>>,
    sessions: Arc<Sessions>,
    folders: Arc<SessionFolders>,
    pub(crate) books: Arc<ToolBooks>,
    modes: Modes,
    history: Arc<History>,
    shelf: Arc<Shelf>,
    /// Whether agents have tools to read the record with.
    has_reading: bool,
    /// Whether calls can say how they are to be answered.
    has_reply: bool,
    drain: Duration,
    calls: TaskTracker,
    pub(crate) stopping: CancellationToken,
}

/// A place in line, for whoever knows that a call has arrived before they can make it.
pub struct Place(Result<Spot, CallFailure>);

/// How often sessions are looked at, at most and at least.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
const SWEEP_OFTEN: Duration = Duration::from_millis(50);

impl Engine {
    pub fn new(config: EngineConfig, drivers: &DriverFactory) -> Self {
        let modes = modes(&config);
        let has_pages = has_pages(&config.pools);
        let mut own = Vec::new();
        if modes.pools {
            own.push(OwnTool::PoolStatus);
        }
        // Where the seed of sessions is followed to the letter there is nothing but its own two tools.
        if modes.pools || (has_pages && modes.sessions != SessionMode::Required) {
            own.push(OwnTool::ExecuteBulk);
        }
        if modes.has_sessions() {
            own.extend([OwnTool::SessionList, OwnTool::SessionClose]);
        }
        // These two are not part of what the strict mode promises.
        if matches!(modes.sessions, SessionMode::Optional | SessionMode::Always) {
            own.extend([OwnTool::SessionFiles, OwnTool::CreateSession]);
        }
        let history = Arc::new(History::open(&config.data_dir, &config.run_id, config.history.as_ref()));
        // Another server's tools are passed on as they are, and so are those of the strict mode.
        let has_reading = history.is_on()
            && (modes.pools || matches!(modes.sessions, SessionMode::Optional | SessionMode::Always));
        if has_reading {
            own.extend([
                OwnTool::GetContent,
                OwnTool::GetConsoleContent,
                OwnTool::ListCalls,
                OwnTool::GetBlob,
            ]);
        }
        let has_reply = has_reading && config.addressing == Addressing::Auto;
        let reply = config.pools.first().map(|pool| pool.reply).filter(|_| has_reply);
        let described = |pool: &PoolConfig| (pool.name.clone(), pool.description.clone());
        let described = config.pools.iter().map(described).collect();
        let additions = Additions { modes, pools: described, own, reply };
        let books = ToolBooks::new(&config.data_dir.join("cache"), additions);
        let folders =
            Arc::new(SessionFolders::new(&config.data_dir, &config.run_id, config.session_files_grace));
        let mut fleets = Vec::new();
        if modes.has_sessions() {
            for pool in &config.pools {
                fleets.extend(fleet(pool, modes, drivers, &books, &folders, &config.readable));
            }
        }
        let sessions = Sessions::new(fleets, config.max_sessions_per_caller, Arc::clone(&history));
        let idle = config.pools.iter().filter_map(|pool| pool.sessions.idle).min();
        let make = |mut pool: PoolConfig| {
            // Nobody leases an instance, so none is started.
            if modes.has_only_sessions() {
                pool.start = Start::Lazy;
            }
            Pool::new(pool, Arc::clone(drivers), Arc::clone(&books))
        };
        let pools = config.pools.into_iter().map(make).collect();
        let shared = Arc::new(Shared {
            pools,
            sessions,
            folders,
            books,
            modes,
            history,
            shelf: Arc::new(Shelf::new()),
            has_reading,
            has_reply,
            drain: config.drain,
            calls: TaskTracker::new(),
            stopping: CancellationToken::new(),
        });
        if shared.history.is_on() {
            tokio::spawn(clean(Arc::downgrade(&shared)));
        }
        if modes.has_sessions() {
            let every = idle.map_or(SWEEP_EVERY, |idle| (idle / 4).clamp(SWEEP_OFTEN, SWEEP_EVERY));
            tokio::spawn(sweep(Arc::downgrade(&shared), every));
        }
        Self(shared)
    }

    /// The tools that can be called. Starts upstreams only where there is no other way to know.
    pub async fn tools(&self) -> Result<Arc<ToolList>, Unavailable> {
        let outcomes = if self.0.modes.has_only_sessions() {
            // Nobody leases an instance, so none is started.
            join_all(self.0.sessions.fleets().iter().map(|fleet| learn_from_fleet(fleet))).await
        } else {
            join_all(self.0.pools.iter().map(|pool| learn_tools(pool))).await
        };
        if let Some(list) = self.0.books.settled() {
            return Ok(list);
        }
        match outcomes.into_iter().find_map(Result::err) {
            Some(unavailable) => Err(unavailable),
            None => Ok(self.0.books.without_upstreams()),
        }
    }

    /// The list that is known without asking anybody.
    pub fn known_tools(&self) -> Option<Arc<ToolList>> {
        self.0.books.current()
    }

    /// Changes when the list of tools does.
    pub fn watch_tools(&self) -> watch::Receiver<Option<Arc<ToolList>>> {
        self.0.books.subscribe()
    }

    pub fn is_stopping(&self) -> bool {
        self.0.stopping.is_cancelled()
    }

    /// What calls can say about where they run.
    pub fn modes(&self) -> Modes {
        self.0.modes
    }

    /// Whether calls take turns on one page.
    pub fn takes_turns(&self) -> bool {
        self.0.pools.iter().any(|pool| pool.is_exclusive())
    }

    /// The files that a session has written. `None` when there is no such session.
    pub fn session_files(&self, caller: &Caller, name: &SessionName) -> Option<Vec<SessionFile>> {
        self.0.sessions.files(&SessionKey { caller: caller.clone(), name: name.clone() })
    }

    /// One of them with its content.
    pub fn session_file(
        &self,
        caller: &Caller,
        name: &SessionName,
        file: &str,
    ) -> Option<(SessionFile, Vec<u8>)> {
        self.0.sessions.file(&SessionKey { caller: caller.clone(), name: name.clone() }, file)
    }

    pub fn sessions(&self, caller: &Caller) -> Vec<SessionReport> {
        self.0.sessions.list(caller)
    }

    /// How the pools are: all of them, or one.
    pub fn status(&self, pool: Option<&str>) -> Result<StatusReport, UnknownPool> {
        let pools = match pool {
            Some(name) => std::slice::from_ref(self.pool(name)?),
            None => self.0.pools.as_slice(),
        };
        let history = self.0.history.report();
        Ok(StatusReport::of(pools.iter().map(AsRef::as_ref), |pool| self.0.sessions.count(pool), history))
    }

    /// Starts an instance anew, also one that was given up.
    pub fn restart(&self, pool: &str, instance: &str, cause: &str) -> Result<(), CallFailure> {
        let pool = self.pool(pool)?;
        let seat = pool.find(instance)?;
        if self.0.modes.has_only_sessions() {
            self.0.restart_sessions(pool.name(), cause);
        } else {
            pool.restart(&seat, cause);
        }
        Ok(())
    }

    /// Starts every instance of a pool anew, and the browsers of its sessions.
    pub fn restart_pool(&self, pool: &str, cause: &str) -> Result<Vec<String>, CallFailure> {
        let pool = self.pool(pool)?;
        let seats = pool.seats();
        self.0.restart_sessions(pool.name(), cause);
        if !self.0.modes.has_only_sessions() {
            seats.iter().for_each(|seat| pool.restart(seat, cause));
        }
        Ok(seats.iter().map(|seat| seat.member.to_string()).collect())
    }

    /// How often an instance was started again since the beginning.
    pub fn restarts(&self, pool: &str, instance: &str) -> Result<u64, CallFailure> {
        Ok(self.pool(pool)?.find(instance)?.instance.status().restarts)
    }

    /// Grows or shrinks a pool to so many instances.
    pub fn scale(&self, pool: &str, count: usize) -> Result<Result<Scaled, Mistakes>, UnknownPool> {
        Ok(self.pool(pool)?.scale(count))
    }

    fn pool(&self, name: &str) -> Result<&Arc<Pool>, UnknownPool> {
        let pools = &self.0.pools;
        let unknown = || UnknownPool {
            name: name.to_owned(),
            valid: pools.iter().map(|pool| pool.name().to_owned()).collect(),
        };
        pools.iter().find(|pool| pool.name() == name).ok_or_else(unknown)
    }

    /// Takes a place in line for a call that has arrived and will be made in a moment. `argument` finds an argument
    /// by its name. `None` where there is nothing to wait for. Dropping the place gives it up.
    pub fn arrive(
        &self,
        origin: &Origin,
        tool: &str,
        argument: impl Fn(&str) -> Option<Value>,
    ) -> Option<Place> {
        let (parameters, upstreams) = match self.0.books.kind(tool) {
            Some(Kind::Own(own)) if !own.has_place() => return None,
            Some(Kind::Own(_)) => (None, None),
            Some(Kind::Proxied(Some(parameters))) => (Some(parameters), Some(tool)),
            _ => (None, Some(tool)),
        };
        let ours = Parameters::default();
        let parameters = parameters.as_deref().unwrap_or(&ours);
        let address = match origin.session {
            // Whoever comes in by a session's own door knows nothing of addresses.
            Bound::Fixed(_) => Address::default(),
            _ => self.0.address(parameters, argument),
        };
        Some(Place(self.0.queue(origin, &address, upstreams)))
    }

    /// Starts a call. It runs to its end whatever becomes of the handle.
    pub fn call(&self, request: CallRequest) -> CallHandle {
        let (reply, answer) = oneshot::channel();
        let cancel = CancellationToken::new();
        let handle = CallHandle { answer, cancel: cancel.clone() };
        let CallRequest { origin, tool, mut arguments, place, ref_id, progress } = request;
        let running = |reply| Running {
            engine: Arc::clone(&self.0),
            cancel,
            reply: Some(reply),
            served: None,
            progress: Reporter::new(progress),
        };
        // The place in line is taken here at the latest, and not in the task: tasks begin in no particular order.
        let place = place.or_else(|| self.arrive(&origin, &tool, |name| arguments.get(name).cloned()));
        let prepared = self.0.prepare(&origin, &tool, &mut arguments, place);
        let note = |spot: Option<&Spot>, manner: Manner, arguments: &Map<String, Value>| {
            let session = spot.and_then(Spot::session).map(|session| session.record.clone());
            let owner = origin.caller.to_string();
            let entry = Entry { ref_id, owner, session, tool: &tool, arguments };
            let can_read = self.0.has_reading && !matches!(origin.session, Bound::Fixed(_));
            Note::new(&self.0.history, entry, manner, can_read)
        };
        match prepared {
            Ok(Prepared::Call(spot, manner)) => {
                let note = note(Some(&spot), manner, &arguments);
                self.0.calls.spawn(running(reply).run(note, spot, tool, arguments));
            }
            Ok(Prepared::Bulk(spot, manner, bulk)) => {
                let note = note(Some(&spot), manner, &arguments);
                self.0.calls.spawn(running(reply).run_bulk(note, spot, bulk));
            }
            Ok(Prepared::Own(own)) => {
                let engine = self.clone();
                self.0.calls.spawn(async move {
                    let result = engine.perform(own, &origin.caller, arguments).await;
                    let _ = reply.send(Outcome { result, served: None, ref_id: None });
                });
            }
            Err(failure) => {
                let mut note = note(None, Manner::WHOLE, &arguments);
                let mut running = running(reply);
                self.0.calls.spawn(async move {
                    match note.begin().await {
                        Some(ref_id) => running.answer_as_before(&note, ref_id).await,
                        None => running.answer(note, Err(failure), Caught::default()).await,
                    }
                });
            }
        }
        handle
    }

    /// A tool of ours that needs no browser.
    async fn perform(
        &self,
        tool: OwnTool,
        caller: &Caller,
        arguments: Map<String, Value>,
    ) -> Result<Bytes, CallFailure> {
        let key = |name: String| {
            Ok::<_, CallFailure>(SessionKey { caller: caller.clone(), name: SessionName::new(name)? })
        };
        let sessions = &self.0.sessions;
        let answer = match tool {
            OwnTool::PoolStatus => {
                let read: PoolStatusArguments = tool.read(arguments)?;
                let status = self.status(read.pool_name.as_deref().filter(|name| !name.is_empty()))?;
                serde_json::to_value(&status)
            }
            OwnTool::SessionList => {
                let NoArguments {} = tool.read(arguments)?;
                Ok(json!({ "sessions": sessions.list(caller) }))
            }
            OwnTool::SessionClose => {
                let SessionArguments { session } = tool.read(arguments)?;
                let key = key(session)?;
                if !sessions.close(&key, "it was closed by its owner").await {
                    return Err(CallFailure::NoSuchSession { name: key.name.to_string() });
                }
                Ok(json!({ "sessionId": key.name.as_str(), "closed": true }))
            }
            OwnTool::SessionFiles => {
                let SessionArguments { session } = tool.read(arguments)?;
                let key = key(session)?;
                let files = sessions
                    .files(&key)
                    .ok_or_else(|| CallFailure::NoSuchSession { name: key.name.to_string() })?;
                let files = files.iter().map(|file| {
                    json!({
                        "name": file.name, "size": file.size, "modified": file.modified, "mime_type": file.mime_type,
                        "uri": file_uri(&key.name, &file.name),
                    })
                });
                Ok(json!({ "sessionId": key.name.as_str(), "files": files.collect::<Vec<_>>() }))
            }
            OwnTool::CreateSession => {
                let read: CreateArguments = tool.read(arguments)?;
                let name = read.session.filter(|name| !name.is_empty()).unwrap_or_else(mint_name);
                let key = key(name)?;
                let pool = match read.pool.filter(|pool| !pool.is_empty()) {
                    Some(pool) => Some(self.pool(&pool)?.name().to_owned()),
                    None => None,
                };
                let reply = read.reply.filter(|name| !name.is_empty());
                let reply = reply.map(|name| named_reply(&name)).transpose()?;
                let wishes = Wishes {
                    viewport: read.viewport.map(|size| (size.width, size.height)),
                    user_agent: read.user_agent,
                    device: read.device,
                    storage_state: read.storage_state.map(Value::Object),
                };
                let idle = read.idle_timeout.map(Duration::from_millis);
                let report = sessions.create(&key, pool.as_deref(), Plan { wishes, idle, reply })?;
                Ok(
                    json!({ "session_id": report.id, "sessionId": report.id, "pool": report.pool, "seat": report.seat, "idle_timeout_ms": report.idle_left_ms }),
                )
            }
            OwnTool::GetContent => {
                let content = self.desk(caller).content(tool.read(arguments)?).await?;
                return Ok(content_result(&content));
            }
            OwnTool::GetConsoleContent => {
                let (ref_id, text) = self.desk(caller).console(&tool.read(arguments)?).await?;
                return Ok(text_result(&text, &json!({ "greenroom/refId": ref_id })));
            }
            OwnTool::ListCalls => {
                let calls = self.desk(caller).list(tool.read(arguments)?).await?;
                Ok(json!({ "calls": calls.iter().map(reading::describe).collect::<Vec<_>>() }))
            }
            OwnTool::GetBlob => {
                let BlobArguments { uri } = tool.read(arguments)?;
                let (blob, bytes) = self.desk(caller).blob_content(&uri).await?;
                return Ok(blob_result(&blob, bytes));
            }
            OwnTool::ExecuteBulk => unreachable!("it has a place"),
        };
        let answer = answer.expect("reports are plain JSON");
        let text = format!("{answer:#}");
        let result = json!({
            "content": [{ "type": "text", "text": text }], "structuredContent": answer, "isError": false,
        });
        Ok(serde_json::to_vec(&result).expect("JSON can be written").into())
    }

    /// Refuses new calls, lets those in flight finish for a while, then ends the upstreams.
    pub async fn shutdown(&self) {
        self.0.stopping.cancel();
        for pool in &self.0.pools {
            pool.close();
        }
        self.0.calls.close();
        if timeout(self.0.drain, self.0.calls.wait()).await.is_err() {
            tracing::warn!(calls = self.0.calls.len(), "calls in flight were cut off");
        }
        let pools = join_all(self.0.pools.iter().map(|pool| pool.stop()));
        tokio::join!(pools, self.0.sessions.stop());
        self.0.history.close().await;
    }

    /// Where the caller's part of the record can be read.
    pub fn desk(&self, caller: &Caller) -> Desk {
        let budget = self.0.pools.first().map_or(0, |pool| pool.config.reply_budget);
        self.0.desk(reading::owner(caller), budget)
    }
}

/// A text as the result of a tool.
fn text_result(text: &str, meta: &Value) -> Bytes {
    let result = json!({ "content": [{ "type": "text", "text": text }], "isError": false, "_meta": meta });
    serde_json::to_vec(&result).expect("JSON can be written").into()
}

fn content_result(content: &Content) -> Bytes {
    let mut meta = json!({ "greenroom/refId": content.ref_id, "greenroom/total": content.total });
    if let Some(next) = content.next_offset {
        meta["greenroom/nextOffset"] = next.into();
    }
    text_result(&content.text, &meta)
}

fn blob_result(blob: &Blob, bytes: Vec<u8>) -> Bytes {
    let (uri, mime_type) = (blob.digest.uri(), &blob.mime_type);
    let block = if mime_type.starts_with("image/") {
        json!({ "type": "image", "data": STANDARD.encode(bytes), "mimeType": mime_type })
    } else {
        let resource = match String::from_utf8(bytes) {
            Ok(text) => json!({ "uri": uri, "mimeType": mime_type, "text": text }),
            Err(binary) => {
                json!({ "uri": uri, "mimeType": mime_type, "blob": STANDARD.encode(binary.into_bytes()) })
            }
        };
        json!({ "type": "resource", "resource": resource })
    };
    serde_json::to_vec(&json!({ "content": [block], "isError": false })).expect("JSON can be written").into()
}

fn named_reply(name: &str) -> Result<Reply, CallFailure> {
    Reply::named(name).ok_or_else(|| CallFailure::BadReply { name: Parameters::REPLY.to_owned() })
}

/// What a call turns out to be.
enum Prepared {
    Call(Spot, Manner),
    Bulk(Spot, Manner, BulkArguments),
    Own(OwnTool),
}

/// What calls can say about where they run.
fn modes(config: &EngineConfig) -> Modes {
    let has_pools = config.pools.iter().any(|pool| !pool.is_implicit);
    let wants_sessions = config.pools.iter().any(|pool| pool.sessions.isolation.is_some());
    match config.addressing {
        Addressing::Pool => Modes::POOLS,
        Addressing::Session => Modes { sessions: SessionMode::Required, pools: false },
        Addressing::Auto if has_pools => Modes { sessions: SessionMode::Optional, pools: true },
        Addressing::Auto if has_pages(&config.pools) || wants_sessions => {
            Modes { sessions: SessionMode::Always, pools: false }
        }
        // Another MCP server is passed on as it is.
        Addressing::Auto => Modes { sessions: SessionMode::Off, pools: false },
    }
}

fn has_pages(pools: &[PoolConfig]) -> bool {
    let mut instances = pools.iter().flat_map(|pool| &pool.instances);
    instances.any(|instance| instance.upstream.driver.has_pages())
}

/// Where the sessions of a pool live. They follow the pool, and none of its instances in particular.
fn fleet(
    pool: &PoolConfig,
    modes: Modes,
    drivers: &DriverFactory,
    books: &Arc<ToolBooks>,
    folders: &Arc<SessionFolders>,
    readable: &[PathBuf],
) -> Option<Arc<Fleet>> {
    let instance = pool
        .instance(u32::MAX)
        .inspect_err(|mistakes| tracing::warn!(pool = pool.name, "no sessions in this pool: {mistakes}"))
        .ok()?;
    let driver = drivers(pool, &instance);
    let mut pool = pool.clone();
    // Where every call has a session, what no session may call is not shown.
    if modes.has_only_sessions() && fleet::isolation(&pool, driver.as_ref()) == Isolation::Context {
        driver.tools_in_server().iter().for_each(|tool| pool.tools.hide(tool));
    }
    let book = books.of(&driver, &instance.upstream, &pool);
    let (supervision, folders) = (instance.upstream.supervision, Arc::clone(folders));
    Some(Fleet::new(pool, supervision, driver, book, folders, readable.to_vec()))
}

async fn sweep(engine: Weak<Shared>, every: Duration) {
    loop {
        sleep(every).await;
        let Some(engine) = engine.upgrade() else { return };
        if engine.stopping.is_cancelled() {
            return;
        }
        engine.sessions.sweep().await;
        engine.folders.sweep();
    }
}

async fn clean(engine: Weak<Shared>) {
    loop {
        sleep(history::CLEAN_EVERY).await;
        let Some(engine) = engine.upgrade() else { return };
        if engine.stopping.is_cancelled() {
            return;
        }
        engine.history.clean().await;
    }
}

/// A name that nobody has chosen.
fn mint_name() -> String {
    SessionId::new_v4().to_string()
}

/// The address of a session's file as a resource.
pub fn file_uri(session: &SessionName, file: &str) -> String {
    format!("greenroom://sessions/{}/files/{}", escape(session.as_str(), b""), escape(file, b"/"))
}

impl Shared {
    /// Nothing is started for a tool that is known not to exist.
    pub(crate) fn check_tool(&self, pool: &str, tool: &str) -> Result<(), CallFailure> {
        match self.books.look_up(pool, tool) {
            Lookup::Known => Ok(()),
            Lookup::Unknown { elsewhere, nearest } => {
                Err(CallFailure::UnknownTool { name: tool.to_owned(), nearest, elsewhere })
            }
        }
    }

    fn desk(&self, owner: String, budget: usize) -> Desk {
        Desk {
            history: Arc::clone(&self.history),
            shelf: Arc::clone(&self.shelf),
            owner: Some(owner),
            budget,
        }
    }

    /// The answer to a call that was made before, once it is there.
    pub(crate) async fn earlier(&self, owner: &str, ref_id: RefId) -> Result<Bytes, CallFailure> {
        let desk = self.desk(owner.to_owned(), 0);
        loop {
            self.history.landing(ref_id).await;
            let call = desk.call(ref_id).await?;
            if call.status != CallStatus::Pending {
                let result = desk.result(&call).await?;
                return result.ok_or_else(|| CallFailure::Before(call.error.unwrap_or_default()));
            }
            // Its answer is being written down, or it runs in another process.
            sleep(Duration::from_millis(25)).await;
        }
    }

    fn restart_sessions(&self, pool: &str, cause: &str) {
        for fleet in self.sessions.fleets().iter().filter(|fleet| fleet.pool_name() == pool) {
            fleet.restart(cause);
        }
    }

    /// What a call says about where it wants to run.
    fn address(&self, parameters: &Parameters, argument: impl Fn(&str) -> Option<Value>) -> Address {
        let mut address = Address::default();
        if self.modes.has_sessions() {
            address.session = argument(&parameters.session);
        }
        if self.modes.pools {
            address.pool = argument(&parameters.pool);
            address.instance = argument(&parameters.instance);
        }
        address
    }

    /// `tool` is what the upstream will be asked for, where that is known by now.
    fn queue(&self, origin: &Origin, address: &Address, tool: Option<&str>) -> Result<Spot, CallFailure> {
        if self.stopping.is_cancelled() {
            return Err(CallFailure::ShuttingDown);
        }
        let implied = match &origin.session {
            Bound::Implied(name) => Some(name),
            Bound::Free | Bound::Fixed(_) => None,
        };
        let target = match &origin.session {
            Bound::Fixed(name) => Target::Session { name: name.clone(), pool: None },
            _ => resolve(address, self.modes, implied, self.pools.iter().map(|pool| pool.name()))?,
        };
        match target {
            Target::Lease { pool, instance } => {
                if let Some(tool) = tool {
                    self.check_tool(&pool, tool)?;
                }
                let pool = self.pools.iter().find(|known| known.name() == pool);
                let waiting = pool.expect("targets are pools that there are").request(instance.as_deref())?;
                Ok(Spot::Lease(waiting))
            }
            Target::Session { name, pool } => {
                let key = SessionKey { caller: origin.caller.clone(), name };
                if let Some(tool) = tool {
                    // One that is there already stays where it is, and has the tools of that pool.
                    let actual = self.sessions.find(&key).map(|session| session.pool().to_owned());
                    let default = || self.pools.first().map(|pool| pool.name().to_owned());
                    self.check_tool(
                        &actual.or_else(|| pool.clone()).or_else(default).unwrap_or_default(),
                        tool,
                    )?;
                }
                self.sessions.visit(&key, pool.as_deref()).map(Spot::Session)
            }
        }
    }

    /// Reads what is ours out of the arguments.
    fn prepare(
        &self,
        origin: &Origin,
        tool: &str,
        arguments: &mut Map<String, Value>,
        place: Option<Place>,
    ) -> Result<Prepared, CallFailure> {
        let kind = self.books.kind(tool);
        let Some(Place(spot)) = place else {
            return match kind {
                Some(Kind::Own(own)) => Ok(Prepared::Own(own)),
                _ => unreachable!("only tools of ours have no place"),
            };
        };
        let ours = Parameters::default();
        let parameters = match &kind {
            Some(Kind::Proxied(Some(parameters))) => parameters.as_ref(),
            _ => &ours,
        };
        let mut reply = None;
        if !matches!(origin.session, Bound::Fixed(_)) {
            if self.has_reply {
                reply = match arguments.remove(&parameters.reply) {
                    None | Some(Value::Null) => None,
                    Some(Value::String(name)) if name.is_empty() => None,
                    Some(Value::String(name)) => Some(named_reply(&name)?),
                    Some(_) => return Err(CallFailure::BadReply { name: parameters.reply.clone() }),
                };
            }
            if self.modes.has_sessions() {
                arguments.remove(&parameters.session);
            }
            if self.modes.pools {
                arguments.remove(&parameters.pool);
                arguments.remove(&parameters.instance);
            }
        }
        let spot = spot?;
        let manner = spot.manner();
        let manner = Manner { reply: reply.unwrap_or(manner.reply), ..manner };
        match kind {
            Some(Kind::Own(_)) => {
                let bulk = bulk::read(arguments.clone(), &self.books)?;
                Ok(Prepared::Bulk(spot, manner, bulk))
            }
            _ => Ok(Prepared::Call(spot, manner)),
        }
    }
}

async fn learn_from_fleet(fleet: &Fleet) -> Result<(), Unavailable> {
    let learnt = fleet.learn().await;
    learnt.map_err(|error| Unavailable::NotStarted(Arc::new(Failure::Launch(error))))
}

/// Makes sure that a pool's tools are known, if there is an upstream that can be asked.
async fn learn_tools(pool: &Pool) -> Result<(), Unavailable> {
    let mut outcome = Ok(());
    for seat in pool.seats() {
        if seat.book.is_known() {
            continue;
        }
        // Another instance of its kind may be up first.
        tokio::select! {
            () = seat.book.known() => {}
            acquired = seat.instance.acquire() => match acquired {
                Ok(upstream) => seat.book.fetch(&upstream).await,
                Err(unavailable) => outcome = Err(unavailable),
            },
        }
    }
    outcome
}
