//! A pool: instances, and the queue of those who want one.
//!
//! The lease queue (`greenroom_core::lease`) decides; this drives it. Every change goes through it under one lock, and
//! what follows from the change is carried out when the lock is free again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use greenroom_core::config::{InstanceConfig, Mistakes, PoolConfig, Start};
use greenroom_core::lease::{self, Condition, Effects, LeaseQueue, Member, Refusal, Ticket, Want};
use greenroom_upstream::driver::Overlap;
use greenroom_upstream::instance::{State as InstanceState, Status, Unavailable};
use greenroom_upstream::rpc::Notice;
use greenroom_upstream::{Driver, Instance, Upstream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, oneshot, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::call::CallFailure;
use crate::tools::{ToolBook, ToolBooks};

/// Makes the driver of an instance: pool name, configuration.
pub type DriverFactory = Arc<dyn Fn(&PoolConfig, &InstanceConfig) -> Arc<dyn Driver> + Send + Sync>;

pub(crate) struct Pool {
    pub(crate) config: PoolConfig,
    drivers: DriverFactory,
    books: Arc<ToolBooks>,
    /// One lease an instance, or any number where calls may run beside one another.
    is_exclusive: bool,
    state: Mutex<State>,
    /// Held while the pool is scaled: one size after another.
    scaling: Mutex<()>,
    /// Counts what moves in the queue, for those who report their position.
    moves: watch::Sender<u64>,
    /// Instances on their way out.
    leaving: TaskTracker,
}

struct State {
    queue: LeaseQueue,
    seats: BTreeMap<Member, Arc<Seat>>,
    waiting: HashMap<Ticket, oneshot::Sender<Result<Lease, CallFailure>>>,
    leased: HashMap<Member, Leased>,
    is_closed: bool,
}

/// When the oldest lease on an instance began.
#[derive(Clone, Copy)]
pub(crate) struct Leased {
    pub(crate) at: SystemTime,
    pub(crate) since: Instant,
}

/// One instance in its pool.
pub(crate) struct Seat {
    pub(crate) member: Member,
    pub(crate) alias: Option<String>,
    pub(crate) instance: Instance,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) book: Arc<ToolBook>,
    pub(crate) config: InstanceConfig,
}

impl Seat {
    pub(crate) fn call_timeout(&self) -> Option<Duration> {
        self.config.upstream.call_timeout
    }

    /// What the queue has to know of an instance that cannot be handed out, though its attendant may not have said so
    /// yet.
    fn obstacle(&self) -> Option<Condition> {
        match self.instance.status().state {
            InstanceState::Ready(upstream) if !upstream.has_ended() => None,
            InstanceState::Failed => Some(Condition::Failed),
            _ => Some(Condition::Coming),
        }
    }

    /// Whether calls take turns on one page.
    pub(crate) fn has_page(&self) -> bool {
        self.driver.overlap() == Overlap::InTurn
    }

    /// The browser's name and whether it is headless, where Greenroom knows.
    pub(crate) fn browser(&self) -> (String, Option<bool>) {
        match self.config.upstream.driver.browser() {
            Some(browser) => (browser.browser.name().to_owned(), Some(browser.headless)),
            None => (self.driver.name().to_owned(), None),
        }
    }
}

/// Exclusive use of one instance, where uses are exclusive. Dropping it returns the instance.
pub(crate) struct Lease {
    pool: Arc<Pool>,
    pub(crate) seat: Arc<Seat>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.release(self.seat.member);
    }
}

/// A place in the queue, or already a lease. Dropping it gives up either.
pub(crate) struct Waiting {
    pool: Arc<Pool>,
    ticket: Option<Ticket>,
    answer: oneshot::Receiver<Result<Lease, CallFailure>>,
    since: Instant,
    /// What is waited for, in words.
    what: String,
}

impl Waiting {
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub(crate) fn waited(&self) -> Duration {
        self.since.elapsed()
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    pub(crate) async fn lease(&mut self) -> Result<Lease, CallFailure> {
        (&mut self.answer).await.unwrap_or(Err(CallFailure::ShuttingDown))
    }

    /// How many are ahead, as long as it waits.
    pub(crate) fn ahead(&self) -> Option<usize> {
        self.pool.state().queue.ahead_of(self.ticket?)
    }

    /// Changes whenever the queue moves.
    pub(crate) fn moves(&self) -> watch::Receiver<u64> {
        self.pool.moves.subscribe()
    }

    /// What to say when the time is up. `limit` is the key that set it.
    pub(crate) fn too_long(&self, limit: &'static str) -> CallFailure {
        let state = self.pool.state();
        CallFailure::NoLease {
            what: self.what.clone(),
            waited: self.waited(),
            limit,
            waiting: state.queue.waiting(),
            situation: state.situation(),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.pool.state();
        state.waiting.remove(&ticket);
        if state.queue.cancel(ticket) {
            drop(state);
            self.pool.moved();
        }
    }
}

/// What scaling has begun.
#[derive(Debug, serde::Serialize)]
pub struct Scaled {
    pub pool: String,
    pub instances: usize,
    pub added: Vec<u32>,
    /// These go when their leases have ended.
    pub draining: Vec<u32>,
}

impl Pool {
    pub(crate) fn new(config: PoolConfig, drivers: DriverFactory, books: Arc<ToolBooks>) -> Arc<Self> {
        let instances = config.instances.clone();
        let made: Vec<_> =
            instances.into_iter().map(|instance| (drivers(&config, &instance), instance)).collect();
        let has_page = made.iter().any(|(driver, _)| driver.overlap() == Overlap::InTurn);
        let is_exclusive = !config.is_implicit || has_page;
        let capacity = if is_exclusive { 1 } else { usize::MAX };
        let state = State {
            queue: LeaseQueue::new(capacity, config.max_queue),
            seats: BTreeMap::new(),
            waiting: HashMap::new(),
            leased: HashMap::new(),
            is_closed: false,
        };
        let pool = Arc::new(Self {
            config,
            drivers,
            books,
            is_exclusive,
            state: Mutex::new(state),
            scaling: Mutex::default(),
            moves: watch::channel(0).0,
            leaving: TaskTracker::new(),
        });
        for (driver, instance) in made {
            pool.add(driver, instance);
        }
        pool
    }

    fn add(self: &Arc<Self>, driver: Arc<dyn Driver>, config: InstanceConfig) {
        let member = Member(config.id);
        let span = tracing::info_span!("instance", pool = self.config.name, id = config.id);
        let instance = span.in_scope(|| Instance::new(Arc::clone(&driver), config.upstream.supervision));
        let book = self.books.of(&driver, &config.upstream, &self.config);
        let alias = config.alias.clone();
        let seat = Arc::new(Seat { member, alias, instance, driver, book, config });
        let status = seat.instance.watch();
        tokio::spawn(attend(Arc::downgrade(self), Arc::downgrade(&seat), status));
        let mut state = self.state();
        state.queue.add(member);
        let is_wanted = self.config.start == Start::Eager || state.queue.waiting() > 0;
        if is_wanted && state.queue.wake(member) {
            seat.instance.demand();
        }
        state.seats.insert(member, seat);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moved(&self) {
        if self.moves.receiver_count() > 0 {
            self.moves.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    pub(crate) fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    /// All instances, those on their way out too.
    pub(crate) fn seats(&self) -> Vec<Arc<Seat>> {
        self.state().seats.values().cloned().collect()
    }

    /// An instance by its number or alias: one instance, whatever it is called.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Seat>, CallFailure> {
        // Looked up first: saying what there is instead takes the lock again.
        let found = self.state().find(name);
        found.ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> CallFailure {
        let label = |seat: &Arc<Seat>| match &seat.alias {
            Some(alias) => format!("{} ({alias})", seat.member),
            None => seat.member.to_string(),
        };
        let valid = self.seats().iter().map(label).collect::<Vec<_>>().join(", ");
        CallFailure::UnknownInstance { name: name.to_owned(), pool: self.name().to_owned(), valid }
    }

    /// Queues for an instance. Happens at once, so that the order of calls is the order of arrival.
    pub(crate) fn request(self: &Arc<Self>, instance: Option<&str>) -> Result<Waiting, CallFailure> {
        let (sender, answer) = oneshot::channel();
        let mut state = self.state();
        if state.is_closed {
            return Err(CallFailure::ShuttingDown);
        }
        let want = match instance {
            None => Want::Any,
            Some(name) => match state.find(name) {
                Some(seat) => Want::This(seat.member),
                None => {
                    drop(state);
                    return Err(self.unknown(name));
                }
            },
        };
        let mut waiting = Waiting {
            pool: Arc::clone(self),
            ticket: None,
            answer,
            since: Instant::now(),
            what: match want {
                Want::Any => format!("a browser of pool '{}'", self.name()),
                Want::This(member) => format!("instance {member} of pool '{}'", self.name()),
            },
        };
        match state.request(want) {
            lease::Answer::Leased(member) => {
                let lease = state.lease(self, member);
                drop(state);
                let _ = sender.send(Ok(lease));
            }
            lease::Answer::Waiting { ticket, wake } => {
                waiting.ticket = Some(ticket);
                state.waiting.insert(ticket, sender);
                if let Some(seat) = wake.and_then(|member| state.seats.get(&member)) {
                    seat.instance.demand();
                }
            }
            lease::Answer::Refused(refusal) => {
                // The guard goes first: dropping `waiting` takes the lock.
                let failure = self.refusal(&state, refusal);
                drop(state);
                return Err(failure);
            }
        }
        Ok(waiting)
    }

    fn release(self: &Arc<Self>, member: Member) {
        let mut state = self.state();
        let effects = state.release(member);
        self.let_go(&mut state, member);
        self.carry_out(state, effects);
    }

    fn set(self: &Arc<Self>, member: Member, condition: Condition) {
        let mut state = self.state();
        let effects = state.queue.set(member, condition);
        self.carry_out(state, effects);
    }

    /// Starts an instance anew. Whoever asks for it from now on waits for that.
    pub(crate) fn restart(self: &Arc<Self>, seat: &Seat, cause: &str) {
        self.set(seat.member, Condition::Coming);
        seat.instance.restart(cause);
    }

    /// Does what follows from a change, with the lock released: what is sent may come right back.
    fn carry_out(self: &Arc<Self>, mut state: MutexGuard<'_, State>, effects: Effects) {
        let mut answers = Vec::new();
        for (ticket, member) in effects.leased {
            let lease = state.lease(self, member);
            answers.push((state.waiting.remove(&ticket), Ok(lease)));
        }
        for (ticket, refusal) in effects.refused {
            answers.push((state.waiting.remove(&ticket), Err(self.refusal(&state, refusal))));
        }
        let wake = effects.wake.and_then(|member| state.seats.get(&member).cloned());
        drop(state);
        if let Some(seat) = wake {
            seat.instance.demand();
        }
        if !answers.is_empty() {
            self.moved();
        }
        for (sender, answer) in answers {
            // Whoever has left meanwhile gets nothing; a lease returns by being dropped.
            if let Some(sender) = sender {
                let _ = sender.send(answer);
            }
        }
    }

    fn refusal(&self, state: &State, refusal: Refusal) -> CallFailure {
        let pool = self.name().to_owned();
        match refusal {
            Refusal::Full { waiting } => CallFailure::QueueFull { pool, waiting },
            Refusal::Leaving(member) | Refusal::Unknown(member) => {
                CallFailure::InstanceLeaving { pool, instance: member.to_string() }
            }
            Refusal::NotStarted(member) | Refusal::Failed(member) => {
                let status = state.seats.get(&member).map(|seat| seat.instance.status());
                match status.and_then(|status| status.last_failure) {
                    Some(failure) if matches!(refusal, Refusal::NotStarted(_)) => {
                        CallFailure::Unavailable(Unavailable::NotStarted(failure))
                    }
                    Some(failure) if self.config.is_implicit => {
                        CallFailure::Unavailable(Unavailable::Failed(failure))
                    }
                    // Who asked for any and who asked for the only one hear the same.
                    _ if state.seats.len() == 1 => self.none_healthy(state),
                    failure => CallFailure::InstanceFailed {
                        pool,
                        instance: member.to_string(),
                        cause: failure.map_or_else(String::new, |failure| failure.to_string()),
                    },
                }
            }
            Refusal::NoneLeft => self.none_healthy(state),
        }
    }

    /// What to say when an instance went away after it was handed out.
    pub(crate) fn gone(&self, seat: &Seat, unavailable: Unavailable) -> CallFailure {
        match unavailable {
            Unavailable::Failed(_) => self.refusal(&self.state(), Refusal::Failed(seat.member)),
            other => other.into(),
        }
    }

    fn none_healthy(&self, state: &State) -> CallFailure {
        let causes =
            state.causes().into_iter().map(|(member, failure)| format!("Instance {member}: {failure}."));
        CallFailure::NoneHealthy {
            pool: self.name().to_owned(),
            is_default: self.config.is_default,
            causes: causes.collect::<Vec<_>>().join(" "),
        }
    }

    /// What `browser_pool_status` shows of each instance.
    pub(crate) fn snapshot(&self) -> Vec<(Arc<Seat>, Status, Option<Leased>)> {
        let state = self.state();
        let seat = |seat: &Arc<Seat>| {
            (Arc::clone(seat), seat.instance.status(), state.leased.get(&seat.member).copied())
        };
        state.seats.values().map(seat).collect()
    }

    /// How many wait in the queue.
    pub(crate) fn waiting(&self) -> usize {
        self.state().queue.waiting()
    }

    /// Grows or shrinks to so many instances. Those that go finish what they are doing.
    pub(crate) fn scale(self: &Arc<Self>, count: usize) -> Result<Scaled, Mistakes> {
        let _one_at_a_time = self.scaling.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut added, mut draining) = (Vec::new(), Vec::new());
        let mut active: Vec<u32> = {
            let state = self.state();
            let stays = |member: &&Member| state.queue.condition(**member) != Some(Condition::Leaving);
            state.seats.keys().filter(stays).map(|member| member.0).collect()
        };
        while active.len() > count {
            let id = active.pop().expect("there are more than wanted");
            self.set(Member(id), Condition::Leaving);
            let mut state = self.state();
            self.let_go(&mut state, Member(id));
            draining.push(id);
        }
        let taken: Vec<u32> = self.state().seats.keys().map(|member| member.0).collect();
        let new: Vec<u32> =
            (0..).filter(|id| !taken.contains(id)).take(count - active.len().min(count)).collect();
        for id in new {
            let config = self.config.instance(id)?;
            self.add((self.drivers)(&self.config, &config), config);
            added.push(id);
        }
        tracing::info!(pool = self.name(), instances = count, ?added, ?draining, "pool is scaled");
        Ok(Scaled { pool: self.name().to_owned(), instances: count, added, draining })
    }

    /// Ends an instance that is on its way out and not used any more.
    fn let_go(&self, state: &mut State, member: Member) {
        if state.queue.remove(member)
            && let Some(seat) = state.seats.remove(&member)
        {
            self.leaving.spawn(async move { seat.instance.stop().await });
        }
    }

    /// Refuses everybody who waits, and whoever comes from now on.
    pub(crate) fn close(&self) {
        let waiting = {
            let mut state = self.state();
            state.is_closed = true;
            std::mem::take(&mut state.waiting)
        };
        for sender in waiting.into_values() {
            let _ = sender.send(Err(CallFailure::ShuttingDown));
        }
    }

    /// Ends every instance. Returns when everything behind them is gone.
    pub(crate) async fn stop(&self) {
        let seats = self.seats();
        futures::future::join_all(seats.iter().map(|seat| seat.instance.stop())).await;
        self.leaving.close();
        self.leaving.wait().await;
    }
}

impl State {
    fn find(&self, name: &str) -> Option<Arc<Seat>> {
        let by_number = || self.seats.get(&Member(name.parse().ok()?));
        let by_alias = || self.seats.values().find(|seat| seat.alias.as_deref() == Some(name));
        by_number().or_else(by_alias).cloned()
    }

    fn request(&mut self, want: Want) -> lease::Answer {
        loop {
            let answer = self.queue.request(want);
            let lease::Answer::Leased(member) = answer else { return answer };
            let Some(obstacle) = self.obstacle(member) else { return answer };
            // It was free, so nobody waits for it, and nothing follows for others.
            self.queue.set(member, obstacle);
            self.queue.release(member);
        }
    }

    fn release(&mut self, member: Member) -> Effects {
        // One that has died under its call is not for the next in line.
        let obstacle = self.obstacle(member).map(|obstacle| self.queue.set(member, obstacle));
        let released = self.queue.release(member);
        if self.queue.leases(member) == 0 {
            self.leased.remove(&member);
        }
        // What is not ready is handed to nobody when it is released.
        obstacle.unwrap_or(released)
    }

    fn obstacle(&self, member: Member) -> Option<Condition> {
        self.seats.get(&member)?.obstacle()
    }

    fn lease(&mut self, pool: &Arc<Pool>, member: Member) -> Lease {
        let now = || Leased { at: SystemTime::now(), since: Instant::now() };
        self.leased.entry(member).or_insert_with(now);
        let seat = Arc::clone(self.seats.get(&member).expect("only members are leased"));
        Lease { pool: Arc::clone(pool), seat }
    }

    /// Why each instance is not there.
    fn causes(&self) -> Vec<(Member, Arc<greenroom_upstream::instance::Failure>)> {
        let cause = |seat: &Arc<Seat>| Some((seat.member, seat.instance.status().last_failure?));
        self.seats.values().filter_map(cause).collect()
    }

    /// What the instances are doing, in words.
    fn situation(&self) -> String {
        let mut counts: Vec<(String, usize)> = Vec::new();
        for seat in self.seats.values() {
            let word = match seat.instance.status().state {
                InstanceState::Ready(_) if self.leased.contains_key(&seat.member) => "in use".to_owned(),
                state => state.name().to_owned(),
            };
            match counts.iter_mut().find(|(known, _)| *known == word) {
                Some((_, count)) => *count += 1,
                None => counts.push((word, 1)),
            }
        }
        let parts: Vec<_> = counts.into_iter().map(|(word, count)| format!("{count} {word}")).collect();
        parts.join(", ")
    }
}

/// Tells the queue how an instance is, and keeps the list of its tools true: asks every upstream that comes up, and
/// whenever it says that something changed.
async fn attend(pool: Weak<Pool>, seat: Weak<Seat>, mut status: watch::Receiver<Status>) {
    let mut current: Option<(Arc<Upstream>, broadcast::Receiver<Notice>)> = None;
    let mut refusals = 0;
    loop {
        let now = status.borrow_and_update().clone();
        let (Some(pool), Some(seat)) = (pool.upgrade(), seat.upgrade()) else { return };
        let member = seat.member;
        if now.refusals > refusals {
            // Those who wait hear why; the next who comes may try again.
            refusals = now.refusals;
            pool.set(member, Condition::Dormant);
        }
        match now.state {
            // It has ended, and the next status will say so.
            InstanceState::Ready(upstream) if upstream.has_ended() => pool.set(member, Condition::Coming),
            InstanceState::Ready(upstream) => {
                let is_new = current.as_ref().is_none_or(|(known, _)| !Arc::ptr_eq(known, &upstream));
                let was_known = seat.book.is_known();
                if is_new {
                    current = Some((Arc::clone(&upstream), upstream.notices()));
                    // With a list at hand nobody needs to wait for the fresh one.
                    if !was_known {
                        seat.book.fetch(&upstream).await;
                    }
                }
                pool.set(member, Condition::Ready);
                if is_new && was_known {
                    seat.book.fetch(&upstream).await;
                }
            }
            InstanceState::Failed => {
                current = None;
                pool.set(member, Condition::Failed);
            }
            InstanceState::Starting | InstanceState::Restarting => {
                current = None;
                pool.set(member, Condition::Coming);
            }
            InstanceState::Unhealthy(_) => pool.set(member, Condition::Coming),
            InstanceState::Stopping => return,
            // Nobody has asked for it, or it is being asked just now.
            InstanceState::Stopped => current = None,
        }
        let book = Arc::clone(&seat.book);
        // Only weak from here on: whoever drops the engine ends what it holds.
        drop((pool, seat));
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
                    if let Some((upstream, _)) = &current {
                        book.fetch(upstream).await;
                    }
                }
                // It is going; its end shows in the status.
                Err(RecvError::Closed) => if status.changed().await.is_err() { return },
            },
        }
    }
}
