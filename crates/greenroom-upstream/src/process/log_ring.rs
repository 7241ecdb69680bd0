//! The end of what a process printed, in bounded memory however much it prints.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

const LINES: usize = 50;
const LINE_BYTES: usize = 2000;
/// How many of the lines an error shows.
const TAIL: usize = 12;

#[derive(Clone, Default)]
pub(super) struct LogRing(Arc<Mutex<VecDeque<String>>>);

impl LogRing {
    pub(super) fn tail(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().skip(lines.len().saturating_sub(TAIL)).cloned().collect()
    }

    fn push(&self, line: &[u8]) -> Option<String> {
        let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        if text.is_empty() {
            return None;
        }
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(text.clone());
        Some(text)
    }

    /// Reads the stream to its end. A line that is too long is cut; nothing is held beyond the ring.
    pub(super) async fn fill(&self, pid: u32, mut stream: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 8 * 1024];
        let mut line = Vec::new();
        while let Ok(count @ 1..) = stream.read(&mut chunk).await {
            for part in chunk[..count].split_inclusive(|byte| *byte == b'\n') {
                let room = LINE_BYTES.saturating_sub(line.len());
                line.extend_from_slice(&part[..part.len().min(room)]);
                if part.ends_with(b"\n") {
                    if let Some(text) = self.push(&line) {
                        tracing::debug!(target: "greenroom_upstream::output", pid, "{text}");
                    }
                    line.clear();
                }
            }
        }
        self.push(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES, LINES, LogRing, TAIL};

    #[tokio::test]
    async fn keeps_the_end_and_cuts_long_lines() {
        let ring = LogRing::default();
        let mut text: Vec<u8> = (0..1000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        text.extend(vec![b'x'; 1_000_000]);
        text.extend(b"\nlast words");
        ring.fill(1, text.as_slice()).await;
        let tail = ring.tail();
        assert_eq!(tail.len(), TAIL);
        assert_eq!(tail.last().unwrap(), "last words");
        assert_eq!(tail[TAIL - 2].len(), LINE_BYTES);
        assert_eq!(ring.0.lock().unwrap().len(), LINES);
    }
}
