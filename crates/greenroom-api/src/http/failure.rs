//! What is answered when something cannot be done: one format, and one word for every kind of failure.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use greenroom_engine::{CallFailure, ReadFailure, Unavailable};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// The one format of errors outside of MCP.
#[derive(Serialize, ToSchema)]
pub(super) struct ErrorBody {
    /// For programs.
    #[schema(example = "invalid_request")]
    error: &'static str,
    /// For people.
    message: String,
    details: Map<String, Value>,
}

/// A kind of failure: its status, and the word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(StatusCode, &'static str);

impl Kind {
    pub(super) const INVALID: Self = Self(StatusCode::BAD_REQUEST, "invalid_request");
    pub(super) const UNKNOWN_TOOL: Self = Self(StatusCode::NOT_FOUND, "unknown_tool");
    pub(super) const UNKNOWN_CALL: Self = Self(StatusCode::NOT_FOUND, "unknown_call");
    pub(super) const UNKNOWN_SESSION: Self = Self(StatusCode::NOT_FOUND, "unknown_session");
    pub(super) const UNKNOWN_BLOB: Self = Self(StatusCode::NOT_FOUND, "unknown_blob");
    pub(super) const NO_SNAPSHOT: Self = Self(StatusCode::NOT_FOUND, "no_snapshot");
    pub(super) const HISTORY_OFF: Self = Self(StatusCode::NOT_FOUND, "history_off");
    pub(super) const EXPIRED: Self = Self(StatusCode::GONE, "expired");
    pub(super) const CONFLICT: Self = Self(StatusCode::CONFLICT, "conflict");
    pub(super) const PENDING: Self = Self(StatusCode::CONFLICT, "pending");
    pub(super) const TOO_LARGE: Self = Self(StatusCode::PAYLOAD_TOO_LARGE, "too_large");
    pub(super) const MEDIA_TYPE: Self = Self(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type");
    pub(super) const TOO_MANY: Self = Self(StatusCode::TOO_MANY_REQUESTS, "too_many");
    pub(super) const INTERNAL: Self = Self(StatusCode::INTERNAL_SERVER_ERROR, "internal");
    pub(super) const DEGRADED: Self = Self(StatusCode::SERVICE_UNAVAILABLE, "degraded");
    pub(super) const SHUTTING_DOWN: Self = Self(StatusCode::SERVICE_UNAVAILABLE, "shutting_down");
    pub(super) const TIMEOUT: Self = Self(StatusCode::GATEWAY_TIMEOUT, "timeout");

    pub(super) fn says(self, message: impl Into<String>) -> Refused {
        Refused { kind: self, message: message.into(), details: Map::new() }
    }
}

/// A request that is not granted.
#[derive(Debug)]
pub(super) struct Refused {
    kind: Kind,
    message: String,
    details: Map<String, Value>,
}

impl Refused {
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self { kind: Kind(status, error), message, details } = self;
        (status, Json(ErrorBody { error, message, details })).into_response()
    }
}

impl From<ReadFailure> for Refused {
    fn from(failure: ReadFailure) -> Self {
        of_reading(&failure).says(failure.to_string())
    }
}

impl From<PathRejection> for Refused {
    fn from(rejection: PathRejection) -> Self {
        Kind::INVALID.says(format!("The address is not right: {}.", rejection.body_text()))
    }
}

impl From<QueryRejection> for Refused {
    fn from(rejection: QueryRejection) -> Self {
        Kind::INVALID.says(format!("The query is not right: {}.", rejection.body_text()))
    }
}

fn of_reading(failure: &ReadFailure) -> Kind {
    match failure {
        ReadFailure::Off => Kind::HISTORY_OFF,
        ReadFailure::Unknown(_) => Kind::UNKNOWN_CALL,
        ReadFailure::Expired(_) => Kind::EXPIRED,
        ReadFailure::NoSuchSession(_) => Kind::UNKNOWN_SESSION,
        ReadFailure::Pending(_) => Kind::PENDING,
        ReadFailure::NoSnapshot(_) => Kind::NO_SNAPSHOT,
        ReadFailure::NoBlob => Kind::UNKNOWN_BLOB,
        ReadFailure::NoRefId(_)
        | ReadFailure::NoTree(_)
        | ReadFailure::Wrong(_)
        | ReadFailure::PastTheEnd(_)
        | ReadFailure::Query(_)
        | ReadFailure::BlobTooLarge { .. } => Kind::INVALID,
        ReadFailure::Store(_) => Kind::DEGRADED,
    }
}

/// How a call that has no result is answered. `None`: it was made, and what became of it is an answer like another.
pub(super) fn of_call(failure: &CallFailure) -> Option<Kind> {
    Some(match failure {
        CallFailure::UnknownTool { .. } => Kind::UNKNOWN_TOOL,
        CallFailure::BadArguments { .. }
        | CallFailure::Address(_)
        | CallFailure::UnknownPool(_)
        | CallFailure::UnknownInstance { .. }
        | CallFailure::OtherPool { .. }
        | CallFailure::SharedServer { .. }
        | CallFailure::BadReply { .. } => Kind::INVALID,
        CallFailure::TimedOut { .. } | CallFailure::NoLease { .. } => Kind::TIMEOUT,
        CallFailure::QueueFull { .. } | CallFailure::TooManySessions { .. } => Kind::TOO_MANY,
        CallFailure::NoSuchSession { .. } => Kind::UNKNOWN_SESSION,
        CallFailure::SessionExists { .. }
        | CallFailure::SessionClosed { .. }
        | CallFailure::BrowserKnown { .. } => Kind::CONFLICT,
        CallFailure::ShuttingDown | CallFailure::Unavailable(Unavailable::Stopping) => Kind::SHUTTING_DOWN,
        CallFailure::NoneHealthy { .. }
        | CallFailure::InstanceFailed { .. }
        | CallFailure::InstanceLeaving { .. }
        | CallFailure::NoSeat(_)
        | CallFailure::BrowserUnreachable { .. }
        | CallFailure::BrowserCoolsDown { .. }
        | CallFailure::Unavailable(_) => Kind::DEGRADED,
        CallFailure::Read(failure) => of_reading(failure),
        CallFailure::Before(message) => return of_record(message),
        CallFailure::Cancelled | CallFailure::Upstream(_) => return None,
    })
}

/// The same, of a call that is on record: what is kept of a failure is its words. The tests hold the two together.
pub(super) fn of_record(message: &str) -> Option<Kind> {
    let begins: &[(&str, Kind)] = &[
        ("Unknown tool: ", Kind::UNKNOWN_TOOL),
        ("There was no answer within ", Kind::TIMEOUT),
        ("Timeout waiting for lease: ", Kind::TIMEOUT),
        ("The queue of pool ", Kind::TOO_MANY),
        ("Greenroom is shutting down", Kind::SHUTTING_DOWN),
        ("A browser for the session could not be started: ", Kind::DEGRADED),
        ("The browser server could not be started: ", Kind::DEGRADED),
        ("The browser server has failed, ", Kind::DEGRADED),
        ("Invalid pool name", Kind::INVALID),
        ("there is no pool `", Kind::INVALID),
        ("Instance not found in pool ", Kind::INVALID),
        ("`sessionId` ", Kind::INVALID),
    ];
    let holds: &[(&str, &str, Kind)] = &[
        ("The arguments of ", " are not right: ", Kind::INVALID),
        ("`", " has to be ", Kind::INVALID),
        ("", " runs inside the server's process, which this session shares", Kind::INVALID),
        ("Session `", " lives in pool ", Kind::INVALID),
        ("There are ", " sessions already, which is as many as may be ", Kind::TOO_MANY),
        ("The session `", " was closed: ", Kind::CONFLICT),
        ("Default pool ", " has no healthy instances", Kind::DEGRADED),
        ("Pool ", " has no healthy instances", Kind::DEGRADED),
        ("Instance ", " has failed and was given up", Kind::DEGRADED),
        ("Instance ", " is being removed", Kind::DEGRADED),
    ];
    let begins = begins.iter().find(|(start, _)| message.starts_with(start)).map(|(_, kind)| *kind);
    let holds = || {
        let found =
            holds.iter().find(|(start, part, _)| message.starts_with(start) && message.contains(part));
        found.map(|(.., kind)| *kind)
    };
    begins.or_else(holds)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use greenroom_core::target::{AddressError, UnknownPool};
    use greenroom_engine::{CallError, CallFailure, Unavailable};

    use super::{of_call, of_record};

    #[test]
    fn a_failure_is_of_the_same_kind_when_it_is_read_from_the_record() {
        let text = || "x".to_owned();
        let pool = || UnknownPool { name: text(), valid: vec![text()] };
        let failures = [
            CallFailure::UnknownTool { name: text(), nearest: None, elsewhere: Vec::new() },
            CallFailure::BadArguments { tool: "x", problem: text() },
            CallFailure::Address(AddressError::InvalidPool(pool())),
            CallFailure::Address(AddressError::UnknownPool(pool())),
            CallFailure::Address(AddressError::NotText { parameter: "browser_pool" }),
            CallFailure::Address(AddressError::SessionMissing),
            CallFailure::Address(AddressError::SessionTooLong { letters: 1000 }),
            CallFailure::Address(AddressError::SessionAndInstance),
            CallFailure::UnknownPool(pool()),
            CallFailure::UnknownInstance { name: text(), pool: text(), valid: text() },
            CallFailure::Cancelled,
            CallFailure::TimedOut { limit: Duration::from_secs(1), shares_a_page: true },
            CallFailure::NoLease {
                what: text(),
                waited: Duration::ZERO,
                limit: "x",
                waiting: 0,
                situation: text(),
            },
            CallFailure::QueueFull { pool: text(), waiting: 1 },
            CallFailure::NoneHealthy { pool: text(), is_default: true, causes: text() },
            CallFailure::NoneHealthy { pool: text(), is_default: false, causes: text() },
            CallFailure::InstanceFailed { pool: text(), instance: text(), cause: text() },
            CallFailure::InstanceLeaving { pool: text(), instance: text() },
            CallFailure::SessionClosed { name: text(), reason: text() },
            CallFailure::OtherPool { name: text(), pool: text(), actual: text() },
            CallFailure::TooManySessions { most: 1, key: "x" },
            CallFailure::SharedServer { tool: text() },
            CallFailure::BadReply { name: text() },
            CallFailure::Unavailable(Unavailable::Stopping),
            CallFailure::Upstream(CallError::TooLarge { limit: 1 }),
            CallFailure::ShuttingDown,
        ];
        for failure in failures {
            assert_eq!(of_record(&failure.to_string()), of_call(&failure), "{failure}");
        }
    }
}
