//! Messages as lines: one JSON object each, read and written within limits.

use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use greenroom_core::IdScanner;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

const READ_BYTES: usize = 64 * 1024;
/// Messages that may wait for somebody who does not read.
const QUEUE: usize = 64;

pub type Reader = Pin<Box<dyn AsyncRead + Send>>;
pub type Writer = Pin<Box<dyn AsyncWrite + Send>>;

/// Reads lines up to a limit. A longer one is read past, and whose message it was is found on the way.
pub struct LineReader {
    reader: Reader,
    buffer: BytesMut,
    searched: usize,
    dropping: Option<IdScanner>,
    max_line: usize,
}

impl LineReader {
    pub fn new(reader: Reader, max_line: usize) -> Self {
        let buffer = BytesMut::with_capacity(READ_BYTES);
        Self { reader, buffer, searched: 0, dropping: None, max_line }
    }

    /// Sets another limit from here on.
    #[must_use]
    pub fn with_limit(mut self, max_line: usize) -> Self {
        self.max_line = max_line;
        self
    }

    /// The next line with its end, or what is wrong with it. `None` when the input has ended. Safe to drop and call
    /// again: everything read so far stays in the buffer.
    pub async fn next_line(&mut self) -> Option<Result<Bytes, Refusal>> {
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
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }
}

/// Writes lines in a task of its own, so that a message is never cut in two when somebody stops waiting for it. It
/// ends when all senders are gone or nobody listens.
pub fn write_lines(mut writer: Writer) -> (mpsc::Sender<Bytes>, JoinHandle<()>) {
    let (sender, mut queue) = mpsc::channel::<Bytes>(QUEUE);
    let writing = tokio::spawn(async move {
        while let Some(message) = queue.recv().await {
            if writer.write_all(&message).await.is_err() || writer.flush().await.is_err() {
                return;
            }
        }
    });
    (sender, writing)
}

/// The answer to a line that cannot be served.
pub struct Refusal {
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
    pub fn unreadable(bytes: &[u8], error: &serde_json::Error) -> Self {
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

    pub fn line(&self) -> Bytes {
        let mut line = self.body();
        line.push(b'\n');
        line.into()
    }
}

fn raw_id(id: Option<&[u8]>) -> Box<RawValue> {
    id.and_then(|id| serde_json::from_slice(id).ok())
        .unwrap_or_else(|| RawValue::from_string("null".to_owned()).expect("null is JSON"))
}
