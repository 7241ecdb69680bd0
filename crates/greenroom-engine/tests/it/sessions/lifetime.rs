//! How long sessions live, and what is left of them.

use std::time::Duration;

use greenroom_engine::Caller;
use greenroom_testkit::{Holdings, process_alive, send_signal};
use serde_json::json;

use super::{notice, sessions, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_when_it_was_idle_too_long_and_the_next_call_is_told() {
    let rig = sessions("", &[("GREENROOM_SESSION_IDLE_TIMEOUT", "200")]);
    let pid = rig.pid_in("one").await;
    until("it to end", || rig.engine.sessions(&Caller::local()).is_empty() && !process_alive(pid)).await;
    until("its folder to go", || rig.folders().is_empty()).await;
    let said = notice(rig.call("pid", json!({ "sessionId": "one" }))).await.unwrap();
    assert_eq!(
        said,
        "The session `one` had ended: it was idle for 0.2 s. This is a fresh one: nothing is open in it."
    );
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_flight_keeps_its_session() {
    let rig = sessions("", &[("GREENROOM_SESSION_IDLE_TIMEOUT", "300")]);
    let mut busy = rig.hanging("busy").await;
    // The others are idle for longer than their time, one after another, while the call goes on.
    for round in 0..3 {
        let pid = rig.pid_in(&format!("idle {round}")).await;
        until("the idle one to end", || !process_alive(pid)).await;
    }
    let listed = rig.listed().await;
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &json!("busy")), "{listed:?}");
    busy.cancel();
    busy.outcome().await.result.unwrap_err();
    until("it to end, too", || rig.engine.sessions(&Caller::local()).is_empty()).await;
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_idle_time_a_session_stays() {
    let rig = sessions("", &[("GREENROOM_SESSION_IDLE_TIMEOUT", "200")]);
    rig.own("create_new_session", json!({ "sessionId": "for ever", "idle_timeout": 0 })).await;
    let pid = rig.pid_in("for ever").await;
    let other = rig.pid_in("for a while").await;
    until("the other to end", || !process_alive(other)).await;
    assert_eq!(rig.pid_in("for ever").await, pid);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutting_down_ends_every_process() {
    let rig = sessions("--spawn-child", &[]);
    let mut pids = Vec::new();
    for n in 0..5 {
        pids.push(rig.pid_in(&n.to_string()).await);
        pids.push(rig.of_session("child_pid", &n.to_string()).await.parse().unwrap());
    }
    let mut busy = rig.hanging("0").await;
    rig.engine.shutdown().await;
    busy.outcome().await.result.unwrap_err();
    assert!(!pids.iter().any(|pid| process_alive(*pid)));
    assert!(rig.folders().is_empty(), "{:?}", rig.folders());
}

#[tokio::test(flavor = "multi_thread")]
async fn shutting_down_does_not_wait_for_a_session_that_is_being_made() {
    let rig = sessions("--hang-on-initialize", &[("GREENROOM_START_TIMEOUT", "600000")]);
    let mut call = rig.call("echo", json!({ "text": "x", "sessionId": "one" }));
    until("its process", || !rig.folders().is_empty()).await;
    rig.engine.shutdown().await;
    call.outcome().await.result.unwrap_err();
    assert!(rig.folders().is_empty(), "{:?}", rig.folders());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_that_nobody_waits_for_leaves_nothing() {
    let rig = sessions("--hang-on-initialize", &[("GREENROOM_START_TIMEOUT", "600000")]);
    let mut call = rig.call("echo", json!({ "text": "x", "sessionId": "one" }));
    until("its folder", || !rig.folders().is_empty()).await;
    call.cancel();
    call.outcome().await.result.unwrap_err();
    until("the folder to go", || rig.folders().is_empty()).await;
    until("the session to go", || rig.engine.sessions(&Caller::local()).is_empty()).await;
    rig.engine.shutdown().await;
}

fn holdings() -> Holdings {
    Holdings::now(tokio::runtime::Handle::current().metrics().num_alive_tasks())
}

/// Made, used, and then closed, killed, crashed or left to itself, in turns.
async fn one_life(rig: &crate::Rig, round: usize) {
    let name = format!("session {round}");
    let pid = rig.pid_in(&name).await;
    match round % 4 {
        0 => {}
        1 => {
            assert!(send_signal(pid, "KILL"));
        }
        2 => {
            rig.failure("crash", json!({ "sessionId": name })).await;
        }
        _ => {
            // Closed in the middle of a call whose caller has left.
            drop(rig.call("hang", json!({ "sessionId": name })));
        }
    }
    rig.close(&name).await;
    until("its process to be gone", || !process_alive(pid)).await;
}

/// In a process of its own, since the other tests of this one hold things too.
#[test]
fn five_hundred_sessions_leave_nothing() {
    const INSIDE: &str = "GREENROOM_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_none() {
        let name = "sessions::lifetime::five_hundred_sessions_leave_nothing";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture", "--test-threads", "1"])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        // The record opens files when somebody first reads it, which is not what is counted here.
        let rig = sessions("--spawn-child", &[("GREENROOM_HISTORY", "false")]);
        for round in 0..8 {
            one_life(&rig, round).await;
        }
        let before = holdings();
        for round in 0..500 {
            one_life(&rig, round).await;
        }
        let settled = || {
            let now = holdings();
            now.fds <= before.fds
                && now.threads <= before.threads
                && now.tasks <= before.tasks
                && now.children == 0
        };
        until(&format!("everything to be as before ({before:?})"), settled).await;
        assert!(rig.listed().await.is_empty());
        assert!(rig.folders().is_empty(), "{:?}", rig.folders());
        let tmp = std::fs::read_dir(rig.cache.path().join("run")).unwrap().flatten().next().unwrap().path();
        let left: Vec<_> = std::fs::read_dir(tmp.join("tmp")).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        tokio::time::timeout(Duration::from_secs(60), rig.engine.shutdown()).await.unwrap();
    });
}
