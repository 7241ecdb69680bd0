//! The sessions of the HTTP transport.

use std::collections::HashMap;
use std::process;
use std::sync::{Arc, Mutex};

use super::super::peer::Peer;
use crate::lock::lock;

#[derive(Default)]
pub(super) struct Sessions(Mutex<State>);

#[derive(Default)]
struct State {
    open: HashMap<String, Arc<Peer>>,
    opened: u64,
    answered_calls: u64,
}

impl Sessions {
    /// Opens a session and returns its id. The process is part of it, so that a session does not survive a
    /// restart by chance.
    pub(super) fn open(&self, peer: &Arc<Peer>) -> String {
        let mut state = lock(&self.0);
        state.opened += 1;
        let id = format!("fake-{}-{}", process::id(), state.opened);
        state.open.insert(id.clone(), Arc::clone(peer));
        id
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Peer>> {
        lock(&self.0).open.get(id).cloned()
    }

    pub(super) fn end(&self, peer: &Arc<Peer>) {
        lock(&self.0).open.retain(|_, open| !Arc::ptr_eq(open, peer));
    }

    /// Counts an answered tool call. The `limit`th one makes the server forget everyone, once.
    pub(super) fn count_call(&self, limit: Option<u64>) {
        let mut state = lock(&self.0);
        state.answered_calls += 1;
        if Some(state.answered_calls) == limit {
            for (_, peer) in state.open.drain() {
                peer.close_channel();
            }
        }
    }
}
