//! What the upstream says reaches the client, and the other way round, whichever way in.

use std::time::{Duration, Instant};

use greenroom_testkit::wait_until;
use serde_json::{Value, json};

use crate::rig::{Server, stdio};

/// Everything that MCP models; compared with what the upstream itself would answer.
fn check_odd_content(result: &Value) {
    let blocks = result["content"].as_array().unwrap();
    let of_type = |name: &str| blocks.iter().find(|block| block["type"] == name);
    let hologram =
        blocks.iter().filter_map(|block| block["text"].as_str()).find(|text| text.contains("hologram"));
    let held: Value = serde_json::from_str(hologram.expect("the unknown block came as text")).unwrap();
    assert_eq!((&held["type"], &held["data"]), (&json!("hologram"), &json!({ "x": 1 })));
    let annotated =
        blocks.iter().find(|block| block.get("annotations").is_some()).expect("annotations survive");
    assert!(annotated.get("_meta").is_some(), "{annotated}");
    for name in ["resource_link", "resource", "audio"] {
        assert!(of_type(name).is_some(), "{name} survives in {result}");
    }
    assert!(result.get("_meta").is_some(), "{result}");
}

#[test]
fn every_field_survives_over_stdio() {
    let mut rig = stdio("");
    rig.client.initialize();
    check_odd_content(&rig.client.call_tool("odd_content", json!({})));
    let nested = json!({ "z": 1, "a": { "y": [1.5, null, "ü"], "b": true } });
    let result = rig.client.call_tool("structured", nested.clone());
    assert!(result["structuredContent"].to_string().contains(r#""y":[1.5,null,"ü"]"#), "{result}");
}

#[test]
fn every_field_survives_over_http_in_both_eras() {
    let server = Server::fake("", &[]);
    let mut old = server.client();
    old.initialize();
    check_odd_content(&old.call_tool("odd_content", json!({})));
    let mut new = server.client();
    let answer = new.call_modern("tools/call", json!({ "name": "odd_content", "arguments": {} }));
    check_odd_content(&answer["result"]);
}

#[test]
fn the_list_of_tools_is_the_upstreams() {
    let server = Server::fake("--extra-tools 300", &[]);
    let mut client = server.client();
    client.initialize();
    let tools = client.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    assert!(tools.len() > 300);
    let echo = tools.iter().find(|tool| tool["name"] == "echo").unwrap();
    assert_eq!(echo["inputSchema"]["properties"]["text"]["type"], "string");
    assert!(echo.get("annotations").is_some());
}

#[test]
fn progress_carries_the_callers_token() {
    let mut rig = stdio("");
    rig.client.initialize();
    // Once it is up nobody has to be told that they wait.
    rig.client.call_tool("pid", json!({}));
    let call = json!({
        "name": "progress",
        "arguments": { "steps": 4, "delay_ms": 1 },
        "_meta": { "progressToken": "my own token" },
    });
    rig.client.request("tools/call", call);
    let reports: Vec<_> = rig
        .client
        .notifications()
        .into_iter()
        .filter(|message| message["method"] == "notifications/progress")
        .collect();
    assert_eq!(reports.len(), 4, "{reports:?}");
    assert!(reports.iter().all(|report| report["params"]["progressToken"] == "my own token"), "{reports:?}");
}

#[test]
fn without_a_token_no_progress_is_sent() {
    let mut rig = stdio("");
    rig.client.initialize();
    rig.client.call_tool("progress", json!({ "steps": 4, "delay_ms": 1 }));
    assert!(rig.client.notifications().iter().all(|message| message["method"] != "notifications/progress"));
}

#[test]
fn calls_of_one_connection_run_beside_one_another() {
    let mut rig = stdio("");
    rig.client.initialize();
    let hanging = rig.client.send_request("tools/call", json!({ "name": "hang", "arguments": {} }));
    assert_eq!(rig.client.call_tool_text("echo", json!({ "text": "quick" })), "quick");
    let mut looks = 0;
    let mut seen = || -> Value {
        looks += 1;
        let mut seen: Value =
            serde_json::from_str(&rig.client.call_tool_text("calls_seen", json!({}))).unwrap();
        seen["others"] = json!(seen["calls"].as_u64().unwrap() - looks);
        seen
    };
    wait_until("the upstream hangs", Duration::from_secs(10), || seen()["others"] == 2);
    assert_eq!(seen()["cancelled"], 0);
    rig.client.notify("notifications/cancelled", json!({ "requestId": hanging }));
    let mut cancelled = || {
        let text = rig.client.call_tool_text("calls_seen", json!({}));
        serde_json::from_str::<Value>(&text).unwrap()["cancelled"] == 1
    };
    wait_until("the upstream heard of it", Duration::from_secs(10), &mut cancelled);
}

#[test]
fn closing_the_stream_cancels_in_the_newer_era_and_not_in_the_older() {
    let server = Server::fake("", &[]);
    let mut watcher = server.client();
    watcher.initialize();
    // How many calls beside these have reached the upstream, and how many of them it was told to give up.
    let mut looks = 0;
    let mut seen = || {
        looks += 1;
        let result = watcher.call_tool("calls_seen", json!({}));
        let seen: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        (seen["calls"].as_u64().unwrap() - looks, seen["cancelled"].as_u64().unwrap())
    };
    let hang = || json!({ "name": "hang", "arguments": {} });
    let limit = Duration::from_secs(60);

    let older = {
        let mut client = server.client();
        client.initialize();
        client.begin("tools/call", hang())
    };
    wait_until("the older era's call is with the upstream", limit, || seen() == (1, 0));
    drop(older);
    let newer = server.client().begin_modern("tools/call", hang());
    wait_until("the newer era's call is with the upstream", limit, || seen().0 == 2);
    drop(newer);
    wait_until("the upstream heard that it is given up", limit, || seen().1 > 0);
    // Whatever the older one set off has arrived when a later one of the newer era has.
    assert_eq!(seen(), (2, 1), "a disconnect is no cancellation in the older era");
}

#[test]
fn a_new_list_of_tools_is_announced_once_and_an_old_one_is_not() {
    let mut rig = stdio("");
    rig.client.initialize();
    rig.client.request("tools/list", json!({}));
    rig.client.call_tool("announce_tools", json!({}));
    rig.client.call_tool("announce_tools", json!({}));
    rig.client.call_tool("change_tools", json!({}));
    rig.client.next_message_where(|message| message["method"] == "notifications/tools/list_changed");
    let more: Vec<_> = rig
        .client
        .notifications()
        .into_iter()
        .filter(|message| message["method"] == "notifications/tools/list_changed")
        .collect();
    assert!(more.is_empty(), "{more:?}");
    let tools = rig.client.request("tools/list", json!({}))["result"]["tools"].to_string();
    assert!(tools.contains("added_"), "{tools}");
}

#[test]
fn an_error_of_the_upstreams_keeps_its_code_and_message() {
    let mut rig = stdio("");
    rig.client.initialize();
    let call = json!({ "name": "rpc_error", "arguments": { "code": -32055, "message": "no such moon" } });
    let answer = rig.client.request("tools/call", call);
    assert_eq!(answer["error"], json!({ "code": -32055, "message": "no such moon" }), "{answer}");
    let failed = rig.client.call_tool("fail", json!({ "message": "tool trouble" }));
    assert_eq!(failed["isError"], true);
}

#[test]
fn an_upstream_that_dies_is_reported_with_its_last_words_and_comes_back() {
    let server = Server::fake("", &[]);
    let mut client = server.client();
    client.initialize();
    let result = client.call_tool("crash", json!({ "code": 9, "stderr": "the disk is on fire" }));
    assert_eq!(result["isError"], true);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("exited with code 9") && text.contains("the disk is on fire"), "{text}");
    assert_eq!(client.call_tool("echo", json!({ "text": "back" }))["content"][0]["text"], "back");
}

#[test]
fn an_answer_over_the_limit_fails_its_call_only() {
    let server = Server::fake("", &[("GREENROOM_MAX_MESSAGE_MB", "1")]);
    let mut client = server.client();
    client.initialize();
    let result = client.call_tool("huge", json!({ "bytes": 100_000_000 }));
    assert_eq!(result["isError"], true);
    assert!(result["content"][0]["text"].as_str().unwrap().contains("MAX_MESSAGE_MB"), "{result}");
    assert_eq!(client.call_tool("echo", json!({ "text": "fine" }))["content"][0]["text"], "fine");
}

#[test]
fn an_upstream_over_http_serves_as_well() {
    let upstream = greenroom_testkit::FakeHttp::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let mut command = crate::rig::greenroom(folder.path());
    command.env("GREENROOM_DRIVER", "custom").env("GREENROOM_UPSTREAM_URL", upstream.url());
    let server = Server::start(command, Some(folder));
    let mut client = server.client();
    client.initialize();
    assert_eq!(client.call_tool("echo", json!({ "text": "far" }))["content"][0]["text"], "far");
    let result = client.call_tool("bytes", json!({ "size": 1_000_000 }));
    assert_eq!(result["content"][0]["text"].as_str().unwrap().len(), 1_000_000);
}

#[test]
fn a_call_that_is_told_to_stop_frees_its_caller_at_once() {
    let server = Server::fake("", &[("GREENROOM_CALL_TIMEOUT", "1500")]);
    let mut client = server.client();
    client.initialize();
    let begun = Instant::now();
    let result = client.call_tool("hang", json!({}));
    assert_eq!(result["isError"], true);
    assert!(result["content"][0]["text"].as_str().unwrap().contains("CALL_TIMEOUT"), "{result}");
    assert!(begun.elapsed() >= Duration::from_millis(1500));
    assert_eq!(client.call_tool("echo", json!({ "text": "next" }))["content"][0]["text"], "next");
}
