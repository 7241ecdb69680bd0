//! What happens, for whoever wants to know: one bus that never waits for a listener.

use std::time::{Duration, SystemTime};

use greenroom_core::ids::RefId;
use greenroom_store::CallStatus;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::sessions::Caller;

/// How many events a listener may be behind before it misses some.
const BACKLOG: usize = 1024;

/// Something that has happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The session of that name is not what it was: it may be new, elsewhere, or over.
    Session(String),
    Call(CallEvent),
    /// The listener was too slow; so many events are lost to it.
    Missed(u64),
}

/// A call has begun, or has been answered.
#[derive(Clone, Debug)]
pub struct CallEvent {
    pub ref_id: Option<RefId>,
    pub session: Option<String>,
    pub tool: String,
    pub status: CallStatus,
    /// When it was made.
    pub at: SystemTime,
    pub took: Option<Duration>,
}

#[derive(Clone)]
pub(crate) struct Events(broadcast::Sender<(Caller, Event)>);

impl Events {
    pub(crate) fn new() -> Self {
        Self(broadcast::channel(BACKLOG).0)
    }

    /// The event is only made where somebody listens.
    pub(crate) fn tell(&self, caller: &Caller, event: impl FnOnce() -> Event) {
        if self.0.receiver_count() > 0 {
            let _ = self.0.send((caller.clone(), event()));
        }
    }

    pub(crate) fn listen(&self, caller: &Caller) -> EventStream {
        EventStream { caller: caller.clone(), events: self.0.subscribe() }
    }
}

/// The events of one caller.
pub struct EventStream {
    caller: Caller,
    events: broadcast::Receiver<(Caller, Event)>,
}

impl EventStream {
    /// The next one; `None` when there will be no more.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            match self.events.recv().await {
                Ok((caller, event)) if caller == self.caller => return Some(event),
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => return Some(Event::Missed(missed)),
                Err(RecvError::Closed) => return None,
            }
        }
    }
}
