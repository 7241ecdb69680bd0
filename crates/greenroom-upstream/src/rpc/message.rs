//! JSON-RPC envelopes, read without touching what is inside of them.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Any message that can arrive. Contents stay raw.
#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct ErrorObject {
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) data: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct Request<'a, P: Serialize> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<P>,
}

pub(super) fn request<P: Serialize>(id: u64, method: &str, params: P) -> Bytes {
    encode(&Request { jsonrpc: "2.0", id: Some(id), method, params: Some(params) })
}

pub(super) fn notification<P: Serialize>(method: &str, params: Option<P>) -> Bytes {
    encode(&Request { jsonrpc: "2.0", id: None, method, params })
}

/// An answer to a request of the server's, whose id is given back as it came.
pub(super) fn answer(id: &RawValue, outcome: Result<serde_json::Value, (i64, &str)>) -> Bytes {
    #[derive(Serialize)]
    struct Answer<'a> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<serde_json::Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<serde_json::Value>,
    }
    let (result, error) = match outcome {
        Ok(result) => (Some(result), None),
        Err((code, message)) => (None, Some(serde_json::json!({ "code": code, "message": message }))),
    };
    encode(&Answer { jsonrpc: "2.0", id, result, error })
}

fn encode(message: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(message).expect("messages of ours are maps with text keys"))
}
