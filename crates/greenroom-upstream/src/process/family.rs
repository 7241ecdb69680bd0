//! A child and everything that came of it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::{Instant, sleep};

use super::table::{ProcessName, Row, has_variable, rows, with_kin};
use crate::run_folder::{Mark, Run};

/// How long killed processes may take to vanish from the table.
const KILL_LIMIT: Duration = Duration::from_secs(3);

/// Knows a child's descendants before they have to be ended: afterwards nothing leads to them any more.
pub(super) struct Family {
    /// The child itself, if it was still there when we first looked.
    root: Option<ProcessName>,
    mark: Mark,
    run: Arc<Run>,
    /// Everyone who was ever seen, with the session they lived in.
    seen: HashMap<ProcessName, u32>,
}

impl Family {
    pub(super) fn new(root: u32, mark: Mark, run: Arc<Run>) -> Self {
        // Not reaped yet, so the number is still its own.
        Self { root: ProcessName::of(root), mark, run, seen: HashMap::new() }
    }

    /// Takes note of who belongs to it now, for us and for whoever cleans up after us.
    pub(super) fn look(&mut self) {
        let living = self.living();
        // The dead are forgotten, but for those whose session may outlive them.
        let alive: HashSet<ProcessName> = living.iter().map(|row| row.name).collect();
        self.seen.retain(|name, session| alive.contains(name) || name.pid == *session);
        let fresh: Vec<Row> = living.into_iter().filter(|row| !self.seen.contains_key(&row.name)).collect();
        self.run.record(&fresh);
        self.seen.extend(fresh.into_iter().map(|row| (row.name, row.session)));
    }

    /// When nobody is left who could write there.
    pub(super) fn remove_files(&self) {
        self.mark.remove_files();
    }

    fn living(&self) -> Vec<Row> {
        let table = rows();
        let known = |row: &&Row| self.seen.contains_key(&row.name) || Some(row.name) == self.root;
        let mut roots: HashSet<u32> = table.iter().filter(known).map(|row| row.name.pid).collect();
        roots.extend(
            table.iter().map(|row| row.name.pid).filter(|pid| has_variable(*pid, &self.mark.entry())),
        );
        // Sessions that one of us began, and whose number nobody else has taken since.
        let began = |(name, session): (&ProcessName, &u32)| (name.pid == *session).then_some(*name);
        let sessions = self.seen.iter().filter_map(began);
        let ours = sessions
            .filter(|leader| !table.iter().any(|row| row.name.pid == leader.pid && row.name != *leader));
        let ours = ours.map(|leader| leader.pid).collect();
        with_kin(&table, &roots, &ours).into_iter().filter(|row| !row.is_zombie).collect()
    }

    /// Kills everyone. The child itself must have been reaped, or be reaped by somebody else meanwhile.
    pub(super) async fn kill(&mut self) {
        let begun = Instant::now();
        let mut looked_empty = false;
        loop {
            let living = self.living();
            // One look is not enough: a process in the middle of its exec has no environment yet.
            if living.is_empty() && looked_empty {
                return;
            }
            looked_empty = living.is_empty();
            if begun.elapsed() > KILL_LIMIT {
                tracing::error!(processes = living.len(), "could not be killed");
                return;
            }
            for row in living {
                row.name.signal(Signal::SIGKILL);
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}
