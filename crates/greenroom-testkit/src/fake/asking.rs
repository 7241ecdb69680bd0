//! Turning the tables: a request from the server to the client.

use std::time::Duration;

use serde_json::Value;

use super::turn::Call;

/// A client that has not answered by then is not going to.
const PATIENCE: Duration = Duration::from_secs(10);

/// The client's response, or why there is none.
pub(super) fn ask(call: &Call, method: &str) -> Result<Value, String> {
    // The client's own channel if it has one open, else the stream that will carry this call's answer.
    let outlet = call.peer.channel().unwrap_or_else(|| call.outlet.clone());
    let answer = call.peer.ask(&*outlet, method).map_err(|error| format!("cannot ask: {error}"))?;
    answer.recv_timeout(PATIENCE).map_err(|_| format!("no answer to {method} within {PATIENCE:?}"))
}
