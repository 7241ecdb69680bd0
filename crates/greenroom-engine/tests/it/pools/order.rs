//! First come, first served; one call at a time on one instance.

use serde_json::json;

use super::{Watched, main_pool, served};
use crate::Rig;

/// Fifty callers wait behind two busy instances, and `leave` says which of them go before their turn. Each time one
/// instance is freed, the first who is left gets it, and nobody else gets anything.
async fn serve_fifty(leave: impl Fn(usize) -> bool) {
    let rig = main_pool(2, &[]);
    let mut busy = vec![("0".to_owned(), rig.occupied(0).await), ("1".to_owned(), rig.occupied(1).await)];
    let mut callers: Vec<(usize, Watched)> = (0..50).map(|n| (n, rig.endless(json!({})))).collect();
    assert_eq!(rig.pool("MAIN").waiting, 50, "they are in line when their call is made");
    let mut waiting = Vec::new();
    for (n, caller) in callers.drain(..) {
        if leave(n) {
            assert_eq!(caller.end().await, None, "it leaves without having had anything");
        } else {
            waiting.push((n, caller));
        }
    }
    rig.wait_for_queue(waiting.len());
    let mut waiting = std::collections::VecDeque::from(waiting);
    while let Some((n, mut next)) = waiting.pop_front() {
        // The two take turns in becoming free, so each is freed while the other is at work.
        let (instance, holder) = busy.remove(0);
        assert_eq!(holder.end().await.as_ref(), Some(&instance));
        next.begun().await;
        for (later, caller) in &mut waiting {
            assert!(!caller.has_begun(), "{later} came after {n} and began before its turn");
        }
        assert_eq!(rig.pool("MAIN").waiting, waiting.len());
        busy.push((instance, next));
    }
    for (instance, holder) in busy {
        assert_eq!(holder.end().await, Some(instance));
    }
    rig.wait_for_rest();
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_callers_on_two_instances_are_served_strictly_in_the_order_of_arrival() {
    serve_fifty(|_| false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_twenty_of_fifty_leave_the_others_keep_their_order() {
    serve_fifty(|n| matches!(n % 5, 1 | 3)).await;
}

/// What the upstream has noted: starts and ends, in order.
async fn log(rig: &Rig, instance: usize) -> Vec<String> {
    let log = rig.text("order_log", json!({ "browser_instance": instance })).await;
    serde_json::from_str(&log).unwrap()
}

/// Every call has ended before the next began, and they began in the order of their numbers. Returns the numbers.
fn numbers_in_turn(log: &[String]) -> Vec<usize> {
    let numbers: Vec<usize> = log
        .chunks(2)
        .map(|pair| {
            let begun = pair[0].strip_prefix("start ").expect("a call begins after the one before has ended");
            assert_eq!(pair[1], format!("end {begun}"), "{log:?}");
            begun.parse().unwrap()
        })
        .collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    numbers
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_on_one_instance_never_overlap_and_nothing_is_left_behind() {
    let rig = main_pool(2, &[]);
    assert_ne!(rig.pid_of(0).await, rig.pid_of(1).await);
    let noted = |n: usize| rig.call("slow_call_order", json!({ "label": n.to_string(), "ms": 2 }));
    for mut call in (0..50).map(noted).collect::<Vec<_>>() {
        call.outcome().await.result.unwrap();
    }
    rig.wait_for_rest();
    let mut numbers = numbers_in_turn(&log(&rig, 0).await);
    assert!(!numbers.is_empty() && numbers.len() < 50, "both have worked");
    numbers.extend(numbers_in_turn(&log(&rig, 1).await));
    numbers.sort_unstable();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_one_whether_it_is_called_by_number_or_by_alias() {
    let rig = main_pool(2, &["_MAIN__1_ALIAS=main_browser"]);
    let noted = |n: usize| {
        let name = if n.is_multiple_of(2) { "1" } else { "main_browser" };
        let arguments = json!({ "label": n.to_string(), "ms": 2, "browser_instance": name });
        rig.call("slow_call_order", arguments)
    };
    for call in (0..20).map(noted).collect::<Vec<_>>() {
        assert_eq!(served(call).await, "1");
    }
    assert_eq!(numbers_in_turn(&log(&rig, 1).await), (0..20).collect::<Vec<_>>());
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_busy_instance_does_not_hold_up_others() {
    let rig = main_pool(2, &[]);
    let busy = rig.occupied(0).await;
    let mut patient = rig.endless(json!({ "browser_instance": "0" }));
    for _ in 0..10 {
        assert_eq!(served(rig.call("echo", json!({ "text": "x" }))).await, "1");
    }
    assert!(!patient.has_begun());
    assert_eq!(rig.pool("MAIN").waiting, 1);
    busy.end().await;
    patient.begun().await;
    assert_eq!(patient.end().await.as_deref(), Some("0"));
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_free_instances_the_one_that_was_returned_first_is_taken() {
    let rig = main_pool(3, &[]);
    for instance in [2, 0, 1] {
        rig.pid_of(instance).await;
    }
    for expected in ["2", "0", "1", "2", "0", "1"] {
        assert_eq!(served(rig.call("pid", json!({}))).await, expected);
    }
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_calls_again_at_once_does_not_find_the_instance_taken_by_themselves() {
    let rig = main_pool(1, &["_MAIN_MAX_QUEUE=1"]);
    let bulk = json!({ "commands": [{ "tool": "pid" }] });
    for (tool, arguments) in
        [("pid", json!({})), ("browser_execute_bulk", bulk), ("fail", json!({ "message": "x" }))]
    {
        for _ in 0..100 {
            rig.result(tool, arguments.clone()).await;
            assert!(!rig.instance("MAIN", 0).leased, "after {tool}");
        }
    }
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_holds_its_instance_until_the_upstream_has_answered() {
    let rig = main_pool(1, &[]);
    let mut leaving = rig.watched("progress", json!({ "steps": 40, "delay_ms": 5 }));
    leaving.begun().await;
    let Watched { handle, mut reports } = leaving;
    drop(handle);
    rig.text("pid", json!({})).await;
    // Whoever comes next was served when the last step had been reported, and not before.
    let mut steps = 1;
    while reports.try_recv().is_ok() {
        steps += 1;
    }
    assert_eq!(steps, 40);
    rig.wait_for_rest();
    rig.engine.shutdown().await;
}
