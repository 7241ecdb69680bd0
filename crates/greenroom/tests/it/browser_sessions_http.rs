//! Sessions over REST: every endpoint and field, and whatever can be wrong with a request.

use std::time::Duration;

use greenroom_testkit::{EventSource, Headers, Site, wait_until};
use serde_json::{Value, json};

use crate::rig::{Server, browser_permit, data_dir, data_dir_for_both, greenroom};

const JSON: (&str, &str) = ("Content-Type", "application/json");
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const SESSIONS: (&str, &str) = ("GREENROOM_SESSION_ISOLATION", "process");

pub(crate) fn parsed(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| panic!("not JSON: {}", String::from_utf8_lossy(body)))
}

pub(crate) fn raw(server: &Server, method: &str, path: &str, body: &[u8]) -> (u16, Headers, Vec<u8>) {
    server.client().with_timeout(PATIENCE).raw(method, path, &[JSON], body)
}

pub(crate) fn get(server: &Server, path: &str) -> (u16, Value) {
    let (status, _, body) = raw(server, "GET", path, b"");
    (status, parsed(&body))
}

pub(crate) fn start(server: &Server, order: &Value) -> (u16, Value) {
    let (status, _, body) = raw(server, "POST", "/api/browser-sessions", order.to_string().as_bytes());
    (status, parsed(&body))
}

/// A new session for this conversation.
pub(crate) fn session(server: &Server, conversation: &str, options: &Value) -> String {
    let order = json!({ "conversationId": conversation, "profileId": "p", "options": options });
    let (status, answer) = start(server, &order);
    assert_eq!(status, 201, "{answer}");
    answer["sessionId"].as_str().unwrap().to_owned()
}

pub(crate) fn seen(server: &Server, id: &str) -> Value {
    let (status, session) = get(server, &format!("/api/browser-sessions/{id}"));
    assert_eq!(status, 200, "{session}");
    session
}

pub(crate) fn wait_for_status(server: &Server, id: &str, status: &str) -> Value {
    wait_until(&format!("the status {status}"), PATIENCE, || seen(server, id)["status"] == status);
    seen(server, id)
}

fn stop(server: &Server, id: &str) -> u16 {
    raw(server, "DELETE", &format!("/api/browser-sessions/{id}"), b"").0
}

/// An error in the one format, with the word for its kind.
fn refused((status, body): (u16, Value)) -> (u16, String) {
    assert!(body["message"].is_string() && body["details"].is_object(), "{body}");
    (status, body["error"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned())
}

fn is(status: u16, kind: &str) -> (u16, String) {
    (status, kind.to_owned())
}

/// Runs a tool in the session that the call names.
pub(crate) fn call(server: &Server, id: &str, tool: &str, params: &Value) -> Value {
    let order = json!({ "session_id": id, "tool": tool, "params": params });
    let path = "/api/calls?include=result";
    let (status, _, body) = raw(server, "POST", path, order.to_string().as_bytes());
    let answer = parsed(&body);
    assert_eq!((status, &answer["status"]), (200, &json!("success")), "{answer}");
    answer
}

/// What an expression is in the page of a session.
pub(crate) fn value(server: &Server, id: &str, expression: &str) -> String {
    let answer = call(server, id, "browser_evaluate", &json!({ "function": format!("() => {expression}") }));
    answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

pub(crate) fn navigate(server: &Server, id: &str, url: &str) {
    call(server, id, "browser_navigate", &json!({ "url": url }));
}

#[test]
fn a_conversation_has_one_session_from_start_to_stop() {
    let server = Server::fake("", &[SESSIONS]);
    let order = json!({ "conversationId": "c/1 ü", "profileId": "p" });
    let (status, headers, body) = raw(&server, "POST", "/api/browser-sessions", order.to_string().as_bytes());
    let first = parsed(&body);
    assert_eq!(status, 201, "{first}");
    let id = first["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(headers.get("Location"), Some(format!("/api/browser-sessions/{id}").as_str()));
    assert_eq!(first["mcpEndpoint"], server.url.replace("/mcp", &format!("/sessions/{id}/mcp")));
    assert!(["starting", "running"].contains(&first["status"].as_str().unwrap()), "{first}");
    let (status, again) = start(&server, &order);
    assert_eq!((status, &again["sessionId"]), (200, &first["sessionId"]));
    let (status, other) = start(&server, &json!({ "conversationId": "c/1 ü", "profileId": "q" }));
    assert_eq!(status, 201);
    assert_ne!(other["sessionId"], first["sessionId"]);

    let shown = wait_for_status(&server, &id, "running");
    for (field, value) in [
        ("sessionId", json!(id)),
        ("mcpEndpoint", first["mcpEndpoint"].clone()),
        ("conversationId", json!("c/1 ü")),
        ("profileId", json!("p")),
        ("pool", json!("DEFAULT")),
        ("seat", json!("process")),
        ("calls", json!(0)),
        ("tabs", json!([])),
        ("viewers", json!(0)),
        ("live", json!("none")),
        ("canInput", json!(false)),
    ] {
        assert_eq!(shown[field], value, "{field}: {shown}");
    }
    for field in ["lastActivity", "createdAt"] {
        assert!(shown[field].as_str().unwrap().ends_with('Z'), "{shown}");
    }
    for unknown in ["currentUrl", "pageTitle", "viewport", "dialog", "control", "error"] {
        assert!(shown.get(unknown).is_none(), "{unknown}: {shown}");
    }
    // The one endpoint is a door to the one session.
    let mut client = greenroom_testkit::McpHttp::connect(first["mcpEndpoint"].as_str().unwrap());
    client.initialize();
    assert_eq!(client.call_tool("echo", json!({ "text": "hi" }))["content"][0]["text"], "hi");
    wait_until("the call is counted", PATIENCE, || seen(&server, &id)["calls"] == 1);
    let (_, list) = get(&server, "/api/browser-sessions");
    let listed: Vec<_> = list["sessions"].as_array().unwrap().iter().map(|one| &one["sessionId"]).collect();
    assert_eq!(listed.len(), 2, "{list}");
    assert!(listed.contains(&&first["sessionId"]) && listed.contains(&&other["sessionId"]), "{list}");
    assert_eq!(get(&server, &format!("/api/browser-sessions/{id}/tabs")), (200, json!({ "tabs": [] })));

    assert_eq!(stop(&server, &id), 204);
    let shown = seen(&server, &id);
    assert_eq!((&shown["status"], &shown["conversationId"]), (&json!("stopped"), &json!("c/1 ü")), "{shown}");
    assert_eq!(stop(&server, &id), 404);
    for what in ["screenshot", "pdf"] {
        let path = format!("/api/browser-sessions/{id}/{what}");
        assert_eq!(refused(get(&server, &path)), is(409, "conflict"));
    }
    let (status, next) = start(&server, &order);
    assert_eq!(status, 201);
    assert_ne!(next["sessionId"], first["sessionId"], "a session that was stopped does not come back");
}

#[test]
fn sessions_that_agents_made_are_seen_too_under_any_name() {
    let server = Server::fake("", &[SESSIONS]);
    let name = "päth/to?x#y z%";
    call(&server, name, "echo", &json!({ "text": "x" }));
    let escaped = "p%C3%A4th%2Fto%3Fx%23y%20z%25";
    let shown = seen(&server, escaped);
    assert_eq!((&shown["sessionId"], &shown["calls"]), (&json!(name), &json!(1)), "{shown}");
    assert!(shown["mcpEndpoint"].as_str().unwrap().ends_with(&format!("/sessions/{escaped}/mcp")), "{shown}");
    assert!(shown.get("conversationId").is_none());
    assert_eq!(stop(&server, escaped), 204);
    assert_eq!(seen(&server, escaped)["status"], "stopped");
}

#[test]
fn whoever_asks_at_once_for_one_conversation_gets_one_session() {
    let server = Server::fake("--late-start 300", &[SESSIONS]);
    let order = json!({ "conversationId": "c", "profileId": "p" });
    let answers: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(|| start(&server, &order))).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|(status, _)| *status == 201).count(), 1, "{answers:?}");
    assert!(answers.iter().all(|(_, answer)| answer["sessionId"] == answers[0].1["sessionId"]));
    assert_eq!(get(&server, "/api/browser-sessions").1["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn what_is_wrong_with_a_request_is_said() {
    let server = Server::fake("", &[SESSIONS, ("GREENROOM_MAX_SESSIONS_PER_CALLER", "1")]);
    let with = |options: Value| {
        start(&server, &json!({ "conversationId": "c", "profileId": "p", "options": options }))
    };
    for order in [
        json!({ "conversationId": "c" }),
        json!({ "conversationId": "", "profileId": "p" }),
        json!({ "conversationId": "c", "profileId": "x".repeat(257) }),
        json!({ "conversationId": "c", "profileId": "p", "colour": "red" }),
        json!({ "conversationId": "c", "profileId": "p", "options": { "colour": "red" } }),
        json!({ "conversationId": 1, "profileId": "p" }),
        json!([]),
    ] {
        assert_eq!(refused(start(&server, &order)), is(400, "invalid_request"), "{order}");
    }
    for (options, said) in [
        (json!({ "viewport": { "width": 0, "height": 1 } }), "desktop"),
        (json!({ "viewport": 5 }), "desktop"),
        (json!({ "userAgent": "" }), "userAgent"),
        (json!({ "storageState": "{" }), "storageState"),
        (json!({ "idleTimeoutMs": -5 }), "idleTimeoutMs"),
        // Only browsers that we launch ourselves can be told how to be.
        (json!({ "viewport": "mobile" }), "DEFAULT"),
    ] {
        let (status, body) = with(options.clone());
        assert_eq!(refused((status, body.clone())), is(400, "invalid_request"), "{options}");
        let message = body["message"].as_str().unwrap();
        assert!(message.contains(said) || said == "idleTimeoutMs", "{options}: {message}");
    }
    let (status, body) = with(json!({ "storageState": "work" }));
    assert!(body["message"].as_str().unwrap().contains("JSON"), "{body}");
    assert_eq!(refused((status, body)), is(404, "unknown_state"));
    let (status, body) = with(json!({ "pool": "NONE" }));
    assert!(body["message"].as_str().unwrap().contains("DEFAULT"), "{body}");
    assert_eq!(refused((status, body)), is(404, "unknown_pool"));
    let (status, _, body) = server.client().raw("POST", "/api/browser-sessions", &[], b"{}");
    assert_eq!(refused((status, parsed(&body))), is(415, "unsupported_media_type"));
    assert_eq!(get(&server, "/api/browser-sessions").1, json!({ "sessions": [] }), "nothing was made");

    for path in ["", "/tabs", "/screenshot", "/pdf", "/screenshots", "/live"] {
        let path = format!("/api/browser-sessions/nobody{path}");
        assert_eq!(refused(get(&server, &path)), is(404, "unknown_session"), "{path}");
    }
    assert_eq!(stop(&server, "nobody"), 404);
    let long = "x".repeat(257);
    assert_eq!(refused(get(&server, &format!("/api/browser-sessions/{long}"))), is(400, "invalid_request"));
    assert_eq!(refused(get(&server, "/api/browser-sessions/%FF")), is(400, "invalid_request"));

    let id = session(&server, "c", &json!({}));
    for query in [
        "screenshot?format=gif",
        "screenshot?format=jpeg&quality=0",
        "screenshot?format=jpeg&quality=101",
        "screenshot?scale=big",
        "screenshot?fullPage=maybe",
        "screenshot?colour=red",
        "screenshots?quality=0",
        "screenshots?maxWidth=15",
        "screenshots?maxWidth=4097",
        "screenshots?interval=15",
        "screenshots?interval=60001",
        "screenshots?colour=red",
        "live?quality=x",
    ] {
        let path = format!("/api/browser-sessions/{id}/{query}");
        assert_eq!(refused(get(&server, &path)), is(400, "invalid_request"), "{query}");
    }
    let (status, headers, body) = raw(&server, "GET", &format!("/api/browser-sessions/{id}/live"), b"");
    assert_eq!(refused((status, parsed(&body))), is(426, "upgrade_required"));
    assert_eq!(headers.get("Upgrade"), Some("websocket"));
    // This kind of browser shows nothing.
    wait_for_status(&server, &id, "running");
    for what in ["screenshot", "pdf"] {
        assert_eq!(
            refused(get(&server, &format!("/api/browser-sessions/{id}/{what}"))),
            is(409, "conflict"),
            "{what}"
        );
    }
    let (status, body) = start(&server, &json!({ "conversationId": "d", "profileId": "p" }));
    assert!(body["message"].as_str().unwrap().contains("MAX_SESSIONS_PER_CALLER"), "{body}");
    assert_eq!(refused((status, body)), is(429, "too_many"));
}

#[test]
fn where_there_are_no_sessions_it_is_said() {
    let server = Server::fake("", &[("GREENROOM_ADDRESSING", "pool")]);
    let order = json!({ "conversationId": "c", "profileId": "p" });
    let (status, body) = start(&server, &order);
    assert!(body["message"].as_str().unwrap().contains("ADDRESSING"), "{body}");
    assert_eq!(refused((status, body)), is(404, "not_found"));
    for path in ["", "/tabs", "/screenshot", "/pdf", "/screenshots", "/live"] {
        let path = format!("/api/browser-sessions/nobody{path}");
        assert_eq!(refused(get(&server, &path)), is(404, "not_found"), "{path}");
    }
    assert_eq!(get(&server, "/api/browser-sessions").1, json!({ "sessions": [] }));
}

#[test]
fn a_browser_that_cannot_be_started_is_an_error_that_says_why() {
    let server = Server::fake("--crash-on-start --stderr so-sad", &[SESSIONS]);
    let order = json!({ "conversationId": "c", "profileId": "p" });
    let (status, answer) = start(&server, &order);
    assert_eq!(status, 201, "{answer}");
    let id = answer["sessionId"].as_str().unwrap();
    let shown = wait_for_status(&server, id, "error");
    assert!(shown["error"].as_str().unwrap().contains("could not be started"), "{shown}");
    // Whoever asks again gets the same session, and another try.
    let (status, again) = start(&server, &order);
    assert_eq!((status, &again["sessionId"]), (200, &answer["sessionId"]));
}

#[test]
fn a_public_name_is_in_the_endpoint() {
    let server =
        Server::fake("", &[SESSIONS, ("GREENROOM_PUBLIC_URL", "https://browsers.example.com/green/")]);
    let (_, answer) = start(&server, &json!({ "conversationId": "c", "profileId": "p" }));
    let id = answer["sessionId"].as_str().unwrap();
    assert_eq!(answer["mcpEndpoint"], format!("https://browsers.example.com/green/sessions/{id}/mcp"));
}

#[test]
fn pools_and_attached_browsers_are_listed() {
    let server = Server::fake(
        "",
        &[
            ("GREENROOM_BROWSER_URLS", "http://127.0.0.1:1"),
            ("PW_MCP_PROXY__MAIN_INSTANCES", "1"),
            ("PW_MCP_PROXY__MAIN_IS_DEFAULT", "true"),
        ],
    );
    let (status, pools) = get(&server, "/api/pools");
    assert_eq!((status, &pools["pools"][0]["name"]), (200, &json!("MAIN")));
    let (status, list) = get(&server, "/api/browsers");
    assert_eq!(status, 200, "{list}");
    let browser = &list["browsers"][0];
    assert_eq!(browser["index"], 1, "{list}");
    assert!(browser["url"].as_str().unwrap().contains("127.0.0.1:1"), "{list}");
    for field in ["name", "driver", "tags", "state", "page_url", "page_title", "last_error", "last_attempt"] {
        assert!(browser.get(field).is_some(), "{field}: {list}");
    }
}

#[test]
fn what_happens_is_told_to_whoever_follows() {
    let server = Server::fake("", &[SESSIONS]);
    let before = session(&server, "before", &json!({}));
    let events = EventSource::open(&server.url.replace("/mcp", "/api/events"), &[], PATIENCE);
    assert!(events.headers().get("Content-Type").unwrap().starts_with("text/event-stream"));
    assert_eq!(events.next_event().unwrap().retry.as_deref(), Some("2000"));
    let first = events.next_event().unwrap();
    assert_eq!((first.name.as_str(), &first.data["sessionId"]), ("session", &json!(before)), "{first:?}");
    let of = |id: &str, status: &str| {
        let (id, status) = (json!(id), json!(status));
        let what = format!("{id} is {status}");
        events.find_event(&what, move |event| {
            event.name == "session" && event.data["sessionId"] == id && event.data["status"] == status
        })
    };
    let new = session(&server, "new", &json!({}));
    let running = of(&new, "running");
    assert_eq!(running.data["conversationId"], "new");
    let answer = call(&server, &new, "echo", &json!({ "text": "x" }));
    let called = |status: &str| {
        let status = json!(status);
        events.find_event("the call", move |event| event.name == "call" && event.data["status"] == status)
    };
    assert!(called("pending").data.get("durationMs").is_none());
    let done = called("success").data;
    assert_eq!(
        (&done["refId"], &done["sessionId"], &done["tool"], &done["person"], &done["timestamp"]),
        (&answer["ref_id"], &json!(new), &json!("echo"), &json!(false), &answer["timestamp"])
    );
    assert!(done["durationMs"].as_f64().unwrap() > 0.0, "{done}");
    assert_eq!(stop(&server, &new), 204);
    let _ = of(&new, "stopped");
}

/// A server with the real browser, and a site.
pub(crate) fn with_browser(variables: &[(&str, &str)], work: impl FnOnce(&Server, &Site)) {
    let _permit = browser_permit();
    let folder = data_dir();
    let mut command = greenroom(folder.path());
    command.env("GREENROOM_TIMEOUT_SETTLE", "100").envs(variables.iter().copied());
    let server = Server::start(command, None);
    work(&server, &Site::start());
}

#[test]
fn a_session_is_as_it_was_wished_for_and_shows_its_page() {
    with_browser(&[], |server, site| {
        let state = json!({
            "cookies": [{
                "name": "known", "value": "since-before", "domain": "127.0.0.1", "path": "/", "expires": -1,
                "httpOnly": false, "secure": false, "sameSite": "Lax",
            }],
            "origins": [],
        });
        let options = json!({
            "viewport": { "width": 640, "height": 360 }, "userAgent": "Tester/1", "storageState": state.to_string(),
            "idleTimeoutMs": 600_000, "pool": "DEFAULT",
        });
        let id = session(server, "wishes", &options);
        let shown = wait_for_status(server, &id, "running");
        assert_eq!((&shown["live"], &shown["canInput"]), (&json!("screencast"), &json!(true)), "{shown}");
        wait_until("its idle time runs", PATIENCE, || {
            seen(server, &id)["idleLeftMs"].as_u64().is_some_and(|left| left <= 600_000)
        });
        navigate(server, &id, &site.url("/static-text"));
        assert!(value(server, &id, "document.cookie").contains("known=since-before"));
        assert!(value(server, &id, "navigator.userAgent").contains("Tester/1"));
        assert!(value(server, &id, "`${innerWidth}x${innerHeight}`").contains("640x360"));
        wait_until("the page is known", PATIENCE, || seen(server, &id)["currentUrl"].is_string());
        let shown = seen(server, &id);
        let tab = json!({ "index": 0, "url": site.url("/static-text"), "title": shown["pageTitle"], "current": true });
        assert_eq!(shown["currentUrl"], site.url("/static-text"), "{shown}");
        assert_eq!(shown["tabs"], json!([tab]), "{shown}");
        assert_eq!(shown["viewport"], json!({ "width": 640, "height": 360 }), "{shown}");
        assert!(!shown["pageTitle"].as_str().unwrap().is_empty(), "{shown}");
        assert_eq!(get(server, &format!("/api/browser-sessions/{id}/tabs")).1["tabs"], shown["tabs"]);

        let shot =
            |query: &str| raw(server, "GET", &format!("/api/browser-sessions/{id}/screenshot{query}"), b"");
        let (status, headers, png) = shot("");
        assert_eq!((status, headers.get("Content-Type")), (200, Some("image/png")));
        assert_eq!(headers.get("Cache-Control"), Some("no-store"));
        let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        assert!(png.starts_with(b"\x89PNG") && (side(16), side(20)) == (640, 360));
        let (_, headers, fine) = shot("?format=jpeg&quality=95&scale=device");
        assert_eq!(headers.get("Content-Type"), Some("image/jpeg"));
        let (_, _, coarse) = shot("?format=jpeg&quality=5");
        assert!(fine.starts_with(b"\xff\xd8") && coarse.len() < fine.len());
        let (_, _, whole) = shot("?fullPage=true");
        assert!(u32::from_be_bytes(whole[20..24].try_into().unwrap()) >= 360);
        let (status, headers, pdf) = raw(server, "GET", &format!("/api/browser-sessions/{id}/pdf"), b"");
        assert_eq!((status, headers.get("Content-Type")), (200, Some("application/pdf")));
        assert!(pdf.starts_with(b"%PDF"));
        // None of this is a call.
        let (_, calls) = get(server, &format!("/api/calls?session_id={id}"));
        assert_eq!(calls["calls"].as_array().unwrap().len(), 4, "{calls}");
    });
}

#[test]
fn a_preset_is_a_device_and_one_that_is_unknown_is_an_error() {
    with_browser(&[], |server, site| {
        let id = session(server, "phone", &json!({ "viewport": "mobile" }));
        navigate(server, &id, &site.url("/static-text"));
        assert!(value(server, &id, "navigator.userAgent").contains("Pixel 7"));
        assert!(value(server, &id, "matchMedia('(pointer: coarse)').matches").contains("true"));
        let id = session(server, "tablet", &json!({ "viewport": "tablet" }));
        navigate(server, &id, &site.url("/static-text"));
        assert!(value(server, &id, "screen.width").contains("640"));
        let id = session(server, "desktop", &json!({ "viewport": "desktop" }));
        navigate(server, &id, &site.url("/static-text"));
        assert!(value(server, &id, "`${innerWidth}x${innerHeight}`").contains("1280x720"));
        let order =
            json!({ "conversationId": "odd", "profileId": "p", "options": { "viewport": "Teapot 3" } });
        let (status, answer) = start(server, &order);
        assert_eq!(status, 201, "{answer}");
        let shown = wait_for_status(server, answer["sessionId"].as_str().unwrap(), "error");
        assert!(shown["error"].as_str().unwrap().contains("Teapot 3"), "{shown}");
    });
}

#[test]
fn a_chrome_devtools_session_is_seen_through_its_screenshots() {
    let _permit = browser_permit();
    let folder = data_dir_for_both();
    let mut command = greenroom(folder.path());
    command.env("GREENROOM_DRIVER", "chrome-devtools");
    let (server, site) = (Server::start(command, None), Site::start());
    let id = session(&server, "c", &json!({}));
    let shown = wait_for_status(&server, &id, "running");
    assert_eq!((&shown["live"], &shown["canInput"]), (&json!("polling"), &json!(false)), "{shown}");
    call(&server, &id, "navigate_page", &json!({ "url": site.url("/static-text") }));
    let (status, headers, picture) =
        raw(&server, "GET", &format!("/api/browser-sessions/{id}/screenshot?format=png"), b"");
    assert_eq!((status, headers.get("Content-Type")), (200, Some("image/jpeg")));
    assert!(picture.starts_with(b"\xff\xd8"));
    let stream = EventSource::open(
        &server.url.replace("/mcp", &format!("/api/browser-sessions/{id}/screenshots")),
        &[],
        PATIENCE,
    );
    let shot = stream.find_event("a picture", |event| event.name == "screenshot");
    assert_eq!(shot.data["format"], "jpeg");
}
