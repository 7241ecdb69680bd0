//! A process of the fake's own, as a browser is to a browser server.
//!
//! It holds none of the fake's pipes and does not end with it, so it stays behind unless the whole tree is
//! brought down.

use std::env;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::options::FAULTS_VARIABLE;

const LIFETIME: Duration = Duration::from_secs(3600);

/// Starts the child and returns its process id.
pub(super) fn spawn() -> u32 {
    let program = env::current_exe().expect("a running program knows its own path");
    Command::new(program)
        .arg("--just-sleep")
        // The faults are this process's; with them the child could have a child, and so on.
        .env_remove(FAULTS_VARIABLE)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this program can be started, as it was started")
        .id()
}

/// What the child does.
pub(super) fn sleep() {
    thread::sleep(LIFETIME);
}
