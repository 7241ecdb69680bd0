//! Other programs that put a stdio server behind Streamable HTTP.
//!
//! Each is run as its documentation says, with only its logging turned down: at their defaults some print every
//! message, which would measure the printing. They are installed on demand, in a folder that is kept.

mod install;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};
use tokio::process::Command;

use crate::binaries::Binaries;
use crate::client::Era;
use crate::server::{Server, free_port};

pub(crate) struct Peer {
    package: &'static Package,
    /// What tells it from the same package run in another way.
    variant: &'static str,
    arguments: fn(Setup<'_>) -> Vec<String>,
    path: &'static str,
    pub(crate) era: Era,
}

/// A pinned release.
pub(crate) struct Package {
    registry: Registry,
    name: &'static str,
    version: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Registry {
    Npm,
    PyPi,
}

/// What a peer's command line must say.
struct Setup<'a> {
    port: &'a str,
    /// The command of the server behind it.
    command: &'a str,
}

const NPM_MCP_PROXY: Package = Package { registry: Registry::Npm, name: "mcp-proxy", version: "6.7.19" };
const SUPERGATEWAY: Package = Package { registry: Registry::Npm, name: "supergateway", version: "4.0.0" };
const PYPI_MCP_PROXY: Package = Package { registry: Registry::PyPi, name: "mcp-proxy", version: "0.13.0" };

pub(crate) const ALL: &[Peer] = &[
    Peer { package: &NPM_MCP_PROXY, variant: "", arguments: npm_mcp_proxy, path: "/mcp", era: Era::Sessions },
    Peer {
        package: &NPM_MCP_PROXY,
        variant: "2026-07-28",
        arguments: npm_mcp_proxy,
        path: "/mcp",
        era: Era::Stateless,
    },
    Peer {
        package: &SUPERGATEWAY,
        variant: "stateless",
        arguments: supergateway,
        path: "/mcp",
        era: Era::Sessions,
    },
    Peer {
        package: &SUPERGATEWAY,
        variant: "stateful",
        arguments: |setup| [supergateway(setup), strings(["--stateful"])].concat(),
        path: "/mcp",
        era: Era::Sessions,
    },
    Peer {
        package: &PYPI_MCP_PROXY,
        variant: "",
        arguments: |Setup { port, command }| {
            strings(["--host", "127.0.0.1", "--port", port, "--log-level", "ERROR", "--", command])
        },
        path: "/mcp",
        era: Era::Sessions,
    },
];

fn npm_mcp_proxy(Setup { port, command }: Setup<'_>) -> Vec<String> {
    strings(["--host", "127.0.0.1", "--port", port, "--server", "stream", "--", command])
}

fn supergateway(Setup { port, command }: Setup<'_>) -> Vec<String> {
    let output = ["--outputTransport", "streamableHttp", "--logLevel", "none"];
    [strings(["--stdio", command, "--port", port]), strings(output)].concat()
}

fn strings<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

impl Peer {
    pub(crate) fn name(&self) -> String {
        let comma = if self.variant.is_empty() { "" } else { ", " };
        format!("{}{comma}{}", self.package(), self.variant)
    }

    /// The release, as in `npm supergateway 4.0.0`.
    pub(crate) fn package(&self) -> String {
        let Package { registry, name, version } = self.package;
        let registry = match registry {
            Registry::Npm => "npm",
            Registry::PyPi => "PyPI",
        };
        format!("{registry} {name} {version}")
    }

    /// Installs it where it is missing, and starts it in front of the fake server. Returns its endpoint.
    pub(crate) async fn start(&self, binaries: &Binaries, log: &Path) -> Result<(Server, String)> {
        let program = self.package.install(&cache(binaries)).await.context("cannot be installed")?;
        let port = free_port()?;
        let command = binaries.fake_upstream.to_str().context("the target folder's name is not text")?;
        let mut child = Command::new(program);
        child.args((self.arguments)(Setup { port: &port.to_string(), command }));
        let server = Server::start_on_port(child, log, port).await.context("does not start")?;
        Ok((server, format!("http://127.0.0.1:{port}{}", self.path)))
    }
}

fn cache(binaries: &Binaries) -> PathBuf {
    binaries.target.join("bench-peers")
}

/// The programs that peers run on, with their versions.
pub(crate) async fn runtimes() -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for program in ["node", "python3"] {
        let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().await;
        let version = output.map_or_else(
            |error| format!("not found ({error})"),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        );
        found.push((program, version));
    }
    found
}
