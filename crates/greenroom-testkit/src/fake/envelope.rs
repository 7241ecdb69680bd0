//! The JSON-RPC message around an answer.
//!
//! Servers built on the TypeScript SDK write `result` first and `id` last, so a gateway that wants to route
//! an answer cannot stop reading early. That is the order here too, unless `--id-first` asks for the other.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::reply::Reply;

/// The text of a long result repeats this line. It needs no escaping.
const LONG_LINE: &[u8] = b"The quick brown fox jumps over the lazy dog while the band plays on.....";

/// Writes a whole response, without a line end.
pub(super) fn write_response(
    out: &mut dyn Write,
    id: &Value,
    reply: &Reply,
    id_first: bool,
) -> io::Result<()> {
    if id_first {
        write!(out, "{{\"jsonrpc\":\"2.0\",\"id\":{id},")?;
        write_outcome(out, reply)?;
        out.write_all(b"}")
    } else {
        out.write_all(b"{")?;
        write_outcome(out, reply)?;
        write!(out, ",\"jsonrpc\":\"2.0\",\"id\":{id}}}")
    }
}

fn write_outcome(out: &mut dyn Write, reply: &Reply) -> io::Result<()> {
    match reply {
        Reply::Json(json) => write_result(out, json),
        Reply::Shared(json) => write_result(out, json),
        Reply::LongText(bytes) => write_long_result(out, *bytes),
        Reply::Error { code, message } => {
            write!(out, "\"error\":{}", json!({ "code": code, "message": message }))
        }
        Reply::Silence => unreachable!("silence is never written"),
    }
}

fn write_result(out: &mut dyn Write, json: &str) -> io::Result<()> {
    out.write_all(b"\"result\":")?;
    out.write_all(json.as_bytes())
}

fn write_long_result(out: &mut dyn Write, mut bytes: u64) -> io::Result<()> {
    out.write_all(br#""result":{"content":[{"type":"text","text":""#)?;
    // Large blocks, so that a hundred megabytes are not a million writes.
    let block = LONG_LINE.repeat(1024);
    while bytes > 0 {
        let part = usize::try_from(bytes).map_or(block.len(), |left| left.min(block.len()));
        out.write_all(&block[..part])?;
        bytes -= part as u64;
    }
    out.write_all(b"\"}]}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &Reply, id_first: bool) -> String {
        let mut out = Vec::new();
        write_response(&mut out, &json!(5), reply, id_first).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_id_is_last_unless_asked_otherwise() {
        let reply = Reply::Json("{}".to_owned());
        assert_eq!(written(&reply, false), r#"{"result":{},"jsonrpc":"2.0","id":5}"#);
        assert_eq!(written(&reply, true), r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    }

    #[test]
    fn a_long_text_has_the_length_that_was_asked_for() {
        for length in [0, 1, 100_000] {
            let message: Value = serde_json::from_str(&written(&Reply::LongText(length), false)).unwrap();
            let text = message["result"]["content"][0]["text"].as_str().unwrap();
            assert_eq!(text.len() as u64, length);
        }
    }
}
