//! MCP over a child's standard streams, one message a line.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};

use super::Flood;
use super::call::{self, Call};

const READ_BYTES: usize = 256 * 1024;

pub(crate) struct StdioClient {
    stdin: ChildStdin,
    stdout: ChildStdout,
    buffer: BytesMut,
    /// How much of the buffer is known to have no line end.
    searched: usize,
    last_id: u64,
}

impl StdioClient {
    /// Greets the server and waits for its answer.
    pub(crate) async fn connect(stdin: ChildStdin, stdout: ChildStdout) -> Result<Self> {
        let buffer = BytesMut::with_capacity(READ_BYTES);
        let mut client = Self { stdin, stdout, buffer, searched: 0, last_id: 0 };
        let id = client.next_id();
        client.write(&call::initialize(id)).await?;
        while call::response(&client.line().await?)?.is_none_or(|(answered, _)| answered != id) {}
        client.write(call::INITIALIZED).await?;
        Ok(client)
    }

    pub(crate) async fn call(&mut self, call: &Call) -> Result<Duration> {
        let id = self.next_id();
        let message = call.message(id);
        let began = Instant::now();
        self.write(&message).await?;
        loop {
            let line = self.line().await?;
            let took = began.elapsed();
            if call.is_answered_by(&line, id)? {
                return Ok(took);
            }
        }
    }

    /// Pipelined: each answer makes room for the next request, and requests whose room came together go together.
    pub(super) async fn flood(&mut self, call: &Call, in_flight: usize, time: Duration) -> Result<Flood> {
        let mut waiting = HashSet::with_capacity(in_flight);
        let mut batch = Vec::new();
        let mut calls = 0;
        let began = Instant::now();
        loop {
            let asking = began.elapsed() < time;
            while asking && waiting.len() < in_flight {
                let id = self.next_id();
                waiting.insert(id);
                batch.extend_from_slice(call.message(id).as_bytes());
                batch.push(b'\n');
            }
            if !batch.is_empty() {
                self.stdin.write_all(&batch).await?;
                batch.clear();
            }
            if waiting.is_empty() {
                return Ok(Flood { calls, took: began.elapsed() });
            }
            let mut line = Some(self.line().await?);
            while let Some(message) = line {
                if let Some((id, length)) = call::text_of(&message)? {
                    call.check(&message, length)?;
                    ensure!(waiting.remove(&id), "request {id} was answered twice, or never made");
                    calls += 1;
                }
                line = self.line_at_hand();
            }
        }
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    async fn write(&mut self, message: &str) -> Result<()> {
        let mut line = Vec::with_capacity(message.len() + 1);
        line.extend_from_slice(message.as_bytes());
        line.push(b'\n');
        self.stdin.write_all(&line).await.context("the server does not read any more")
    }

    async fn line(&mut self) -> Result<Bytes> {
        loop {
            if let Some(line) = self.line_at_hand() {
                return Ok(line);
            }
            self.buffer.reserve(READ_BYTES);
            let read = self.stdout.read_buf(&mut self.buffer).await?;
            ensure!(read > 0, "the server closed its output");
        }
    }

    fn line_at_hand(&mut self) -> Option<Bytes> {
        let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.searched + at + 1).freeze();
        self.searched = 0;
        Some(line)
    }
}
