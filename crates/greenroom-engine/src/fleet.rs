//! Where sessions live: shared hosts with many contexts, or a process for each.
//!
//! ```text
//!   fleet ──► host ──► seat (a session's)
//!         │        └─► seat (warm: nobody's yet)
//!         └─► host ──► …
//! ```
//!
//! A new session sits down on a warm seat, else on the emptiest host, else on a new one. Hosts that are empty go, and so
//! does everything when there has been no session for a while.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use greenroom_core::config::{Isolation, PoolConfig};
use greenroom_core::supervision::{Health, HealthTally, Supervision};
use greenroom_upstream::driver::{SeatOptions, SharedHost};
use greenroom_upstream::host::HostError;
use greenroom_upstream::rpc::Ended;
use greenroom_upstream::{Driver, LaunchError, Upstream};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::reply::Manner;
use crate::session_files::{SessionFolder, SessionFolders};
use crate::tools::ToolBook;

/// A host of this age takes no new sessions, and goes with its last.
const OLD: Duration = Duration::from_secs(3600);

/// How long a fleet without sessions keeps its browsers, unless its sessions are kept for less than that themselves.
const LINGER: Duration = Duration::from_secs(120);

/// Warm seats are made when nobody has called for this long, and after this much waiting in any case.
const QUIET: Duration = Duration::from_millis(100);
const QUIET_LIMIT: Duration = Duration::from_secs(2);

/// What a session asks for beyond what its pool is configured for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wishes {
    pub viewport: Option<(u32, u32)>,
    pub user_agent: Option<String>,
    /// A name from Playwright's list.
    pub device: Option<String>,
    /// Cookies and storage to begin with, as Playwright writes them.
    pub storage_state: Option<Value>,
}

pub(crate) struct Fleet {
    config: PoolConfig,
    supervision: Supervision,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) book: Arc<ToolBook>,
    pub(crate) isolation: Isolation,
    folders: Arc<SessionFolders>,
    /// Folders that sessions may read from beside their own.
    pub(crate) readable: Vec<PathBuf>,
    state: Mutex<State>,
    /// One host after another is launched: whoever waits may find room on the one before.
    launching: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
}

struct State {
    hosts: Vec<Arc<Slot>>,
    warm: Vec<SessionSeat>,
    warming: usize,
    /// Since when nobody has a session.
    empty_since: Option<Instant>,
    is_closed: bool,
}

struct Slot {
    host: SharedHost,
    seats: AtomicUsize,
    /// Calls in flight: as long as there are any, missed checks do not end the host.
    calls: AtomicUsize,
    /// It has missed too many checks. Calls in flight go on, new ones go elsewhere.
    is_ill: AtomicBool,
    born: Instant,
    is_retired: AtomicBool,
}

impl Slot {
    fn new(host: SharedHost) -> Self {
        Self {
            host,
            seats: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            is_ill: AtomicBool::new(false),
            born: Instant::now(),
            is_retired: AtomicBool::new(false),
        }
    }

    /// Checks the host once, and ends it when it has missed too many checks and no call is in flight: a call within its
    /// own deadline is not ended by checks.
    async fn check(&self, tally: &mut HealthTally, supervision: &Supervision) {
        let error = match timeout(supervision.check_timeout, self.host.check()).await {
            Ok(Ok(())) => {
                tally.answered();
                self.is_ill.store(false, Ordering::Relaxed);
                return;
            }
            Ok(Err(error)) => error,
            Err(_) => format!("no answer within {} ms", supervision.check_timeout.as_millis()),
        };
        tracing::warn!(error, pid = self.host.pid(), "a host for sessions missed a health check");
        let is_ill = tally.missed() == Health::Ill;
        self.is_ill.store(is_ill, Ordering::Relaxed);
        if is_ill && self.calls.load(Ordering::Relaxed) == 0 {
            self.is_retired.store(true, Ordering::Relaxed);
            self.host.exit().await;
        }
    }
}

/// One seat of a host is taken.
struct Occupied(Arc<Slot>);

impl Occupied {
    fn new(slot: &Arc<Slot>) -> Self {
        slot.seats.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(slot))
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        self.0.seats.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A browser of a session's own. Dropping it ends the browser; [`close`](Self::close) does so in order.
pub(crate) struct SessionSeat {
    pub(crate) upstream: Arc<Upstream>,
    behind: Behind,
    /// The last to go: who writes to it goes before.
    pub(crate) folder: Arc<SessionFolder>,
}

enum Behind {
    Shared(Occupied),
    OwnHost(Arc<Slot>),
    OwnProcess,
}

impl SessionSeat {
    pub(crate) async fn close(&self) {
        match &self.behind {
            Behind::OwnHost(slot) => slot.host.exit().await,
            Behind::Shared(_) | Behind::OwnProcess => self.upstream.close().await,
        }
    }

    /// Has its page made now, where a call would have to.
    pub(crate) async fn prime(&self) {
        let has_page = |live: greenroom_upstream::live::Live<'_>| !live.state().borrow().tabs.is_empty();
        if let Some(slot) = self.slot()
            && !self.upstream.live().is_some_and(has_page)
        {
            slot.host.prime(&self.upstream).await;
        }
    }

    /// No further call may be made here: the browser does not answer.
    pub(crate) fn is_ill(&self) -> bool {
        self.slot().is_some_and(|slot| slot.is_ill.load(Ordering::Relaxed))
    }

    fn slot(&self) -> Option<&Slot> {
        match &self.behind {
            Behind::Shared(occupied) => Some(&occupied.0),
            Behind::OwnHost(slot) => Some(slot),
            Behind::OwnProcess => None,
        }
    }

    /// A call begins. While the guard is held, missed checks do not end the host.
    pub(crate) fn in_use(self: &Arc<Self>) -> SeatInUse {
        if let Some(slot) = self.slot() {
            slot.calls.fetch_add(1, Ordering::Relaxed);
        }
        SeatInUse(Arc::clone(self))
    }
}

/// A seat with a call in flight.
pub(crate) struct SeatInUse(Arc<SessionSeat>);

impl std::ops::Deref for SeatInUse {
    type Target = SessionSeat;

    fn deref(&self) -> &SessionSeat {
        &self.0
    }
}

impl Drop for SeatInUse {
    fn drop(&mut self) {
        if let Some(slot) = self.0.slot() {
            slot.calls.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Where the sessions of a pool live: as configured, as far as the driver can.
pub(crate) fn isolation(config: &PoolConfig, driver: &dyn Driver) -> Isolation {
    match config.sessions.isolation {
        Some(Isolation::Context) | None if driver.launch_shared().is_some() => Isolation::Context,
        _ => Isolation::Process,
    }
}

impl Fleet {
    pub(crate) fn new(
        config: PoolConfig,
        supervision: Supervision,
        driver: Arc<dyn Driver>,
        book: Arc<ToolBook>,
        folders: Arc<SessionFolders>,
        readable: Vec<PathBuf>,
    ) -> Arc<Self> {
        let isolation = isolation(&config, driver.as_ref());
        let state =
            State { hosts: Vec::new(), warm: Vec::new(), warming: 0, empty_since: None, is_closed: false };
        Arc::new(Self {
            config,
            supervision,
            driver,
            book,
            isolation,
            folders,
            readable,
            state: Mutex::new(state),
            launching: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
        })
    }

    /// Whether a tool could reach from one session into another.
    pub(crate) fn refuses(&self, tool: &str) -> bool {
        self.isolation == Isolation::Context && self.driver.tools_in_server().contains(&tool)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where its sessions live, in a word.
    pub(crate) fn seat_name(&self) -> &'static str {
        match self.isolation {
            Isolation::Context => "context",
            Isolation::Process => "process",
        }
    }

    pub(crate) fn pool_name(&self) -> &str {
        &self.config.name
    }

    pub(crate) fn call_timeout(&self) -> Option<Duration> {
        self.config.call_timeout
    }

    /// How calls are answered, unless they or their session say otherwise.
    pub(crate) fn manner(&self) -> Manner {
        Manner { reply: self.config.reply, budget: self.config.reply_budget }
    }

    pub(crate) fn most_sessions(&self) -> Option<usize> {
        self.config.sessions.max
    }

    pub(crate) fn idle(&self) -> Option<Duration> {
        self.config.sessions.idle
    }

    /// Asks a server for its tools, if nobody has yet. No browser is started for that.
    pub(crate) async fn learn(&self) -> Result<(), LaunchError> {
        if self.book.is_known() {
            return Ok(());
        }
        let _one_at_a_time = self.launching.lock().await;
        if self.book.is_known() {
            return Ok(());
        }
        let seat = SeatOptions { folder: std::env::temp_dir(), ..SeatOptions::default() };
        match self.driver.launch_shared() {
            Some(launch) => {
                let host = launch.await?;
                let opened = host.open(&seat).await;
                if let Ok(upstream) = &opened {
                    self.book.fetch(upstream).await;
                }
                host.exit().await;
                opened.map(drop)
            }
            None => {
                let upstream = self.driver.launch_seat(&seat).await?;
                self.book.fetch(&upstream).await;
                upstream.close().await;
                Ok(())
            }
        }
    }

    /// A seat for a session.
    ///
    /// `folder` is where its files are already, if it had a seat before.
    pub(crate) async fn take(
        self: &Arc<Self>,
        wishes: &Wishes,
        folder: Option<Arc<SessionFolder>>,
    ) -> Result<SessionSeat, LaunchError> {
        let is_plain = *wishes == Wishes::default() && folder.is_none();
        let seat = match is_plain.then(|| self.take_warm()).flatten() {
            Some(seat) => seat,
            None => self.open(wishes, folder).await?,
        };
        if !self.book.is_known() {
            self.book.fetch(&seat.upstream).await;
        }
        Ok(seat)
    }

    fn take_warm(&self) -> Option<SessionSeat> {
        let mut state = self.state();
        // One whose host has just gone is no seat any more.
        let mut taken = None;
        while let (None, Some(seat)) = (&taken, state.warm.pop()) {
            taken = Some(seat).filter(|seat| !seat.upstream.has_ended() && !seat.is_ill());
        }
        taken
    }

    async fn open(
        self: &Arc<Self>,
        wishes: &Wishes,
        folder: Option<Arc<SessionFolder>>,
    ) -> Result<SessionSeat, LaunchError> {
        let folder = folder.map_or_else(|| self.folders.mint().map(Arc::new), Ok);
        let folder =
            folder.map_err(|source| LaunchError::Folder { path: PathBuf::from("sessions"), source })?;
        let options = SeatOptions {
            folder: folder.path().to_owned(),
            viewport: wishes.viewport,
            user_agent: wishes.user_agent.clone(),
            device: wishes.device.clone(),
            storage_state: wishes.storage_state.clone(),
        };
        let (upstream, behind) = match self.isolation {
            Isolation::Context => {
                let occupied = self.place().await?;
                let host = &occupied.0.host;
                let (upstream, ()) = futures::try_join!(host.open(&options), host.warm_up())?;
                (upstream, Behind::Shared(occupied))
            }
            Isolation::Process => match self.driver.launch_shared() {
                Some(launch) => {
                    let slot = Arc::new(Slot::new(launch.await?));
                    let (upstream, ()) = futures::try_join!(slot.host.open(&options), slot.host.warm_up())?;
                    // Weak: the host goes with its seat.
                    tokio::spawn(tend_own(Arc::downgrade(&slot), self.supervision));
                    (upstream, Behind::OwnHost(slot))
                }
                None => (self.driver.launch_seat(&options).await?, Behind::OwnProcess),
            },
        };
        Ok(SessionSeat { upstream: Arc::new(upstream), behind, folder })
    }

    /// Room on a host: the emptiest, else a new one.
    async fn place(self: &Arc<Self>) -> Result<Occupied, LaunchError> {
        if let Some(occupied) = self.emptiest() {
            return Ok(occupied);
        }
        let _one_at_a_time = self.launching.lock().await;
        if let Some(occupied) = self.emptiest() {
            return Ok(occupied);
        }
        let launch = self.driver.launch_shared().expect("only drivers that can share have hosts");
        let host = launch.await?;
        let slot = Arc::new(Slot::new(host));
        let occupied = Occupied::new(&slot);
        let is_too_late = {
            let mut state = self.state();
            if !state.is_closed {
                state.hosts.push(Arc::clone(&slot));
            }
            state.is_closed
        };
        // Nobody would end it, and everybody would wait for that.
        if is_too_late {
            slot.host.exit().await;
            return Err(HostError::Ended(Ended::because("Greenroom is shutting down")).into());
        }
        tracing::info!(pool = self.config.name, pid = slot.host.pid(), "a host for sessions is up");
        self.tasks.spawn(tend(Arc::downgrade(self), slot, self.supervision));
        Ok(occupied)
    }

    fn emptiest(&self) -> Option<Occupied> {
        let state = self.state();
        let has_room = |slot: &&Arc<Slot>| {
            !slot.is_retired.load(Ordering::Relaxed)
                && !slot.is_ill.load(Ordering::Relaxed)
                && !slot.host.has_ended()
                && slot.born.elapsed() < OLD
                && slot.seats.load(Ordering::Relaxed) < self.config.sessions.per_host
        };
        // Under the lock, so that no two take the last seat.
        let slot = state.hosts.iter().filter(has_room).min_by_key(|slot| slot.seats.load(Ordering::Relaxed));
        slot.map(Occupied::new)
    }

    /// Makes warm seats until there are as many as wanted. Called when a session has been answered: before, it would
    /// take the processor from the very call that it was made for.
    pub(crate) fn refill(self: &Arc<Self>) {
        if self.isolation != Isolation::Context {
            return;
        }
        let missing = {
            let mut state = self.state();
            if state.is_closed {
                return;
            }
            let missing = self.config.sessions.warm.saturating_sub(state.warm.len() + state.warming);
            state.warming += missing;
            missing
        };
        for _ in 0..missing {
            let fleet = Arc::clone(self);
            self.tasks.spawn(async move {
                fleet.quiet().await;
                let seat = fleet.open(&Wishes::default(), None).await;
                if let Ok(seat) = &seat
                    && let Behind::Shared(occupied) = &seat.behind
                {
                    occupied.0.host.prime(&seat.upstream).await;
                }
                let surplus = fleet.take_in(seat);
                if let Some(seat) = surplus {
                    seat.close().await;
                }
            });
        }
    }

    /// Waits for a moment without calls, but not for long.
    async fn quiet(&self) {
        let until = Instant::now() + QUIET_LIMIT;
        loop {
            sleep(QUIET).await;
            let is_busy = self.state().hosts.iter().any(|slot| slot.calls.load(Ordering::Relaxed) > 0);
            if !is_busy || Instant::now() >= until {
                return;
            }
        }
    }

    /// A warm seat has been made, or not. One that comes too late is given back.
    fn take_in(&self, seat: Result<SessionSeat, LaunchError>) -> Option<SessionSeat> {
        let mut state = self.state();
        state.warming -= 1;
        match seat {
            Ok(seat) if state.is_closed => Some(seat),
            Ok(seat) => {
                state.warm.push(seat);
                None
            }
            Err(error) => {
                tracing::warn!(%error, "no session could be made in advance");
                None
            }
        }
    }

    /// Lets go of what is not needed. Called from time to time, with the number of sessions that there are.
    pub(crate) fn sweep(self: &Arc<Self>, sessions: usize) {
        let (hosts, warm) = {
            let mut state = self.state();
            state.empty_since = match (sessions, state.empty_since) {
                (0, None) => Some(Instant::now()),
                (0, since) => since,
                _ => None,
            };
            let linger = self.idle().filter(|idle| !idle.is_zero()).map_or(LINGER, |idle| idle.min(LINGER));
            let is_idle = state.empty_since.is_some_and(|since| since.elapsed() >= linger);
            let is_old = |seat: &SessionSeat| match &seat.behind {
                Behind::Shared(occupied) => occupied.0.born.elapsed() >= OLD,
                _ => false,
            };
            let (warm, stay): (Vec<_>, Vec<_>) =
                std::mem::take(&mut state.warm).into_iter().partition(|seat| is_idle || is_old(seat));
            state.warm = stay;
            let hosts: Vec<_> =
                state.hosts.iter().filter(|slot| slot.seats.load(Ordering::Relaxed) == 0).cloned().collect();
            // The last one stays for whoever comes next, unless nobody has come for long.
            let hosts = if hosts.len() == state.hosts.len() && !is_idle {
                hosts[1.min(hosts.len())..].to_vec()
            } else {
                hosts
            };
            for slot in &hosts {
                slot.is_retired.store(true, Ordering::Relaxed);
            }
            (hosts, warm)
        };
        for seat in warm {
            self.tasks.spawn(async move { seat.close().await });
        }
        for slot in hosts {
            self.tasks.spawn(async move { slot.host.exit().await });
        }
    }

    /// Ends every host that there is, because a person wants it. Sessions go on with fresh browsers.
    pub(crate) fn restart(&self, cause: &str) {
        let (hosts, warm) = {
            let mut state = self.state();
            (state.hosts.clone(), std::mem::take(&mut state.warm))
        };
        drop(warm);
        tracing::warn!(
            pool = self.config.name,
            cause,
            hosts = hosts.len(),
            "hosts for sessions are ended by hand"
        );
        for slot in hosts {
            slot.is_retired.store(true, Ordering::Relaxed);
            self.tasks.spawn(async move { slot.host.exit().await });
        }
    }

    /// Ends every host. Sessions are closed before.
    pub(crate) async fn stop(&self) {
        let (hosts, warm) = {
            let mut state = self.state();
            state.is_closed = true;
            state.hosts.iter().for_each(|slot| slot.is_retired.store(true, Ordering::Relaxed));
            (std::mem::take(&mut state.hosts), std::mem::take(&mut state.warm))
        };
        drop(warm);
        futures::future::join_all(hosts.iter().map(|slot| slot.host.exit())).await;
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Looks after the host of one session until either is gone.
async fn tend_own(slot: Weak<Slot>, supervision: Supervision) {
    let mut tally = HealthTally::new(&supervision);
    loop {
        sleep(supervision.check_interval).await;
        match slot.upgrade() {
            Some(slot) if !slot.host.has_ended() => slot.check(&mut tally, &supervision).await,
            _ => return,
        }
    }
}

/// Looks after a host until it is gone or ill.
async fn tend(fleet: Weak<Fleet>, slot: Arc<Slot>, supervision: Supervision) {
    let mut tally = HealthTally::new(&supervision);
    let ended = slot.host.ended();
    tokio::pin!(ended);
    let why = loop {
        tokio::select! {
            ended = &mut ended => break ended.to_string(),
            () = sleep(supervision.check_interval) => {}
        }
        slot.check(&mut tally, &supervision).await;
    };
    if let Some(fleet) = fleet.upgrade() {
        let mut state = fleet.state();
        state.hosts.retain(|known| !Arc::ptr_eq(known, &slot));
        let (gone, stay) =
            std::mem::take(&mut state.warm).into_iter().partition(|seat| seat.upstream.has_ended());
        state.warm = stay;
        drop(state);
        let gone: Vec<SessionSeat> = gone;
        drop(gone);
    }
    if slot.is_retired.load(Ordering::Relaxed) {
        tracing::debug!(why, "a host for sessions has gone");
    } else {
        tracing::warn!(why, "a host for sessions was lost, and its sessions with it");
    }
}
