//! The fake server over Streamable HTTP, and the client for it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use greenroom_testkit::{FakeHttp, McpHttp, process_alive, wait_until};
use serde_json::{Value, json};

use crate::start::SOON;

fn session(fake: &FakeHttp) -> McpHttp {
    let mut client = McpHttp::connect(fake.url());
    client.initialize();
    client
}

fn echo(client: &mut McpHttp) -> Value {
    client.request("tools/call", json!({ "name": "echo", "arguments": { "text": "hello" } }))
}

const BOTH: (&str, &str) = ("Accept", "application/json, text/event-stream");
const PING: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[test]
fn answers_come_as_events_or_as_json() {
    for (flags, kind) in [(&[][..], "text/event-stream"), (&["--http-json"][..], "application/json")] {
        let fake = FakeHttp::start(flags);
        let mut client = session(&fake);
        assert_eq!(echo(&mut client)["result"]["content"][0]["text"], "hello");
        let id = client.session_id().unwrap().to_owned();
        let (status, headers, _) = client.raw("POST", "/mcp", &[BOTH, ("Mcp-Session-Id", &id)], PING);
        assert_eq!((status, headers.get("content-type")), (200, Some(kind)));
        assert_eq!(
            client.call_tool("huge", json!({ "bytes": 300_000 }))["content"][0]["text"]
                .as_str()
                .unwrap()
                .len(),
            300_000
        );
    }
}

#[test]
fn a_session_must_be_named_and_known() {
    let fake = FakeHttp::start(&[]);
    let mut client = session(&fake);
    client.set_session_id(None);
    assert!(echo(&mut client)["error"].is_object());
    assert_eq!(client.last_status(), 400);
    client.set_session_id(Some("made-up"));
    echo(&mut client);
    assert_eq!(client.last_status(), 404);
}

#[test]
fn a_session_ends_with_delete_and_so_does_its_stream() {
    let fake = FakeHttp::start(&[]);
    let mut client = session(&fake);
    let stream = client.open_stream();
    assert_eq!(client.end_session(), 200);
    assert!(stream.wait_closed());
    echo(&mut client);
    assert_eq!(client.last_status(), 404);
}

#[test]
fn sessions_are_forgotten_after_so_many_calls() {
    let fake = FakeHttp::start(&["--http-forget-after", "2"]);
    let (mut one, mut other) = (session(&fake), session(&fake));
    assert!(echo(&mut one)["result"].is_object());
    assert!(echo(&mut other)["result"].is_object());
    // The count goes up after the answer has left, so the next request may be a little too early.
    wait_until("the sessions to be forgotten", SOON, || {
        one.request("ping", Value::Null);
        one.last_status() == 404
    });
    other.request("ping", Value::Null);
    assert_eq!(other.last_status(), 404);
    one.initialize();
    assert!(echo(&mut one)["result"].is_object());
}

#[test]
fn questions_and_announcements_take_the_open_stream() {
    let fake = FakeHttp::start(&["--http-json"]);
    let mut client = session(&fake);
    let refused = client.call_tool("ask_ping", json!({}));
    assert_eq!(refused["isError"], true, "no stream is open yet");

    let stream = client.open_stream();
    let mut caller = McpHttp::connect(fake.url());
    caller.set_session_id(client.session_id());
    let call = thread::spawn(move || caller.call_tool("ask_ping", json!({})));
    let question = stream.next_message();
    assert_eq!(question["method"], "ping");
    assert_eq!(client.post(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": {} })), 202);
    assert_eq!(call.join().unwrap()["content"][0]["text"], "{}");

    client.call_tool("announce_tools", json!({}));
    assert_eq!(stream.next_message()["method"], "notifications/tools/list_changed");
}

#[test]
fn without_an_open_stream_questions_come_before_the_answer() {
    let fake = FakeHttp::start(&[]);
    let mut client = session(&fake);
    assert_eq!(client.call_tool("ask_ping", json!({}))["content"][0]["text"], "{}");
    assert_eq!(client.extras()[0]["method"], "ping");
}

#[test]
fn progress_comes_in_the_stream_of_its_call() {
    let fake = FakeHttp::start(&[]);
    let mut client = session(&fake);
    let meta = json!({ "progressToken": 5 });
    client.request("tools/call", json!({ "name": "progress", "arguments": { "steps": 2 }, "_meta": meta }));
    let steps: Vec<_> = client.extras().iter().map(|message| message["params"]["progress"].clone()).collect();
    assert_eq!(steps, [1, 2]);
}

#[test]
fn a_cancelled_call_ends_its_stream_without_an_answer() {
    let fake = FakeHttp::start(&[]);
    let mut client = session(&fake);
    let mut caller = McpHttp::connect(fake.url());
    caller.set_session_id(client.session_id());
    let id = caller.session_id().unwrap().to_owned();
    let hang = br#"{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{"name":"hang"}}"#;
    let call = thread::spawn(move || caller.raw("POST", "/mcp", &[BOTH, ("Mcp-Session-Id", &id)], hang));
    wait_until("the call to end", SOON, || {
        client.notify("notifications/cancelled", json!({ "requestId": "h" }));
        call.is_finished()
    });
    let (status, _, body) = call.join().unwrap();
    assert_eq!((status, body.as_slice()), (200, &b""[..]));
}

#[test]
fn requests_the_transport_cannot_serve_are_refused() {
    let fake = FakeHttp::start(&[]);
    let mut client = session(&fake);
    let id = client.session_id().unwrap().to_owned();
    let named = ("Mcp-Session-Id", id.as_str());
    let modern = ("MCP-Protocol-Version", "2026-07-28");
    let mut status = |method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]| {
        client.raw(method, path, headers, body).0
    };
    assert_eq!(status("POST", "/elsewhere", &[BOTH, named], PING), 404);
    assert_eq!(status("PUT", "/mcp", &[BOTH, named], PING), 405);
    assert_eq!(status("POST", "/mcp", &[named], PING), 406);
    assert_eq!(status("POST", "/mcp", &[BOTH, named], b"{ broken"), 400);
    assert_eq!(status("POST", "/mcp", &[BOTH, named, modern], PING), 400);
    assert_eq!(status("GET", "/mcp", &[BOTH], b""), 400);
    assert_eq!(status("GET", "/mcp", &[named], b""), 406);
    let chunked = format!("{:x}\r\n{}\r\n0\r\n\r\n", PING.len(), str::from_utf8(PING).unwrap());
    let headers = [BOTH, named, ("Transfer-Encoding", "chunked")];
    assert_eq!(status("POST", "/mcp", &headers, chunked.as_bytes()), 200);
}

#[test]
fn a_modern_request_says_who_asks() {
    // No server of the kit speaks that revision, so one that only listens and gives a fixed answer must do.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"}}}") {
            let mut part = [0; 4096];
            let read = connection.read(&mut part).unwrap();
            request.extend_from_slice(&part[..read]);
        }
        let body = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"no"}}"#;
        let head = format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {}\r\n\r\n", body.len());
        connection.write_all((head + body).as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    });
    let mut client = McpHttp::connect(&url).with_header("Authorization", "Bearer x");
    let response = client.call_modern("tools/call", json!({ "name": "echo", "arguments": { "text": "x" } }));
    assert_eq!((client.last_status(), &response["error"]["code"]), (400, &json!(-32004)));

    let request = server.join().unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    for header in [
        "Authorization: Bearer x",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/call",
        "Mcp-Name: echo",
    ] {
        assert!(head.lines().any(|line| line == header), "{header} is missing in {head}");
    }
    let params = &serde_json::from_str::<Value>(body).unwrap()["params"];
    assert_eq!(params["arguments"]["text"], "x");
    let meta = |key: &str| &params["_meta"][format!("io.modelcontextprotocol/{key}")];
    assert_eq!(*meta("protocolVersion"), "2026-07-28");
    assert_eq!(meta("clientInfo")["name"], "greenroom-testkit");
    assert_eq!(*meta("clientCapabilities"), json!({}));
}

#[test]
fn a_modern_request_is_refused_by_a_server_that_is_not() {
    let fake = FakeHttp::start(&[]);
    let mut client = McpHttp::connect(fake.url());
    let response = client.call_modern("tools/list", Value::Null);
    assert_eq!((client.last_status(), &response["error"]["code"]), (400, &json!(-32000)));
}

#[test]
fn a_crash_closes_the_connection() {
    let fake = FakeHttp::start(&["--crash-on-call", "1"]);
    let mut client = session(&fake);
    let id = client.session_id().unwrap().to_owned();
    let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid"}}"#;
    assert!(client.try_raw("POST", "/mcp", &[BOTH, ("Mcp-Session-Id", &id)], call).is_err());
    wait_until("the server to end", SOON, || !process_alive(fake.pid()));
}
