//! What is answered when something cannot be done: one format, and one word for every kind of failure.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use greenroom_engine::{CallFailure, FailureKind, ReadFailure};
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
    pub(super) const UNKNOWN_STATE: Self = Self(StatusCode::NOT_FOUND, "unknown_state");
    pub(super) const NOT_FOUND: Self = Self(StatusCode::NOT_FOUND, "not_found");
    pub(super) const UPGRADE: Self = Self(StatusCode::UPGRADE_REQUIRED, "upgrade_required");
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

    /// The word for it.
    pub(super) fn word(self) -> &'static str {
        self.1
    }

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
    /// For where there is no status to go with them.
    pub(super) fn words(self) -> (&'static str, String) {
        (self.kind.word(), self.message)
    }

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
        ReadFailure::Store(_) | ReadFailure::Broken(_) => Kind::DEGRADED,
        ReadFailure::Unanswered(_) => Kind::TIMEOUT,
    }
}

/// How a call that has no result is answered. `None`: it was made, and what became of it is an answer like another.
pub(super) fn of_call(failure: &CallFailure) -> Option<Kind> {
    match failure {
        CallFailure::Read(failure) => Some(of_reading(failure)),
        failure => failure.kind().map(Kind::from),
    }
}

impl From<FailureKind> for Kind {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Invalid => Self::INVALID,
            FailureKind::UnknownTool => Self::UNKNOWN_TOOL,
            FailureKind::UnknownSession => Self::UNKNOWN_SESSION,
            FailureKind::Conflict => Self::CONFLICT,
            FailureKind::TooMany => Self::TOO_MANY,
            FailureKind::Timeout => Self::TIMEOUT,
            FailureKind::Degraded => Self::DEGRADED,
            FailureKind::ShuttingDown => Self::SHUTTING_DOWN,
        }
    }
}
