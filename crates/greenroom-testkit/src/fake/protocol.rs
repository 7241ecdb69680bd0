//! The protocol: which message means what.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde_json::{Value, json};

use super::args::Args;
use super::catalog::{Catalog, Found};
use super::crash;
use super::ledger::Ledger;
use super::options::Options;
use super::outlet::{self, Outlet};
use super::peer::Peer;
use super::reply::{INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Reply};
use super::starts;
use super::tools::TextCache;
use super::turn::{Call, Outcome, Step, Turn};
use crate::lock::lock;

/// The revisions this server speaks, the preferred one last.
pub(super) const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The server: all that its clients share.
pub(super) struct Fake {
    pub(super) options: Options,
    pub(super) ledger: Ledger,
    pub(super) catalog: Catalog,
    pub(super) texts: TextCache,
    /// The process id of the child that `--spawn-child` started.
    pub(super) child: Option<u32>,
    peers: Mutex<Vec<Weak<Peer>>>,
}

impl Fake {
    pub(super) fn new(options: Options, child: Option<u32>) -> Self {
        Self {
            catalog: Catalog::new(options.extra_tools, options.loud_echo),
            options,
            ledger: Ledger::default(),
            texts: TextCache::default(),
            child,
            peers: Mutex::default(),
        }
    }

    pub(super) fn add_peer(&self) -> Arc<Peer> {
        let peer = Arc::new(Peer::default());
        let mut peers = lock(&self.peers);
        peers.retain(|peer| peer.strong_count() > 0);
        peers.push(Arc::downgrade(&peer));
        peer
    }

    /// Tells every client that has a channel for it.
    pub(super) fn announce_tools(&self) {
        for peer in lock(&self.peers).iter().filter_map(Weak::upgrade) {
            if let Some(channel) = peer.channel() {
                // A client that has just gone will ask for the list when it comes back.
                let _ = outlet::notify(&*channel, "notifications/tools/list_changed", None);
            }
        }
    }

    /// Takes a message of the client. What comes back is a request that wants an answer.
    pub(super) fn receive(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        outlet: &Arc<dyn Outlet>,
        mut message: Value,
    ) -> Option<Turn> {
        let id = message.get_mut("id").map(Value::take);
        let Some(method) = message.get("method").and_then(Value::as_str).map(str::to_owned) else {
            if let (Some(id), true) = (&id, message.get("result").is_some() || message.get("error").is_some())
            {
                message["id"] = id.clone();
                peer.take_response(message);
                return None;
            }
            let reply = Reply::error(INVALID_REQUEST, "Invalid Request");
            return Some(Turn { id: id.unwrap_or(Value::Null), step: Step::Answer(reply) });
        };
        let params = take(&mut message, "params");
        let Some(id) = id else {
            self.take_notification(peer, &method, params);
            return None;
        };
        let step = match self.answer(peer, &method, params) {
            Outcome::Now(reply) => Step::Answer(reply),
            Outcome::Later(work) => {
                let (fake, peer, outlet) = (Arc::clone(self), Arc::clone(peer), Arc::clone(outlet));
                // Noted here and not where the work is done: the cancellation may be the next message.
                let cancelled = peer.begin(&id);
                Step::Work(Call { fake, peer, outlet, cancelled }, work)
            }
        };
        Some(Turn { id, step })
    }

    fn take_notification(&self, peer: &Peer, method: &str, mut params: Value) {
        if method == "notifications/cancelled" {
            let request = take(&mut params, "requestId");
            if !self.options.ignore_cancel {
                peer.cancel(&request);
            }
            self.ledger.note_cancelled(request);
        }
    }

    fn answer(self: &Arc<Self>, peer: &Peer, method: &str, params: Value) -> Outcome {
        match method {
            "tools/call" => self.call(params),
            "tools/list" => Outcome::Now(Reply::Shared(self.catalog.listing())),
            "initialize" => self.initialize(peer, params),
            "ping" => {
                self.ledger.count_ping();
                Outcome::Now(Reply::Json("{}".to_owned()))
            }
            _ => Outcome::Now(Reply::error(METHOD_NOT_FOUND, "Method not found")),
        }
    }

    fn initialize(&self, peer: &Peer, mut params: Value) -> Outcome {
        let asked = params["protocolVersion"].as_str().unwrap_or_default();
        let preferred = REVISIONS[REVISIONS.len() - 1];
        let revision = REVISIONS.into_iter().find(|revision| *revision == asked).unwrap_or(preferred);
        peer.set_capabilities(take(&mut params, "capabilities"));
        let reply = Reply::result(&json!({
            "protocolVersion": revision,
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": {
                "name": "fake-upstream",
                "title": "Fake upstream",
                "version": env!("CARGO_PKG_VERSION"),
            },
            "instructions": "A stand-in for a browser server. Its tools succeed, wait and fail on request.",
        }));
        if starts::should_hang(&self.options) {
            return hang();
        }
        match self.options.late_start {
            Some(delay) => delayed(Outcome::Now(reply), delay),
            None => Outcome::Now(reply),
        }
    }

    fn call(self: &Arc<Self>, mut params: Value) -> Outcome {
        let number = self.ledger.count_call();
        if self.options.crash_on_call == Some(number) {
            crash::scripted(&self.options);
        }
        if self.options.hang_on_call == Some(number) {
            return hang();
        }
        let (values, meta) = (take(&mut params, "arguments"), take(&mut params, "_meta"));
        let name = params["name"].as_str().unwrap_or_default();
        let outcome = match self.catalog.find(name) {
            Some(Found::BuiltIn(tool)) => {
                (tool.run)(self, &Args::new(tool.name, values, meta)).unwrap_or_else(Outcome::Now)
            }
            Some(Found::Listed) => Outcome::Now(Reply::text(&format!("{name} was called with {values}"))),
            None => Outcome::Now(Reply::error(INVALID_PARAMS, format!("Unknown tool: {name}"))),
        };
        match self.options.late {
            Some(delay) => delayed(outcome, delay),
            None => outcome,
        }
    }
}

/// A member of an object, or null: clients under test send params of any shape.
fn take(object: &mut Value, member: &str) -> Value {
    object.get_mut(member).map_or(Value::Null, Value::take)
}

/// Never an answer; the work ends when the call is cancelled.
fn hang() -> Outcome {
    Outcome::Later(Box::new(|call| {
        call.cancelled.wait();
        Reply::Silence
    }))
}

fn delayed(outcome: Outcome, delay: Duration) -> Outcome {
    Outcome::Later(Box::new(move |call| {
        let reply = match outcome {
            Outcome::Now(reply) => reply,
            Outcome::Later(work) => work(call),
        };
        call.cancelled.wait_for(delay);
        reply
    }))
}
