//! Finding out whose message it is that is too large to keep.

/// The most that is kept of an id.
const ID_BYTES: usize = 256;

/// Reads a JSON object as a stream of bytes and remembers the value of its top-level key `id`, holding nothing
/// else. Programs put that key first or last, so neither the head nor the tail of the message is enough.
#[derive(Default)]
pub struct IdScanner {
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The text of the top-level string under way, as far as it can still be `id`.
    token: [u8; 3],
    token_length: usize,
    state: State,
    value: Vec<u8>,
    id: Option<Vec<u8>>,
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
    pub fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.step(byte);
        }
    }

    /// The id as it was written, if the object had one that is a text or a number.
    pub fn id(&self) -> Option<&[u8]> {
        self.id.as_deref()
    }

    /// The id, if it is a whole number.
    pub fn number(&self) -> Option<u64> {
        std::str::from_utf8(self.id()?).ok()?.parse().ok()
    }

    fn step(&mut self, byte: u8) {
        let in_id = self.depth == 1 && self.state == State::IdValue;
        if self.in_string {
            if in_id {
                self.keep(byte);
            }
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
                if in_id {
                    self.keep(byte);
                }
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                if self.depth == 1 {
                    self.finish_value();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.state = if self.state == State::AfterIdKey { State::IdValue } else { State::OtherValue };
            }
            b',' if self.depth == 1 => {
                self.finish_value();
                self.state = State::Key;
            }
            _ if in_id && !byte.is_ascii_whitespace() => self.keep(byte),
            _ => {}
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.value.len() < ID_BYTES {
            self.value.push(byte);
        }
    }

    fn finish_value(&mut self) {
        if self.state == State::IdValue && !self.value.is_empty() && self.value.len() < ID_BYTES {
            self.id = Some(std::mem::take(&mut self.value));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::IdScanner;

    fn scan(text: &str) -> Option<String> {
        let mut scanner = IdScanner::default();
        scanner.feed(text.as_bytes());
        scanner.id().map(|id| String::from_utf8(id.to_vec()).unwrap())
    }

    #[test]
    fn finds_the_top_level_id_wherever_it_stands() {
        let found = |text| scan(text).unwrap();
        assert_eq!(found(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#), "7");
        assert_eq!(found(r#"{"result":{"id":3,"a":["x",{"id":4}]},"jsonrpc":"2.0","id":12}"#), "12");
        assert_eq!(found(r#"{"result":"\"id\":5,","id" : 9 }"#), "9");
        assert_eq!(found(r#"{"id":"a\"b,","method":"x"}"#), r#""a\"b,""#);
    }

    #[test]
    fn is_not_fooled_by_values_and_nested_keys() {
        assert_eq!(scan(r#"{"method":"id","params":{"id":1}}"#), None);
        assert_eq!(scan(r#"{"idx":1,"xid":2}"#), None);
        assert_eq!(scan(r#"{"id":{"id":1}}"#), None);
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
            prop_assert_eq!(scanner.number(), Some(id));
        }
    }
}
