//! The way in for other processes of the same user: a Unix socket in the data folder.
//!
//! Each side says one line first, so that nobody talks to a server of another version or with other settings than it
//! asked for. From then on it is MCP, served like standard input and output.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use greenroom_core::config::{Settings, Wishes};
use greenroom_core::target::SessionName;
use greenroom_engine::{Bound, Caller, Engine, Origin};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::mcp::lines::LineReader;
use crate::mcp::{McpServerFactory, serve_lines};

const NAME: &str = "greenroom.sock";
/// Of `sockaddr_un`, without the zero at its end.
const LONGEST_PATH: usize = 107;
/// What the two lines at the beginning look like.
const DIALECT: u32 = 1;
const LONGEST_HELLO: usize = 1024 * 1024;
const HELLO_LIMIT: Duration = Duration::from_secs(3);
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// Where the server of a data folder listens.
pub fn socket_path(data_dir: &Path) -> PathBuf {
    data_dir.join(NAME)
}

/// What a client says first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    greenroom: u32,
    version: String,
    /// What it was told to run with.
    #[serde(default)]
    config: Wishes,
    #[serde(default)]
    working_dir: String,
    /// Names the client, so that it keeps its implied session when it connects again.
    #[serde(default)]
    connection: String,
}

impl Hello {
    pub fn new(config: Wishes, working_dir: &Path, connection: String) -> Self {
        let working_dir = working_dir.to_string_lossy().into_owned();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { greenroom: DIALECT, version, config, working_dir, connection }
    }

    /// Names what this process was told to run with, if it was told anything.
    pub fn wishes(&self) -> Option<String> {
        let names: Vec<_> = self.config.keys().map(String::as_str).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Whether a server of this version is one for us.
    pub fn check_version(&self, server: &str) -> Result<(), ConnectError> {
        if server == self.version {
            return Ok(());
        }
        Err(ConnectError::Refused(other_version(server, &self.version)))
    }
}

/// What the server says to it.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Welcome {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ok: bool,
    #[serde(default)]
    version: String,
    /// The longest line that the server takes.
    #[serde(default)]
    max_line: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("no server listens on {}", .0.display())]
    NotThere(PathBuf),
    /// It is there and cannot be used, with what to do about it.
    #[error("{0}")]
    Refused(String),
}

/// A connection on which both have said who they are.
pub struct Connection {
    pub lines: LineReader,
    pub writer: OwnedWriteHalf,
    /// The longest line that the server takes.
    pub max_line: usize,
}

/// Connects to the server behind a socket and introduces us.
pub async fn connect(path: &Path, hello: &Hello) -> Result<Connection, ConnectError> {
    let not_there = |_| ConnectError::NotThere(path.to_owned());
    let stream = match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(ConnectError::Refused(format!("{} belongs to another user", path.display())));
        }
        other => other.map_err(not_there)?,
    };
    if !is_same_user(&stream).map_err(not_there)? {
        return Err(ConnectError::Refused(format!(
            "the server behind {} runs as another user; choose a data folder of your own with `--data-dir`",
            path.display()
        )));
    }
    let exchange = async {
        let (reader, mut writer) = stream.into_split();
        writer.write_all(&line(hello)).await?;
        let mut lines = LineReader::new(Box::pin(reader), LONGEST_HELLO);
        let answer = lines.next_line().await.ok_or(io::ErrorKind::UnexpectedEof)?;
        let answer = answer.map_err(|_| io::ErrorKind::InvalidData)?;
        let welcome: Welcome = serde_json::from_slice(&answer)?;
        if !welcome.ok && welcome.error.is_none() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok::<_, io::Error>((welcome, lines, writer))
    };
    let (welcome, lines, writer) = match tokio::time::timeout(HELLO_LIMIT, exchange).await {
        Ok(Ok(done)) => done,
        // It went away in the middle of it.
        Ok(Err(error)) if error.kind() != io::ErrorKind::InvalidData => return Err(not_there(error)),
        Ok(Err(_)) => {
            return Err(ConnectError::Refused(format!(
                "what listens on {} is not greenroom",
                path.display()
            )));
        }
        Err(_) => {
            return Err(ConnectError::Refused(format!(
                "the server behind {} does not answer",
                path.display()
            )));
        }
    };
    match welcome {
        Welcome { error: Some(error), .. } => Err(ConnectError::Refused(error)),
        Welcome { version, max_line, .. } => {
            hello.check_version(&version)?;
            Ok(Connection { lines, writer, max_line })
        }
    }
}

fn other_version(server: &str, client: &str) -> String {
    format!(
        "the running server is greenroom {server} and this is {client}; restart the older one with the newer program"
    )
}

fn is_same_user(stream: &UnixStream) -> io::Result<bool> {
    Ok(stream.peer_cred()?.uid() == nix::unistd::geteuid().as_raw())
}

fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("texts and numbers can always be written");
    line.push(b'\n');
    line
}

/// The socket of one data folder. At most one process has it: who holds the lock beside it.
pub struct LocalSocket {
    listener: UnixListener,
    path: PathBuf,
    _lock: File,
}

impl LocalSocket {
    /// Takes the socket. The error says why there is none; the server works without it, too.
    pub fn bind(data_dir: &Path) -> io::Result<Self> {
        let path = socket_path(data_dir);
        if path.as_os_str().as_bytes().len() > LONGEST_PATH {
            return Err(io::Error::other(format!(
                "{} is longer than the {LONGEST_PATH} bytes that a socket's path may have",
                path.display()
            )));
        }
        // A lock, and no attempt to connect: of two that find a dead socket at the same time only one may replace it.
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(data_dir.join(format!("{NAME}.lock")))?;
        if lock.try_lock().is_err() {
            return Err(io::Error::other(format!(
                "another `greenroom serve` has {} already",
                path.display()
            )));
        }
        match std::fs::remove_file(&path) {
            Ok(()) => {
                tracing::debug!(path = %path.display(), "removed the socket of a server that was killed");
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(&path)?;
        let socket = Self { listener, path, _lock: lock };
        std::fs::set_permissions(&socket.path, std::fs::Permissions::from_mode(0o600))?;
        Ok(socket)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // The lock is still held, so it is ours.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What a connection needs to be served.
pub struct LocalService {
    pub engine: Engine,
    pub settings: Arc<Settings>,
    pub working_dir: PathBuf,
    pub max_line: usize,
    pub session_per_connection: bool,
}

/// Takes connections until `closing` is cancelled, and serves those it has until `shutdown` is.
pub async fn serve_local(
    socket: LocalSocket,
    service: LocalService,
    closing: CancellationToken,
    shutdown: CancellationToken,
) {
    let (service, connections) = (Arc::new(service), TaskTracker::new());
    let mut count = 0u64;
    while let Some(accepted) = closing.run_until_cancelled(socket.listener.accept()).await {
        match accepted {
            Ok((stream, _)) => {
                count += 1;
                connections.spawn(serve_one(Arc::clone(&service), stream, count, shutdown.clone()));
            }
            Err(error) => {
                // Too many open files, most likely: it passes.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(socket);
    shutdown.cancelled().await;
    connections.close();
    let _ = tokio::time::timeout(CLOSE_LIMIT, connections.wait()).await;
}

async fn serve_one(service: Arc<LocalService>, stream: UnixStream, number: u64, shutdown: CancellationToken) {
    if !is_same_user(&stream).unwrap_or(false) {
        tracing::warn!("another user's process was refused at the socket");
        return;
    }
    let (reader, mut writer) = stream.into_split();
    let mut lines = LineReader::new(Box::pin(reader), LONGEST_HELLO);
    let Ok(Some(Ok(first))) = tokio::time::timeout(HELLO_LIMIT, lines.next_line()).await else { return };
    let judged = service.judge(&first);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let mut welcome = Welcome { version, max_line: service.max_line, ..Welcome::default() };
    match &judged {
        Ok(_) => welcome.ok = true,
        Err(error) => welcome.error = Some(error.clone()),
    }
    if writer.write_all(&line(&welcome)).await.is_err() {
        return;
    }
    match judged {
        Ok(hello) => {
            tracing::debug!(number, working_dir = hello.working_dir, "a bridge has connected");
            let server =
                McpServerFactory::new(service.engine.clone(), service.origin(&hello, number)).server();
            // rmcp cancels the token it is given when the connection ends.
            let shutdown = shutdown.child_token();
            serve_lines(server, lines.with_limit(service.max_line), Box::pin(writer), shutdown).await;
            tracing::debug!(number, "a bridge has left");
        }
        Err(error) => tracing::debug!(error, "a bridge was refused"),
    }
}

impl LocalService {
    /// Whether a client can be served as it wants to be.
    fn judge(&self, first: &[u8]) -> Result<Hello, String> {
        let hello: Hello = serde_json::from_slice(first).map_err(|error| {
            format!("the first line on this socket has to be a greeting ({error}); use `greenroom mcp`")
        })?;
        let us = env!("CARGO_PKG_VERSION");
        if hello.greenroom != DIALECT || hello.version != us {
            return Err(other_version(us, &hello.version));
        }
        let unmet = self.settings.unmet(&hello.config, &self.working_dir);
        if unmet.is_empty() {
            return Ok(hello);
        }
        Err(format!(
            "the running server was started with other values of {}; give both the same, or leave them to the server",
            unmet.join(", ")
        ))
    }

    fn origin(&self, hello: &Hello, number: u64) -> Origin {
        let name = match hello.connection.as_str() {
            "" => format!("connection-{number}"),
            named => format!("connection-{named}"),
        };
        let session = match SessionName::new(name) {
            Ok(name) if self.session_per_connection => Bound::Implied(name),
            _ => Bound::Free,
        };
        Origin { caller: Caller::local(), session }
    }
}
