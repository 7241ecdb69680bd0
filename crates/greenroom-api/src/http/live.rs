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
mod messages;

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
use greenroom_engine::{Badge, Caller, Picture, Sight, ViewOptions, Viewer};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::failure::{ErrorBody, Kind, Refused};
use super::openapi::Api;
use super::session_shown::timestamp;
use super::streams::{Looking, usual};
use hand::{Hand, Order};
use messages::{Wanted, read, text};

pub(super) use messages::{Asked, Told};

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
    params(("id" = String, Path, description = "The session.", min_length = 1, max_length = 256), Looking),
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
