//! The stream a client opens with GET, for what the server has to say unasked.

use std::io::BufReader;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::connection::{Address, Connection};
use super::events::read_event;
use crate::http1::BodyReader;

/// An open stream. Dropping it closes the connection.
pub struct McpHttpStream {
    socket: TcpStream,
    incoming: Receiver<Value>,
    timeout: Duration,
}

impl McpHttpStream {
    pub(super) fn open(address: &Address, headers: &[(&str, &str)], timeout: Duration) -> Self {
        let fail = |error| -> ! { panic!("GET http://{}{}: {error}", address.authority, address.path) };
        let mut connection = Connection::open(address, timeout).unwrap_or_else(|error| fail(error));
        let answer =
            connection.send(address, "GET", &address.path, headers, b"").unwrap_or_else(|error| fail(error));
        assert_eq!(answer.status, 200, "the server did not open a stream");
        let framing = answer.framing("GET").unwrap_or_else(|error| fail(error));
        let framing = framing.expect("an answer to GET with status 200 has a body");
        let socket = connection.reader.get_ref().try_clone().unwrap_or_else(|error| fail(error));
        // It may be silent for as long as it likes.
        socket.set_read_timeout(None).unwrap_or_else(|error| fail(error));
        let (sender, incoming) = mpsc::channel();
        thread::spawn(move || {
            let mut reader = BufReader::new(BodyReader::new(&mut connection.reader, framing));
            while let Ok(Some(data)) = read_event(&mut reader) {
                let Ok(message) = serde_json::from_str(&data) else { continue };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self { socket, incoming, timeout }
    }

    /// The next message.
    ///
    /// # Panics
    ///
    /// When none comes in time, or the server has closed the stream.
    #[must_use]
    pub fn next_message(&self) -> Value {
        self.incoming
            .recv_timeout(self.timeout)
            .unwrap_or_else(|why| panic!("waited {:?} for a message on the stream: {why}", self.timeout))
    }

    /// Waits for the server to close the stream, at most the client's timeout; true if it did. Messages that
    /// come before that are dropped.
    #[must_use]
    pub fn wait_closed(&self) -> bool {
        loop {
            match self.incoming.recv_timeout(self.timeout) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }
}

impl Drop for McpHttpStream {
    fn drop(&mut self) {
        // Wakes the reading thread; fails only where the server closed it first.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}
