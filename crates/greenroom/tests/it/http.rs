//! `greenroom serve`: the HTTP side, held right and held wrong.

use std::time::Duration;

use greenroom_testkit::wait_until;
use serde_json::{Value, json};

use crate::rig::Server;

const JSON: (&str, &str) = ("Content-Type", "application/json");
const ACCEPT: (&str, &str) = ("Accept", "application/json, text/event-stream");
const INITIALIZE: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

fn parsed(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| panic!("not JSON: {}", String::from_utf8_lossy(body)))
}

#[test]
fn both_eras_share_one_endpoint() {
    let server = Server::fake("", &[]);
    let mut old = server.client();
    assert_eq!(old.initialize()["serverInfo"]["name"], "greenroom");
    assert!(old.session_id().is_some());
    assert_eq!(old.call_tool("echo", json!({ "text": "old" }))["content"][0]["text"], "old");
    let mut new = server.client();
    let answer = new.call_modern("tools/call", json!({ "name": "echo", "arguments": { "text": "new" } }));
    assert_eq!(answer["result"]["content"][0]["text"], "new", "{answer}");
    let list = new.call_modern("tools/list", json!({}));
    assert!(list["result"]["ttlMs"].is_u64() && list["result"]["cacheScope"].is_string(), "{list}");
}

#[test]
fn the_probes_answer() {
    let server = Server::fake("", &[]);
    let mut client = server.client();
    for path in ["/healthz", "/readyz"] {
        let (status, _, body) = client.raw("GET", path, &[], b"");
        assert_eq!(status, 200, "{path}");
        assert!(parsed(&body)["status"].is_string());
    }
    let (status, _, body) = client.raw("GET", "/nowhere", &[], b"");
    assert_eq!((status, parsed(&body)["error"].as_str()), (404, Some("not_found")));
    let (status, _, body) = client.raw("POST", "/healthz", &[], b"");
    assert_eq!((status, parsed(&body)["error"].as_str()), (405, Some("method_not_allowed")));
}

#[test]
fn a_foreign_host_or_origin_is_refused_on_every_route() {
    let server = Server::fake("", &[]);
    let port = server.url.rsplit(':').next().unwrap().trim_end_matches("/mcp").to_owned();
    let mut client = server.client();
    for path in ["/mcp", "/healthz", "/readyz", "/nowhere"] {
        let method = if path == "/mcp" { "POST" } else { "GET" };
        for (name, value) in [
            ("Host", "evil.example"),
            ("Host", "evil.example:80"),
            ("Host", "127.0.0.1.evil.example"),
            ("Origin", "http://evil.example"),
            ("Origin", "null"),
            ("Origin", "http://localhost:1"),
        ] {
            let (status, _, body) = client.raw(method, path, &[JSON, ACCEPT, (name, value)], INITIALIZE);
            assert_eq!(status, 403, "{name}: {value} on {path}");
            let body = parsed(&body);
            let message = body["message"].as_str().or_else(|| body["error"]["message"].as_str());
            assert!(message.unwrap().contains("PUBLIC_URL"), "{body}");
        }
    }
    for origin in [format!("http://localhost:{port}"), format!("http://127.0.0.1:{port}")] {
        let (status, ..) = client.raw("POST", "/mcp", &[JSON, ACCEPT, ("Origin", &origin)], INITIALIZE);
        assert_eq!(status, 200, "{origin}");
    }
    let (status, ..) = client.raw("POST", "/mcp", &[JSON, ACCEPT, ("Host", "localhost")], INITIALIZE);
    assert_eq!(status, 200);
}

#[test]
fn a_public_name_is_accepted_when_it_is_configured() {
    let server = Server::fake("", &[("GREENROOM_PUBLIC_URL", "https://browsers.example.com")]);
    let mut client = server.client();
    let headers =
        [JSON, ACCEPT, ("Host", "browsers.example.com"), ("Origin", "https://browsers.example.com")];
    assert_eq!(client.raw("POST", "/mcp", &headers, INITIALIZE).0, 200);
}

#[test]
fn broken_bodies_get_protocol_errors_and_the_server_lives_on() {
    let server = Server::fake("", &[]);
    let mut client = server.client();
    let cases: [(&[u8], u16, i64); 6] = [
        (b"{broken", 400, -32700),
        (b"", 400, -32700),
        (b"[]", 400, -32600),
        (b"{\"id\":1}", 400, -32600),
        (b"17", 400, -32600),
        (b"\xff\xfe", 400, -32700),
    ];
    for (body, status, code) in cases {
        let (found, _, answer) = client.raw("POST", "/mcp", &[JSON, ACCEPT], body);
        let answer = parsed(&answer);
        assert_eq!((found, answer["error"]["code"].as_i64()), (status, Some(code)), "{body:?}: {answer}");
    }
    client.initialize();
    assert_eq!(client.call_tool("echo", json!({ "text": "fine" }))["content"][0]["text"], "fine");
}

#[test]
fn a_request_of_100_mb_is_refused_and_the_server_lives_on() {
    let server = Server::fake("", &[]);
    let mut client = server.client();
    let mut body = INITIALIZE.to_vec();
    body.resize(100 * 1024 * 1024, b' ');
    let (status, _, answer) = client.raw("POST", "/mcp", &[JSON, ACCEPT], &body);
    assert_eq!(status, 413);
    assert!(parsed(&answer)["error"]["message"].as_str().unwrap().contains("MAX_REQUEST_MB"));
    let mut next = server.client();
    next.initialize();
    assert_eq!(next.call_tool("echo", json!({ "text": "fine" }))["content"][0]["text"], "fine");
}

#[test]
fn wrong_headers_and_unknown_sessions_are_said_in_the_protocols_words() {
    let server = Server::fake("", &[]);
    let mut client = server.client();
    let (status, _, body) = client.raw("POST", "/mcp", &[JSON], INITIALIZE);
    assert_eq!(status, 406);
    assert!(parsed(&body)["error"]["message"].as_str().unwrap().contains("text/event-stream"));
    let (status, _, body) = client.raw("POST", "/mcp", &[ACCEPT], INITIALIZE);
    assert_eq!(status, 415);
    assert!(parsed(&body)["error"]["message"].is_string());
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let (status, _, body) = client.raw("POST", "/mcp", &[JSON, ACCEPT, ("Mcp-Session-Id", "gone")], ping);
    assert_eq!(status, 404);
    assert!(parsed(&body)["error"]["message"].as_str().unwrap().contains("ession"));
    let (status, _, body) = client.raw("POST", "/mcp", &[JSON, ACCEPT], ping);
    assert_eq!(status, 400);
    assert!(parsed(&body)["error"]["message"].is_string());
}

#[test]
fn an_idle_session_is_forgotten_and_one_with_a_call_is_not() {
    let server = Server::fake("", &[("GREENROOM_MCP_SESSION_IDLE", "400")]);
    let mut busy = server.client();
    busy.initialize();
    let mut idle = server.client();
    idle.initialize();
    // Longer than the idle time, on a session that nothing else keeps in use.
    let answer = busy.call_tool("sleep", json!({ "ms": 1500 }));
    assert!(answer["content"][0]["text"].as_str().unwrap().contains("slept"), "{answer}");
    let session = idle.session_id().unwrap().to_owned();
    let mut probe = server.client();
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    // Each look counts as use, so look seldom.
    let mut pause = Duration::from_millis(0);
    wait_until("the idle session is forgotten", Duration::from_secs(30), || {
        std::thread::park_timeout(pause);
        pause = Duration::from_secs(1);
        probe.raw("POST", "/mcp", &[JSON, ACCEPT, ("Mcp-Session-Id", &session)], ping).0 == 404
    });
}

#[test]
fn many_clients_at_once_are_all_served() {
    let server = Server::fake("", &[]);
    std::thread::scope(|scope| {
        for n in 0..16 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                client.initialize();
                for round in 0..20 {
                    let text = format!("{n}-{round}");
                    assert_eq!(client.call_tool("echo", json!({ "text": text }))["content"][0]["text"], text);
                }
            });
        }
    });
}

#[test]
fn a_stop_lets_calls_finish_and_refuses_new_ones() {
    let server = Server::fake("", &[]);
    let mut client = server.client();
    client.initialize();
    client.call_tool("pid", json!({}));
    let answer = std::thread::scope(|scope| {
        let call = scope.spawn(|| client.call_tool("slow_call_order", json!({ "label": "a", "ms": 1500 })));
        let mut watcher = server.client();
        watcher.initialize();
        wait_until("the call is under way", Duration::from_secs(10), || {
            watcher.call_tool("order_log", json!({}))["content"][0]["text"] == r#"["start a"]"#
        });
        greenroom_testkit::send_signal(server.pid(), "TERM");
        call.join().unwrap()
    });
    assert!(answer.get("isError").is_none_or(|error| error == false), "{answer}");
    assert!(server.log().contains("SIGTERM"), "{}", server.log());
}
