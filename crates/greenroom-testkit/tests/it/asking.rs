//! Tools that ask the client something.

use serde_json::{Value, json};

use crate::start::{fake, initialized};

#[test]
fn a_ping_is_answered_by_the_client() {
    assert_eq!(initialized(&[]).call_tool_text("ask_ping", json!({})), "{}");
}

#[test]
fn roots_are_asked_for_only_if_declared() {
    let result = initialized(&[]).call_tool("ask_roots", json!({}));
    assert_eq!(result["isError"], true);

    let mut fake = fake(&[]);
    fake.initialize_with("2025-11-25", &json!({ "roots": {} }));
    let roots = json!({ "roots": [{ "uri": "file:///home", "name": "home" }] });
    let answer = json!({ "result": roots });
    fake.set_answerer(move |request| (request["method"] == "roots/list").then(|| answer.clone()));
    let text = fake.call_tool_text("ask_roots", json!({}));
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), roots);
}

#[test]
fn an_unknown_request_brings_back_an_error() {
    let mut fake = initialized(&[]);
    let call = fake.send_request("tools/call", json!({ "name": "ask_unknown" }));
    let question = fake.next_message();
    assert_eq!(question["method"], "greenroom/no_such_method");
    // Other calls go on while the client thinks about it.
    assert_eq!(fake.call_tool_text("echo", json!({ "text": "meanwhile" })), "meanwhile");
    let error = json!({ "code": -32601, "message": "Method not found" });
    fake.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "error": error }));
    let text = fake.wait_for_response(call)["result"]["content"][0]["text"].clone();
    assert_eq!(serde_json::from_str::<Value>(text.as_str().unwrap()).unwrap(), error);
}
