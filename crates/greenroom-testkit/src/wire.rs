//! A stretch of network that can be cut.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::lock::lock;

/// Passes connections on to another port of the loopback address, until it is cut.
pub struct Wire {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    to: u16,
    is_cut: bool,
    is_over: bool,
    /// Both ends of every connection there was since the last cut.
    streams: Vec<TcpStream>,
}

impl Wire {
    /// Listens on a free port of the loopback address.
    ///
    /// # Panics
    ///
    /// When no port can be had.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the loopback address has a free port");
        let port = listener.local_addr().expect("a listener has an address").port();
        let state = Arc::new(Mutex::new(State::default()));
        thread::spawn({
            let state = Arc::clone(&state);
            move || {
                for stream in listener.incoming() {
                    if lock(&state).is_over {
                        return;
                    }
                    if let Ok(stream) = stream {
                        // Whoever cannot be connected is hung up on.
                        let _ = connect(&state, stream);
                    }
                }
            }
        });
        Self { port, state }
    }

    /// The port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where connections are passed on to from now on.
    pub fn lead_to(&self, port: u16) {
        lock(&self.state).to = port;
    }

    /// Ends every connection, and every new one at once.
    pub fn cut(&self) {
        let mut state = lock(&self.state);
        state.is_cut = true;
        for stream in state.streams.drain(..) {
            // One that is closed already is as good.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Passes new connections on again.
    pub fn mend(&self) {
        lock(&self.state).is_cut = false;
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.cut();
        lock(&self.state).is_over = true;
        // So that whoever waits for the next one looks.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn connect(state: &Mutex<State>, near: TcpStream) -> io::Result<()> {
    let mut state = lock(state);
    if state.is_cut {
        return near.shutdown(Shutdown::Both);
    }
    let far = TcpStream::connect(("127.0.0.1", state.to))?;
    for (from, to) in [(&near, &far), (&far, &near)] {
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        thread::spawn(move || pass_on(from, to));
    }
    state.streams.extend([near, far]);
    Ok(())
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    let mut chunk = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut chunk) {
        if to.write_all(&chunk[..count]).is_err() {
            break;
        }
    }
    // The other direction ends with this one.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
