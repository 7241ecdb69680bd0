//! Answering a request: whole, in chunks over time, or byte by byte.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::Response;
use super::response::{head, is_bodiless};

/// The right to answer one request.
pub(crate) struct Reply<'a> {
    stream: &'a TcpStream,
    head_only: bool,
    keep_alive: bool,
}

impl<'a> Reply<'a> {
    pub(super) fn new(stream: &'a TcpStream, head_only: bool, keep_alive: bool) -> Self {
        Self { stream, head_only, keep_alive }
    }

    pub(crate) fn send(&mut self, response: Response) -> io::Result<()> {
        let Response { status, mut headers, body } = response;
        if !is_bodiless(status) {
            headers.push(("Content-Length", body.len().to_string()));
        }
        self.push_connection(&mut headers);
        let mut message = head(status, &headers).into_bytes();
        if !self.head_only && !is_bodiless(status) {
            message.extend_from_slice(&body);
        }
        self.stream.write_all(&message)
    }

    /// Sends the head now; the body follows as it is written.
    pub(crate) fn start_chunks(
        &mut self,
        status: u16,
        mut headers: Vec<(&'static str, String)>,
    ) -> io::Result<ChunkedWriter> {
        headers.push(("Transfer-Encoding", "chunked".to_owned()));
        self.push_connection(&mut headers);
        self.stream.write_all(head(status, &headers).as_bytes())?;
        Ok(ChunkedWriter { stream: self.stream.try_clone()? })
    }

    /// Sends the head of a body of `length` bytes; the caller writes these bytes, or fewer, to the
    /// connection, which is closed after it.
    pub(crate) fn start_bytes(
        &mut self,
        status: u16,
        mut headers: Vec<(&'static str, String)>,
        length: usize,
    ) -> io::Result<&'a TcpStream> {
        self.keep_alive = false;
        headers.push(("Content-Length", length.to_string()));
        self.push_connection(&mut headers);
        self.stream.write_all(head(status, &headers).as_bytes())?;
        Ok(self.stream)
    }

    /// Waits until the client closes the connection, or until someone shuts it down here.
    pub(crate) fn wait_for_close(&mut self) {
        self.keep_alive = false;
        let mut byte = [0];
        // Whatever ends the wait, the connection is of no more use.
        let _ = self.stream.read(&mut byte);
    }

    pub(super) fn is_reusable(&self) -> bool {
        self.keep_alive
    }

    fn push_connection(&self, headers: &mut Vec<(&'static str, String)>) {
        let word = if self.keep_alive { "keep-alive" } else { "close" };
        headers.push(("Connection", word.to_owned()));
    }
}

/// A body that goes out as it is written: every write is one chunk and one packet.
pub(crate) struct ChunkedWriter {
    stream: TcpStream,
}

impl ChunkedWriter {
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.stream.write_all(b"0\r\n\r\n")
    }

    pub(crate) fn close(&self) {
        // Fails only where the client closed it first.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Write for ChunkedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A chunk of no bytes would end the body.
        if !bytes.is_empty() {
            let mut chunk = Vec::with_capacity(bytes.len() + 16);
            write!(chunk, "{:x}\r\n", bytes.len())?;
            chunk.extend_from_slice(bytes);
            chunk.extend_from_slice(b"\r\n");
            self.stream.write_all(&chunk)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
