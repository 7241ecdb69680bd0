//! Tool calls as they are on the wire, and the check of what comes back.

use std::borrow::Cow;

use anyhow::{Context, Result, bail, ensure};
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) const LEGACY_REVISION: &str = "2025-11-25";
pub(crate) const MODERN_REVISION: &str = "2026-07-28";

/// A tool call, and what its answer must be like.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) tool: &'static str,
    arguments: String,
    expected: Expected,
}

#[derive(Clone)]
enum Expected {
    /// A text of so many bytes.
    Length(usize),
    /// A message with this in it, as it is on the wire.
    Words(&'static str),
    /// Whoever asked will look.
    Anything,
}

impl Call {
    /// A call that is all overhead: a few bytes there and back.
    pub(crate) fn small() -> Self {
        let text = "twenty bytes of text";
        Self::new("echo", format!(r#"{{"text":"{text}"}}"#), Expected::Length(text.len()))
    }

    /// A call whose result has a text of this size.
    pub(crate) fn of_size(bytes: usize) -> Self {
        Self::new("bytes", format!(r#"{{"size":{bytes}}}"#), Expected::Length(bytes))
    }

    /// A call whose answer is known by words in it that need no escaping in JSON.
    pub(crate) fn answered_with(
        words: &'static str,
        tool: &'static str,
        arguments: &serde_json::Value,
    ) -> Self {
        Self::new(tool, arguments.to_string(), Expected::Words(words))
    }

    /// A call whose answer is for its caller to look at.
    pub(crate) fn of(tool: &'static str, arguments: &serde_json::Value) -> Self {
        Self::new(tool, arguments.to_string(), Expected::Anything)
    }

    fn new(tool: &'static str, arguments: String, expected: Expected) -> Self {
        Self { tool, arguments, expected }
    }

    pub(super) fn message(&self, id: u64) -> String {
        let Self { tool, arguments, .. } = self;
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
        )
    }

    /// The message of a client that has no session and says with every request who it is.
    pub(super) fn modern_message(&self, id: u64) -> String {
        let Self { tool, arguments, .. } = self;
        format!(
            concat!(
                r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{{"name":"{}","arguments":{},"#,
                r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"{}","#,
                r#""io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
            ),
            id,
            tool,
            arguments,
            MODERN_REVISION,
            client_info()
        )
    }

    /// Whether the message is the answer to request `id`. An answer that is wrong is an error.
    pub(super) fn is_answered_by(&self, message: &[u8], id: u64) -> Result<bool> {
        let Some((answered, length)) = text_of(message)? else { return Ok(false) };
        if answered != id {
            return Ok(false);
        }
        self.check(message, length)?;
        Ok(true)
    }

    /// Whether an answer, whose text is of this length, is as it should be.
    pub(super) fn check(&self, message: &[u8], length: usize) -> Result<()> {
        let tool = self.tool;
        match self.expected {
            Expected::Length(expected) => ensure!(
                length == expected,
                "{tool} answered with {length} bytes of text instead of {expected}"
            ),
            Expected::Words(words) => ensure!(
                memmem::find(message, words.as_bytes()).is_some(),
                "{tool} answered without \"{words}\": {}",
                shown(message)
            ),
            Expected::Anything => {}
        }
        Ok(())
    }
}

pub(super) fn initialize(id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"{LEGACY_REVISION}","capabilities":{{}},"clientInfo":{}}}}}"#,
        client_info()
    )
}

pub(super) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn client_info() -> &'static str {
    concat!(r#"{"name":"greenroom-bench","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#)
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The id and the raw result of a response; `None` for any other message. An error response is an error.
pub(super) fn response(message: &[u8]) -> Result<Option<(u64, &RawValue)>> {
    let parsed: Message<'_> =
        serde_json::from_slice(message).with_context(|| format!("not JSON-RPC: {}", shown(message)))?;
    if parsed.method.is_some() {
        return Ok(None);
    }
    if let Some(error) = parsed.error {
        bail!("answered with an error: {error}");
    }
    let id = parsed.id.and_then(|id| id.get().parse().ok());
    let (Some(id), Some(result)) = (id, parsed.result) else { bail!("not a response: {}", shown(message)) };
    Ok(Some((id, result)))
}

/// The result of a response, to be looked at.
pub(super) fn result_of(message: &[u8]) -> Result<serde_json::Value> {
    let (_, result) = response(message)?.context("not an answer")?;
    Ok(serde_json::from_str(result.get())?)
}

fn shown(message: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&message[..message.len().min(300)])
}

/// The id of a tool call's answer and the length of its text; `None` for any other message.
pub(super) fn text_of(message: &[u8]) -> Result<Option<(u64, usize)>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolResult<'a> {
        #[serde(borrow)]
        content: Vec<Block<'a>>,
        #[serde(default)]
        is_error: Option<bool>,
    }
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow)]
        text: Cow<'a, str>,
    }
    let Some((id, result)) = response(message)? else { return Ok(None) };
    let result: ToolResult<'_> = serde_json::from_str(result.get()).context("not a tool's result")?;
    let length = result.content.iter().map(|block| block.text.len()).sum();
    if result.is_error == Some(true) {
        let text: String = result.content.iter().map(|block| block.text.as_ref()).collect();
        bail!("the call failed: {text}");
    }
    Ok(Some((id, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(id: u64, text: &str) -> Vec<u8> {
        format!(r#"{{"result":{{"content":[{{"type":"text","text":"{text}"}}]}},"jsonrpc":"2.0","id":{id}}}"#)
            .into_bytes()
    }

    #[test]
    fn an_answer_counts_only_for_its_own_request_and_at_its_full_length() {
        let call = Call::of_size(4);
        assert!(call.is_answered_by(&answer(7, r"ab\nc"), 7).unwrap());
        assert!(!call.is_answered_by(&answer(8, "abcd"), 7).unwrap());
        assert!(!call.is_answered_by(br#"{"method":"notifications/message","params":{}}"#, 7).unwrap());
        assert!(call.is_answered_by(&answer(7, "abc"), 7).is_err());
        assert!(call.is_answered_by(br#"{"id":7,"error":{"code":-1,"message":"no"}}"#, 7).is_err());
    }

    #[test]
    fn an_answer_may_be_known_by_its_words() {
        let call = Call::answered_with("Title: Form", "look", &serde_json::json!({ "at": "it" }));
        assert!(call.message(7).contains(r#""arguments":{"at":"it"}"#));
        assert!(call.is_answered_by(&answer(7, "Page Title: Form"), 7).unwrap());
        assert!(call.is_answered_by(&answer(7, "Page Title: Links"), 7).is_err());
    }

    #[test]
    fn messages_are_json() {
        for message in [Call::small().message(1), Call::small().modern_message(1), initialize(1)] {
            let value: serde_json::Value = serde_json::from_str(&message).unwrap();
            assert_eq!(value["id"], 1);
        }
        let modern: serde_json::Value = serde_json::from_str(&Call::small().modern_message(1)).unwrap();
        assert_eq!(modern["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], MODERN_REVISION);
    }
}
