//! The one upstream that calls go to: launched when it is first needed, and again after it has gone.

use std::sync::Arc;
use std::time::Instant;

use greenroom_upstream::{Driver, LaunchError, Upstream};
use tokio::sync::Mutex;

pub(crate) struct Slot {
    driver: Arc<dyn Driver>,
    // Held while launching, so that concurrent calls share one launch.
    state: Mutex<State>,
}

enum State {
    Empty,
    Live(Arc<Upstream>),
    /// A launch failed at that time. Those who were waiting for it hear so; the next one tries again.
    Failed(Instant, Arc<LaunchError>),
}

/// An upstream, and whether this caller is the one for whom it was launched.
pub(crate) struct Acquired {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) is_new: bool,
}

impl Slot {
    pub(crate) fn new(driver: Arc<dyn Driver>) -> Self {
        Self { driver, state: Mutex::new(State::Empty) }
    }

    pub(crate) async fn acquire(&self) -> Result<Acquired, Arc<LaunchError>> {
        let asked = Instant::now();
        let mut state = self.state.lock().await;
        match &*state {
            State::Live(upstream) => return Ok(Acquired { upstream: Arc::clone(upstream), is_new: false }),
            State::Failed(when, error) if *when > asked => return Err(Arc::clone(error)),
            State::Empty | State::Failed(..) => {}
        }
        let begun = Instant::now();
        match self.driver.launch().await {
            Ok(upstream) => {
                let upstream = Arc::new(upstream);
                tracing::info!(
                    driver = self.driver.name(),
                    server = upstream.info().server_info.name,
                    version = upstream.info().server_info.version,
                    pid = upstream.pid(),
                    ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
                    "upstream is up"
                );
                *state = State::Live(Arc::clone(&upstream));
                Ok(Acquired { upstream, is_new: true })
            }
            Err(error) => {
                let error = Arc::new(error);
                *state = State::Failed(Instant::now(), Arc::clone(&error));
                Err(error)
            }
        }
    }

    /// Forgets this upstream, if it is still the one; the next call launches another.
    pub(crate) async fn forget(&self, gone: &Arc<Upstream>) {
        let mut state = self.state.lock().await;
        if matches!(&*state, State::Live(live) if Arc::ptr_eq(live, gone)) {
            *state = State::Empty;
        }
    }

    pub(crate) async fn take(&self) -> Option<Arc<Upstream>> {
        match std::mem::replace(&mut *self.state.lock().await, State::Empty) {
            State::Live(upstream) => Some(upstream),
            State::Empty | State::Failed(..) => None,
        }
    }
}
