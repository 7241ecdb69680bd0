//! Waiting has bounds, and whoever waits is told how it goes.

use std::time::{Duration, Instant};

use greenroom_engine::{CallFailure, Progress};
use greenroom_testkit::wait_until;
use serde_json::json;

use super::{LIMIT, is_upstreams, main_pool};

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_too_long_hears_for_what_how_long_and_behind_how_many() {
    let rig = main_pool(1, &["LEASE_TIMEOUT=150"]);
    let busy = rig.occupied(0).await;
    let begun = Instant::now();
    let failure = rig.failure("pid", json!({})).await;
    assert!(begun.elapsed() >= Duration::from_millis(150));
    let CallFailure::NoLease { waited, waiting, limit, .. } = &failure else { panic!("{failure}") };
    assert!(*waited >= Duration::from_millis(150));
    assert_eq!((*waiting, *limit), (1, "LEASE_TIMEOUT"), "only it waited");
    let text = failure.to_string();
    for part in [
        "Timeout waiting for lease: a browser of pool 'MAIN' did not become free within ",
        "(LEASE_TIMEOUT)",
        "1 in use",
        "calls waiting: 1",
        "raise LEASE_TIMEOUT",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let text = rig.failure("pid", json!({ "browser_instance": 0 })).await.to_string();
    assert!(text.contains("instance 0 of pool 'MAIN' did not become free"), "{text}");
    assert_eq!(rig.pool("MAIN").waiting, 0, "who gave up does not wait");
    busy.end().await;
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_of_a_call_bounds_its_waiting_too() {
    let rig = main_pool(1, &["CALL_TIMEOUT=150", "_MAIN__0_CALL_TIMEOUT=0"]);
    let busy = rig.occupied(0).await;
    let text = rig.failure("pid", json!({})).await.to_string();
    assert!(text.contains("(CALL_TIMEOUT)") && text.contains("was not started"), "{text}");
    busy.end().await;
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_at_once_and_a_cancelled_wait_frees_its_place() {
    let rig = main_pool(1, &["_MAIN_MAX_QUEUE=1"]);
    let busy = rig.occupied(0).await;
    let first = rig.endless(json!({}));
    let failure = rig.failure("pid", json!({})).await;
    assert!(matches!(failure, CallFailure::QueueFull { waiting: 1, .. }), "{failure}");
    let text = failure.to_string();
    assert!(
        text.contains("The queue of pool 'MAIN' is full: calls waiting: 1") && text.contains("MAX_QUEUE"),
        "{text}"
    );
    assert_eq!(first.end().await, None);
    rig.wait_for_queue(0);
    let mut second = rig.endless(json!({}));
    assert_eq!(rig.pool("MAIN").waiting, 1, "there is a place again");
    rig.failure("pid", json!({})).await;
    busy.end().await;
    second.begun().await;
    second.end().await;
    rig.wait_for_rest();
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_told_its_position_and_reports_only_ever_grow() {
    let rig = main_pool(1, &[]);
    let busy = rig.occupied(0).await;
    let before = rig.endless(json!({}));
    let mut last = rig.watched("progress", json!({ "steps": 5, "delay_ms": 1 }));
    let mut reports = vec![last.reports.recv().await.unwrap()];
    assert_eq!(message(&reports[0]), "Waiting for a browser of pool MAIN: number 2 in line");
    before.end().await;
    reports.push(last.reports.recv().await.unwrap());
    assert_eq!(message(&reports[1]), "Waiting for a browser of pool MAIN: number 1 in line");
    busy.end().await;
    last.handle.outcome().await.result.unwrap();
    while let Some(report) = last.reports.recv().await {
        reports.push(report);
    }
    let steps: Vec<_> = reports.iter().filter(|report| is_upstreams(report)).map(message).collect();
    assert_eq!(steps, (1..=5).map(|n| format!("step {n} of 5")).collect::<Vec<_>>());
    let grows = |pair: &[Progress]| pair[0].progress < pair[1].progress;
    assert!(reports.windows(2).all(grows), "{reports:?}");
    let fits = |report: &Progress| report.total.is_none_or(|total| report.progress <= total);
    assert!(reports.iter().all(fits), "{reports:?}");
    rig.engine.shutdown().await;
}

/// What the API does: it passes on what there is when the answer has come, and nothing after that.
#[tokio::test(flavor = "multi_thread")]
async fn all_reports_of_a_call_are_there_when_its_answer_is() {
    let rig = main_pool(1, &[]);
    for round in 0..50 {
        let busy = rig.occupied(0).await;
        let mut call = rig.watched("progress", json!({ "steps": 5, "delay_ms": 0 }));
        // It has been told that it waits, so the upstream's reports come behind Greenroom's own.
        call.reports.recv().await.unwrap();
        busy.end().await;
        call.handle.outcome().await.result.unwrap();
        let mut steps = 0;
        while let Ok(report) = call.reports.try_recv() {
            steps += usize::from(is_upstreams(&report));
        }
        assert_eq!(steps, 5, "in round {round}");
    }
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_says_how_long_the_call_waited() {
    let rig = main_pool(1, &[]);
    let busy = rig.occupied(0).await;
    let mut call = rig.call("pid", json!({}));
    let begun = Instant::now();
    wait_until("some time to pass", LIMIT, || begun.elapsed() > Duration::from_millis(120));
    busy.end().await;
    let outcome = call.outcome().await;
    let served = outcome.served.unwrap();
    assert_eq!((served.pool.as_str(), served.instance.as_deref()), ("MAIN", Some("0")));
    assert!(served.waited > Duration::from_millis(120), "{served:?}");
    rig.engine.shutdown().await;
}

fn message(report: &Progress) -> &str {
    report.message.as_deref().unwrap_or_default()
}
