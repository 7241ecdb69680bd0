//! Server-sent events, found as they arrive.

use std::borrow::Cow;
use std::ops::Range;

/// Looks for events in a body that grows.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    /// Where the line begins that is not complete yet.
    line_start: usize,
    /// How far line ends have been looked for.
    searched: usize,
    event: Event,
}

/// The places in the body that are one event's data, a line each.
#[derive(Debug, Default)]
pub(super) struct Event(Vec<Range<usize>>);

impl Scanner {
    /// The next event that is complete in `body`, which is what it was before and perhaps more.
    pub(super) fn next(&mut self, body: &[u8]) -> Option<Event> {
        while let Some(at) = memchr::memchr(b'\n', &body[self.searched..]) {
            let (start, mut end) = (self.line_start, self.searched + at);
            self.line_start = end + 1;
            self.searched = end + 1;
            if end > start && body[end - 1] == b'\r' {
                end -= 1;
            }
            let line = &body[start..end];
            if line.is_empty() {
                let event = std::mem::take(&mut self.event);
                // Comments and bare ids make no event.
                if !event.0.is_empty() {
                    return Some(event);
                }
            } else if let Some(value) = line.strip_prefix(b"data:") {
                let space = usize::from(value.first() == Some(&b' '));
                self.event.0.push(end - value.len() + space..end);
            }
        }
        self.searched = body.len();
        None
    }
}

impl Event {
    pub(super) fn data<'a>(&self, body: &'a [u8]) -> Cow<'a, [u8]> {
        match self.0.as_slice() {
            [line] => Cow::Borrowed(&body[line.clone()]),
            lines => {
                let lines: Vec<_> = lines.iter().map(|line| &body[line.clone()]).collect();
                Cow::Owned(lines.join(&b'\n'))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(wire: &str, step: usize) -> Vec<String> {
        let (mut scanner, mut body, mut found) = (Scanner::default(), Vec::new(), Vec::new());
        for piece in wire.as_bytes().chunks(step) {
            body.extend_from_slice(piece);
            while let Some(event) = scanner.next(&body) {
                found.push(String::from_utf8(event.data(&body).into_owned()).unwrap());
            }
        }
        found
    }

    #[test]
    fn events_are_found_however_the_bytes_are_cut() {
        let wire = ": hi\n\nid: 0\nretry: 3000\ndata:\n\nevent: message\r\ndata: {\"id\":1}\r\n\r\n\
                    id: 7\n\ndata:a\ndata:  b\n\ndata: never ended\n";
        for step in 1..=wire.len() {
            assert_eq!(scan(wire, step), ["", r#"{"id":1}"#, "a\n b"], "in pieces of {step}");
        }
    }

    #[test]
    fn an_event_is_there_with_its_empty_line_and_not_before() {
        assert!(scan("data: x\n", 1).is_empty());
        assert_eq!(scan("data: x\n\n", 1), ["x"]);
    }
}
