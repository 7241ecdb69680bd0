//! What is to be seen of a session, as it is told over HTTP.

use std::time::SystemTime;

use greenroom_core::percent;
use greenroom_engine::{Pictures, SessionStatus, SessionView, Tab};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::given;
use super::openapi::Api;

/// A viewport in CSS pixels.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Viewport {
    #[serde(deserialize_with = "given::whole")]
    #[schema(minimum = 1, maximum = 10_000)]
    pub(super) width: u32,
    #[serde(deserialize_with = "given::whole")]
    #[schema(minimum = 1, maximum = 10_000)]
    pub(super) height: u32,
}

#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum StatusShown {
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
pub(super) struct TabShown {
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

impl Api {
    pub(super) fn mcp_endpoint(&self, id: &str) -> String {
        format!("{}/sessions/{}/mcp", self.base, percent::escape(id, b""))
    }

    /// A session as everybody is told of it.
    pub(super) fn shown(&self, view: &SessionView) -> SessionShown {
        let view = view.clone();
        let (conversation_id, profile_id) =
            view.conversation.map(|known| (known.conversation, known.profile)).unzip();
        SessionShown {
            mcp_endpoint: self.mcp_endpoint(&view.id),
            tabs: tabs_shown(view.tabs),
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

pub(super) fn tabs_shown(tabs: Vec<Tab>) -> Vec<TabShown> {
    let shown = |(index, tab): (usize, Tab)| TabShown {
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
