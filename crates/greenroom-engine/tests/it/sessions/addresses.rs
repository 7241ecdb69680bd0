//! What a call may say about its session.

use greenroom_core::target::AddressError;
use greenroom_engine::CallFailure;
use serde_json::{Value, json};

use super::{notice, sessions};
use crate::Rig;

/// Two configured pools: a call without a session gets a lease.
fn two_pools() -> Rig {
    sessions(
        "",
        &[
            ("GREENROOM__MAIN_INSTANCES", "1"),
            ("GREENROOM__MAIN_IS_DEFAULT", "true"),
            ("GREENROOM__SIDE_INSTANCES", "1"),
            ("GREENROOM__MAIN_HIDE_TOOLS", "env"),
        ],
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_may_be_any_text() {
    let rig = sessions("", &[]);
    let long = "\u{fc}".repeat(256);
    for name in ["../../etc/passwd", "a b", " ", "\u{1f98a}", "%2F", long.as_str()] {
        let outcome = rig.call("pid", json!({ "sessionId": name })).outcome().await;
        assert_eq!(outcome.served.expect("it ran").session.as_deref(), Some(name));
        rig.close(name).await;
    }
    let folders = rig.folders();
    assert!(folders.is_empty(), "{folders:?}");
    let failure = rig.failure("pid", json!({ "sessionId": "x".repeat(257) })).await;
    assert!(
        matches!(failure, CallFailure::Address(AddressError::SessionTooLong { letters: 257 })),
        "{failure}"
    );
    let failure = rig.failure("pid", json!({ "sessionId": { "a": 1 } })).await;
    assert_eq!(failure.to_string(), "`sessionId` has to be a text.");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_upstream_does_not_get_the_name() {
    let rig = sessions("", &[]);
    let mut call = rig.call("structured", json!({ "a": 1, "sessionId": "one", "z": { "sessionId": 2 } }));
    let result = super::result(call.outcome().await);
    assert_eq!(result["structuredContent"], json!({ "a": 1, "z": { "sessionId": 2 } }));
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_names_no_session_has_the_one_called_default() {
    let rig = sessions("", &[]);
    let default = rig.pid_in("default").await;
    for address in [json!({}), json!({ "sessionId": null }), json!({ "sessionId": "" })] {
        let outcome = rig.call("pid", address.clone()).outcome().await;
        assert_eq!(outcome.served.as_ref().and_then(|served| served.session.as_deref()), Some("default"));
        assert_eq!(super::result(outcome)["content"][0]["text"], default.to_string(), "{address}");
    }
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_session_is_required_a_call_without_one_is_an_error_that_says_so() {
    let rig = sessions("", &[("GREENROOM_ADDRESSING", "session")]);
    for address in [json!({}), json!({ "sessionId": null }), json!({ "sessionId": "" })] {
        let failure = rig.failure("pid", address).await;
        assert!(matches!(failure, CallFailure::Address(AddressError::SessionMissing)), "{failure}");
    }
    assert!(rig.listed().await.is_empty());
    rig.pid_in("one").await;
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_session_is_required_the_schemas_are_those_of_the_specification() {
    let rig = sessions("", &[("GREENROOM_ADDRESSING", "session")]);
    let list = rig.engine.tools().await.unwrap();
    let plain = list.iter().filter_map(|tool| Some((tool, tool.plain.as_ref()?)));
    for (tool, plain) in plain {
        let mut expected: Value = serde_json::from_str(plain.get()).unwrap();
        let schema = &mut expected["inputSchema"];
        let mut properties =
            json!({ "sessionId": { "type": "string", "description": "Session ID for isolation" } });
        let own = schema["properties"].as_object().cloned().unwrap_or_default();
        properties.as_object_mut().unwrap().extend(own);
        let mut required = vec![json!("sessionId")];
        required.extend(schema["required"].as_array().cloned().unwrap_or_default());
        (schema["properties"], schema["required"]) = (properties, required.into());
        // As text: the order counts.
        let shown: Value = serde_json::from_str(tool.raw.get()).unwrap();
        assert_eq!(shown["inputSchema"]["properties"].to_string(), schema["properties"].to_string());
        assert_eq!(shown, expected);
    }
    let own: Vec<_> =
        list.iter().filter(|tool| tool.plain.is_none()).map(|tool| tool.name.as_str()).collect();
    assert_eq!(own, ["session_list", "session_close"]);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_pools_a_call_without_a_session_gets_a_lease() {
    let rig = two_pools();
    let leased = rig.call("pid", json!({})).outcome().await.served.unwrap();
    assert_eq!((leased.instance.as_deref(), leased.session), (Some("0"), None));
    let session = rig.call("pid", json!({ "sessionId": "s" })).outcome().await.served.unwrap();
    assert_eq!((session.instance, session.session.as_deref()), (None, Some("s")));
    assert_ne!(rig.pid_in("s").await, rig.pid().await);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_lives_in_the_pool_that_its_first_call_named() {
    let rig = two_pools();
    let pool = async |address: Value| rig.call("pid", address).outcome().await.served.unwrap().pool;
    assert_eq!(pool(json!({ "sessionId": "s", "browser_pool": "SIDE" })).await, "SIDE");
    assert_eq!(pool(json!({ "sessionId": "s" })).await, "SIDE", "no need to say it again");
    assert_eq!(pool(json!({ "sessionId": "s", "browser_pool": "SIDE" })).await, "SIDE");
    let failure = rig.failure("pid", json!({ "sessionId": "s", "browser_pool": "MAIN" })).await;
    assert_eq!(
        failure.to_string(),
        "Session `s` lives in pool SIDE, not in MAIN. Leave out browser_pool, or use another name."
    );
    // The tools of a session are those of its pool.
    rig.text("env", json!({ "name": "PATH", "sessionId": "s" })).await;
    let failure = rig.failure("env", json!({ "name": "PATH", "sessionId": "elsewhere" })).await;
    assert!(matches!(failure, CallFailure::UnknownTool { .. }), "{failure}");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_and_an_instance_contradict_one_another() {
    let rig = two_pools();
    let failure = rig.failure("pid", json!({ "sessionId": "s", "browser_instance": "0" })).await;
    assert!(matches!(failure, CallFailure::Address(AddressError::SessionAndInstance)), "{failure}");
    let failure = rig.failure("pid", json!({ "sessionId": "s", "browser_pool": "?" })).await;
    assert!(failure.to_string().contains("The pools are: MAIN, SIDE"), "{failure}");
    assert!(rig.listed().await.is_empty(), "nothing was made for that");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_runs_on_one_session_from_beginning_to_end() {
    let rig = two_pools();
    let pid = rig.pid_in("s").await;
    let commands =
        json!([{ "tool": "pid", "return_result": true }, { "tool": "pid", "return_result": true }]);
    let mut call = rig.call("browser_execute_bulk", json!({ "sessionId": "s", "commands": commands }));
    let outcome = call.outcome().await;
    assert_eq!(outcome.served.as_ref().and_then(|served| served.session.as_deref()), Some("s"));
    let report = super::result(outcome)["structuredContent"].take();
    for step in [0, 1] {
        assert_eq!(report["results"][step]["content"][0]["text"], pid.to_string(), "{report}");
    }
    let inside = json!([{ "tool": "pid", "args": { "sessionId": "other" } }]);
    let failure = rig.failure("browser_execute_bulk", json!({ "commands": inside })).await;
    assert!(failure.to_string().contains("`sessionId` stands beside `commands`"), "{failure}");
    rig.close("s").await;
    let again = rig.call("browser_execute_bulk", json!({ "sessionId": "s", "commands": commands }));
    assert!(notice(again).await.is_some_and(|text| text.contains("closed")));
    rig.engine.shutdown().await;
}
