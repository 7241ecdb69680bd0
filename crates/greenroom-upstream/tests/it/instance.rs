//! Instances: kept alive, given up, and never left behind.

use std::sync::Arc;
use std::time::Duration;

use greenroom_core::supervision::Supervision;
use greenroom_testkit::{Holdings, children_of, process_alive, send_signal};
use greenroom_upstream::instance::{InUse, State, Unavailable};
use greenroom_upstream::run_folder::{self, Run, Swept};
use greenroom_upstream::{Driver, Instance};
use serde_json::json;

use crate::room::Room;
use crate::support::{call, call_pid, eventually, fake_driver, gone, run, settings, soon};

/// Quick enough for a test, and patient enough for a busy machine.
fn brisk() -> Supervision {
    Supervision {
        check_interval: Duration::from_millis(100),
        check_timeout: Duration::from_secs(2),
        check_failures: 2,
        restart_max: 1000,
        restart_pause: Duration::from_millis(1),
        // A window this short forgives every restart, so that pauses do not grow.
        restart_window: Duration::from_millis(1),
    }
}

fn instance(flags: &[&str], supervision: Supervision) -> Instance {
    Instance::new(Arc::new(fake_driver(flags, &settings())), supervision)
}

async fn acquired(instance: &Instance) -> InUse {
    match soon("the upstream", instance.acquire()).await {
        Ok(upstream) => upstream,
        Err(unavailable) => panic!("{unavailable}"),
    }
}

async fn pid(instance: &Instance) -> u32 {
    acquired(instance).await.pid().expect("it is a process")
}

fn state(instance: &Instance) -> &'static str {
    instance.status().state.name()
}

#[tokio::test]
async fn it_starts_when_it_is_asked_for_and_goes_when_it_is_stopped() {
    let instance = instance(&[], brisk());
    assert_eq!(state(&instance), "stopped");
    let pid = pid(&instance).await;
    assert_eq!(state(&instance), "ready");
    soon("the stop", instance.stop()).await;
    assert!(!process_alive(pid));
    assert!(matches!(instance.acquire().await, Err(Unavailable::Stopping)));
}

#[tokio::test]
async fn one_that_is_killed_is_back_before_anyone_asks() {
    let instance = instance(&[], brisk());
    let first = pid(&instance).await;
    let mut status = instance.watch();
    assert!(send_signal(first, "KILL"));
    // Nobody calls; the status alone shows it.
    let back = status.wait_for(|now| now.restarts == 1 && matches!(now.state, State::Ready(_)));
    let failure = soon("the restart", back).await.unwrap().last_failure.clone().unwrap();
    assert!(failure.to_string().contains("was ended by SIGKILL"), "{failure}");
    assert_ne!(pid(&instance).await, first);
    instance.stop().await;
}

#[tokio::test]
async fn one_that_hangs_is_noticed_by_its_checks_and_started_anew() {
    let instance = instance(&[], brisk());
    let first = pid(&instance).await;
    let mut status = instance.watch();
    assert!(send_signal(first, "STOP"));
    soon("the first miss", status.wait_for(|now| now.state.name() == "unhealthy")).await.unwrap();
    soon("the restart", status.wait_for(|now| matches!(now.state, State::Ready(_)) && now.restarts == 1))
        .await
        .unwrap();
    gone(first).await;
    assert!(instance.status().last_failure.unwrap().to_string().contains("health checks"));
    instance.stop().await;
}

#[tokio::test]
async fn callers_that_keep_asking_do_not_keep_a_hung_one_alive() {
    let instance = instance(&[], brisk());
    let first = pid(&instance).await;
    assert!(send_signal(first, "STOP"));
    let mut status = instance.watch();
    let restarted = status.wait_for(|now| matches!(now.state, State::Ready(_)) && now.restarts == 1);
    let asking = async {
        loop {
            // Each demand interrupts what the instance is doing; it must go on with its check.
            let _ = tokio::time::timeout(Duration::from_millis(50), instance.acquire()).await;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        restarted = soon("the restart", restarted) => { restarted.unwrap(); }
        () = asking => unreachable!(),
    }
    instance.stop().await;
}

#[tokio::test]
async fn one_that_was_given_up_on_is_replaced_and_not_handed_out_again() {
    let instance = instance(&[], brisk());
    let upstream = acquired(&instance).await;
    let first = upstream.pid().unwrap();
    upstream.retire("it is of no use any more");
    drop(upstream);
    assert_ne!(pid(&instance).await, first);
    assert!(instance.status().last_failure.unwrap().to_string().contains("of no use"));
    gone(first).await;
    instance.stop().await;
}

#[tokio::test]
async fn one_that_answers_again_is_not_started_anew() {
    let instance = instance(&[], Supervision { check_failures: 1000, ..brisk() });
    let first = pid(&instance).await;
    let mut status = instance.watch();
    assert!(send_signal(first, "STOP"));
    soon("the first miss", status.wait_for(|now| now.state.name() == "unhealthy")).await.unwrap();
    assert!(send_signal(first, "CONT"));
    soon("the recovery", status.wait_for(|now| now.state.name() == "ready")).await.unwrap();
    assert_eq!(pid(&instance).await, first);
    instance.stop().await;
}

#[tokio::test]
async fn a_call_in_flight_is_not_ended_by_missed_checks() {
    let instance = instance(&[], brisk());
    let upstream = acquired(&instance).await;
    let first = upstream.pid().unwrap();
    let pending = upstream.call("sleep", &json!({ "ms": 1 }), None).unwrap();
    assert!(send_signal(first, "STOP"));
    let mut status = instance.watch();
    // Many more misses than are allowed, while the call is held.
    for _ in 0..4 {
        let before = status.borrow_and_update().last_check.as_ref().map(|check| check.at);
        soon("a check", status.wait_for(|now| now.last_check.as_ref().map(|check| check.at) != before))
            .await
            .unwrap();
    }
    assert!(process_alive(first));
    assert!(send_signal(first, "CONT"));
    soon("the answer", pending).await.unwrap();
    drop(upstream);
    instance.stop().await;
}

#[tokio::test]
async fn after_the_last_retry_it_is_failed_until_a_person_restarts_it() {
    let supervision = Supervision { restart_max: 2, restart_window: Duration::from_secs(3600), ..brisk() };
    let instance = instance(&["--crash-on-start", "--stderr", "no-luck"], supervision);
    let Err(Unavailable::Failed(failure)) = soon("the end of it", instance.acquire()).await else {
        panic!("it cannot start");
    };
    assert!(failure.to_string().contains("no-luck"), "{failure}");
    assert_eq!(state(&instance), "failed");
    instance.restart("once more");
    let mut status = instance.watch();
    soon("a new start", status.wait_for(|now| now.state.name() != "failed")).await.unwrap();
    soon("the same end", status.wait_for(|now| now.state.name() == "failed")).await.unwrap();
    instance.stop().await;
}

#[tokio::test]
async fn a_restart_by_hand_replaces_one_that_is_well() {
    let instance = instance(&[], brisk());
    let first = pid(&instance).await;
    instance.restart("because");
    let mut status = instance.watch();
    soon("the restart", status.wait_for(|now| matches!(now.state, State::Ready(_)) && now.restarts == 1))
        .await
        .unwrap();
    assert!(!process_alive(first));
    assert_ne!(pid(&instance).await, first);
    instance.stop().await;
}

// ---- nothing stays behind ----------------------------------------------------------------------------------------

fn holdings() -> Holdings {
    Holdings::now(tokio::runtime::Handle::current().metrics().num_alive_tasks())
}

/// Counts what a cycle leaves: runs it in a process of its own, since the other tests of this one hold things too.
fn in_a_process_of_its_own(test: &str, inside: impl Future<Output = ()>) -> bool {
    const INSIDE: &str = "GREENROOM_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(inside);
        return true;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    false
}

/// Runs the cycle a few times to warm up, then so many times more, and compares.
async fn leaves_nothing(cycles: usize, mut cycle: impl AsyncFnMut()) {
    for _ in 0..3 {
        cycle().await;
    }
    let settled = |before: &Holdings| {
        let now = holdings();
        now.fds <= before.fds
            && now.threads <= before.threads
            && now.tasks <= before.tasks
            && now.children == 0
    };
    let before = holdings();
    for _ in 0..cycles {
        cycle().await;
    }
    let tmp = run().folder().join("tmp");
    eventually(&format!("everything to be as before ({before:?}; now {:?})", holdings()), || {
        settled(&before)
    })
    .await;
    let left = || std::fs::read_dir(&tmp).unwrap().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    // Files go after the processes that had them.
    eventually(&format!("nothing to be left of {:?}", left()), || left().is_empty()).await;
}

#[test]
fn two_hundred_starts_and_stops_leave_nothing() {
    in_a_process_of_its_own("instance::two_hundred_starts_and_stops_leave_nothing", async {
        leaves_nothing(200, async || {
            let instance = instance(&["--spawn-child"], brisk());
            let upstream = acquired(&instance).await;
            let child = call_pid(&upstream, "child_pid").await;
            drop(upstream);
            instance.stop().await;
            assert!(!process_alive(child));
        })
        .await;
    });
}

#[test]
fn two_hundred_crashes_and_restarts_leave_nothing() {
    in_a_process_of_its_own("instance::two_hundred_crashes_and_restarts_leave_nothing", async {
        let instance =
            instance(&["--spawn-child"], Supervision { check_interval: Duration::from_secs(20), ..brisk() });
        leaves_nothing_but_one(200, &instance).await;
        instance.stop().await;
        assert!(children_of(std::process::id()).is_empty());
    });
}

/// One instance stays alive, so its own processes are held before and after.
async fn leaves_nothing_but_one(cycles: usize, instance: &Instance) {
    let crash = async || {
        let upstream = acquired(instance).await;
        let before = upstream.pid();
        let _ = call(&upstream, "crash", json!({})).await.unwrap_err();
        drop(upstream);
        let back = async {
            while acquired(instance).await.pid() == before {
                tokio::task::yield_now().await;
            }
        };
        soon("the restart", back).await;
    };
    for _ in 0..3 {
        crash().await;
    }
    let before = holdings();
    for _ in 0..cycles {
        crash().await;
    }
    eventually(&format!("everything to be as before ({before:?})"), || {
        let now = holdings();
        now.fds <= before.fds
            && now.threads <= before.threads
            && now.tasks <= before.tasks
            && now.children <= before.children
    })
    .await;
}

#[test]
fn twenty_real_browsers_started_and_stopped_or_killed_leave_nothing() {
    let name = "instance::twenty_real_browsers_started_and_stopped_or_killed_leave_nothing";
    in_a_process_of_its_own(name, async {
        let room = Room::enter().await;
        let mut round = 0;
        leaves_nothing(17, async || {
            round += 1;
            let driver: Arc<dyn Driver> = Arc::new(room.driver());
            let instance = Instance::new(driver, brisk());
            let upstream = acquired(&instance).await;
            room.navigate(&upstream, "/links").await.fine();
            let node = upstream.pid().unwrap();
            let family = children_of(node);
            assert!(family.len() >= 2, "{family:?}");
            drop(upstream);
            if round % 2 == 0 {
                assert!(send_signal(node, "KILL"));
                let mut status = instance.watch();
                soon("the restart", status.wait_for(|now| now.restarts > 0)).await.unwrap();
            }
            instance.stop().await;
            for pid in family {
                gone(pid).await;
            }
        })
        .await;
    });
}

// ---- the run folder ----------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_run_that_lives_is_not_swept_and_one_that_is_over_is() {
    let folder = tempfile::tempdir().unwrap();
    let living = Run::begin(folder.path(), None).unwrap();
    let over = Run::begin(folder.path(), None).unwrap().folder().to_owned();
    assert_eq!(run_folder::left_over(folder.path()), Swept { runs: 1, processes: 0 });
    assert_eq!(run_folder::sweep(folder.path()), Swept { runs: 1, processes: 0 });
    assert!(living.folder().exists() && !over.exists());
    living.end();
    assert!(!living.folder().exists());
}

#[test]
fn a_folder_that_was_only_half_removed_is_swept() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("run/half/tmp/0")).unwrap();
    assert_eq!(run_folder::sweep(folder.path()), Swept { runs: 1, processes: 0 });
    assert!(!folder.path().join("run/half").exists());
}
