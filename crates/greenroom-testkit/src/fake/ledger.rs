//! What the fake has seen so far, for tests to ask about.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::lock::lock;

#[derive(Default)]
pub(super) struct Ledger {
    calls: AtomicU64,
    pings: AtomicU64,
    cancelled: Mutex<Vec<Value>>,
    order: Mutex<Vec<String>>,
}

impl Ledger {
    /// Counts a tool call and returns its number, from 1 on.
    pub(super) fn count_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(super) fn count_ping(&self) {
        self.pings.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn note_cancelled(&self, request: Value) {
        lock(&self.cancelled).push(request);
    }

    pub(super) fn note_order(&self, event: String) {
        lock(&self.order).push(event);
    }

    pub(super) fn order(&self) -> Vec<String> {
        lock(&self.order).clone()
    }

    pub(super) fn summary(&self) -> Value {
        let cancelled = lock(&self.cancelled);
        let pings = self.pings.load(Ordering::SeqCst);
        json!({
            "calls": self.calls.load(Ordering::SeqCst),
            "cancelled": cancelled.len(),
            "cancelledIds": *cancelled,
            "pings": pings,
            "pingSeen": pings > 0,
        })
    }
}
