//! `greenroom mcp`: what a client on standard input and output sees.

use std::time::Duration;

use greenroom_testkit::{process_alive, wait_until};
use serde_json::{Value, json};

use crate::rig::stdio;

#[test]
fn says_who_it_is_and_how_to_use_it() {
    let mut rig = stdio("");
    let hello = rig.client.initialize();
    assert_eq!(hello["serverInfo"]["name"], "greenroom");
    assert_eq!(hello["protocolVersion"], "2025-11-25");
    assert_eq!(hello["capabilities"]["tools"]["listChanged"], true);
    assert!(hello["instructions"].as_str().unwrap().len() > 50);
}

#[test]
fn speaks_the_newer_era_too() {
    let mut rig = stdio("");
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let found = rig.client.request("server/discover", json!({ "_meta": meta }));
    assert_eq!(
        found["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "greenroom",
        "{found}"
    );
    let call = json!({ "name": "echo", "arguments": { "text": "hi" }, "_meta": meta });
    let answer = rig.client.request("tools/call", call);
    assert_eq!(answer["result"]["content"][0]["text"], "hi", "{answer}");
}

#[test]
fn broken_json_gets_a_parse_error_and_the_server_lives_on() {
    let mut rig = stdio("");
    rig.client.initialize();
    rig.client.send_raw(b"{\"jsonrpc\": \"2.0\", oops\n");
    let answer = rig.client.next_message();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32700), &Value::Null), "{answer}");
    assert_eq!(rig.client.call_tool_text("echo", json!({ "text": "still here" })), "still here");
}

#[test]
fn json_that_is_no_message_gets_an_invalid_request_with_its_id() {
    let mut rig = stdio("");
    rig.client.initialize();
    rig.client.send_raw(b"{\"id\":\"abc\",\"what\":1}\n[]\n");
    let answer = rig.client.next_message();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &json!("abc")), "{answer}");
    let answer = rig.client.next_message();
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert_eq!(rig.client.call_tool_text("echo", json!({ "text": "still here" })), "still here");
}

#[test]
fn a_line_of_100_mb_is_refused_with_its_id_and_the_server_lives_on() {
    let mut rig = stdio("");
    rig.client.initialize();
    let mut line =
        br#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{"text":""#.to_vec();
    line.resize(line.len() + 100 * 1024 * 1024, b'x');
    line.extend_from_slice(b"\"}},\"id\":77}\n");
    rig.client.send_raw(&line);
    let answer = rig.client.next_message();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &json!(77)), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("MAX_REQUEST_MB"), "{answer}");
    assert_eq!(rig.client.call_tool_text("echo", json!({ "text": "still here" })), "still here");
}

#[test]
fn unknown_methods_tools_and_wrong_parameters_get_the_errors_of_the_protocol() {
    let mut rig = stdio("");
    rig.client.initialize();
    let code = |answer: &Value| answer["error"]["code"].as_i64();
    let unknown = rig.client.request("browser/fly", json!({}));
    assert_eq!(code(&unknown), Some(-32601), "{unknown}");
    assert!(unknown["error"]["message"].as_str().unwrap().contains("browser/fly"));
    let nameless = rig.client.request("tools/call", json!({ "arguments": {} }));
    assert_eq!(code(&nameless), Some(-32602), "{nameless}");
    let missing = rig.client.request("tools/call", json!({ "name": "ecko", "arguments": {} }));
    assert_eq!(code(&missing), Some(-32602), "{missing}");
    assert!(missing["error"]["message"].as_str().unwrap().contains("`echo`"), "{missing}");
    assert_eq!(rig.client.call_tool_text("echo", json!({ "text": "still here" })), "still here");
}

#[test]
fn nothing_but_the_protocol_is_on_stdout_and_closing_stdin_ends_everything() {
    let mut rig = stdio("");
    rig.client.initialize();
    rig.client.call_tool("flood_stderr", json!({ "lines": 2000 }));
    let upstream: u32 = rig.client.call_tool_text("pid", json!({})).parse().unwrap();
    assert!(rig.client.stray_lines().is_empty(), "{:?}", rig.client.stray_lines());
    rig.client.close_stdin();
    assert!(rig.client.wait_exit(Duration::from_secs(20)).success());
    wait_until("the upstream is gone", Duration::from_secs(5), || !process_alive(upstream));
}

#[test]
fn a_client_that_leaves_before_it_began_is_no_error() {
    let mut rig = stdio("");
    rig.client.close_stdin();
    assert!(rig.client.wait_exit(Duration::from_secs(20)).success());
}

#[test]
fn a_client_that_leaves_without_reading_does_not_keep_the_server_alive() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = crate::rig::with_fake(crate::rig::greenroom(folder.path()), "--extra-tools 300");
    command.arg("mcp").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    std::io::Write::write_all(&mut stdin, format!("{hello}\n").as_bytes()).unwrap();
    for id in 1..40 {
        let list = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {} });
        std::io::Write::write_all(&mut stdin, format!("{list}\n").as_bytes()).unwrap();
    }
    drop(stdin);
    wait_until("the server to go", Duration::from_secs(60), || child.try_wait().unwrap().is_some());
}
