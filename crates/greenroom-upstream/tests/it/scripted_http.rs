//! An HTTP server whose every answer is written by the test: for what no well-behaved server does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};

/// What a request is answered with: status, content type, body. `None`: nothing, ever.
pub(crate) type Answer = Option<(u16, &'static str, String)>;

/// Given the HTTP method and the message, which is null where there is none.
type Script = dyn Fn(&str, &Value) -> Answer + Send + Sync;

/// Starts the server and returns its address. It goes with the test's process.
pub(crate) fn start(script: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback address has a free port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("it is bound"));
    let script: Arc<Script> = Arc::new(script);
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let script = Arc::clone(&script);
            thread::spawn(move || serve(&connection, &*script));
        }
    });
    url
}

/// The answer to `initialize`, and silence for everything else that the handshake sends.
pub(crate) fn shake_hands(method: &str, message: &Value) -> Option<Answer> {
    let result =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "s" } });
    match (method, message["method"].as_str()) {
        ("POST", Some("initialize")) => Some(answer(message, &result)),
        ("POST", Some("notifications/initialized")) => Some(Some((202, "text/plain", String::new()))),
        ("GET", _) => Some(Some((405, "text/plain", "no stream here".to_owned()))),
        _ => None,
    }
}

/// A JSON answer with this result.
pub(crate) fn answer(message: &Value, result: &Value) -> Answer {
    let body = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    Some((200, "application/json", body.to_string()))
}

fn serve(connection: &TcpStream, script: &Script) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().expect("the client counts");
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let message = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let method = first.split(' ').next().unwrap_or_default();
        let Some((status, kind, body)) = script(method, &message) else {
            // Held open and silent until the client gives up.
            std::io::copy(&mut reader, &mut std::io::sink())?;
            return Ok(());
        };
        write!(
            &*connection,
            "HTTP/1.1 {status} Whatever\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
    }
}
