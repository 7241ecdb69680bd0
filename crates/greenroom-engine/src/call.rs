//! One call: what is asked, what comes back, and the handle in between.

use std::time::Duration;

use bytes::Bytes;
use greenroom_core::attach::COOL_DOWN;
use greenroom_core::config::Reply;
use greenroom_core::ids::RefId;
use greenroom_core::target::{AddressError, SessionName, UnknownPool};
use greenroom_upstream::LaunchError;
use greenroom_upstream::instance::Unavailable;
use greenroom_upstream::rpc::{CallError, Progress};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::arrival::Place;
use crate::reading::ReadFailure;
use crate::sessions::Caller;

pub struct CallRequest {
    pub origin: Origin,
    pub tool: String,
    pub arguments: Map<String, Value>,
    /// The place in line, if it was taken when the call arrived.
    pub place: Option<Place>,
    /// The id that the call is to have on record. One that is known already is not made again.
    pub ref_id: Option<RefId>,
    /// Where progress goes, if the caller wants it.
    pub progress: Option<mpsc::Sender<Progress>>,
}

/// What became of a call.
#[derive(Debug)]
pub struct Outcome {
    /// The result: the upstream's bytes as they are, or what is told of them.
    pub result: Result<Bytes, CallFailure>,
    /// Where it ran, if it came that far.
    pub served: Option<Served>,
    /// The call's name on record; `None` where it is not.
    pub ref_id: Option<RefId>,
}

#[derive(Clone, Debug)]
pub struct Served {
    pub pool: String,
    /// The leased instance, where one was leased.
    pub instance: Option<String>,
    /// The session, where it was one.
    pub session: Option<String>,
    /// The attached browser, where it was one.
    pub browser: Option<String>,
    /// How long it waited for its browser.
    pub waited: Duration,
    /// What the caller has to know about the browser.
    pub notice: Option<String>,
}

/// Where a call comes from.
#[derive(Clone, Debug)]
pub struct Origin {
    pub caller: Caller,
    pub session: Bound,
}

/// What the way in says about the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Nothing: the arguments do.
    Free,
    /// Where the arguments name none, it is this one.
    Implied(SessionName),
    /// It is this one, and the arguments have nothing to say.
    Fixed(SessionName),
}

impl Origin {
    /// The local user, by whatever way.
    pub fn local() -> Self {
        Self { caller: Caller::local(), session: Bound::Free }
    }
}

/// Why a call has no result. Every variant says what happened and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum CallFailure {
    #[error("Unknown tool: {name}{}", suggestion(here, nearest.as_deref(), elsewhere))]
    UnknownTool {
        name: String,
        /// What was asked for it: a pool or a browser.
        here: &'static str,
        nearest: Option<String>,
        elsewhere: Vec<String>,
    },
    #[error("The arguments of {tool} are not right: {problem}.")]
    BadArguments { tool: &'static str, problem: String },
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error("Invalid pool name: {0}")]
    UnknownPool(#[from] UnknownPool),
    #[error("Instance not found in pool '{pool}': `{name}`. Its instances are: {valid}.")]
    UnknownInstance { name: String, pool: String, valid: String },
    #[error("The call was cancelled.")]
    Cancelled,
    #[error(
        "There was no answer within {} (CALL_TIMEOUT). {}Raise CALL_TIMEOUT for calls that take longer.",
        seconds(*limit),
        if *shares_a_page { "The page is being closed so that the next call works; navigate again. " } else { "" }
    )]
    TimedOut { limit: Duration, shares_a_page: bool },
    #[error(
        "Timeout waiting for lease: {what} did not become free within {} ({limit}), so the call was not started. The \
         pool's instances: {situation}; calls waiting: {waiting}. Try again later, use another pool, or raise {limit}.",
        seconds(*waited)
    )]
    NoLease { what: String, waited: Duration, limit: &'static str, waiting: usize, situation: String },
    #[error(
        "The queue of pool '{pool}' is full: calls waiting: {waiting}, which is as many as may (MAX_QUEUE), so this one was \
         not started. Try again later, or use another pool."
    )]
    QueueFull { pool: String, waiting: usize },
    #[error(
        "{} '{pool}' has no healthy instances. Specify explicit pool or restart failed instances.{}",
        if *is_default { "Default pool" } else { "Pool" },
        behind(causes)
    )]
    NoneHealthy { pool: String, is_default: bool, causes: String },
    #[error(
        "Instance {instance} of pool '{pool}' has failed and was given up: {cause}. Use another, or restart it with \
         `greenroom restart {pool} {instance}`."
    )]
    InstanceFailed { pool: String, instance: String, cause: String },
    #[error("Instance {instance} of pool '{pool}' is being removed. Use another.")]
    InstanceLeaving { pool: String, instance: String },
    #[error("The session `{name}` was closed: {reason}. The next call with that name makes a new one.")]
    SessionClosed { name: String, reason: String },
    #[error(
        "A person has control of the browser of session `{name}`, and has not handed it back within {} (CALL_TIMEOUT). \
         The call was not run; try again later.",
        seconds(*waited)
    )]
    PersonHasControl { name: String, waited: Duration },
    #[error("The session `{name}` has no browser at the moment.")]
    NoBrowserYet { name: String },
    #[error("The browsers of pool {pool} take no viewport, user agent, device or storage state.")]
    NoWishes { pool: String },
    #[error("It could not be done: {reason}.")]
    NotDone { reason: String },
    #[error("There is no session `{name}`. `session_list` names those that there are.")]
    NoSuchSession { name: String },
    #[error(
        "There is a session `{name}` already. Use it, close it with `session_close`, or choose another name."
    )]
    SessionExists { name: String },
    #[error(
        "Session `{name}` lives in pool {actual}, not in {pool}. Leave out browser_pool, or use another name."
    )]
    OtherPool { name: String, pool: String, actual: String },
    #[error(
        "There are {most} sessions already, which is as many as may be ({key}). Close one with `session_close`."
    )]
    TooManySessions { most: usize, key: &'static str },
    #[error(
        "{tool} runs inside the server's process, which this session shares with others. It needs \
         SESSION_ISOLATION=process, or an instance of a pool instead of a session."
    )]
    SharedServer { tool: String },
    #[error("A browser for the session could not be started: {}", greenroom_upstream::driver::chain(.0))]
    NoSeat(LaunchError),
    #[error(
        "The browser {browser} cannot be reached: {reason}. Start it, then call again or use `reconnect_browser`; without that \
         calls try again in {} s.",
        COOL_DOWN.as_secs()
    )]
    BrowserUnreachable { browser: String, reason: String },
    #[error(
        "The browser {browser} could not be reached: {reason}. Calls try again in {} s; `reconnect_browser` with force tries at \
         once.",
        left.as_secs().max(1)
    )]
    BrowserCoolsDown { browser: String, reason: String, left: Duration },
    #[error(
        "No browser was attached: {reason}. {address} has to be the debugging address of a browser that runs."
    )]
    NotAttached { address: String, reason: String },
    #[error("There is the browser {browser} already. Use it, or choose another address and name.")]
    BrowserKnown { browser: String },
    #[error("`{name}` has to be one of: {}.", Reply::NAMES.join(", "))]
    BadReply { name: String },
    #[error(transparent)]
    Read(ReadFailure),
    /// A call that is on record already, which was no success.
    #[error("{message}")]
    Before { message: String, kind: Option<FailureKind> },
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The upstream's own answer was an error, or there was none.
    #[error(transparent)]
    Upstream(CallError),
    #[error("Greenroom is shutting down; the call was not run to its end.")]
    ShuttingDown,
}

/// Why a call was not made, or not to its end, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    Invalid,
    UnknownTool,
    UnknownSession,
    Conflict,
    TooMany,
    Timeout,
    /// There is no browser that could serve it now.
    Degraded,
    ShuttingDown,
}

impl FailureKind {
    const ALL: [Self; 8] = [
        Self::Invalid,
        Self::UnknownTool,
        Self::UnknownSession,
        Self::Conflict,
        Self::TooMany,
        Self::Timeout,
        Self::Degraded,
        Self::ShuttingDown,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid_request",
            Self::UnknownTool => "unknown_tool",
            Self::UnknownSession => "unknown_session",
            Self::Conflict => "conflict",
            Self::TooMany => "too_many",
            Self::Timeout => "timeout",
            Self::Degraded => "degraded",
            Self::ShuttingDown => "shutting_down",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl CallFailure {
    /// `None` where the call was made, and what became of it is an answer like another.
    pub fn kind(&self) -> Option<FailureKind> {
        Some(match self {
            Self::UnknownTool { .. } => FailureKind::UnknownTool,
            Self::BadArguments { .. }
            | Self::Address(_)
            | Self::UnknownPool(_)
            | Self::UnknownInstance { .. }
            | Self::OtherPool { .. }
            | Self::SharedServer { .. }
            | Self::NoWishes { .. }
            | Self::BadReply { .. } => FailureKind::Invalid,
            Self::TimedOut { .. } | Self::NoLease { .. } | Self::PersonHasControl { .. } => {
                FailureKind::Timeout
            }
            Self::QueueFull { .. } | Self::TooManySessions { .. } => FailureKind::TooMany,
            Self::NoSuchSession { .. } => FailureKind::UnknownSession,
            Self::SessionExists { .. }
            | Self::SessionClosed { .. }
            | Self::BrowserKnown { .. }
            | Self::NoBrowserYet { .. }
            | Self::NotDone { .. } => FailureKind::Conflict,
            Self::ShuttingDown | Self::Unavailable(Unavailable::Stopping) => FailureKind::ShuttingDown,
            Self::NoneHealthy { .. }
            | Self::InstanceFailed { .. }
            | Self::InstanceLeaving { .. }
            | Self::NoSeat(_)
            | Self::BrowserUnreachable { .. }
            | Self::BrowserCoolsDown { .. }
            | Self::NotAttached { .. }
            | Self::Unavailable(_) => FailureKind::Degraded,
            Self::Before { kind, .. } => return *kind,
            Self::Read(_) | Self::Cancelled | Self::Upstream(_) => return None,
        })
    }
}

fn suggestion(here: &str, nearest: Option<&str>, elsewhere: &[String]) -> String {
    match (nearest, elsewhere) {
        (_, [_, ..]) => format!(" in this {here}. It is there in: {}.", elsewhere.join(", ")),
        (Some(near), []) => format!(". Did you mean `{near}`?"),
        (None, []) => ". `tools/list` names those that exist.".to_owned(),
    }
}

fn seconds(duration: Duration) -> String {
    let rounded = (duration.as_secs_f64() * 10.0).round() / 10.0;
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{rounded} s")
    }
}

fn behind(causes: &str) -> String {
    if causes.is_empty() { String::new() } else { format!(" {causes}") }
}

/// A call under way. Dropping the handle leaves the call running; [`cancel`](Self::cancel) ends the waiting.
pub struct CallHandle {
    pub(crate) answer: oneshot::Receiver<Outcome>,
    pub(crate) cancel: CancellationToken,
}

impl CallHandle {
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    pub async fn outcome(&mut self) -> Outcome {
        let gone = |_| Outcome { result: Err(CallFailure::ShuttingDown), served: None, ref_id: None };
        (&mut self.answer).await.unwrap_or_else(gone)
    }
}
