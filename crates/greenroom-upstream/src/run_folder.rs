//! A run: one life of a Greenroom process, and what it leaves behind if it is killed.
//!
//! `run/<id>/` in the data folder holds a lock that is held for the run's whole life, a `tmp` folder with a TMPDIR for
//! each child, and a record of every process it started. Whoever finds the lock free knows that the run is over and may
//! end what it left: the **guard**, a small process that waits for the end of a pipe, does so at once; every later start **sweeps**.
//!
//! Processes are told apart by number and start time, never by name. A variable in their environment says which run they belong to;
//! where that cannot be read, the record and the sessions they began do.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;

use crate::process::{ProcessName, Row, has_variable, rows, with_kin};

/// The variable that names the run in a child's environment. Not one of our keys: a child may be a Greenroom, too.
const MARK: &str = "_GREENROOM_RUN";

/// What one child is given: an entry in its environment that is found again in whatever it starts, and a folder
/// for its temporary files.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    number: String,
    tmp: PathBuf,
}

impl Mark {
    /// The entry: `variable=run/number/`. The last slash keeps one from being the beginning of another.
    pub(crate) fn entry(&self) -> String {
        format!("{MARK}={}", self.number)
    }

    pub(crate) fn environment(&self) -> [(&'static str, OsString); 2] {
        [(MARK, self.number.clone().into()), ("TMPDIR", self.tmp.clone().into())]
    }

    /// A process that is killed leaves its temporary files.
    pub(crate) fn remove_files(&self) {
        // Whoever is about to end may still put something there.
        for _ in 0..5 {
            match std::fs::remove_dir_all(&self.tmp) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::debug!(%error, folder = %self.tmp.display(), "could not be removed");
                    return;
                }
                _ => return,
            }
        }
        tracing::debug!(folder = %self.tmp.display(), "could not be removed, it is filled again and again");
    }
}

/// How long killed processes may take to vanish from the table.
const KILL_LIMIT: Duration = Duration::from_secs(3);

/// How long a run may take to come into being.
const BIRTH: Duration = Duration::from_secs(60);

/// How long a guard waits for the lock of a run that is going.
const GUARD_LIMIT: Duration = Duration::from_secs(30);

pub struct Run {
    id: String,
    folder: PathBuf,
    record: Mutex<File>,
    guard: Mutex<GuardState>,
    children: AtomicU64,
    /// Held until the process ends, however it ends.
    _lock: File,
}

enum GuardState {
    /// Started with the first child: a run without children leaves nothing.
    NotYet(Option<PathBuf>),
    Running(Child),
    Gone,
}

impl Run {
    /// Begins a run. `guard` is the program that becomes its guard; none means that only sweeps clean up.
    pub fn begin(data_dir: &Path, guard: Option<PathBuf>) -> io::Result<Self> {
        let runs = data_dir.join("run");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let id = format!("{:x}-{:x}", now.as_nanos(), std::process::id());
        // Under another name until the lock is held: a sweep must not take it for one that is over.
        let (unborn, folder) = (runs.join(format!(".{id}")), runs.join(&id));
        std::fs::create_dir_all(unborn.join("tmp"))?;
        let lock = File::create(unborn.join("lock"))?;
        lock.lock()?;
        let record = File::options().create(true).append(true).open(unborn.join("processes"))?;
        std::fs::rename(&unborn, &folder)?;
        let guard = Mutex::new(GuardState::NotYet(guard));
        Ok(Self { id, folder, record: Mutex::new(record), guard, children: AtomicU64::new(0), _lock: lock })
    }

    /// Names this run among all of a data folder.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Called for every child before it is started.
    pub(crate) fn expect_child(&self) -> Mark {
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if let GuardState::NotYet(program) = &mut *guard {
            *guard = match program.take().map(|program| start_guard(&program, &self.folder)) {
                Some(Ok(child)) => GuardState::Running(child),
                Some(Err(error)) => {
                    tracing::warn!(%error, "no guard could be started; what a killed run leaves is swept later");
                    GuardState::Gone
                }
                None => GuardState::Gone,
            };
        }
        let number = self.children.fetch_add(1, Ordering::Relaxed);
        let tmp = self.folder.join("tmp").join(number.to_string());
        if let Err(error) = std::fs::create_dir_all(&tmp) {
            tracing::warn!(%error, folder = %tmp.display(), "could not be made");
        }
        Mark { number: format!("{}/{number}/", self.id), tmp }
    }

    /// Writes down processes of this run, for whoever cleans up if we are killed.
    pub(crate) fn record(&self, processes: &[Row]) {
        let lines: String = processes.iter().map(line).collect();
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = record.write_all(lines.as_bytes()) {
            tracing::debug!(%error, "processes could not be recorded");
        }
    }

    /// The run is over: ends what is left of it and removes its folder.
    pub fn end(&self) {
        let left = leave_nothing(&self.folder);
        if left > 0 {
            tracing::warn!(processes = left, "had to be killed at the end");
        }
        let _ = std::fs::remove_dir_all(&self.folder);
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if let GuardState::Running(mut child) = std::mem::replace(&mut *guard, GuardState::Gone) {
            // The end of its input tells it; it finds nothing to do and goes.
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

fn line(row: &Row) -> String {
    format!("{} {} {}\n", row.name.pid, row.name.start, row.session)
}

fn start_guard(program: &Path, folder: &Path) -> io::Result<Child> {
    use std::os::unix::process::CommandExt;
    Command::new(program)
        .arg("guard")
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // What ends our group must not end the guard before it has done its work.
        .process_group(0)
        .spawn()
}

/// The guard's whole life: waits until its input ends, which it does when the run does, and cleans up after it.
pub fn guard(folder: &Path) {
    use nix::sys::signal::SigSet;
    let mut patience = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        patience.add(signal);
    }
    let _ = patience.thread_block();
    let _ = io::stdin().read_to_end(&mut Vec::new());
    // A process that dies closes its files one by one: the pipe may go before the lock does.
    let begun = Instant::now();
    while folder.exists() && sweep_one(folder).is_none() && begun.elapsed() < GUARD_LIMIT {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What a sweep found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub runs: usize,
    pub processes: usize,
}

/// Cleans up after runs that are over. Runs whose lock is held are left alone.
pub fn sweep(data_dir: &Path) -> Swept {
    let mut swept = Swept::default();
    for folder in folders(data_dir) {
        if let Some(processes) = sweep_one(&folder) {
            swept.runs += 1;
            swept.processes += processes;
        }
    }
    swept
}

/// Whether a run is still there: one that was killed is until it is swept.
pub fn is_there(data_dir: &Path, id: &str) -> bool {
    data_dir.join("run").join(id).is_dir()
}

/// What a sweep would clean up, for `greenroom doctor`.
pub fn left_over(data_dir: &Path) -> Swept {
    let over = folders(data_dir).into_iter().filter(|folder| take_lock(folder).is_some());
    over.fold(Swept::default(), |swept, folder| Swept {
        runs: swept.runs + 1,
        processes: swept.processes + members(&folder).len(),
    })
}

fn folders(data_dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data_dir.join("run")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir() && !is_being_born(path)).collect()
}

/// One that begins with a dot is being born, for a moment. Later it is one that died being born.
fn is_being_born(folder: &Path) -> bool {
    let is_unborn =
        folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with('.'));
    let age =
        folder.metadata().and_then(|data| data.modified()).map(|then| then.elapsed().unwrap_or_default());
    is_unborn && age.is_ok_and(|age| age < BIRTH)
}

/// Proof that a run is over; `None` while it lives.
fn take_lock(folder: &Path) -> Option<Option<File>> {
    match File::options().read(true).write(true).open(folder.join("lock")) {
        Ok(lock) => lock.try_lock().ok().map(|()| Some(lock)),
        // Somebody was cleaning up and was killed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(None),
        Err(_) => None,
    }
}

fn sweep_one(folder: &Path) -> Option<usize> {
    let _lock = take_lock(folder)?;
    let processes = leave_nothing(folder);
    // The lock goes last: without it nobody could tell that there is something left to do.
    let _ = std::fs::remove_dir_all(folder.join("tmp"));
    if let Err(error) = std::fs::remove_dir_all(folder) {
        tracing::debug!(%error, folder = %folder.display(), "could not be removed");
    }
    Some(processes)
}

/// Kills everything that belongs to the run, until nothing is left or it has taken too long.
fn leave_nothing(folder: &Path) -> usize {
    let begun = Instant::now();
    let mut killed = HashSet::new();
    loop {
        let living: Vec<ProcessName> =
            members(folder).iter().filter(|row| !row.is_zombie).map(|row| row.name).collect();
        if living.is_empty() || begun.elapsed() > KILL_LIMIT {
            return killed.len();
        }
        for process in living {
            process.signal(Signal::SIGKILL);
            killed.insert(process);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The run's processes: those it recorded and that are still the same, those that carry its mark, and their kin.
fn members(folder: &Path) -> Vec<Row> {
    let table = rows();
    let id = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mark = format!("{MARK}={id}/");
    let mut roots: HashSet<u32> =
        table.iter().map(|row| row.name.pid).filter(|pid| has_variable(*pid, &mark)).collect();
    let mut sessions = HashSet::new();
    for (name, session) in recorded(folder) {
        if table.iter().any(|row| row.name == name) {
            roots.insert(name.pid);
        }
        // A session that a recorded process began is ours as long as no other process has taken its number.
        let taken = table.iter().any(|row| row.name.pid == session && row.name != name);
        if name.pid == session && !taken {
            sessions.insert(session);
        }
    }
    roots.remove(&std::process::id());
    with_kin(&table, &roots, &sessions)
}

fn recorded(folder: &Path) -> Vec<(ProcessName, u32)> {
    let text = std::fs::read_to_string(folder.join("processes")).unwrap_or_default();
    let read = |line: &str| {
        let mut fields = line.split(' ');
        let name = ProcessName { pid: fields.next()?.parse().ok()?, start: fields.next()?.parse().ok()? };
        Some((name, fields.next()?.parse().ok()?))
    };
    text.lines().filter_map(read).collect()
}
