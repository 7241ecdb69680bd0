//! A call's task: from its place in line to the answer, and on until the browser is at rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use greenroom_core::ids::RefId;
use greenroom_upstream::Upstream;
use greenroom_upstream::driver::{AfterInterrupt, Overlap};
use greenroom_upstream::instance::InUse;
use greenroom_upstream::rpc::{Pending, Progress};
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::browsers::BrowserVisit;
use crate::call::{CallFailure, Outcome, Served};
use crate::capture::{self, Before, Caught};
use crate::engine::Shared;
use crate::fleet::SeatInUse;
use crate::note::Note;
use crate::pool::{Lease, Waiting};
use crate::reply::Manner;
use crate::sessions::{Session, Visit};
use crate::tools::ToolBook;
use crate::uploads;

/// How long a browser has to come to rest after its context was closed under a call, before it is given up.
const AFTER_RESET: Duration = Duration::from_secs(10);

/// How long a call that nobody waits for may go on where calls have no deadline.
const WIND_DOWN_LIMIT: Duration = Duration::from_secs(300);

/// How often a call that nobody waits for is told to stop, until it has.
const INTERRUPT_EVERY: Duration = Duration::from_millis(500);

/// How often a caller is told its position in the queue, at most.
const POSITION_EVERY: Duration = Duration::from_millis(250);

pub(crate) struct Running {
    pub(crate) engine: Arc<Shared>,
    pub(crate) cancel: CancellationToken,
    pub(crate) reply: Option<oneshot::Sender<Outcome>>,
    pub(crate) served: Option<Served>,
    pub(crate) progress: Reporter,
}

/// A browser in use: nobody else has it, and its upstream is at hand.
pub(crate) struct Held {
    browser: Browser,
    call_timeout: Option<Duration>,
    has_page: bool,
    book: Arc<ToolBook>,
}

enum Browser {
    Leased { upstream: InUse, _lease: Lease },
    Session { seat: SeatInUse, visit: Visit, _turn: OwnedSemaphorePermit },
    Attached { upstream: Arc<Upstream>, visit: BrowserVisit, _turn: OwnedSemaphorePermit },
}

impl Held {
    fn upstream(&self) -> &Upstream {
        match &self.browser {
            Browser::Leased { upstream, .. } => upstream,
            Browser::Session { seat, .. } => &seat.upstream,
            Browser::Attached { upstream, .. } => upstream,
        }
    }

    /// The deadline of a call that begins now or began then.
    pub(crate) fn deadline(&self, begun: Instant) -> Option<Instant> {
        self.call_timeout.map(|limit| begun + limit)
    }

    /// Brings the files that a call names to where the session's server may read them.
    async fn bring_files(&self, tool: &str, arguments: &mut Map<String, Value>) {
        if let Browser::Session { seat, visit, .. } = &self.browser {
            let fleet = &visit.session.fleet;
            if let Some(name) = fleet.driver.takes_files(tool).filter(|_| !fleet.readable.is_empty()) {
                uploads::bring(arguments, name, seat.folder.path(), &fleet.readable).await;
            }
        }
    }

    /// The session that it belongs to, where it does.
    pub(crate) fn session(&self) -> Option<&Session> {
        match &self.browser {
            Browser::Session { visit, .. } => Some(&visit.session),
            Browser::Leased { .. } | Browser::Attached { .. } => None,
        }
    }

    /// Whether a call shows a part of the page only.
    pub(crate) fn asks_for_part(&self, tool: &str, arguments: &Map<String, Value>) -> bool {
        self.book.driver().asks_for_part(tool, arguments)
    }

    /// Takes in what an answer says about the page, and what it brings along.
    pub(crate) async fn catch(
        &self,
        note: &Note,
        result: &Result<Bytes, CallFailure>,
        is_part: bool,
    ) -> Caught {
        let mut caught = match result {
            Ok(bytes) => {
                let (driver, folder) = (self.book.driver(), self.upstream().folder());
                capture::catch(note, driver, folder, bytes).await
            }
            Err(_) => Caught::default(),
        };
        let snapshot = caught.capture.snapshot.as_ref().filter(|_| !is_part && !caught.is_error);
        let before = match &self.browser {
            Browser::Session { visit, .. } => Some(visit.session.note(caught.page(), snapshot)),
            Browser::Attached { visit, .. } => Some(visit.attached.note(caught.page(), snapshot)),
            Browser::Leased { .. } => None,
        };
        if let Some(before) = before {
            // A part is not compared with the whole.
            caught.before = Before { snapshot: before.snapshot.filter(|_| !is_part), ..before };
        }
        caught
    }
}

/// A place in line: for an instance of a pool, or for the turn of a session.
pub(crate) enum Spot {
    Lease(Waiting),
    Session(Visit),
    Browser(BrowserVisit),
}

impl Spot {
    /// The life of the session that it is at.
    pub(crate) fn session(&self) -> Option<&Session> {
        match self {
            Self::Lease(_) | Self::Browser(_) => None,
            Self::Session(visit) => Some(&visit.session),
        }
    }

    /// How calls are answered here, unless they say otherwise.
    pub(crate) fn manner(&self) -> Manner {
        match self {
            Self::Lease(waiting) => {
                let config = &waiting.pool().config;
                Manner { reply: config.reply, budget: config.reply_budget }
            }
            Self::Session(visit) => {
                let manner = visit.session.fleet.manner();
                Manner { reply: visit.session.reply.unwrap_or(manner.reply), ..manner }
            }
            Self::Browser(visit) => visit.manner(),
        }
    }

    pub(crate) fn since(&self) -> Instant {
        match self {
            Self::Lease(waiting) => waiting.since(),
            Self::Session(visit) => visit.since,
            Self::Browser(visit) => visit.since,
        }
    }
}

impl Running {
    /// Puts the answer on record. The caller is free from here on; the task may have tidying to do.
    pub(crate) async fn answer(
        &mut self,
        mut note: Note,
        result: Result<Bytes, CallFailure>,
        caught: Caught,
    ) {
        let result = note.finish(result, caught, self.served.as_ref()).await;
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(Outcome { result, served: self.served.take(), ref_id: note.ref_id() });
        }
    }

    /// Answers with what is on record already.
    pub(crate) async fn answer_as_before(&mut self, note: &Note, ref_id: RefId) {
        let result = tokio::select! {
            result = self.engine.earlier(note.owner(), ref_id) => result,
            () = self.cancel.cancelled() => Err(CallFailure::Cancelled),
        };
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(Outcome { result, served: None, ref_id: Some(ref_id) });
        }
    }

    /// One call of one tool.
    pub(crate) async fn run(
        mut self,
        mut note: Note,
        spot: Spot,
        tool: String,
        arguments: Map<String, Value>,
    ) {
        let begun = spot.since();
        let (held, known) = tokio::join!(self.hold(spot, std::slice::from_ref(&tool)), note.begin());
        if let Some(ref_id) = known {
            drop(held);
            return self.answer_as_before(&note, ref_id).await;
        }
        match held {
            Ok(held) => {
                let (progress, passed_on) = self.progress.through();
                let deadline = held.deadline(begun);
                let is_part = held.asks_for_part(&tool, &arguments);
                let (result, rest) = ask(&held, &tool, arguments, progress, deadline, &self.cancel).await;
                let caught = held.catch(&note, &result, is_part).await;
                if !matches!(rest, Rest::Nothing) {
                    self.answer(note, result, caught).await;
                    return rest.settle(&held, deadline).await;
                }
                // Nobody listens to reports that come after the answer.
                if let Some(passed_on) = passed_on {
                    let _ = passed_on.await;
                }
                // Returned first: who calls again at once does not find the browser taken by themselves.
                drop(held);
                self.answer(note, result, caught).await;
            }
            Err(failure) => self.answer(note, Err(failure), Caught::default()).await,
        }
    }

    /// Everything before the upstream is asked: nothing has happened yet, so all of it can simply be dropped.
    pub(crate) async fn hold(&mut self, spot: Spot, tools: &[String]) -> Result<Held, CallFailure> {
        let ready = async {
            match spot {
                Spot::Lease(waiting) => self.hold_instance(waiting, tools).await,
                Spot::Session(visit) => self.hold_session(visit, tools).await,
                Spot::Browser(visit) => self.hold_browser(visit, tools).await,
            }
        };
        let (held, served) = tokio::select! {
            biased;
            () = self.engine.stopping.cancelled() => Err(CallFailure::ShuttingDown),
            () = self.cancel.cancelled() => Err(CallFailure::Cancelled),
            ready = ready => ready,
        }?;
        self.served = Some(served);
        Ok(held)
    }

    async fn hold_instance(
        &self,
        mut waiting: Waiting,
        tools: &[String],
    ) -> Result<(Held, Served), CallFailure> {
        let pool = Arc::clone(waiting.pool());
        let since = waiting.since();
        self.check_tools(pool.name(), tools)?;
        let call_limit = pool.config.call_timeout;
        let lease_limit = pool.config.lease_timeout;
        let (limit, key) = match (lease_limit, call_limit) {
            (Some(lease), Some(call)) if call < lease => (Some(call), "CALL_TIMEOUT"),
            (Some(lease), _) => (Some(lease), "LEASE_TIMEOUT"),
            (None, call) => (call, "CALL_TIMEOUT"),
        };
        let lease = self.wait(&mut waiting, limit.map(|limit| since + limit), key).await?;
        let waited = since.elapsed();
        // It was there when it was handed out. If it has gone just now, it comes back or is given up.
        let deadline = call_limit.map(|limit| since + limit);
        let upstream = match before(deadline, lease.seat.instance.acquire()).await {
            Some(upstream) => upstream.map_err(|unavailable| pool.gone(&lease.seat, unavailable))?,
            None => return Err(waiting.too_long("CALL_TIMEOUT")),
        };
        let served = Served {
            pool: pool.name().to_owned(),
            instance: Some(lease.seat.member.to_string()),
            session: None,
            browser: None,
            waited,
            notice: None,
        };
        // Where no list was known before, it is now.
        self.check_tools(pool.name(), tools)?;
        let held = Held {
            call_timeout: lease.seat.call_timeout(),
            has_page: lease.seat.has_page(),
            book: Arc::clone(&lease.seat.book),
            browser: Browser::Leased { upstream, _lease: lease },
        };
        Ok((held, served))
    }

    async fn hold_session(&self, mut visit: Visit, tools: &[String]) -> Result<(Held, Served), CallFailure> {
        let (session, since) = (Arc::clone(&visit.session), visit.since);
        let (fleet, name) = (&session.fleet, session.key.name.to_string());
        self.check_tools(session.pool(), tools)?;
        if let Some(tool) = tools.iter().find(|tool| fleet.refuses(tool)) {
            return Err(CallFailure::SharedServer { tool: tool.clone() });
        }
        let deadline = fleet.call_timeout().map(|limit| since + limit);
        let too_long = |situation: &str| CallFailure::NoLease {
            what: format!("session `{name}`"),
            waited: since.elapsed(),
            limit: "CALL_TIMEOUT",
            waiting: 0,
            situation: situation.to_owned(),
        };
        let turn = before(deadline, visit.turn()).await.ok_or_else(|| too_long("busy with other calls"))?;
        self.let_person_finish(&session, since, deadline).await?;
        let waited = since.elapsed();
        let seat = before(deadline, session.seat()).await;
        let (seat, notice) = seat.ok_or_else(|| too_long("its browser is being started"))??;
        self.check_tools(session.pool(), tools)?;
        let served = Served {
            pool: session.pool().to_owned(),
            instance: None,
            session: Some(name),
            browser: None,
            waited,
            notice,
        };
        let held = Held {
            call_timeout: fleet.call_timeout(),
            has_page: fleet.driver.overlap() == Overlap::InTurn,
            book: Arc::clone(&fleet.book),
            browser: Browser::Session { seat: seat.in_use(), visit, _turn: turn },
        };
        Ok((held, served))
    }

    /// While a person has control, calls wait.
    pub(crate) async fn let_person_finish(
        &self,
        session: &Session,
        since: Instant,
        deadline: Option<Instant>,
    ) -> Result<(), CallFailure> {
        if !session.is_controlled() {
            return Ok(());
        }
        self.progress
            .say("A person has control of the browser; the call waits until they hand it back".to_owned());
        let name = || session.key.name.to_string();
        let returned = before(deadline, session.handed_back()).await;
        returned.ok_or_else(|| CallFailure::PersonHasControl { name: name(), waited: since.elapsed() })
    }

    async fn hold_browser(
        &self,
        mut visit: BrowserVisit,
        tools: &[String],
    ) -> Result<(Held, Served), CallFailure> {
        let (attached, since) = (Arc::clone(&visit.attached), visit.since);
        let place = attached.place();
        let deadline = visit.call_timeout().map(|limit| since + limit);
        let too_long = |situation: &str| CallFailure::NoLease {
            what: format!("browser {}", attached.known()),
            waited: since.elapsed(),
            limit: "CALL_TIMEOUT",
            waiting: 0,
            situation: situation.to_owned(),
        };
        let turn = before(deadline, visit.turn()).await.ok_or_else(|| too_long("busy with other calls"))?;
        let waited = since.elapsed();
        // It may have been let go of while this call was waiting.
        if attached.is_removed() {
            return Err(self.engine.no_browser(attached.index.to_string()));
        }
        self.check_tools(&place, tools)?;
        let upstream = before(deadline, visit.upstream()).await;
        let upstream = upstream.ok_or_else(|| too_long("it is being connected"))??;
        self.check_tools(&place, tools)?;
        let served = Served {
            pool: String::new(),
            instance: None,
            session: None,
            browser: Some(attached.index.to_string()),
            waited,
            notice: None,
        };
        let held = Held {
            call_timeout: visit.call_timeout(),
            has_page: false,
            book: Arc::clone(&attached.book),
            browser: Browser::Attached { upstream, visit, _turn: turn },
        };
        Ok((held, served))
    }

    /// Waits for the lease, and tells the caller how it goes.
    async fn wait(
        &self,
        waiting: &mut Waiting,
        deadline: Option<Instant>,
        key: &'static str,
    ) -> Result<Lease, CallFailure> {
        let (mut moves, pool) = (waiting.moves(), waiting.pool().name().to_owned());
        let mut told = None;
        loop {
            let ahead = if self.progress.is_wanted() { waiting.ahead() } else { None };
            if let Some(ahead) = ahead.filter(|_| ahead != told) {
                told = Some(ahead);
                self.progress
                    .say(format!("Waiting for a browser of pool {pool}: number {} in line", ahead + 1));
            }
            let movement = async {
                if ahead.is_none() {
                    return std::future::pending().await;
                }
                let _ = moves.changed().await;
                sleep(POSITION_EVERY).await;
                moves.mark_unchanged();
            };
            tokio::select! {
                biased;
                lease = before(deadline, waiting.lease()) => {
                    return lease.unwrap_or_else(|| Err(waiting.too_long(key)));
                }
                () = movement => {}
            }
        }
    }

    fn check_tools(&self, pool: &str, tools: &[String]) -> Result<(), CallFailure> {
        tools.iter().try_for_each(|tool| self.engine.check_tool(pool, tool))
    }
}

/// What is left to do after the caller has been answered.
pub(crate) enum Rest {
    Nothing,
    /// The caller has left. The browser is handed on only when it is done with what it was asked.
    WindDown(Pending),
    /// No answer in time.
    Overdue(Pending),
}

/// Asks the upstream, until it answers, the deadline passes or the caller leaves.
pub(crate) async fn ask(
    held: &Held,
    tool: &str,
    mut arguments: Map<String, Value>,
    progress: Option<mpsc::Sender<Progress>>,
    deadline: Option<Instant>,
    cancel: &CancellationToken,
) -> (Result<Bytes, CallFailure>, Rest) {
    held.book.with(tool, |tool| tool.strip(&mut arguments));
    held.bring_files(tool, &mut arguments).await;
    let mut pending = match held.upstream().call(tool, &arguments, progress) {
        Ok(pending) => pending,
        Err(ended) => return (Err(CallFailure::Upstream(ended.into())), Rest::Nothing),
    };
    tokio::select! {
        answer = before(deadline, &mut pending) => match answer {
            Some(answer) => (answer.map_err(CallFailure::Upstream), Rest::Nothing),
            None => {
                let limit = held.call_timeout.unwrap_or_default();
                let failure = CallFailure::TimedOut { limit, shares_a_page: held.has_page };
                (Err(failure), Rest::Overdue(pending))
            }
        },
        () = cancel.cancelled() => (Err(CallFailure::Cancelled), Rest::WindDown(pending)),
    }
}

impl Rest {
    /// Brings the browser to a state in which the next call works.
    pub(crate) async fn settle(self, held: &Held, deadline: Option<Instant>) {
        let upstream = held.upstream();
        match self {
            Self::Nothing => {}
            Self::WindDown(pending) => wind_down(pending, held, deadline).await,
            // Of an attached browser only the connection can be given up.
            Self::Overdue(pending) if held.has_page || matches!(held.browser, Browser::Attached { .. }) => {
                give_up_page(pending, upstream).await;
            }
            Self::Overdue(pending) => drop(upstream.interrupt(pending.id()).await),
        }
    }
}

async fn wind_down(mut pending: Pending, held: &Held, deadline: Option<Instant>) {
    let rest = async {
        loop {
            if held.upstream().interrupt(pending.id()).await == AfterInterrupt::Silent {
                return;
            }
            // Once may be too early: a page that does not exist yet cannot be told to stop.
            if timeout(INTERRUPT_EVERY, &mut pending).await.is_ok() {
                return;
            }
        }
    };
    let deadline = deadline.unwrap_or_else(|| Instant::now() + WIND_DOWN_LIMIT);
    if timeout_at(deadline, rest).await.is_err() {
        give_up_page(pending, held.upstream()).await;
    }
}

/// The page is given up, and if even that does not free the browser, the upstream is.
async fn give_up_page(mut pending: Pending, upstream: &Upstream) {
    let rest = async {
        upstream.reset().await;
        let _ = (&mut pending).await;
    };
    if timeout(AFTER_RESET, rest).await.is_err() {
        upstream.retire("it did not come to rest after a call that took too long");
    }
}

/// Reports to the caller. What Greenroom says and what the upstream says form one growing sequence, as MCP wants it.
pub(crate) struct Reporter {
    caller: Option<mpsc::Sender<Progress>>,
    said: AtomicU32,
}

impl Reporter {
    pub(crate) fn new(caller: Option<mpsc::Sender<Progress>>) -> Self {
        Self { caller, said: AtomicU32::new(0) }
    }

    fn is_wanted(&self) -> bool {
        self.caller.is_some()
    }

    /// One more report of ours. A caller that does not listen fast enough misses some.
    fn say(&self, message: String) {
        self.report(None, message);
    }

    /// A report of ours that knows how far things are.
    pub(crate) fn report(&self, total: Option<u32>, message: String) {
        let Some(caller) = &self.caller else { return };
        let before = self.said.fetch_add(1, Ordering::Relaxed);
        let _ = caller.try_send(Progress {
            progress: f64::from(before),
            total: total.map(|total| f64::from(before) + f64::from(total)),
            message: Some(message),
        });
    }

    /// Where the upstream's reports go: behind ours. The task, if there is one, ends when all are passed on.
    fn through(&self) -> (Option<mpsc::Sender<Progress>>, Option<JoinHandle<()>>) {
        let Some(caller) = self.caller.clone() else { return (None, None) };
        let said = self.said.load(Ordering::Relaxed);
        if said == 0 {
            return (Some(caller), None);
        }
        let offset = f64::from(said);
        let (sender, mut reports) = mpsc::channel::<Progress>(caller.max_capacity());
        let passing_on = tokio::spawn(async move {
            while let Some(mut report) = reports.recv().await {
                report.progress += offset;
                report.total = report.total.map(|total| total + offset);
                let _ = caller.try_send(report);
            }
        });
        (Some(sender), Some(passing_on))
    }
}

/// `None` when the deadline came first.
pub(crate) async fn before<T>(deadline: Option<Instant>, future: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => timeout_at(deadline, future).await.ok(),
        None => Some(future.await),
    }
}
