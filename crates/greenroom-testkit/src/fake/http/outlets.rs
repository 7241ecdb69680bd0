//! The two ways to answer a POST: an event stream, and one JSON body.

use std::io::{self, Write};
use std::sync::Mutex;

use super::super::outlet::{Compose, Outlet};
use crate::http1::ChunkedWriter;
use crate::lock::lock;

pub(super) fn event_stream_headers() -> [(&'static str, String); 2] {
    [("Content-Type", "text/event-stream".to_owned()), ("Cache-Control", "no-cache, no-transform".to_owned())]
}

/// Messages as server-sent events. JSON text has no line breaks in it, so one `data` line holds a message.
pub(super) struct Events(Mutex<ChunkedWriter>);

impl Events {
    pub(super) fn new(chunks: ChunkedWriter) -> Self {
        Self(Mutex::new(chunks))
    }

    pub(super) fn finish(&self) -> io::Result<()> {
        lock(&self.0).finish()
    }
}

const BEFORE: &[u8] = b"event: message\ndata: ";
const AFTER: &[u8] = b"\n\n";

impl Outlet for Events {
    fn send(&self, message: &str) -> io::Result<()> {
        self.answer(&mut |out| out.write_all(message.as_bytes()))
    }

    fn answer(&self, compose: &mut Compose<'_>) -> io::Result<()> {
        let mut event = BEFORE.to_vec();
        compose(&mut event)?;
        event.extend_from_slice(AFTER);
        lock(&self.0).write_all(&event)
    }

    fn answer_in_parts(&self, compose: &mut Compose<'_>) -> io::Result<()> {
        let mut chunks = lock(&self.0);
        chunks.write_all(BEFORE)?;
        compose(&mut *chunks)?;
        chunks.write_all(AFTER)
    }

    fn close(&self) {
        let mut chunks = lock(&self.0);
        // The client may be gone already, which is what closing is for.
        let _ = chunks.finish();
        chunks.close();
    }
}

/// One answer, kept until it is sent whole. There is no room for anything beside it.
#[derive(Default)]
pub(super) struct NoExtras(Mutex<Option<Vec<u8>>>);

impl NoExtras {
    pub(super) fn take_answer(&self) -> Option<Vec<u8>> {
        lock(&self.0).take()
    }
}

impl Outlet for NoExtras {
    fn send(&self, _message: &str) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "no stream to the client is open"))
    }

    fn answer(&self, compose: &mut Compose<'_>) -> io::Result<()> {
        let mut answer = Vec::new();
        compose(&mut answer)?;
        *lock(&self.0) = Some(answer);
        Ok(())
    }

    fn answer_in_parts(&self, compose: &mut Compose<'_>) -> io::Result<()> {
        self.answer(compose)
    }
}
