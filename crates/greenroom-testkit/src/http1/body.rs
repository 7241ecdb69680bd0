//! Reading a body, however its length is told.

use std::io::{self, BufRead, Read};

use super::headers::{Headers, read_line};

/// How the end of a body is known.
#[derive(Clone, Copy)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

impl Framing {
    /// What the headers say. `None` where they say nothing, which means no body in a request and a body up
    /// to the end of the connection in a response.
    pub(crate) fn of(headers: &Headers) -> io::Result<Option<Self>> {
        if headers.lists("Transfer-Encoding", "chunked") {
            return Ok(Some(Self::Chunked));
        }
        let Some(length) = headers.get("Content-Length") else { return Ok(None) };
        let length = length
            .parse()
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "Content-Length is not a number"))?;
        Ok(Some(Self::Length(length)))
    }
}

/// A body as a plain stream of bytes, which ends where the body ends.
pub(crate) struct BodyReader<'a, R> {
    connection: &'a mut R,
    state: State,
}

enum State {
    /// So many bytes are left of a body of known length.
    Length(u64),
    /// The size of a chunk comes next.
    ChunkSize,
    /// So many bytes are left of a chunk.
    Chunk(u64),
    UntilClose,
    Done,
}

impl<'a, R: BufRead> BodyReader<'a, R> {
    pub(crate) fn new(connection: &'a mut R, framing: Framing) -> Self {
        let state = match framing {
            Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::ChunkSize,
            Framing::UntilClose => State::UntilClose,
        };
        Self { connection, state }
    }

    fn next_chunk(&mut self) -> io::Result<State> {
        let line = read_line(self.connection)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("not a chunk size: {line}")))?;
        if size > 0 {
            return Ok(State::Chunk(size));
        }
        // Trailers have the form of headers and end the same way; nothing here needs them.
        Headers::read(self.connection)?;
        Ok(State::Done)
    }

    fn read_up_to(&mut self, most: u64, buffer: &mut [u8]) -> io::Result<u64> {
        let room = usize::try_from(most).map_or(buffer.len(), |most| most.min(buffer.len()));
        let read = self.connection.read(&mut buffer[..room])?;
        if read == 0 && room > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(read as u64)
    }
}

impl<R: BufRead> Read for BodyReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match self.state {
                State::Done => return Ok(0),
                State::UntilClose => return self.connection.read(buffer),
                State::ChunkSize => self.state = self.next_chunk()?,
                State::Length(left) => {
                    let read = self.read_up_to(left, buffer)?;
                    self.state = if read == left { State::Done } else { State::Length(left - read) };
                    return Ok(usize::try_from(read).expect("no more than the buffer holds"));
                }
                State::Chunk(left) => {
                    let read = self.read_up_to(left, buffer)?;
                    self.state = State::Chunk(left - read);
                    if read == left {
                        read_line(self.connection)?;
                        self.state = State::ChunkSize;
                    }
                    return Ok(usize::try_from(read).expect("no more than the buffer holds"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(mut wire: &[u8], framing: Framing) -> io::Result<(String, String)> {
        let mut body = String::new();
        BodyReader::new(&mut wire, framing).read_to_string(&mut body)?;
        Ok((body, String::from_utf8_lossy(wire).into_owned()))
    }

    #[test]
    fn a_chunked_body_ends_after_its_trailers() {
        let (body, rest) =
            read_all(b"5\r\nhello\r\n6;x=y\r\n there\r\n0\r\nA: b\r\n\r\nGET", Framing::Chunked).unwrap();
        assert_eq!((body.as_str(), rest.as_str()), ("hello there", "GET"));
    }

    #[test]
    fn a_body_of_known_length_leaves_the_next_message_alone() {
        let (body, rest) = read_all(b"helloGET", Framing::Length(5)).unwrap();
        assert_eq!((body.as_str(), rest.as_str()), ("hello", "GET"));
    }

    #[test]
    fn a_body_that_stops_early_is_an_error() {
        assert!(read_all(b"hel", Framing::Length(5)).is_err());
        assert!(read_all(b"5\r\nhel", Framing::Chunked).is_err());
    }
}
