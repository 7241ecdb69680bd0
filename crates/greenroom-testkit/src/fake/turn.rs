//! The answering of one request, at once or later.

use std::io;
use std::sync::Arc;

use serde_json::Value;

use super::outlet::{self, Outlet};
use super::peer::Peer;
use super::protocol::Fake;
use super::reply::Reply;
use crate::latch::Latch;

pub(super) enum Outcome {
    Now(Reply),
    Later(Work),
}

pub(super) type Work = Box<dyn FnOnce(&Call) -> Reply + Send>;

/// What work that is done later has at hand.
pub(super) struct Call {
    pub(super) fake: Arc<Fake>,
    pub(super) peer: Arc<Peer>,
    pub(super) outlet: Arc<dyn Outlet>,
    /// Opens when the client cancels the call.
    pub(super) cancelled: Arc<Latch>,
}

/// A request on its way to an answer.
pub(super) struct Turn {
    pub(super) id: Value,
    pub(super) step: Step,
}

pub(super) enum Step {
    Answer(Reply),
    Work(Call, Work),
}

impl Turn {
    /// Whether finishing this may block.
    pub(super) fn takes_time(&self) -> bool {
        matches!(self.step, Step::Work(..))
    }

    /// Does the work, if any, and answers. A call that was cancelled is not answered.
    pub(super) fn finish(self, fake: &Fake, outlet: &dyn Outlet) -> io::Result<()> {
        let reply = match self.step {
            Step::Answer(reply) => reply,
            Step::Work(call, work) => {
                let reply = work(&call);
                call.peer.end(&self.id);
                if call.cancelled.is_open() { Reply::Silence } else { reply }
            }
        };
        outlet::answer(outlet, &self.id, &reply, fake.options.id_first)
    }
}
