//! The stdio transport: one message a line.
//!
//! Quick on purpose. A message is one write, made under one lock from a buffer that is kept, and a call that
//! needs no waiting is answered on the thread that read it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use super::outlet::{self, Compose, Outlet};
use super::protocol::Fake;
use super::reply::{PARSE_ERROR, Reply};
use crate::lock::lock;

const READ_BUFFER: usize = 256 * 1024;
/// A buffer that has grown beyond this is given back.
const KEPT_BUFFER: usize = 16 * 1024 * 1024;
/// Waiting needs little stack, and a test may have thousands of calls wait.
const WAITING_STACK: usize = 256 * 1024;

/// Serves the process at the other end of stdin and stdout until it closes stdin.
pub(super) fn serve(fake: &Arc<Fake>) -> io::Result<()> {
    // The bare files: the standard handles would add a buffer and a lock of their own.
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let outlet: Arc<dyn Outlet> = Arc::new(Lines(Mutex::new(Sink { output, buffer: Vec::new() })));
    let peer = fake.add_peer();
    peer.open_channel(&outlet);

    let mut reader = BufReader::with_capacity(READ_BUFFER, input);
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let Ok(message) = serde_json::from_slice(&line) else {
            let reply = Reply::error(PARSE_ERROR, "Parse error");
            outlet::answer(&*outlet, &Value::Null, &reply, fake.options.id_first)?;
            continue;
        };
        let Some(turn) = fake.receive(&peer, &outlet, message) else { continue };
        if turn.takes_time() {
            let (fake, outlet) = (Arc::clone(fake), Arc::clone(&outlet));
            thread::Builder::new().stack_size(WAITING_STACK).spawn(move || {
                // The reading thread sees for itself when the client is gone.
                let _ = turn.finish(&fake, &*outlet);
            })?;
        } else {
            turn.finish(fake, &*outlet)?;
        }
    }
    if fake.options.ignore_stdin_close {
        loop {
            thread::park();
        }
    }
    Ok(())
}

struct Lines(Mutex<Sink>);

struct Sink {
    output: File,
    buffer: Vec<u8>,
}

impl Outlet for Lines {
    fn send(&self, message: &str) -> io::Result<()> {
        self.answer(&mut |out| out.write_all(message.as_bytes()))
    }

    fn answer(&self, compose: &mut Compose<'_>) -> io::Result<()> {
        let mut sink = lock(&self.0);
        let Sink { output, buffer } = &mut *sink;
        buffer.clear();
        compose(buffer)?;
        buffer.push(b'\n');
        output.write_all(buffer)?;
        if buffer.capacity() > KEPT_BUFFER {
            *buffer = Vec::new();
        }
        Ok(())
    }

    fn answer_in_parts(&self, compose: &mut Compose<'_>) -> io::Result<()> {
        let mut sink = lock(&self.0);
        compose(&mut sink.output)?;
        sink.output.write_all(b"\n")
    }
}
