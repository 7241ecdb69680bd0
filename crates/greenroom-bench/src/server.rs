//! A server under measurement: a child that is ended with everything it started.

use std::fs::File;
use std::mem;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use greenroom_testkit::{children_of, process_alive, rss_kb, send_signal};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{sleep, timeout};

/// How long a server may take to end when asked.
const TO_END: Duration = Duration::from_secs(5);
/// How long one may take to say where it listens, or to accept connections. Some are slow to load.
const TO_START: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

pub(crate) struct Server {
    child: Child,
    pid: u32,
    log: PathBuf,
    /// What it had started when it was asked to end.
    family: Vec<u32>,
    has_ended: bool,
}

impl Server {
    /// Starts the command with its standard error in the file `log`.
    pub(crate) fn start(mut command: Command, log: &Path) -> Result<Self> {
        let program = command.as_std().get_program().to_owned();
        let file = File::create(log).with_context(|| format!("{} cannot be written", log.display()))?;
        let child = command
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} cannot be started", Path::new(&program).display()))?;
        let pid = child.id().context("the server ended at once")?;
        Ok(Self { child, pid, log: log.to_owned(), family: Vec::new(), has_ended: false })
    }

    /// Starts it with pipes for its standard streams.
    pub(crate) fn start_piped(mut command: Command, log: &Path) -> Result<(Self, ChildStdin, ChildStdout)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = Self::start(command, log)?;
        let stdin = server.child.stdin.take().context("standard input is piped")?;
        let stdout = server.child.stdout.take().context("standard output is piped")?;
        Ok((server, stdin, stdout))
    }

    /// Starts it and reads the line in which it says `PREFIXhttp://…`. Returns what comes after the prefix.
    pub(crate) async fn start_announced(
        mut command: Command,
        log: &Path,
        prefix: &str,
    ) -> Result<(Self, String)> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut server = Self::start(command, log)?;
        let stdout = server.child.stdout.take().context("standard output is piped")?;
        let mut line = String::new();
        timeout(TO_START, BufReader::new(stdout).read_line(&mut line))
            .await
            .context("the server did not say where it listens")??;
        match line.trim_end().strip_prefix(prefix) {
            Some(url) => Ok((server, url.to_owned())),
            None => bail!("the server did not say where it listens but {line:?}; {}", server.last_words()),
        }
    }

    /// Starts it, with all it prints in the log, and waits until the port takes connections.
    pub(crate) async fn start_on_port(mut command: Command, log: &Path, port: u16) -> Result<Self> {
        let stdout = File::create(log.with_extension("out"))?;
        command.stdin(Stdio::null()).stdout(stdout);
        let mut server = Self::start(command, log)?;
        let began = Instant::now();
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("ended while starting ({status}); {}", server.last_words());
            }
            if began.elapsed() > TO_START {
                bail!("did not listen within {} s; {}", TO_START.as_secs(), server.last_words());
            }
            sleep(POLL).await;
        }
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Resident memory of this process alone, in KiB.
    pub(crate) fn rss_kb(&self) -> u64 {
        rss_kb(self.pid)
    }

    /// The end of what it logged, on one line.
    pub(crate) fn last_words(&self) -> String {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let text = [read(&self.log.with_extension("out")), read(&self.log)].concat();
        let mut lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines.split_off(lines.len().saturating_sub(3));
        if last.is_empty() {
            "it logged nothing".to_owned()
        } else {
            format!("it logged: {}", last.join(" | "))
        }
    }

    /// Ends it, and whatever of its own children it leaves behind.
    pub(crate) async fn end(mut self) {
        self.family = children_of(self.pid);
        send_signal(self.pid, "TERM");
        if timeout(TO_END, self.child.wait()).await.is_err() {
            // It may have gone in this moment.
            let _ = self.child.kill().await;
        }
        let deadline = Instant::now() + TO_END;
        while self.family.iter().any(|pid| process_alive(*pid)) && Instant::now() < deadline {
            sleep(POLL).await;
        }
        kill(&self.family);
        self.has_ended = true;
    }
}

/// For one that was not ended, or not to the end: the run failed or was interrupted.
impl Drop for Server {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let mut family = mem::take(&mut self.family);
        // Once it was waited for, its number may be another's.
        if self.child.id().is_some() {
            family.extend(children_of(self.pid));
        }
        // Its parent first, which would otherwise start anew what is killed. It may have gone already.
        let _ = self.child.start_kill();
        kill(&family);
    }
}

fn kill(family: &[u32]) {
    for pid in family.iter().copied().filter(|pid| process_alive(*pid)) {
        send_signal(pid, "KILL");
    }
}

/// A port of loopback that was free a moment ago.
pub(crate) fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
