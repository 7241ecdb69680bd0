//! Children: started from one thread, their output kept in a ring, and ended with everything that came of them.

mod before_exec;
mod detached;
mod family;
mod log_ring;
mod spawner;
mod table;

pub use detached::start_detached;

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncRead;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot, watch};

use crate::rpc::Ended;
use crate::run_folder::Run;
use family::Family;
use log_ring::LogRing;

pub(crate) use table::{ProcessName, Row, has_variable, rows, with_kin};
pub use table::{dead_children, reap};

/// How long a process may take to go after SIGTERM before it is killed.
const TERM_GRACE: Duration = Duration::from_secs(2);

/// How much longer the output is read after the process has gone. A grandchild may hold the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(300);

#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("the program `{program}` was not found; install it or correct the path")]
    NotFound { program: String },
    #[error("the program `{program}` could not be started")]
    Failed {
        program: String,
        #[source]
        source: std::io::Error,
    },
}

/// A running child. Dropping this kills it and everything that came of it.
pub struct Process {
    watch: Watch,
    requests: mpsc::UnboundedSender<Request>,
}

/// Sees a process without keeping it alive.
#[derive(Clone)]
pub struct Watch {
    pid: u32,
    exit: watch::Receiver<Option<ExitStatus>>,
    log: LogRing,
}

enum Request {
    /// Something may have been started: take note of it. Dropping `seen` says that it was.
    Look {
        seen: Option<oneshot::Sender<()>>,
    },
    Term,
    Kill,
}

/// What the child's standard output is for.
pub enum Output {
    /// It is the protocol: handed to the caller.
    Piped,
    /// It is chatter: logged like standard error.
    Logged,
}

/// What remains to be done when a child and everything that came of it has gone, told how the child went. Nobody
/// hears that it has gone before this is done.
pub(crate) type Epilogue = Box<dyn FnOnce(Option<ExitStatus>) -> BoxFuture<'static, ()> + Send>;

pub struct Spawned {
    pub process: Process,
    /// Present when the command's standard input was left to us.
    pub stdin: Option<ChildStdin>,
    /// Present with [`Output::Piped`].
    pub stdout: Option<ChildStdout>,
}

/// Starts the command. Its standard input is a pipe unless `stdin` is given.
///
/// In a task of its own: whoever stops waiting in the middle of it must not leave a child that nobody owns.
pub async fn spawn(
    command: Command,
    stdin: Option<Stdio>,
    output: Output,
    run: &Arc<Run>,
) -> Result<Spawned, SpawnError> {
    spawn_with(command, stdin, output, run, None).await
}

pub(crate) async fn spawn_with(
    command: Command,
    stdin: Option<Stdio>,
    output: Output,
    run: &Arc<Run>,
    epilogue: Option<Epilogue>,
) -> Result<Spawned, SpawnError> {
    let whole = spawn_whole(command, stdin, output, Arc::clone(run), epilogue);
    tokio::spawn(whole).await.expect("starting does not panic")
}

async fn spawn_whole(
    mut command: Command,
    stdin: Option<Stdio>,
    output: Output,
    run: Arc<Run>,
    epilogue: Option<Epilogue>,
) -> Result<Spawned, SpawnError> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    command
        .stdin(stdin.unwrap_or_else(Stdio::piped))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A Ctrl-C at the terminal is for Greenroom, which ends its children in its own order.
        .process_group(0)
        .kill_on_drop(true);
    let mark = run.expect_child();
    command.envs(mark.environment());
    before_exec::die_with_us(&mut command);
    let mut child = spawner::spawn(command).await.map_err(|source| {
        mark.remove_files();
        match source.kind() {
            std::io::ErrorKind::NotFound => SpawnError::NotFound { program: program.clone() },
            _ => SpawnError::Failed { program: program.clone(), source },
        }
    })?;
    let pid = child.id().expect("a child that was not awaited has a pid");
    let log = LogRing::default();
    let stderr = child.stderr.take().expect("standard error is piped");
    let mut readers = vec![read_log(log.clone(), pid, stderr)];
    let stdout = match output {
        Output::Piped => child.stdout.take(),
        Output::Logged => {
            readers.push(read_log(log.clone(), pid, child.stdout.take().expect("standard output is piped")));
            None
        }
    };
    let stdin = child.stdin.take();
    let (requests, received) = mpsc::unbounded_channel();
    let (exited, exit) = watch::channel(None);
    let mut family = Family::new(pid, mark, run);
    family.look();
    tokio::spawn(own(child, family, received, exited, readers, epilogue));
    tracing::debug!(pid, program, "started");
    Ok(Spawned { process: Process { watch: Watch { pid, exit, log }, requests }, stdin, stdout })
}

fn read_log(
    log: LogRing,
    pid: u32,
    stream: impl AsyncRead + Send + Unpin + 'static,
) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move { log.fill(pid, stream).await })
}

/// Owns the child until it and everything that came of it has gone.
async fn own(
    mut child: Child,
    mut family: Family,
    mut requests: mpsc::UnboundedReceiver<Request>,
    exited: watch::Sender<Option<ExitStatus>>,
    readers: Vec<tokio::task::JoinHandle<()>>,
    epilogue: Option<Epilogue>,
) {
    let pid = child.id().expect("a child that was not awaited has a pid");
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            request = requests.recv() => match request {
                Some(Request::Look { seen }) => {
                    family.look();
                    drop(seen);
                }
                Some(Request::Term) => {
                    family.look();
                    signal_group(pid, Signal::SIGTERM);
                }
                Some(Request::Kill) | None => {
                    family.look();
                    let _ = child.start_kill();
                    break child.wait().await;
                }
            },
        }
    };
    // What it started goes with it, however it went, and so do its files.
    family.kill().await;
    family.remove_files();
    if let Some(epilogue) = epilogue {
        epilogue(status.as_ref().ok().copied()).await;
    }
    // What it printed last is worth a moment: it usually says why.
    let last_words = async {
        for reader in readers {
            let _ = reader.await;
        }
    };
    let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
    match status {
        Ok(status) => {
            tracing::debug!(pid, %status, "exited");
            exited.send_replace(Some(status));
        }
        // The watch closes with no status; who waits hears that the process is gone.
        Err(error) => tracing::error!(pid, %error, "could not be awaited"),
    }
}

fn signal_group(pid: u32, signal: Signal) {
    let group = Pid::from_raw(i32::try_from(pid).expect("pids fit"));
    if let Err(error) = killpg(group, signal) {
        tracing::debug!(pid, %signal, %error, "the process group could not be signalled");
    }
}

impl Process {
    pub fn pid(&self) -> u32 {
        self.watch.pid
    }

    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Takes note of what the child has started, so that it can be ended even if the child goes first.
    pub fn look(&self) {
        self.looker().look();
    }

    /// The same, and returns when it is done. To be awaited before a child is asked to go: afterwards nothing leads
    /// from it to what it started.
    pub async fn look_well(&self) {
        let (seen, done) = oneshot::channel();
        let _ = self.requests.send(Request::Look { seen: Some(seen) });
        let _ = done.await;
    }

    pub(crate) fn looker(&self) -> Looker {
        Looker(self.requests.downgrade())
    }

    /// Ends it: waits for it to go by itself for `grace`, then SIGTERM, then SIGKILL.
    pub async fn end(&self, grace: Duration) {
        if tokio::time::timeout(grace, self.watch.exited()).await.is_ok() {
            return;
        }
        let _ = self.requests.send(Request::Term);
        if tokio::time::timeout(TERM_GRACE, self.watch.exited()).await.is_ok() {
            return;
        }
        tracing::warn!(pid = self.pid(), "did not go after SIGTERM; killed");
        let _ = self.requests.send(Request::Kill);
        self.watch.exited().await;
    }
}

/// Can have a process looked at, without keeping it alive.
pub(crate) struct Looker(mpsc::WeakUnboundedSender<Request>);

impl Looker {
    pub(crate) fn look(&self) {
        if let Some(requests) = self.0.upgrade() {
            let _ = requests.send(Request::Look { seen: None });
        }
    }
}

impl Watch {
    /// Returns when the process has gone and its last output has been read; `None` when its status is not known.
    pub async fn exited(&self) -> Option<ExitStatus> {
        let mut exit = self.exit.clone();
        exit.wait_for(Option::is_some).await.ok().and_then(|status| *status)
    }

    /// The last lines it printed.
    pub fn last_output(&self) -> Vec<String> {
        self.log.tail()
    }

    /// Why a connection to this process is over. Called when the connection has closed, which is usually because
    /// the process is going; it gets a moment to be gone, so that the reason can say how.
    pub async fn obituary(&self, what: &str) -> Ended {
        let reason = match tokio::time::timeout(LAST_WORDS * 3, self.exited()).await {
            Ok(Some(status)) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("{what} exited with code {code}"),
                (None, Some(signal)) => {
                    let name =
                        Signal::try_from(signal).map_or_else(|_| signal.to_string(), |s| s.to_string());
                    format!("{what} was ended by {name}")
                }
                (None, None) => format!("{what} has gone"),
            },
            Ok(None) => format!("{what} has gone"),
            Err(_) => format!("{what} closed its connection"),
        };
        Ended { reason, last_output: self.log.tail() }
    }
}
