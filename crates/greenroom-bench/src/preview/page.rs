//! The page that is watched: one that is at rest until it is clicked, or changes with every frame.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use crate::client::Call;
use crate::sessions::rig::{Agent, Gateway, Rig};

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Page {
    Still,
    Moving,
}

impl Page {
    fn path(self) -> &'static str {
        match self {
            Self::Still => "/target",
            Self::Moving => "/target?moving",
        }
    }

    /// Goes there.
    pub(super) async fn show(self, agent: &mut Agent, rig: &Rig<'_>) -> Result<Duration> {
        let url = rig.url(self.path());
        let arguments = agent.arguments(json!({ "url": url }));
        agent.call(&Call::answered_with("Page Title: Target", "browser_navigate", &arguments)).await
    }
}

/// Looks at it.
pub(super) async fn look(agent: &mut Agent) -> Result<Duration> {
    let arguments = agent.arguments(json!({}));
    agent.call(&Call::answered_with("Page Title: Target", "browser_snapshot", &arguments)).await
}

/// Clicks it. The title then tells of it.
pub(super) async fn click(agent: &mut Agent) -> Result<Duration> {
    let arguments = agent.arguments(json!({ "element": "Target", "target": "#target" }));
    agent.call(&Call::answered_with("Page Title: Click ", "browser_click", &arguments)).await
}

/// A gateway with one session, and what runs on it. No seat is kept warm: making one would be work of no interest here. A
/// session is not ended for want of calls, as watching is none.
pub(super) async fn with_session<T>(
    rig: &Rig<'_>,
    settle_ms: Option<u64>,
    session: &str,
    part: impl AsyncFnOnce(&Gateway, &mut Agent) -> Result<T>,
) -> Result<T> {
    let mut variables =
        vec![("GREENROOM_WARM_SESSIONS", "0".to_owned()), ("GREENROOM_SESSION_IDLE_TIMEOUT", "0".to_owned())];
    variables.extend(settle_ms.map(|ms| ("GREENROOM_TIMEOUT_SETTLE", ms.to_string())));
    let gateway = rig.gateway_with(&variables).await?;
    let outcome = async {
        let mut agent = gateway.agent(session.to_owned()).await?;
        part(&gateway, &mut agent).await
    }
    .await
    .with_context(|| gateway.last_words());
    gateway.end().await;
    outcome
}
