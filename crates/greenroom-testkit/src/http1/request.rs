//! A request, read whole.

use std::io::{self, BufRead, Read, Write};

use super::{BodyReader, Framing, Headers, read_line};

pub(crate) struct Request {
    pub(crate) method: String,
    /// The path and the query, as they were sent.
    pub(crate) target: String,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
    pub(crate) keep_alive: bool,
}

impl Request {
    /// The next request of a connection, or `None` where the client closed it between two requests.
    ///
    /// `writer` is the same connection: a client that asks whether to send its body waits for a yes.
    pub(crate) fn read(reader: &mut impl BufRead, writer: &mut impl Write) -> io::Result<Option<Self>> {
        let Some(line) = read_line(reader)? else { return Ok(None) };
        let mut words = line.split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("not a request: {line}")));
        };
        let headers = Headers::read(reader)?;
        let keep_alive = match version {
            "HTTP/1.0" => headers.lists("Connection", "keep-alive"),
            _ => !headers.lists("Connection", "close"),
        };
        let mut body = Vec::new();
        if let Some(framing) = Framing::of(&headers)? {
            if headers.lists("Expect", "100-continue") {
                writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
            BodyReader::new(reader, framing).read_to_end(&mut body)?;
        }
        Ok(Some(Self { method: method.to_owned(), target: target.to_owned(), headers, body, keep_alive }))
    }

    pub(crate) fn path(&self) -> &str {
        self.target.split_once('?').map_or(self.target.as_str(), |(path, _)| path)
    }

    pub(crate) fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }
}
