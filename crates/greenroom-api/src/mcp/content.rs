//! From the upstream's bytes to rmcp's result.
//!
//! Every field that rmcp models survives. It refuses a whole result for one content block it does not know, so
//! blocks are read one by one, and an unknown one becomes a text block that holds its JSON.

use rmcp::model::{Annotations, CallToolResult, ContentBlock, MetaObject, TextContent};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape<'a> {
    #[serde(borrow, default)]
    content: Vec<&'a RawValue>,
    // An explicit null is a value of its own.
    #[serde(default, deserialize_with = "present")]
    structured_content: Option<Value>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(rename = "_meta", default)]
    meta: Option<MetaObject>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

pub(super) fn read_result(bytes: &[u8]) -> CallToolResult {
    let shape: Shape<'_> = match serde_json::from_slice(bytes) {
        Ok(shape) => shape,
        Err(error) => {
            let text = String::from_utf8_lossy(bytes);
            let message = format!("The browser server's result is not one of MCP ({error}). It was:\n{text}");
            return CallToolResult::error(vec![ContentBlock::text(message)]);
        }
    };
    let mut result = CallToolResult::success(shape.content.into_iter().map(read_block).collect());
    result.structured_content = shape.structured_content;
    result.is_error = shape.is_error;
    result.meta = shape.meta;
    result
}

fn read_block(raw: &RawValue) -> ContentBlock {
    /// Most blocks, and all large ones but images, are text. Read directly, its string is copied once; through
    /// the tagged enum it would be buffered first.
    #[derive(Deserialize)]
    struct Text<'a> {
        #[serde(borrow)]
        r#type: std::borrow::Cow<'a, str>,
        #[serde(default)]
        text: Option<String>,
        #[serde(rename = "_meta", default)]
        meta: Option<MetaObject>,
        #[serde(default)]
        annotations: Option<Annotations>,
    }
    if let Ok(Text { r#type, text: Some(text), meta, annotations }) = serde_json::from_str(raw.get())
        && r#type == "text"
    {
        let mut block = TextContent::new(text);
        (block.meta, block.annotations) = (meta, annotations);
        return ContentBlock::Text(block);
    }
    serde_json::from_str(raw.get()).unwrap_or_else(|_| ContentBlock::text(raw.get()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::read_result;

    fn round_trip(result: &Value) -> Value {
        let mut read = read_result(result.to_string().as_bytes());
        // What rmcp does for clients of the older era.
        read.result_type = None;
        serde_json::to_value(read).unwrap()
    }

    #[test]
    fn everything_that_mcp_models_survives() {
        let result = json!({
            "content": [
                { "type": "text", "text": "a\nb", "annotations": { "audience": ["user"], "priority": 0.5 }, "_meta": { "k": 1 } },
                { "type": "image", "data": "AAAA", "mimeType": "image/png" },
                { "type": "audio", "data": "AAAA", "mimeType": "audio/wav" },
                { "type": "resource_link", "uri": "file:///x", "name": "x", "mimeType": "text/plain" },
                { "type": "resource", "resource": { "uri": "file:///y", "mimeType": "text/plain", "text": "t" } },
            ],
            "structuredContent": { "z": 1, "a": [null, { "deep": true }] },
            "isError": false,
            "_meta": { "trace": "abc" },
        });
        assert_eq!(round_trip(&result), result);
    }

    #[test]
    fn an_unknown_block_becomes_text_that_holds_it_and_spoils_nothing() {
        let odd = json!({ "type": "hologram", "data": { "x": 1 } });
        let read = round_trip(&json!({ "content": [odd, { "type": "text", "text": "ok" }] }));
        assert_eq!(read["content"][0]["type"], "text");
        let held: Value = serde_json::from_str(read["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(held, odd);
        assert_eq!(read["content"][1]["text"], "ok");
    }

    #[test]
    fn an_explicit_null_is_kept_and_an_absent_field_is_not_invented() {
        assert_eq!(
            round_trip(&json!({ "content": [], "structuredContent": null })),
            json!({ "content": [], "structuredContent": null })
        );
        assert_eq!(round_trip(&json!({ "content": [] })), json!({ "content": [] }));
    }

    #[test]
    fn what_is_no_result_is_shown_as_an_error() {
        assert_eq!(read_result(b"[1]").is_error, Some(true));
    }
}
