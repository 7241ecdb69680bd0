//! A plain MCP client over Streamable HTTP.
//!
//! It speaks both eras of the transport. In the older one a client opens a session with `initialize` and
//! names it in a header from then on; in the one of 2026-07-28 there is no session, and every request says
//! who sends it. Which one is used is decided by each call: a test may mix them on purpose.

mod connection;
mod event_source;
mod events;
mod stream;

use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http1::{BodyReader, Headers};
use crate::mcp_stdio::{answer_pings, call_params, take_result, with_params};
use connection::{Address, Connection};
use events::read_event;

pub use event_source::{EventSource, ServerEvent};
pub use stream::McpHttpStream;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a stream may stay open after its answer for the connection to be used again.
const TIME_TO_END: Duration = Duration::from_secs(1);
const MODERN_REVISION: &str = "2026-07-28";
const META_PREFIX: &str = "io.modelcontextprotocol";
const BOTH_KINDS: &str = "application/json, text/event-stream";

type Answerer = dyn FnMut(&Value) -> Option<Value> + Send;

/// A client of one MCP endpoint. It keeps one connection open and makes a new one where it was closed.
pub struct McpHttp {
    address: Address,
    connection: Option<Connection>,
    headers: Vec<(String, String)>,
    session: Option<String>,
    revision: Option<String>,
    /// What arrived in event streams beside the answers that were waited for.
    extras: Vec<Value>,
    answerer: Box<Answerer>,
    timeout: Duration,
    last_status: u16,
    last_id: i64,
}

/// A request under way whose answer nobody reads. Dropping it closes the connection.
pub struct OpenCall(#[expect(dead_code, reason = "held open")] Connection);

impl McpHttp {
    /// A client of the endpoint at `url`, as in `http://127.0.0.1:4000/mcp`. Nothing is sent yet.
    ///
    /// # Panics
    ///
    /// When that is not an `http` URL with a host.
    #[must_use]
    pub fn connect(url: &str) -> Self {
        Self {
            address: Address::parse(url),
            connection: None,
            headers: Vec::new(),
            session: None,
            revision: None,
            extras: Vec::new(),
            answerer: Box::new(answer_pings),
            timeout: DEFAULT_TIMEOUT,
            last_status: 0,
            last_id: 0,
        }
    }

    /// How long to wait for bytes to arrive; 10 seconds if not set.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// A header for every MCP request, such as `Authorization`.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Decides how requests of the server that come in an answer's event stream are answered: with the
    /// returned object, which has a `result` or an `error`, or not at all. If not set, pings are answered.
    pub fn set_answerer(&mut self, answerer: impl FnMut(&Value) -> Option<Value> + Send + 'static) {
        self.answerer = Box::new(answerer);
    }

    /// Opens a session, with revision 2025-11-25 and no capabilities. Returns the result of `initialize`.
    ///
    /// # Panics
    ///
    /// When the server refuses, or does not answer in time.
    pub fn initialize(&mut self) -> Value {
        self.initialize_with("2025-11-25", &json!({}))
    }

    /// Opens a session. Returns the result of `initialize`.
    ///
    /// # Panics
    ///
    /// When the server refuses, or does not answer in time.
    pub fn initialize_with(&mut self, revision: &str, capabilities: &Value) -> Value {
        (self.session, self.revision) = (None, None);
        let params = json!({
            "protocolVersion": revision,
            "capabilities": capabilities,
            "clientInfo": client_info(),
        });
        let result = take_result(self.request("initialize", params));
        self.revision = result["protocolVersion"].as_str().map(str::to_owned);
        self.notify("notifications/initialized", Value::Null);
        result
    }

    /// The id of the session, once there is one.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Uses another session id, or none, from now on.
    pub fn set_session_id(&mut self, id: Option<&str>) {
        self.session = id.map(str::to_owned);
    }

    /// The HTTP status of the last answer.
    #[must_use]
    pub fn last_status(&self) -> u16 {
        self.last_status
    }

    /// Sends a request as a client of the older era does and returns the whole JSON-RPC response, be it a
    /// result or an error and whatever its HTTP status; see [`McpHttp::last_status`]. `Value::Null` sends no
    /// params.
    ///
    /// # Panics
    ///
    /// When no response comes in time, or what comes is not JSON-RPC.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let (message, headers) = self.older(method, params);
        self.exchange(method, &message, &headers)
    }

    /// Sends a request as a client of the older era does, on a connection of its own, and reads nothing.
    ///
    /// # Panics
    ///
    /// When the connection fails.
    pub fn begin(&mut self, method: &str, params: Value) -> OpenCall {
        let (message, headers) = self.older(method, params);
        self.write(&message, &headers)
    }

    /// Like [`McpHttp::begin`], as a client of 2026-07-28 does.
    ///
    /// # Panics
    ///
    /// When the connection fails.
    pub fn begin_modern(&mut self, method: &str, params: Value) -> OpenCall {
        let (message, headers) = self.modern(method, params);
        self.write(&message, &headers)
    }

    fn write(&mut self, message: &Value, headers: &[(String, String)]) -> OpenCall {
        let address = &self.address;
        let body = message.to_string();
        let written = Connection::open(address, self.timeout).and_then(|mut connection| {
            connection.write(address, "POST", &address.path, &borrowed(headers), body.as_bytes())?;
            Ok(connection)
        });
        OpenCall(
            written.unwrap_or_else(|error| panic!("http://{}{}: {error}", address.authority, address.path)),
        )
    }

    fn older(&mut self, method: &str, params: Value) -> (Value, Vec<(String, String)>) {
        let message =
            with_params(json!({ "jsonrpc": "2.0", "id": self.next_id(), "method": method }), params);
        (message, self.session_headers())
    }

    /// Calls a tool as a client of the older era does and returns the result.
    ///
    /// # Panics
    ///
    /// When the response is an error, or does not come in time.
    pub fn call_tool(&mut self, name: &str, arguments: Value) -> Value {
        take_result(self.request("tools/call", call_params(name, arguments)))
    }

    /// Calls a tool and returns the whole JSON-RPC response, from a server that may be gone at any moment.
    ///
    /// # Errors
    ///
    /// When the connection fails or the answer does not come in time.
    pub fn try_call_tool(&mut self, name: &str, arguments: Value) -> io::Result<Value> {
        let id = self.next_id();
        let params = call_params(name, arguments);
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        let headers = self.session_headers();
        self.try_exchange(&message, &headers)
    }

    /// Sends a notification, or a response to a request of the server, and returns the HTTP status.
    ///
    /// # Panics
    ///
    /// When no answer comes in time.
    pub fn post(&mut self, message: &Value) -> u16 {
        let headers = self.session_headers();
        let path = self.address.path.clone();
        let (status, _, _) = self.raw("POST", &path, &borrowed(&headers), message.to_string().as_bytes());
        self.last_status = status;
        status
    }

    /// Sends a notification. `Value::Null` sends no params.
    ///
    /// # Panics
    ///
    /// When the server does not accept it.
    pub fn notify(&mut self, method: &str, params: Value) {
        let status = self.post(&with_params(json!({ "jsonrpc": "2.0", "method": method }), params));
        assert!(status < 300, "{method} was answered with status {status}");
    }

    /// Sends a request as a client of 2026-07-28 does, without a session: the headers repeat what a proxy
    /// wants to know, and `_meta` says who asks. Returns the whole JSON-RPC response, as
    /// [`McpHttp::request`] does. `_meta` keys that `params` already has are kept.
    ///
    /// # Panics
    ///
    /// When no response comes in time, or what comes is not JSON-RPC.
    pub fn call_modern(&mut self, method: &str, params: Value) -> Value {
        let (message, headers) = self.modern(method, params);
        self.exchange(method, &message, &headers)
    }

    fn modern(&mut self, method: &str, params: Value) -> (Value, Vec<(String, String)>) {
        let mut params = if params.is_null() { json!({}) } else { params };
        let meta = [
            ("protocolVersion", json!(MODERN_REVISION)),
            ("clientInfo", client_info()),
            ("clientCapabilities", json!({})),
        ];
        for (key, value) in meta {
            let slot = &mut params["_meta"][format!("{META_PREFIX}/{key}")];
            if slot.is_null() {
                *slot = value;
            }
        }
        let mut headers = self.common_headers();
        headers.push(("MCP-Protocol-Version".to_owned(), MODERN_REVISION.to_owned()));
        headers.push(("Mcp-Method".to_owned(), method.to_owned()));
        let name = match method {
            "tools/call" | "prompts/get" => params["name"].as_str(),
            "resources/read" => params["uri"].as_str(),
            _ => None,
        };
        headers.extend(name.map(|name| ("Mcp-Name".to_owned(), name.to_owned())));
        let message = json!({ "jsonrpc": "2.0", "id": self.next_id(), "method": method, "params": params });
        (message, headers)
    }

    /// Opens the stream on which the server sends what belongs to no request.
    ///
    /// # Panics
    ///
    /// When the server does not open it.
    #[must_use]
    pub fn open_stream(&mut self) -> McpHttpStream {
        let mut headers = self.session_headers();
        headers.retain(|(name, _)| name != "Content-Type");
        McpHttpStream::open(&self.address, &borrowed(&headers), self.timeout)
    }

    /// Ends the session and returns the HTTP status.
    ///
    /// # Panics
    ///
    /// When no answer comes in time.
    pub fn end_session(&mut self) -> u16 {
        let headers = self.session_headers();
        let path = self.address.path.clone();
        self.last_status = self.raw("DELETE", &path, &borrowed(&headers), b"").0;
        self.last_status
    }

    /// What arrived in event streams beside the answers: notifications, requests of the server, strays.
    #[must_use]
    pub fn extras(&self) -> &[Value] {
        &self.extras
    }

    /// Sends a request with just these headers, beside `Host` and `Content-Length`, and returns the status,
    /// the headers and the whole body of the answer.
    ///
    /// # Panics
    ///
    /// When the connection fails or the answer does not come in time.
    pub fn raw(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (u16, Headers, Vec<u8>) {
        self.try_raw(method, path, headers, body)
            .unwrap_or_else(|error| panic!("{method} http://{}{path}: {error}", self.address.authority))
    }

    /// Like [`McpHttp::raw`], for a server that may be gone.
    ///
    /// # Errors
    ///
    /// When the connection fails or the answer does not come in time.
    pub fn try_raw(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<(u16, Headers, Vec<u8>)> {
        let mut connection = self.take_connection()?;
        let answer = connection.send(&self.address, method, path, headers, body)?;
        let mut body = Vec::new();
        if let Some(framing) = answer.framing(method)? {
            BodyReader::new(&mut connection.reader, framing).read_to_end(&mut body)?;
        }
        if answer.keeps_connection() {
            self.connection = Some(connection);
        }
        Ok((answer.status, answer.headers, body))
    }

    fn exchange(&mut self, method: &str, message: &Value, headers: &[(String, String)]) -> Value {
        self.try_exchange(message, headers).unwrap_or_else(|error| {
            panic!("{method} at http://{}{}: {error}", self.address.authority, self.address.path)
        })
    }

    fn try_exchange(&mut self, message: &Value, headers: &[(String, String)]) -> io::Result<Value> {
        let mut connection = self.take_connection()?;
        let body = message.to_string();
        let path = &self.address.path;
        let answer = connection.send(&self.address, "POST", path, &borrowed(headers), body.as_bytes())?;
        self.last_status = answer.status;
        if message["method"] == "initialize" {
            self.session = answer.headers.get("Mcp-Session-Id").map(str::to_owned);
        }
        let framing = answer.framing("POST")?.ok_or_else(|| no_answer(answer.status, ""))?;
        let socket = connection.reader.get_ref().try_clone()?;
        let mut reader = BufReader::new(BodyReader::new(&mut connection.reader, framing));
        let is_stream =
            answer.headers.get("Content-Type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let response = if is_stream {
            self.response_in_stream(&mut reader, &message["id"])?
        } else {
            let mut text = String::new();
            reader.read_to_string(&mut text)?;
            let parsed =
                serde_json::from_str::<Value>(&text).ok().filter(|body| body.get("jsonrpc").is_some());
            parsed.ok_or_else(|| no_answer(answer.status, &text))?
        };
        // A stream ends after the answer it was opened for. One that does not is closed from here.
        socket.set_read_timeout(Some(TIME_TO_END))?;
        let is_at_end = reader.fill_buf().is_ok_and(<[u8]>::is_empty);
        socket.set_read_timeout(Some(self.timeout))?;
        if is_at_end && answer.keeps_connection() {
            self.connection = Some(connection);
        }
        Ok(response)
    }

    fn response_in_stream(&mut self, reader: &mut impl BufRead, id: &Value) -> io::Result<Value> {
        while let Some(data) = read_event(reader)? {
            // An event that is not JSON is what a test may have asked for; the stream goes on.
            let Ok(message) = serde_json::from_str::<Value>(&data) else { continue };
            if message["id"] == *id && message.get("method").is_none() {
                return Ok(message);
            }
            if message.get("method").is_some() && message.get("id").is_some() {
                self.answer_server(&message);
            }
            self.extras.push(message);
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the stream ended without the answer"))
    }

    /// The connection is busy with the stream that the request came in, so this goes over another one.
    fn answer_server(&mut self, request: &Value) {
        if let Some(mut answer) = (self.answerer)(request) {
            answer["jsonrpc"] = json!("2.0");
            answer["id"] = request["id"].clone();
            self.post(&answer);
        }
    }

    fn take_connection(&mut self) -> io::Result<Connection> {
        match self.connection.take().filter(Connection::is_open) {
            Some(connection) => Ok(connection),
            None => Connection::open(&self.address, self.timeout),
        }
    }

    fn common_headers(&self) -> Vec<(String, String)> {
        let fixed = [("Content-Type", "application/json"), ("Accept", BOTH_KINDS)];
        let fixed = fixed.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        fixed.chain(self.headers.iter().cloned()).collect()
    }

    fn session_headers(&self) -> Vec<(String, String)> {
        let mut headers = self.common_headers();
        let session = [("Mcp-Session-Id", &self.session), ("MCP-Protocol-Version", &self.revision)];
        for (name, value) in session {
            headers.extend(value.clone().map(|value| (name.to_owned(), value)));
        }
        headers
    }

    fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }
}

fn client_info() -> Value {
    json!({ "name": "greenroom-testkit", "version": env!("CARGO_PKG_VERSION") })
}

fn borrowed(headers: &[(String, String)]) -> Vec<(&str, &str)> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn no_answer(status: u16, body: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("status {status} without a JSON-RPC message: {body}"))
}
