//! The system's table of processes, as far as it matters to us.

use std::collections::HashSet;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// One process, named so that its number cannot be mistaken for a later process with the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessName {
    pub(crate) pid: u32,
    /// When it started, in ticks since the machine did.
    pub(crate) start: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: ProcessName,
    pub(crate) parent: u32,
    pub(crate) session: u32,
    pub(crate) is_zombie: bool,
}

impl ProcessName {
    /// The process that has this number now.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        row(pid).map(|row| row.name)
    }

    pub(crate) fn is_alive(self) -> bool {
        row(self.pid).is_some_and(|row| row.name == self && !row.is_zombie)
    }

    /// Sends the signal, if the process is still the one that is meant.
    pub(crate) fn signal(self, signal: Signal) {
        if self.is_alive()
            && let Ok(pid) = i32::try_from(self.pid)
        {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

/// Everything that runs now.
pub(crate) fn rows() -> Vec<Row> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(row).collect()
}

fn row(pid: u32) -> Option<Row> {
    parse(pid, &std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// `pid (name) state parent group session …`; the name may hold anything, blanks and brackets too.
fn parse(pid: u32, stat: &str) -> Option<Row> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    Some(Row {
        name: ProcessName { pid, start: fields.get(19)?.parse().ok()? },
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        is_zombie: *fields.first()? == "Z",
    })
}

/// Children of ours that have exited and that nobody has awaited yet.
pub fn dead_children() -> Vec<u32> {
    let own = std::process::id();
    rows().into_iter().filter(|row| row.is_zombie && row.parent == own).map(|row| row.name.pid).collect()
}

/// Takes a dead child out of the table.
pub fn reap(pid: u32) {
    use nix::sys::wait::{WaitPidFlag, waitpid};
    if let Ok(pid) = i32::try_from(pid) {
        let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
    }
}

/// Whether the process was started with a variable that begins like this, name and all. Renderers hide theirs.
pub(crate) fn has_variable(pid: u32, beginning: &str) -> bool {
    std::fs::read(Path::new("/proc").join(pid.to_string()).join("environ")).is_ok_and(|environment| {
        environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(beginning.as_bytes()))
    })
}

/// The given processes with all their descendants and everyone in the sessions that these began. Chromium's
/// processes share a session of their own, whoever their parent is by now.
pub(crate) fn with_kin(rows: &[Row], roots: &HashSet<u32>, sessions: &HashSet<u32>) -> Vec<Row> {
    let own = std::process::id();
    let our_session = rows.iter().find(|row| row.name.pid == own).map(|row| row.session);
    let mut pids = roots.clone();
    let mut sessions: HashSet<u32> =
        sessions.iter().copied().filter(|session| Some(*session) != our_session).collect();
    loop {
        let before = (pids.len(), sessions.len());
        for row in rows {
            let is_kin = pids.contains(&row.parent) || sessions.contains(&row.session);
            if is_kin && row.name.pid != own {
                pids.insert(row.name.pid);
            }
            // Whoever leads a session began it; one that they merely live in may be ours or a stranger's.
            if pids.contains(&row.name.pid) && row.session == row.name.pid {
                sessions.insert(row.session);
            }
        }
        if before == (pids.len(), sessions.len()) {
            break;
        }
    }
    rows.iter().filter(|row| pids.contains(&row.name.pid)).copied().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{ProcessName, Row, parse, with_kin};

    fn row(pid: u32, parent: u32, session: u32) -> Row {
        Row { name: ProcessName { pid, start: u64::from(pid) }, parent, session, is_zombie: false }
    }

    fn pids(rows: &[Row]) -> Vec<u32> {
        rows.iter().map(|row| row.name.pid).collect()
    }

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let stat = "42 (a) b (c) S 7 42 40 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
        let found = parse(42, stat).unwrap();
        assert_eq!((found.parent, found.session, found.name.start), (7, 40, 987_654));
    }

    #[test]
    fn kin_are_descendants_and_the_sessions_they_began() {
        let table = [
            row(10, 1, 10),
            // Node leads a session, its browser another, and a helper was taken over by init.
            row(20, 10, 20),
            row(30, 20, 30),
            row(31, 30, 30),
            row(32, 1, 30),
            // A stranger in the shell's session, and one of its own.
            row(50, 10, 10),
            row(60, 1, 60),
        ];
        let kin = with_kin(&table, &HashSet::from([20]), &HashSet::new());
        assert_eq!(pids(&kin), [20, 30, 31, 32]);
    }

    #[test]
    fn a_known_session_is_found_after_its_leader_has_gone() {
        let table = [row(31, 1, 30), row(33, 31, 30), row(60, 1, 60)];
        let kin = with_kin(&table, &HashSet::new(), &HashSet::from([30]));
        assert_eq!(pids(&kin), [31, 33]);
    }

    #[test]
    fn this_process_finds_itself() {
        let name = ProcessName::of(std::process::id()).unwrap();
        assert!(name.is_alive());
        assert!(!ProcessName { start: name.start + 1, ..name }.is_alive());
    }
}
