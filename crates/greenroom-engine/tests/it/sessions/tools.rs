//! `session_list`, `session_close`, `session_files` and `create_new_session`.

use greenroom_engine::CallFailure;
use serde_json::json;

use super::{notice, sessions, until};

#[tokio::test(flavor = "multi_thread")]
async fn the_list_says_how_each_session_is() {
    let rig = sessions("", &[("GREENROOM_SESSION_IDLE_TIMEOUT", "600000")]);
    rig.pid_in("b").await;
    rig.pid_in("b").await;
    rig.pid_in("a").await;
    let list = rig.listed().await;
    let ids: Vec<_> = list.iter().map(|session| session["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["a", "b"]);
    let b = &list[1];
    assert_eq!((&b["pool"], &b["seat"], &b["state"]), (&json!("DEFAULT"), &json!("process"), &json!("idle")));
    assert_eq!((&b["calls"], &b["url"], &b["title"]), (&json!(2), &json!(null), &json!(null)));
    let left = b["idle_left_ms"].as_u64().unwrap();
    assert!((1..=600_000).contains(&left), "{left}");
    for time in ["created", "last_used"] {
        assert!(b[time].as_str().unwrap().ends_with('Z'), "{b}");
    }
    let mut busy = rig.hanging("a").await;
    let list = rig.listed().await;
    assert_eq!((&list[0]["state"], &list[0]["idle_left_ms"]), (&json!("busy"), &json!(null)));
    busy.cancel();
    busy.outcome().await.result.unwrap_err();
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_not_there_cannot_be_closed_or_looked_into() {
    let rig = sessions("", &[]);
    for tool in ["session_close", "session_files"] {
        let failure = rig.failure(tool, json!({ "sessionId": "ghost" })).await;
        assert_eq!(
            failure.to_string(),
            "There is no session `ghost`. `session_list` names those that there are."
        );
        let failure = rig.failure(tool, json!({})).await;
        assert!(failure.to_string().contains("sessionId"), "{failure}");
    }
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_can_be_made_in_advance_under_a_name_that_is_made_up() {
    let rig = sessions("", &[("GREENROOM_SESSION_IDLE_TIMEOUT", "600000")]);
    let made = rig.own("create_new_session", json!({ "idle_timeout": 1_200_000 })).await;
    let other = rig.own("create_new_session", json!({})).await;
    assert_ne!(made["sessionId"], other["sessionId"]);
    assert!(made["idle_timeout_ms"].as_u64().unwrap() > 600_000, "{made}");
    assert_eq!((&made["pool"], &made["seat"]), (&json!("DEFAULT"), &json!("process")));
    let id = made["sessionId"].as_str().unwrap();
    let listed = rig.listed().await;
    let found =
        listed.iter().find(|session| session["id"] == id).expect("it is listed before its first call");
    assert_eq!(found["state"], "new");
    assert_eq!(notice(rig.call("pid", json!({ "sessionId": id }))).await, None);
    let files = rig.own("session_files", json!({ "sessionId": id })).await;
    assert_eq!(files, json!({ "sessionId": id, "files": [] }));
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_can_be_asked_for_unless_it_is_taken() {
    let rig = sessions("", &[]);
    let made = rig.own("create_new_session", json!({ "sessionId": "mine" })).await;
    assert_eq!(made["sessionId"], "mine");
    let failure = rig.failure("create_new_session", json!({ "sessionId": "mine" })).await;
    assert!(matches!(failure, CallFailure::SessionExists { .. }), "{failure}");
    rig.pid_in("lazy").await;
    let failure = rig.failure("create_new_session", json!({ "sessionId": "lazy" })).await;
    assert!(matches!(failure, CallFailure::SessionExists { .. }), "{failure}");
    let many = (0..20).map(|_| rig.call("create_new_session", json!({ "sessionId": "race" })));
    let mut made = 0;
    for mut call in many.collect::<Vec<_>>() {
        made += usize::from(call.outcome().await.result.is_ok());
    }
    assert_eq!(made, 1);
    let failure = rig.failure("create_new_session", json!({ "pool": "?" })).await;
    assert!(failure.to_string().contains("there is no pool `?`"), "{failure}");
    let failure = rig.failure("create_new_session", json!({ "colour": "red" })).await;
    assert!(failure.to_string().contains("colour"), "{failure}");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_asked_for_and_never_used_is_missed_all_the_same() {
    let rig = sessions("", &[]);
    rig.own("create_new_session", json!({ "sessionId": "mine", "idle_timeout": 1 })).await;
    until("it to end", || rig.engine.sessions(&greenroom_engine::Caller::local()).is_empty()).await;
    let said = notice(rig.call("pid", json!({ "sessionId": "mine" }))).await.unwrap();
    assert!(said.contains("it was idle for 0.001 s"), "{said}");
    rig.engine.shutdown().await;
}
