//! What a request is answered with.

use std::sync::Arc;

use serde_json::{Value, json};

pub(super) const INVALID_REQUEST: i64 = -32600;
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
pub(super) const INVALID_PARAMS: i64 = -32602;
pub(super) const PARSE_ERROR: i64 = -32700;

pub(super) enum Reply {
    /// A result, as JSON text.
    Json(String),
    /// A result that is given often, as JSON text.
    Shared(Arc<str>),
    Error {
        code: i64,
        message: String,
    },
    /// A text result of so many bytes, made while it is written.
    LongText(u64),
    /// No answer at all, ever.
    Silence,
}

impl Reply {
    /// A tool's result with one text block.
    pub(super) fn text(text: &str) -> Self {
        Self::Json(text_result(text))
    }

    /// A tool's result that says the tool failed.
    pub(super) fn failure(text: &str) -> Self {
        Self::result(&json!({ "content": [{ "type": "text", "text": text }], "isError": true }))
    }

    pub(super) fn result(result: &Value) -> Self {
        Self::Json(result.to_string())
    }

    pub(super) fn error(code: i64, message: impl Into<String>) -> Self {
        Self::Error { code, message: message.into() }
    }
}

/// Written out by hand, as this is the answer that benchmarks ask for a million times.
pub(super) fn text_result(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("any string is a JSON string");
    ["{\"content\":[{\"type\":\"text\",\"text\":", &quoted, "}]}"].concat()
}
