//! One connection to a server, and a request on it.

use std::fmt::Write as _;
use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::http1::{Framing, Headers, read_line};

/// Where an `http` URL points.
#[derive(Clone)]
pub(super) struct Address {
    /// Host and port, as the `Host` header wants it.
    pub(super) authority: String,
    pub(super) path: String,
}

impl Address {
    pub(super) fn parse(url: &str) -> Self {
        let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("not an http URL: {url}"));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        assert!(!authority.is_empty(), "a URL without a host: {url}");
        let path = if path.is_empty() { "/" } else { path };
        Self { authority: authority.to_owned(), path: path.to_owned() }
    }
}

pub(super) struct Connection {
    pub(super) reader: BufReader<TcpStream>,
}

/// The head of an answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Headers,
}

impl Connection {
    pub(super) fn open(address: &Address, timeout: Duration) -> io::Result<Self> {
        let authority = &address.authority;
        let stream = if authority.contains(':') {
            TcpStream::connect(authority)?
        } else {
            TcpStream::connect((authority.as_str(), 80))?
        };
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// Whether the server has left this idle connection open. Asked before a request, as afterwards it is not
    /// known whether a request that failed was carried out.
    pub(super) fn is_open(&self) -> bool {
        let stream = self.reader.get_ref();
        let mut byte = [0];
        let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut byte));
        let is_idle = matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        stream.set_nonblocking(false).is_ok() && is_idle
    }

    /// Sends a request and reads the head of the answer.
    pub(super) fn send(
        &mut self,
        address: &Address,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        self.write(address, method, path, headers, body)?;
        loop {
            let answer = self.read_head()?;
            if answer.status >= 200 {
                return Ok(answer);
            }
        }
    }

    /// Sends a request and reads nothing.
    pub(super) fn write(
        &mut self,
        address: &Address,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        let is_given = |wanted: &str| headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let mut line = |name: &str, value: &str| {
            write!(head, "{name}: {value}\r\n").expect("writing to a string cannot fail");
        };
        if !is_given("Host") {
            line("Host", &address.authority);
        }
        // A caller who frames the body chooses how; otherwise anything that may have one has a length.
        let is_framed = is_given("Content-Length") || is_given("Transfer-Encoding");
        let has_body = !body.is_empty() || !matches!(method, "GET" | "HEAD" | "DELETE");
        if has_body && !is_framed {
            line("Content-Length", &body.len().to_string());
        }
        for (name, value) in headers {
            line(name, value);
        }
        head.push_str("\r\n");
        let mut message = head.into_bytes();
        message.extend_from_slice(body);
        self.reader.get_ref().write_all(&message)
    }

    fn read_head(&mut self) -> io::Result<Answer> {
        let line = read_line(&mut self.reader)?
            .ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "closed without an answer"))?;
        let status = line
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.split(' ').nth(1)?.parse().ok())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("not an answer: {line}")))?;
        Ok(Answer { status, headers: Headers::read(&mut self.reader)? })
    }
}

impl Answer {
    /// How the body is framed, or `None` where there is none.
    pub(super) fn framing(&self, method: &str) -> io::Result<Option<Framing>> {
        if method == "HEAD" || matches!(self.status, 204 | 304) {
            return Ok(None);
        }
        Framing::of(&self.headers).map(|framing| framing.or(Some(Framing::UntilClose)))
    }

    pub(super) fn keeps_connection(&self) -> bool {
        let is_framed = matches!(Framing::of(&self.headers), Ok(Some(_))) || matches!(self.status, 204 | 304);
        is_framed && !self.headers.lists("Connection", "close")
    }
}
