//! Who makes a session's browser, and who waits for whom.

use futures::future::join_all;
use serde_json::json;

use super::sessions;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_made_by_its_first_call_and_kept() {
    let rig = sessions("", &[]);
    rig.engine.tools().await.unwrap();
    assert!(rig.listed().await.is_empty(), "the list of tools needs no session");
    let (a, b) = (rig.pid_in("a").await, rig.pid_in("b").await);
    assert_ne!(a, b);
    assert_eq!((rig.pid_in("a").await, rig.pid_in("b").await), (a, b));
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_first_calls_of_a_session_make_one_process() {
    let rig = sessions("--late-start 50", &[]);
    let pids = join_all((0..50).map(|_| rig.pid_in("one"))).await;
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    assert_eq!(rig.listed().await.len(), 1);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_session_run_in_the_order_they_came() {
    let rig = sessions("--late-start 50", &[]);
    let calls: Vec<_> = (0..12)
        .map(|n| {
            let arguments = json!({ "label": format!("{n}"), "ms": 1, "sessionId": "one" });
            rig.call("slow_call_order", arguments)
        })
        .collect();
    for mut call in calls {
        call.outcome().await.result.unwrap();
    }
    let log: Vec<String> = serde_json::from_str(&rig.of_session("order_log", "one").await).unwrap();
    let expected: Vec<_> = (0..12).flat_map(|n| [format!("start {n}"), format!("end {n}")]).collect();
    assert_eq!(log, expected);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_do_not_wait_for_one_another() {
    let rig = sessions("", &[]);
    let mut busy = rig.hanging("busy").await;
    assert_eq!(rig.text("echo", json!({ "text": "quick", "sessionId": "free" })).await, "quick");
    busy.cancel();
    busy.outcome().await.result.unwrap_err();
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gives_up_waiting_lets_those_behind_move_up() {
    let rig = sessions("", &[]);
    let mut busy = rig.hanging("one").await;
    let mut impatient = rig.call("echo", json!({ "text": "never", "sessionId": "one" }));
    let mut behind = rig.call("echo", json!({ "text": "behind", "sessionId": "one" }));
    impatient.cancel();
    impatient.outcome().await.result.unwrap_err();
    busy.cancel();
    busy.outcome().await.result.unwrap_err();
    assert!(behind.outcome().await.result.is_ok());
    rig.engine.shutdown().await;
}
