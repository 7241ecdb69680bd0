//! One call: what is asked, what comes back, and the handle in between.

use std::time::Duration;

use bytes::Bytes;
use greenroom_upstream::instance::Unavailable;
use greenroom_upstream::rpc::{CallError, Progress};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::engine::Place;

pub struct CallRequest {
    pub tool: String,
    pub arguments: Map<String, Value>,
    /// The place in line, if it was taken when the call arrived.
    pub place: Option<Place>,
    /// Where progress goes, if the caller wants it.
    pub progress: Option<mpsc::Sender<Progress>>,
}

/// Why a call has no result. Every variant says what happened and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum CallFailure {
    #[error("Unknown tool: {name}{}", suggestion(nearest.as_deref()))]
    UnknownTool { name: String, nearest: Option<String> },
    #[error("The call was cancelled.")]
    Cancelled,
    #[error(
        "There was no answer within {} (CALL_TIMEOUT). {}Raise CALL_TIMEOUT for calls that take longer.",
        seconds(*limit),
        if *shares_a_page { "The page is being closed so that the next call works; navigate again. " } else { "" }
    )]
    TimedOut { limit: Duration, shares_a_page: bool },
    #[error(
        "The browser was busy with another call for {} (CALL_TIMEOUT), so this one was not started. Try again, or \
         cancel the other.",
        seconds(*limit)
    )]
    NoTurn { limit: Duration },
    #[error(
        "The browser server was not ready within {} (CALL_TIMEOUT); it is {state}{}. Try again later.",
        seconds(*limit),
        because(cause.as_deref())
    )]
    NotReady { limit: Duration, state: &'static str, cause: Option<String> },
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The upstream's own answer was an error, or there was none.
    #[error(transparent)]
    Upstream(CallError),
    #[error("Greenroom is shutting down; the call was not run to its end.")]
    ShuttingDown,
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(
        || ". `tools/list` names those that exist.".to_owned(),
        |near| format!(". Did you mean `{near}`?"),
    )
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

fn because(cause: Option<&str>) -> String {
    cause.map_or_else(String::new, |cause| format!(": {cause}"))
}

/// A call under way. Dropping the handle leaves the call running; [`cancel`](Self::cancel) ends the waiting.
pub struct CallHandle {
    pub(crate) answer: oneshot::Receiver<Result<Bytes, CallFailure>>,
    pub(crate) cancel: CancellationToken,
}

impl CallHandle {
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// The result's bytes, exactly as the upstream sent them.
    pub async fn outcome(&mut self) -> Result<Bytes, CallFailure> {
        (&mut self.answer).await.unwrap_or(Err(CallFailure::ShuttingDown))
    }
}
