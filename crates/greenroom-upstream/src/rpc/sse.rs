//! Server-sent events, as far as MCP uses them: the data of each event, within a limit.

use bytes::{Bytes, BytesMut};

#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    Data(Bytes),
    /// The event was over the limit; its data is gone.
    TooLarge,
}

/// Takes a stream apart, however it is cut.
pub struct EventReader {
    limit: usize,
    line: BytesMut,
    data: BytesMut,
    has_data: bool,
    too_large: bool,
}

impl EventReader {
    pub fn new(limit: usize) -> Self {
        Self { limit, line: BytesMut::new(), data: BytesMut::new(), has_data: false, too_large: false }
    }

    pub fn push(&mut self, mut chunk: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(end) = memchr::memchr(b'\n', chunk) {
            self.keep(&chunk[..end]);
            chunk = &chunk[end + 1..];
            let mut line = self.line.split();
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            if line.is_empty() {
                events.extend(self.dispatch());
            } else if let Some(value) = line.strip_prefix(b"data:") {
                let value = value.strip_prefix(b" ").unwrap_or(value);
                if self.has_data {
                    self.data.extend_from_slice(b"\n");
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
                if self.data.len() > self.limit {
                    self.too_large = true;
                    self.data.clear();
                }
            }
        }
        self.keep(chunk);
        events
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.line.len() + bytes.len() > self.limit + 64 {
            self.too_large = true;
            self.has_data = true;
            // What remains is still told apart from an empty line, which would end the event.
            self.line.truncate(1);
            return;
        }
        self.line.extend_from_slice(bytes);
    }

    fn dispatch(&mut self) -> Option<Event> {
        let data = self.data.split().freeze();
        let (has_data, too_large) = (self.has_data, self.too_large);
        (self.has_data, self.too_large) = (false, false);
        match (has_data, too_large) {
            (_, true) => Some(Event::TooLarge),
            (true, false) if !data.is_empty() => Some(Event::Data(data)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, EventReader};

    fn read(limit: usize, text: &str, cut: usize) -> Vec<Event> {
        let mut reader = EventReader::new(limit);
        text.as_bytes().chunks(cut).flat_map(|chunk| reader.push(chunk)).collect()
    }

    fn data(text: &'static str) -> Event {
        Event::Data(text.as_bytes().into())
    }

    #[test]
    fn reads_events_however_they_are_cut() {
        let text = "id: 1\nretry: 3000\ndata:\n\nevent: message\r\ndata: {\"a\":1}\r\n\r\n: comment\ndata:x\ndata: y\n\n";
        for cut in 1..text.len() {
            assert_eq!(read(100, text, cut), [data("{\"a\":1}"), data("x\ny")], "cut at {cut}");
        }
    }

    #[test]
    fn an_event_over_the_limit_is_named_and_the_next_one_is_read() {
        let text = format!("data: {}\n\ndata: ok\n\n", "x".repeat(500));
        for cut in [1, 7, 64, 1000] {
            assert_eq!(read(100, &text, cut), [Event::TooLarge, data("ok")], "cut at {cut}");
        }
    }
}
