//! Header fields, in the order they came.

use std::io::{self, BufRead, Read};

/// One line of a message head may be this long, which is more than any test sends.
const LONGEST_LINE: u64 = 256 * 1024;

/// The header fields of a request or a response.
#[derive(Clone, Debug, Default)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// The value of the first field of this name, in whatever case it was written.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The values of all fields of this name.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.iter().filter(move |(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// All fields, as they were written.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether a field that lists words, such as `Connection`, lists this one.
    pub(crate) fn lists(&self, name: &str, word: &str) -> bool {
        self.all(name).any(|value| value.split(',').any(|item| item.trim().eq_ignore_ascii_case(word)))
    }

    /// Reads fields up to and with the empty line after them.
    pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Self> {
        let mut fields = Vec::new();
        loop {
            let line = read_line(reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if line.is_empty() {
                return Ok(Self(fields));
            }
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("not a header: {line}")))?;
            fields.push((name.to_owned(), value.trim().to_owned()));
        }
    }
}

/// One line without its end, or `None` where the connection ended.
pub(crate) fn read_line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if Read::take(&mut *reader, LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a line without an end"));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
