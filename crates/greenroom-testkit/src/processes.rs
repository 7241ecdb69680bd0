//! What the kernel says about a process, read from `/proc`.
//!
//! All of these answer for a process that is gone, with nothing or zero: tests poll them while processes
//! are dying.

use std::fs;
use std::process::{Command, Stdio};

/// Whether the process runs. A zombie does not: it is dead and only waits for its parent to notice.
#[must_use]
pub fn process_alive(pid: u32) -> bool {
    Stat::read(pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// All living descendants of a process: children before their own children.
#[must_use]
pub fn children_of(pid: u32) -> Vec<u32> {
    let everyone: Vec<(u32, Stat)> = all_pids().filter_map(|pid| Some((pid, Stat::read(pid)?))).collect();
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(
            everyone
                .iter()
                .filter(|(_, stat)| stat.parent == parent && !matches!(stat.state, 'Z' | 'X'))
                .map(|(pid, _)| *pid),
        );
        next += 1;
    }
    family.remove(0);
    family
}

/// Resident memory in KiB, shared pages counted in full.
#[must_use]
pub fn rss_kb(pid: u32) -> u64 {
    labelled_number(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// Resident memory in KiB, each shared page divided by the number of processes that share it. This is the
/// number that may be summed over a tree of processes.
#[must_use]
pub fn pss_kb(pid: u32) -> u64 {
    labelled_number(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// How many file descriptors the process holds open.
#[must_use]
pub fn fd_count(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// How many threads the process has.
#[must_use]
pub fn thread_count(pid: u32) -> usize {
    let threads = labelled_number(&format!("/proc/{pid}/status"), "Threads:");
    usize::try_from(threads).expect("a thread count fits a usize")
}

/// Sends a signal by its short name, as in `send_signal(pid, "TERM")`. True if there was a process to send
/// it to.
///
/// # Panics
///
/// When there is no `sh`, whose built-in `kill` does the work: the standard library knows only `SIGKILL`,
/// and only for its own children.
pub fn send_signal(pid: u32, signal: &str) -> bool {
    Command::new("sh")
        .args(["-c", "kill -s \"$1\" \"$2\"", "sh", signal, &pid.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("every system the tests run on has sh")
        .success()
}

struct Stat {
    state: char,
    parent: u32,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is the program's name in parentheses and may hold anything, even a parenthesis,
        // so the fields after it are counted from the last one.
        let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
        Some(Self { state: fields.next()?.chars().next()?, parent: fields.next()?.parse().ok()? })
    }
}

fn all_pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn labelled_number(file: &str, label: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix(label)?.split_ascii_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// What this process holds, as far as the system can tell; to be compared with what it held before.
#[derive(Debug)]
pub struct Holdings {
    pub fds: usize,
    pub threads: usize,
    /// Of the caller's runtime.
    pub tasks: usize,
    pub children: usize,
}

impl Holdings {
    pub fn now(tasks: usize) -> Self {
        let own = std::process::id();
        Self { fds: fd_count(own), threads: thread_count(own), tasks, children: children_of(own).len() }
    }
}
