//! The messages of the WebSocket, both ways.

use axum::extract::ws::Message;
use greenroom_engine::{Action, Button, Input, Modifier};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::super::session_shown::SessionShown;
use super::super::streams::Looking;

/// What goes down as text.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = LiveMessage)]
pub(in crate::http) enum Told {
    /// At the start and at every change.
    State {
        session: Box<SessionShown>,
        /// Whether this connection has control.
        yours: bool,
    },
    /// Immediately before each binary message, which is a JPEG.
    Frame {
        sequence: u64,
        #[serde(rename = "capturedAt")]
        #[schema(format = "date-time")]
        captured_at: String,
        /// What the picture shows, in CSS pixels.
        width: u32,
        height: u32,
    },
    /// What came up with this `id` is done.
    Done {
        #[schema(value_type = Object)]
        id: Value,
    },
    /// It is not.
    Error {
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Object>)]
        id: Option<Value>,
        error: &'static str,
        message: String,
    },
    /// The session has ended. The connection is closed after it.
    Gone { message: String },
}

/// What comes up as text. Every message may have an `id`, a text or a number, which the answer has too. Places are CSS pixels of
/// the viewport.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
#[schema(as = LiveRequest)]
pub(in crate::http) enum Asked {
    Click {
        x: f64,
        y: f64,
        /// `left` (if not given), `middle` or `right`.
        #[serde(default)]
        #[schema(value_type = String)]
        button: Button,
        /// Which of a series it is: a double click is one with 1, and then one with 2.
        #[serde(default = "once")]
        #[schema(minimum = 1, maximum = 3)]
        count: u32,
        /// Of `Shift`, `Control`, `Alt` and `Meta`.
        #[serde(default)]
        #[schema(value_type = Vec<String>)]
        modifiers: Vec<Modifier>,
    },
    Move {
        x: f64,
        y: f64,
    },
    Down {
        x: f64,
        y: f64,
        #[serde(default)]
        #[schema(value_type = String)]
        button: Button,
        #[serde(default)]
        #[schema(value_type = Vec<String>)]
        modifiers: Vec<Modifier>,
    },
    Up {
        x: f64,
        y: f64,
        #[serde(default)]
        #[schema(value_type = String)]
        button: Button,
        #[serde(default)]
        #[schema(value_type = Vec<String>)]
        modifiers: Vec<Modifier>,
    },
    Wheel {
        x: f64,
        y: f64,
        dx: f64,
        dy: f64,
    },
    Type {
        text: String,
    },
    /// One key by its name, which is that of `KeyboardEvent.key`.
    Key {
        key: String,
        #[serde(default)]
        #[schema(value_type = Vec<String>)]
        modifiers: Vec<Modifier>,
    },
    Navigate {
        url: String,
    },
    Back,
    Forward,
    Reload,
    /// Makes another tab the current one.
    Tab {
        index: usize,
    },
    /// Answers the dialog that is open.
    Dialog {
        accept: bool,
        #[serde(default)]
        text: Option<String>,
    },
    /// Takes control: the calls of agents wait.
    Take,
    /// Gives it back.
    HandBack,
    /// Changes what this viewer gets.
    View {
        #[serde(default)]
        quality: Option<i64>,
        #[serde(default)]
        max_width: Option<i64>,
        #[serde(default)]
        interval: Option<i64>,
    },
}

fn once() -> u32 {
    1
}

/// What a message asks for.
#[derive(Debug)]
pub(super) enum Wanted {
    Action(Action),
    View(Looking),
}

impl Asked {
    fn wanted(self) -> Result<Wanted, String> {
        let input = match self {
            Self::Click { count, .. } if !(1..=3).contains(&count) => {
                return Err(format!("`count` has to be from 1 to 3, and not {count}"));
            }
            Self::Click { x, y, button, count, modifiers } => Input::Click { x, y, button, count, modifiers },
            Self::Move { x, y } => Input::Move { x, y },
            Self::Down { x, y, button, modifiers } => Input::Down { x, y, button, modifiers },
            Self::Up { x, y, button, modifiers } => Input::Up { x, y, button, modifiers },
            Self::Wheel { x, y, dx, dy } => Input::Wheel { x, y, dx, dy },
            Self::Type { text } => Input::Type { text },
            Self::Key { key, modifiers } => Input::Key { key, modifiers },
            Self::Navigate { url } => Input::Navigate { url },
            Self::Back => Input::Back,
            Self::Forward => Input::Forward,
            Self::Reload => Input::Reload,
            Self::Tab { index } => return Ok(Wanted::Action(Action::Tab(index))),
            Self::Dialog { accept, text } => return Ok(Wanted::Action(Action::Dialog { accept, text })),
            Self::Take => return Ok(Wanted::Action(Action::TakeOver)),
            Self::HandBack => return Ok(Wanted::Action(Action::HandBack)),
            Self::View { quality, max_width, interval } => {
                return Ok(Wanted::View(Looking::new(quality, max_width, interval)));
            }
        };
        Ok(Wanted::Action(Action::Input(input)))
    }
}

/// Reads a message. What is wrong with it is told with its `id`, as far as it has one.
pub(super) fn read(text: &str) -> Result<(Option<Value>, Wanted), (Option<Value>, String)> {
    let mut message: Map<String, Value> = serde_json::from_str(text)
        .map_err(|problem| (None, format!("The message is not a JSON object: {problem}.")))?;
    let (None | Some(Value::String(_) | Value::Number(_))) = message.get("id") else {
        return Err((None, "`id` has to be a text or a number.".to_owned()));
    };
    let id = message.remove("id");
    match serde_json::from_value::<Asked>(message.into())
        .map_err(|problem| problem.to_string())
        .and_then(Asked::wanted)
    {
        Ok(wanted) => Ok((id, wanted)),
        Err(problem) => Err((id, format!("The message is not right: {problem}."))),
    }
}

pub(super) fn text(told: &Told) -> Message {
    Message::text(serde_json::to_string(told).expect("what is told is plain JSON"))
}

#[cfg(test)]
mod tests {
    use greenroom_engine::{Action, Button, Input, Modifier};
    use serde_json::{Value, json};

    use super::{Told, Wanted, read, text};

    fn action(message: &Value) -> Action {
        match read(&message.to_string()) {
            Ok((_, Wanted::Action(action))) => action,
            other => panic!("{message}: {other:?}"),
        }
    }

    #[test]
    fn every_message_is_understood() {
        let click = json!({ "type": "click", "x": 1, "y": 2.5, "button": "right", "count": 2, "modifiers": ["Shift"] });
        assert_eq!(
            action(&click),
            Action::Input(Input::Click {
                x: 1.0,
                y: 2.5,
                button: Button::Right,
                count: 2,
                modifiers: vec![Modifier::Shift]
            })
        );
        for (message, expected) in [
            (json!({ "type": "move", "x": 1, "y": 2 }), Action::Input(Input::Move { x: 1.0, y: 2.0 })),
            (
                json!({ "type": "wheel", "x": 1, "y": 2, "dx": 0, "dy": -40 }),
                Action::Input(Input::Wheel { x: 1.0, y: 2.0, dx: 0.0, dy: -40.0 }),
            ),
            (json!({ "type": "type", "text": "ü" }), Action::Input(Input::Type { text: "ü".into() })),
            (json!({ "type": "back" }), Action::Input(Input::Back)),
            (json!({ "type": "forward" }), Action::Input(Input::Forward)),
            (json!({ "type": "reload" }), Action::Input(Input::Reload)),
            (json!({ "type": "tab", "index": 3 }), Action::Tab(3)),
            (json!({ "type": "dialog", "accept": true }), Action::Dialog { accept: true, text: None }),
            (json!({ "type": "take" }), Action::TakeOver),
            (json!({ "type": "hand_back" }), Action::HandBack),
        ] {
            assert_eq!(action(&message), expected);
        }
        let down = json!({ "type": "down", "x": 1, "y": 2, "id": "a" });
        assert!(matches!(action(&down), Action::Input(Input::Down { button: Button::Left, .. })));
        let view = json!({ "type": "view", "maxWidth": 640, "id": 7 }).to_string();
        assert!(matches!(read(&view), Ok((Some(_), Wanted::View(_)))));
    }

    #[test]
    fn what_is_wrong_with_a_message_is_said() {
        for (message, id, said) in [
            ("{", None, "not a JSON object"),
            ("[]", None, "not a JSON object"),
            (r#"{"id":[],"type":"back"}"#, None, "`id`"),
            (r#"{"id":1}"#, Some(json!(1)), "type"),
            (r#"{"id":"a","type":"fly"}"#, Some(json!("a")), "`hand_back`"),
            (r#"{"type":"click","x":1}"#, None, "`y`"),
            (r#"{"type":"move","x":1,"y":2,"z":3}"#, None, "`z`"),
            (r#"{"type":"click","x":1,"y":2,"count":9}"#, None, "`count`"),
        ] {
            let (found, problem) = read(message).expect_err(message);
            assert_eq!(found, id, "{message}");
            assert!(problem.contains(said), "{message}: {problem}");
        }
    }

    #[test]
    fn answers_are_plain() {
        let shown = |told: &Told| match text(told) {
            axum::extract::ws::Message::Text(text) => serde_json::from_str::<Value>(&text).unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(shown(&Told::Done { id: json!(7) }), json!({ "type": "done", "id": 7 }));
        let error = Told::Error { id: None, error: "conflict", message: "no".into() };
        assert_eq!(shown(&error), json!({ "type": "error", "error": "conflict", "message": "no" }));
    }
}
