//! What the bridge keeps in mind: who waits for an answer, what the handshake was, and whether there is a server.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use greenroom_api::mcp::lines::Writer;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Requests that may wait for the server at once. Beyond that the agent is not read any further.
const MOST_IN_FLIGHT: usize = 1024;

/// How long a server that went away is said to be restarting.
const RESTART: Duration = Duration::from_secs(10);

/// Says in a request of the newer era which revision it is written in.
const NEWER_ERA: &[u8] = b"io.modelcontextprotocol/protocolVersion";

const SERVER_ERROR: i32 = -32000;

type Server = Arc<tokio::sync::Mutex<Writer>>;

#[derive(Default)]
pub(super) struct Desk {
    state: Mutex<State>,
    answered: Notify,
}

#[derive(Default)]
struct State {
    server: Option<Server>,
    gone_since: Option<Instant>,
    /// Why a server that is there cannot be used.
    refusal: Option<String>,
    /// By id, written the one way that JSON has for it.
    in_flight: HashMap<String, Asked>,
    initialize: Option<Initialize>,
    initialized: Option<Bytes>,
    /// What of the handshake the server at hand has heard.
    said_initialize: bool,
    said_initialized: bool,
}

struct Initialize {
    id: String,
    line: Bytes,
    is_answered: bool,
}

#[derive(Clone, Copy)]
struct Asked {
    is_call: bool,
    is_newer: bool,
}

/// What becomes of a line of the agent.
pub(super) enum Verdict {
    PassOn(Server),
    Answer(Bytes),
    Unreadable(serde_json::Error),
    Nothing,
}

/// What a new server has to hear next.
pub(super) enum Replay {
    Say {
        line: Bytes,
        back: Writer,
    },
    Ask {
        line: Bytes,
        id: String,
        is_heard: bool,
        back: Writer,
    },
    /// Everything was said, and the way up is open.
    Done,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Cancelled<'a> {
    #[serde(rename = "requestId", borrow)]
    id: &'a RawValue,
}

impl Desk {
    /// With a server that is there from the beginning.
    pub(super) fn new(writer: Writer) -> Self {
        let desk = Self::default();
        desk.lock().server = Some(Arc::new(tokio::sync::Mutex::new(writer)));
        desk
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides about a line of the agent. Waits where too many wait already.
    pub(super) async fn hear_agent(&self, line: &[u8]) -> Verdict {
        let head = match serde_json::from_slice::<Head<'_>>(line) {
            Ok(head) => head,
            // The server says what is wrong with it.
            Err(error) => return self.server().map_or(Verdict::Unreadable(error), Verdict::PassOn),
        };
        let is_request = head.id.is_some() && head.method.is_some();
        loop {
            let answered = self.answered.notified();
            if let Some(verdict) = self.judge(line, &head, is_request) {
                return verdict;
            }
            answered.await;
        }
    }

    fn judge(&self, line: &[u8], head: &Head<'_>, is_request: bool) -> Option<Verdict> {
        let mut state = self.lock();
        let is_full = is_request && state.in_flight.len() >= MOST_IN_FLIGHT;
        (!is_full).then(|| state.judge(line, head))
    }

    pub(super) fn hear_server(&self, line: &[u8]) {
        let Some(id) = answers(line) else { return };
        let mut state = self.lock();
        state.in_flight.remove(&id);
        if let Some(initialize) = &mut state.initialize
            && initialize.id == id
        {
            initialize.is_answered = true;
        }
        drop(state);
        self.answered.notify_waiters();
    }

    /// The answers to everything that waits, now that nobody else will give them.
    pub(super) fn server_left(&self) -> Vec<Bytes> {
        let mut state = self.lock();
        state.server = None;
        state.gone_since.get_or_insert_with(Instant::now);
        state.refusal = None;
        (state.said_initialize, state.said_initialized) = (false, false);
        let asked: Vec<_> = state.in_flight.drain().collect();
        drop(state);
        self.answered.notify_waiters();
        let text = "The Greenroom server went away while it worked on this, so it may or may not have been done. Nothing that was \
                    already answered is undone. The server's browsers went with it: try again in a moment, and begin with \
                    navigating.";
        asked.iter().map(|(id, asked)| excuse(id, *asked, text)).collect()
    }

    /// Remembers why there is no server. Says whether that is news.
    pub(super) fn explain(&self, refusal: Option<String>) -> bool {
        let mut state = self.lock();
        let is_news = state.refusal != refusal;
        state.refusal = refusal;
        is_news
    }

    /// The next thing that a new server has to hear. When it has heard everything it is the one that is used.
    pub(super) fn next_replay(&self, writer: Writer) -> Replay {
        let mut state = self.lock();
        let State { initialize, initialized, said_initialize, said_initialized, .. } = &mut *state;
        if let Some(initialize) = initialize
            && !std::mem::replace(said_initialize, true)
        {
            return Replay::Ask {
                line: initialize.line.clone(),
                id: initialize.id.clone(),
                is_heard: initialize.is_answered,
                back: writer,
            };
        }
        if let Some(line) = initialized
            && !std::mem::replace(said_initialized, true)
        {
            return Replay::Say { line: line.clone(), back: writer };
        }
        state.server = Some(Arc::new(tokio::sync::Mutex::new(writer)));
        (state.gone_since, state.refusal) = (None, None);
        Replay::Done
    }

    /// Whether the agent has gone through the older era's handshake.
    pub(super) fn has_met(&self) -> bool {
        self.lock().initialized.is_some()
    }

    pub(super) fn server(&self) -> Option<Server> {
        self.lock().server.clone()
    }
}

impl State {
    fn judge(&mut self, line: &[u8], head: &Head<'_>) -> Verdict {
        let (Some(id), Some(method)) = (head.id.and_then(written), &head.method) else {
            return self.judge_notice(line, head);
        };
        let is_up = self.server.is_some();
        if method == "initialize" {
            // A server that is not there yet, or goes before it has answered, is followed by one that does.
            self.said_initialize = is_up;
            let line = Bytes::copy_from_slice(line);
            self.initialize = Some(Initialize { id, line, is_answered: false });
            self.initialized = None;
            return self.pass_on();
        }
        let is_newer = memchr::memmem::find(line, NEWER_ERA).is_some();
        let asked = Asked { is_call: method == "tools/call", is_newer };
        if is_up {
            self.in_flight.insert(id, asked);
            return self.pass_on();
        }
        Verdict::Answer(match method.as_ref() {
            "ping" => answer(&id, "result", &result(json!({}), is_newer)),
            _ => excuse(&id, asked, &self.situation()),
        })
    }

    /// What needs no answer: where there is no server it is lost, but for the handshake.
    fn judge_notice(&mut self, line: &[u8], head: &Head<'_>) -> Verdict {
        match head.method.as_deref() {
            Some("notifications/initialized") => {
                self.said_initialized = self.server.is_some();
                self.initialized = Some(Bytes::copy_from_slice(line));
            }
            // Nobody waits for that one any more.
            Some("notifications/cancelled") => {
                let cancelled = head.params.and_then(|params| {
                    serde_json::from_str::<Cancelled<'_>>(params.get()).ok().and_then(|it| written(it.id))
                });
                if let Some(id) = cancelled {
                    self.in_flight.remove(&id);
                }
            }
            _ => {}
        }
        self.pass_on()
    }

    fn pass_on(&self) -> Verdict {
        self.server.clone().map_or(Verdict::Nothing, Verdict::PassOn)
    }

    fn situation(&self) -> String {
        let away = self.gone_since.map(|since| since.elapsed()).unwrap_or_default();
        match &self.refusal {
            Some(why) => format!(
                "The Greenroom server that came back cannot be used: {why}. After that, start this MCP connection anew."
            ),
            None if away < RESTART => "The Greenroom server is restarting; try again in a moment. Nothing was lost that was already \
                 answered, but its browsers begin anew."
                .to_owned(),
            None => format!(
                "There has been no Greenroom server for {} seconds. Start it again with `greenroom serve`; calls work again as \
                 soon as it is there.",
                away.as_secs()
            ),
        }
    }
}

/// The id that a line answers, if it is an answer.
pub(super) fn answers(line: &[u8]) -> Option<String> {
    let head = serde_json::from_slice::<Head<'_>>(line).ok()?;
    if head.method.is_some() { None } else { written(head.id?) }
}

/// An id, written the way that everybody writes it.
fn written(id: &RawValue) -> Option<String> {
    serde_json::from_str::<Value>(id.get()).ok().map(|id| id.to_string())
}

/// For a call a result, because that is what an agent gets to read; for everything else an error.
fn excuse(id: &str, asked: Asked, text: &str) -> Bytes {
    if asked.is_call {
        let content = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
        answer(id, "result", &result(content, asked.is_newer))
    } else {
        answer(id, "error", &json!({ "code": SERVER_ERROR, "message": text }))
    }
}

/// In the newer era a result says of what type it is.
fn result(mut result: Value, is_newer: bool) -> Value {
    if is_newer {
        result["resultType"] = json!("complete");
    }
    result
}

fn answer(id: &str, kind: &str, body: &Value) -> Bytes {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{kind}\":{body}}}\n").into()
}
