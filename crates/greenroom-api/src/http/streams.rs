//! What happens, as it happens: the pictures of one session, and the events of all, as server-sent events.
//!
//! Nothing is prepared ahead: the next event is looked for when the connection can take it, and is then the newest.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::stream::{self, Stream, StreamExt};
use greenroom_core::target::SessionName;
use greenroom_engine::{
    CallEvent, Caller, Event, EventStream, Picture, SessionStatus, SessionView, Sight, ViewOptions, Viewer,
    status_word,
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};
use utoipa::ToSchema;

use super::browser_sessions::{timestamp, within};
use super::failure::{ErrorBody, Refused};
use super::openapi::Api;

/// After how much silence something is sent, so that nobody in between closes the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a client should wait before it connects again.
const RETRY: Duration = Duration::from_secs(2);

/// A session that changes again and again is told of this often.
const TOGETHER: Duration = Duration::from_millis(200);

/// From one picture to the next, where nobody says.
const EVERY: Duration = Duration::from_millis(500);

/// Chooses what a viewer gets.
#[derive(Clone, Copy, Debug, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Looking {
    /// Of the JPEG: 1 to 100, 60 if not given.
    #[serde(default)]
    #[param(minimum = 1, maximum = 100)]
    quality: Option<i64>,
    /// Pictures of wider pages are made smaller: 16 to 4096 pixels, 1280 if not given.
    #[serde(default)]
    #[param(minimum = 16, maximum = 4096)]
    max_width: Option<i64>,
    /// Milliseconds from one picture to the next, at least: 16 to 60000. If not given, 500 for events and 66 for the WebSocket.
    #[serde(default)]
    #[param(minimum = 16, maximum = 60_000)]
    interval: Option<i64>,
}

impl Looking {
    pub(super) fn new(quality: Option<i64>, max_width: Option<i64>, interval: Option<i64>) -> Self {
        Self { quality, max_width, interval }
    }

    /// What is wanted, where something is, in place of what was.
    pub(super) fn instead_of(self, before: ViewOptions) -> Result<ViewOptions, Refused> {
        let mut options = before;
        if let Some(quality) = self.quality {
            options.quality = u8::try_from(within("quality", quality, 1..=100)?).unwrap_or(options.quality);
        }
        if let Some(width) = self.max_width {
            options.max_width =
                u32::try_from(within("maxWidth", width, 16..=4096)?).unwrap_or(options.max_width);
        }
        if let Some(interval) = self.interval {
            let interval = within("interval", interval, 16..=60_000)?;
            options.interval = Duration::from_millis(interval.unsigned_abs());
        }
        Ok(options)
    }
}

/// What is shown where nobody says.
pub(super) fn usual(interval: Duration) -> ViewOptions {
    ViewOptions { quality: 60, max_width: 1280, interval }
}

/// A picture of a session's page.
#[derive(Serialize, ToSchema)]
#[schema(as = Screenshot)]
pub(super) struct ScreenshotShown {
    /// When it was taken.
    #[schema(format = "date-time")]
    timestamp: String,
    /// In base64.
    #[schema(content_encoding = "base64")]
    image: String,
    #[schema(example = "jpeg")]
    format: &'static str,
}

impl ScreenshotShown {
    fn of(picture: &Picture) -> Self {
        Self { timestamp: timestamp(picture.captured), image: STANDARD.encode(&picture.jpeg), format: "jpeg" }
    }
}

/// A call has begun, or has been answered.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CallEvent)]
pub(super) struct CallEventShown {
    /// The call's name on record, where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    ref_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    tool: String,
    /// `pending` when it begins, then `success` or `error`.
    #[schema(example = "success")]
    status: &'static str,
    /// When it was made.
    #[schema(format = "date-time")]
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<f64>,
    /// Whether a person did it rather than an agent.
    person: bool,
}

impl From<CallEvent> for CallEventShown {
    fn from(event: CallEvent) -> Self {
        Self {
            ref_id: event.ref_id.map(|id| id.to_string()),
            session_id: event.session,
            person: event.tool.starts_with("person_"),
            tool: event.tool,
            status: status_word(event.status),
            timestamp: timestamp(event.at),
            duration_ms: event.took.map(|took| (took.as_secs_f64() * 1_000_000.0).round() / 1000.0),
        }
    }
}

/// So many events were lost to a listener that was too slow.
#[derive(Serialize, ToSchema)]
pub(super) struct Missed {
    count: u64,
}

/// Watch a session, as events
///
/// Pictures are only taken while somebody watches, and only sent when they differ from the last. Whoever is slow gets the newest.
/// A client that connects again with `Last-Event-ID` does not get the picture that it has.
#[utoipa::path(
    get, path = "/api/browser-sessions/{id}/screenshots", tag = "live", operation_id = "watch_session",
    params(
        ("id" = String, Path, description = "The session."), Looking,
        ("Last-Event-ID" = Option<String>, Header, description = "The last picture that the client has. Anything but a number is ignored."),
    ),
    responses(
        (status = 200, content_type = "text/event-stream", body = String, description = "\
            `event: screenshot`, data Screenshot, with the number of the picture as its `id`. \
            `event: state`, data Session: at the start and at every change. After one with the status `stopped` the stream ends."),
        (status = 400, description = "`invalid_request`", body = ErrorBody),
        (status = 404, description = "`unknown_session`; `not_found`: there are no sessions with this configuration.", body = ErrorBody),
    ),
)]
pub(super) async fn screenshots(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<Looking>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let name = api.name(id)?;
    let Query(looking) = query?;
    let options = looking.instead_of(usual(EVERY))?;
    let seen = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    let (view, watched) = (api.view(&name).await?, api.engine.watch(&Caller::local(), &name, options));
    let viewer = watched.ok().map(|mut viewer| {
        if let Some(sequence) = seen {
            viewer.resume_after(sequence);
        }
        viewer
    });
    let watching = Watching { api: api.clone(), name, view, viewer, is_over: false };
    Ok(streamed(&api, stream::unfold(watching, Watching::next)))
}

/// Somebody who watches a session.
struct Watching {
    api: Api,
    name: SessionName,
    /// As it was last told.
    view: SessionView,
    /// None when it has ended.
    viewer: Option<Viewer>,
    is_over: bool,
}

impl Watching {
    async fn next(mut self) -> Option<(Message, Self)> {
        if self.is_over {
            return None;
        }
        let sight = match &mut self.viewer {
            Some(viewer) => viewer.next(true).await,
            None => Sight::Gone(String::new()),
        };
        let message = match sight {
            Sight::State(view) => {
                self.view = *view;
                message("state", &self.api.shown(&self.view))
            }
            Sight::Picture(picture) => {
                message("screenshot", &ScreenshotShown::of(&picture)).id(picture.sequence.to_string())
            }
            // Not by anybody's wish, so whoever watches may come back.
            Sight::Gone(_) if self.api.engine.is_stopping() => return None,
            Sight::Gone(_) => {
                self.is_over = true;
                let view = self.api.view(&self.name).await.unwrap_or(self.view.clone());
                message("state", &self.api.shown(&stopped(view)))
            }
        };
        Some((message, self))
    }
}

/// Follow what happens
///
/// Begins with one event for each session that there is.
#[utoipa::path(
    get, path = "/api/events", tag = "live", operation_id = "follow_events",
    responses(
        (status = 200, content_type = "text/event-stream", body = String, description = "\
            `event: session`, data Session: it is new, or not what it was; with the status `stopped` when it has ended. \
            `event: call`, data CallEvent: a call has begun, or has been answered. \
            `event: missed`, data Missed: the client was too slow, and should look at what there is."),
    ),
)]
pub(super) async fn events(State(api): State<Api>) -> Response {
    let caller = Caller::local();
    let events = api.engine.events(&caller);
    let there = api.engine.session_views(&caller).into_iter().map(|view| view.id).collect();
    let following = Following {
        api: api.clone(),
        events,
        due: there,
        changed: BTreeSet::new(),
        until: None,
        told: HashMap::new(),
    };
    streamed(&api, stream::unfold(following, Following::next))
}

/// Somebody who follows what happens.
struct Following {
    api: Api,
    events: EventStream,
    /// Sessions that are to be told of now.
    due: VecDeque<String>,
    /// Those that have changed, and when they will be told of.
    changed: BTreeSet<String>,
    until: Option<Instant>,
    /// Sessions that have not ended as far as was told.
    told: HashMap<String, SessionView>,
}

impl Following {
    async fn next(mut self) -> Option<(Message, Self)> {
        loop {
            while let Some(name) = self.due.pop_front() {
                if let Some(message) = self.session(name).await {
                    return Some((message, self));
                }
            }
            let until = self.until;
            let is_time = async move {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = is_time => {
                    self.until = None;
                    self.due.extend(std::mem::take(&mut self.changed));
                }
                event = self.events.next() => match event? {
                    Event::Session(name) => {
                        self.changed.insert(name);
                        self.until.get_or_insert_with(|| Instant::now() + TOGETHER);
                    }
                    Event::Call(call) => return Some((message("call", &CallEventShown::from(call)), self)),
                    Event::Missed(count) => return Some((message("missed", &Missed { count }), self)),
                },
            }
        }
    }

    async fn session(&mut self, name: String) -> Option<Message> {
        let known = match SessionName::new(name.clone()) {
            Ok(name) => self.api.view(&name).await.ok(),
            Err(_) => None,
        };
        // One that never came to be leaves nothing behind, but was told of.
        let before = self.told.remove(&name);
        let view = known.or_else(|| before.map(stopped))?;
        let message = message("session", &self.api.shown(&view));
        if view.status != SessionStatus::Stopped {
            self.told.insert(name, view);
        }
        Some(message)
    }
}

fn stopped(view: SessionView) -> SessionView {
    SessionView { status: SessionStatus::Stopped, viewers: 0, control: None, is_busy: false, ..view }
}

fn message(name: &str, data: &impl Serialize) -> Message {
    Message::default().event(name).json_data(data).expect("what is told is plain JSON")
}

/// An answer that goes on until there is no more, or the server stops.
fn streamed(api: &Api, messages: impl Stream<Item = Message> + Send + 'static) -> Response {
    let first = stream::iter([Message::default().retry(RETRY)]);
    let messages = first.chain(messages).take_until(api.shutdown.clone().cancelled_owned());
    let stream =
        Sse::new(messages.map(Ok::<_, Infallible>)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    // Proxies that gather answers would hold it back.
    ([("x-accel-buffering", "no")], stream).into_response()
}
