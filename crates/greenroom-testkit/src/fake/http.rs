//! The Streamable HTTP transport.
//!
//! As strict as the TypeScript SDK's: a session must be named and known, and the client must accept both
//! kinds of answer. Each request has the thread of its connection to itself, so a call may take its time
//! right there.

mod outlets;
mod sessions;

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};

use super::outlet::Outlet;
use super::peer::Peer;
use super::protocol::{Fake, REVISIONS};
use super::reply::{INVALID_REQUEST, PARSE_ERROR};
use crate::http1::{Reply, Request, Response, Server};
use outlets::{Events, NoExtras};
use sessions::Sessions;

/// What this transport answers a request it cannot serve with.
const SERVER_ERROR: i64 = -32000;

/// Serves until the process is ended.
pub(super) fn serve(fake: &Arc<Fake>) -> io::Result<()> {
    let endpoint = Endpoint { fake: Arc::clone(fake), sessions: Sessions::default() };
    let server = Server::start(fake.options.port, move |request, reply| endpoint.handle(request, reply))?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "Listening on http://127.0.0.1:{}/mcp", server.port())?;
    stdout.flush()?;
    drop(stdout);
    loop {
        thread::park();
    }
}

struct Endpoint {
    fake: Arc<Fake>,
    sessions: Sessions,
}

impl Endpoint {
    fn handle(&self, request: &Request, reply: &mut Reply<'_>) -> io::Result<()> {
        if request.path() != "/mcp" {
            return reply.send(Response::new(404).body("text/plain", "Not found; the endpoint is /mcp\n"));
        }
        let outcome = match request.method.as_str() {
            "POST" => self.post(request, reply),
            "GET" => self.get(request, reply),
            "DELETE" => self.delete(request, reply),
            _ => Err(Refusal { status: 405, code: SERVER_ERROR, message: "Method not allowed." }),
        };
        outcome.unwrap_or_else(|refusal| reply.send(refusal.response()))
    }

    fn post(&self, request: &Request, reply: &mut Reply<'_>) -> Handled {
        let accepts = |kind| request.headers.get("Accept").is_some_and(|accept| accept.contains(kind));
        if !accepts("application/json") || !accepts("text/event-stream") {
            let message = "Not Acceptable: Client must accept both application/json and text/event-stream";
            return Err(Refusal { status: 406, code: SERVER_ERROR, message });
        }
        let Ok(message) = serde_json::from_slice::<Value>(&request.body) else {
            return Err(Refusal { status: 400, code: PARSE_ERROR, message: "Parse error: Invalid JSON" });
        };
        if !message.is_object() {
            let message = "Invalid Request: one message at a time";
            return Err(Refusal { status: 400, code: INVALID_REQUEST, message });
        }
        let method = message["method"].as_str().unwrap_or_default();
        let is_call = method == "tools/call";
        let mut headers = Vec::new();
        let peer = if method == "initialize" {
            let peer = self.fake.add_peer();
            headers.push(("Mcp-Session-Id", self.sessions.open(&peer)));
            peer
        } else {
            self.session(request)?
        };
        let is_request = !method.is_empty() && message.get("id").is_some();
        if !is_request {
            // Nothing here needs an outlet: notifications and responses are not answered.
            let nowhere: Arc<dyn Outlet> = Arc::new(NoExtras::default());
            self.fake.receive(&peer, &nowhere, message);
            return Ok(reply.send(Response::new(202)));
        }
        let outcome = if self.fake.options.http_json {
            self.answer_with_json(&peer, message, headers, reply)
        } else {
            self.answer_with_events(&peer, message, headers, reply)
        };
        if is_call {
            self.sessions.count_call(self.fake.options.http_forget_after);
        }
        Ok(outcome)
    }

    fn answer_with_events(
        &self,
        peer: &Arc<Peer>,
        message: Value,
        mut headers: Vec<(&'static str, String)>,
        reply: &mut Reply<'_>,
    ) -> io::Result<()> {
        headers.extend(outlets::event_stream_headers());
        let events = Arc::new(Events::new(reply.start_chunks(200, headers)?));
        let outlet: Arc<dyn Outlet> = events.clone();
        if let Some(turn) = self.fake.receive(peer, &outlet, message) {
            turn.finish(&self.fake, &*outlet)?;
        }
        events.finish()
    }

    fn answer_with_json(
        &self,
        peer: &Arc<Peer>,
        message: Value,
        mut headers: Vec<(&'static str, String)>,
        reply: &mut Reply<'_>,
    ) -> io::Result<()> {
        let kept = Arc::new(NoExtras::default());
        let outlet: Arc<dyn Outlet> = kept.clone();
        if let Some(turn) = self.fake.receive(peer, &outlet, message) {
            turn.finish(&self.fake, &*outlet)?;
        }
        // A call that gets no answer cannot be told in JSON; closing the connection is all there is.
        let body = kept.take_answer().ok_or(io::ErrorKind::ConnectionAborted)?;
        headers.push(("Content-Type", "application/json".to_owned()));
        reply.send(Response { status: 200, headers, body })
    }

    /// Opens the stream for what belongs to no request, and keeps it until either side closes it.
    fn get(&self, request: &Request, reply: &mut Reply<'_>) -> Handled {
        if !request.headers.get("Accept").is_some_and(|accept| accept.contains("text/event-stream")) {
            let message = "Not Acceptable: Client must accept text/event-stream";
            return Err(Refusal { status: 406, code: SERVER_ERROR, message });
        }
        let peer = self.session(request)?;
        let headers = outlets::event_stream_headers().to_vec();
        let events = match reply.start_chunks(200, headers) {
            Ok(chunks) => Arc::new(Events::new(chunks)),
            Err(error) => return Ok(Err(error)),
        };
        let channel: Arc<dyn Outlet> = events;
        peer.open_channel(&channel);
        reply.wait_for_close();
        peer.drop_channel(&channel);
        Ok(Ok(()))
    }

    fn delete(&self, request: &Request, reply: &mut Reply<'_>) -> Handled {
        let peer = self.session(request)?;
        self.sessions.end(&peer);
        peer.close_channel();
        Ok(reply.send(Response::new(200)))
    }

    fn session(&self, request: &Request) -> Result<Arc<Peer>, Refusal> {
        let Some(id) = request.headers.get("Mcp-Session-Id") else {
            let message = "Bad Request: Mcp-Session-Id header is required";
            return Err(Refusal { status: 400, code: SERVER_ERROR, message });
        };
        if request.headers.get("MCP-Protocol-Version").is_some_and(|asked| !REVISIONS.contains(&asked)) {
            let message = "Bad Request: Unsupported protocol version";
            return Err(Refusal { status: 400, code: SERVER_ERROR, message });
        }
        self.sessions.find(id).ok_or(Refusal { status: 404, code: -32001, message: "Session not found" })
    }
}

/// The inner result is the connection's: an answer was given, and may have got lost on the way.
type Handled = Result<io::Result<()>, Refusal>;

struct Refusal {
    status: u16,
    code: i64,
    message: &'static str,
}

impl Refusal {
    fn response(&self) -> Response {
        let error = json!({ "code": self.code, "message": self.message });
        let body = json!({ "jsonrpc": "2.0", "error": error, "id": null });
        Response::new(self.status).body("application/json", body.to_string())
    }
}
