//! The ways a call can take to the fake server, each with a server of its own.

use std::env;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use tokio::process::Command;

use crate::binaries::Binaries;
use crate::client::{Client, Era, HttpClient, StdioClient};
use crate::peers::{self, Peer};
use crate::server::Server;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Nothing in between.
    Direct,
    Greenroom,
    Peer,
}

/// A way that can be gone; [`Route::open`] starts what it needs.
pub(crate) struct Route {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The release a peer is; several routes may lead through one.
    pub(crate) package: Option<String>,
    way: Way,
}

enum Way {
    DirectStdio,
    DirectHttp,
    GreenroomStdio,
    GreenroomHttp(Era),
    Peer(&'static Peer),
}

/// A route with its server up and a client connected.
pub(crate) struct OpenRoute {
    pub(crate) server: Server,
    pub(crate) client: Client,
}

pub(crate) const DIRECT: &str = "direct";
pub(crate) const GREENROOM_STDIO: &str = "greenroom stdio";
pub(crate) const GREENROOM_HTTP: &str = "greenroom http";
pub(crate) const GREENROOM_HTTP_STATELESS: &str = "greenroom http (2026-07-28)";

/// The routes of a run, in the order in which they are measured and shown.
pub(crate) fn all(with_peers: bool) -> Vec<Route> {
    let ours = [
        (DIRECT, Kind::Direct, Way::DirectStdio),
        ("direct http", Kind::Direct, Way::DirectHttp),
        (GREENROOM_STDIO, Kind::Greenroom, Way::GreenroomStdio),
        (GREENROOM_HTTP, Kind::Greenroom, Way::GreenroomHttp(Era::Sessions)),
        (GREENROOM_HTTP_STATELESS, Kind::Greenroom, Way::GreenroomHttp(Era::Stateless)),
    ];
    let ours =
        ours.into_iter().map(|(name, kind, way)| Route { name: name.to_owned(), kind, package: None, way });
    let peers = peers::ALL.iter().filter(|_| with_peers);
    let theirs = peers.map(|peer| Route {
        name: peer.name(),
        kind: Kind::Peer,
        package: Some(peer.package()),
        way: Way::Peer(peer),
    });
    ours.chain(theirs).collect()
}

impl Route {
    /// Starts the route's server and connects to it. `scratch` is for logs and data.
    pub(crate) async fn open(&self, binaries: &Binaries, scratch: &Path) -> Result<OpenRoute> {
        let name: String = self.name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let log = scratch.join(format!("{name}.log"));
        let data = scratch.join(name);
        match &self.way {
            Way::DirectStdio => over_stdio(Command::new(&binaries.fake_upstream), &log).await,
            Way::GreenroomStdio => over_stdio(greenroom(binaries, &data, &["mcp"]), &log).await,
            Way::DirectHttp => {
                let mut command = Command::new(&binaries.fake_upstream);
                command.arg("--http");
                let (server, url) = Server::start_announced(command, &log, "Listening on ").await?;
                over_http(server, &url, Era::Sessions).await
            }
            Way::GreenroomHttp(era) => {
                let command = greenroom(binaries, &data, &["serve", "--port", "0"]);
                let (server, url) = Server::start_announced(command, &log, "greenroom listening on ").await?;
                over_http(server, &format!("{url}/mcp"), *era).await
            }
            Way::Peer(peer) => {
                let (server, url) = peer.start(binaries, &log).await?;
                over_http(server, &url, peer.era).await
            }
        }
    }
}

/// Greenroom in front of the fake server.
pub(crate) fn greenroom(binaries: &Binaries, data: &Path, args: &[&str]) -> Command {
    let mut command = unconfigured(binaries, data, args);
    command.env("GREENROOM_DRIVER", "custom").env("GREENROOM_UPSTREAM_COMMAND", &binaries.fake_upstream);
    command
}

/// Greenroom with nothing of this machine's configuration.
pub(crate) fn unconfigured(binaries: &Binaries, data: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(&binaries.greenroom);
    let ours = |name: &str| name.starts_with("GREENROOM_") || name.starts_with("PW_MCP_PROXY_");
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(ours)) {
        command.env_remove(name);
    }
    if let Some(scratch) = data.parent() {
        command.current_dir(scratch).env("XDG_CONFIG_HOME", scratch);
    }
    command.args(args).arg("--data-dir").arg(data);
    command
}

pub(crate) async fn over_stdio(command: Command, log: &Path) -> Result<OpenRoute> {
    let (server, stdin, stdout) = Server::start_piped(command, log)?;
    let client = StdioClient::connect(stdin, stdout).await.with_context(|| server.last_words())?;
    Ok(OpenRoute { server, client: Client::Stdio(client) })
}

async fn over_http(server: Server, url: &str, era: Era) -> Result<OpenRoute> {
    let client = HttpClient::connect(url, era).await.with_context(|| server.last_words())?;
    Ok(OpenRoute { server, client: Client::Http(client) })
}
