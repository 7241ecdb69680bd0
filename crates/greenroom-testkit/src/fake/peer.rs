//! One client: the process at the other end of stdio, or one HTTP session.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::outlet::Outlet;
use crate::latch::Latch;
use crate::lock::lock;

#[derive(Default)]
pub(super) struct Peer {
    /// The way for messages that belong to no request of the client.
    channel: Mutex<Option<Arc<dyn Outlet>>>,
    capabilities: Mutex<Value>,
    /// Calls that take their time, by the JSON text of their id; opening the latch cancels one.
    running: Mutex<HashMap<String, Arc<Latch>>>,
    /// Questions that the client has not answered yet.
    asked: Mutex<HashMap<i64, Sender<Value>>>,
    next_question: AtomicI64,
}

impl Peer {
    /// From now on messages go here. There is one channel at a time, so an older one is closed.
    pub(super) fn open_channel(&self, channel: &Arc<dyn Outlet>) {
        let older = lock(&self.channel).replace(Arc::clone(channel));
        if let Some(older) = older {
            older.close();
        }
    }

    /// Forgets a channel that the client has closed, unless another has taken its place.
    pub(super) fn drop_channel(&self, closed: &Arc<dyn Outlet>) {
        lock(&self.channel).take_if(|channel| Arc::ptr_eq(channel, closed));
    }

    pub(super) fn close_channel(&self) {
        let channel = lock(&self.channel).take();
        if let Some(channel) = channel {
            channel.close();
        }
    }

    pub(super) fn channel(&self) -> Option<Arc<dyn Outlet>> {
        lock(&self.channel).clone()
    }

    pub(super) fn set_capabilities(&self, capabilities: Value) {
        *lock(&self.capabilities) = capabilities;
    }

    pub(super) fn has_declared(&self, capability: &str) -> bool {
        lock(&self.capabilities).get(capability).is_some()
    }

    pub(super) fn begin(&self, id: &Value) -> Arc<Latch> {
        let latch = Arc::new(Latch::default());
        lock(&self.running).insert(id.to_string(), Arc::clone(&latch));
        latch
    }

    pub(super) fn end(&self, id: &Value) {
        lock(&self.running).remove(&id.to_string());
    }

    pub(super) fn cancel(&self, id: &Value) {
        if let Some(latch) = lock(&self.running).get(&id.to_string()) {
            latch.open();
        }
    }

    /// Sends a request to the client; its response comes out of the receiver.
    ///
    /// Ids count from 0, as the TypeScript SDK's do, so they are the same as ids of the client's requests:
    /// whoever mixes up the two directions is found out.
    pub(super) fn ask(&self, outlet: &dyn Outlet, method: &str) -> io::Result<Receiver<Value>> {
        let id = self.next_question.fetch_add(1, Ordering::SeqCst);
        let (sender, receiver) = mpsc::channel();
        lock(&self.asked).insert(id, sender);
        outlet.send(&json!({ "method": method, "jsonrpc": "2.0", "id": id }).to_string())?;
        Ok(receiver)
    }

    /// Takes the client's response to a question. One that was not asked is dropped.
    pub(super) fn take_response(&self, response: Value) {
        let asked = response["id"].as_i64().and_then(|id| lock(&self.asked).remove(&id));
        if let Some(sender) = asked {
            // The asking call may have given up waiting.
            let _ = sender.send(response);
        }
    }
}
