//! A stream of server-sent events, with everything that they say.

use std::io::{self, BufRead, BufReader};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::connection::{Address, Connection};
use crate::http1::{BodyReader, Headers};

/// One event.
#[derive(Clone, Debug, Default)]
pub struct ServerEvent {
    pub name: String,
    pub id: Option<String>,
    pub retry: Option<String>,
    pub data: Value,
}

/// An open stream. Dropping it closes the connection.
pub struct EventSource {
    socket: TcpStream,
    incoming: Receiver<ServerEvent>,
    timeout: Duration,
    headers: Headers,
}

impl EventSource {
    /// Opens the stream at a URL.
    ///
    /// # Panics
    ///
    /// When the connection fails, or the answer is another than 200.
    #[must_use]
    pub fn open(url: &str, headers: &[(&str, &str)], timeout: Duration) -> Self {
        let address = Address::parse(url);
        let fail = |error| -> ! { panic!("GET {url}: {error}") };
        let mut connection = Connection::open(&address, timeout).unwrap_or_else(|error| fail(error));
        let answer =
            connection.send(&address, "GET", &address.path, headers, b"").unwrap_or_else(|error| fail(error));
        assert_eq!(answer.status, 200, "GET {url}");
        let framing = answer.framing("GET").unwrap_or_else(|error| fail(error));
        let framing = framing.expect("an answer to GET with status 200 has a body");
        let socket = connection.reader.get_ref().try_clone().unwrap_or_else(|error| fail(error));
        socket.set_read_timeout(None).unwrap_or_else(|error| fail(error));
        let (sender, incoming) = mpsc::channel();
        thread::spawn(move || {
            let mut reader = BufReader::new(BodyReader::new(&mut connection.reader, framing));
            while let Ok(Some(event)) = read(&mut reader) {
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        Self { socket, incoming, timeout, headers: answer.headers }
    }

    /// The headers of the answer.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The next event; `None` when the server has closed the stream.
    ///
    /// # Panics
    ///
    /// When neither happens in time.
    #[must_use]
    pub fn next_event(&self) -> Option<ServerEvent> {
        match self.incoming.recv_timeout(self.timeout) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no event within {:?}", self.timeout),
        }
    }

    /// The next event of which this holds; those before it are dropped.
    ///
    /// # Panics
    ///
    /// When the stream ends first, or is silent for too long.
    #[must_use]
    pub fn find_event(&self, what: &str, is_it: impl Fn(&ServerEvent) -> bool) -> ServerEvent {
        loop {
            let event = self.next_event().unwrap_or_else(|| panic!("the stream ended before {what}"));
            if is_it(&event) {
                return event;
            }
        }
    }
}

impl Drop for EventSource {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// The next event, comments left out. Its data is JSON, or null.
fn read(reader: &mut impl BufRead) -> io::Result<Option<ServerEvent>> {
    let (mut event, mut is_empty) = (ServerEvent::default(), true);
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let text = line.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            if is_empty {
                continue;
            }
            return Ok(Some(event));
        }
        let Some((field, value)) = text.split_once(':').filter(|(field, _)| !field.is_empty()) else {
            continue;
        };
        let value = value.strip_prefix(' ').unwrap_or(value);
        is_empty = false;
        match field {
            "event" => event.name = value.to_owned(),
            "id" => event.id = Some(value.to_owned()),
            "retry" => event.retry = Some(value.to_owned()),
            "data" => event.data = serde_json::from_str(value).map_err(io::Error::other)?,
            _ => return Err(io::Error::other(format!("a field that nobody knows: {text}"))),
        }
    }
}
