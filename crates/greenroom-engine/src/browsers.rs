//! Attached browsers: started by somebody else, reached by their debugging address.
//!
//! Each is connected by the first call that needs it, or in the background, by one attempt at a time. After a failed
//! attempt calls do not make another for a while; a person may, and so does the watch when the browser is back. None is
//! ever closed or killed: what ends is our connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use greenroom_core::attach::{AttachedConfig, Attachment, PAUSES, State};
use greenroom_core::config::BrowserLimits;
use greenroom_core::target::KnownBrowser;
use greenroom_upstream::driver::{Page, chain};
use greenroom_upstream::instance::{Failure, Unavailable};
use greenroom_upstream::process::start_detached;
use greenroom_upstream::{Driver, Upstream};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use crate::call::CallFailure;
use crate::capture::Before;
use crate::reply::Manner;
use crate::sessions::Turn;
use crate::status::timestamp;
use crate::tools::{ToolBook, ToolBooks};

/// How long a browser may take to come up after its start command.
const START_LIMIT: Duration = Duration::from_secs(20);
const START_PAUSE: Duration = Duration::from_millis(200);

/// Makes the driver of an attached browser.
pub type AttachFactory = Arc<dyn Fn(&AttachedConfig) -> Arc<dyn Driver> + Send + Sync>;

pub(crate) struct Browsers {
    factory: AttachFactory,
    books: Arc<ToolBooks>,
    limits: BrowserLimits,
    begun: Instant,
    state: Mutex<Registry>,
    /// Held by whoever attaches one more.
    attaching: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Registry {
    entries: Vec<Arc<Attached>>,
    /// How many there ever were: numbers are not used again.
    numbers: usize,
    is_closed: bool,
}

/// One browser.
pub(crate) struct Attached {
    pub(crate) index: usize,
    pub(crate) config: AttachedConfig,
    driver: Arc<dyn Driver>,
    pub(crate) book: Arc<ToolBook>,
    /// One permit: a browser's calls run one after another, in order of arrival.
    turns: Arc<Semaphore>,
    /// Held by whoever is connecting.
    attempt: tokio::sync::Mutex<()>,
    life: Mutex<Life>,
}

#[derive(Default)]
struct Life {
    attachment: Attachment,
    attempted: Option<SystemTime>,
    upstream: Option<Arc<Upstream>>,
    misses: u32,
    shown: Before,
    is_removed: bool,
}

/// What `list_browsers` shows.
#[derive(Clone, Debug, Serialize)]
pub struct BrowserReport {
    pub index: usize,
    pub name: Option<String>,
    pub url: String,
    pub driver: String,
    pub tags: Vec<String>,
    pub state: &'static str,
    pub page_url: Option<String>,
    pub page_title: Option<String>,
    pub last_error: Option<String>,
    pub last_attempt: Option<String>,
    /// How long calls will not cause another attempt.
    pub cool_down_ms: Option<u64>,
}

/// Whether an attempt may run the start command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartCommand {
    Run,
    Leave,
}

impl Attached {
    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn known(&self) -> KnownBrowser {
        let address = self.config.endpoint.shown();
        KnownBrowser { index: self.index, name: self.config.name.clone(), address }
    }

    /// Its name among the places that have tools.
    pub(crate) fn place(&self) -> String {
        place(self.index)
    }

    /// The live connection, if there is one.
    fn connected(&self) -> Option<Arc<Upstream>> {
        let mut life = self.life();
        match &life.upstream {
            Some(upstream) if !upstream.has_ended() => return Some(Arc::clone(upstream)),
            Some(_) | None => {}
        }
        let upstream = life.upstream.take()?;
        let last_words = upstream.ended().now_or_never().map(|ended| ended.reason);
        life.attachment.lose(last_words.unwrap_or_else(|| "the connection has ended".to_owned()));
        None
    }

    /// A call was answered with this in sight. Gives back what was before.
    pub(crate) fn note(&self, page: Option<&Page>, snapshot: Option<&Arc<str>>) -> Before {
        let mut life = self.life();
        let before = life.shown.clone();
        if let Some(page) = page {
            life.shown.page = page.clone();
        }
        if let Some(snapshot) = snapshot {
            life.shown.snapshot = Some(Arc::clone(snapshot));
        }
        before
    }

    /// Makes sure that its tools are known. The browser is not needed for that.
    pub(crate) async fn learn(&self) -> Result<(), Unavailable> {
        if self.book.is_known() {
            return Ok(());
        }
        let _only_one = self.attempt.lock().await;
        if self.book.is_known() {
            return Ok(());
        }
        let launched = self.driver.launch_to_list().await;
        let upstream = launched.map_err(|error| Unavailable::NotStarted(Arc::new(Failure::Launch(error))))?;
        self.book.fetch(&upstream).await;
        upstream.close().await;
        Ok(())
    }

    /// Whether it was let go of.
    pub(crate) fn is_removed(&self) -> bool {
        self.life().is_removed
    }

    fn describe(&self) -> String {
        self.known().to_string()
    }
}

/// A call is at a browser, running or waiting.
pub(crate) struct BrowserVisit {
    browsers: Arc<Browsers>,
    pub(crate) attached: Arc<Attached>,
    turn: Mutex<Option<Turn>>,
    pub(crate) since: Instant,
}

impl BrowserVisit {
    pub(crate) async fn turn(&mut self) -> OwnedSemaphorePermit {
        let turn = self.turn.get_mut().unwrap_or_else(PoisonError::into_inner);
        let permit = turn.as_mut().expect("a turn is awaited once").come().await;
        *turn = None;
        permit
    }

    /// The live connection, made now if there is none and an attempt may be made.
    pub(crate) async fn upstream(&self) -> Result<Arc<Upstream>, CallFailure> {
        self.browsers.ensure_connected(&self.attached).await
    }

    pub(crate) fn call_timeout(&self) -> Option<Duration> {
        self.browsers.limits.call_timeout
    }

    /// How calls are answered here, unless they say otherwise.
    pub(crate) fn manner(&self) -> Manner {
        Manner { reply: self.browsers.limits.reply, budget: self.browsers.limits.reply_budget }
    }
}

impl Browsers {
    pub(crate) fn new(
        configs: Vec<AttachedConfig>,
        factory: AttachFactory,
        books: Arc<ToolBooks>,
        limits: BrowserLimits,
    ) -> Arc<Self> {
        let browsers = Arc::new(Self {
            factory,
            books,
            limits,
            begun: Instant::now(),
            state: Mutex::default(),
            attaching: tokio::sync::Mutex::default(),
        });
        for (number, config) in configs.into_iter().enumerate() {
            browsers.register(browsers.make(number + 1, config));
        }
        browsers
    }

    fn state(&self) -> MutexGuard<'_, Registry> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn make(&self, index: usize, config: AttachedConfig) -> Arc<Attached> {
        let driver = (self.factory)(&config);
        let book =
            self.books.of_browser(&driver, config.endpoint.address(), &place(index), &self.limits.tools);
        Arc::new(Attached {
            index,
            config,
            driver,
            book,
            turns: Arc::new(Semaphore::new(1)),
            attempt: tokio::sync::Mutex::default(),
            life: Mutex::default(),
        })
    }

    /// From now on calls can name it. It need not be connected.
    fn register(&self, attached: Arc<Attached>) {
        let mut state = self.state();
        state.numbers = attached.index;
        state.entries.push(attached);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Attached>> {
        self.state().entries.clone()
    }

    pub(crate) fn known(&self) -> Vec<KnownBrowser> {
        self.state().entries.iter().map(|attached| attached.known()).collect()
    }

    pub(crate) fn get(&self, index: usize) -> Option<Arc<Attached>> {
        self.state().entries.iter().find(|attached| attached.index == index).cloned()
    }

    /// Comes to a browser. Takes the place in its line at once.
    pub(crate) fn visit(self: &Arc<Self>, index: usize) -> Option<BrowserVisit> {
        let attached = self.get(index)?;
        let turn = Mutex::new(Some(Turn::queue(&attached.turns)));
        Some(BrowserVisit { browsers: Arc::clone(self), attached, turn, since: Instant::now() })
    }

    pub(crate) fn report(&self) -> Vec<BrowserReport> {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let report = |attached: Arc<Attached>| {
            // A connection that has ended by itself is noticed by looking.
            drop(attached.connected());
            let life = attached.life();
            let attachment = &life.attachment;
            let is_connected = attachment.state == State::Connected;
            BrowserReport {
                index: attached.index,
                name: attached.config.name.clone(),
                url: attached.config.endpoint.shown(),
                driver: attached.config.driver.clone(),
                tags: attached.config.tags.clone(),
                state: attachment.state.name(),
                page_url: text(&life.shown.page.url).filter(|_| is_connected),
                page_title: text(&life.shown.page.title).filter(|_| is_connected),
                last_error: attachment.last_error.clone(),
                last_attempt: life.attempted.map(timestamp),
                cool_down_ms: attachment
                    .cool_down(self.now())
                    .map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            }
        };
        self.all().into_iter().map(report).collect()
    }

    async fn ensure_connected(&self, attached: &Attached) -> Result<Arc<Upstream>, CallFailure> {
        if let Some(upstream) = attached.connected() {
            return Ok(upstream);
        }
        let cool_down = {
            let life = attached.life();
            life.attachment.cool_down(self.now()).map(|left| (left, life.attachment.last_error.clone()))
        };
        if let Some((left, error)) = cool_down {
            return Err(CallFailure::BrowserCoolsDown {
                browser: attached.describe(),
                left,
                reason: error.unwrap_or_default(),
            });
        }
        self.connect(attached, StartCommand::Leave).await
    }

    /// Connects, unless somebody else has meanwhile. One attempt at a time.
    pub(crate) async fn connect(
        &self,
        attached: &Attached,
        start: StartCommand,
    ) -> Result<Arc<Upstream>, CallFailure> {
        let _only_one = attached.attempt.lock().await;
        if let Some(upstream) = attached.connected() {
            return Ok(upstream);
        }
        {
            let mut life = attached.life();
            life.attachment.begin(self.now());
            life.attempted = Some(SystemTime::now());
        }
        // Whoever waits for this may leave; the state must not stay "connecting".
        let unfinished = Unfinished { browsers: self, attached, is_over: false };
        let outcome = self.attempt(attached, start).await;
        unfinished.end(outcome)
    }

    async fn attempt(&self, attached: &Attached, start: StartCommand) -> Result<Upstream, String> {
        let mut reached = self.reach(attached).await;
        if reached.is_err()
            && start == StartCommand::Run
            && let Some(words) = attached.config.start_words()
        {
            let pid = start_detached(&words)
                .map_err(|error| format!("its start command `{}` cannot be run: {error}", words.join(" ")))?;
            tracing::info!(browser = attached.describe(), pid, "a browser was started by its start command");
            let until = Instant::now() + START_LIMIT;
            while reached.is_err() && Instant::now() < until {
                sleep(START_PAUSE).await;
                reached = self.check(attached).await;
            }
        }
        reached?;
        let upstream = attached.driver.launch().await.map_err(|error| chain(&error))?;
        if !attached.book.is_known() {
            attached.book.fetch(&upstream).await;
        }
        Ok(upstream)
    }

    /// Whether the browser answers at its address.
    async fn check(&self, attached: &Attached) -> Result<(), String> {
        let limit = self.limits.supervision.check_timeout;
        match timeout(limit, attached.driver.reachable()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("it did not answer within {} ms", limit.as_millis())),
        }
    }

    /// Looks for the browser a few times, with growing pauses.
    async fn reach(&self, attached: &Attached) -> Result<(), String> {
        let mut outcome = self.check(attached).await;
        for pause in PAUSES {
            if outcome.is_ok() {
                break;
            }
            sleep(pause).await;
            outcome = self.check(attached).await;
        }
        outcome
    }

    /// Ends our connection and makes another. `force` also during the pause after a failure, and also when there is one
    /// that works.
    pub(crate) async fn reconnect(&self, attached: &Attached, force: bool) -> Result<(), CallFailure> {
        if !force {
            if attached.connected().is_some() && self.check(attached).await.is_ok() {
                return Ok(());
            }
            let cool_down = attached.life().attachment.cool_down(self.now());
            if let Some(left) = cool_down {
                let reason = attached.life().attachment.last_error.clone().unwrap_or_default();
                return Err(CallFailure::BrowserCoolsDown { browser: attached.describe(), left, reason });
            }
        }
        let old = attached.life().upstream.take();
        if let Some(old) = old {
            old.close().await;
        }
        self.connect(attached, StartCommand::Run).await.map(drop)
    }

    /// Attaches one more browser.
    pub(crate) async fn attach(&self, config: AttachedConfig) -> Result<Arc<Attached>, CallFailure> {
        let _one_after_another = self.attaching.lock().await;
        let same = |known: &Arc<Attached>| {
            known.config.endpoint.address() == config.endpoint.address()
                || (config.name.is_some() && known.config.name == config.name)
        };
        if let Some(known) = self.all().iter().find(|known| same(known)) {
            return Err(CallFailure::BrowserKnown { browser: known.describe() });
        }
        let number = self.state().numbers + 1;
        let attached = self.make(number, config);
        // One that is not there is no browser: calls to the others do not have to tell it from them.
        match self.connect(&attached, StartCommand::Leave).await {
            Ok(_) => {
                self.register(Arc::clone(&attached));
                Ok(attached)
            }
            Err(failure) => {
                self.forget(&attached);
                let address = attached.config.endpoint.shown();
                Err(match failure {
                    CallFailure::BrowserUnreachable { reason, .. } => {
                        CallFailure::NotAttached { address, reason }
                    }
                    other => other,
                })
            }
        }
    }

    /// Lets go of a browser. It goes on as it is.
    pub(crate) async fn detach(&self, attached: &Attached) {
        self.forget(attached);
        let upstream = {
            let mut life = attached.life();
            life.is_removed = true;
            life.upstream.take()
        };
        if let Some(upstream) = upstream {
            upstream.close().await;
        }
    }

    fn forget(&self, attached: &Attached) {
        self.state().entries.retain(|known| known.index != attached.index);
        self.books.forget(&attached.place());
    }

    /// Connects all in the background, and looks after them from then on.
    pub(crate) fn watch(self: &Arc<Self>) {
        tokio::spawn(watch(Arc::downgrade(self)));
    }

    /// Ends every connection. The browsers go on.
    pub(crate) async fn stop(&self) {
        let entries = {
            let mut state = self.state();
            state.is_closed = true;
            std::mem::take(&mut state.entries)
        };
        let upstreams = entries.iter().filter_map(|attached| attached.life().upstream.take());
        let upstreams: Vec<_> = upstreams.collect();
        futures::future::join_all(upstreams.iter().map(|upstream| upstream.close())).await;
    }
}

/// An attempt under way. Given up, it counts as failed.
struct Unfinished<'a> {
    browsers: &'a Browsers,
    attached: &'a Attached,
    is_over: bool,
}

impl Unfinished<'_> {
    fn end(mut self, outcome: Result<Upstream, String>) -> Result<Arc<Upstream>, CallFailure> {
        self.is_over = true;
        let mut life = self.attached.life();
        match outcome {
            Ok(upstream) if !life.is_removed => {
                let upstream = Arc::new(upstream);
                life.attachment.succeed();
                life.misses = 0;
                life.shown = Before::default();
                life.upstream = Some(Arc::clone(&upstream));
                tracing::info!(browser = self.attached.describe(), "attached to a browser");
                Ok(upstream)
            }
            Ok(_) => Err(CallFailure::BrowserUnreachable {
                browser: self.attached.describe(),
                reason: "it was disconnected meanwhile".to_owned(),
            }),
            Err(reason) => {
                life.attachment.fail(self.browsers.now(), reason.clone());
                Err(CallFailure::BrowserUnreachable { browser: self.attached.describe(), reason })
            }
        }
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.attached.life().attachment.lose("the attempt was given up".to_owned());
        }
    }
}

fn place(index: usize) -> String {
    format!("browser [{index}]")
}

async fn watch(browsers: Weak<Browsers>) {
    loop {
        let pause = {
            let Some(browsers) = browsers.upgrade() else { return };
            if browsers.state().is_closed {
                return;
            }
            let all = browsers.all();
            futures::future::join_all(all.iter().map(|attached| look_after(&browsers, attached))).await;
            browsers.limits.supervision.check_interval
        };
        sleep(pause).await;
    }
}

/// Notices that a browser has gone, and that it is back.
async fn look_after(browsers: &Browsers, attached: &Attached) {
    let answers = browsers.check(attached).await;
    match (attached.connected(), answers) {
        (Some(_), Ok(())) => attached.life().misses = 0,
        (Some(upstream), Err(reason)) => {
            let is_lost = {
                let mut life = attached.life();
                life.misses += 1;
                life.misses >= browsers.limits.supervision.check_failures
            };
            if is_lost {
                tracing::warn!(browser = attached.describe(), reason, "an attached browser is gone");
                {
                    let mut life = attached.life();
                    life.upstream = None;
                    life.attachment.lose(reason);
                }
                upstream.close().await;
            }
        }
        (None, Ok(())) => {
            if let Err(failure) = browsers.connect(attached, StartCommand::Leave).await {
                tracing::debug!(%failure, "an attached browser could not be connected");
            }
        }
        (None, Err(reason)) => {
            let mut life = attached.life();
            if life.attachment.state == State::Pending {
                life.attempted = Some(SystemTime::now());
                life.attachment.lose(reason);
            }
        }
    }
}
