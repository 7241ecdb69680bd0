//! Sessions over REST: started for a conversation, looked at, and stopped.

use std::time::{Duration, SystemTime};

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, LOCATION, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use greenroom_core::percent;
use greenroom_core::target::SessionName;
use greenroom_engine::{
    CallFailure, Caller, Conversation, ImageFormat, Opening, Pictures, Scale, ScreenshotOptions,
    SessionRequest, SessionStatus, SessionView, Wishes,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::calls::{fresh, json_body};
use super::failure::{self, ErrorBody, Kind, Refused};
use super::openapi::Api;

/// What `desktop` stands for.
const DESKTOP: (u32, u32) = (1280, 720);

/// What `tablet` and `mobile` stand for: devices of Playwright's list that Chromium can play.
const TABLET: &str = "Galaxy Tab S9";
const MOBILE: &str = "Pixel 7";

const LONGEST_SIDE: u32 = 10_000;
const LONGEST_ID: usize = 256;
const LONGEST_AGENT: usize = 1024;
const LONGEST_DEVICE: usize = 128;

/// A year.
const LONGEST_IDLE_MS: u64 = 365 * 24 * 60 * 60 * 1000;

/// A session that somebody wants for a conversation.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SessionOrder {
    /// What the session is for. With the same `profileId`, it is the same session as long as that lives.
    #[schema(min_length = 1, max_length = 256, example = "conversation-42")]
    conversation_id: String,
    /// Whose it is, or as what.
    #[schema(min_length = 1, max_length = 256, example = "default")]
    profile_id: String,
    /// How a new session is to be. One that is there already stays as it is.
    #[serde(default)]
    options: Option<SessionOptions>,
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SessionOptions {
    /// A size; `desktop`, `tablet` or `mobile`; or the name of a device of Playwright's list.
    #[serde(default)]
    #[schema(value_type = Option<ViewportWanted>)]
    viewport: Option<Value>,
    /// What the browser says that it is.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 1024)]
    user_agent: Option<String>,
    /// Cookies and storage to begin with, as Playwright writes them: the JSON itself, or as a text.
    #[serde(default)]
    #[schema(value_type = Option<StorageState>)]
    storage_state: Option<Value>,
    /// The pool that its browser comes from. Left out: the default pool.
    #[serde(default)]
    pool: Option<String>,
    /// How long it may be idle, in milliseconds; 0 for ever. Left out: as configured (REST_SESSION_IDLE_TIMEOUT).
    #[serde(default)]
    #[schema(minimum = 0, maximum = 31_536_000_000_u64)]
    idle_timeout_ms: Option<u64>,
}

#[derive(ToSchema)]
#[serde(untagged)]
enum ViewportWanted {
    Size(Viewport),
    Name(String),
}

#[derive(ToSchema)]
#[serde(untagged)]
enum StorageState {
    #[schema(value_type = Object)]
    Inline(Value),
    Text(String),
}

/// A viewport in CSS pixels.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Viewport {
    #[schema(minimum = 1, maximum = 10_000)]
    width: u32,
    #[schema(minimum = 1, maximum = 10_000)]
    height: u32,
}

/// The session of a conversation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionAnswer {
    session_id: String,
    /// Where an MCP client reaches this session and no other.
    #[schema(format = "uri")]
    mcp_endpoint: String,
    status: StatusShown,
    /// Why there is no browser, where the status is `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum StatusShown {
    /// It has no browser yet.
    Starting,
    Running,
    /// Its browser could not be started, or is lost. The next call tries again.
    Error,
    /// It has ended.
    Stopped,
}

/// Where pictures come from.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum PicturesShown {
    Screencast,
    /// Screenshots, taken again and again.
    Polling,
    None,
}

/// What is to be seen of a session. What is not known is left out.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Session)]
pub(super) struct SessionShown {
    session_id: String,
    status: StatusShown,
    /// Where an MCP client reaches this session and no other.
    #[schema(format = "uri")]
    mcp_endpoint: String,
    /// Address of the current tab.
    #[serde(skip_serializing_if = "Option::is_none")]
    current_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    viewport: Option<Viewport>,
    /// When it was last called, or a person did something in it. Watching is no activity.
    #[schema(format = "date-time")]
    last_activity: String,
    #[schema(format = "date-time")]
    created_at: String,
    /// What it was started for, where that was over REST.
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile_id: Option<String>,
    pool: String,
    /// `context`: it shares a browser with others and nothing in it. `process`: it has a browser of its own.
    #[schema(example = "context")]
    seat: String,
    /// Calls that were answered.
    calls: u64,
    /// Whether a call runs or waits.
    busy: bool,
    /// What is left of its idle time, where it runs out.
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_left_ms: Option<u64>,
    tabs: Vec<TabShown>,
    /// One that is open in the current tab.
    #[serde(skip_serializing_if = "Option::is_none")]
    dialog: Option<DialogShown>,
    /// How many watch.
    viewers: usize,
    /// There while a person has control and the calls of agents wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    control: Option<ControlShown>,
    /// Why there is no browser, where the status is `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    live: PicturesShown,
    /// Whether a person can step in.
    can_input: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Tab)]
struct TabShown {
    index: usize,
    url: String,
    title: String,
    /// Whether calls and input go to it.
    current: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Dialog)]
struct DialogShown {
    /// `alert`, `confirm`, `prompt` or `beforeunload`.
    kind: String,
    message: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Control)]
struct ControlShown {
    #[schema(format = "date-time")]
    since: String,
}

#[derive(Serialize, ToSchema)]
pub(super) struct SessionList {
    /// The newest first.
    sessions: Vec<SessionShown>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct TabList {
    tabs: Vec<TabShown>,
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Shooting {
    /// `png` (if not given) or `jpeg`.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    format: Option<ImageFormat>,
    /// Of a JPEG, 1 to 100.
    #[serde(default)]
    #[param(minimum = 1, maximum = 100)]
    quality: Option<i64>,
    /// `css` (if not given): one pixel for each of the page. `device`: as many as the screen has.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    scale: Option<Scale>,
    /// `true` for the whole page rather than what is in view.
    #[serde(default)]
    full_page: Option<bool>,
}

/// Start a session
///
/// The session of a conversation: the one that it has, else a new one. Its browser is started at once, and the answer waits for it
/// for a second at most; after that it says `starting`.
#[utoipa::path(
    post, path = "/api/browser-sessions", tag = "browser-sessions", operation_id = "start_session",
    request_body = SessionOrder,
    responses(
        (status = 200, description = "The conversation has this session already.", body = SessionAnswer),
        (status = 201, description = "A new session.", body = SessionAnswer,
            headers(("Location" = String, description = "Where the session is to be seen."))),
        (status = 400, description = "`invalid_request`", body = ErrorBody),
        (status = 404, description = "`unknown_state`: no state is saved under that name. `not_found`: there are no sessions with this configuration.", body = ErrorBody),
        (status = 413, description = "`too_large`", body = ErrorBody),
        (status = 415, description = "`unsupported_media_type`", body = ErrorBody),
        (status = 429, description = "`too_many` sessions", body = ErrorBody),
        (status = 503, description = "`degraded`, `shutting_down`", body = ErrorBody),
    ),
)]
pub(super) async fn start(State(api): State<Api>, request: Request) -> Result<Response, Refused> {
    let order: SessionOrder = json_body(request, api.max_body).await?;
    let request = order.request()?;
    api.has_sessions()?;
    let Opening { view, is_new } =
        api.engine.open_session(&Caller::local(), request).await.map_err(refused)?;
    let answer = SessionAnswer {
        mcp_endpoint: api.mcp_endpoint(&view.id),
        status: view.status.into(),
        error: view.error,
        session_id: view.id,
    };
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let place = format!("/api/browser-sessions/{}", percent::escape(&answer.session_id, b""));
    let headers = [(CACHE_CONTROL, "no-store".to_owned()), (LOCATION, place)];
    Ok((status, headers, Json(answer)).into_response())
}

/// List sessions
///
/// All that live, also those that agents made by naming them.
#[utoipa::path(
    get, path = "/api/browser-sessions", tag = "browser-sessions", operation_id = "list_sessions",
    responses((status = 200, description = "The sessions.", body = SessionList)),
)]
pub(super) async fn list(State(api): State<Api>) -> Response {
    let views = api.engine.session_views(&Caller::local());
    fresh(SessionList { sessions: views.iter().map(|view| api.shown(view)).collect() })
}

/// Show a session
///
/// One that has ended is shown too, as `stopped`, for as long as it is remembered.
#[utoipa::path(
    get, path = "/api/browser-sessions/{id}", tag = "browser-sessions", operation_id = "get_session",
    params(("id" = String, Path, description = "The session.")),
    responses(
        (status = 200, description = "The session.", body = SessionShown),
        (status = 400, description = "`invalid_request`: that is no name of a session.", body = ErrorBody),
        (status = 404, description = "`unknown_session`; `not_found`: there are no sessions with this configuration.", body = ErrorBody),
    ),
)]
pub(super) async fn one(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Refused> {
    let view = api.view(&api.name(id)?).await?;
    Ok(fresh(api.shown(&view)))
}

/// Stop a session
///
/// Its browser is closed, and whatever was not saved is lost. Calls in flight are told.
#[utoipa::path(
    delete, path = "/api/browser-sessions/{id}", tag = "browser-sessions", operation_id = "stop_session",
    params(("id" = String, Path, description = "The session.")),
    responses(
        (status = 204, description = "It has ended."),
        (status = 400, description = "`invalid_request`: that is no name of a session.", body = ErrorBody),
        (status = 404, description = "`unknown_session`: there is none, or none any more; `not_found`: there are no sessions with this configuration.", body = ErrorBody),
    ),
)]
pub(super) async fn stop(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Refused> {
    let name = api.name(id)?;
    if api.engine.close_session(&Caller::local(), &name).await {
        Ok(StatusCode::NO_CONTENT.into_response())
    } else {
        Err(unknown(&name))
    }
}

/// List the tabs of a session
#[utoipa::path(
    get, path = "/api/browser-sessions/{id}/tabs", tag = "browser-sessions", operation_id = "list_tabs",
    params(("id" = String, Path, description = "The session.")),
    responses(
        (status = 200, description = "The tabs, in the order of `browser_tabs`.", body = TabList),
        (status = 400, description = "`invalid_request`: that is no name of a session.", body = ErrorBody),
        (status = 404, description = "`unknown_session`; `not_found`: there are no sessions with this configuration.", body = ErrorBody),
    ),
)]
pub(super) async fn tabs(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Refused> {
    let view = api.view(&api.name(id)?).await?;
    Ok(fresh(TabList { tabs: tabs_of(&view) }))
}

/// Take a screenshot
///
/// It waits for no call and is none. Browsers that are driven through chrome-devtools always give a JPEG of what is in view.
#[utoipa::path(
    get, path = "/api/browser-sessions/{id}/screenshot", tag = "browser-sessions", operation_id = "take_screenshot",
    params(("id" = String, Path, description = "The session."), Shooting),
    responses(
        (status = 200, description = "The picture; `Content-Type` says which kind it is.", content(
            (Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"),
        )),
        (status = 400, description = "`invalid_request`", body = ErrorBody),
        (status = 404, description = "`unknown_session`; `not_found`: there are no sessions with this configuration.", body = ErrorBody),
        (status = 409, description = "`conflict`: it has no browser or no page now, or has ended.", body = ErrorBody),
    ),
)]
pub(super) async fn screenshot(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<Shooting>, QueryRejection>,
) -> Result<Response, Refused> {
    let name = api.name(id)?;
    let Query(Shooting { format, quality, scale, full_page }) = query?;
    let quality = quality.map(|quality| within("quality", quality, 1..=100)).transpose()?;
    let quality = quality.and_then(|quality| u8::try_from(quality).ok());
    let format = format.unwrap_or_default();
    if quality.is_some() && format == ImageFormat::Png {
        return Err(Kind::INVALID.says("A PNG has no `quality`. Leave it out, or ask for format=jpeg."));
    }
    let options = ScreenshotOptions {
        format,
        quality,
        scale: scale.unwrap_or_default(),
        full_page: full_page.unwrap_or_default(),
    };
    api.is_there(&name).await?;
    let picture = api.engine.screenshot(&Caller::local(), &name, &options).await.map_err(refused)?;
    let (kind, ending) =
        if picture.starts_with(&[0xFF, 0xD8]) { ("image/jpeg", "jpg") } else { ("image/png", "png") };
    Ok(file(picture, kind, &format!("screenshot.{ending}")))
}

/// Make a PDF of the page
///
/// Only headless Chromium makes PDFs.
#[utoipa::path(
    get, path = "/api/browser-sessions/{id}/pdf", tag = "browser-sessions", operation_id = "make_pdf",
    params(("id" = String, Path, description = "The session.")),
    responses(
        (status = 200, description = "The page as a PDF.", body = Vec<u8>, content_type = "application/pdf"),
        (status = 400, description = "`invalid_request`: that is no name of a session.", body = ErrorBody),
        (status = 404, description = "`unknown_session`; `not_found`: there are no sessions with this configuration.", body = ErrorBody),
        (status = 409, description = "`conflict`: it has no browser or no page now, has ended, or its kind of browser makes no PDF.", body = ErrorBody),
    ),
)]
pub(super) async fn pdf(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Refused> {
    let name = api.name(id)?;
    api.is_there(&name).await?;
    let pdf = api.engine.pdf(&Caller::local(), &name).await.map_err(refused)?;
    Ok(file(pdf, "application/pdf", "page.pdf"))
}

impl SessionOrder {
    fn request(self) -> Result<SessionRequest, Refused> {
        let id = |name: &str, value: String| match value.chars().count() {
            1..=LONGEST_ID => Ok(value),
            letters => Err(Kind::INVALID
                .says(format!("`{name}` has {letters} characters, and has to have 1 to {LONGEST_ID}."))),
        };
        let conversation = Conversation {
            conversation: id("conversationId", self.conversation_id)?,
            profile: id("profileId", self.profile_id)?,
        };
        let SessionOptions { viewport, user_agent, storage_state, pool, idle_timeout_ms } =
            self.options.unwrap_or_default();
        let viewport = viewport.map(viewport_wanted).transpose()?;
        let (viewport, device) = match viewport {
            Some(ViewportWanted::Size(Viewport { width, height })) => (Some((width, height)), None),
            Some(ViewportWanted::Name(name)) => match name.as_str() {
                "desktop" => (Some(DESKTOP), None),
                "tablet" => (None, Some(TABLET.to_owned())),
                "mobile" => (None, Some(MOBILE.to_owned())),
                _ => (None, Some(name)),
            },
            None => (None, None),
        };
        if let Some(agent) = &user_agent
            && (!(1..=LONGEST_AGENT).contains(&agent.chars().count()) || agent.chars().any(char::is_control))
        {
            return Err(Kind::INVALID
                .says(format!("`userAgent` has to be one line of 1 to {LONGEST_AGENT} characters.")));
        }
        if idle_timeout_ms.is_some_and(|idle| idle > LONGEST_IDLE_MS) {
            return Err(Kind::INVALID.says(format!(
                "`idleTimeoutMs` is more than a year ({LONGEST_IDLE_MS}). Give less, or 0 for ever."
            )));
        }
        let storage_state = match storage_state.map(storage_state_wanted).transpose()? {
            Some(StorageState::Inline(state)) => Some(state),
            Some(StorageState::Text(name)) => return Err(no_state(&name)),
            None => None,
        };
        Ok(SessionRequest {
            conversation,
            pool,
            wishes: Wishes { viewport, user_agent, device, storage_state },
            idle: idle_timeout_ms.map(Duration::from_millis),
        })
    }
}

fn viewport_wanted(value: Value) -> Result<ViewportWanted, Refused> {
    let wrong = || {
        Kind::INVALID.says(format!(
            "`viewport` has to be {{\"width\": W, \"height\": H}}, each from 1 to {LONGEST_SIDE}; `desktop`, `tablet` or `mobile`; \
             or the name of a device of Playwright's list, such as `Pixel 7`."
        ))
    };
    match value {
        Value::String(name) if (1..=LONGEST_DEVICE).contains(&name.chars().count()) => {
            Ok(ViewportWanted::Name(name))
        }
        Value::Object(size) => {
            let size: Viewport = serde_json::from_value(Value::Object(size)).map_err(|_| wrong())?;
            let fits = |side: u32| (1..=LONGEST_SIDE).contains(&side);
            if !fits(size.width) || !fits(size.height) {
                return Err(wrong());
            }
            Ok(ViewportWanted::Size(size))
        }
        _ => Err(wrong()),
    }
}

/// A text is JSON if it looks like it; any other is a name.
fn storage_state_wanted(value: Value) -> Result<StorageState, Refused> {
    match value {
        Value::Object(_) => Ok(StorageState::Inline(value)),
        Value::String(text) if text.trim_start().starts_with('{') => {
            let state: Map<String, Value> = serde_json::from_str(&text)
                .map_err(|problem| Kind::INVALID.says(format!("`storageState` is not JSON: {problem}.")))?;
            Ok(StorageState::Inline(state.into()))
        }
        Value::String(name) => Ok(StorageState::Text(name)),
        _ => Err(Kind::INVALID.says(
            "`storageState` has to be what Playwright writes: {\"cookies\": […], \"origins\": […]}, as an object or as a text.",
        )),
    }
}

fn no_state(name: &str) -> Refused {
    Kind::UNKNOWN_STATE.says(format!(
        "There is no saved state `{name}`. Give the state itself as `storageState`: the JSON that Playwright writes."
    ))
}

impl Api {
    /// Where there are none, nothing about them is answered.
    pub(super) fn has_sessions(&self) -> Result<(), Refused> {
        match self.engine.modes().has_sessions() {
            true => Ok(()),
            false => Err(Kind::NOT_FOUND.says("There are no sessions with this configuration (ADDRESSING).")),
        }
    }

    pub(super) fn name(&self, id: Result<Path<String>, PathRejection>) -> Result<SessionName, Refused> {
        let Path(id) = id?;
        self.has_sessions()?;
        SessionName::new(id).map_err(|wrong| Kind::INVALID.says(wrong.to_string()))
    }

    pub(super) async fn view(&self, name: &SessionName) -> Result<SessionView, Refused> {
        self.engine.session_view(&Caller::local(), name).await.ok_or_else(|| unknown(name))
    }

    /// For what only a session has that lives.
    async fn is_there(&self, name: &SessionName) -> Result<(), Refused> {
        match self.view(name).await?.status {
            SessionStatus::Stopped => {
                Err(Kind::CONFLICT.says(format!("The session `{name}` has ended. Start another.")))
            }
            _ => Ok(()),
        }
    }

    fn mcp_endpoint(&self, id: &str) -> String {
        format!("{}/sessions/{}/mcp", self.base, percent::escape(id, b""))
    }

    /// A session as everybody is told of it.
    pub(super) fn shown(&self, view: &SessionView) -> SessionShown {
        let view = view.clone();
        let (conversation_id, profile_id) =
            view.conversation.map(|known| (known.conversation, known.profile)).unzip();
        SessionShown {
            mcp_endpoint: self.mcp_endpoint(&view.id),
            tabs: tabs_of_list(view.tabs),
            session_id: view.id,
            status: view.status.into(),
            current_url: view.url,
            page_title: view.title,
            viewport: view.viewport.map(|(width, height)| Viewport { width, height }),
            last_activity: timestamp(view.last_activity),
            created_at: timestamp(view.created),
            conversation_id,
            profile_id,
            pool: view.pool,
            seat: view.seat,
            calls: view.calls,
            busy: view.is_busy,
            idle_left_ms: view.idle_left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            dialog: view.dialog.map(|dialog| DialogShown { kind: dialog.kind, message: dialog.message }),
            viewers: view.viewers,
            control: view.control.map(|since| ControlShown { since: timestamp(since) }),
            error: view.error,
            live: match view.pictures {
                Pictures::Screencast => PicturesShown::Screencast,
                Pictures::Polling => PicturesShown::Polling,
                Pictures::None => PicturesShown::None,
            },
            can_input: view.can_input,
        }
    }
}

impl From<SessionStatus> for StatusShown {
    fn from(status: SessionStatus) -> Self {
        match status {
            SessionStatus::Starting => Self::Starting,
            SessionStatus::Running => Self::Running,
            SessionStatus::Error => Self::Error,
            SessionStatus::Stopped => Self::Stopped,
        }
    }
}

fn tabs_of(view: &SessionView) -> Vec<TabShown> {
    tabs_of_list(view.tabs.clone())
}

fn tabs_of_list(tabs: Vec<greenroom_engine::Tab>) -> Vec<TabShown> {
    let shown = |(index, tab): (usize, greenroom_engine::Tab)| TabShown {
        index,
        url: tab.url,
        title: tab.title,
        current: tab.is_current,
    };
    tabs.into_iter().enumerate().map(shown).collect()
}

/// In UTC, to the millisecond.
pub(super) fn timestamp(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map_or_else(|_| String::new(), |time| format!("{time:.3}"))
}

/// A number of a query, which has to lie in a range.
pub(super) fn within(name: &str, value: i64, range: std::ops::RangeInclusive<i64>) -> Result<i64, Refused> {
    if range.contains(&value) {
        return Ok(value);
    }
    let (least, most) = range.into_inner();
    Err(Kind::INVALID.says(format!("`{name}` has to be from {least} to {most}, and not {value}.")))
}

pub(super) fn unknown(name: &SessionName) -> Refused {
    Kind::UNKNOWN_SESSION
        .says(format!("There is no session `{name}`. GET /api/browser-sessions names those that there are."))
}

fn refused(failure: CallFailure) -> Refused {
    let kind = failure::of_call(&failure).unwrap_or(Kind::INTERNAL);
    kind.says(failure.to_string())
}

/// What shows a page; it is another the next time.
fn file(bytes: Bytes, kind: &'static str, name: &str) -> Response {
    let headers = [
        (CONTENT_TYPE, kind.to_owned()),
        (CONTENT_DISPOSITION, format!("inline; filename=\"{name}\"")),
        (CACHE_CONTROL, "no-store".to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    (headers, bytes).into_response()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{MOBILE, SessionOrder, SessionRequest, TABLET};

    fn request(options: &Value) -> Result<SessionRequest, String> {
        let order = json!({ "conversationId": "c", "profileId": "p", "options": options });
        let order: SessionOrder = serde_json::from_value(order).map_err(|error| error.to_string())?;
        order.request().map_err(|refused| format!("{refused:?}"))
    }

    #[test]
    fn a_viewport_is_a_size_a_preset_or_a_device() {
        let wishes =
            |viewport: Value| request(&json!({ "viewport": viewport })).ok().map(|order| order.wishes);
        let size = wishes(json!({ "width": 800, "height": 1 })).unwrap();
        assert_eq!((size.viewport, size.device), (Some((800, 1)), None));
        assert_eq!(wishes(json!("desktop")).unwrap().viewport, Some((1280, 720)));
        for (name, device) in [("tablet", TABLET), ("mobile", MOBILE), ("Pixel 2", "Pixel 2")] {
            assert_eq!(wishes(json!(name)).unwrap().device.as_deref(), Some(device));
        }
        assert!(wishes(Value::Null).unwrap().viewport.is_none());
        for wrong in [
            json!({ "width": 0, "height": 5 }),
            json!({ "width": 10_001, "height": 5 }),
            json!({ "width": 5 }),
            json!({ "width": 5, "height": 5, "depth": 5 }),
            json!({ "width": 5.5, "height": 5 }),
            json!([5, 5]),
            json!(5),
            json!(""),
        ] {
            assert!(wishes(wrong.clone()).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_storage_state_is_json_and_no_name_yet() {
        let state = |state: Value| request(&json!({ "storageState": state }));
        let given = json!({ "cookies": [] });
        assert_eq!(state(given.clone()).ok().unwrap().wishes.storage_state, Some(given.clone()));
        assert_eq!(state(json!(given.to_string())).ok().unwrap().wishes.storage_state, Some(given));
        assert!(state(json!("{broken")).err().unwrap().contains("not JSON"));
        assert!(state(json!("work")).err().unwrap().contains("unknown_state"));
        assert!(state(json!(5)).err().unwrap().contains("invalid_request"));
    }

    #[test]
    fn ids_and_limits_are_checked() {
        let order = |conversation: &str| {
            let order = json!({ "conversationId": conversation, "profileId": "p" });
            serde_json::from_value::<SessionOrder>(order).unwrap().request()
        };
        assert!(order(&"ü".repeat(256)).is_ok());
        assert!(order(&"x".repeat(257)).is_err() && order("").is_err());
        assert!(request(&json!({ "userAgent": "a\nb" })).is_err());
        assert!(request(&json!({ "idleTimeoutMs": 0 })).is_ok());
        assert!(request(&json!({ "idleTimeoutMs": -1 })).is_err());
        assert!(request(&json!({ "idleTimeoutMs": 31_536_000_001_u64 })).is_err());
        assert!(request(&json!({ "colour": "red" })).is_err());
    }
}
