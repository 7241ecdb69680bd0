//! Tools that answer with some kind of content.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::super::args::Args;
use super::super::base64;
use super::super::protocol::Fake;
use super::super::reply::{Reply, text_result};
use super::super::tool::{Hints, Tool, later, needed, now, optional};
use super::super::turn::Outcome;
use crate::lock::lock;

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "echo",
        title: "Echo",
        description: "Answers with the text it is given.",
        params: &[needed("text", "string", "The text to give back")],
        hints: Hints::ReadOnly,
        run: |_, args| now(Reply::text(args.text("text")?)),
    },
    Tool {
        name: "bytes",
        title: "Text of a size",
        description: "Answers with a text of exactly so many bytes.",
        params: &[needed("size", "integer", "How many bytes")],
        hints: Hints::ReadOnly,
        run: |fake, args| now(Reply::Shared(fake.texts.result_of_size(args.number("size")?))),
    },
    Tool {
        name: "huge",
        title: "Huge text",
        description: "Answers with a text that is made while it is sent, of a hundred megabytes or more.",
        params: &[needed("bytes", "integer", "How many bytes")],
        hints: Hints::ReadOnly,
        run: |_, args| {
            let bytes = args.number("bytes")?;
            later(move |_| Reply::LongText(bytes))
        },
    },
    Tool {
        name: "image",
        title: "Image",
        description: "Answers with an image block: a tiny picture, or noise of a given size.",
        params: &[
            optional("size", "integer", "Send so many bytes of noise in place of the picture"),
            optional("fresh", "boolean", "Other noise with every call"),
        ],
        hints: Hints::ReadOnly,
        run: image,
    },
    Tool {
        name: "structured",
        title: "Structured result",
        description: "Gives its arguments back as structured content, and as text.",
        params: &[],
        hints: Hints::ReadOnly,
        run: structured,
    },
    Tool {
        name: "blocks",
        title: "Blocks",
        description: "Answers with exactly the content blocks it is given.",
        params: &[needed("content", "array", "The blocks")],
        hints: Hints::ReadOnly,
        run: |_, args| now(Reply::result(&json!({ "content": args.all()["content"] }))),
    },
    Tool {
        name: "odd_content",
        title: "Odd content",
        description: "Answers with every kind of content block, one of them from the future.",
        params: &[],
        hints: Hints::ReadOnly,
        run: |_, _| now(Reply::Json(ODD_RESULT.to_owned())),
    },
];

/// One pixel, which any decoder of PNG files takes.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// As text and not as a value: what passes this on should not reformat `1.50`, nor reorder the fields.
const ODD_RESULT: &str = concat!(
    r#"{"content":["#,
    r#"{"type":"hologram","data":{"x":1},"note":"no client knows this type yet"},"#,
    r#"{"type":"text","text":"for the user","annotations":{"audience":["user"],"priority":0.9},"#,
    r#""_meta":{"example.com/trace":"t-1"}},"#,
    r#"{"type":"resource_link","uri":"file:///report.csv","name":"report.csv","title":"Report","#,
    r#""mimeType":"text/csv","size":42},"#,
    r#"{"type":"resource","resource":{"uri":"file:///notes.txt","mimeType":"text/plain","text":"some notes"}},"#,
    r#"{"type":"audio","data":"UklGRgAAAABXQVZF","mimeType":"audio/wav"}"#,
    r#"],"_meta":{"example.com/result":{"deep":[1,2,3]}},"futureField":{"exact":1.50,"kept":true}}"#,
);

fn image(fake: &Arc<Fake>, args: &Args) -> Result<Outcome, Reply> {
    let turn = if args.all()["fresh"] == true { fake.ledger.summary()["calls"].as_u64() } else { None };
    let data = match args.optional("size", Args::number)? {
        None => PIXEL.to_owned(),
        Some(size) => base64::encode(&noise(size, turn.unwrap_or_default())),
    };
    now(Reply::result(&json!({ "content": [{ "type": "image", "data": data, "mimeType": "image/png" }] })))
}

/// Bytes that look random and are the same every time in the same turn.
fn noise(size: u64, turn: u64) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ turn;
    (0..size)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[0]
        })
        .collect()
}

fn structured(_: &Arc<Fake>, args: &Args) -> Result<Outcome, Reply> {
    let given = if args.all().is_null() { &json!({}) } else { args.all() };
    let text = Value::to_string(given);
    now(Reply::result(&json!({ "content": [{ "type": "text", "text": text }], "structuredContent": given })))
}

/// The results of `bytes`, kept: a benchmark asks for the same size over and over.
#[derive(Default)]
pub(in crate::fake) struct TextCache(Mutex<HashMap<u64, Arc<str>>>);

impl TextCache {
    fn result_of_size(&self, size: u64) -> Arc<str> {
        let mut results = lock(&self.0);
        Arc::clone(results.entry(size).or_insert_with(|| text_result(&numbered_lines(size)).into()))
    }
}

/// Lines of 64 bytes that tell where they stand, so that a lost or doubled part is found.
fn numbered_lines(size: u64) -> String {
    let size = usize::try_from(size).expect("a text that fits memory");
    let mut text = String::with_capacity(size + 64);
    let mut line = 1;
    while text.len() < size {
        text.push_str(&format!("{line:010} the quick brown fox jumps over the lazy dog, again.\n"));
        line += 1;
    }
    text.truncate(size);
    text
}
