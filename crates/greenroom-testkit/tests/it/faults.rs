//! Faults that the command line scripts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use greenroom_testkit::{McpStdio, fake_upstream, process_alive, send_signal, wait_until};
use serde_json::{Value, json};

use crate::start::{A_MOMENT, SOON, fake, initialized};

#[test]
fn crash_on_start_prints_and_exits() {
    let mut fake = fake(&["--crash-on-start", "--stderr", "no display found", "--exit-code", "9"]);
    assert_eq!(fake.wait_exit(SOON).code(), Some(9));
    wait_until("the last words", SOON, || fake.stderr_tail() == "no display found\n");
}

#[test]
fn crash_on_call_counts_the_calls() {
    let mut fake = initialized(&["--crash-on-call", "2"]);
    fake.call_tool("echo", json!({ "text": "first" }));
    let second = fake.send_request("tools/call", json!({ "name": "echo", "arguments": { "text": "" } }));
    assert!(fake.response_within(second, SOON).is_err());
    assert_eq!(fake.wait_exit(SOON).code(), Some(1));
}

#[test]
fn hang_on_call_counts_the_calls() {
    let mut fake = initialized(&["--hang-on-call", "1"]);
    let first = fake.send_request("tools/call", json!({ "name": "pid" }));
    fake.call_tool("pid", json!({}));
    assert!(fake.response_within(first, A_MOMENT).is_err());
}

#[test]
fn hang_on_initialize_answers_everything_else() {
    let mut fake = fake(&["--hang-on-initialize"]);
    let id = fake.send_request("initialize", json!({ "protocolVersion": "2025-11-25" }));
    fake.request("ping", Value::Null);
    assert!(fake.response_within(id, A_MOMENT).is_err());
}

#[test]
fn hang_once_leaves_the_first_start_without_an_answer() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hang-once");
    let _ = fs::remove_file(&file);
    let flags = ["--hang-once", file.to_str().unwrap()];
    let mut first = fake(&flags);
    let id = first.send_request("initialize", json!({ "protocolVersion": "2025-11-25" }));
    first.request("ping", Value::Null);
    initialized(&flags);
    assert!(first.response_within(id, A_MOMENT).is_err());
}

#[test]
fn late_start_holds_back_initialize() {
    let started = Instant::now();
    initialized(&["--late-start", "80"]);
    assert!(started.elapsed() >= Duration::from_millis(80));
}

#[test]
fn stdin_that_closes_ends_the_server() {
    let mut fake = initialized(&[]);
    fake.close_stdin();
    assert_eq!(fake.wait_exit(SOON).code(), Some(0));
}

#[test]
fn stdin_may_close_without_an_end() {
    let mut fake = initialized(&["--ignore-stdin-close"]);
    let call = fake.send_request("tools/call", json!({ "name": "sleep", "arguments": { "ms": 100 } }));
    fake.close_stdin();
    fake.wait_for_response(call);
    assert!(process_alive(fake.pid()));
    assert!(send_signal(fake.pid(), "TERM"));
    assert_eq!(fake.wait_exit(SOON).code(), None);
}

#[test]
fn sigterm_can_be_ignored() {
    let mut fake = initialized(&["--ignore-sigterm"]);
    assert!(send_signal(fake.pid(), "TERM"));
    // An answer after the signal was delivered shows that it did nothing.
    fake.request("ping", Value::Null);
    assert!(process_alive(fake.pid()));
    assert!(send_signal(fake.pid(), "KILL"));
    fake.wait_exit(SOON);
}

#[test]
fn a_child_outlives_the_server() {
    let mut fake = initialized(&["--spawn-child"]);
    let child: u32 = fake.call_tool_text("child_pid", json!({})).parse().unwrap();
    assert_eq!(greenroom_testkit::children_of(fake.pid()), [child]);
    fake.close_stdin();
    fake.wait_exit(SOON);
    assert!(process_alive(child));
    assert!(send_signal(child, "KILL"));
    wait_until("the child to die", SOON, || !process_alive(child));
}

#[test]
fn crash_once_works_the_second_time() {
    let file = fresh_file("crash-once");
    let flags = ["--crash-once", file.to_str().unwrap()];
    assert_eq!(fake(&flags).wait_exit(SOON).code(), Some(1));
    initialized(&flags).request("ping", Value::Null);
}

#[test]
fn crash_first_counts_the_starts() {
    let file = fresh_file("crash-first");
    let flags = ["--crash-first", "2", file.to_str().unwrap()];
    assert_eq!(fake(&flags).wait_exit(SOON).code(), Some(1));
    assert_eq!(fake(&flags).wait_exit(SOON).code(), Some(1));
    initialized(&flags).request("ping", Value::Null);
}

#[test]
fn faults_may_come_from_the_environment() {
    let mut command = Command::new(fake_upstream());
    command.env("FAKE_UPSTREAM_FAULTS", "--crash-on-start  --exit-code 5");
    assert_eq!(McpStdio::spawn(command).wait_exit(SOON).code(), Some(5));
}

#[test]
fn an_unknown_flag_is_refused_with_the_usage() {
    let mut fake = fake(&["--nonsense"]);
    assert_eq!(fake.wait_exit(SOON).code(), Some(2));
    wait_until("the usage", SOON, || fake.stderr_tail().contains("--crash-on-call N"));
}

fn fresh_file(name: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // It is there only if the test ran before.
    let _ = fs::remove_file(&file);
    file
}
