//! Tools that answer with some kind of content.

use std::fs;

use serde_json::{Value, json};

use crate::start::initialized;

#[test]
fn echo_gives_back_exactly_the_text() {
    let mut fake = initialized(&[]);
    for text in ["", "plain", "quote \" slash \\ newline \n tab \t", "\u{1f3ad} \u{0} é"] {
        assert_eq!(fake.call_tool_text("echo", json!({ "text": text })), text);
    }
}

#[test]
fn bytes_has_the_size_asked_for_each_time() {
    let mut fake = initialized(&[]);
    for size in [0, 1, 64, 100_000, 100_000] {
        assert_eq!(fake.call_tool_text("bytes", json!({ "size": size })).len(), size);
    }
}

#[test]
fn image_is_a_picture_or_noise() {
    let mut fake = initialized(&[]);
    let picture = fake.call_tool("image", json!({}));
    assert_eq!(picture["content"][0]["type"], "image");
    assert_eq!(picture["content"][0]["mimeType"], "image/png");
    assert!(picture["content"][0]["data"].as_str().unwrap().starts_with("iVBORw0KGgo"));
    let noise = fake.call_tool("image", json!({ "size": 3000 }));
    assert_eq!(noise["content"][0]["data"].as_str().unwrap().len(), 4000);
}

#[test]
fn structured_content_is_the_arguments() {
    let mut fake = initialized(&[]);
    let arguments = json!({ "z": 1, "a": { "deep": [true, null] } });
    let result = fake.call_tool("structured", arguments.clone());
    assert_eq!(result["structuredContent"], arguments);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), arguments);
}

#[test]
fn odd_content_has_what_no_client_expects() {
    let mut fake = initialized(&[]);
    let result = fake.call_tool("odd_content", json!({}));
    let kinds: Vec<_> =
        result["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["hologram", "text", "resource_link", "resource", "audio"]);
    assert_eq!(result["content"][0]["data"], json!({ "x": 1 }));
    assert!(result["content"][1]["annotations"].is_object() && result["content"][1]["_meta"].is_object());
    assert!(result["_meta"].is_object() && result["futureField"].is_object());
}

#[test]
fn a_huge_result_is_not_held_in_memory() {
    let mut fake = initialized(&[]);
    let bytes = 24 * 1024 * 1024;
    assert_eq!(fake.call_tool_text("huge", json!({ "bytes": bytes })).len(), bytes);
    let peak = peak_rss_kb(fake.pid());
    assert!((1..12 * 1024).contains(&peak), "it needed {peak} KiB");
}

/// The most resident memory the process ever had: what it has now says nothing of a moment ago.
fn peak_rss_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells the peak");
    line.trim().trim_end_matches(" kB").parse().expect("the peak is a number")
}
