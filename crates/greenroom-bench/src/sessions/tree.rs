//! Memory and work of trees of processes.

use std::fs;
use std::time::{Duration, Instant};

use greenroom_testkit::{children_of, pss_kb};
use serde::Serialize;
use tokio::time::sleep;

use crate::report::megabytes;

/// A tree is quiet when it had next to nothing to do for so long …
const WINDOW: Duration = Duration::from_millis(500);
/// … which is this much processor time, in the kernel's ticks of 10 ms: browsers at rest still blink.
const TICKS: u64 = 2;
/// After this it is taken as it is: a machine may be busy for reasons of its own.
const LIMIT: Duration = Duration::from_secs(8);

/// How many of them a second has.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processes with everything below them.
pub(crate) struct Tree {
    roots: Vec<u32>,
}

/// Proportional set size in MB, by what the processes are for.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Memory {
    pub(super) total: f64,
    pub(super) greenroom: f64,
    pub(crate) node: f64,
    /// The browsers' main processes.
    pub(super) browser: f64,
    pub(super) renderers: f64,
    /// GPU, network and the like.
    pub(super) other: f64,
}

/// Processor time in seconds, by what the processes are for.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Work {
    pub(crate) greenroom: f64,
    pub(crate) node: f64,
    /// The browsers with all their processes.
    pub(crate) browser: f64,
}

impl Tree {
    pub(super) fn of(roots: Vec<u32>) -> Self {
        Self { roots }
    }

    fn processes(&self) -> impl Iterator<Item = u32> {
        self.roots.iter().flat_map(|root| std::iter::once(*root).chain(children_of(*root)))
    }

    pub(crate) fn memory(&self) -> Memory {
        let mut memory = Memory::default();
        for pid in self.processes() {
            let mb = megabytes(pss_kb(pid));
            memory.total += mb;
            *memory.part(&command_of(pid)) += mb;
        }
        memory
    }

    /// What the processes that are there have done since they began.
    pub(crate) fn work(&self) -> Work {
        let mut work = Work::default();
        for pid in self.processes() {
            let part = match program(&command_of(pid)) {
                "greenroom" => &mut work.greenroom,
                "node" => &mut work.node,
                _ => &mut work.browser,
            };
            *part += ticks(pid) as f64 / TICKS_PER_SECOND;
        }
        work
    }

    /// Waits until the processes are at rest. What they prepare in the background, such as a warm seat, is then done.
    pub(crate) async fn rest(&self) {
        let began = Instant::now();
        let mut before = self.ticks();
        while began.elapsed() < LIMIT {
            sleep(WINDOW).await;
            let now = self.ticks();
            if now.saturating_sub(before) <= TICKS {
                return;
            }
            before = now;
        }
    }

    fn ticks(&self) -> u64 {
        self.processes().map(ticks).sum()
    }
}

impl Memory {
    fn part(&mut self, command: &str) -> &mut f64 {
        match program(command) {
            "greenroom" => &mut self.greenroom,
            "node" => &mut self.node,
            _ if command.contains("--type=renderer") => &mut self.renderers,
            _ if command.contains("--type=") => &mut self.other,
            _ if command.contains("--remote-debugging-pipe") => &mut self.browser,
            _ => &mut self.other,
        }
    }

    /// Without what there was before.
    pub(super) fn above(&self, base: f64) -> f64 {
        self.total - base
    }
}

impl Work {
    pub(crate) fn total(&self) -> f64 {
        let Self { greenroom, node, browser } = self;
        greenroom + node + browser
    }

    /// What was done from then to now, in each second of this time.
    pub(crate) fn since(&self, then: &Self, seconds: f64) -> Self {
        Self {
            greenroom: (self.greenroom - then.greenroom) / seconds,
            node: (self.node - then.node) / seconds,
            browser: (self.browser - then.browser) / seconds,
        }
    }
}

fn command_of(pid: u32) -> String {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).into_owned()
}

/// The name of the program that a command line runs.
fn program(command: &str) -> &str {
    let path = command.split('\0').next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

/// Processor time in user and kernel.
fn ticks(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may hold anything; the fields after it are counted from its last parenthesis.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields).split_ascii_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_memory_and_work_are_seen() {
        let tree = Tree::of(vec![std::process::id()]);
        let mut spent = 0_u64;
        let began = Instant::now();
        while tree.ticks() == 0 && began.elapsed() < Duration::from_secs(5) {
            spent = std::hint::black_box(spent.wrapping_add(1));
        }
        assert!(tree.ticks() > 0);
        let memory = tree.memory();
        assert!(memory.total > 0.1, "{memory:?}");
        assert!(tree.work().total() > 0.0);
    }

    #[test]
    fn work_is_told_by_the_second() {
        let then = Work { greenroom: 1.0, node: 2.0, browser: 3.0 };
        let now = Work { greenroom: 2.0, node: 2.0, browser: 8.0 };
        let Work { greenroom, node, browser } = now.since(&then, 5.0);
        assert_eq!([greenroom, node, browser].map(|share| (share * 100.0).round() as i64), [20, 0, 100]);
    }

    #[test]
    fn processes_are_known_by_their_command_lines() {
        let mut memory = Memory::default();
        for command in [
            "/x/greenroom\0serve\0",
            "/usr/bin/node\0host.cjs\0",
            "/usr/lib/chromium/shell\0--remote-debugging-pipe\0",
            "/usr/lib/chromium/shell\0--type=renderer\0",
            "/usr/lib/chromium/shell\0--type=gpu-process\0",
        ] {
            *memory.part(command) += 1.0;
        }
        let Memory { greenroom, node, browser, renderers, other, .. } = memory;
        assert_eq!([greenroom, node, browser, renderers, other].map(|mb| mb as u32), [1; 5]);
    }
}
