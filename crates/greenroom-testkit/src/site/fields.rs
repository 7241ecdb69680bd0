//! Names with values, as queries, forms and cookies have them.

pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// A query, or the body of a form that was not sent as multipart.
    pub(super) fn from_urlencoded(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self(pairs.collect())
    }

    /// The value of a `Cookie` header.
    pub(super) fn from_cookies(header: &str) -> Self {
        let pairs = header.split(';').filter_map(|pair| pair.trim().split_once('='));
        Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    pub(super) fn number(&self, name: &str, otherwise: u64) -> u64 {
        self.get(name).and_then(|value| value.parse().ok()).unwrap_or(otherwise)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Undoes `+` and `%41`. An escape that is none stays as it is.
fn decode(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        let escaped = after.first_chunk::<2>().filter(|_| *byte == b'%').and_then(|hex| {
            // Only digits: the parser would take a sign too.
            let is_hex = hex.iter().all(u8::is_ascii_hexdigit);
            str::from_utf8(hex).ok().filter(|_| is_hex).and_then(|hex| u8::from_str_radix(hex, 16).ok())
        });
        match (byte, escaped) {
            (_, Some(escaped)) => {
                decoded.push(escaped);
                rest = &after[2..];
            }
            (b'+', None) => decoded.push(b' '),
            (byte, None) => decoded.push(*byte),
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone_and_half_escapes_are_kept() {
        let fields = Fields::from_urlencoded("name=Ada+Lovelace&note=5%25+%C3%A9&odd=%4&empty");
        assert_eq!(fields.get("name"), Some("Ada Lovelace"));
        assert_eq!(fields.get("note"), Some("5% \u{e9}"));
        assert_eq!(fields.get("odd"), Some("%4"));
        assert_eq!(fields.get("empty"), Some(""));
    }

    #[test]
    fn cookies_are_taken_apart() {
        let cookies = Fields::from_cookies("a=1; b=x=y");
        assert_eq!((cookies.get("a"), cookies.get("b")), (Some("1"), Some("x=y")));
    }
}
