//! An instance: one upstream that is kept alive.
//!
//! One loop owns it, in one [`State`] at a time. Others hold a handle: they ask for the upstream, watch the status,
//! or send a command.
//!
//! ```text
//!            demand             launched            missed checks
//!  Stopped ─────────► Starting ──────────► Ready ◄───────────────► Unhealthy
//!                        ▲  │ failed         │ gone                   │ too many
//!                        │  ▼                ▼                        ▼
//!                     Restarting ◄───────────┴────────────────────────┘
//!                           │ budget spent
//!                           ▼
//!                         Failed ──(by hand)──► Starting
//! ```

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use greenroom_core::supervision::{AfterFailure, Health, HealthTally, RestartBudget, Supervision, is_jump};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::Instrument;

use crate::clock::slept;
use crate::driver::{Driver, LaunchError, Upstream, chain};

#[derive(Clone)]
pub enum State {
    /// Not started: nobody has asked yet, or the last start could not even be tried.
    Stopped,
    Starting,
    Ready(Arc<Upstream>),
    /// Alive, but it does not answer checks. Calls in flight go on; new ones wait.
    Unhealthy(Arc<Upstream>),
    /// Waiting before the next start.
    Restarting,
    /// Restarts did not help. A person has to look, and can start it again.
    Failed,
    /// Ended for good.
    Stopping,
}

impl State {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Ready(_) => "ready",
            Self::Unhealthy(_) => "unhealthy",
            Self::Restarting => "restarting",
            Self::Failed => "failed",
            Self::Stopping => "stopping",
        }
    }
}

/// What the last check found.
#[derive(Clone, Debug)]
pub struct Check {
    pub at: SystemTime,
    pub error: Option<String>,
}

/// What there is to know about an instance.
#[derive(Clone)]
pub struct Status {
    pub state: State,
    /// Starts since the beginning that were not the first.
    pub restarts: u64,
    /// Why it last failed, in words.
    pub last_failure: Option<Arc<Failure>>,
    /// How often a start could not be tried, so that those who waited for one can tell.
    pub refusals: u64,
    pub last_check: Option<Check>,
    /// Checks missed in a row.
    pub misses: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{}", chain(.0))]
    Launch(LaunchError),
    #[error("{0}")]
    Gone(String),
    #[error("it did not answer {misses} health checks in a row; the last one said: {last}")]
    Ill { misses: u32, last: String },
    #[error("{0}")]
    ByHand(String),
}

/// Why there is no upstream to be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unavailable {
    #[error("The browser server could not be started: {0}")]
    NotStarted(Arc<Failure>),
    #[error(
        "The browser server has failed, restarting it did not help (RESTART_MAX, RESTART_WINDOW), and it was given up: \
         {0}. Run `greenroom doctor` to see what is wrong, then `greenroom restart`."
    )]
    Failed(Arc<Failure>),
    #[error("Greenroom is shutting down.")]
    Stopping,
}

/// A handle. The instance lives until it is stopped, or until the last handle is dropped.
#[derive(Clone)]
pub struct Instance {
    commands: mpsc::UnboundedSender<Command>,
    status: watch::Receiver<Status>,
    calls: Arc<watch::Sender<usize>>,
}

enum Command {
    /// Somebody needs it. Dropping `heard` is the acknowledgement.
    Demand {
        heard: oneshot::Sender<()>,
    },
    Restart {
        cause: String,
    },
    Stop {
        done: oneshot::Sender<()>,
    },
}

/// An upstream in use. While one is held, missed checks do not end the upstream.
pub struct InUse {
    upstream: Arc<Upstream>,
    calls: Arc<watch::Sender<usize>>,
}

impl std::ops::Deref for InUse {
    type Target = Upstream;

    fn deref(&self) -> &Upstream {
        &self.upstream
    }
}

impl InUse {
    fn new(upstream: Arc<Upstream>, calls: Arc<watch::Sender<usize>>) -> Self {
        calls.send_modify(|calls| *calls += 1);
        Self { upstream, calls }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.calls.send_modify(|calls| *calls -= 1);
    }
}

impl Instance {
    /// Begins to look after an upstream. Nothing is started until somebody asks for it.
    pub fn new(driver: Arc<dyn Driver>, supervision: Supervision) -> Self {
        let (commands, received) = mpsc::unbounded_channel();
        let status = Status {
            state: State::Stopped,
            restarts: 0,
            last_failure: None,
            refusals: 0,
            last_check: None,
            misses: 0,
        };
        let (status, watched) = watch::channel(status);
        let calls = Arc::new(watch::channel(0).0);
        let keeper = Keeper {
            driver,
            budget: RestartBudget::new(&supervision),
            supervision,
            commands: received,
            status,
            calls: calls.subscribe(),
            launched_before: false,
        };
        tokio::spawn(keeper.run().in_current_span());
        Self { commands, status: watched, calls }
    }

    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    pub fn watch(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// The upstream, once it is ready. Waits through starts and restarts; the caller brings the deadline.
    pub async fn acquire(&self) -> Result<InUse, Unavailable> {
        let mut status = self.status.clone();
        let refusals = {
            let now = status.borrow_and_update();
            if let Some(upstream) = self.ready(&now) {
                return Ok(upstream);
            }
            now.refusals
        };
        // Acknowledged, so that what is seen from here on is not older than this call.
        let (heard, acknowledged) = oneshot::channel();
        let _ = self.commands.send(Command::Demand { heard });
        let _ = acknowledged.await;
        loop {
            {
                let now = status.borrow_and_update();
                if let Some(upstream) = self.ready(&now) {
                    return Ok(upstream);
                }
                match (&now.state, &now.last_failure) {
                    (State::Failed, Some(failure)) => return Err(Unavailable::Failed(Arc::clone(failure))),
                    (State::Stopping, _) => return Err(Unavailable::Stopping),
                    (State::Stopped, Some(failure)) if now.refusals > refusals => {
                        return Err(Unavailable::NotStarted(Arc::clone(failure)));
                    }
                    _ => {}
                }
            }
            if status.changed().await.is_err() {
                return Err(Unavailable::Stopping);
            }
        }
    }

    fn ready(&self, status: &Status) -> Option<InUse> {
        match &status.state {
            // One that has just ended is still there until the loop has seen it.
            State::Ready(upstream) if !upstream.has_ended() => {
                Some(InUse::new(Arc::clone(upstream), Arc::clone(&self.calls)))
            }
            _ => None,
        }
    }

    /// Asks for a start, if it is not started yet. The status says what becomes of it.
    pub fn demand(&self) {
        let _ = self.commands.send(Command::Demand { heard: oneshot::channel().0 });
    }

    /// Starts it anew because a person wants it, also when it had failed for good.
    pub fn restart(&self, cause: impl Into<String>) {
        let _ = self.commands.send(Command::Restart { cause: cause.into() });
    }

    /// Ends it, in order. Returns when everything behind it is gone.
    pub async fn stop(&self) {
        let (done, stopped) = oneshot::channel();
        let _ = self.commands.send(Command::Stop { done });
        let _ = stopped.await;
    }
}

/// The task's side.
struct Keeper {
    driver: Arc<dyn Driver>,
    supervision: Supervision,
    budget: RestartBudget,
    commands: mpsc::UnboundedReceiver<Command>,
    status: watch::Sender<Status>,
    calls: watch::Receiver<usize>,
    launched_before: bool,
}

/// What to do next; each is one arm of the loop.
enum Next {
    Rest,
    Launch,
    Tend(Arc<Upstream>),
    Pause(Duration),
    GivenUp,
    Stop(Option<oneshot::Sender<()>>),
}

impl Keeper {
    async fn run(mut self) {
        let mut next = Next::Rest;
        loop {
            next = match next {
                Next::Rest => self.rest(State::Stopped).await,
                Next::Launch => self.launch().await,
                Next::Tend(upstream) => self.tend(upstream).await,
                Next::Pause(pause) => self.pause(pause).await,
                Next::GivenUp => self.rest(State::Failed).await,
                Next::Stop(done) => {
                    self.enter(State::Stopping);
                    if let Some(done) = done {
                        let _ = done.send(());
                    }
                    return;
                }
            };
        }
    }

    fn enter(&self, state: State) {
        tracing::debug!(state = state.name(), "instance");
        self.status.send_modify(|status| status.state = state);
    }

    /// Nothing runs. A failed one is woken by hand only.
    async fn rest(&mut self, state: State) -> Next {
        let failed = matches!(state, State::Failed);
        self.enter(state);
        loop {
            match self.commands.recv().await {
                Some(Command::Demand { .. }) if failed => {}
                Some(Command::Demand { heard }) => {
                    self.enter(State::Starting);
                    drop(heard);
                    return Next::Launch;
                }
                Some(Command::Restart { .. }) => {
                    self.budget.refill();
                    return Next::Launch;
                }
                Some(Command::Stop { done }) => return Next::Stop(Some(done)),
                None => return Next::Stop(None),
            }
        }
    }

    async fn launch(&mut self) -> Next {
        self.enter(State::Starting);
        if self.launched_before {
            self.status.send_modify(|status| status.restarts += 1);
        }
        let begun = Instant::now();
        let driver = Arc::clone(&self.driver);
        let launching = driver.launch();
        tokio::pin!(launching);
        let outcome = loop {
            tokio::select! {
                outcome = &mut launching => break outcome,
                command = self.commands.recv() => match command {
                    Some(Command::Demand { .. }) => {}
                    // It is being started anyway, now with a full budget.
                    Some(Command::Restart { .. }) => self.budget.refill(),
                    // Dropping the launch ends what it has started.
                    Some(Command::Stop { done }) => return Next::Stop(Some(done)),
                    None => return Next::Stop(None),
                },
            }
        };
        match outcome {
            Ok(upstream) => {
                self.launched_before = true;
                tracing::info!(
                    driver = self.driver.name(),
                    server = upstream.info().server_info.name,
                    version = upstream.info().server_info.version,
                    pid = upstream.pid(),
                    ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
                    "upstream is up"
                );
                Next::Tend(Arc::new(upstream))
            }
            // Trying again by itself cannot help: a program or a package is missing. The next demand tries again.
            Err(error) if error.needs_a_person() => {
                tracing::error!("{}", chain(&error));
                self.status.send_modify(|status| {
                    status.refusals += 1;
                    status.last_failure = Some(Arc::new(Failure::Launch(error)));
                });
                Next::Rest
            }
            Err(error) => self.failed(Failure::Launch(error)),
        }
    }

    /// Looks after a live upstream until it is gone or ill.
    async fn tend(&mut self, upstream: Arc<Upstream>) -> Next {
        self.status.send_modify(|status| status.misses = 0);
        self.enter(State::Ready(Arc::clone(&upstream)));
        let ended = upstream.ended();
        tokio::pin!(ended);
        let mut tally = HealthTally::new(&self.supervision);
        let mut misses = 0;
        let mut check = Box::pin(checked(self.supervision, Arc::clone(&upstream)));
        loop {
            let checked = tokio::select! {
                ended = &mut ended => {
                    let next = self.failed(Failure::Gone(ended.to_string()));
                    // The connection is over; the process may not be.
                    upstream.close().await;
                    return next;
                }
                command = self.commands.recv() => match command {
                    Some(Command::Demand { .. }) => continue,
                    Some(Command::Restart { cause }) => {
                        self.budget.refill();
                        tracing::warn!(cause, "upstream is restarted by hand");
                        self.status.send_modify(|status| {
                            status.state = State::Restarting;
                            status.last_failure = Some(Arc::new(Failure::ByHand(cause)));
                        });
                        upstream.close().await;
                        return Next::Launch;
                    }
                    Some(Command::Stop { done }) => {
                        self.enter(State::Stopping);
                        upstream.close().await;
                        return Next::Stop(Some(done));
                    }
                    None => {
                        upstream.close().await;
                        return Next::Stop(None);
                    }
                },
                checked = &mut check => checked,
            };
            check = Box::pin(self::checked(self.supervision, Arc::clone(&upstream)));
            self.status.send_modify(|status| {
                status.misses = if checked.error.is_some() { misses + 1 } else { 0 };
                status.last_check = Some(Check { at: SystemTime::now(), error: checked.error.clone() });
            });
            let Some(error) = checked.error else {
                tally.answered();
                if misses > 0 {
                    tracing::info!("the upstream answers again");
                    misses = 0;
                }
                self.enter_if_changed(State::Ready(Arc::clone(&upstream)));
                continue;
            };
            if checked.after_sleep {
                tracing::info!("the clock has jumped; health checks begin anew");
                tally.begin_anew();
            }
            tracing::warn!(error, pid = upstream.pid(), "a health check was missed");
            misses += 1;
            let health = tally.missed();
            self.enter_if_changed(State::Unhealthy(Arc::clone(&upstream)));
            // A call within its own deadline is not ended by checks. When the last is through, it is over.
            if health == Health::Ill && *self.calls.borrow() == 0 {
                let next = self.failed(Failure::Ill { misses, last: error });
                upstream.close().await;
                return next;
            }
        }
    }

    fn enter_if_changed(&self, state: State) {
        if self.status.borrow().state.name() != state.name() {
            self.enter(state);
        }
    }

    async fn pause(&mut self, pause: Duration) -> Next {
        let until = Instant::now() + pause;
        loop {
            tokio::select! {
                () = sleep_until(until) => return Next::Launch,
                command = self.commands.recv() => match command {
                    Some(Command::Demand { .. }) => {}
                    Some(Command::Restart { .. }) => {
                        self.budget.refill();
                        return Next::Launch;
                    }
                    Some(Command::Stop { done }) => return Next::Stop(Some(done)),
                    None => return Next::Stop(None),
                },
            }
        }
    }

    /// Decides what follows a failure, and tells everybody.
    fn failed(&mut self, failure: Failure) -> Next {
        let verdict = self.budget.after_failure(Instant::now().into_std());
        let cause = failure.to_string();
        self.status.send_modify(|status| {
            status.last_failure = Some(Arc::new(failure));
            if matches!(verdict, AfterFailure::Restart { .. }) {
                status.state = State::Restarting;
            }
        });
        match verdict {
            AfterFailure::Restart { attempt, pause } => {
                tracing::warn!(cause, attempt, in_ms = pause.as_millis(), "upstream is restarted");
                Next::Pause(pause)
            }
            AfterFailure::GiveUp => {
                tracing::error!(
                    cause,
                    "upstream has failed and is given up; `greenroom restart` tries again"
                );
                Next::GivenUp
            }
        }
    }
}

/// What one check found.
struct Checked {
    error: Option<String>,
    /// The machine, or we, slept while it was waited for.
    after_sleep: bool,
}

/// Waits until a check is due and makes it.
async fn checked(supervision: Supervision, upstream: Arc<Upstream>) -> Checked {
    let begun = (Instant::now(), slept());
    sleep_until(begun.0 + supervision.check_interval).await;
    let answer = timeout(supervision.check_timeout, upstream.check()).await;
    let planned = supervision.check_interval + supervision.check_timeout;
    let after_sleep = is_jump(planned, begun.0.elapsed()) || slept().more_than(begun.1);
    let error = match answer {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error),
        Err(_) => Some(format!("no answer within {} ms", supervision.check_timeout.as_millis())),
    };
    Checked { error, after_sleep }
}
