//! Pools that start late, grow, shrink and stop.

use std::time::Duration;

use greenroom_engine::{CallFailure, Health};
use greenroom_testkit::{process_alive, wait_until};
use serde_json::json;

use super::{LIMIT, main_pool, pools, served};

#[tokio::test(flavor = "multi_thread")]
async fn a_lazy_pool_starts_an_instance_with_the_first_call_and_another_when_that_is_busy() {
    let rig = pools("", &["_MAIN_INSTANCES=3", "_MAIN_IS_DEFAULT=true", "_MAIN_START=lazy"]);
    let states = || -> Vec<_> {
        rig.pool("MAIN").instances.into_iter().map(|i| (i.status, i.process_id.is_some())).collect()
    };
    assert_eq!(states(), [(Health::Starting, false); 3]);
    assert_eq!(rig.pool("MAIN").available_instances, 0);
    assert_eq!(served(rig.call("pid", json!({}))).await, "0");
    assert_eq!(served(rig.call("pid", json!({}))).await, "0", "one is enough for one call after another");
    assert_eq!(states(), [(Health::Healthy, true), (Health::Starting, false), (Health::Starting, false)]);
    let busy = rig.occupied(0).await;
    assert_eq!(served(rig.call("pid", json!({}))).await, "1");
    assert_eq!(states(), [(Health::Healthy, true), (Health::Healthy, true), (Health::Starting, false)]);
    assert_eq!(served(rig.call("pid", json!({ "browser_instance": "2" }))).await, "2");
    busy.end().await;
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_is_started_before_anybody_asks() {
    let rig = main_pool(3, &[]);
    let pids: Vec<_> =
        rig.pool("MAIN").instances.iter().map(|instance| instance.process_id.unwrap()).collect();
    assert!(pids.iter().all(|pid| process_alive(*pid)));
    rig.engine.shutdown().await;
    assert!(!pids.iter().any(|pid| process_alive(*pid)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_is_to_go_finishes_its_call_and_is_not_handed_out_any_more() {
    let rig = main_pool(2, &["_MAIN__1_ALIAS=second"]);
    let (stays, goes) = (rig.pid_of(0).await, rig.pid_of(1).await);
    let mut last = rig.occupied(1).await;
    let named = rig.call("pid", json!({ "browser_instance": "second" }));
    let scaled = rig.engine.scale("MAIN", 1).unwrap().unwrap();
    assert_eq!(
        (scaled.instances, scaled.added.as_slice(), scaled.draining.as_slice()),
        (1, &[][..], &[1][..])
    );
    // Who waits for it, and who asks for it now, hears that it goes.
    let mut named = named;
    let failure = named.outcome().await.result.unwrap_err();
    assert!(matches!(failure, CallFailure::InstanceLeaving { .. }), "{failure}");
    let failure = rig.failure("pid", json!({ "browser_instance": 1 })).await;
    assert_eq!(failure.to_string(), "Instance 1 of pool 'MAIN' is being removed. Use another.");
    for _ in 0..5 {
        assert_eq!(served(rig.call("pid", json!({}))).await, "0");
    }
    assert!(process_alive(goes) && !last.has_ended(), "its call goes on");
    assert_eq!(last.end().await.as_deref(), Some("1"));
    wait_until("its process to be gone", LIMIT, || !process_alive(goes));
    assert_eq!(rig.pool("MAIN").total_instances, 1);
    let failure = rig.failure("pid", json!({ "browser_instance": 1 })).await;
    assert!(matches!(failure, CallFailure::UnknownInstance { .. }), "{failure}");

    let scaled = rig.engine.scale("MAIN", 3).unwrap().unwrap();
    assert_eq!((scaled.added.as_slice(), scaled.draining.as_slice()), (&[1, 2][..], &[][..]));
    rig.wait_for_healthy("MAIN", 3);
    assert_ne!(rig.pid_of(1).await, goes);
    assert_eq!(
        served(rig.call("pid", json!({ "browser_instance": "second" }))).await,
        "1",
        "configured as before"
    );
    assert_eq!(rig.pid_of(0).await, stays);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_served_by_an_instance_that_is_added() {
    for start in ["eager", "lazy"] {
        let rig = pools("", &["_MAIN_INSTANCES=1", "_MAIN_IS_DEFAULT=true", &format!("START={start}")]);
        let busy = rig.occupied(0).await;
        let waiting = rig.call("pid", json!({}));
        rig.engine.scale("MAIN", 2).unwrap().unwrap();
        assert_eq!(served(waiting).await, "1", "{start}");
        busy.end().await;
        rig.engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_one_drains_a_pool_can_grow_again() {
    let rig = main_pool(2, &[]);
    let mut busy = rig.occupied(1).await;
    rig.engine.scale("MAIN", 1).unwrap().unwrap();
    let scaled = rig.engine.scale("MAIN", 2).unwrap().unwrap();
    assert_eq!(scaled.added, [2], "the number of the one that drains is not given away");
    assert_eq!(served(rig.call("pid", json!({ "browser_instance": 2 }))).await, "2");
    assert!(!busy.has_ended());
    busy.end().await;
    wait_until("the old one to be gone", LIMIT, || rig.pool("MAIN").total_instances == 2);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scaling_from_many_places_at_once_ends_with_one_of_the_sizes_asked_for() {
    let rig = pools("", &["_MAIN_INSTANCES=1", "_MAIN_IS_DEFAULT=true", "START=lazy"]);
    for _ in 0..200 {
        let scale = |count: usize| {
            let engine = rig.engine.clone();
            tokio::spawn(async move { engine.scale("MAIN", count).unwrap().unwrap() })
        };
        futures::future::join_all([20, 1, 20, 1, 20, 1].map(scale)).await;
        let size = rig.pool("MAIN").total_instances;
        assert!([1, 20].contains(&size), "{size}");
    }
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_lets_leases_finish_and_everybody_else_hears_of_it() {
    let rig = main_pool(1, &[]);
    let mut last = rig.watched("progress", json!({ "steps": 400, "delay_ms": 5 }));
    last.begun().await;
    let mut waiting = rig.call("pid", json!({}));
    let engine = rig.engine.clone();
    let stopping = tokio::spawn(async move { engine.shutdown().await });
    let failure = waiting.outcome().await.result.unwrap_err();
    assert!(matches!(failure, CallFailure::ShuttingDown), "{failure}");
    assert!(failure.to_string().contains("shutting down"));
    for (tool, arguments) in [
        ("pid", json!({})),
        ("browser_execute_bulk", json!({ "commands": [{ "tool": "pid" }] })),
        ("pid", json!({ "browser_instance": 0 })),
    ] {
        assert!(matches!(rig.failure(tool, arguments).await, CallFailure::ShuttingDown));
    }
    last.handle.outcome().await.result.unwrap();
    stopping.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_longer_than_it_may() {
    let rig = main_pool(1, &["DRAIN_TIMEOUT=100"]);
    let pid = rig.pid_of(0).await;
    let endless = rig.occupied(0).await;
    tokio::time::timeout(Duration::from_secs(30), rig.engine.shutdown()).await.expect("it stops");
    assert!(!process_alive(pid));
    endless.failure().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_a_script_after_the_step_it_is_at() {
    let rig = main_pool(1, &[]);
    let step = json!({ "tool": "slow_call_order", "args": { "label": "s", "ms": 300 } });
    let bulk = json!({ "commands": vec![step; 50] });
    let mut script = rig.watched("browser_execute_bulk", bulk);
    while !script.reports.recv().await.unwrap().message.unwrap().starts_with("1 of 50") {}
    rig.engine.shutdown().await;
    let result = super::result(script.handle.outcome().await);
    let report = &result["structuredContent"];
    assert_eq!(report["success"], false);
    let errors = report["errors"].as_array().unwrap();
    assert!(
        errors.len() < 50 && errors.last().unwrap().as_str().unwrap().contains("shutting down"),
        "{report}"
    );
}
