//! Finding out whose answer a message is that is too large to keep.

/// Reads a JSON object as a stream of bytes and remembers the number at its top-level key `id`, holding nothing
/// else. Servers put that key first or last, so neither the head nor the tail of the message is enough.
#[derive(Default)]
pub(crate) struct IdScanner {
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The text of the top-level string under way, as far as it can still be `id`.
    token: [u8; 3],
    token_length: usize,
    /// A top-level key was just read and its colon has not come yet, or has.
    state: State,
    number: Option<u64>,
    id: Option<u64>,
}

#[derive(Default, PartialEq)]
enum State {
    #[default]
    Key,
    AfterIdKey,
    IdValue,
    OtherValue,
}

impl IdScanner {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.step(byte);
        }
    }

    /// The id, if the object had one that is a whole number.
    pub(crate) fn id(&self) -> Option<u64> {
        self.id
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            if self.escaped {
                self.escaped = false;
            } else if byte == b'\\' {
                self.escaped = true;
            } else if byte == b'"' {
                self.in_string = false;
                let is_id = self.token_length == 2 && &self.token[..2] == b"id";
                if self.depth == 1 && self.state == State::Key && is_id {
                    self.state = State::AfterIdKey;
                }
                return;
            }
            if self.depth == 1 && self.token_length < self.token.len() {
                self.token[self.token_length] = byte;
                self.token_length += 1;
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.token_length = 0;
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                if self.depth == 1 {
                    self.finish_value();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.state =
                    if self.state == State::AfterIdKey { State::IdValue } else { State::OtherValue };
            }
            b',' if self.depth == 1 => {
                self.finish_value();
                self.state = State::Key;
            }
            b'0'..=b'9' if self.depth == 1 && self.state == State::IdValue => {
                let digit = u64::from(byte - b'0');
                self.number = self.number.unwrap_or(0).checked_mul(10).and_then(|n| n.checked_add(digit));
            }
            _ => {}
        }
    }

    fn finish_value(&mut self) {
        if self.state == State::IdValue {
            self.id = self.number.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::IdScanner;

    fn scan(text: &str) -> Option<u64> {
        let mut scanner = IdScanner::default();
        scanner.feed(text.as_bytes());
        scanner.id()
    }

    #[test]
    fn finds_the_top_level_id_wherever_it_stands() {
        assert_eq!(scan(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#), Some(7));
        assert_eq!(scan(r#"{"result":{"id":3,"a":["x",{"id":4}]},"jsonrpc":"2.0","id":12}"#), Some(12));
        assert_eq!(scan(r#"{"result":"\"id\":5,","id" : 9 }"#), Some(9));
    }

    #[test]
    fn is_not_fooled_by_values_and_nested_keys() {
        assert_eq!(scan(r#"{"method":"id","params":{"id":1}}"#), None);
        assert_eq!(scan(r#"{"idx":1,"xid":2}"#), None);
        assert_eq!(scan(r#"{"id":"text"}"#), None);
        assert_eq!(scan(r#"{"id":99999999999999999999999}"#), None);
    }

    proptest! {
        #[test]
        fn agrees_with_a_parser_however_the_bytes_are_cut(
            id in any::<u64>(),
            text in ".*",
            id_last in any::<bool>(),
            cut in 1usize..40,
        ) {
            let result = serde_json::json!({ "content": [{ "text": text }], "id": 1 });
            let message = if id_last {
                format!(r#"{{"result":{result},"jsonrpc":"2.0","id":{id}}}"#)
            } else {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
            };
            let mut scanner = IdScanner::default();
            for chunk in message.as_bytes().chunks(cut) {
                scanner.feed(chunk);
            }
            prop_assert_eq!(scanner.id(), Some(id));
        }
    }
}
