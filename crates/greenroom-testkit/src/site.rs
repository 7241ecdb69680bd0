//! A small web site for browsers under test.
//!
//! Each page shows one thing a browser has to cope with: forms, dialogs, downloads, slowness, thousands of
//! elements. Pages are the same on every visit, so that a test may say exactly what it expects, and the site
//! counts its visits, so that a test may say what a browser asked for.

mod accounts;
mod fields;
mod html;
mod multipart;
mod pages;
mod routes;
mod slow;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use crate::http1::Server;
use crate::latch::Latch;
use crate::lock::lock;
use accounts::Accounts;

/// A running site. Dropping it stops it, slow pages and all.
pub struct Site {
    server: Server,
    state: Arc<State>,
}

/// What the pages share.
#[derive(Default)]
struct State {
    hits: Mutex<HashMap<String, usize>>,
    accounts: Accounts,
    /// The page with all items, made at its first visit.
    items: OnceLock<String>,
    stopping: Latch,
}

impl Site {
    /// Starts the site on a free port of the loopback address.
    ///
    /// # Panics
    ///
    /// When no port can be had.
    #[must_use]
    pub fn start() -> Self {
        Self::start_on(0).expect("the loopback address has a free port")
    }

    /// Starts the site on this port of the loopback address; 0 takes a free one.
    ///
    /// # Errors
    ///
    /// When the port is taken.
    pub fn start_on(port: u16) -> io::Result<Self> {
        let state = Arc::new(State::default());
        let server = Server::start(port, {
            let state = Arc::clone(&state);
            move |request, reply| routes::handle(&state, request, reply)
        })?;
        Ok(Self { server, state })
    }

    /// The port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The full URL of a path, which starts with a slash.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port())
    }

    /// How many requests there were for a path, whatever their method and query.
    #[must_use]
    pub fn hits(&self, path: &str) -> usize {
        lock(&self.state.hits).get(path).copied().unwrap_or(0)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.state.stopping.open();
    }
}
