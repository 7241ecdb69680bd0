//! Where a body ends, and what of the bytes is body.

use anyhow::{Context, Result, ensure};
use bytes::{Buf, BytesMut};

/// How the end of a body is told, with the place reached in it.
#[derive(Debug)]
pub(super) enum Framing {
    Length(usize),
    Chunked(Chunk),
    ToClose,
}

#[derive(Debug)]
pub(super) enum Chunk {
    /// The line that says how long the next chunk is.
    Size,
    /// So many bytes of a chunk are to come.
    Data(usize),
    /// The line end after a chunk.
    End,
    /// After the last chunk: lines up to an empty one.
    Trailer,
}

impl Framing {
    pub(super) fn length(bytes: usize) -> Self {
        Self::Length(bytes)
    }

    pub(super) fn chunked() -> Self {
        Self::Chunked(Chunk::Size)
    }

    /// Moves what is body from `input` to `body`. True when the body is complete.
    pub(super) fn decode(&mut self, input: &mut BytesMut, body: &mut Vec<u8>) -> Result<bool> {
        match self {
            Self::Length(rest) => {
                take(input, body, rest);
                Ok(*rest == 0)
            }
            Self::ToClose => {
                let mut all = input.len();
                take(input, body, &mut all);
                Ok(false)
            }
            Self::Chunked(chunk) => chunk.decode(input, body),
        }
    }
}

impl Chunk {
    fn decode(&mut self, input: &mut BytesMut, body: &mut Vec<u8>) -> Result<bool> {
        loop {
            match self {
                Self::Size => {
                    let Some(line) = line(input) else { return Ok(false) };
                    // Extensions may follow the size.
                    let digits = line.as_ref().split(|byte: &u8| *byte == b';').next().unwrap_or_default();
                    let digits = std::str::from_utf8(digits.trim_ascii()).unwrap_or_default();
                    let size = usize::from_str_radix(digits, 16).context("a chunk's size is not a number")?;
                    *self = if size == 0 { Self::Trailer } else { Self::Data(size) };
                }
                Self::Data(rest) => {
                    take(input, body, rest);
                    if *rest > 0 {
                        return Ok(false);
                    }
                    *self = Self::End;
                }
                Self::End => {
                    let Some(line) = line(input) else { return Ok(false) };
                    ensure!(line.is_empty(), "a chunk is longer than it says");
                    *self = Self::Size;
                }
                Self::Trailer => {
                    let Some(line) = line(input) else { return Ok(false) };
                    if line.is_empty() {
                        return Ok(true);
                    }
                }
            }
        }
    }
}

fn take(input: &mut BytesMut, body: &mut Vec<u8>, rest: &mut usize) {
    let now = input.len().min(*rest);
    body.extend_from_slice(&input[..now]);
    input.advance(now);
    *rest -= now;
}

/// The next line without its end, if all of it is here.
fn line(input: &mut BytesMut) -> Option<BytesMut> {
    let at = memchr::memchr(b'\n', input)?;
    let mut line = input.split_to(at + 1);
    line.truncate(at);
    if line.last() == Some(&b'\r') {
        line.truncate(at - 1);
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `wire`, given in pieces of `step` bytes; returns the body, and what is left behind it.
    fn decode(mut framing: Framing, wire: &[u8], step: usize) -> Result<(Vec<u8>, Vec<u8>)> {
        let (mut input, mut body) = (BytesMut::new(), Vec::new());
        for (index, piece) in wire.chunks(step).enumerate() {
            input.extend_from_slice(piece);
            if framing.decode(&mut input, &mut body)? {
                input.extend_from_slice(&wire[((index + 1) * step).min(wire.len())..]);
                return Ok((body, input.to_vec()));
            }
        }
        anyhow::bail!("the body did not end")
    }

    #[test]
    fn chunks_are_joined_however_the_bytes_are_cut() {
        let wire = b"5\r\nhello\r\n1;ext=1\r\n \r\nB\r\nwide\r\nworld\r\n0\r\nTrailer: x\r\n\r\nnext";
        for step in 1..=wire.len() {
            let (body, rest) = decode(Framing::chunked(), wire, step).unwrap();
            assert_eq!(body, b"hello wide\r\nworld", "in pieces of {step}");
            assert_eq!(rest, b"next", "in pieces of {step}");
        }
    }

    #[test]
    fn a_length_is_kept_to() {
        for step in 1..=7 {
            assert_eq!(
                decode(Framing::length(3), b"abcnext", step).unwrap(),
                (b"abc".into(), b"next".into())
            );
        }
        let (mut input, mut body) = (BytesMut::new(), Vec::new());
        assert!(Framing::length(0).decode(&mut input, &mut body).unwrap());
    }

    #[test]
    fn broken_chunks_are_refused() {
        assert!(decode(Framing::chunked(), b"xyz\r\n", 1).is_err());
        assert!(decode(Framing::chunked(), b"2\r\nabc\r\n0\r\n\r\n", 1).is_err());
    }
}
