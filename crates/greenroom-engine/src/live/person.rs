//! A person at a session: what they do to the page, and whether agents have to wait for them.
//!
//! Everything they do is on record among the session's calls, under names that begin with `person_`. Of what they type only
//! the number of characters is: it may be a password.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use greenroom_upstream::live::{Button, Input, Modifier};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::call::{CallFailure, Served};
use crate::capture::Caught;
use crate::engine::Shared;
use crate::note::{Entry, Note};
use crate::reply::Manner;
use crate::sessions::Session;

/// How long control stays with a person whose connection is lost, so that they can come back.
const HAND_BACK_AFTER: Duration = Duration::from_secs(15);

/// Typing and scrolling go on record as one when no more than this lies between two of them.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a person waits for the agent's call to end where both cannot be at once.
const TURN_LIMIT: Duration = Duration::from_secs(10);

/// How long the server may take for what it has to do itself.
const TOOL_LIMIT: Duration = Duration::from_secs(10);

static PERSONS: AtomicU64 = AtomicU64::new(1);

/// What a person does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Input(Input),
    /// Makes another tab the current one.
    Tab(usize),
    /// Answers the dialog that is open.
    Dialog {
        accept: bool,
        text: Option<String>,
    },
    TakeOver,
    HandBack,
}

/// Who has control.
pub(crate) struct Control {
    person: u64,
    pub(crate) since: SystemTime,
}

/// Tells whether a person has control, to those who are not that person.
#[derive(Clone)]
pub struct Badge {
    session: Arc<Session>,
    number: u64,
}

impl Badge {
    pub fn has_control(&self) -> bool {
        self.session.control(|control| control.as_ref().is_some_and(|control| control.is_of(self.number)))
    }
}

/// One person's connection to a session. When it is dropped, control goes back after a while.
pub struct Person {
    engine: Arc<Shared>,
    session: Arc<Session>,
    number: u64,
    /// What goes on record as one.
    spell: Option<Spell>,
    /// What is left to do after them is being done.
    is_leaving: bool,
}

struct Spell {
    kind: SpellKind,
    begun: (Instant, SystemTime),
    last: Instant,
    /// Characters, or pixels down.
    amount: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SpellKind {
    Typing,
    Scrolling,
}

impl Person {
    pub(crate) fn new(engine: &Arc<Shared>, session: Arc<Session>) -> Self {
        let number = PERSONS.fetch_add(1, Ordering::Relaxed);
        Self { engine: Arc::clone(engine), session, number, spell: None, is_leaving: false }
    }

    pub fn badge(&self) -> Badge {
        Badge { session: Arc::clone(&self.session), number: self.number }
    }

    pub fn has_control(&self) -> bool {
        self.badge().has_control()
    }

    /// Does it, and writes it down.
    pub async fn act(&mut self, action: Action) -> Result<(), CallFailure> {
        self.session.used();
        match action {
            Action::Input(Input::Move { .. }) => return self.input(action).await.map(drop),
            Action::Input(Input::Type { ref text }) => {
                let amount = text.chars().count() as f64;
                self.input(action).await?;
                return self.spell(SpellKind::Typing, amount).await;
            }
            Action::Input(Input::Wheel { dy, .. }) => {
                self.input(action).await?;
                return self.spell(SpellKind::Scrolling, dy).await;
            }
            // Half of a gesture; the other half tells of it.
            Action::Input(Input::Down { .. }) => return self.input(action).await.map(drop),
            _ => {}
        }
        self.rest().await;
        let (tool, arguments) = described(&action);
        let mut note = self.note(tool, &arguments, Instant::now());
        note.begin().await;
        let result = match action {
            Action::Input(_) => self.input(action).await,
            Action::Tab(index) => self.tab(index).await,
            Action::Dialog { accept, text } => self.dialog(accept, text).await,
            Action::TakeOver => Ok(self.take_over()),
            Action::HandBack => self.hand_back(),
        };
        self.finish(note, result).await
    }

    /// Writes down what is still to be: typing and scrolling, after a pause.
    pub async fn rest(&mut self) {
        if let Some(spell) = self.spell.take() {
            self.write_down(spell).await;
        }
    }

    fn note(&self, tool: &str, arguments: &Map<String, Value>, since: Instant) -> Note {
        let entry = Entry {
            ref_id: None,
            caller: self.session.key.caller.clone(),
            session: Some((self.session.record.clone(), self.session.key.name.to_string())),
            tool,
            arguments,
            since,
        };
        Note::new(&self.engine.history, &self.engine.events, entry, Manner::WHOLE, false)
    }

    async fn finish(&self, mut note: Note, result: Result<String, CallFailure>) -> Result<(), CallFailure> {
        let mut caught = Caught::default();
        let view = self.session.view();
        caught.capture.reading.page = view
            .url
            .map(|url| greenroom_upstream::driver::Page { url, title: view.title.unwrap_or_default() });
        let served = Served {
            pool: self.session.pool().to_owned(),
            instance: None,
            session: Some(self.session.key.name.to_string()),
            browser: None,
            waited: Duration::ZERO,
            notice: None,
        };
        let result = result.map(|text| {
            let result = json!({ "content": [{ "type": "text", "text": text }], "isError": false });
            Bytes::from(result.to_string())
        });
        note.finish(result, caught, Some(&served)).await.map(drop)
    }

    async fn spell(&mut self, kind: SpellKind, amount: f64) -> Result<(), CallFailure> {
        let goes_on = |spell: &Spell| spell.kind == kind && spell.last.elapsed() <= PAUSE;
        if !self.spell.as_ref().is_some_and(goes_on) {
            self.rest().await;
        }
        let now = Instant::now();
        let fresh = Spell { kind, begun: (now, SystemTime::now()), last: now, amount: 0.0 };
        let spell = self.spell.get_or_insert(fresh);
        spell.last = now;
        spell.amount += amount;
        Ok(())
    }

    async fn write_down(&self, spell: Spell) {
        let (tool, amount) = match spell.kind {
            SpellKind::Typing => ("person_type", "characters"),
            SpellKind::Scrolling => ("person_scroll", "pixels"),
        };
        let mut arguments = Map::new();
        arguments.insert(amount.to_owned(), json!(spell.amount.round() as i64));
        let mut note = self.note(tool, &arguments, spell.begun.0);
        note.set_time(spell.begun.1);
        note.begin().await;
        let _ = self.finish(note, Ok("Done by a person.".to_owned())).await;
    }

    async fn input(&self, action: Action) -> Result<String, CallFailure> {
        let Action::Input(mut input) = action else { unreachable!("it is input") };
        if let Input::Navigate { url } = &mut input {
            *url = full_address(url)?;
        }
        let seat = self.session.browser().ok_or_else(|| self.no_browser())?;
        let live = seat.upstream.live().ok_or_else(|| self.no_hand())?;
        live.input(&input).await.map_err(|error| CallFailure::NotDone { reason: error.to_string() })?;
        Ok("Done by a person.".to_owned())
    }

    /// The server has to know which tab is the current one, so it is asked to change it.
    async fn tab(&self, index: usize) -> Result<String, CallFailure> {
        let arguments = json!({ "action": "select", "index": index });
        self.ask("browser_tabs", &arguments, true).await
    }

    async fn dialog(&self, accept: bool, text: Option<String>) -> Result<String, CallFailure> {
        let mut arguments = json!({ "accept": accept });
        if let Some(text) = text {
            arguments["promptText"] = text.into();
        }
        // Whoever has the turn may be waiting for just this.
        self.ask("browser_handle_dialog", &arguments, false).await
    }

    async fn ask(&self, tool: &str, arguments: &Value, in_turn: bool) -> Result<String, CallFailure> {
        let seat = self.session.browser().ok_or_else(|| self.no_browser())?;
        if seat.upstream.live().is_none() {
            return Err(self.no_hand());
        }
        let not_done = |reason: String| CallFailure::NotDone { reason };
        let _turn = match in_turn {
            true => {
                let turn = timeout(TURN_LIMIT, self.session.turn()).await;
                Some(turn.map_err(|_| not_done("the browser is busy with a call".to_owned()))?)
            }
            false => None,
        };
        let pending =
            seat.upstream.call(tool, arguments, None).map_err(|ended| not_done(ended.to_string()))?;
        let answer = timeout(TOOL_LIMIT, pending).await;
        let answer = answer.map_err(|_| not_done("the browser did not answer in time".to_owned()))?;
        let answer: Value = answer
            .map_err(|error| not_done(error.to_string()))
            .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| not_done(error.to_string())))?;
        let text = answer["content"][0]["text"].as_str().unwrap_or_default();
        if answer["isError"] == true {
            return Err(not_done(text.trim_start_matches("### Error\n").to_owned()));
        }
        Ok("Done by a person.".to_owned())
    }

    fn take_over(&self) -> String {
        self.session
            .control(|control| *control = Some(Control { person: self.number, since: SystemTime::now() }));
        self.session.touch();
        "A person has control; calls of agents wait.".to_owned()
    }

    fn hand_back(&self) -> Result<String, CallFailure> {
        if !self.session.release(self.number) {
            return Err(CallFailure::NotDone { reason: "somebody else has control, or nobody".to_owned() });
        }
        Ok("Calls of agents go on.".to_owned())
    }

    fn no_browser(&self) -> CallFailure {
        CallFailure::NoBrowserYet { name: self.session.key.name.to_string() }
    }

    fn no_hand(&self) -> CallFailure {
        CallFailure::NotDone {
            reason: "this kind of browser can be watched, but takes no input from here".to_owned(),
        }
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let is_settled = self.spell.is_none() && !self.has_control();
        if is_settled || self.is_leaving || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let mut rest = Self {
            engine: Arc::clone(&self.engine),
            session: Arc::clone(&self.session),
            number: self.number,
            spell: self.spell.take(),
            is_leaving: true,
        };
        tokio::spawn(async move {
            rest.rest().await;
            if rest.has_control() {
                sleep(HAND_BACK_AFTER).await;
            }
            // Still theirs: they have not come back.
            if rest.has_control() {
                let _ = rest.act(Action::HandBack).await;
            }
        });
    }
}

impl Control {
    pub(crate) fn is_of(&self, person: u64) -> bool {
        self.person == person
    }
}

/// What it is on record as.
fn described(action: &Action) -> (&'static str, Map<String, Value>) {
    let (tool, arguments) = match action {
        Action::Input(Input::Click { x, y, button, count, modifiers }) => {
            let mut arguments = json!({ "x": x.round(), "y": y.round() });
            if *button != Button::Left {
                arguments["button"] = json!(button);
            }
            if *count != 1 {
                arguments["count"] = json!(count);
            }
            if !modifiers.is_empty() {
                arguments["modifiers"] = json!(modifiers);
            }
            ("person_click", arguments)
        }
        Action::Input(Input::Up { x, y, .. }) => ("person_drag", json!({ "x": x.round(), "y": y.round() })),
        Action::Input(Input::Key { key, modifiers }) => {
            // A single character may be one of a password.
            let is_typing = modifiers.iter().all(|modifier| *modifier == Modifier::Shift);
            let key = if key.chars().count() == 1 && is_typing { "character" } else { key };
            ("person_key", json!({ "key": key, "modifiers": modifiers }))
        }
        Action::Input(Input::Navigate { url }) => ("person_navigate", json!({ "url": url })),
        Action::Input(Input::Back) => ("person_back", json!({})),
        Action::Input(Input::Forward) => ("person_forward", json!({})),
        Action::Input(Input::Reload) => ("person_reload", json!({})),
        Action::Input(Input::Type { .. } | Input::Move { .. } | Input::Wheel { .. } | Input::Down { .. }) => {
            unreachable!("these are not told one by one")
        }
        Action::Tab(index) => ("person_tab", json!({ "index": index })),
        Action::Dialog { accept, .. } => ("person_dialog", json!({ "accept": accept })),
        Action::TakeOver => ("person_take_over", json!({})),
        Action::HandBack => ("person_hand_back", json!({})),
    };
    match arguments {
        Value::Object(arguments) => (tool, arguments),
        _ => unreachable!("they are objects"),
    }
}

/// The address that somebody means who leaves out the beginning.
fn full_address(typed: &str) -> Result<String, CallFailure> {
    let typed = typed.trim();
    let is_local = |host: &str| {
        let host = host.split(['/', '?', '#']).next().unwrap_or_default();
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        name == "localhost" || name.starts_with('[') || name.parse::<std::net::IpAddr>().is_ok()
    };
    let scheme = typed.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("http" | "https") => Ok(typed.to_owned()),
        Some("about" | "data" | "blob") => Ok(typed.to_owned()),
        Some("file" | "javascript" | "chrome" | "view-source" | "devtools") => Err(CallFailure::NotDone {
            reason: format!("`{typed}` is not an address that may be opened from here"),
        }),
        _ if typed.is_empty() => Err(CallFailure::NotDone { reason: "there is no address".to_owned() }),
        _ if is_local(typed) => Ok(format!("http://{typed}")),
        _ => Ok(format!("https://{typed}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, described, full_address};
    use greenroom_upstream::live::Input;

    #[test]
    fn what_is_missing_of_an_address_is_added() {
        for (typed, meant) in [
            ("example.com/a", "https://example.com/a"),
            (" http://example.com ", "http://example.com"),
            ("localhost:3000/x?y", "http://localhost:3000/x?y"),
            ("127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("[::1]:80/", "http://[::1]:80/"),
            ("about:blank", "about:blank"),
            ("example.com:8443", "https://example.com:8443"),
        ] {
            assert_eq!(full_address(typed).ok().as_deref(), Some(meant), "{typed}");
        }
        for refused in ["file:///etc/passwd", "javascript:alert(1)", "CHROME://settings", ""] {
            assert!(full_address(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_character_is_not_told() {
        let key = |key: &str| Action::Input(Input::Key { key: key.to_owned(), modifiers: Vec::new() });
        assert_eq!(described(&key("s")).1["key"], "character");
        assert_eq!(described(&key("Enter")).1["key"], "Enter");
    }
}
