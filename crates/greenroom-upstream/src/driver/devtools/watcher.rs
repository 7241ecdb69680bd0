//! The browser behind a server that goes on without it.
//!
//! When its browser dies, the server stays, answers pings, and takes another browser at the next call as if nothing had
//! happened. So the browser is watched, and the connection ends with it.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use greenroom_core::attach::Endpoint;

use super::endpoint::reachable;
use super::{LOOK, error_in};
use crate::process::{ProcessName, Row, rows, with_kin};
use crate::rpc::{CallError, Ended, Peer, WeakPeer};

/// How often it is looked whether a process is alive.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often a browser on this machine is asked, and one elsewhere.
const ASK_EVERY: Duration = Duration::from_secs(1);
const ASK_AFAR_EVERY: Duration = Duration::from_secs(15);

/// Misses in a row after which an attached browser is taken to be gone.
const MISSES: u32 = 2;

pub(crate) struct Watcher {
    /// Set for a browser that is asked otherwise than through the server.
    endpoint: Option<Endpoint>,
    _stopped_when_dropped: DropGuard,
}

impl Watcher {
    /// Watches the browser that the server has launched.
    pub(super) fn of_process_below(server: u32, peer: &Peer) -> Self {
        let (peer, browser) = (peer.downgrade(), browser_below(server));
        if browser.is_none() {
            tracing::warn!(server, "its browser was not found among its processes");
        }
        Self::watching(None, async move {
            let Some(browser) = browser else { return };
            while browser.is_alive() {
                sleep(LOOK_EVERY).await;
            }
            end(&peer, &format!("the browser, process {}, has gone", browser.pid));
        })
    }

    /// Watches a browser that somebody else has started.
    pub(super) fn of_endpoint(endpoint: Endpoint, peer: &Peer) -> Self {
        let (peer, asked) = (peer.downgrade(), endpoint.clone());
        Self::watching(Some(endpoint), async move {
            let pause = if asked.is_loopback() { ASK_EVERY } else { ASK_AFAR_EVERY };
            let mut misses = 0;
            loop {
                sleep(pause).await;
                match reachable(&asked).await {
                    Ok(()) => misses = 0,
                    Err(_) if misses + 1 < MISSES => misses += 1,
                    Err(error) => return end(&peer, &error),
                }
            }
        })
    }

    fn watching(endpoint: Option<Endpoint>, watch: impl Future<Output = ()> + Send + 'static) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(async move {
            tokio::select! {
                () = stopped => {}
                () = watch => {}
            }
        });
        Self { endpoint, _stopped_when_dropped: stop.drop_guard() }
    }

    /// A round trip to the browser, which hangs while the server answers pings. Not during a call: the server takes one up
    /// after the other, and a long one is not an illness.
    pub(crate) async fn probe(&self, peer: &Peer) -> Result<(), String> {
        if let Some(endpoint) = &self.endpoint {
            return reachable(endpoint).await;
        }
        if peer.is_busy() {
            return Ok(());
        }
        let asked = peer.call_tool(LOOK, &json!({}), None).map_err(CallError::from);
        let answer = asked.map_err(|error| error.to_string())?.await.map_err(|error| error.to_string())?;
        error_in(&answer).map_or(Ok(()), Err)
    }
}

fn end(peer: &WeakPeer, why: &str) {
    if let Some(peer) = peer.get() {
        peer.end(Ended::because(why));
    }
}

/// The browser's main process. A launcher may stand above it and look the same.
fn browser_below(server: u32) -> Option<ProcessName> {
    let kin = with_kin(&rows(), &HashSet::from([server]), &HashSet::new());
    let is_main = |row: &&Row| {
        let line = std::fs::read(format!("/proc/{}/cmdline", row.name.pid)).unwrap_or_default();
        let mut arguments = line.split(|byte| *byte == 0);
        arguments.clone().any(|argument| argument == b"--remote-debugging-pipe")
            && !arguments.any(|argument| argument.starts_with(b"--type="))
    };
    let found: Vec<Row> = kin.iter().filter(is_main).copied().collect();
    let is_lowest = |row: &&Row| !found.iter().any(|other| other.parent == row.name.pid);
    found.iter().find(is_lowest).map(|row| row.name)
}
