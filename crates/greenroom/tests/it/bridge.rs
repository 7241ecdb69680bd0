//! `greenroom mcp` beside a running `greenroom serve`: it is found, used, missed and found again.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use greenroom_testkit::{McpStdio, Site, children_of, rss_kb, send_signal, wait_until};
use serde_json::{Value, json};

use crate::rig::{Server, browser_permit, data_dir, greenroom, with_fake};

/// Enough for a loaded machine; nothing here waits that long when it works.
const LIMIT: Duration = Duration::from_secs(60);

fn serve(folder: &Path) -> Server {
    Server::start(with_fake(greenroom(folder), ""), None)
}

/// The agent's side, without any configuration of its own.
fn mcp(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> McpStdio {
    let mut command = greenroom(folder);
    command.arg("mcp").args(arguments).envs(variables.iter().copied());
    McpStdio::spawn(command).with_timeout(LIMIT)
}

fn bridge(folder: &Path) -> McpStdio {
    let mut client = mcp(folder, &[], &[]);
    client.initialize();
    client
}

/// The process that answers: a child of the server, or of the client's own Greenroom.
fn upstream(client: &mut McpStdio) -> u32 {
    client.call_tool_text("pid", json!({})).parse().unwrap()
}

fn kill(server: Server) {
    send_signal(server.pid(), "KILL");
    drop(server);
}

fn says(client: &McpStdio, words: &str) {
    wait_until(words, LIMIT, || client.stderr_tail().contains(words));
}

fn leave(mut client: McpStdio) {
    client.close_stdin();
    assert!(client.wait_exit(LIMIT).success());
}

#[test]
fn a_running_server_is_found_and_stays_when_the_agent_goes() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let mut first = bridge(folder.path());
    let pid = upstream(&mut first);
    assert!(children_of(server.pid()).contains(&pid) && children_of(first.pid()).is_empty());
    leave(first);
    let mut second = bridge(folder.path());
    assert_eq!(upstream(&mut second), pid);
}

#[test]
fn the_newer_era_and_the_errors_of_the_protocol_pass_through() {
    let folder = tempfile::tempdir().unwrap();
    let _server = serve(folder.path());
    let mut client = mcp(folder.path(), &[], &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = json!({ "name": "echo", "arguments": { "text": "hi" }, "_meta": meta });
    let answer = client.request("tools/call", call);
    assert_eq!(answer["result"]["content"][0]["text"], "hi", "{answer}");
    client.send_raw(b"{\"jsonrpc\": \"2.0\", oops\n");
    assert_eq!(client.next_message()["error"]["code"], -32700);
    let unknown = client.request("browser/fly", json!({ "_meta": meta }));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
}

#[test]
fn standalone_does_not_look_for_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let mut command = with_fake(greenroom(folder.path()), "");
    command.args(["mcp", "--standalone"]);
    let mut client = McpStdio::spawn(command).with_timeout(LIMIT);
    client.initialize();
    let pid = upstream(&mut client);
    assert!(children_of(client.pid()).contains(&pid) && !children_of(server.pid()).contains(&pid));
}

#[test]
fn configuration_that_the_server_does_not_have_is_honoured_and_not_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let mut same = with_fake(greenroom(folder.path()), "");
    same.arg("mcp").env("GREENROOM_LOG", "debug");
    let mut same = McpStdio::spawn(same).with_timeout(LIMIT);
    same.initialize();
    let pid = upstream(&mut same);
    assert!(children_of(server.pid()).contains(&pid));

    let mut other = with_fake(greenroom(folder.path()), "");
    other.arg("mcp").env("GREENROOM_CALL_TIMEOUT", "1234");
    let mut other = McpStdio::spawn(other).with_timeout(LIMIT);
    other.initialize();
    let pid = upstream(&mut other);
    assert!(children_of(other.pid()).contains(&pid));
    says(&other, "other values of CALL_TIMEOUT");

    let socket = format!("unix:{}", folder.path().join("greenroom.sock").display());
    let mut named = mcp(folder.path(), &["--connect", &socket], &[("GREENROOM_CALL_TIMEOUT", "1234")]);
    assert_eq!(named.wait_exit(LIMIT).code(), Some(4));
    says(&named, "CALL_TIMEOUT");
}

#[test]
fn a_server_that_was_named_is_used_or_nothing_is() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let socket = format!("unix:{}", folder.path().join("greenroom.sock").display());
    let mut early = mcp(elsewhere.path(), &["--connect", &socket], &[]);
    assert_eq!(early.wait_exit(LIMIT).code(), Some(4));
    says(&early, "no server listens on");

    let server = serve(folder.path());
    let mut client = mcp(elsewhere.path(), &["--connect", &socket], &[]);
    client.initialize();
    let pid = upstream(&mut client);
    assert!(children_of(server.pid()).contains(&pid));
}

#[test]
fn a_server_of_another_version_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let mut stream = UnixStream::connect(folder.path().join("greenroom.sock")).unwrap();
    stream.write_all(b"{\"greenroom\":1,\"version\":\"0.0.1\"}\n").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert!(answer["error"].as_str().unwrap().contains("0.0.1"), "{answer}");
    assert_eq!(answer.get("ok"), None);
    drop(server);

    let newer = UnixListener::bind(folder.path().join("greenroom.sock")).unwrap();
    std::thread::spawn(move || {
        for mut stream in newer.incoming().flatten() {
            let mut hello = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut hello).unwrap();
            let _ = stream.write_all(b"{\"ok\":true,\"version\":\"99.0.0\"}\n");
        }
    });
    let mut command = with_fake(greenroom(folder.path()), "");
    command.arg("mcp");
    let mut client = McpStdio::spawn(command).with_timeout(LIMIT);
    client.initialize();
    let pid = upstream(&mut client);
    assert!(children_of(client.pid()).contains(&pid));
    says(&client, "99.0.0");
}

#[test]
fn a_server_that_is_killed_and_started_again_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let mut client = bridge(folder.path());
    let before = upstream(&mut client);
    let hanging = client.send_request("tools/call", json!({ "name": "hang", "arguments": {} }));
    let listing = client.send_request("resources/templates/list", Value::Null);
    client.wait_for_response(listing);
    kill(server);

    let lost = client.wait_for_response(hanging);
    assert_eq!(lost["result"]["isError"], true, "{lost}");
    assert!(lost["result"]["content"][0]["text"].as_str().unwrap().contains("went away"), "{lost}");
    let missed = client.call_tool("echo", json!({ "text": "hello?" }));
    assert!(missed["content"][0]["text"].as_str().unwrap().contains("restarting"), "{missed}");
    assert_eq!(client.request("ping", Value::Null)["result"], json!({}));
    assert!(client.request("tools/list", Value::Null)["error"]["message"].is_string());
    client.send_raw(b"{oops\n");
    assert_eq!(client.next_message()["error"]["code"], -32700);

    let server = serve(folder.path());
    client.next_message_where(|message| message["method"] == "notifications/tools/list_changed");
    let after = upstream(&mut client);
    assert!(after != before && children_of(server.pid()).contains(&after));
    // The repeated handshake is nobody's business but the bridge's.
    assert!(client.notifications().is_empty(), "{:?}", client.notifications());
    leave(client);
}

#[test]
fn an_agent_can_begin_while_the_server_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let mut client = mcp(folder.path(), &[], &[]);
    says(&client, "using the browsers of the running server");
    kill(server);
    says(&client, "the server went away");
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "t", "version": "1" } });
    let hello = client.send_request("initialize", params);
    let call = client.call_tool("echo", json!({ "text": "x" }));
    assert_eq!(call["isError"], true, "{call}");
    let _server = serve(folder.path());
    assert_eq!(client.wait_for_response(hello)["result"]["serverInfo"]["name"], "greenroom");
    client.notify("notifications/initialized", Value::Null);
    assert_eq!(client.call_tool_text("echo", json!({ "text": "here" })), "here");
}

#[test]
fn a_server_that_stops_in_order_leaves_no_socket_and_a_live_bridge() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let socket = folder.path().join("greenroom.sock");
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let mut client = bridge(folder.path());
    upstream(&mut client);
    drop(server);
    assert!(!socket.exists());
    let _server = serve(folder.path());
    client.next_message_where(|message| message["method"] == "notifications/tools/list_changed");
    assert_eq!(client.call_tool_text("echo", json!({ "text": "again" })), "again");
}

#[test]
fn a_dead_socket_is_replaced_and_a_live_one_is_not_stolen() {
    let folder = tempfile::tempdir().unwrap();
    kill(serve(folder.path()));
    assert!(folder.path().join("greenroom.sock").exists());
    let first = serve(folder.path());
    let second = serve(folder.path());
    wait_until("it says so", LIMIT, || second.log().contains("will not find this server"));
    drop(second);
    let mut client = bridge(folder.path());
    let pid = upstream(&mut client);
    assert!(children_of(first.pid()).contains(&pid));
}

#[test]
fn a_path_that_is_too_long_for_a_socket_is_said_and_nothing_else_fails() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("x".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    let server = serve(&deep);
    wait_until("it says so", LIMIT, || server.log().contains("longer than the 107 bytes"));
    let mut command = with_fake(greenroom(&deep), "");
    command.arg("mcp");
    let mut client = McpStdio::spawn(command).with_timeout(LIMIT);
    client.initialize();
    let pid = upstream(&mut client);
    assert!(children_of(client.pid()).contains(&pid));
}

#[test]
fn each_bridge_has_a_session_of_its_own_where_connections_have_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = with_fake(greenroom(folder.path()), "");
    command.env("GREENROOM_IMPLICIT_SESSION", "connection").env("GREENROOM_SESSION_ISOLATION", "process");
    let server = Server::start(command, None);
    let (mut one, mut two) = (bridge(folder.path()), bridge(folder.path()));
    let session = |client: &mut McpStdio| {
        client.call_tool("pid", json!({}))["_meta"]["greenroom/sessionId"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (first, second) = (session(&mut one), session(&mut two));
    assert!(first.starts_with("connection-") && first != second, "{first} {second}");
    assert_eq!(session(&mut one), first);
    drop(server);
}

#[test]
fn large_messages_pass_both_ways_and_too_large_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _server = serve(folder.path());
    let mut client = bridge(folder.path());
    let text = "x\u{e9}".repeat(700_000);
    assert!(client.call_tool_text("echo", json!({ "text": text })) == text);
    let mut line =
        br#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{"text":""#.to_vec();
    line.resize(line.len() + 40 * 1024 * 1024, b'x');
    line.extend_from_slice(b"\"}},\"id\":77}\n");
    client.send_raw(&line);
    let answer = client.next_message();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &json!(77)), "{answer}");
    assert_eq!(client.call_tool_text("echo", json!({ "text": "still here" })), "still here");
}

#[test]
fn a_client_that_does_not_read_makes_nobody_grow() {
    let folder = tempfile::tempdir().unwrap();
    let _server = serve(folder.path());
    let mut command = greenroom(folder.path());
    command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let hello = json!({ "jsonrpc": "2.0", "id": "h", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    writeln!(stdin, "{hello}\n{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
        .unwrap();
    let text = "x".repeat(1024 * 1024);
    for id in 0..60 {
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "echo", "arguments": { "text": text } } });
        writeln!(stdin, "{call}").unwrap();
    }
    // Small ones until nobody takes any more: the pipe is full, and so is the list of those that wait.
    let flood = std::thread::spawn(move || {
        for id in 1000..200_000 {
            let call = json!({ "jsonrpc": "2.0", "id": id, "method": "ping", "padding": "x".repeat(1000) });
            if writeln!(stdin, "{call}").is_err() {
                return;
            }
        }
    });
    let mut last = 0;
    wait_until("it is at rest", LIMIT, || {
        std::thread::sleep(Duration::from_millis(500));
        let now = rss_kb(child.id());
        std::mem::replace(&mut last, now) == now
    });
    assert!(!flood.is_finished(), "everything was taken");
    assert!(last < 60 * 1024, "{last} KB");
    child.kill().unwrap();
    child.wait().unwrap();
    flood.join().unwrap();
}

#[test]
fn a_session_outlives_the_agents_process() {
    let _permit = browser_permit();
    let (folder, site) = (data_dir(), Site::start());
    let mut command = greenroom(folder.path());
    command.env("GREENROOM_TIMEOUT_SETTLE", "100");
    let _server = Server::start(command, None);
    let mut first = bridge(folder.path()).with_timeout(Duration::from_secs(120));
    let url = site.url("/links");
    first.call_tool("browser_navigate", json!({ "sessionId": "x", "url": url }));
    leave(first);
    let mut second = bridge(folder.path()).with_timeout(Duration::from_secs(120));
    let page = second.call_tool_text("browser_snapshot", json!({ "sessionId": "x" }));
    assert!(page.contains(&url), "{page}");
}

/// A port that was free a moment ago, for a server that has to come back under the same address.
fn free_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

#[test]
fn a_server_is_reached_over_http_too() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let port = free_port();
    let serve = || {
        let mut command = with_fake(greenroom(folder.path()), "");
        command.env("GREENROOM_HTTP_PORT", &port);
        Server::start_as_configured(command)
    };
    let url = format!("http://127.0.0.1:{port}");
    let mut early = mcp(elsewhere.path(), &["--connect", &url], &[]);
    assert_eq!(early.wait_exit(LIMIT).code(), Some(4));

    let server = serve();
    let mut client = mcp(elsewhere.path(), &["--connect", &url], &[]);
    client.initialize();
    let pid = upstream(&mut client);
    assert!(children_of(server.pid()).contains(&pid));
    let text = "x\u{e9}".repeat(700_000);
    assert!(client.call_tool_text("echo", json!({ "text": text })) == text);
    let token = json!({ "name": "progress", "arguments": { "steps": 3 }, "_meta": { "progressToken": "p" } });
    let answer = client.request("tools/call", token);
    assert!(answer["result"].is_object(), "{answer}");
    let is_progress = |message: &Value| message["method"] == "notifications/progress";
    assert!(client.notifications().iter().any(is_progress));
    client.call_tool("change_tools", json!({}));
    client.next_message_where(|message| message["method"] == "notifications/tools/list_changed");
    client.send_raw(b"{\"jsonrpc\": \"2.0\", oops\n");
    client.next_message_where(|message| message["error"]["code"] == -32700);

    let hanging = client.send_request("tools/call", json!({ "name": "hang", "arguments": {} }));
    client.call_tool_text("echo", json!({ "text": "beside it" }));
    kill(server);
    let lost = client.wait_for_response(hanging);
    assert_eq!(lost["result"]["isError"], true, "{lost}");
    let _server = serve();
    client.next_message_where(|message| message["method"] == "notifications/tools/list_changed");
    assert_eq!(client.call_tool_text("echo", json!({ "text": "again" })), "again");
    leave(client);

    let mut newer = mcp(elsewhere.path(), &["--connect", &url], &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = json!({ "name": "echo", "arguments": { "text": "hi" }, "_meta": meta });
    let answer = newer.request("tools/call", call);
    assert_eq!(answer["result"]["content"][0]["text"], "hi", "{answer}");

    let mut told = mcp(elsewhere.path(), &["--connect", &url], &[("GREENROOM_HEADLESS", "false")]);
    assert_eq!(told.wait_exit(LIMIT).code(), Some(4));
    says(&told, "HEADLESS");
}

#[test]
fn help_names_the_ways() {
    let output = Command::new(env!("CARGO_BIN_EXE_greenroom")).args(["mcp", "--help"]).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    for words in ["--standalone", "--connect", "unix:PATH"] {
        assert!(shown.contains(words), "{words} in {shown}");
    }
    let both = ["mcp", "--standalone", "--connect", "unix:x"];
    let output = Command::new(env!("CARGO_BIN_EXE_greenroom")).args(both).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
