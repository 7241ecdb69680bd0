//! A client for the HTTP of a Greenroom on this machine: one request, one answer, and the connection is closed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use greenroom_core::config::HttpConfig;
use serde_json::Value;

pub(crate) struct Server {
    host: String,
    port: u16,
}

impl Server {
    pub(crate) fn new(http: &HttpConfig) -> Self {
        Self { host: http.host.trim_matches(['[', ']']).to_owned(), port: http.port }
    }

    pub(crate) fn get(&self, path: &str) -> Result<Value> {
        self.ask("GET", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: Option<&Value>) -> Result<Value> {
        self.ask("POST", path, body)
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let Self { host, port } = self;
        let answer = self.exchange(method, path, body).with_context(|| {
            format!("no greenroom answers on {host}:{port}; start one with `greenroom serve`")
        })?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let body: Value = serde_json::from_str(body)
            .with_context(|| format!("what answers on {host}:{port} is not greenroom"))?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        if !status.starts_with('2') {
            bail!("{}", body["message"].as_str().unwrap_or("the server refused without a reason"));
        }
        Ok(body)
    }

    fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> std::io::Result<String> {
        let mut stream = TcpStream::connect((self.host.as_str(), self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let name = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let body = body.map(ToString::to_string).unwrap_or_default();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {name}:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            self.port,
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}
