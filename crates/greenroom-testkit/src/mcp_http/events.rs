//! Server-sent events, as far as MCP uses them.

use std::io::{self, BufRead};

/// The data of the next event that has any, or `None` where the stream ended.
pub(super) fn read_event(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut data: Option<String> = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            // An event that was not finished does not count.
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            match data.take() {
                Some(data) if !data.is_empty() => return Ok(Some(data)),
                // Without data it only carries an id, or keeps the connection awake.
                _ => continue,
            }
        }
        if let Some(value) = text.strip_prefix("data:") {
            let value = value.strip_prefix(' ').unwrap_or(value);
            data = Some(match data.take() {
                None => value.to_owned(),
                Some(before) => before + "\n" + value,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read_event;

    #[test]
    fn only_events_with_data_come_out() {
        let mut wire: &[u8] =
            b": awake\n\nid: 1\ndata:\n\nevent: message\r\ndata: one\r\n\r\ndata: a\ndata:b\n\ndata: cut";
        let mut next = || read_event(&mut wire).unwrap();
        assert_eq!(next().as_deref(), Some("one"));
        assert_eq!(next().as_deref(), Some("a\nb"));
        assert_eq!(next(), None);
    }
}
