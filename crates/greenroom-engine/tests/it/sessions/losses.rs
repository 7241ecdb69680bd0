//! Browsers that are lost, and what the next reply says of it.

use greenroom_engine::{CallError, CallFailure};
use greenroom_testkit::{process_alive, send_signal};
use serde_json::json;

use super::{notice, sessions, until};
use crate::Rig;

/// The next call of a session speaks of its end, and the one after does not.
async fn says_once(rig: &Rig, session: &str, what: &str) {
    let said =
        notice(rig.call("pid", json!({ "sessionId": session }))).await.expect("a word on what was lost");
    assert!(said.contains(what) && said.contains(&format!("`{session}`")), "{said}");
    assert!(said.ends_with("This is a fresh one: nothing is open in it."), "{said}");
    assert_eq!(notice(rig.call("pid", json!({ "sessionId": session }))).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_session_has_nothing_to_say() {
    let rig = sessions("", &[]);
    assert_eq!(notice(rig.call("pid", json!({ "sessionId": "new" }))).await, None);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_in_the_middle_of_a_call_is_said_at_once_and_the_next_call_has_a_fresh_browser() {
    let rig = sessions("", &[]);
    let (before, other) = (rig.pid_in("one").await, rig.pid_in("other").await);
    let crash = json!({ "code": 3, "stderr": "out of cheese", "sessionId": "one" });
    let failure = rig.failure("crash", crash).await;
    assert!(matches!(failure, CallFailure::Upstream(CallError::Ended(_))), "{failure}");
    assert!(failure.to_string().contains("out of cheese"), "{failure}");
    assert_eq!(rig.listed().await[0]["state"], "lost");
    says_once(&rig, "one", "exited with code 3").await;
    assert_ne!(rig.pid_in("one").await, before);
    assert_eq!(rig.pid_in("other").await, other, "nobody has touched the other");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_dies_while_nobody_looks_is_replaced_by_the_next_call() {
    let rig = sessions("", &[]);
    let mut pid = rig.pid_in("one").await;
    for _ in 0..2 {
        assert!(send_signal(pid, "KILL"));
        until("its end to be known", || {
            rig.engine.sessions(&greenroom_engine::Caller::local())[0].state == "lost"
        })
        .await;
        says_once(&rig, "one", "SIGKILL").await;
        pid = rig.pid_in("one").await;
    }
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_wait_behind_a_crash_are_served_by_the_fresh_browser() {
    let rig = sessions("", &[]);
    let before = rig.pid_in("one").await;
    let mut crash = rig.call("crash", json!({ "sessionId": "one" }));
    let waiting: Vec<_> = (0..5).map(|_| rig.call("pid", json!({ "sessionId": "one" }))).collect();
    crash.outcome().await.result.unwrap_err();
    let mut notices = 0;
    for mut call in waiting {
        let outcome = call.outcome().await;
        notices += usize::from(outcome.served.as_ref().is_some_and(|served| served.notice.is_some()));
        assert_ne!(super::result(outcome)["content"][0]["text"], before.to_string());
    }
    assert_eq!(notices, 1);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_a_session_ends_its_process_and_the_next_call_is_told() {
    let rig = sessions("", &[]);
    let before = rig.pid_in("one").await;
    rig.close("one").await;
    assert!(!process_alive(before));
    assert!(rig.listed().await.is_empty());
    says_once(&rig, "one", "it was closed by its owner").await;
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_a_session_ends_the_calls_that_run_and_wait_there() {
    let rig = sessions("", &[]);
    let mut running = rig.hanging("one").await;
    let mut waiting = rig.call("pid", json!({ "sessionId": "one" }));
    rig.close("one").await;
    running.outcome().await.result.unwrap_err();
    let failure = waiting.outcome().await.result.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "The session `one` was closed: it was closed by its owner. The next call with that name makes a new one."
    );
    rig.pid_in("one").await;
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_that_failed_is_not_remembered_and_the_next_call_tries_again() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("starts");
    let rig = sessions(&format!("--stderr no-display --crash-first 2 {}", marker.display()), &[]);
    for _ in 0..2 {
        let failure = rig.failure("echo", json!({ "text": "x", "sessionId": "one" })).await;
        assert!(matches!(failure, CallFailure::NoSeat(_)), "{failure}");
        assert!(failure.to_string().contains("no-display"), "{failure}");
        assert!(rig.listed().await.is_empty());
        assert!(rig.folders().is_empty(), "{:?}", rig.folders());
    }
    assert_eq!(notice(rig.call("echo", json!({ "text": "again", "sessionId": "one" }))).await, None);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_is_said_also_when_the_first_fresh_browser_could_not_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("server");
    std::os::unix::fs::symlink(greenroom_testkit::fake_upstream(), &program).unwrap();
    let rig = Rig::with(
        &program.display().to_string(),
        greenroom_upstream::driver::Overlap::InTurn,
        &[("GREENROOM_SESSION_ISOLATION", "process")],
    );
    rig.pid_in("one").await;
    std::fs::remove_file(&program).unwrap();
    rig.failure("crash", json!({ "sessionId": "one" })).await;
    assert!(matches!(rig.failure("pid", json!({ "sessionId": "one" })).await, CallFailure::NoSeat(_)));
    assert!(rig.listed().await.is_empty());
    std::os::unix::fs::symlink(greenroom_testkit::fake_upstream(), &program).unwrap();
    says_once(&rig, "one", "was lost").await;
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_over_its_deadline_is_told_so_and_the_session_works_on() {
    let rig = sessions("--ignore-cancel", &[("GREENROOM_CALL_TIMEOUT", "3000")]);
    rig.pid_in("one").await;
    let failure = rig.failure("hang", json!({ "sessionId": "one" })).await;
    assert!(matches!(failure, CallFailure::TimedOut { .. }), "{failure}");
    let mut last = None;
    for _ in 0..20 {
        last = rig.call("pid", json!({ "sessionId": "one" })).outcome().await.result.err();
        if last.is_none() {
            break;
        }
    }
    assert!(last.is_none(), "{last:?}");
    rig.engine.shutdown().await;
}
