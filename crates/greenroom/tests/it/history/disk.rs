//! A disk that takes no more: calls go on, everybody can see what is lost, and nothing else is.

use std::process::Command;

use greenroom_testkit::wait_until;
use serde_json::{Value, json};

use super::{Agent, Archive, PATIENCE, connected, fine, pool, ref_id};
use crate::rig::Server;

/// Files of a running process may become so long and no longer. Others' limits stay.
fn limit_files(server: &Server, bytes: &str) {
    let (pid, limit) = (format!("--pid={}", server.pid()), format!("--fsize={bytes}:unlimited"));
    let done = Command::new("prlimit").args([pid, limit]).status().unwrap();
    assert!(done.success());
}

fn history(server: &Server) -> Value {
    let (_, _, body) = server.client().raw("GET", "/api/pools", &[], b"");
    serde_json::from_slice::<Value>(&body).unwrap()["history"].take()
}

#[test]
fn when_nothing_can_be_written_calls_go_on_without_a_record_until_it_can() {
    let archive = Archive::new();
    let server = archive.serve(&pool(&[("GREENROOM_REPLY_BUDGET", "1000"), ("GREENROOM_REPLY", "ref")]));
    let mut agent = connected(&server);
    let before = agent.reference("bytes", json!({ "size": 5000 }));
    assert_eq!(history(&server)["state"], "on", "{}", history(&server));

    limit_files(&server, "1");
    let mut without = Value::Null;
    wait_until("a call without a record", PATIENCE, || {
        without = agent.call("bytes", json!({ "size": 5000 }));
        without["_meta"].get("greenroom/refId").is_none()
    });
    assert_eq!(fine(&without).len(), 5000, "what cannot be read later is returned now");
    for _ in 0..20 {
        let result = agent.call("bytes", json!({ "size": 5000 }));
        assert_eq!((fine(&result).len(), result["_meta"].get("greenroom/refId")), (5000, None));
    }
    let image = agent.call("image", json!({}));
    assert_eq!(super::blocks(&image, "image").len(), 1, "{image}");
    assert_eq!(super::blocks(&image, "resource_link").len(), 0, "{image}");
    let status = history(&server);
    assert_eq!(status["state"], "failing", "{status}");
    assert!(status["lost"].as_u64().unwrap() >= 21 && status["error"].is_string(), "{status}");
    assert!(server.log().contains("history cannot be written: calls go on without it"), "{}", server.log());
    let read = agent.content(json!({ "ref_id": before, "limit": 3 }));
    assert_eq!(read.lines().count(), 3, "what is on record can be read: {read}");

    limit_files(&server, "unlimited");
    let after = agent.reference("bytes", json!({ "size": 5000 }));
    assert_eq!(history(&server)["state"], "on", "{}", history(&server));
    assert!(server.log().contains("history is written again"), "{}", server.log());
    for id in [&before, &after] {
        let result: Value = serde_json::from_str(&archive.result(id)).unwrap();
        assert_eq!(fine(&result).len(), 5000);
    }
    assert_eq!(archive.reader().check().unwrap(), [] as [String; 0]);
    drop((agent, server));
    let server = archive.serve(&pool(&[]));
    let result = connected(&server).call("get_content", json!({ "ref_id": after, "limit": 1 }));
    assert_eq!(ref_id(&result), after);
}

#[test]
fn a_folder_that_holds_no_history_does_not_keep_greenroom_from_working() {
    let archive = Archive::new();
    // Where the database should be there is something else.
    std::fs::create_dir(archive.folder.path().join("greenroom.db")).unwrap();
    let server = archive.serve(&pool(&[("GREENROOM_REPLY_BUDGET", "1000")]));
    let mut agent = connected(&server);
    let result = agent.call("bytes", json!({ "size": 5000 }));
    assert_eq!((fine(&result).len(), result["_meta"].get("greenroom/refId")), (5000, None));
    let status = history(&server);
    assert_eq!(status["state"], "failing", "{status}");
    assert!(status["error"].as_str().unwrap().contains("greenroom.db"), "{status}");
    assert!(server.log().contains("calls are not written down"), "{}", server.log());
}
