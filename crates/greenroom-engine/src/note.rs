//! One call's way into the record, and out to its caller.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use greenroom_core::ids::RefId;
use greenroom_core::text;
use greenroom_store::{CallStatus, Finished, NewCall};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::call::{CallFailure, Served};
use crate::capture::Caught;
use crate::events::{CallEvent, Event, Events};
use crate::history::{Flight, History, Noted};
use crate::reply::{About, Manner, compose};
use crate::sessions::Caller;

/// Beyond this, answers are worked on where nobody waits.
const LARGE: usize = 64 * 1024;

/// How much of what went wrong is kept beside the result that says it, in bytes.
const LONGEST_ERROR: usize = 4096;

pub(crate) struct Note {
    history: Arc<History>,
    events: Events,
    /// `None` once it is written down, or not.
    call: Option<NewCall>,
    tool: String,
    caller: Caller,
    owner: String,
    /// Record and name.
    session: Option<(String, String)>,
    /// Set while and as long as the call is on record.
    ref_id: Option<RefId>,
    /// Whether its id was chosen by its caller, who may ask for it again.
    is_chosen: bool,
    flight: Option<Flight>,
    since: Instant,
    at: SystemTime,
    manner: Manner,
    /// Whether the caller has a way to read what is not returned.
    can_read: bool,
}

/// What a call is on record as.
pub(crate) struct Entry<'a> {
    pub(crate) ref_id: Option<RefId>,
    pub(crate) caller: Caller,
    /// The life of its session, and what its caller calls it.
    pub(crate) session: Option<(String, String)>,
    pub(crate) tool: &'a str,
    pub(crate) arguments: &'a Map<String, Value>,
    /// When it arrived.
    pub(crate) since: Instant,
}

impl Note {
    pub(crate) fn new(
        history: &Arc<History>,
        events: &Events,
        entry: Entry<'_>,
        manner: Manner,
        can_read: bool,
    ) -> Self {
        Self::with_parent(history, events, entry, None, manner, can_read)
    }

    fn with_parent(
        history: &Arc<History>,
        events: &Events,
        entry: Entry<'_>,
        parent: Option<RefId>,
        manner: Manner,
        can_read: bool,
    ) -> Self {
        let at = SystemTime::now();
        let owner = entry.caller.to_string();
        let call = history.is_on().then(|| NewCall {
            ref_id: entry.ref_id.unwrap_or_else(RefId::new_v4),
            owner: owner.clone(),
            session: entry.session.as_ref().map(|(record, _)| record.clone()),
            parent,
            tool: entry.tool.to_owned(),
            params: serde_json::to_string(entry.arguments).expect("JSON can be written"),
            at,
        });
        Self {
            history: Arc::clone(history),
            events: events.clone(),
            call,
            tool: entry.tool.to_owned(),
            caller: entry.caller,
            owner,
            session: entry.session,
            ref_id: None,
            is_chosen: entry.ref_id.is_some(),
            flight: None,
            since: entry.since,
            at,
            manner,
            can_read: can_read && history.is_on(),
        }
    }

    /// A step of this script, which has so many bytes of text left.
    pub(crate) fn step(&self, tool: &str, arguments: &Map<String, Value>, budget: usize) -> Self {
        let entry = Entry {
            ref_id: None,
            caller: self.caller.clone(),
            session: self.session.clone(),
            tool,
            arguments,
            since: Instant::now(),
        };
        let manner = Manner { budget, ..self.manner };
        Self::with_parent(&self.history, &self.events, entry, self.ref_id, manner, self.can_read)
    }

    /// It began earlier than it is written down.
    pub(crate) fn set_time(&mut self, at: SystemTime) {
        self.at = at;
        if let Some(call) = &mut self.call {
            call.at = at;
        }
    }

    pub(crate) fn ref_id(&self) -> Option<RefId> {
        self.ref_id
    }

    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }

    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// Whether what the answer calls by a file is called by a ref id in the reply.
    pub(crate) fn replaces_links(&self) -> bool {
        self.can_read && self.ref_id.is_some()
    }

    /// How long a text may be before it is cut; 0 for any length.
    pub(crate) fn budget(&self) -> usize {
        if self.can_read { self.manner.budget } else { 0 }
    }

    /// Writes down that the call has arrived. Gives back its id where there is such a call already.
    pub(crate) async fn begin(&mut self) -> Option<RefId> {
        if let Some(call) = self.call.take() {
            match self.history.begin(call).await {
                Noted::Yes(ref_id) => {
                    self.ref_id = Some(ref_id);
                    self.flight = self.is_chosen.then(|| self.history.take_off(ref_id));
                }
                Noted::No => {}
                Noted::Known(ref_id) => return Some(ref_id),
            }
        }
        self.tell(CallStatus::Pending, None);
        None
    }

    fn tell(&self, status: CallStatus, took: Option<Duration>) {
        self.events.tell(&self.caller, || {
            Event::Call(CallEvent {
                ref_id: self.ref_id,
                session: self.session.as_ref().map(|(_, name)| name.clone()),
                tool: self.tool.clone(),
                status,
                at: self.at,
                took,
            })
        });
    }

    /// Writes down what became of it, and makes the reply.
    pub(crate) async fn finish(
        &mut self,
        result: Result<Bytes, CallFailure>,
        caught: Caught,
        served: Option<&Served>,
    ) -> Result<Bytes, CallFailure> {
        let status = if result.is_err() || caught.is_error { CallStatus::Error } else { CallStatus::Success };
        let took = self.since.elapsed();
        let Some(ref_id) = self.ref_id else {
            self.tell(status, Some(took));
            return result;
        };
        let error = match &result {
            Ok(_) if !caught.is_error => None,
            Ok(_) => Some(caught.error()),
            Err(failure) => Some(failure.to_string()),
        };
        let error = error.map(|text| text::beginning(text, LONGEST_ERROR));
        let page = caught.page();
        let finished = Finished {
            ref_id,
            status,
            result: result.as_ref().ok().filter(|_| caught.result.is_none()).cloned(),
            snapshot: caught.capture.snapshot.clone(),
            console: caught.capture.console.clone(),
            error,
            failure: result.as_ref().err().and_then(CallFailure::kind).map(|kind| kind.name().to_owned()),
            at: SystemTime::now(),
            took,
            waited: served.map(|served| served.waited).unwrap_or_default(),
            pool: served.map(|served| served.pool.clone()).filter(|pool| !pool.is_empty()),
            instance: served.and_then(|served| served.instance.clone().or_else(|| served.browser.clone())),
            url: page.map(|page| page.url.clone()),
            title: page.map(|page| page.title.clone()),
            blobs: caught.blob_refs(),
        };
        let is_kept = self.history.finish(finished).await;
        if !is_kept {
            self.ref_id = None;
        }
        self.tell(status, Some(took));
        if !is_kept {
            // What cannot be read later is returned now.
            return result;
        }
        if let Some(leftover) = &caught.capture.leftover {
            let _ = tokio::fs::remove_file(leftover).await;
        }
        self.flight = None;
        if !self.can_read {
            return result;
        }
        let session = served.and_then(|served| served.session.as_deref());
        let about = About { ref_id, session, tool: &self.tool, at: self.at };
        let (bytes, manner) = (result?, self.manner);
        let size = bytes.len() + caught.capture.snapshot.as_ref().map_or(0, |snapshot| snapshot.len());
        if size < LARGE {
            return Ok(compose(manner, &about, bytes, caught));
        }
        // Comparing and cutting large pages takes a while, in which others are served.
        let (tool, session, at) = (self.tool.clone(), session.map(str::to_owned), self.at);
        let composed = tokio::task::spawn_blocking(move || {
            let about = About { ref_id, session: session.as_deref(), tool: &tool, at };
            compose(manner, &about, bytes, caught)
        });
        Ok(composed.await.expect("composing does not panic"))
    }
}
