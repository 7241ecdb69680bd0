//! Bytes that cannot stand in an address as they are: `%20` and its like.

/// Escapes everything but letters, digits, `-_.~` and what else is plain here.
pub fn escape(text: impl AsRef<[u8]>, plain: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte) || plain.contains(byte);
    let mut escaped = String::new();
    for byte in text.as_ref() {
        if is_plain(byte) {
            escaped.push(char::from(*byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// What was escaped; `None` when it was not, or is no text.
pub fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::{escape, unescape};

    #[test]
    fn what_is_escaped_comes_back() {
        let text = "../a b/\u{fc}%2F?#";
        assert_eq!(escape(text, b""), "..%2Fa%20b%2F%C3%BC%252F%3F%23");
        assert_eq!(escape(text, b"/"), "../a%20b/%C3%BC%252F%3F%23");
        assert_eq!(unescape(&escape(text, b"/")).as_deref(), Some(text));
        assert_eq!(unescape("%zz"), None);
        assert_eq!(unescape("%2"), None);
    }
}
