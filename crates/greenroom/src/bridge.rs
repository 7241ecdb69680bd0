//! `greenroom mcp` as a bridge: an agent on standard input and output, a running server on the other side.
//!
//! ```text
//! agent ──lines──► up ──────────────────────► server
//!   ▲               └─ no server: answers ─┐
//!   └────────────────────────────── down ◄─┴──┘  reconnects, replays the handshake
//! ```
//!
//! The server may go and come back: the agent's process and its MCP session go on. Nothing is queued here: what the one
//! side does not read, the other side has to wait with.

mod desk;
mod http;
mod target;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use greenroom_api::local::{ConnectError, Hello};
use greenroom_api::mcp::lines::{LineReader, Refusal, Writer};
use greenroom_api::mcp::{LAST_ANSWERS, standard_streams};
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use desk::{Desk, Replay, Verdict};
pub(crate) use target::{Link, Target};

/// Pauses between attempts to reach a server that went away.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long a server may take to answer a handshake that is repeated.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

const TOOLS_CHANGED: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";

/// Serves the agent on this process's standard streams until it leaves.
pub(crate) async fn run(target: Target, hello: Hello, first: Link) -> io::Result<()> {
    let (reader, writer) = standard_streams()?;
    let lines = LineReader::new(reader, first.max_line);
    let bridge = Arc::new(Bridge {
        target,
        hello,
        max_line: first.max_line,
        agent: Mutex::new(writer),
        desk: Desk::new(first.writer),
        left: CancellationToken::new(),
    });
    let mut down = tokio::spawn(Arc::clone(&bridge).down(first.lines));
    tokio::select! {
        _ = bridge.up(lines) => {}
        // It ends by itself only when the agent does not listen any more.
        _ = &mut down => return Ok(()),
    }
    bridge.leave().await;
    // What is answered last still reaches the agent, if it reads it.
    if tokio::time::timeout(LAST_ANSWERS, &mut down).await.is_err() {
        down.abort();
    }
    Ok(())
}

struct Bridge {
    target: Target,
    hello: Hello,
    max_line: usize,
    agent: Mutex<Writer>,
    desk: Desk,
    /// Cancelled when the agent has closed its side.
    left: CancellationToken,
}

/// The server is gone.
struct Gone;

impl Bridge {
    /// From the agent to the server.
    async fn up(&self, mut lines: LineReader) -> io::Result<()> {
        while let Some(line) = lines.next_line().await {
            let line = match line {
                Ok(line) => line,
                Err(refusal) => {
                    self.tell(&refusal.line()).await?;
                    continue;
                }
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            match self.desk.hear_agent(&line).await {
                // Whether it got there shows on the way down, which also answers for it if it did not.
                Verdict::PassOn(server) => {
                    let _ = send(&mut *server.lock().await, &line).await;
                }
                Verdict::Answer(answer) => self.tell(&answer).await?,
                Verdict::Unreadable(error) => {
                    self.tell(&Refusal::unreadable(line.trim_ascii(), &error).line()).await?;
                }
                Verdict::Nothing => {}
            }
        }
        Ok(())
    }

    /// From the server to the agent, and from the next server when this one is gone.
    async fn down(self: Arc<Self>, mut lines: LineReader) -> io::Result<()> {
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            while let Some(line) = lines.next_line().await {
                self.pass_down(line).await?;
            }
            if self.left.is_cancelled() {
                return Ok(());
            }
            // One that goes as soon as it has come is not asked any faster than one that is away.
            if begun.elapsed() > LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
            self.miss_server().await?;
            lines = loop {
                let next = self.left.run_until_cancelled(self.reconnect(&mut pause)).await;
                let Some(link) = next else { return Ok(()) };
                match self.introduce(link).await? {
                    Ok(lines) => break lines,
                    Err(Gone) => self.miss_server().await?,
                }
            };
            tracing::info!("the server is back");
            // It may be a server with other tools.
            if self.desk.has_met() {
                self.tell(TOOLS_CHANGED).await?;
            }
        }
    }

    /// Answers for a server that does not any more.
    async fn miss_server(&self) -> io::Result<()> {
        let unanswered = self.desk.server_left();
        tracing::warn!(calls = unanswered.len(), "the server went away; waiting for it to come back");
        for answer in unanswered {
            self.tell(&answer).await?;
        }
        Ok(())
    }

    /// Repeats what the agent has said to begin with, and opens the way up.
    async fn introduce(&self, link: Link) -> io::Result<Result<LineReader, Gone>> {
        let Link { mut lines, mut writer, .. } = link;
        loop {
            let (line, id, is_heard) = match self.desk.next_replay(writer) {
                Replay::Done => return Ok(Ok(lines)),
                Replay::Say { line, back } => {
                    writer = back;
                    if send(&mut writer, &line).await.is_err() {
                        return Ok(Err(Gone));
                    }
                    continue;
                }
                Replay::Ask { line, id, is_heard, back } => {
                    writer = back;
                    (line, id, is_heard)
                }
            };
            if send(&mut writer, &line).await.is_err() {
                return Ok(Err(Gone));
            }
            let answer = async {
                while let Some(line) = lines.next_line().await {
                    let is_it = line.as_ref().is_ok_and(|line| desk::answers(line).as_deref() == Some(&id));
                    // An agent that has its answer already does not get another.
                    if !is_it || !is_heard {
                        self.pass_down(line).await?;
                    }
                    if is_it {
                        return Ok(Ok(()));
                    }
                }
                io::Result::Ok(Err(Gone))
            };
            match tokio::time::timeout(HANDSHAKE_LIMIT, answer).await {
                Ok(outcome) => {
                    if outcome?.is_err() {
                        return Ok(Err(Gone));
                    }
                }
                Err(_) => return Ok(Err(Gone)),
            }
        }
    }

    async fn pass_down(&self, line: Result<Bytes, Refusal>) -> io::Result<()> {
        match line {
            Ok(line) => {
                self.desk.hear_server(&line);
                self.tell(&line).await
            }
            Err(refusal) => {
                let line = refusal.line();
                self.desk.hear_server(&line);
                self.tell(&line).await
            }
        }
    }

    async fn reconnect(&self, pause: &mut Duration) -> Link {
        loop {
            tokio::time::sleep(*pause).await;
            *pause = (*pause * 2).min(LONGEST_PAUSE);
            match self.target.connect(&self.hello, self.max_line).await {
                Ok(link) => return link,
                Err(error) => {
                    let refusal = matches!(error, ConnectError::Refused(_)).then(|| error.to_string());
                    let why = refusal.clone().unwrap_or_default();
                    if self.desk.explain(refusal) && !why.is_empty() {
                        tracing::warn!("the server that came back cannot be used: {why}");
                    }
                }
            }
        }
    }

    async fn tell(&self, line: &[u8]) -> io::Result<()> {
        send(&mut *self.agent.lock().await, line).await
    }

    /// The agent has closed its side; the server is told by the same means.
    async fn leave(&self) {
        self.left.cancel();
        if let Some(server) = self.desk.server() {
            let _ = server.lock().await.shutdown().await;
        }
    }
}

async fn send(writer: &mut Writer, line: &[u8]) -> io::Result<()> {
    writer.write_all(line).await?;
    writer.flush().await
}
