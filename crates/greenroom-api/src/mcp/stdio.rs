//! MCP as lines, over standard input and output or a socket.
//!
//! rmcp's own transport drops a line that is broken or too long without a word, which leaves its sender waiting.
//! This one answers: every line gets a protocol error or a hearing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::time::Duration;

use bytes::Bytes;
use greenroom_engine::{Engine, Origin};
use rmcp::model::{ClientRequest, JsonRpcMessage};
use rmcp::service::{RoleServer, RxJsonRpcMessage, ServiceExt, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::lines::{LineReader, Reader, Refusal, Writer, write_lines};
use super::{Arrival, McpServer, McpServerFactory};

/// How long a client that has left may take to read what was answered last.
pub const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Serves one client on this process's standard streams, until its input closes or `shutdown` is cancelled.
pub async fn serve_stdio(
    engine: Engine,
    origin: Origin,
    max_line: usize,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let (reader, writer) = standard_streams()?;
    let server = McpServerFactory::new(engine, origin).server();
    serve_lines(server, LineReader::new(reader, max_line), writer, shutdown).await;
    Ok(())
}

/// Serves one client whose messages are lines, wherever they come from.
pub(crate) async fn serve_lines(
    server: McpServer,
    lines: LineReader,
    writer: Writer,
    shutdown: CancellationToken,
) {
    let (sender, mut writing) = write_lines(writer);
    let transport = LineTransport {
        lines,
        writer: Some(sender),
        engine: server.engine.clone(),
        origin: server.origin.clone(),
        client: server.alive.clone(),
    };
    match server.serve_with_ct(transport, shutdown).await {
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
}

struct LineTransport {
    lines: LineReader,
    writer: Option<mpsc::Sender<Bytes>>,
    engine: Engine,
    origin: Origin,
    /// Cancelled when the input ends, so that subscriptions do not outlive their client.
    client: CancellationToken,
}

impl LineTransport {
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

impl Transport<RoleServer> for LineTransport {
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
            let Some(line) = self.lines.next_line().await else {
                self.client.cancel();
                return None;
            };
            let refusal = match line {
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

/// Standard input and output without a thread between: agents start us with pipes or with socket pairs, and both
/// can be polled. Anything else (a file, a terminal) goes through tokio's blocking handles.
pub fn standard_streams() -> io::Result<(Reader, Writer)> {
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
