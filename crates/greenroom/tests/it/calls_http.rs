//! Calls over HTTP/JSON: made, repeated, read back, and asked for in every wrong way.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use greenroom_testkit::{Headers, Site};
use serde_json::{Value, json};

use crate::rig::{Server, browser_permit, data_dir, greenroom, with_fake};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const SESSIONS: (&str, &str) = ("GREENROOM_SESSION_ISOLATION", "process");
const ID: &str = "0c9d7f6e-5a4b-4c3d-9e2f-1a0b9c8d7e6f";

/// A server with the fake upstream, where every call has a session, and a folder that can be used again.
fn server_in(folder: &Path, flags: &str, variables: &[(&str, &str)]) -> Server {
    let mut command = with_fake(greenroom(folder), flags);
    command.envs([SESSIONS]).envs(variables.iter().copied());
    Server::start(command, None)
}

fn raw(server: &Server, method: &str, path: &str, body: &[u8]) -> (u16, Headers, Vec<u8>) {
    server.client().with_timeout(Duration::from_secs(120)).raw(method, path, &[JSON], body)
}

fn parsed(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| panic!("not JSON: {}", String::from_utf8_lossy(body)))
}

fn get(server: &Server, path: &str) -> (u16, Value) {
    let (status, _, body) = raw(server, "GET", path, b"");
    (status, parsed(&body))
}

fn post(server: &Server, order: &Value) -> (u16, Value) {
    let (status, _, body) = raw(server, "POST", "/api/calls", order.to_string().as_bytes());
    (status, parsed(&body))
}

/// A call that has to be made.
fn made(server: &Server, order: &Value) -> Value {
    let (status, answer) = post(server, order);
    assert_eq!(status, 200, "{order}: {answer}");
    answer
}

/// An error in the one format, with the word for its kind.
fn refused((status, body): (u16, Value)) -> (u16, String) {
    assert!(body["message"].is_string() && body["details"].is_object(), "{body}");
    (status, body["error"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned())
}

fn is(status: u16, kind: &str) -> (u16, String) {
    (status, kind.to_owned())
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

/// How many calls the upstream of a session has got so far, this one among them.
fn seen(server: &Server, session: &str) -> i64 {
    let order = json!({ "session_id": session, "tool": "calls_seen", "params": {} });
    let (status, _, body) = raw(server, "POST", "/api/calls?include=result", order.to_string().as_bytes());
    assert_eq!(status, 200);
    let answer = parsed(&body);
    serde_json::from_str::<Value>(text(&answer["result"])).unwrap()["calls"].as_i64().unwrap()
}

#[test]
fn a_call_is_answered_as_the_seed_has_it_and_can_be_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let server = server_in(folder.path(), "", &[]);
    let order = json!({ "session_id": "s", "tool": "echo", "params": { "text": "one\ntwo\nthree" } });
    let answer = made(&server, &order);
    let id = answer["ref_id"].as_str().unwrap().to_owned();
    assert_eq!(answer["session_id"], "s");
    assert_eq!(answer["status"], "success");
    assert!(answer["timestamp"].as_str().unwrap().ends_with('Z'), "{answer}");
    let metadata =
        json!({ "tool": "echo", "has_snapshot": false, "has_console_logs": false, "console_error_count": 0 });
    assert_eq!(answer["metadata"], metadata);
    assert!(answer.get("error").is_none() && answer.get("result").is_none(), "{answer}");

    let (status, call) = get(&server, &format!("/api/calls/{id}"));
    assert_eq!((status, &call["params"]["text"]), (200, &json!("one\ntwo\nthree")));
    for field in ["ref_id", "session_id", "status", "timestamp", "metadata"] {
        assert_eq!(call[field], answer[field], "{field}");
    }
    assert!(call.get("result").is_none());
    let (_, call) = get(&server, &format!("/api/calls/{id}?include=result"));
    assert_eq!(text(&call["result"]), "one\ntwo\nthree");

    let content = |query: &str| get(&server, &format!("/api/calls/{id}/content{query}"));
    assert_eq!(
        content("").1,
        json!({ "ref_id": id, "content": "one\ntwo\nthree", "total": 3, "next_offset": null })
    );
    assert_eq!(content("").1["content"], "", "all of it has been read");
    assert_eq!(content("?reset_cursor=true").1["content"], "one\ntwo\nthree");
    assert_eq!(content("?offset=1&limit=1").1["content"], "two\n");
    assert_eq!(content("?offset=1&limit=1").1["next_offset"], 2);
    let found = content("?search_for=two&before_lines=1").1;
    assert!(found["content"].as_str().unwrap().contains("one"), "{found}");
    let (status, console) = get(&server, &format!("/api/calls/{id}/console?level=error"));
    assert_eq!((status, console), (200, json!({ "ref_id": id, "content": "" })));

    let failed =
        made(&server, &json!({ "session_id": "s", "tool": "fail", "params": { "message": "so sad" } }));
    assert_eq!((&failed["status"], &failed["error"]), (&json!("error"), &json!("so sad")));
    let order =
        json!({ "session_id": "s", "tool": "rpc_error", "params": { "code": -32000, "message": "no" } });
    let failed = made(&server, &order);
    assert_eq!((&failed["status"], &failed["error"]), (&json!("error"), &json!("no")));
}

#[test]
fn calls_are_listed_page_by_page() {
    let folder = tempfile::tempdir().unwrap();
    let server = server_in(folder.path(), "", &[]);
    for n in 0..5 {
        let session = if n % 2 == 0 { "even" } else { "odd" };
        made(&server, &json!({ "session_id": session, "tool": "echo", "params": { "text": n.to_string() } }));
    }
    made(&server, &json!({ "session_id": "even", "tool": "fail", "params": { "message": "x" } }));
    let (mut pages, mut seen, mut path) = (0, HashSet::new(), "/api/calls?limit=3".to_owned());
    loop {
        let (status, page) = get(&server, &path);
        assert_eq!(status, 200, "{page}");
        pages += 1;
        for call in page["calls"].as_array().unwrap() {
            assert!(seen.insert(call["ref_id"].as_str().unwrap().to_owned()));
        }
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/calls?limit=3&before={next}");
    }
    assert_eq!((pages, seen.len()), (2, 6), "no page is empty");
    let count =
        |query: &str| get(&server, &format!("/api/calls?{query}")).1["calls"].as_array().unwrap().len();
    assert_eq!(count("session_id=odd"), 2);
    assert_eq!(count("tool=fail"), 1);
    assert_eq!(count("text=FAIL"), 1, "by the tool's name, in whatever case");
    assert_eq!(count("text=%22text%22:%223%22"), 1, "by an argument");
    assert_eq!(count("text=%25"), 0, "a percent sign is a percent sign");
    assert_eq!(count("status=error&session_id=even"), 1);
    assert_eq!(count("status=pending"), 0);
    assert_eq!(count("since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z"), 0);
    assert_eq!(count("since=2020-01-01T00:00:00Z"), 6);
}

#[test]
fn a_call_without_a_session_is_served_by_the_default_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = server_in(folder.path(), "", &[]);
    let answer = made(&server, &json!({ "tool": "echo", "params": { "text": "x" } }));
    assert_eq!(answer["session_id"], "default");
    let answer = made(&server, &json!({ "tool": "echo", "params": { "text": "x", "sessionId": "mine" } }));
    assert_eq!(answer["session_id"], "mine");
    // Tools of ours that are about a session take it by either name.
    let answer = made(&server, &json!({ "session_id": "mine", "tool": "session_close" }));
    assert_eq!(answer["result"]["structuredContent"], json!({ "sessionId": "mine", "closed": true }));
    assert!(answer["ref_id"].is_null());

    let plain = Server::fake("", &[]);
    let answer = made(&plain, &json!({ "tool": "echo", "params": { "text": "x" } }));
    assert!(answer["ref_id"].is_string() && answer["session_id"].is_null(), "{answer}");
    let refusal = refused(post(&plain, &json!({ "session_id": "s", "tool": "echo" })));
    assert_eq!(refusal, is(400, "invalid_request"));
}

#[test]
fn a_request_id_is_the_ref_id_and_is_run_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = server_in(folder.path(), "", &[]);
    let order = json!({ "session_id": "s", "tool": "sleep", "params": { "ms": 700 }, "request_id": ID.to_uppercase() });
    let body = order.to_string();
    let ask = || raw(&server, "POST", "/api/calls", body.as_bytes());
    // All at once: most come while the first is still running.
    let answers: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|asking| asking.join().unwrap()).collect()
    });
    let first = &answers[0].2;
    assert_eq!(parsed(first)["ref_id"], ID);
    for (status, _, body) in &answers {
        assert_eq!((*status, body), (200, first), "{}", String::from_utf8_lossy(body));
    }
    // One after another.
    assert_eq!(&ask().2, first);
    assert_eq!(seen(&server, "s"), 2, "the call, and the one that counts");

    // A failure is an answer too.
    let failing = json!({ "session_id": "s", "tool": "nonsense", "request_id": "1c9d7f6e-5a4b-4c3d-9e2f-1a0b9c8d7e6f" });
    let failure = post(&server, &failing);
    assert_eq!(refused(failure.clone()), is(404, "unknown_tool"));
    assert_eq!(post(&server, &failing), failure);

    // After a restart, the record still knows.
    drop(server);
    let server = server_in(folder.path(), "", &[]);
    assert_eq!(&raw(&server, "POST", "/api/calls", body.as_bytes()).2, first);
    assert_eq!(post(&server, &failing), failure);
    assert_eq!(seen(&server, "s"), 1, "only the one that counts");

    let other = json!({ "session_id": "s", "tool": "echo", "params": { "text": "x" }, "request_id": ID });
    assert_eq!(refused(post(&server, &other)), is(409, "conflict"));
    let other = json!({ "session_id": "t", "tool": "sleep", "params": { "ms": 1 }, "request_id": ID });
    assert_eq!(refused(post(&server, &other)), is(409, "conflict"));
}

#[test]
fn whatever_is_wrong_is_said_in_one_format() {
    let folder = tempfile::tempdir().unwrap();
    let server = server_in(folder.path(), "", &[]);
    let known = made(&server, &json!({ "session_id": "s", "tool": "echo", "params": { "text": "x" } }));
    let known = known["ref_id"].as_str().unwrap();
    let orders = [
        json!([]),
        json!({ "session_id": "s" }),
        json!({ "session_id": "s", "tool": "" }),
        json!({ "session_id": "s", "tool": "echo", "params": [] }),
        json!({ "session_id": "s", "tool": "echo", "params": "x" }),
        json!({ "session_id": 7, "tool": "echo" }),
        json!({ "session_id": "s", "tool": "echo", "request_id": "7" }),
        json!({ "session_id": "s", "tool": "echo", "requestId": ID }),
        json!({ "session_id": "s", "tool": "echo", "params": { "sessionId": "t" } }),
        json!({ "session_id": "s".repeat(10_000), "tool": "echo" }),
        json!({ "tool": "session_close" }),
    ];
    for order in orders {
        assert_eq!(refused(post(&server, &order)), is(400, "invalid_request"), "{order}");
    }
    for body in [&b"{broken"[..], b"", b"\xff\xfe"] {
        let (status, _, answer) = raw(&server, "POST", "/api/calls", body);
        assert_eq!(refused((status, parsed(&answer))), is(400, "invalid_request"));
    }
    let refusal = refused(post(&server, &json!({ "session_id": "s", "tool": "ecko" })));
    assert_eq!(refusal, is(404, "unknown_tool"));
    let refusal = refused(post(&server, &json!({ "session_id": "nobody", "tool": "session_close" })));
    assert_eq!(refusal, is(404, "unknown_session"));
    let (status, _, answer) =
        server.client().raw("POST", "/api/calls", &[("Content-Type", "text/plain")], b"{}");
    assert_eq!(refused((status, parsed(&answer))), is(415, "unsupported_media_type"));

    let digest = "0".repeat(64);
    let cases = [
        ("/api/calls/7".to_owned(), 400, "invalid_request"),
        ("/api/calls/%ff".to_owned(), 400, "invalid_request"),
        (format!("/api/calls/{ID}"), 404, "unknown_call"),
        (format!("/api/calls/{ID}/content"), 404, "unknown_call"),
        (format!("/api/calls/{ID}/console"), 404, "unknown_call"),
        (format!("/api/calls/{known}?include=everything"), 400, "invalid_request"),
        (format!("/api/calls/{known}/content?query=%5B%3F"), 400, "invalid_request"),
        (format!("/api/calls/{known}/content?offset=99"), 400, "invalid_request"),
        (format!("/api/calls/{known}/content?limit=-1"), 400, "invalid_request"),
        (format!("/api/calls/{known}/content?limit=many"), 400, "invalid_request"),
        (format!("/api/calls/{known}/content?sessionId=s"), 400, "invalid_request"),
        (format!("/api/calls/{known}/content?part=snapshot"), 404, "no_snapshot"),
        (format!("/api/calls/{known}/content?since={ID}"), 404, "unknown_call"),
        (format!("/api/calls/{known}/console?level=loud"), 400, "invalid_request"),
        ("/api/calls?limit=0".to_owned(), 400, "invalid_request"),
        ("/api/calls?limit=-5".to_owned(), 400, "invalid_request"),
        ("/api/calls?status=fine".to_owned(), 400, "invalid_request"),
        ("/api/calls?since=yesterday".to_owned(), 400, "invalid_request"),
        ("/api/calls?before=7".to_owned(), 400, "invalid_request"),
        ("/api/calls?sesion=s".to_owned(), 400, "invalid_request"),
        ("/api/blobs/..".to_owned(), 400, "invalid_request"),
        ("/api/blobs/..%2F..%2Fgreenroom.db".to_owned(), 400, "invalid_request"),
        (format!("/api/blobs/{}", &digest[1..]), 400, "invalid_request"),
        (format!("/api/blobs/{digest}"), 404, "unknown_blob"),
    ];
    for (path, status, kind) in cases {
        assert_eq!(refused(get(&server, &path)), is(status, kind), "{path}");
    }
    assert_eq!(refused(get(&server, "/api/blobs/../../greenroom.db")), is(404, "not_found"));
    made(&server, &json!({ "session_id": "s", "tool": "echo", "params": { "text": "still fine" } }));
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let server = Server::fake("", &[("GREENROOM_MAX_REQUEST_MB", "1")]);
    let text = "x".repeat(2 * 1024 * 1024);
    let refusal = refused(post(&server, &json!({ "tool": "echo", "params": { "text": text } })));
    assert_eq!(refusal, is(413, "too_large"));
}

#[test]
fn limits_and_losses_have_their_status() {
    let folder = tempfile::tempdir().unwrap();
    let limits = [("GREENROOM_CALL_TIMEOUT", "400"), ("GREENROOM_MAX_SESSIONS", "1")];
    let server = server_in(folder.path(), "", &limits);
    let late = json!({ "session_id": "s", "tool": "hang", "request_id": ID });
    let answer = post(&server, &late);
    assert_eq!(answer.1["details"]["ref_id"], ID);
    assert_eq!(refused(answer.clone()), is(504, "timeout"));
    assert_eq!(post(&server, &late), answer, "the first answer stays the answer");
    let refusal = refused(post(&server, &json!({ "session_id": "t", "tool": "echo" })));
    assert_eq!(refusal, is(429, "too_many"));

    let broken = server_in(tempfile::tempdir().unwrap().path(), "--crash-on-start", &[]);
    let refusal = refused(post(&broken, &json!({ "session_id": "s", "tool": "echo" })));
    assert_eq!(refusal, is(503, "degraded"));
}

#[test]
fn a_session_and_the_other_addresses_go_together_as_over_mcp() {
    let pools = [
        ("PW_MCP_PROXY__MAIN_INSTANCES", "1"),
        ("PW_MCP_PROXY__MAIN_IS_DEFAULT", "true"),
        ("PW_MCP_PROXY__SIDE_INSTANCES", "1"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let server = server_in(folder.path(), "", &pools);
    let order = |session: Option<&str>, place: &Value| {
        let mut params = json!({ "text": "x" });
        params.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
        json!({ "session_id": session, "tool": "echo", "params": params })
    };
    let answer = made(&server, &order(None, &json!({ "browser_pool": "SIDE" })));
    assert!(answer["session_id"].is_null());
    let (_, call) = get(&server, &format!("/api/calls/{}", answer["ref_id"].as_str().unwrap()));
    assert_eq!((&call["pool"], &call["params"]), (&json!("SIDE"), &json!({ "text": "x" })));
    let answer = made(&server, &order(Some("s"), &json!({ "browser_pool": "SIDE", "sessionId": "s" })));
    let (_, call) = get(&server, &format!("/api/calls/{}", answer["ref_id"].as_str().unwrap()));
    assert_eq!((&call["pool"], &call["session_id"]), (&json!("SIDE"), &json!("s")));
    for (session, place) in [
        (Some("s"), json!({ "browser_instance": "0" })),
        (Some("s"), json!({ "sessionId": "t" })),
        (Some("s"), json!({ "browser_pool": "MAIN" })),
        (None, json!({ "browser_pool": "NONE" })),
        (None, json!({ "browser_instance": "9" })),
    ] {
        assert_eq!(refused(post(&server, &order(session, &place))), is(400, "invalid_request"), "{place}");
    }
    // A parameter of the tool's own is no address.
    let order =
        json!({ "session_id": "s", "tool": "own_pool", "params": { "browser_pool": "the blue one" } });
    let answer = made(&server, &order);
    let (_, call) =
        get(&server, &format!("/api/calls/{}?include=result", answer["ref_id"].as_str().unwrap()));
    assert!(text(&call["result"]).contains("the blue one"), "{call}");

    let folder = tempfile::tempdir().unwrap();
    let strict = server_in(folder.path(), "", &[("GREENROOM_ADDRESSING", "session")]);
    let order = json!({ "session_id": "s", "tool": "structured", "params": { "a": 1, "sessionId": "s" } });
    let answer = made(&strict, &order);
    let (_, call) =
        get(&strict, &format!("/api/calls/{}?include=result", answer["ref_id"].as_str().unwrap()));
    assert_eq!(
        (&call["session_id"], &call["result"]["structuredContent"]),
        (&json!("s"), &json!({ "a": 1 }))
    );
    assert_eq!(refused(post(&strict, &json!({ "tool": "structured" }))), is(400, "invalid_request"));
}

#[test]
fn without_history_calls_are_answered_whole() {
    let folder = tempfile::tempdir().unwrap();
    let server = server_in(folder.path(), "", &[("GREENROOM_HISTORY", "false")]);
    let order = json!({ "session_id": "s", "tool": "echo", "params": { "text": "x" }, "request_id": ID });
    let answer = made(&server, &order);
    assert!(answer["ref_id"].is_null(), "{answer}");
    assert_eq!((&answer["session_id"], &answer["status"]), (&json!("s"), &json!("success")));
    assert_eq!(text(&answer["result"]), "x");
    let failed = made(&server, &json!({ "session_id": "s", "tool": "fail", "params": { "message": "no" } }));
    assert_eq!((&failed["status"], &failed["error"]), (&json!("error"), &json!("no")));
    assert_eq!(refused(get(&server, "/api/calls")), is(404, "history_off"));
    assert_eq!(get(&server, "/api/pools").1["history"]["state"], "off");

    // One that cannot be kept does not stop anybody either.
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("greenroom.db")).unwrap();
    let server = server_in(folder.path(), "", &[]);
    let answer = made(&server, &order);
    assert!(answer["ref_id"].is_null() && text(&answer["result"]) == "x", "{answer}");
    assert_eq!(get(&server, "/api/pools").1["history"]["state"], "failing");

    let with = Server::fake("", &[]);
    assert_eq!(get(&with, "/api/pools").1["history"], json!({ "state": "on", "lost": 0, "error": null }));
}

/// The digests of a call's blobs.
fn blobs(server: &Server, ref_id: &Value) -> Vec<(String, Value)> {
    let (_, call) = get(server, &format!("/api/calls/{}", ref_id.as_str().unwrap()));
    let blobs = call["blobs"].as_array().unwrap_or_else(|| panic!("no blobs: {call}")).clone();
    let digest =
        |blob: &Value| blob["uri"].as_str().unwrap().strip_prefix("blob://sha256/").unwrap().to_owned();
    blobs.into_iter().map(|blob| (digest(&blob), blob)).collect()
}

#[test]
fn a_blob_too_large_for_a_message_is_fetched_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let server = server_in(folder.path(), "", &[]);
    let size = 20 * 1024 * 1024;
    let answer = made(&server, &json!({ "session_id": "s", "tool": "image", "params": { "size": size } }));
    let (digest, blob) = blobs(&server, &answer["ref_id"]).remove(0);
    assert_eq!(blob["size"], size);
    let refusal = post(&server, &json!({ "tool": "get_blob", "params": { "uri": blob["uri"] } }));
    assert!(refusal.1["message"].as_str().unwrap().contains(&format!("/api/blobs/{digest}")), "{refusal:?}");
    assert_eq!(refused(refusal), is(400, "invalid_request"));
    let (status, headers, body) = raw(&server, "GET", &format!("/api/blobs/{digest}"), b"");
    assert_eq!((status, body.len()), (200, size));
    assert_eq!(headers.get("Content-Length"), Some(size.to_string().as_str()));
    // More than a message may have at all.
    let answer =
        post(&server, &json!({ "session_id": "s", "tool": "huge", "params": { "bytes": 209_715_200 } }));
    assert!(answer.1["error"].as_str().unwrap().contains("MAX_MESSAGE_MB"), "{}", answer.1);
}

#[test]
fn the_description_is_that_of_the_routes() {
    let server = Server::fake("", &[]);
    let (status, description) = get(&server, "/api/openapi.json");
    assert_eq!(status, 200);
    assert!(description["openapi"].as_str().unwrap().starts_with("3.1"), "{description}");
    let paths = description["paths"].as_object().unwrap();
    let wanted = ["/api/calls", "/api/calls/{ref_id}", "/api/blobs/{sha256}", "/api/pools/{pool}/scale"];
    for path in wanted {
        assert!(paths.contains_key(path), "{path}");
    }
    // A stream has no end, and so no answer that could be looked at.
    for (path, operations) in paths.iter().filter(|(path, _)| *path != "/api/events") {
        for method in operations.as_object().unwrap().keys() {
            // What does not exist is named by its own kind of error, and not as an address that is not there.
            let path = path.replace("{ref_id}", ID).replace("{pool}", "NONE").replace("{instance}", "0");
            let path = path.replace("{sha256}", &"0".repeat(64));
            let (status, _, body) = raw(&server, &method.to_uppercase(), &path, b"");
            let message = parsed(&body)["message"].as_str().unwrap_or_default().to_owned();
            assert!(status != 405 && !message.contains("There is nothing here"), "{method} {path}: {status}");
        }
    }
}

/// A server with the real browser, its folder, and a site.
fn with_browser(work: impl FnOnce(&Server, &Site)) {
    let _permit = browser_permit();
    let folder = data_dir();
    let mut command = greenroom(folder.path());
    command.env("GREENROOM_TIMEOUT_SETTLE", "100");
    let server = Server::start(command, None);
    work(&server, &Site::start());
}

#[test]
fn a_page_is_read_through_its_ref_id() {
    with_browser(|server, site| {
        let order = json!({ "session_id": "agent", "tool": "browser_navigate", "params": { "url": site.url("/links") } });
        let answer = made(server, &order);
        assert_eq!(
            (&answer["status"], &answer["session_id"]),
            (&json!("success"), &json!("agent")),
            "{answer}"
        );
        assert_eq!(answer["metadata"]["has_snapshot"], true, "{answer}");
        let id = answer["ref_id"].as_str().unwrap();
        let (_, call) = get(server, &format!("/api/calls/{id}"));
        assert_eq!(call["url"], site.url("/links"));
        let content = |query: &str| get(server, &format!("/api/calls/{id}/content{query}")).1;
        assert!(content("")["content"].as_str().unwrap().contains("link "), "{}", content("?offset=0"));
        assert_eq!(content("")["content"], "");
        let links = content("?flatten=true&query=%5B%3Frole%3D%3D%27link%27%5D.ref&limit=1");
        let refs: Vec<String> = serde_json::from_str(links["content"].as_str().unwrap()).unwrap();
        assert_eq!(refs.len(), 1, "{links}");
        // The ref can be acted on.
        let click = json!({ "session_id": "agent", "tool": "browser_click", "params": { "target": refs[0], "element": "a link" } });
        let clicked = made(server, &click);
        assert_eq!(clicked["status"], "success", "{clicked}");

        let script = "() => { console.error('so red'); console.log('so plain'); }";
        let order =
            json!({ "session_id": "agent", "tool": "browser_evaluate", "params": { "function": script } });
        made(server, &order);
        let logged = made(server, &json!({ "session_id": "agent", "tool": "browser_snapshot" }));
        let calls = get(server, "/api/calls?session_id=agent").1;
        let errors: i64 = calls["calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|call| call["metadata"]["console_error_count"].as_i64().unwrap())
            .sum();
        assert!(errors >= 1, "{calls} {logged}");
        let with_errors = calls["calls"]
            .as_array()
            .unwrap()
            .iter()
            .find(|call| call["metadata"]["console_error_count"] != 0);
        let id = with_errors.unwrap()["ref_id"].as_str().unwrap().to_owned();
        let console = get(server, &format!("/api/calls/{id}/console?level=error")).1;
        assert!(console["content"].as_str().unwrap().contains("so red"), "{console}");
        assert!(!console["content"].as_str().unwrap().contains("so plain"), "{console}");
    });
}

#[test]
fn a_screenshot_is_fetched_as_a_file() {
    with_browser(|server, site| {
        made(server, &json!({ "tool": "browser_navigate", "params": { "url": site.url("/static-text") } }));
        let shot = made(server, &json!({ "tool": "browser_take_screenshot" }));
        assert_eq!(shot["session_id"], "default");
        let (digest, blob) = blobs(server, &shot["ref_id"]).remove(0);
        let path = format!("/api/blobs/{digest}");
        let (status, headers, body) = raw(server, "GET", &path, b"");
        assert_eq!((status, body.len() as u64), (200, blob["size"].as_u64().unwrap()));
        assert!(body.starts_with(b"\x89PNG") || body.starts_with(b"\xff\xd8"), "{blob}");
        let tag = format!("\"{digest}\"");
        for (name, value) in [
            ("Content-Type", blob["mime_type"].as_str().unwrap()),
            ("Content-Length", &body.len().to_string()),
            ("Content-Disposition", "inline"),
            ("Content-Security-Policy", "sandbox"),
            ("X-Content-Type-Options", "nosniff"),
            ("ETag", &tag),
        ] {
            assert_eq!(headers.get(name), Some(value), "{name}");
        }
        let (status, headers, nothing) = raw(server, "HEAD", &path, b"");
        assert_eq!((status, nothing.len()), (200, 0));
        assert_eq!(headers.get("Content-Length"), Some(body.len().to_string().as_str()));
        let (status, ..) = server.client().raw("GET", &path, &[("If-None-Match", &tag)], b"");
        assert_eq!(status, 304);
    });
}
