//! What is read about processes.

use std::process::{self, Command, Stdio};

use greenroom_testkit::{
    children_of, fd_count, process_alive, pss_kb, rss_kb, send_signal, thread_count, wait_until,
};
use serde_json::json;

use crate::start::{SOON, initialized};

#[test]
fn a_running_process_has_memory_files_and_threads() {
    let me = process::id();
    assert!(process_alive(me));
    assert!(rss_kb(me) > 100 && pss_kb(me) > 100);
    assert!(fd_count(me) >= 3 && thread_count(me) >= 1);
}

#[test]
fn a_thread_shows_while_a_call_waits() {
    let mut fake = initialized(&[]);
    assert_eq!(thread_count(fake.pid()), 1);
    fake.send_request("tools/call", json!({ "name": "hang" }));
    wait_until("a second thread", SOON, || thread_count(fake.pid()) == 2);
}

#[test]
fn a_zombie_is_dead_and_no_child() {
    let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let pid = child.id();
    assert!(process_alive(pid) && children_of(process::id()).contains(&pid));
    assert!(send_signal(pid, "KILL"));
    wait_until("the process to die", SOON, || !process_alive(pid));
    assert!(!children_of(process::id()).contains(&pid), "it was not waited for and is still listed");
    child.wait().unwrap();
    assert!(!send_signal(pid, "KILL"));
    assert_eq!((rss_kb(pid), fd_count(pid), thread_count(pid)), (0, 0, 0));
}

#[test]
#[should_panic(expected = "in vain for: the impossible")]
fn a_wait_in_vain_says_for_what() {
    wait_until("the impossible", std::time::Duration::from_millis(20), || false);
}
