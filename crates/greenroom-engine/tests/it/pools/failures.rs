//! Instances that fail: who hears of it, who does not notice, and how they come back.

use greenroom_engine::{CallError, CallFailure, Health};
use greenroom_testkit::{process_alive, send_signal, wait_until};
use serde_json::json;

use super::{LIMIT, fake, main_pool, pools, served};
use crate::Rig;

/// Ends the upstream of an instance of MAIN from within.
async fn crash(rig: &Rig, instance: usize) -> String {
    let arguments = json!({ "browser_instance": instance, "code": 7, "stderr": "out of paper" });
    let failure = rig.failure("crash", arguments).await;
    assert!(matches!(failure, CallFailure::Upstream(CallError::Ended(_))), "{failure}");
    failure.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_an_instance_that_fails_hears_at_once_why_and_the_others_go_on() {
    let rig = main_pool(3, &["RESTART_MAX=0", "LEASE_TIMEOUT=0", "_MAIN__1_ALIAS=second"]);
    let other = rig.pid_of(0).await;
    let mut dying =
        rig.watched("slow_call_order", json!({ "label": "x", "ms": 3_600_000, "browser_instance": 1 }));
    let waiting: Vec<_> =
        ["1", "second"].map(|name| rig.call("pid", json!({ "browser_instance": name }))).into();
    let pid = rig.instance("MAIN", 1).process_id.unwrap();
    assert!(send_signal(pid, "KILL"));
    let failure = dying.handle.outcome().await.result.unwrap_err();
    assert!(failure.to_string().contains("SIGKILL"), "{failure}");
    for mut call in waiting {
        let failure = call.outcome().await.result.unwrap_err();
        assert!(matches!(failure, CallFailure::InstanceFailed { .. }), "{failure}");
        let text = failure.to_string();
        let head = "Instance 1 of pool 'MAIN' has failed and was given up: ";
        assert!(text.starts_with(head) && text.contains("SIGKILL"), "{text}");
        assert!(text.ends_with("`greenroom restart MAIN 1`."), "{text}");
    }
    let later = rig.failure("pid", json!({ "browser_instance": "second" })).await;
    assert!(matches!(later, CallFailure::InstanceFailed { .. }), "{later}");
    for _ in 0..10 {
        assert_ne!(served(rig.call("pid", json!({}))).await, "1");
    }
    assert_eq!(rig.pid_of(0).await, other, "nothing happened to it");
    rig.wait_for_rest();
    let pool = rig.pool("MAIN");
    assert_eq!((pool.total_instances, pool.healthy_instances, pool.available_instances), (3, 2, 2));
    let report = rig.instance("MAIN", 1);
    assert_eq!((report.status, report.process_id), (Health::Failed, None));
    assert!(report.health_check.error.unwrap().contains("SIGKILL"));
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_no_instance_left_the_pool_says_so_and_a_restart_by_hand_brings_it_back() {
    let settings = ["_MAIN_INSTANCES=2", "_MAIN_IS_DEFAULT=true", "_SIDE_INSTANCES=1", "RESTART_MAX=0"];
    let rig = pools("", &settings);
    rig.wait_for_healthy("MAIN", 2);
    rig.wait_for_healthy("SIDE", 1);
    for instance in [0, 1] {
        let text = crash(&rig, instance).await;
        assert!(text.contains("exited with code 7") && text.contains("out of paper"), "{text}");
        rig.wait_for_failed("MAIN", instance);
    }
    let text = rig.failure("pid", json!({})).await.to_string();
    let said =
        "Default pool 'MAIN' has no healthy instances. Specify explicit pool or restart failed instances.";
    assert!(text.starts_with(said), "{text}");
    assert!(text.contains("Instance 0: ") && text.contains("Instance 1: "), "with the causes: {text}");
    assert_eq!(served(rig.call("pid", json!({ "browser_pool": "SIDE" }))).await, "0");

    rig.failure("crash", json!({ "browser_pool": "SIDE" })).await;
    rig.wait_for_failed("SIDE", 0);
    let text = rig.failure("pid", json!({ "browser_pool": "SIDE" })).await.to_string();
    let said = "Pool 'SIDE' has no healthy instances. Specify explicit pool or restart failed instances.";
    assert!(text.starts_with(said), "{text}");

    rig.engine.restart("MAIN", "1", "the paper is refilled").unwrap();
    assert_eq!(served(rig.call("pid", json!({}))).await, "1", "the call waits for the start");
    assert_eq!(rig.engine.restart_pool("SIDE", "too").unwrap(), ["0"]);
    assert_eq!(served(rig.call("pid", json!({ "browser_pool": "SIDE" }))).await, "0");
    assert_eq!(rig.instance("MAIN", 0).status, Health::Failed, "nobody has restarted it");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_who_waits_for_any_hears_when_the_last_one_fails() {
    let rig = main_pool(2, &["RESTART_MAX=0", "LEASE_TIMEOUT=0"]);
    let (first, second) = (rig.occupied(0).await, rig.occupied(1).await);
    let waiting: Vec<_> = (0..5).map(|_| rig.call("pid", json!({}))).collect();
    for instance in [0, 1] {
        assert!(send_signal(rig.instance("MAIN", instance).process_id.unwrap(), "KILL"));
        rig.wait_for_failed("MAIN", instance);
    }
    for mut call in waiting {
        let failure = call.outcome().await.result.unwrap_err();
        assert!(matches!(failure, CallFailure::NoneHealthy { is_default: true, .. }), "{failure}");
    }
    assert!(first.failure().await.contains("SIGKILL"));
    assert!(second.failure().await.contains("SIGKILL"));
    rig.wait_for_rest();
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_an_instance_that_restarts_gets_the_new_one() {
    let rig = main_pool(2, &[]);
    let before = rig.pid_of(1).await;
    let other = rig.pid_of(0).await;
    crash(&rig, 1).await;
    let after = rig.pid_of(1).await;
    assert_ne!(after, before);
    assert_eq!(rig.pid_of(0).await, other);
    assert_eq!(rig.engine.restarts("MAIN", "1").unwrap(), 1);
    assert_eq!(rig.engine.restarts("MAIN", "0").unwrap(), 0);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_by_hand_replaces_a_healthy_instance_and_ends_its_call() {
    let rig = main_pool(2, &["_MAIN__0_ALIAS=first"]);
    let (before, other) = (rig.pid_of(0).await, rig.pid_of(1).await);
    let busy = rig.occupied(0).await;
    rig.engine.restart("MAIN", "first", "a fresh start").unwrap();
    busy.failure().await;
    assert_ne!(rig.pid_of(0).await, before);
    assert!(!process_alive(before));
    assert_eq!(rig.pid_of(1).await, other);
    assert!(rig.engine.restart("MAIN", "third", "x").unwrap_err().to_string().contains("0 (first), 1"));
    assert!(rig.engine.restart("NONE", "0", "x").unwrap_err().to_string().contains("MAIN"));
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_does_not_come_up_leaves_calls_to_the_others() {
    let hanging = format!("_MAIN__0_UPSTREAM_COMMAND={}", fake("--hang-on-initialize"));
    let rig = pools("", &["_MAIN_INSTANCES=2", "_MAIN_IS_DEFAULT=true", &hanging]);
    assert_eq!(served(rig.call("pid", json!({}))).await, "1");
    assert_eq!(rig.instance("MAIN", 0).status, Health::Starting);
    rig.wait_for_rest();
    assert_eq!(rig.pool("MAIN").available_instances, 1);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_are_known_as_soon_as_one_instance_of_a_kind_has_listed_them() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("hangs");
    let flags = format!("--hang-once {}", marker.display());
    let rig = pools(&flags, &["_MAIN_INSTANCES=2", "_MAIN_IS_DEFAULT=true", "START=lazy"]);
    let engine = rig.engine.clone();
    let asking = tokio::spawn(async move { engine.tools().await });
    // The first that is asked hangs.
    wait_until("the first to be started", LIMIT, || marker.exists());
    assert_eq!(served(rig.call("pid", json!({ "browser_instance": 1 }))).await, "1");
    let list = tokio::time::timeout(LIMIT, asking).await.expect("it does not wait for the other");
    assert!(list.unwrap().unwrap().find("pid").is_some());
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_instance_is_taken_out_and_replaced_while_the_others_serve() {
    // Only the one that will hang has little time to answer.
    let settings =
        ["INTERVAL=100", "TIMEOUT=500", "FAILURES=2"].map(|key| format!("_MAIN__0_HEALTH_CHECK_{key}"));
    let settings: Vec<_> = settings.iter().map(String::as_str).chain(["LEASE_TIMEOUT=0"]).collect();
    let rig = main_pool(2, &settings);
    let (hung, other) = (rig.pid_of(0).await, rig.pid_of(1).await);
    assert!(send_signal(hung, "STOP"));
    wait_until("the status to show it", LIMIT, || {
        let instance = rig.instance("MAIN", 0);
        !instance.health_check.responsive && instance.health_check.error.is_some()
    });
    let mut waiting = rig.call("pid", json!({ "browser_instance": 0 }));
    for _ in 0..10 {
        assert_eq!(served(rig.call("pid", json!({ "browser_instance": 1 }))).await, "1");
    }
    waiting.outcome().await.result.unwrap();
    rig.wait_for_healthy("MAIN", 2);
    assert_ne!(rig.pid_of(0).await, hung);
    assert_eq!(rig.pid_of(1).await, other);
    assert!(!process_alive(hung));
    rig.engine.shutdown().await;
}
