//! MCP over standard input and output.
//!
//! rmcp's own transport drops a line that is broken or too long without a word, which leaves its sender waiting.
//! This one answers: every line gets a protocol error or a hearing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use greenroom_core::IdScanner;
use greenroom_engine::{Engine, Origin};
use rmcp::model::{ClientRequest, JsonRpcMessage};
use rmcp::service::{RoleServer, RxJsonRpcMessage, ServiceExt, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Arrival, McpServerFactory};

const READ_BYTES: usize = 64 * 1024;
/// How long a client that has left may take to read what was answered last.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// Answers that may wait for a client that does not read.
const QUEUE: usize = 64;

type Reader = Pin<Box<dyn AsyncRead + Send>>;
type Writer = Pin<Box<dyn AsyncWrite + Send>>;

/// Serves one client on this process's standard streams, until its input closes or `shutdown` is cancelled.
pub async fn serve_stdio(
    engine: Engine,
    origin: Origin,
    max_line: usize,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let (reader, writer) = streams()?;
    let server = McpServerFactory::new(engine.clone(), origin.clone()).server();
    let (transport, mut writing) =
        StdioTransport::new(reader, writer, max_line, (engine, origin), server.alive.clone());
    match server.serve_with_ct(transport, shutdown.clone()).await {
        Ok(running) => {
            let _ = running.waiting().await;
        }
        // The client left, or we were told to stop, before a session began.
        Err(error) => tracing::debug!(%error, "no MCP session was established"),
    }
    // What was answered last is on its way before the process goes, unless the client does not read it.
    if tokio::time::timeout(LAST_ANSWERS, &mut writing).await.is_err() {
        writing.abort();
    }
    Ok(())
}

struct StdioTransport {
    reader: Reader,
    buffer: BytesMut,
    searched: usize,
    dropping: Option<IdScanner>,
    max_line: usize,
    writer: Option<mpsc::Sender<Bytes>>,
    engine: Engine,
    origin: Origin,
    /// Cancelled when the input ends, so that subscriptions do not outlive their client.
    client: CancellationToken,
}

impl StdioTransport {
    fn new(
        reader: Reader,
        mut writer: Writer,
        max_line: usize,
        (engine, origin): (Engine, Origin),
        client: CancellationToken,
    ) -> (Self, JoinHandle<()>) {
        let (sender, mut queue) = mpsc::channel::<Bytes>(QUEUE);
        // A task of its own, so that a message is never cut in two when somebody stops waiting for it.
        let writing = tokio::spawn(async move {
            while let Some(message) = queue.recv().await {
                if writer.write_all(&message).await.is_err() || writer.flush().await.is_err() {
                    return;
                }
            }
        });
        let buffer = BytesMut::with_capacity(READ_BYTES);
        let transport = Self {
            reader,
            buffer,
            searched: 0,
            dropping: None,
            max_line,
            writer: Some(sender),
            engine,
            origin,
            client,
        };
        (transport, writing)
    }

    /// The next line, or what is wrong with it. `None` when the input has ended. Safe to drop and call again:
    /// everything read so far stays in the buffer.
    async fn next_line(&mut self) -> Option<Result<Bytes, Refusal>> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let line = self.buffer.split_to(self.searched + at + 1).freeze();
                self.searched = 0;
                if self.dropping.is_some() || line.len() > self.max_line {
                    let mut scanner = self.dropping.take().unwrap_or_default();
                    scanner.feed(&line);
                    return Some(Err(Refusal::too_long(&scanner, self.max_line)));
                }
                return Some(Ok(line));
            }
            self.searched = self.buffer.len();
            if self.dropping.is_some() || self.buffer.len() > self.max_line {
                self.dropping.get_or_insert_default().feed(&self.buffer);
                self.buffer.clear();
                self.searched = 0;
            }
            self.buffer.reserve(READ_BYTES);
            match self.reader.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => {
                    self.client.cancel();
                    return None;
                }
                Ok(_) => {}
            }
        }
    }
}

impl StdioTransport {
    /// A call takes its place in line here, where messages still come one after another.
    fn stamped(&self, mut message: RxJsonRpcMessage<RoleServer>) -> RxJsonRpcMessage<RoleServer> {
        if let JsonRpcMessage::Request(request) = &mut message
            && let ClientRequest::CallToolRequest(call) = &mut request.request
            && let Some(arrival) = Arrival::now(&self.engine, &self.origin, &call.params.name, |name| {
                call.params.arguments.as_ref()?.get(name).cloned()
            })
        {
            call.extensions.insert(arrival);
        }
        message
    }
}

impl Transport<RoleServer> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let writer = self.writer.clone();
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the client does not listen any more");
            writer.ok_or_else(gone)?.send(line.into()).await.map_err(|_| gone())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let refusal = match self.next_line().await? {
                Ok(line) => {
                    let text = line.trim_ascii();
                    if text.is_empty() {
                        continue;
                    }
                    match serde_json::from_slice(text) {
                        Ok(message) => return Some(self.stamped(message)),
                        Err(error) => Refusal::unreadable(text, &error),
                    }
                }
                Err(refusal) => refusal,
            };
            tracing::debug!(message = refusal.message, "refused a line");
            if let Some(writer) = &self.writer {
                let _ = writer.send(refusal.line()).await;
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.writer = None;
        Ok(())
    }
}

/// The answer to a line that cannot be served.
pub(crate) struct Refusal {
    id: Box<RawValue>,
    code: i32,
    pub(crate) message: String,
}

impl Refusal {
    fn too_long(scanner: &IdScanner, limit: usize) -> Self {
        let message = format!("The message is larger than {} MiB (MAX_REQUEST_MB).", limit / (1024 * 1024));
        Self { id: raw_id(scanner.id()), code: -32600, message }
    }

    /// For bytes that are no message of MCP: says whether they are not even JSON.
    pub(crate) fn unreadable(bytes: &[u8], error: &serde_json::Error) -> Self {
        if serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_err() {
            let message = format!("Parse error: this is not JSON ({error}).");
            return Self { id: raw_id(None), code: -32700, message };
        }
        let mut scanner = IdScanner::default();
        scanner.feed(bytes);
        let message = if bytes.first() == Some(&b'[') {
            "Invalid request: batches are not part of MCP; send one message at a time.".to_owned()
        } else {
            format!("Invalid request: this is JSON, but not a message of MCP ({error}).")
        };
        Self { id: raw_id(scanner.id()), code: -32600, message }
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        let error = serde_json::json!({ "code": self.code, "message": self.message });
        format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, self.id.get()).into_bytes()
    }

    fn line(&self) -> Bytes {
        let mut line = self.body();
        line.push(b'\n');
        line.into()
    }
}

fn raw_id(id: Option<&[u8]>) -> Box<RawValue> {
    id.and_then(|id| serde_json::from_slice(id).ok())
        .unwrap_or_else(|| RawValue::from_string("null".to_owned()).expect("null is JSON"))
}

/// Standard input and output without a thread between: agents start us with pipes or with socket pairs, and both
/// can be polled. Anything else (a file, a terminal) goes through tokio's blocking handles.
fn streams() -> io::Result<(Reader, Writer)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let reader: Reader = match kind(&input)? {
        Kind::Pipe => Box::pin(pipe::Receiver::from_owned_fd(reopen(&input, false)?)?),
        Kind::Socket => Box::pin(socket(input)?),
        Kind::Other => Box::pin(tokio::io::stdin()),
    };
    let writer: Writer = match kind(&output)? {
        Kind::Pipe => Box::pin(pipe::Sender::from_owned_fd(reopen(&output, true)?)?),
        Kind::Socket => Box::pin(socket(output)?),
        Kind::Other => Box::pin(tokio::io::stdout()),
    };
    Ok((reader, writer))
}

enum Kind {
    Pipe,
    Socket,
    Other,
}

fn kind(fd: &OwnedFd) -> io::Result<Kind> {
    let file_type = std::fs::File::from(fd.try_clone()?).metadata()?.file_type();
    Ok(match () {
        () if file_type.is_fifo() => Kind::Pipe,
        () if file_type.is_socket() => Kind::Socket,
        () => Kind::Other,
    })
}

/// Opens the pipe anew: non-blocking is a property of the open file, which others may share.
fn reopen(fd: &OwnedFd, write: bool) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    // O_NONBLOCK on Linux.
    let file = std::fs::OpenOptions::new().read(!write).write(write).custom_flags(0o4000).open(path)?;
    Ok(file.into())
}

fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(fd);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}
