//! Sessions: a browser of its own for every agent, under a name that the agent chose.
//!
//! A session is made by the first call that names it. Its calls run one after another, in the order of arrival; whoever
//! has the turn makes the browser if there is none, so that a hundred first calls make one. It ends when it is closed or
//! has had no call for its idle time, and what was lost is said once, by the next call of that name.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use futures::future::{BoxFuture, MaybeDone, maybe_done};
use greenroom_core::config::{Isolation, Reply};
use greenroom_core::ids::SessionId;
use greenroom_core::target::SessionName;
use greenroom_store::{NewSession, SessionState};
use greenroom_upstream::driver::Page;
use serde::Serialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::call::CallFailure;
use crate::capture::Before;
use crate::events::{Event, Events};
use crate::fleet::{Fleet, SessionSeat, Wishes};
use crate::history::History;
use crate::live::person::Control;
use crate::live::{Conversation, Live, Pictures, SessionStatus, SessionView};
use crate::session_files::{self, SessionFile};
use crate::status::timestamp;

/// How many names of sessions that ended are remembered.
const REMEMBERED: usize = 10_000;

/// And of how many it is known how they looked.
const SHOWN: usize = 1000;

/// What a session is to be like, where somebody has said.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) wishes: Wishes,
    pub(crate) idle: Option<Duration>,
    pub(crate) reply: Option<Reply>,
    /// What it is for, where it was started over REST.
    pub(crate) conversation: Option<Conversation>,
}

/// Whoever makes calls. On stdio, and on HTTP as long as there are no users, the local user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller(Arc<str>);

impl Caller {
    pub fn local() -> Self {
        Self(Arc::from("local"))
    }
}

impl std::fmt::Display for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a session is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey {
    pub(crate) caller: Caller,
    pub(crate) name: SessionName,
}

/// All sessions of one pool each.
pub(crate) struct Sessions {
    fleets: Vec<Arc<Fleet>>,
    most_per_caller: Option<usize>,
    history: Arc<History>,
    events: Events,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<SessionKey, Arc<Session>>,
    /// What is to be said of sessions that are gone, oldest first.
    ended: Vec<(SessionKey, String)>,
    /// How those looked that ended last, oldest first.
    stopped: VecDeque<(SessionKey, SessionView)>,
    is_closed: bool,
}

impl State {
    fn show_stopped(&mut self, key: SessionKey, view: SessionView) {
        self.stopped.retain(|(stopped, _)| *stopped != key);
        self.stopped.push_back((key, view));
        if self.stopped.len() > SHOWN {
            self.stopped.pop_front();
        }
    }

    /// The next session of that name has something to say.
    fn remember(&mut self, key: &SessionKey, notice: String) {
        self.ended.retain(|(ended, _)| ended != key);
        self.ended.push((key.clone(), notice));
        let surplus = self.ended.len().saturating_sub(REMEMBERED);
        self.ended.drain(..surplus);
    }
}

pub(crate) struct Session {
    pub(crate) key: SessionKey,
    pub(crate) fleet: Arc<Fleet>,
    /// This life of the session, on record.
    pub(crate) record: String,
    wishes: Wishes,
    idle: Option<Duration>,
    /// How its calls are answered, where it has a way of its own.
    pub(crate) reply: Option<Reply>,
    conversation: Option<Conversation>,
    /// One permit: tokio's semaphore serves in order of arrival.
    turns: Arc<Semaphore>,
    life: Mutex<Life>,
    pub(crate) live: Live,
    events: Events,
}

struct Life {
    seat: Option<Arc<SessionSeat>>,
    /// What the next reply has to say.
    notice: Option<String>,
    /// Asked for by name, so that it stays also before its first call.
    is_asked_for: bool,
    closed: Option<String>,
    /// Why it has no browser, where one was tried.
    failed: Option<String>,
    control: Option<Control>,
    created: SystemTime,
    used: (Instant, SystemTime),
    calls: u64,
    /// Calls that run or wait.
    visits: usize,
    shown: Before,
}

/// What `session_list` shows.
#[derive(Clone, Debug, Serialize)]
pub struct SessionReport {
    pub id: String,
    pub pool: String,
    pub seat: &'static str,
    pub state: &'static str,
    pub url: Option<String>,
    pub title: Option<String>,
    pub created: String,
    pub last_used: String,
    pub calls: u64,
    pub idle_left_ms: Option<u64>,
}

impl Session {
    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pool(&self) -> &str {
        self.fleet.pool_name()
    }

    /// Something about it is not as it was.
    pub(crate) fn touch(&self) {
        self.live.touch();
        self.events.tell(&self.key.caller, || Event::Session(self.key.name.to_string()));
    }

    /// The browser as it is now, if it has one that lives.
    pub(crate) fn browser(&self) -> Option<Arc<SessionSeat>> {
        self.life().seat.clone().filter(|seat| !seat.upstream.has_ended())
    }

    /// A turn for somebody whose doing is no call.
    pub(crate) async fn turn(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.turns).acquire_owned().await.expect("the semaphore is never closed")
    }

    pub(crate) fn calls(&self) -> u64 {
        self.life().calls
    }

    pub(crate) fn closed(&self) -> Option<String> {
        self.life().closed.clone()
    }

    /// Something that the next reply has to say.
    pub(crate) fn keep_notice(&self, notice: String) {
        self.life().notice = Some(notice);
    }

    /// A person has done something.
    pub(crate) fn used(&self) {
        self.life().used = (Instant::now(), SystemTime::now());
    }

    pub(crate) fn control<T>(&self, look: impl FnOnce(&mut Option<Control>) -> T) -> T {
        look(&mut self.life().control)
    }

    pub(crate) fn is_controlled(&self) -> bool {
        self.control(|control| control.is_some())
    }

    /// A person gives control back. Says whether they had it.
    pub(crate) fn release(&self, person: u64) -> bool {
        let released = self.control(|control| control.take_if(|control| control.is_of(person)).is_some());
        if released {
            self.touch();
        }
        released
    }

    /// Waits until no person has control.
    pub(crate) async fn handed_back(&self) {
        let mut changes = self.live.changes();
        while self.is_controlled() && changes.changed().await.is_ok() {}
    }

    /// What is to be seen of it from outside.
    pub(crate) fn view(&self) -> SessionView {
        let life = self.life();
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let seat = life.seat.as_ref();
        let live = seat.and_then(|seat| seat.upstream.live());
        let page = live.as_ref().map(|live| live.state().borrow().clone()).unwrap_or_default();
        let current = page.tabs.iter().find(|tab| tab.is_current);
        let (url, title) = match current {
            Some(tab) => (text(&tab.url), text(&tab.title)),
            None => (text(&life.shown.page.url), text(&life.shown.page.title)),
        };
        let lost = seat.filter(|seat| seat.upstream.has_ended()).map(|_| "its browser is lost".to_owned());
        let error = lost.or_else(|| life.failed.clone());
        let status = match (&life.closed, &error, seat) {
            (Some(_), ..) => SessionStatus::Stopped,
            (None, Some(_), _) => SessionStatus::Error,
            (None, None, Some(_)) => SessionStatus::Running,
            (None, None, None) => SessionStatus::Starting,
        };
        let has_cast = live.as_ref().is_some_and(greenroom_upstream::live::Live::has_cast);
        SessionView {
            id: self.key.name.to_string(),
            status,
            url,
            title,
            viewport: page.viewport,
            pictures: match status {
                SessionStatus::Stopped => Pictures::None,
                _ if has_cast || (seat.is_none() && self.fleet.driver.launch_shared().is_some()) => {
                    Pictures::Screencast
                }
                _ if self.fleet.driver.screenshot_call().is_some() => Pictures::Polling,
                _ => Pictures::None,
            },
            can_input: live.is_some(),
            tabs: page.tabs,
            dialog: page.dialog,
            created: life.created,
            last_activity: life.used.1,
            conversation: self.conversation.clone(),
            pool: self.pool().to_owned(),
            seat: self.fleet.seat_name().to_owned(),
            calls: life.calls,
            is_busy: life.visits > 0,
            idle_left: self.idle_left(&life),
            viewers: self.live.viewers(),
            control: life.control.as_ref().map(|control| control.since),
            error,
        }
    }

    /// The browser, made now if there is none, and what has to be said about it. Only for who has the turn.
    pub(crate) async fn seat(self: &Arc<Self>) -> Result<(Arc<SessionSeat>, Option<String>), CallFailure> {
        let seat = {
            let mut life = self.life();
            if let Some(reason) = &life.closed {
                return Err(CallFailure::SessionClosed {
                    name: self.key.name.to_string(),
                    reason: reason.clone(),
                });
            }
            match life.seat.clone().filter(|seat| !seat.upstream.has_ended() && !seat.is_ill()) {
                Some(seat) => return Ok((seat, life.notice.take())),
                None => life.seat.take(),
            }
        };
        let mut folder = None;
        if let Some(lost) = seat {
            folder = Some(Arc::clone(&lost.folder));
            // One that hangs has not ended, and would not be closed in time either.
            let hangs = !lost.upstream.has_ended();
            let why = match hangs {
                true => "it did not answer health checks".to_owned(),
                false => lost.upstream.ended().await.to_string(),
            };
            tracing::warn!(session = %self.key.name, why, "a session has lost its browser");
            self.life().notice =
                Some(format!("The browser of session `{}` was lost ({why}).", self.key.name));
            if !hangs {
                lost.close().await;
            }
        }
        self.life().failed = None;
        self.touch();
        let seat = match self.fleet.take(&self.wishes, folder).await {
            Ok(seat) => Arc::new(seat),
            Err(error) => {
                let failure = CallFailure::NoSeat(error);
                self.life().failed = Some(failure.to_string());
                self.touch();
                return Err(failure);
            }
        };
        let mut life = self.life();
        if let Some(reason) = &life.closed {
            // Closed while its browser was made.
            return Err(CallFailure::SessionClosed {
                name: self.key.name.to_string(),
                reason: reason.clone(),
            });
        }
        life.seat = Some(Arc::clone(&seat));
        life.shown = Before::default();
        let notice = life.notice.take();
        drop(life);
        tokio::spawn(attend(Arc::downgrade(self), Arc::downgrade(&seat)));
        self.touch();
        Ok((seat, notice.map(|text| format!("{text} This is a fresh one: nothing is open in it."))))
    }

    /// A call has been answered with this in sight. Gives back what was before.
    pub(crate) fn note(&self, page: Option<&Page>, snapshot: Option<&Arc<str>>) -> Before {
        let mut life = self.life();
        life.calls += 1;
        let before = life.shown.clone();
        if let Some(page) = page {
            life.shown.page = page.clone();
        }
        if let Some(snapshot) = snapshot {
            life.shown.snapshot = Some(Arc::clone(snapshot));
        }
        drop(life);
        self.touch();
        self.fleet.refill();
        before
    }

    /// What is left of the idle time; `None` when it has none or is in use.
    fn idle_left(&self, life: &Life) -> Option<Duration> {
        (life.visits == 0).then(|| self.idle.map(|idle| idle.saturating_sub(life.used.0.elapsed()))).flatten()
    }

    fn report(&self) -> SessionReport {
        let life = self.life();
        drop(life);
        let view = self.view();
        let life = self.life();
        let state = match (&life.seat, life.visits) {
            (Some(seat), _) if seat.upstream.has_ended() => "lost",
            (None, 0) => "new",
            (None, _) => "starting",
            (Some(_), 0) => "idle",
            (Some(_), _) => "busy",
        };
        SessionReport {
            id: self.key.name.to_string(),
            pool: self.pool().to_owned(),
            seat: self.fleet.seat_name(),
            state,
            url: view.url,
            title: view.title,
            created: timestamp(life.created),
            last_used: timestamp(life.used.1),
            calls: life.calls,
            idle_left_ms: self
                .idle_left(&life)
                .map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// A call is at a session, running or waiting. As long as it is, the session is in use.
pub(crate) struct Visit {
    sessions: Arc<Sessions>,
    pub(crate) session: Arc<Session>,
    /// In a lock that nobody ever waits for: it makes the visit shareable.
    turn: Mutex<Option<Turn>>,
    pub(crate) since: Instant,
}

impl Visit {
    /// Waits for the turn.
    pub(crate) async fn turn(&mut self) -> OwnedSemaphorePermit {
        let turn = self.turn.get_mut().unwrap_or_else(PoisonError::into_inner);
        let permit = turn.as_mut().expect("a turn is awaited once").come().await;
        *turn = None;
        permit
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        // Given up before it came: those behind move up.
        *self.turn.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        let is_nothing = {
            let mut life = self.session.life();
            life.visits -= 1;
            life.used = (Instant::now(), SystemTime::now());
            life.visits == 0 && life.seat.is_none() && !life.is_asked_for
        };
        self.session.touch();
        // One whose browser could not be made is not remembered.
        if is_nothing {
            self.sessions.forget(&self.session);
        }
    }
}

impl Sessions {
    pub(crate) fn new(
        fleets: Vec<Arc<Fleet>>,
        most_per_caller: Option<usize>,
        history: Arc<History>,
        events: Events,
    ) -> Arc<Self> {
        Arc::new(Self { fleets, most_per_caller, history, events, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Comes to a session, which is made if it is not there. Takes the place in its line at once.
    pub(crate) fn visit(
        self: &Arc<Self>,
        key: &SessionKey,
        pool: Option<&str>,
    ) -> Result<Visit, CallFailure> {
        let session = {
            let mut state = self.state();
            let session = match state.sessions.get(key) {
                Some(session) => Arc::clone(session),
                None => self.make(&mut state, key, pool, Plan::default())?,
            };
            if let Some(pool) = pool.filter(|pool| *pool != session.pool()) {
                return Err(CallFailure::OtherPool {
                    name: key.name.to_string(),
                    pool: pool.to_owned(),
                    actual: session.pool().to_owned(),
                });
            }
            session.life().visits += 1;
            session
        };
        session.touch();
        let turn = Mutex::new(Some(Turn::queue(&session.turns)));
        Ok(Visit { sessions: Arc::clone(self), session, turn, since: Instant::now() })
    }

    /// Makes a session in advance, with wishes of its own.
    pub(crate) fn create(
        &self,
        key: &SessionKey,
        pool: Option<&str>,
        plan: Plan,
    ) -> Result<SessionReport, CallFailure> {
        let mut state = self.state();
        if state.sessions.contains_key(key) {
            return Err(CallFailure::SessionExists { name: key.name.to_string() });
        }
        let session = self.ask_for(&mut state, key, pool, plan)?;
        Ok(session.report())
    }

    /// The session of a conversation, made if there is none. Says whether it is new.
    pub(crate) fn of_conversation(
        &self,
        key: &SessionKey,
        pool: Option<&str>,
        plan: Plan,
    ) -> Result<(Arc<Session>, bool), CallFailure> {
        let mut state = self.state();
        let is_it = |session: &&Arc<Session>| {
            session.key.caller == key.caller && session.conversation == plan.conversation
        };
        match state.sessions.values().find(is_it) {
            Some(session) => Ok((Arc::clone(session), false)),
            None => self.ask_for(&mut state, key, pool, plan).map(|session| (session, true)),
        }
    }

    /// One that stays also before its first call.
    fn ask_for(
        &self,
        state: &mut State,
        key: &SessionKey,
        pool: Option<&str>,
        plan: Plan,
    ) -> Result<Arc<Session>, CallFailure> {
        let has_wishes = plan.wishes != Wishes::default();
        let session = self.make(state, key, pool, plan)?;
        if has_wishes && session.fleet.driver.launch_shared().is_none() {
            state.sessions.remove(key);
            self.history.session_ended(&session.record, SessionState::Error);
            return Err(CallFailure::NoWishes { pool: session.pool().to_owned() });
        }
        session.life().is_asked_for = true;
        session.touch();
        Ok(session)
    }

    /// What is to be seen of a session, also of one that has ended not long ago.
    pub(crate) fn view(&self, key: &SessionKey) -> Option<SessionView> {
        let state = self.state();
        let stopped = || state.stopped.iter().find(|(stopped, _)| stopped == key);
        match state.sessions.get(key) {
            Some(session) => Some(session.view()),
            None => stopped().map(|(_, view)| view.clone()),
        }
    }

    pub(crate) fn views(&self, caller: &Caller) -> Vec<SessionView> {
        let sessions: Vec<_> =
            self.state().sessions.values().filter(|session| session.key.caller == *caller).cloned().collect();
        let mut views: Vec<_> = sessions.iter().map(|session| session.view()).collect();
        views.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id)));
        views
    }

    fn make(
        &self,
        state: &mut State,
        key: &SessionKey,
        pool: Option<&str>,
        plan: Plan,
    ) -> Result<Arc<Session>, CallFailure> {
        if state.is_closed {
            return Err(CallFailure::ShuttingDown);
        }
        let fleet = match pool {
            Some(pool) => self.fleets.iter().find(|fleet| fleet.pool_name() == pool),
            None => self.fleets.first(),
        };
        let fleet = Arc::clone(fleet.expect("pools are looked up before"));
        let count = |belongs: &dyn Fn(&Session) -> bool| {
            state.sessions.values().filter(|session| belongs(session)).count()
        };
        let of_pool = count(&|session| Arc::ptr_eq(&session.fleet, &fleet));
        if let Some(most) = fleet.most_sessions().filter(|most| of_pool >= *most) {
            return Err(CallFailure::TooManySessions { most, key: "MAX_SESSIONS" });
        }
        let of_caller = count(&|session| session.key.caller == key.caller);
        if let Some(most) = self.most_per_caller.filter(|most| of_caller >= *most) {
            return Err(CallFailure::TooManySessions { most, key: "MAX_SESSIONS_PER_CALLER" });
        }
        let ended = state.ended.iter().position(|(ended, _)| ended == key).map(|at| state.ended.remove(at).1);
        let idle = plan.idle.or(fleet.idle()).filter(|idle| !idle.is_zero());
        let created = SystemTime::now();
        let record = SessionId::new_v4().to_string();
        self.history.session_began(NewSession {
            id: record.clone(),
            owner: key.caller.to_string(),
            name: key.name.to_string(),
            at: created,
            metadata: metadata(&fleet, plan.conversation.as_ref()),
        });
        let session = Arc::new(Session {
            key: key.clone(),
            fleet,
            record,
            wishes: plan.wishes,
            idle,
            reply: plan.reply,
            conversation: plan.conversation,
            turns: Arc::new(Semaphore::new(1)),
            life: Mutex::new(Life {
                seat: None,
                notice: ended,
                is_asked_for: false,
                closed: None,
                failed: None,
                control: None,
                created,
                used: (Instant::now(), created),
                calls: 0,
                visits: 0,
                shown: Before::default(),
            }),
            live: Live::new(),
            events: self.events.clone(),
        });
        state.stopped.retain(|(stopped, _)| stopped != key);
        state.sessions.insert(key.clone(), Arc::clone(&session));
        Ok(session)
    }

    /// Drops one that never came to be.
    fn forget(&self, session: &Arc<Session>) {
        let mut state = self.state();
        if !state.sessions.get(&session.key).is_some_and(|known| Arc::ptr_eq(known, session)) {
            return;
        }
        let mut life = session.life();
        // Somebody else may have come meanwhile, and may have had more luck.
        if life.visits == 0 && life.seat.is_none() {
            state.sessions.remove(&session.key);
            self.history.session_ended(&session.record, SessionState::Error);
            // What nobody has been told yet is told by the next of that name.
            if let Some(notice) = life.notice.take() {
                state.remember(&session.key, notice);
            }
        }
    }

    pub(crate) fn find(&self, key: &SessionKey) -> Option<Arc<Session>> {
        self.state().sessions.get(key).cloned()
    }

    pub(crate) fn list(&self, caller: &Caller) -> Vec<SessionReport> {
        let mut sessions: Vec<_> =
            self.state().sessions.values().filter(|session| session.key.caller == *caller).cloned().collect();
        sessions.sort_by(|a, b| a.key.name.cmp(&b.key.name));
        sessions.iter().map(|session| session.report()).collect()
    }

    /// The files that a session has written; `None` when there is no such session.
    pub(crate) fn files(&self, key: &SessionKey) -> Option<Vec<SessionFile>> {
        let folder = self.folder(key)?;
        Some(folder.map(|folder| session_files::list(&folder)).unwrap_or_default())
    }

    pub(crate) fn file(&self, key: &SessionKey, name: &str) -> Option<(SessionFile, Vec<u8>)> {
        session_files::read(&self.folder(key)??, name)
    }

    fn folder(&self, key: &SessionKey) -> Option<Option<PathBuf>> {
        let session = self.find(key)?;
        let life = session.life();
        Some(life.seat.as_ref().map(|seat| seat.folder.path().to_owned()))
    }

    /// Ends a session. Says whether there was one. Calls in flight are told.
    pub(crate) async fn close(&self, key: &SessionKey, how: &str) -> bool {
        let Some(session) = self.state().sessions.remove(key) else { return false };
        self.end(&session, how).await;
        true
    }

    async fn end(&self, session: &Session, how: &str) {
        let view =
            SessionView { status: SessionStatus::Stopped, viewers: 0, control: None, ..session.view() };
        let (seat, is_asked_for) = {
            let mut life = session.life();
            life.closed = Some(how.to_owned());
            (life.seat.take(), life.is_asked_for)
        };
        // One that was asked for had settings of its own, which the next of that name does not have.
        if seat.is_some() || is_asked_for {
            let notice = format!("The session `{}` had ended: {how}.", session.key.name);
            self.state().remember(&session.key, notice);
        }
        self.history.session_ended(&session.record, SessionState::Closed);
        session.control(Option::take);
        self.state().show_stopped(session.key.clone(), view);
        session.touch();
        if let Some(seat) = seat {
            seat.close().await;
        }
    }

    /// Ends sessions whose idle time is over, and lets fleets know how many there are.
    pub(crate) async fn sweep(&self) {
        let (idle, counts) = {
            let mut state = self.state();
            let is_over = |session: &Session| {
                let life = session.life();
                session.idle_left(&life).is_some_and(|left| left.is_zero())
            };
            let over: Vec<_> = state
                .sessions
                .values()
                .filter(|session| is_over(session))
                .map(|session| session.key.clone())
                .collect();
            let idle: Vec<_> = over.iter().filter_map(|key| state.sessions.remove(key)).collect();
            let counts: Vec<_> = self
                .fleets
                .iter()
                .map(|fleet| {
                    state.sessions.values().filter(|session| Arc::ptr_eq(&session.fleet, fleet)).count()
                })
                .collect();
            (idle, counts)
        };
        // Together: a browser that is slow to let go of one does not keep the others.
        let ends = idle.iter().map(async |session| {
            let after = session.idle.unwrap_or_default();
            tracing::info!(session = %session.key.name, pool = session.pool(), "a session ends, idle for too long");
            self.end(session, &format!("it was idle for {} s", after.as_secs_f64())).await;
        });
        futures::future::join_all(ends).await;
        for (fleet, sessions) in self.fleets.iter().zip(counts) {
            fleet.sweep(sessions);
        }
    }

    /// Ends everything. Returns when every browser is gone.
    pub(crate) async fn stop(&self) {
        let sessions: Vec<_> = {
            let mut state = self.state();
            state.is_closed = true;
            state.sessions.drain().map(|(_, session)| session).collect()
        };
        // Contexts go with their hosts; processes of their own have to be told.
        let (own, shared): (Vec<_>, Vec<_>) =
            sessions.iter().partition(|session| session.fleet.isolation == Isolation::Process);
        for session in shared {
            self.history.session_ended(&session.record, SessionState::Closed);
        }
        let ends = own.into_iter().map(|session| self.end(session, "Greenroom has stopped"));
        futures::future::join_all(ends).await;
        futures::future::join_all(self.fleets.iter().map(|fleet| fleet.stop())).await;
    }

    /// How many sessions live in a pool.
    pub(crate) fn count(&self, pool: &str) -> usize {
        self.state().sessions.values().filter(|session| session.pool() == pool).count()
    }

    pub(crate) fn fleets(&self) -> &[Arc<Fleet>] {
        &self.fleets
    }
}

/// Sees to it that whoever watches a session hears of what happens in its browser.
async fn attend(session: Weak<Session>, seat: Weak<SessionSeat>) {
    let Some((mut pages, ended)) =
        seat.upgrade().map(|seat| (seat.upstream.live().map(|live| live.state()), seat.upstream.ended()))
    else {
        return;
    };
    tokio::pin!(ended);
    loop {
        let changed = async {
            match &mut pages {
                Some(pages) => pages.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        let goes_on = tokio::select! {
            _ = &mut ended => false,
            is_there = changed => is_there,
        };
        let Some(session) = session.upgrade() else { return };
        session.touch();
        if !goes_on {
            return;
        }
    }
}

fn metadata(fleet: &Fleet, conversation: Option<&Conversation>) -> String {
    let mut metadata = json!({ "pool": fleet.pool_name(), "seat": fleet.seat_name() });
    if let Some(Conversation { conversation, profile }) = conversation {
        metadata["conversationId"] = conversation.as_str().into();
        metadata["profileId"] = profile.as_str().into();
    }
    metadata.to_string()
}

/// A place in the line of calls that take turns. Dropping it gives it up.
pub(crate) struct Turn(Pin<Box<MaybeDone<BoxFuture<'static, OwnedSemaphorePermit>>>>);

impl Turn {
    pub(crate) fn queue(turns: &Arc<Semaphore>) -> Self {
        let turns = Arc::clone(turns);
        let acquire = async move { turns.acquire_owned().await.expect("the semaphore is never closed") };
        // Unconstrained: a task that has used up its share would not be queued by this poll.
        let mut waiting = Box::pin(maybe_done(tokio::task::unconstrained(acquire).boxed()));
        // Tokio's semaphore serves in the order of the first polls; this is ours.
        let _ = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        Self(waiting)
    }

    pub(crate) async fn come(&mut self) -> OwnedSemaphorePermit {
        self.0.as_mut().await;
        self.0.as_mut().take_output().expect("it was just awaited, once")
    }
}
