//! Tools that take their time, and cancelling them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::start::{A_MOMENT, initialized};

#[test]
fn sleep_answers_after_its_time() {
    let mut fake = initialized(&[]);
    let started = Instant::now();
    assert_eq!(fake.call_tool_text("sleep", json!({ "ms": 60 })), "slept 60 ms");
    assert!(started.elapsed() >= Duration::from_millis(60));
}

#[test]
fn progress_is_reported_only_with_a_token() {
    let mut fake = initialized(&[]);
    let call = |meta: Value| json!({ "name": "progress", "arguments": { "steps": 3, "delay_ms": 5 }, "_meta": meta });
    fake.request("tools/call", call(json!({})));
    assert!(fake.notifications().is_empty());
    fake.request("tools/call", call(json!({ "progressToken": "p-1" })));
    let reported = fake.notifications();
    let steps: Vec<_> =
        reported.iter().map(|message| message["params"]["progress"].as_u64().unwrap()).collect();
    assert_eq!(steps, [1, 2, 3]);
    assert_eq!(reported[0]["method"], "notifications/progress");
    assert_eq!(reported[0]["params"]["progressToken"], "p-1");
    assert_eq!(reported[0]["params"]["total"], 3);
}

#[test]
fn a_hanging_call_does_not_hold_up_others() {
    let mut fake = initialized(&[]);
    let hanging = fake.send_request("tools/call", json!({ "name": "hang" }));
    assert_eq!(fake.call_tool_text("echo", json!({ "text": "still here" })), "still here");
    assert!(fake.response_within(hanging, A_MOMENT).is_err());
}

#[test]
fn a_cancelled_call_is_never_answered() {
    let mut fake = initialized(&[]);
    let sleeping = fake.send_request(
        "tools/call",
        json!({ "name": "slow_call_order", "arguments": { "label": "a", "ms": 60_000 } }),
    );
    fake.notify("notifications/cancelled", json!({ "requestId": sleeping }));
    greenroom_testkit::wait_until("the call to stop", Duration::from_secs(5), || {
        fake.call_tool_text("order_log", json!({})) == r#"["start a","cancelled a"]"#
    });
    assert!(fake.response_within(sleeping, A_MOMENT).is_err());
}

#[test]
fn a_cancelled_call_is_answered_all_the_same_if_told_so() {
    let mut fake = initialized(&["--ignore-cancel"]);
    let sleeping = fake.send_request("tools/call", json!({ "name": "sleep", "arguments": { "ms": 50 } }));
    fake.notify("notifications/cancelled", json!({ "requestId": sleeping }));
    assert_eq!(fake.wait_for_response(sleeping)["result"]["content"][0]["text"], "slept 50 ms");
}

#[test]
fn the_log_shows_whether_calls_overlap() {
    let mut fake = initialized(&[]);
    let mut start = |label: &str, ms: u64| {
        fake.send_request(
            "tools/call",
            json!({ "name": "slow_call_order", "arguments": { "label": label, "ms": ms } }),
        )
    };
    let (long, short) = (start("long", 250), start("short", 1));
    fake.wait_for_response(long);
    fake.wait_for_response(short);
    let log = fake.call_tool_text("order_log", json!({}));
    assert_eq!(log, r#"["start long","start short","end short","end long"]"#);
}

#[test]
fn late_holds_back_every_answer() {
    let mut fake = initialized(&["--late", "50"]);
    let started = Instant::now();
    fake.call_tool("echo", json!({ "text": "late" }));
    assert!(started.elapsed() >= Duration::from_millis(50));
}
