//! A session over a WebSocket: pictures and states down, a person's hand up.
//!
//! ```text
//!   viewer ──► tell ──► socket ──► listen ──► queue ──► hand (owns the person)
//!                ▲                                       │
//!                └───────────── words: done, error ──────┘
//! ```
//!
//! Telling and listening do not wait for one another. With every picture goes a ping, and whoever has not answered two of them
//! gets no more pictures until they do, so that what they see next is the newest.

mod hand;

use std::time::Duration;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, Query, State};
use axum::http::HeaderValue;
use axum::http::header::UPGRADE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use greenroom_core::target::SessionName;
use greenroom_engine::{Action, Badge, Button, Caller, Input, Modifier, Picture, Sight, ViewOptions, Viewer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use utoipa::ToSchema;

use super::browser_sessions::{SessionShown, timestamp};
use super::failure::{ErrorBody, Kind, Refused};
use super::openapi::Api;
use super::streams::{Looking, usual};
use hand::{Hand, Order};

/// From one picture to the next, where nobody says: 15 a second.
const EVERY: Duration = Duration::from_millis(66);

/// How long a message may be that comes up.
const LONGEST_MESSAGE: usize = 64 * 1024;

/// Pictures that a viewer may have without having answered.
const MOST_UNANSWERED: u64 = 2;

/// A viewer from whom nothing comes for this long is taken for gone.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// How often one is asked who has no pictures to answer.
const PING_EVERY: Duration = Duration::from_secs(20);

/// How long a goodbye may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// Answers that may wait to be sent.
const MOST_WORDS: usize = 64;

/// The session has ended. Codes from 4000 on are for programs to choose.
const SESSION_GONE: u16 = 4404;
const SERVER_RESTARTS: u16 = 1012;
const TOO_LARGE: u16 = 1009;
const SILENT: u16 = 1008;

/// What goes down as text.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = LiveMessage)]
pub(super) enum Told {
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
pub(super) enum Asked {
    Click {
        x: f64,
        y: f64,
        /// `left` (if not given), `middle` or `right`.
        #[serde(default)]
        #[schema(value_type = Option<String>)]
        button: Button,
        /// 2 for a double click.
        #[serde(default = "once")]
        #[schema(minimum = 1, maximum = 3)]
        count: u32,
        /// Of `Shift`, `Control`, `Alt` and `Meta`.
        #[serde(default)]
        #[schema(value_type = Option<Vec<String>>)]
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
        #[schema(value_type = Option<String>)]
        button: Button,
        #[serde(default)]
        #[schema(value_type = Option<Vec<String>>)]
        modifiers: Vec<Modifier>,
    },
    Up {
        x: f64,
        y: f64,
        #[serde(default)]
        #[schema(value_type = Option<String>)]
        button: Button,
        #[serde(default)]
        #[schema(value_type = Option<Vec<String>>)]
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
        #[schema(value_type = Option<Vec<String>>)]
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
enum Wanted {
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
fn read(text: &str) -> Result<(Option<Value>, Wanted), (Option<Value>, String)> {
    let mut message: Map<String, Value> = serde_json::from_str(text)
        .map_err(|problem| (None, format!("The message is not a JSON object: {problem}.")))?;
    let id = match message.remove("id") {
        id @ (None | Some(Value::String(_) | Value::Number(_))) => id,
        Some(_) => return Err((None, "`id` has to be a text or a number.".to_owned())),
    };
    match serde_json::from_value::<Asked>(message.into())
        .map_err(|problem| problem.to_string())
        .and_then(Asked::wanted)
    {
        Ok(wanted) => Ok((id, wanted)),
        Err(problem) => Err((id, format!("The message is not right: {problem}."))),
    }
}

/// Watch a session, and step in
///
/// A WebSocket. Down come states and pictures, up goes what a person does; the schemas LiveMessage and LiveRequest have the
/// messages, all JSON in text, and every binary message is the JPEG that the `frame` before it tells of. A ping comes with each picture,
/// and whoever has left two unanswered gets no more until they answer.
///
/// The server closes with 4404 after `gone` when the session has ended or there is none, with 1012 when it stops, and with 1008 when
/// nothing was heard for a minute. Control of a connection that is lost goes back after 15 s.
#[utoipa::path(
    get, path = "/api/browser-sessions/{id}/live", tag = "live", operation_id = "enter_session",
    params(("id" = String, Path, description = "The session."), Looking),
    responses(
        (status = 101, description = "The connection is a WebSocket from here on."),
        (status = 400, description = "`invalid_request`", body = ErrorBody),
        (status = 404, description = "`unknown_session`, where no upgrade was asked for; `not_found`: there are no sessions with this configuration.", body = ErrorBody),
        (status = 426, description = "`upgrade_required`: this address speaks WebSocket only.", body = ErrorBody),
    ),
)]
pub(super) async fn live(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<Looking>, QueryRejection>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refused> {
    let name = api.name(id)?;
    let Query(looking) = query?;
    let options = looking.instead_of(usual(EVERY))?;
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(rejection) => {
            api.view(&name).await?;
            let message = format!("This address speaks WebSocket only. {}.", rejection.body_text());
            let mut response = Kind::UPGRADE.says(message).into_response();
            response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
            return Ok(response);
        }
    };
    let upgrade = upgrade.max_message_size(LONGEST_MESSAGE).max_frame_size(LONGEST_MESSAGE);
    let token = api.sockets.token();
    Ok(upgrade.on_upgrade(async move |socket| {
        serve(socket, api, name, options).await;
        drop(token);
    }))
}

/// Why a connection ends.
enum Ending {
    /// There is nobody to say goodbye to, or they said so first.
    Left,
    Gone(String),
    Stopping,
    TooLarge,
    Silent,
}

type Down = SplitSink<WebSocket, Message>;

/// Something to say, or to look at otherwise.
enum Word {
    Told(Told),
    View(Option<Value>, Looking),
}

async fn serve(socket: WebSocket, api: Api, name: SessionName, options: ViewOptions) {
    let caller = Caller::local();
    let (mut down, up) = socket.split();
    let come = api.engine.watch(&caller, &name, options);
    let come = come.and_then(|viewer| Ok((viewer, api.engine.person(&caller, &name)?)));
    let ending = match come {
        Err(_) => Ending::Gone(format!("There is no session `{name}` any more.")),
        Ok((viewer, person)) => {
            let (words, to_say) = mpsc::channel(MOST_WORDS);
            let (answered, answers) = watch::channel(0);
            let badge = person.badge();
            let hand = Hand::begin(person, words.clone());
            let teller = Teller { api: &api, down: &mut down, viewer, badge, answers, pings: 0 };
            tokio::select! {
                ending = teller.tell(to_say) => ending,
                ending = listen(up, &hand, &words, &answered) => ending,
                () = api.shutdown.cancelled() => Ending::Stopping,
            }
        }
    };
    let _ = timeout(CLOSE_LIMIT, close(&mut down, ending)).await;
}

/// Says what there is to say.
struct Teller<'a> {
    api: &'a Api,
    down: &'a mut Down,
    viewer: Viewer,
    badge: Badge,
    /// The last ping that was answered.
    answers: watch::Receiver<u64>,
    /// The last that was sent.
    pings: u64,
}

impl Teller<'_> {
    async fn tell(mut self, mut words: mpsc::Receiver<Word>) -> Ending {
        let mut quiet = interval(PING_EVERY);
        quiet.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let answered = *self.answers.borrow_and_update();
            let wants_picture = self.pings.saturating_sub(answered) < MOST_UNANSWERED;
            let said = tokio::select! {
                Some(word) = words.recv() => match word {
                    Word::Told(told) => self.say(&told).await,
                    Word::View(id, looking) => self.look(id, looking).await,
                },
                sight = self.viewer.next(wants_picture) => match sight {
                    Sight::State(view) => {
                        let yours = view.control.is_some() && self.badge.has_control();
                        let session = Box::new(self.api.shown(&view));
                        self.say(&Told::State { session, yours }).await
                    }
                    Sight::Picture(picture) => {
                        quiet.reset();
                        self.show(&picture).await
                    }
                    // Not by anybody's wish, so whoever watches may come back.
                    Sight::Gone(_) if self.api.engine.is_stopping() => return Ending::Stopping,
                    Sight::Gone(reason) => return Ending::Gone(format!("The session has ended: {reason}.")),
                },
                Ok(()) = self.answers.changed(), if !wants_picture => Ok(()),
                _ = quiet.tick() => self.ping().await,
            };
            if said.is_err() {
                return Ending::Left;
            }
        }
    }

    async fn look(&mut self, id: Option<Value>, looking: Looking) -> Result<(), ()> {
        let told = match looking.instead_of(self.viewer.options()) {
            Ok(options) => {
                self.viewer.set_options(options);
                id.map(|id| Told::Done { id })
            }
            Err(refused) => {
                let (error, message) = refused.words();
                Some(Told::Error { id, error, message })
            }
        };
        match told {
            Some(told) => self.say(&told).await,
            None => Ok(()),
        }
    }

    async fn show(&mut self, picture: &Picture) -> Result<(), ()> {
        let (width, height) = picture.viewport;
        let captured_at = timestamp(picture.captured);
        self.say(&Told::Frame { sequence: picture.sequence, captured_at, width, height }).await?;
        self.send(Message::Binary(picture.jpeg.clone())).await?;
        self.ping().await
    }

    /// Numbered, as a client may answer the last of several only.
    async fn ping(&mut self) -> Result<(), ()> {
        self.pings += 1;
        self.send(Message::Ping(Bytes::copy_from_slice(&self.pings.to_be_bytes()))).await
    }

    async fn say(&mut self, told: &Told) -> Result<(), ()> {
        self.send(text(told)).await
    }

    async fn send(&mut self, message: Message) -> Result<(), ()> {
        match timeout(SILENCE_LIMIT, self.down.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(()),
        }
    }
}

fn text(told: &Told) -> Message {
    Message::text(serde_json::to_string(told).expect("what is told is plain JSON"))
}

/// Hears what comes up.
async fn listen(
    mut up: SplitStream<WebSocket>,
    hand: &Hand,
    words: &mpsc::Sender<Word>,
    answered: &watch::Sender<u64>,
) -> Ending {
    loop {
        let message = match timeout(SILENCE_LIMIT, up.next()).await {
            Ok(Some(Ok(message))) => message,
            Ok(Some(Err(error))) if is_too_large(&error) => return Ending::TooLarge,
            Ok(Some(Err(_)) | None) => return Ending::Left,
            Err(_) => return Ending::Silent,
        };
        let word = match message {
            Message::Text(text) => match read(&text) {
                Ok((id, Wanted::View(looking))) => Some(Word::View(id, looking)),
                Ok((id, Wanted::Action(action))) => hand.take(Order { id, action }).map(Word::Told),
                Err((id, message)) => Some(Word::Told(wrong(id, message))),
            },
            Message::Binary(_) => {
                Some(Word::Told(wrong(None, "Messages have to be text, with JSON in it.".to_owned())))
            }
            Message::Pong(number) => {
                if let Ok(number) = number.as_ref().try_into().map(u64::from_be_bytes) {
                    // A client may send any number; what has not been asked is not answered.
                    answered.send_modify(|last| *last = number.max(*last));
                }
                None
            }
            Message::Ping(_) => None,
            Message::Close(_) => return Ending::Left,
        };
        if let Some(word) = word
            && words.send(word).await.is_err()
        {
            return Ending::Left;
        }
    }
}

fn wrong(id: Option<Value>, message: String) -> Told {
    Told::Error { id, error: Kind::INVALID.word(), message }
}

fn is_too_large(error: &axum::Error) -> bool {
    // The library's own error lies behind a type of another version that is not named here.
    std::error::Error::source(error).is_some_and(|source| source.to_string().contains("too long"))
}

async fn close(down: &mut Down, ending: Ending) {
    let (code, reason) = match ending {
        Ending::Left => {
            let _ = down.close().await;
            return;
        }
        Ending::Gone(message) => {
            let _ = down.send(text(&Told::Gone { message })).await;
            (SESSION_GONE, "the session has ended".to_owned())
        }
        Ending::Stopping => (SERVER_RESTARTS, "Greenroom is stopping".to_owned()),
        Ending::TooLarge => (TOO_LARGE, format!("a message has {LONGEST_MESSAGE} bytes at most")),
        Ending::Silent => (SILENT, format!("nothing was heard for {} s", SILENCE_LIMIT.as_secs())),
    };
    let _ = down.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
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
