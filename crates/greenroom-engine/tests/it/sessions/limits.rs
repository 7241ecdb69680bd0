//! How many sessions there may be.

use greenroom_engine::CallFailure;
use serde_json::json;

use super::sessions;

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_has_only_so_many_sessions() {
    let rig = sessions("", &[("GREENROOM_MAX_SESSIONS", "2")]);
    rig.pid_in("a").await;
    rig.pid_in("b").await;
    let failure = rig.failure("pid", json!({ "sessionId": "c" })).await;
    assert_eq!(
        failure.to_string(),
        "There are 2 sessions already, which is as many as may be (MAX_SESSIONS). Close one with `session_close`."
    );
    let failure = rig.failure("create_new_session", json!({})).await;
    assert!(matches!(failure, CallFailure::TooManySessions { most: 2, .. }), "{failure}");
    rig.pid_in("a").await;
    rig.close("a").await;
    rig.pid_in("c").await;
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_has_only_so_many_sessions() {
    let rig = sessions("", &[("GREENROOM_MAX_SESSIONS_PER_CALLER", "1")]);
    rig.pid_in("a").await;
    let failure = rig.failure("pid", json!({ "sessionId": "b" })).await;
    assert!(failure.to_string().contains("(MAX_SESSIONS_PER_CALLER)"), "{failure}");
    rig.close("a").await;
    rig.pid_in("b").await;
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_are_counted_by_themselves() {
    let rig = sessions(
        "",
        &[
            ("GREENROOM__MAIN_INSTANCES", "1"),
            ("GREENROOM__MAIN_IS_DEFAULT", "true"),
            ("GREENROOM__MAIN_MAX_SESSIONS", "1"),
            ("GREENROOM__SIDE_INSTANCES", "1"),
        ],
    );
    rig.pid_in("a").await;
    assert!(matches!(
        rig.failure("pid", json!({ "sessionId": "b" })).await,
        CallFailure::TooManySessions { .. }
    ));
    rig.text("pid", json!({ "sessionId": "b", "browser_pool": "SIDE" })).await;
    rig.text("pid", json!({ "sessionId": "c", "browser_pool": "SIDE" })).await;
    rig.engine.shutdown().await;
}
