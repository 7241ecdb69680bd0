//! The engine's handle: takes calls and sends each on its way.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use greenroom_core::attach::AttachedConfig;
use greenroom_core::config::{
    Addressing, BrowserLimits, ConnectPolicy, HistoryConfig, Mistakes, PoolConfig, Start,
};
use greenroom_core::ids::{RefId, SessionId};
use greenroom_core::percent::escape;
use greenroom_core::target::{
    Address, AddressError, BrowserMode, Modes, SessionMode, SessionName, Target, UnknownPool, resolve,
};
use greenroom_store::{Call, CallStatus};
use greenroom_upstream::instance::{Failure, Unavailable};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::assembly;
use crate::browsers::{AttachFactory, Attached, BrowserReport, Browsers};
use crate::call::{CallFailure, FailureKind};
use crate::events::{EventStream, Events};
use crate::fleet::Fleet;
use crate::history::{self, History};
use crate::pool::{DriverFactory, Pool, Scaled};
use crate::reading::{self, Desk, ReadFailure, Shelf};
use crate::session_files::{SessionFile, SessionFolders};
use crate::sessions::{Caller, SessionKey, SessionReport, Sessions};
use crate::status::StatusReport;
use crate::tools::{Additions, ToolBooks, ToolList};

pub struct EngineConfig {
    /// The default pool first.
    pub pools: Vec<PoolConfig>,
    pub addressing: Addressing,
    /// How long calls in flight have to finish when we are asked to stop.
    pub drain: Duration,
    /// `None`: one caller may have any number of sessions.
    pub max_sessions_per_caller: Option<usize>,
    /// How long a session that was started for a conversation may be idle. `None`: for ever.
    pub rest_session_idle: Option<Duration>,
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
    pub(crate) modes: Modes,
    pub(crate) history: Arc<History>,
    pub(crate) events: Events,
    pub(crate) rest_session_idle: Option<Duration>,
    shelf: Arc<Shelf>,
    /// Whether agents have tools to read the record with.
    pub(crate) has_reading: bool,
    /// Whether calls can say how they are to be answered.
    pub(crate) has_reply: bool,
    /// Bytes of text in one reply, where no pool says otherwise.
    reply_budget: usize,
    drain: Duration,
    pub(crate) calls: TaskTracker,
    pub(crate) stopping: CancellationToken,
}

/// How long somebody who repeats a call waits for its answer.
const ANSWERED_LIMIT: Duration = Duration::from_secs(300);

/// How often sessions are looked at, at most and at least.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
const SWEEP_OFTEN: Duration = Duration::from_millis(50);

impl Engine {
    pub fn new(mut config: EngineConfig, drivers: &DriverFactory) -> Self {
        let modes = assembly::modes(&config);
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
        let own = assembly::own_tools(modes, assembly::has_pages(&config.pools), has_reading, config.connect);
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
                fleets.extend(assembly::fleet(pool, modes, drivers, &books, &folders, &config.readable));
            }
        }
        let browsers = Browsers::new(
            std::mem::take(&mut config.browsers),
            Arc::clone(&config.attach),
            Arc::clone(&books),
            config.browser_limits.clone(),
        );
        let events = Events::new();
        let sessions =
            Sessions::new(fleets, config.max_sessions_per_caller, Arc::clone(&history), events.clone());
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
            events,
            rest_session_idle: config.rest_session_idle,
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

    /// What happens from now on, as far as it is the caller's.
    pub fn events(&self, caller: &Caller) -> EventStream {
        self.0.events.listen(caller)
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
