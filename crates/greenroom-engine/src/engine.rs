//! The engine's handle: takes calls and sends each on its way.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use greenroom_core::attach::AttachedConfig;
use greenroom_core::config::{
    Addressing, BrowserLimits, ConnectPolicy, HistoryConfig, Isolation, Mistakes, PoolConfig, Reply, Start,
};
use greenroom_core::ids::{RefId, SessionId};
use greenroom_core::percent::escape;
use greenroom_core::target::{
    Address, AddressError, BrowserMode, Modes, Parameters, SessionMode, SessionName, Target, UnknownPool,
    resolve,
};
use greenroom_store::{Call, CallStatus};
use greenroom_upstream::instance::{Failure, Unavailable};
use serde_json::{Map, Value};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::browsers::{AttachFactory, Attached, BrowserReport, Browsers};
use crate::bulk;
use crate::call::{Bound, CallFailure, CallHandle, CallRequest, FailureKind, Origin, Outcome};
use crate::capture::Caught;
use crate::fleet::{self, Fleet};
use crate::history::{self, History};
use crate::note::{Entry, Note};
use crate::own::{BulkArguments, OwnTool};
use crate::pool::{DriverFactory, Pool, Scaled};
use crate::reading::{self, Desk, ReadFailure, Shelf};
use crate::reply::Manner;
use crate::running::{Reporter, Running, Spot};
use crate::session_files::{SessionFile, SessionFolders};
use crate::sessions::{Caller, SessionKey, SessionReport, Sessions};
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
    /// Browsers that somebody else has started.
    pub browsers: Vec<AttachedConfig>,
    /// Which others agents may attach.
    pub connect: ConnectPolicy,
    /// How attached browsers are driven.
    pub attach: AttachFactory,
    /// What holds for calls to them.
    pub browser_limits: BrowserLimits,
}

#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) pools: Vec<Arc<Pool>>,
    pub(crate) browsers: Arc<Browsers>,
    pub(crate) connect: ConnectPolicy,
    pub(crate) sessions: Arc<Sessions>,
    folders: Arc<SessionFolders>,
    pub(crate) books: Arc<ToolBooks>,
    modes: Modes,
    history: Arc<History>,
    shelf: Arc<Shelf>,
    /// Whether agents have tools to read the record with.
    has_reading: bool,
    /// Whether calls can say how they are to be answered.
    has_reply: bool,
    /// Bytes of text in one reply, where no pool says otherwise.
    reply_budget: usize,
    drain: Duration,
    calls: TaskTracker,
    pub(crate) stopping: CancellationToken,
}

/// A place in line, for whoever knows that a call has arrived before they can make it.
pub struct Place(Result<Spot, CallFailure>);

/// How long somebody who repeats a call waits for its answer.
const ANSWERED_LIMIT: Duration = Duration::from_secs(300);

/// How often sessions are looked at, at most and at least.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
const SWEEP_OFTEN: Duration = Duration::from_millis(50);

impl Engine {
    pub fn new(mut config: EngineConfig, drivers: &DriverFactory) -> Self {
        let modes = modes(&config);
        if modes.browsers == BrowserMode::Only {
            // Nobody has asked for one, and no call could go there.
            config.pools.clear();
        }
        let history = Arc::new(History::open(&config.data_dir, &config.run_id, config.history.as_ref()));
        // Another server's tools are passed on as they are, and so are those of the strict mode.
        let is_strict_or_plain = !modes.pools
            && !modes.has_browsers()
            && matches!(modes.sessions, SessionMode::Off | SessionMode::Required);
        let has_reading = history.is_on() && !is_strict_or_plain;
        let own = own_tools(modes, has_pages(&config.pools), has_reading, config.connect);
        let has_reply = has_reading && config.addressing == Addressing::Auto;
        let reply = config.pools.first().map_or(config.browser_limits.reply, |pool| pool.reply);
        let reply = Some(reply).filter(|_| has_reply);
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
        let browsers = Browsers::new(
            std::mem::take(&mut config.browsers),
            Arc::clone(&config.attach),
            Arc::clone(&books),
            config.browser_limits.clone(),
        );
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
            browsers,
            connect: config.connect,
            sessions,
            folders,
            books,
            modes,
            history,
            shelf: Arc::new(Shelf::new()),
            has_reading,
            has_reply,
            reply_budget: config.browser_limits.reply_budget,
            drain: config.drain,
            calls: TaskTracker::new(),
            stopping: CancellationToken::new(),
        });
        if modes.has_browsers() {
            shared.browsers.watch();
        }
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
            let pools = join_all(self.0.pools.iter().map(|pool| learn_tools(pool)));
            let attached = self.0.browsers.all();
            // Those that are alike have one list.
            let mut kinds: Vec<&Arc<Attached>> = Vec::new();
            for one in &attached {
                if !kinds.iter().any(|known| Arc::ptr_eq(&known.book, &one.book)) {
                    kinds.push(one);
                }
            }
            let browsers = join_all(kinds.into_iter().map(|attached| attached.learn()));
            let (mut pools, browsers) = tokio::join!(pools, browsers);
            pools.extend(browsers);
            pools
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

    /// The attached browsers and how each is.
    pub fn browsers(&self) -> Vec<BrowserReport> {
        self.0.browsers.report()
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
        let mut report =
            StatusReport::of(pools.iter().map(AsRef::as_ref), |pool| self.0.sessions.count(pool), history);
        if self.0.modes.has_only_sessions() {
            // Nobody leases one, so none is ever started.
            report.leave_out_instances();
        }
        Ok(report)
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

    pub(crate) fn pool(&self, name: &str) -> Result<&Arc<Pool>, UnknownPool> {
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
            let since = spot.map_or_else(Instant::now, Spot::since);
            let entry = Entry { ref_id, owner, session, tool: &tool, arguments, since };
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
        tokio::join!(pools, self.0.sessions.stop(), self.0.browsers.stop());
        self.0.history.close().await;
    }

    /// Where the caller's part of the record can be read.
    pub fn desk(&self, caller: &Caller) -> Desk {
        let budget = self.0.pools.first().map_or(self.0.reply_budget, |pool| pool.config.reply_budget);
        self.0.desk(reading::owner(caller), budget)
    }

    /// A call that was made before, once it is answered.
    pub async fn answered(&self, caller: &Caller, ref_id: RefId) -> Result<Call, ReadFailure> {
        self.0.answered(&self.desk(caller), ref_id).await
    }
}

pub(crate) fn named_reply(name: &str) -> Result<Reply, CallFailure> {
    Reply::named(name).ok_or_else(|| CallFailure::BadReply { name: Parameters::REPLY.to_owned() })
}

/// What a call turns out to be.
enum Prepared {
    Call(Spot, Manner),
    Bulk(Spot, Manner, BulkArguments),
    Own(OwnTool),
}

/// Greenroom's own tools, as far as they can be used.
fn own_tools(modes: Modes, has_pages: bool, has_reading: bool, connect: ConnectPolicy) -> Vec<OwnTool> {
    let mut own = Vec::new();
    if modes.pools {
        own.push(OwnTool::PoolStatus);
    }
    // Where the seed of sessions is followed to the letter there is nothing but its own two tools.
    if modes.pools || modes.has_browsers() || (has_pages && modes.sessions != SessionMode::Required) {
        own.push(OwnTool::ExecuteBulk);
    }
    if modes.has_sessions() {
        own.extend([OwnTool::SessionList, OwnTool::SessionClose]);
    }
    // These two are not part of what the strict mode promises.
    if matches!(modes.sessions, SessionMode::Optional | SessionMode::Always) {
        own.extend([OwnTool::SessionFiles, OwnTool::CreateSession]);
    }
    if modes.has_browsers() {
        own.extend([OwnTool::ListBrowsers, OwnTool::ReconnectBrowser]);
        if connect != ConnectPolicy::Nobody {
            own.extend([OwnTool::ConnectBrowser, OwnTool::DisconnectBrowser]);
        }
    }
    if has_reading {
        own.extend([OwnTool::GetContent, OwnTool::GetConsoleContent, OwnTool::ListCalls, OwnTool::GetBlob]);
    }
    own
}

/// What calls can say about where they run.
fn modes(config: &EngineConfig) -> Modes {
    let has_pools = config.pools.iter().any(|pool| !pool.is_implicit);
    let wants_sessions = config.pools.iter().any(|pool| pool.sessions.isolation.is_some());
    let has_browsers = !config.browsers.is_empty();
    match config.addressing {
        Addressing::Pool => Modes::POOLS,
        Addressing::Session => Modes::new(SessionMode::Required, false),
        Addressing::Browser => Modes { browsers: BrowserMode::Only, ..Modes::new(SessionMode::Off, false) },
        Addressing::Auto if has_pools => {
            let browsers = if has_browsers { BrowserMode::Beside } else { BrowserMode::Off };
            Modes { browsers, ..Modes::new(SessionMode::Optional, true) }
        }
        Addressing::Auto if has_browsers => {
            Modes { browsers: BrowserMode::Only, ..Modes::new(SessionMode::Off, false) }
        }
        Addressing::Auto if has_pages(&config.pools) || wants_sessions => {
            Modes::new(SessionMode::Always, false)
        }
        // Another MCP server is passed on as it is.
        Addressing::Auto => Modes::new(SessionMode::Off, false),
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
    let mut next = history::CLEAN_FIRST;
    loop {
        sleep(std::mem::replace(&mut next, history::CLEAN_EVERY)).await;
        let Some(engine) = engine.upgrade() else { return };
        if engine.stopping.is_cancelled() {
            return;
        }
        engine.history.clean().await;
    }
}

/// A name that nobody has chosen.
pub(crate) fn mint_name() -> String {
    SessionId::new_v4().to_string()
}

/// The address of a session's file as a resource.
pub fn file_uri(session: &SessionName, file: &str) -> String {
    format!("greenroom://sessions/{}/files/{}", escape(session.as_str(), b""), escape(file, b"/"))
}

impl Shared {
    /// Nothing is started for a tool that is known not to exist.
    pub(crate) fn check_tool(&self, place: &str, tool: &str) -> Result<(), CallFailure> {
        match self.books.look_up(place, tool) {
            Lookup::Known => Ok(()),
            Lookup::Unknown { elsewhere, nearest } => {
                let is_pool = self.pools.iter().any(|pool| pool.name() == place);
                let here = if is_pool { "pool" } else { "browser" };
                Err(CallFailure::UnknownTool { name: tool.to_owned(), here, nearest, elsewhere })
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
        let call = self.answered(&desk, ref_id).await?;
        let result = desk.result(&call).await?;
        result.ok_or_else(|| CallFailure::Before {
            kind: call.failure.as_deref().and_then(FailureKind::named),
            message: call.error.unwrap_or_default(),
        })
    }

    /// A call on record, once its answer is there.
    async fn answered(&self, desk: &Desk, ref_id: RefId) -> Result<Call, ReadFailure> {
        let waiting = timeout(ANSWERED_LIMIT, self.wait_for_answer(desk, ref_id));
        tokio::select! {
            call = waiting => call.unwrap_or(Err(ReadFailure::Unanswered(ref_id))),
            () = self.stopping.cancelled() => Err(ReadFailure::Unanswered(ref_id)),
        }
    }

    async fn wait_for_answer(&self, desk: &Desk, ref_id: RefId) -> Result<Call, ReadFailure> {
        loop {
            self.history.landing(ref_id).await;
            let call = desk.call(ref_id).await?;
            if call.status != CallStatus::Pending {
                return Ok(call);
            }
            // Its answer is being written down, or it runs in another process.
            sleep(Duration::from_millis(25)).await;
        }
    }

    pub(crate) fn no_browser(&self, given: String) -> CallFailure {
        AddressError::UnknownBrowser { given, browsers: self.browsers.known() }.into()
    }

    /// The attached browser that a tool of ours is about: the only one, where none is named.
    pub(crate) fn attached(
        &self,
        index: Option<&Value>,
        name: Option<&str>,
    ) -> Result<Arc<Attached>, CallFailure> {
        let address = Address { index: index.cloned(), browser: name.map(Value::from), ..Address::default() };
        let known = self.browsers.known();
        let beside = Modes { browsers: BrowserMode::Beside, ..Modes::new(SessionMode::Off, false) };
        let found = match (index.is_some() || name.is_some_and(|name| !name.is_empty()), known.as_slice()) {
            (false, [only]) => only.index,
            (false, []) => return Err(AddressError::NoBrowsers.into()),
            (false, _) => return Err(AddressError::BrowserMissing { browsers: known }.into()),
            (true, _) => match resolve(&address, beside, None, std::iter::once(""), &known)? {
                Target::Browser(index) => index,
                Target::Lease { .. } | Target::Session { .. } => {
                    return Err(AddressError::BrowserMissing { browsers: known }.into());
                }
            },
        };
        self.browsers.get(found).ok_or_else(|| self.no_browser(found.to_string()))
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
        if self.modes.has_browsers() {
            address.index = argument(&parameters.index);
            address.browser = argument(&parameters.browser);
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
            _ => {
                let (pools, browsers) = (self.pools.iter().map(|pool| pool.name()), self.browsers.known());
                resolve(address, self.modes, implied, pools, &browsers)?
            }
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
            Target::Browser(index) => {
                let visit = self.browsers.visit(index);
                // It was there a moment ago.
                let visit = visit.ok_or_else(|| self.no_browser(index.to_string()))?;
                if let Some(tool) = tool {
                    self.check_tool(&visit.attached.place(), tool)?;
                }
                Ok(Spot::Browser(visit))
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
            if self.modes.has_browsers() {
                arguments.remove(&parameters.index);
                arguments.remove(&parameters.browser);
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
