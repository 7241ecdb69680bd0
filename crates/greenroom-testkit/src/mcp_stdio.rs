//! A plain MCP client over a child's stdin and stdout.
//!
//! It shows messages as they are, waits with a limit, and when something does not come it panics with the
//! end of the child's stderr, which usually says why.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lock::lock;
use crate::wait::wait_until;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const STDERR_LINES_KEPT: usize = 200;
const READ_BUFFER: usize = 256 * 1024;

type Answerer = dyn FnMut(&Value) -> Option<Value> + Send;

/// A child process that speaks MCP on its stdio, and the client side of the conversation. Dropping it kills
/// the child.
pub struct McpStdio {
    child: Child,
    stdin: Option<ChildStdin>,
    incoming: Receiver<Line>,
    /// Messages that arrived while another was waited for, oldest first.
    inbox: VecDeque<Value>,
    stray_lines: Vec<String>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    answerer: Box<Answerer>,
    timeout: Duration,
    last_id: i64,
}

enum Line {
    Message(Value),
    NotJson(String),
}

impl McpStdio {
    /// Starts the command with all three of its standard streams piped here.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[must_use]
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let (sender, incoming) = mpsc::channel();
        let stdout = child.stdout.take().expect("stdout was piped above");
        thread::spawn(move || read_messages(stdout, &sender));
        let stderr = Arc::default();
        let source = child.stderr.take().expect("stderr was piped above");
        thread::spawn({
            let stderr = Arc::clone(&stderr);
            move || keep_tail(source, &stderr)
        });
        Self {
            stdin: child.stdin.take(),
            child,
            incoming,
            inbox: VecDeque::new(),
            stray_lines: Vec::new(),
            stderr,
            answerer: Box::new(answer_pings),
            timeout: DEFAULT_TIMEOUT,
            last_id: 0,
        }
    }

    /// How long to wait for a message; 10 seconds if not set.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Decides how requests of the server are answered while this client waits for something: with the
    /// returned object, which has a `result` or an `error`, or not at all, which leaves the request for
    /// [`McpStdio::next_message`]. If not set, pings are answered.
    pub fn set_answerer(&mut self, answerer: impl FnMut(&Value) -> Option<Value> + Send + 'static) {
        self.answerer = Box::new(answerer);
    }

    /// Shakes hands, with revision 2025-11-25 and no capabilities. Returns the result of `initialize`.
    ///
    /// # Panics
    ///
    /// When the server refuses, or does not answer in time.
    pub fn initialize(&mut self) -> Value {
        self.initialize_with("2025-11-25", &json!({}))
    }

    /// Shakes hands. Returns the result of `initialize`.
    ///
    /// # Panics
    ///
    /// When the server refuses, or does not answer in time.
    pub fn initialize_with(&mut self, revision: &str, capabilities: &Value) -> Value {
        let params = json!({
            "protocolVersion": revision,
            "capabilities": capabilities,
            "clientInfo": { "name": "greenroom-testkit", "version": env!("CARGO_PKG_VERSION") },
        });
        let result = take_result(self.request("initialize", params));
        self.notify("notifications/initialized", Value::Null);
        result
    }

    /// Sends a request and waits for its response, which is returned whole, be it a result or an error.
    /// `Value::Null` sends no params.
    ///
    /// # Panics
    ///
    /// When no response comes in time.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        self.request_with_timeout(method, params, self.timeout)
    }

    /// Like [`McpStdio::request`], with a limit of its own.
    ///
    /// # Panics
    ///
    /// When no response comes in time.
    pub fn request_with_timeout(&mut self, method: &str, params: Value, limit: Duration) -> Value {
        let id = self.send_request(method, params);
        self.response_within(id, limit)
            .unwrap_or_else(|why| self.give_up(&format!("{method} (id {id})"), &why))
    }

    /// Calls a tool and returns the result.
    ///
    /// # Panics
    ///
    /// When the response is an error, or does not come in time.
    pub fn call_tool(&mut self, name: &str, arguments: Value) -> Value {
        take_result(self.request("tools/call", call_params(name, arguments)))
    }

    /// Calls a tool and returns the text of its first content block.
    ///
    /// # Panics
    ///
    /// When the response is an error, starts with no text, or does not come in time.
    pub fn call_tool_text(&mut self, name: &str, arguments: Value) -> String {
        let result = self.call_tool(name, arguments);
        let text = result["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("the result of {name} starts with no text: {result}")).to_owned()
    }

    /// Sends a request and returns its id without waiting.
    pub fn send_request(&mut self, method: &str, params: Value) -> i64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&with_params(json!({ "jsonrpc": "2.0", "id": id, "method": method }), params));
        id
    }

    /// Waits for the response to a request that [`McpStdio::send_request`] sent.
    ///
    /// # Panics
    ///
    /// When it does not come in time.
    pub fn wait_for_response(&mut self, id: i64) -> Value {
        self.response_within(id, self.timeout).unwrap_or_else(|why| self.give_up(&format!("id {id}"), &why))
    }

    /// The response to a request, if it is there by then. Tells in the error why there is none.
    ///
    /// # Errors
    ///
    /// When the time is up, or the child has closed its stdout.
    pub fn response_within(&mut self, id: i64, limit: Duration) -> Result<Value, String> {
        self.message_within(limit, |message| message["id"] == id && message.get("method").is_none())
    }

    /// Sends a notification. `Value::Null` sends no params.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&with_params(json!({ "jsonrpc": "2.0", "method": method }), params));
    }

    /// Sends a message as it is.
    pub fn send(&mut self, message: &Value) {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        self.send_raw(&line);
    }

    /// Sends bytes as they are, without a line end. A child that no longer reads is not an error here:
    /// waiting for its answer tells.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
        }
    }

    /// The oldest message that nothing has waited for yet, such as a notification or a request of the server.
    ///
    /// # Panics
    ///
    /// When there is none and none comes in time.
    pub fn next_message(&mut self) -> Value {
        self.message_within(self.timeout, |_| true).unwrap_or_else(|why| self.give_up("a message", &why))
    }

    /// The oldest message that nothing has waited for yet and that `matches`.
    ///
    /// # Panics
    ///
    /// When there is none and none comes in time.
    pub fn next_message_where(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        self.message_within(self.timeout, matches)
            .unwrap_or_else(|why| self.give_up("a message that matches", &why))
    }

    /// The notifications that have arrived so far, oldest first. They stay for [`McpStdio::next_message`].
    pub fn notifications(&mut self) -> Vec<Value> {
        while let Ok(line) = self.incoming.try_recv() {
            self.file(line);
        }
        let is_notification =
            |message: &&Value| message.get("method").is_some() && message.get("id").is_none();
        self.inbox.iter().filter(is_notification).cloned().collect()
    }

    /// Lines on the child's stdout that were not JSON, as far as they have been come across.
    #[must_use]
    pub fn stray_lines(&self) -> &[String] {
        &self.stray_lines
    }

    /// The last lines that the child printed on stderr.
    #[must_use]
    pub fn stderr_tail(&self) -> String {
        lock(&self.stderr).iter().fold(String::new(), |text, line| text + line + "\n")
    }

    /// The child's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes the child's stdin, which asks it to end.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// How the child ended, or `None` while it runs.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the child is waited for here only")
    }

    /// Waits for the child to end.
    ///
    /// # Panics
    ///
    /// When it still runs after `limit`.
    pub fn wait_exit(&mut self, limit: Duration) -> ExitStatus {
        let mut status = None;
        wait_until("the child to end", limit, || {
            status = self.exit_status();
            status.is_some()
        });
        status.expect("the wait above ends with a status")
    }

    fn message_within(&mut self, limit: Duration, wanted: impl Fn(&Value) -> bool) -> Result<Value, String> {
        let until = Instant::now() + limit;
        let mut looked_at = 0;
        loop {
            while let Some(message) = self.inbox.get(looked_at) {
                if wanted(message) {
                    return Ok(self.inbox.remove(looked_at).expect("it was there a line ago"));
                }
                looked_at += 1;
            }
            match self.incoming.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => self.file(line),
                Err(RecvTimeoutError::Timeout) => return Err(format!("none came within {limit:?}")),
                Err(RecvTimeoutError::Disconnected) => return Err("the child closed its stdout".to_owned()),
            }
        }
    }

    /// Puts what arrived where it belongs, and answers it if it is a request that the answerer knows.
    fn file(&mut self, line: Line) {
        let message = match line {
            Line::Message(message) => message,
            Line::NotJson(text) => return self.stray_lines.push(text),
        };
        if message.get("method").is_some()
            && message.get("id").is_some()
            && let Some(mut answer) = (self.answerer)(&message)
        {
            answer["jsonrpc"] = json!("2.0");
            answer["id"] = message["id"].clone();
            return self.send(&answer);
        }
        self.inbox.push_back(message);
    }

    fn give_up(&mut self, what: &str, why: &str) -> ! {
        let status = match self.exit_status() {
            Some(status) => format!("it has ended ({status})"),
            None => "it still runs".to_owned(),
        };
        panic!("waited for {what}: {why}; {status}; the end of its stderr:\n{}", self.stderr_tail())
    }
}

impl Drop for McpStdio {
    fn drop(&mut self) {
        // Both fail only where the child has been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_messages(stdout: ChildStdout, sender: &Sender<Line>) {
    let mut reader = BufReader::with_capacity(READ_BUFFER, stdout);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = line.trim_ascii_end();
        let parsed = match serde_json::from_slice(text) {
            Ok(message) => Line::Message(message),
            Err(_) => Line::NotJson(String::from_utf8_lossy(text).into_owned()),
        };
        if sender.send(parsed).is_err() {
            return;
        }
        line.clear();
    }
}

fn keep_tail(stderr: ChildStderr, tail: &Mutex<VecDeque<String>>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let mut tail = lock(tail);
        if tail.len() == STDERR_LINES_KEPT {
            tail.pop_front();
        }
        tail.push_back(String::from_utf8_lossy(line.trim_ascii_end()).into_owned());
        line.clear();
    }
}

pub(crate) fn answer_pings(request: &Value) -> Option<Value> {
    (request["method"] == "ping").then(|| json!({ "result": {} }))
}

pub(crate) fn with_params(mut message: Value, params: Value) -> Value {
    if !params.is_null() {
        message["params"] = params;
    }
    message
}

pub(crate) fn call_params(name: &str, arguments: Value) -> Value {
    let mut params = json!({ "name": name });
    params["arguments"] = arguments;
    params
}

pub(crate) fn take_result(mut response: Value) -> Value {
    match response.get_mut("result") {
        Some(result) => result.take(),
        None => panic!("wanted a result but got {response}"),
    }
}
