//! The engine's handle and the pipeline that every call goes through.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, MaybeDone, maybe_done};
use greenroom_core::supervision::Supervision;
use greenroom_upstream::driver::{AfterInterrupt, Overlap};
use greenroom_upstream::instance::{InUse, State, Status, Unavailable};
use greenroom_upstream::rpc::{CallError, Notice, Pending};
use greenroom_upstream::{Driver, Instance, Upstream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::{CallFailure, CallHandle, CallRequest};
use crate::tools::{ToolBook, ToolList};

/// How long a browser has to come to rest after its context was closed under a call, before it is given up.
const AFTER_RESET: Duration = Duration::from_secs(10);

/// How long an upstream may take to list its tools.
const LIST_LIMIT: Duration = Duration::from_secs(30);

/// How long a call that nobody waits for may go on where calls have no deadline.
const WIND_DOWN_LIMIT: Duration = Duration::from_secs(300);

/// How often a call that nobody waits for is told to stop, until it has.
const INTERRUPT_EVERY: Duration = Duration::from_millis(500);

/// How long calls in flight have to finish when we are asked to stop.
const DRAIN: Duration = Duration::from_secs(5);

pub struct EngineConfig {
    /// Deadline for a call, waiting for its turn included.
    pub call_timeout: Option<Duration>,
    pub supervision: Supervision,
    /// Where lists of tools are kept across starts.
    pub cache_dir: PathBuf,
}

#[derive(Clone)]
pub struct Engine(Arc<Shared>);

struct Shared {
    driver: Arc<dyn Driver>,
    instance: Instance,
    tools: ToolBook,
    call_timeout: Option<Duration>,
    /// One permit where calls take turns; tokio's semaphore serves in order of arrival.
    turns: Option<Arc<Semaphore>>,
    calls: TaskTracker,
    stopping: CancellationToken,
}

impl Engine {
    pub fn new(driver: Arc<dyn Driver>, config: &EngineConfig) -> Self {
        let turns = match driver.overlap() {
            Overlap::InTurn => Some(Arc::new(Semaphore::new(1))),
            Overlap::Beside => None,
        };
        let shared = Arc::new(Shared {
            instance: Instance::new(Arc::clone(&driver), config.supervision),
            tools: ToolBook::open(&config.cache_dir, driver.as_ref()),
            driver,
            call_timeout: config.call_timeout,
            turns,
            calls: TaskTracker::new(),
            stopping: CancellationToken::new(),
        });
        tokio::spawn(attend(Arc::downgrade(&shared), shared.instance.watch()));
        Self(shared)
    }

    /// The tools that can be called. Starts the upstream only when there is no other way to know.
    pub async fn tools(&self) -> Result<Arc<ToolList>, Unavailable> {
        if let Some(list) = self.0.tools.current() {
            return Ok(list);
        }
        self.0.upstream().await?;
        // An upstream that does not list its tools has none.
        let none = || Arc::new(ToolList::new(Vec::new(), self.0.driver.as_ref()));
        Ok(self.0.tools.current().unwrap_or_else(none))
    }

    /// How the upstream is.
    pub fn status(&self) -> Status {
        self.0.instance.status()
    }

    /// Starts the upstream anew, also one that was given up.
    pub fn restart(&self, cause: &str) {
        self.0.instance.restart(cause);
    }

    /// The list that is known without asking anybody.
    pub fn known_tools(&self) -> Option<Arc<ToolList>> {
        self.0.tools.current()
    }

    /// Changes when the list of tools does.
    pub fn watch_tools(&self) -> watch::Receiver<Option<Arc<ToolList>>> {
        self.0.tools.subscribe()
    }

    pub fn is_stopping(&self) -> bool {
        self.0.stopping.is_cancelled()
    }

    /// Takes a place in line for a call that has arrived and will be made in a moment. `None` where calls do not take
    /// turns. Dropping it gives it up.
    pub fn take_place(&self) -> Option<Place> {
        self.0.turns.as_ref().map(|turns| Place(Some(Turn::queue(turns))))
    }

    /// Whether calls take turns on one page.
    pub fn takes_turns(&self) -> bool {
        self.0.turns.is_some()
    }

    /// Starts a call. It runs to its end whatever becomes of the handle.
    pub fn call(&self, mut request: CallRequest) -> CallHandle {
        let (reply, answer) = oneshot::channel();
        let cancel = CancellationToken::new();
        let handle = CallHandle { answer, cancel: cancel.clone() };
        // The place in line is taken here at the latest, and not in the task: tasks begin in no particular order.
        let turn = request.place.take().or_else(|| self.take_place()).and_then(|place| place.0);
        let call = Running { engine: Arc::clone(&self.0), cancel, reply: Some(reply) };
        self.0.calls.spawn(call.run(request, turn));
        handle
    }

    /// Refuses new calls, lets those in flight finish for a while, then ends the upstream.
    pub async fn shutdown(&self) {
        self.0.stopping.cancel();
        self.0.calls.close();
        if timeout(DRAIN, self.0.calls.wait()).await.is_err() {
            tracing::warn!(calls = self.0.calls.len(), "calls in flight were cut off");
        }
        self.0.instance.stop().await;
    }
}

impl Shared {
    /// The live upstream, with its tools listed.
    async fn upstream(&self) -> Result<InUse, Unavailable> {
        let upstream = self.instance.acquire().await?;
        // With a list at hand the call need not wait for the fresh one.
        if self.tools.current().is_none() {
            self.list_tools(&upstream).await;
        }
        Ok(upstream)
    }

    async fn list_tools(&self, upstream: &Upstream) {
        match timeout(LIST_LIMIT, upstream.list_tools()).await {
            Ok(Ok(raw)) => self.tools.update(raw, self.driver.as_ref()),
            Ok(Err(CallError::Ended(_))) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the upstream did not list its tools"),
            Err(_) => tracing::warn!(limit = ?LIST_LIMIT, "the upstream did not list its tools in time"),
        }
    }
}

/// Keeps the list of tools true: asks every upstream that comes up, and whenever it says that something changed.
async fn attend(engine: Weak<Shared>, mut status: watch::Receiver<Status>) {
    let mut current: Option<(Arc<Upstream>, broadcast::Receiver<Notice>)> = None;
    loop {
        let up = match &status.borrow_and_update().state {
            State::Ready(upstream) => Some(Arc::clone(upstream)),
            State::Unhealthy(_) => current.as_ref().map(|(upstream, _)| Arc::clone(upstream)),
            _ => None,
        };
        let is_other = match (&up, &current) {
            (Some(up), Some((known, _))) => !Arc::ptr_eq(up, known),
            (up, known) => up.is_some() != known.is_some(),
        };
        if is_other {
            current = up.map(|upstream| {
                let notices = upstream.notices();
                (upstream, notices)
            });
            if let (Some((upstream, _)), Some(engine)) = (&current, engine.upgrade()) {
                engine.list_tools(upstream).await;
            }
        }
        let notice = async {
            match &mut current {
                Some((_, notices)) => notices.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = status.changed() => if changed.is_err() { return },
            notice = notice => match notice {
                // Missed some: asking again covers them all.
                Ok(Notice::ToolsChanged) | Err(RecvError::Lagged(_)) => {
                    if let (Some((upstream, _)), Some(engine)) = (&current, engine.upgrade()) {
                        engine.list_tools(upstream).await;
                    }
                }
                // It is going; its end shows in the status.
                Err(RecvError::Closed) => if status.changed().await.is_err() { return },
            },
        }
    }
}

/// A call's task.
struct Running {
    engine: Arc<Shared>,
    cancel: CancellationToken,
    reply: Option<oneshot::Sender<Result<Bytes, CallFailure>>>,
}

impl Running {
    /// The caller is free from here on; the task may have tidying to do.
    fn answer(&mut self, outcome: Result<Bytes, CallFailure>) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(outcome);
        }
    }

    async fn run(mut self, request: CallRequest, turn: Option<Turn>) {
        let deadline = self.engine.call_timeout.map(|limit| Instant::now() + limit);
        match self.prepare(&request.tool, turn, deadline).await {
            Ok((upstream, turn)) => {
                self.perform(request, &upstream, deadline).await;
                drop(turn);
            }
            Err(failure) => self.answer(Err(failure)),
        }
    }

    /// Everything before the upstream is asked: nothing has happened yet, so all of it can simply be dropped.
    async fn prepare(
        &self,
        tool: &str,
        turn: Option<Turn>,
        deadline: Option<Instant>,
    ) -> Result<(InUse, Option<OwnedSemaphorePermit>), CallFailure> {
        let engine = &self.engine;
        let limit = engine.call_timeout.unwrap_or_default();
        let ready = async {
            engine.check_tool(tool)?;
            let turn = match turn {
                Some(turn) => Some(before(deadline, turn.come()).await.ok_or(CallFailure::NoTurn { limit })?),
                None => None,
            };
            let upstream = before(deadline, engine.upstream()).await.ok_or_else(|| {
                let status = engine.instance.status();
                let cause = status.last_failure.map(|failure| failure.to_string());
                CallFailure::NotReady { limit, state: status.state.name(), cause }
            })??;
            // Where no list was known before, it is now.
            engine.check_tool(tool)?;
            Ok((upstream, turn))
        };
        tokio::select! {
            biased;
            () = engine.stopping.cancelled() => Err(CallFailure::ShuttingDown),
            () = self.cancel.cancelled() => Err(CallFailure::Cancelled),
            ready = ready => ready,
        }
    }

    async fn perform(&mut self, mut request: CallRequest, upstream: &Upstream, deadline: Option<Instant>) {
        if let Some(list) = self.engine.tools.current()
            && let Some(tool) = list.find(&request.tool)
        {
            tool.strip(&mut request.arguments);
        }
        let mut pending = match upstream.call(&request.tool, &request.arguments, request.progress) {
            Ok(pending) => pending,
            Err(ended) => return self.answer(Err(CallFailure::Upstream(ended.into()))),
        };
        tokio::select! {
            answer = before(deadline, &mut pending) => match answer {
                Some(answer) => self.answer(answer.map_err(CallFailure::Upstream)),
                None => self.overdue(pending, upstream).await,
            },
            () = self.cancel.cancelled() => {
                self.answer(Err(CallFailure::Cancelled));
                self.wind_down(pending, upstream, deadline).await;
            }
        }
    }

    /// The caller has left. The browser is handed on only when it is done with what it was asked.
    async fn wind_down(&mut self, mut pending: Pending, upstream: &Upstream, deadline: Option<Instant>) {
        let rest = async {
            loop {
                if upstream.interrupt(pending.id()).await == AfterInterrupt::Silent {
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
            self.overdue(pending, upstream).await;
        }
    }

    /// No answer in time: the page is given up, and if even that does not free the browser, the upstream is.
    async fn overdue(&mut self, mut pending: Pending, upstream: &Upstream) {
        let limit = self.engine.call_timeout.unwrap_or_default();
        let shares_a_page = self.engine.turns.is_some();
        self.answer(Err(CallFailure::TimedOut { limit, shares_a_page }));
        if self.engine.turns.is_none() {
            upstream.interrupt(pending.id()).await;
            return;
        }
        let rest = async {
            upstream.reset().await;
            let _ = (&mut pending).await;
        };
        if timeout(AFTER_RESET, rest).await.is_err() {
            upstream.retire("it did not come to rest after a call that took too long");
        }
    }
}

impl Shared {
    /// Nothing is started for a tool that is known not to exist.
    fn check_tool(&self, name: &str) -> Result<(), CallFailure> {
        match self.tools.current() {
            Some(list) if list.find(name).is_none() => Err(CallFailure::UnknownTool {
                name: name.to_owned(),
                nearest: list.nearest(name).map(str::to_owned),
            }),
            _ => Ok(()),
        }
    }
}

/// A place in line, for whoever knows that a call has arrived before they can make it.
pub struct Place(Option<Turn>);

/// A place in the line of calls that take turns. Dropping it gives it up.
struct Turn(Pin<Box<MaybeDone<BoxFuture<'static, OwnedSemaphorePermit>>>>);

impl Turn {
    fn queue(turns: &Arc<Semaphore>) -> Self {
        let turns = Arc::clone(turns);
        let acquire = async move { turns.acquire_owned().await.expect("the semaphore is never closed") };
        // Unconstrained: a task that has used up its share would not be queued by this poll.
        let mut waiting = Box::pin(maybe_done(tokio::task::unconstrained(acquire).boxed()));
        // Tokio's semaphore serves in the order of the first polls; this is ours.
        let _ = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        Self(waiting)
    }

    async fn come(mut self) -> OwnedSemaphorePermit {
        self.0.as_mut().await;
        self.0.as_mut().take_output().expect("it was just awaited, once")
    }
}

/// `None` when the deadline came first.
async fn before<T>(deadline: Option<Instant>, future: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => timeout_at(deadline, future).await.ok(),
        None => Some(future.await),
    }
}
