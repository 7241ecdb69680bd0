//! One call's way into the record, and out to its caller.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use greenroom_core::ids::RefId;
use greenroom_core::text;
use greenroom_store::{CallStatus, Finished, NewCall};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::call::{CallFailure, Served};
use crate::capture::Caught;
use crate::history::{Flight, History, Noted};
use crate::reply::{About, Manner, compose};

/// Beyond this, answers are worked on where nobody waits.
const LARGE: usize = 64 * 1024;

/// How much of what went wrong is kept beside the result that says it, in bytes.
const LONGEST_ERROR: usize = 4096;

pub(crate) struct Note {
    history: Arc<History>,
    /// `None` once it is written down, or not.
    call: Option<NewCall>,
    tool: String,
    owner: String,
    session: Option<String>,
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
    pub(crate) owner: String,
    /// The life of its session.
    pub(crate) session: Option<String>,
    pub(crate) tool: &'a str,
    pub(crate) arguments: &'a Map<String, Value>,
    /// When it arrived.
    pub(crate) since: Instant,
}

impl Note {
    pub(crate) fn new(history: &Arc<History>, entry: Entry<'_>, manner: Manner, can_read: bool) -> Self {
        Self::with_parent(history, entry, None, manner, can_read)
    }

    fn with_parent(
        history: &Arc<History>,
        entry: Entry<'_>,
        parent: Option<RefId>,
        manner: Manner,
        can_read: bool,
    ) -> Self {
        let at = SystemTime::now();
        let call = history.is_on().then(|| NewCall {
            ref_id: entry.ref_id.unwrap_or_else(RefId::new_v4),
            owner: entry.owner.clone(),
            session: entry.session.clone(),
            parent,
            tool: entry.tool.to_owned(),
            params: serde_json::to_string(entry.arguments).expect("JSON can be written"),
            at,
        });
        Self {
            history: Arc::clone(history),
            call,
            tool: entry.tool.to_owned(),
            owner: entry.owner,
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
            owner: self.owner.clone(),
            session: self.session.clone(),
            tool,
            arguments,
            since: Instant::now(),
        };
        let manner = Manner { budget, ..self.manner };
        Self::with_parent(&self.history, entry, self.ref_id, manner, self.can_read)
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
        match self.history.begin(self.call.take()?).await {
            Noted::Yes(ref_id) => {
                self.ref_id = Some(ref_id);
                self.flight = self.is_chosen.then(|| self.history.take_off(ref_id));
                None
            }
            Noted::No => None,
            Noted::Known(ref_id) => Some(ref_id),
        }
    }

    /// Writes down what became of it, and makes the reply.
    pub(crate) async fn finish(
        &mut self,
        result: Result<Bytes, CallFailure>,
        caught: Caught,
        served: Option<&Served>,
    ) -> Result<Bytes, CallFailure> {
        let Some(ref_id) = self.ref_id else { return result };
        let error = match &result {
            Ok(_) if !caught.is_error => None,
            Ok(_) => Some(caught.error()),
            Err(failure) => Some(failure.to_string()),
        };
        let error = error.map(|text| text::beginning(text, LONGEST_ERROR));
        let page = caught.page();
        let finished = Finished {
            ref_id,
            status: if error.is_some() { CallStatus::Error } else { CallStatus::Success },
            result: result.as_ref().ok().filter(|_| caught.result.is_none()).cloned(),
            snapshot: caught.capture.snapshot.clone(),
            console: caught.capture.console.clone(),
            error,
            failure: result.as_ref().err().and_then(CallFailure::kind).map(|kind| kind.name().to_owned()),
            at: SystemTime::now(),
            took: self.since.elapsed(),
            waited: served.map(|served| served.waited).unwrap_or_default(),
            pool: served.map(|served| served.pool.clone()).filter(|pool| !pool.is_empty()),
            instance: served.and_then(|served| served.instance.clone().or_else(|| served.browser.clone())),
            url: page.map(|page| page.url.clone()),
            title: page.map(|page| page.title.clone()),
            blobs: caught.blob_refs(),
        };
        if !self.history.finish(finished).await {
            // What cannot be read later is returned now.
            self.ref_id = None;
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
