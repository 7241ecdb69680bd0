//! The protocol around the tools.

use serde_json::{Value, json};

use crate::start::{fake, initialized};

#[test]
fn the_revision_asked_for_is_spoken_if_it_is_known() {
    for (asked, spoken) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        let result = fake(&[]).initialize_with(asked, &json!({}));
        assert_eq!(result["protocolVersion"], spoken, "asked for {asked}");
        assert_eq!(result["capabilities"]["tools"]["listChanged"], true);
    }
}

#[test]
fn every_tool_is_listed_with_a_schema_and_annotations() {
    let mut fake = initialized(&["--extra-tools", "3"]);
    let result = fake.request("tools/list", Value::Null);
    let tools = result["result"]["tools"].as_array().unwrap();
    for tool in tools {
        assert!(tool["title"].is_string() && tool["description"].is_string(), "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
    }
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"echo") && names.contains(&"order_log"), "{names:?}");
    assert_eq!(names[names.len() - 3..], ["extra_1", "extra_2", "extra_3"]);
    assert_eq!(fake.call_tool_text("extra_2", json!({ "a": 1 })), r#"extra_2 was called with {"a":1}"#);
}

#[test]
fn the_id_is_written_last_or_first() {
    for (flags, start) in [(&[][..], r#"{"result":"#), (&["--id-first"][..], r#"{"jsonrpc":"2.0","id":"#)] {
        let mut fake = initialized(flags);
        let response = fake.request("ping", Value::Null);
        assert!(response.to_string().starts_with(start), "{response}");
    }
}

#[test]
fn mistakes_of_the_client_get_the_right_codes() {
    let mut fake = initialized(&[]);
    let error = |response: Value| (response["error"]["code"].as_i64().unwrap(), response["id"].clone());

    let response = fake.request("tools/call", json!({ "name": "nothing", "arguments": {} }));
    assert_eq!(response["error"]["message"], "Unknown tool: nothing");
    assert_eq!(error(response).0, -32602);
    let response = fake.request("tools/call", json!({ "name": "echo", "arguments": { "text": 5 } }));
    assert_eq!(error(response).0, -32602);
    let response = fake.request("tools/call", json!(["not", "an", "object"]));
    assert_eq!(error(response).0, -32602);
    assert_eq!(error(fake.request("no/such/method", Value::Null)).0, -32601);

    fake.send_raw(b"{ broken\n");
    assert_eq!(error(fake.next_message()), (-32700, Value::Null));
    fake.send_raw(b"[1, 2]\n");
    assert_eq!(error(fake.next_message()), (-32600, Value::Null));
}

#[test]
fn ids_come_back_as_they_were_sent() {
    let mut fake = initialized(&[]);
    for id in [json!("text"), json!(0), json!(-7), json!(9_007_199_254_740_993_u64)] {
        fake.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
        assert_eq!(fake.next_message()["id"], id);
    }
}

#[test]
fn the_server_counts_what_it_sees() {
    let mut fake = initialized(&[]);
    fake.call_tool("echo", json!({ "text": "one" }));
    fake.request("ping", Value::Null);
    fake.notify("notifications/cancelled", json!({ "requestId": 77 }));
    let seen: Value = serde_json::from_str(&fake.call_tool_text("calls_seen", json!({}))).unwrap();
    let expected = json!({ "calls": 2, "cancelled": 1, "cancelledIds": [77], "pings": 1, "pingSeen": true });
    assert_eq!(seen, expected);
}
