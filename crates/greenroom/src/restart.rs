//! `greenroom restart`: asks a running server, over its own HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use greenroom_core::config::HttpConfig;

pub(crate) fn restart(server: &HttpConfig) -> Result<ExitCode> {
    let (host, port) = (server.host.trim_matches(['[', ']']), server.port);
    let answer = post(host, port, "/api/pools/DEFAULT/instances/0/restart").with_context(|| {
        format!("no greenroom answers on {host}:{port}; start one with `greenroom serve`")
    })?;
    let status = answer.split(' ').nth(1).unwrap_or_default();
    if status != "202" {
        bail!("the server on {host}:{port} refused: {}", answer.lines().last().unwrap_or_default());
    }
    writeln!(std::io::stdout(), "The browser server is being started anew.").context("stdout is closed")?;
    Ok(ExitCode::SUCCESS)
}

/// One request, one answer, and the connection is closed: not worth a client.
fn post(host: &str, port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((host, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let name = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {name}:{port}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
