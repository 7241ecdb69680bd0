//! Whatever is asked for wrongly is answered with what is wrong, and the server works on.

use serde_json::{Value, json};

use super::{Agent, Archive, POOL, blocks, connected, pool, ref_id};

const NOBODYS: &str = "123e4567-e89b-42d3-a456-426614174000";

/// Stands for the ref id of a call with a text of three lines.
const KNOWN: &str = "known";

#[test]
fn every_mistake_in_what_is_asked_for_is_named() {
    let archive = Archive::new();
    let server = archive.serve(&POOL);
    let mut agent = connected(&server);
    let known = agent.reference("echo", json!({ "text": "one\ntwo\nthree", "sessionId": "a" }));
    for (tool, mut arguments, expected) in mistakes() {
        if arguments["ref_id"] == KNOWN {
            arguments["ref_id"] = known.as_str().into();
        }
        let message = agent.complaint(tool, arguments.clone());
        assert!(message.contains(expected), "{tool} {arguments}: {message}");
        let fine = json!({ "ref_id": known, "offset": 1, "limit": 1 });
        assert_eq!(agent.content(fine), "two\n", "after {tool} {arguments}");
    }
    for uri in ["blob://sha256/../../greenroom.db", "blob:///etc/hostname", "blob://md5/00", "blob://sha256/"]
    {
        let answer = agent.ask("resources/read", json!({ "uri": uri }));
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(message.contains(uri), "{message}");
    }
}

fn mistakes() -> Vec<(&'static str, Value, &'static str)> {
    let unknown_blob = format!("blob://sha256/{}", "0".repeat(64));
    vec![
        ("get_content", json!({ "ref_id": NOBODYS }), "There is no call `123e4567"),
        ("get_content", json!({ "ref_id": "../x" }), "`../x` is no ref id"),
        ("get_content", json!({ "ref_id": KNOWN, "query": "[?role==" }), "cannot be read as a tree"),
        ("get_content", json!({ "ref_id": KNOWN, "query": 7 }), "expected a string"),
        (
            "get_content",
            json!({ "ref_id": KNOWN, "offset": 3 }),
            "offset 3 is past the end: there are 3 lines",
        ),
        ("get_content", json!({ "ref_id": KNOWN, "offset": i64::MAX }), "is past the end"),
        (
            "get_content",
            json!({ "ref_id": KNOWN, "offset": -1 }),
            "`offset` has to be 0 or more, and it is -1",
        ),
        ("get_content", json!({ "ref_id": KNOWN, "limit": -1 }), "`limit` has to be 1 or more, and it is -1"),
        ("get_content", json!({ "ref_id": KNOWN, "limit": 0 }), "`limit` has to be 1 or more, and it is 0"),
        ("get_content", json!({ "ref_id": KNOWN, "limit": 1.5 }), "get_content"),
        (
            "get_content",
            json!({ "ref_id": KNOWN, "sessionId": "a" }),
            "either `ref_id` or `sessionId`, not both",
        ),
        ("get_content", json!({}), "Give `ref_id`, or `sessionId`"),
        ("get_content", json!({ "ref_id": "", "sessionId": "" }), "Give `ref_id`, or `sessionId`"),
        ("get_content", json!({ "sessionId": "nobody" }), "session `nobody`"),
        ("get_content", json!({ "ref_id": KNOWN, "since": NOBODYS }), "There is no call `123e4567"),
        ("get_content", json!({ "ref_id": KNOWN, "since": "yesterday" }), "`yesterday` is no ref id"),
        ("get_content", json!({ "ref_id": KNOWN, "since": NOBODYS, "search_for": "x" }), "give one of them"),
        ("get_content", json!({ "ref_id": KNOWN, "before_lines": 2 }), "go with `search_for`"),
        (
            "get_content",
            json!({ "ref_id": KNOWN, "search_for": "x", "after_lines": -2 }),
            "`after_lines` has to be 0 or more",
        ),
        ("get_content", json!({ "ref_id": KNOWN, "flatten": true }), "`flatten` goes with `query`"),
        ("get_content", json!({ "ref_id": KNOWN, "part": "head" }), "head"),
        ("get_content", json!({ "ref_id": KNOWN, "part": "snapshot" }), "has no page snapshot"),
        ("get_content", json!({ "ref_id": KNOWN, "format": "xml" }), "xml"),
        ("get_content", json!({ "ref_id": KNOWN, "ofset": 1 }), "unknown field `ofset`"),
        ("get_console_content", json!({}), "ref_id"),
        ("get_console_content", json!({ "ref_id": NOBODYS }), "There is no call `123e4567"),
        ("get_console_content", json!({ "ref_id": KNOWN, "level": "loud" }), "`loud` is no level"),
        ("list_calls", json!({ "status": "fine" }), "`fine` is no status"),
        ("list_calls", json!({ "since": "yesterday" }), "`since` is a moment such as"),
        ("list_calls", json!({ "limit": 0 }), "`limit` has to be 1 or more"),
        ("list_calls", json!({ "before": "x" }), "`x` is no ref id"),
        ("list_calls", json!({ "session": "a" }), "unknown field `session`"),
        ("get_blob", json!({}), "uri"),
        (
            "get_blob",
            json!({ "uri": "blob://sha256/../../greenroom.db" }),
            "blob://sha256/../../greenroom.db",
        ),
        ("get_blob", json!({ "uri": "file:///etc/hostname" }), "file:///etc/hostname"),
        ("get_blob", json!({ "uri": unknown_blob }), "There is no such blob"),
    ]
}

#[test]
fn what_is_too_large_for_a_message_is_refused_and_the_rest_of_it_can_be_read() {
    let archive = Archive::new();
    let server = archive.serve(&pool(&[("GREENROOM_REPLY_BUDGET", "1000")]));
    let mut agent = connected(&server);
    let image = agent.call("image", json!({ "size": 17 << 20, "reply": "ref" }));
    let uri = blocks(&image, "resource_link")[0]["uri"].clone();
    let message = agent.complaint("get_blob", json!({ "uri": uri }));
    assert!(message.contains("17825792 bytes") && message.contains("HTTP"), "{message}");
    let answer = agent.ask("resources/read", json!({ "uri": uri }));
    assert!(answer["error"]["message"].as_str().unwrap().contains("17825792 bytes"), "{answer}");

    // A text of that size is a file beside the record, and read in pieces all the same.
    let huge = agent.call("bytes", json!({ "size": 20 << 20, "reply": "ref" }));
    let id = ref_id(&huge);
    assert_eq!(archive.call(&id).result_bytes, 0, "it is a file");
    let end = agent.content(json!({ "ref_id": id, "offset": (20 << 20) / 64 - 1 }));
    assert!(end.starts_with(&format!("{:010} ", (20 << 20) / 64)), "{end}");
    assert_eq!(agent.text("echo", json!({ "text": "still there" })), "still there");
}

#[test]
fn two_hundred_megabytes_are_too_much_for_a_message() {
    let archive = Archive::new();
    let server = archive.serve(&POOL);
    let mut agent = connected(&server);
    let message = agent.complaint("huge", json!({ "bytes": 200 << 20 }));
    assert!(message.contains("larger than the limit of 64 MiB (MAX_MESSAGE_MB)"), "{message}");
    let call = archive.call(&archive.newest());
    assert_eq!(call.error.as_deref(), Some(message.as_str()), "which is on record");
    assert_eq!(agent.text("echo", json!({ "text": "still there" })), "still there");
}
