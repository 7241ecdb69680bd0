//! Newline-delimited JSON over a pair of byte streams: MCP's stdio transport.

use bytes::{Bytes, BytesMut};
use greenroom_core::IdScanner;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::peer::{Ended, Outgoing, Peer};

const READ_BYTES: usize = 64 * 1024;

/// Connects a peer to the two streams. When the incoming one is over, `on_end` is asked why, so that the reason
/// can name the process and its last words.
pub fn connect_lines<R, W, F>(
    reader: R,
    writer: W,
    roots: Vec<String>,
    message_limit: usize,
    on_end: impl FnOnce() -> F + Send + 'static,
) -> Peer
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
    F: Future<Output = Ended> + Send,
{
    let (sender, queue) = mpsc::unbounded_channel();
    let closing = CancellationToken::new();
    let lines = Lines { queue: sender, closing: closing.clone() };
    let peer = Peer::new(roots, message_limit, |_| Box::new(lines));
    tokio::spawn(async move {
        // Dropping the writer closes the stream, which is how MCP says goodbye over stdio.
        let _ = closing.run_until_cancelled(write_lines(writer, queue)).await;
    });
    let reading = peer.clone();
    tokio::spawn(async move {
        read_lines(reader, &reading).await;
        reading.end(on_end().await);
    });
    peer
}

struct Lines {
    queue: mpsc::UnboundedSender<Bytes>,
    closing: CancellationToken,
}

impl Outgoing for Lines {
    fn send(&self, _id: Option<u64>, message: Bytes) {
        // A writer that is gone means that the reader is about to notice the same; it ends the peer.
        let _ = self.queue.send(message);
    }

    fn close(&self) {
        self.closing.cancel();
    }
}

/// Writes what has queued up in one go: under load, one system call carries many messages.
async fn write_lines(mut writer: impl AsyncWrite + Unpin, mut queue: mpsc::UnboundedReceiver<Bytes>) {
    let mut batch = BytesMut::new();
    while let Some(message) = queue.recv().await {
        batch.extend_from_slice(&message);
        batch.extend_from_slice(b"\n");
        while batch.len() < READ_BYTES
            && let Ok(more) = queue.try_recv()
        {
            batch.extend_from_slice(&more);
            batch.extend_from_slice(b"\n");
        }
        if writer.write_all(&batch).await.is_err() || writer.flush().await.is_err() {
            return;
        }
        batch.clear();
    }
}

/// Reads lines until the stream is over. Memory is bounded by the limit, whatever arrives.
async fn read_lines(mut reader: impl AsyncRead + Unpin, peer: &Peer) {
    let limit = peer.message_limit();
    let mut buffer = BytesMut::with_capacity(READ_BYTES);
    let mut searched = 0;
    // While a line over the limit passes by, only its id is looked for.
    let mut dropping: Option<IdScanner> = None;
    loop {
        while let Some(end) = memchr::memchr(b'\n', &buffer[searched..]).map(|at| searched + at) {
            let line = buffer.split_to(end + 1).freeze();
            searched = 0;
            if let Some(mut scanner) = dropping.take() {
                scanner.feed(&line);
                peer.oversized(scanner.number());
            } else if line.len() > limit {
                let mut scanner = IdScanner::default();
                scanner.feed(&line);
                peer.oversized(scanner.number());
            } else {
                let text = line.trim_ascii();
                if !text.is_empty() {
                    peer.incoming(&line.slice_ref(text));
                }
            }
        }
        searched = buffer.len();
        if dropping.is_some() || buffer.len() > limit {
            dropping.get_or_insert_default().feed(&buffer);
            buffer.clear();
            searched = 0;
        }
        buffer.reserve(READ_BYTES);
        match reader.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}
