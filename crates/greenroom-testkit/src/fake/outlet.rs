//! Where messages to the client go.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::envelope::write_response;
use super::reply::Reply;

/// A way to the client. Messages of different threads never mix.
pub(super) trait Outlet: Send + Sync {
    /// Sends one message, a line without its end. It is not the answer to the request that this outlet
    /// belongs to, so an outlet with room for nothing else refuses it.
    fn send(&self, message: &str) -> io::Result<()>;

    /// Sends an answer whose text `compose` writes into a buffer.
    fn answer(&self, compose: &mut Compose<'_>) -> io::Result<()>;

    /// Like [`Outlet::answer`], for one too large to be held in memory.
    fn answer_in_parts(&self, compose: &mut Compose<'_>) -> io::Result<()>;

    /// Ends a way that can end before its client does.
    fn close(&self) {}
}

/// Writes a message; given the place to write to, which may be a buffer or the wire.
pub(super) type Compose<'a> = dyn FnMut(&mut dyn Write) -> io::Result<()> + 'a;

pub(super) fn answer(outlet: &dyn Outlet, id: &Value, reply: &Reply, id_first: bool) -> io::Result<()> {
    let mut compose = |out: &mut dyn Write| write_response(out, id, reply, id_first);
    match reply {
        Reply::Silence => Ok(()),
        Reply::LongText(_) => outlet.answer_in_parts(&mut compose),
        _ => outlet.answer(&mut compose),
    }
}

pub(super) fn notify(outlet: &dyn Outlet, method: &str, params: Option<Value>) -> io::Result<()> {
    let mut message = json!({ "method": method, "jsonrpc": "2.0" });
    if let Some(params) = params {
        message["params"] = params;
    }
    outlet.send(&message.to_string())
}
