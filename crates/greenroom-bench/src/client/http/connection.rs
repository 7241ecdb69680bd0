//! One kept connection: a request is one write, and its answer is read to the end.

use std::borrow::Cow;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bytes::{Buf, BytesMut};
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::body::Framing;
use super::events::{Event, Scanner};
use super::head::Head;

const READ_BYTES: usize = 256 * 1024;

pub(super) struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
}

/// A whole answer, with the times at which its messages were complete.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) session: Option<String>,
    pub(super) keeps_connection: bool,
    body: Vec<u8>,
    messages: Messages,
}

enum Messages {
    Events(Vec<(Instant, Event)>),
    Whole(Instant),
}

impl Connection {
    pub(super) async fn open(authority: &str) -> Result<Self> {
        let stream =
            TcpStream::connect(authority).await.with_context(|| format!("cannot connect to {authority}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: BytesMut::with_capacity(READ_BYTES) })
    }

    pub(super) async fn send(&mut self, request: &[u8]) -> Result<Answer> {
        self.stream.write_all(request).await.context("the server does not read any more")?;
        let Head { status, mut framing, is_event_stream, keeps_connection, session } = self.head().await?;
        let mut body = Vec::new();
        let mut events = Vec::new();
        let mut scanner = Scanner::default();
        loop {
            let complete = framing.decode(&mut self.buffer, &mut body)?;
            if is_event_stream {
                while let Some(event) = scanner.next(&body) {
                    events.push((Instant::now(), event));
                }
            }
            if complete {
                break;
            }
            if self.read().await? == 0 {
                ensure!(matches!(framing, Framing::ToClose), "the connection closed within an answer");
                break;
            }
        }
        let messages =
            if is_event_stream { Messages::Events(events) } else { Messages::Whole(Instant::now()) };
        Ok(Answer { status, session, keeps_connection, body, messages })
    }

    async fn head(&mut self) -> Result<Head> {
        loop {
            if let Some(end) = memmem::find(&self.buffer, b"\r\n\r\n") {
                let head = Head::parse(&self.buffer[..end])?;
                self.buffer.advance(end + 4);
                return Ok(head);
            }
            ensure!(self.read().await? > 0, "the connection closed before an answer");
        }
    }

    async fn read(&mut self) -> Result<usize> {
        self.buffer.reserve(READ_BYTES);
        Ok(self.stream.read_buf(&mut self.buffer).await?)
    }
}

impl Answer {
    pub(super) fn messages(&self) -> Vec<(Instant, Cow<'_, [u8]>)> {
        match &self.messages {
            Messages::Events(events) => {
                events.iter().map(|(arrived, event)| (*arrived, event.data(&self.body))).collect()
            }
            Messages::Whole(arrived) => vec![(*arrived, Cow::Borrowed(self.body.as_slice()))],
        }
    }
}
