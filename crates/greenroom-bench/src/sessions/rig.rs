//! What is measured, started: gateways, and browser servers without one.
//!
//! Both sides have the same browser, launched with the same flags, and visit the same site, on loopback. Greenroom has an
//! empty configuration and a data folder of its own; the browser server's configuration is the one that Greenroom
//! gives it.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use greenroom_testkit::Site;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

use super::tree::Tree;
use crate::binaries::Binaries;
use crate::client::{Call, Client, Era, HttpClient};
use crate::routes;
use crate::server::Server;

/// What one call may take, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long an action waits for what it set off, on both sides. It is Greenroom's default, and the server's own.
pub(super) const SETTLE_MS: u64 = 500;

/// What Greenroom gives every Chromium.
const QUIET: [&str; 4] =
    ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];

/// The page that is visited, and what its title shows as.
const PAGE: (&str, &str) = ("/form", "Page Title: Form");
const OTHER_PAGE: (&str, &str) = ("/links", "Page Title: Links");

pub(crate) struct Rig<'a> {
    binaries: &'a Binaries,
    site: Site,
    scratch: TempDir,
    /// Where the browser server was installed before.
    installed: PathBuf,
    found: Found,
    /// For names of folders and logs.
    started: AtomicUsize,
}

/// What Greenroom finds on this machine.
struct Found {
    node: PathBuf,
    server: PathBuf,
    browser: PathBuf,
    browser_version: String,
}

/// A running `greenroom serve`.
pub(crate) struct Gateway {
    server: Server,
    url: String,
}

/// The connection of one agent, to its session or to its own browser server.
pub(crate) struct Agent {
    client: Client,
    session: Option<String>,
}

impl<'a> Rig<'a> {
    pub(crate) fn new(binaries: &'a Binaries) -> Result<Self> {
        let scratch = tempfile::tempdir().context("no scratch folder could be made")?;
        // Where the tests have it.
        let data = binaries.target.join("test-data");
        let installed = data.join("upstream");
        ensure!(
            installed.is_dir(),
            "the browser server is not installed in {0}; run `greenroom install --data-dir {0}`",
            data.display()
        );
        let found = Found::ask(binaries, &data, scratch.path())?;
        Ok(Self { binaries, site: Site::start(), scratch, installed, found, started: AtomicUsize::new(0) })
    }

    pub(crate) fn versions(&self) -> Vec<(String, String)> {
        let manifest = self.found.server.join("node_modules/@playwright/mcp/package.json");
        let manifest = fs::read(manifest).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let version =
            manifest.as_ref().and_then(|manifest| manifest["version"].as_str()).unwrap_or("unknown");
        vec![
            ("@playwright/mcp".to_owned(), version.to_owned()),
            (
                "browser".to_owned(),
                format!("{} ({})", self.found.browser_version, self.found.browser.display()),
            ),
        ]
    }

    fn name(&self, kind: &str) -> String {
        format!("{kind}-{}", self.started.fetch_add(1, Ordering::Relaxed))
    }

    /// A gateway without a session yet. `warm` differs from the default only where it is given.
    pub(crate) async fn gateway(&self, warm: Option<usize>) -> Result<Gateway> {
        let warm = warm.map(|warm| ("GREENROOM_WARM_SESSIONS", warm.to_string()));
        self.gateway_with(warm.as_slice()).await
    }

    /// A gateway that has these variables.
    pub(crate) async fn gateway_with(&self, variables: &[(&str, String)]) -> Result<Gateway> {
        let name = self.name("greenroom");
        let data = self.scratch.path().join(&name);
        fs::create_dir(&data)?;
        symlink(&self.installed, data.join("upstream"))?;
        // Nothing is to be fetched in a benchmark.
        let args = ["serve", "--port", "0", "--no-install"];
        let mut command = routes::unconfigured(self.binaries, &data, &args);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let log = self.scratch.path().join(format!("{name}.log"));
        let (server, url) = Server::start_announced(command, &log, "greenroom listening on ").await?;
        Ok(Gateway { server, url: format!("{url}/mcp") })
    }

    /// A browser server of an agent's own, greeted: no browser runs yet.
    pub(super) async fn upstream(&self) -> Result<(Server, Agent)> {
        self.upstream_settling(SETTLE_MS).await
    }

    /// One whose actions wait so long for what they set off.
    pub(crate) async fn upstream_settling(&self, settle_ms: u64) -> Result<(Server, Agent)> {
        let name = self.name("upstream");
        let folder = self.scratch.path().join(&name);
        fs::create_dir(&folder)?;
        let config = folder.join("config.json");
        fs::write(&config, self.upstream_config(&folder, settle_ms).to_string())?;
        let mut command = Command::new(&self.found.node);
        command
            .arg(self.found.server.join("node_modules/@playwright/mcp/cli.js"))
            .arg("--config")
            .arg(&config)
            .current_dir(&folder)
            .env("TMPDIR", &folder);
        let log = self.scratch.path().join(format!("{name}.log"));
        let open = timeout(PATIENCE, routes::over_stdio(command, &log))
            .await
            .context("the browser server does not greet")??;
        Ok((open.server, Agent { client: open.client, session: None }))
    }

    fn upstream_config(&self, folder: &Path, settle_ms: u64) -> Value {
        // Root cannot have a sandbox.
        let is_root = fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0);
        json!({
            "browser": {
                "browserName": "chromium",
                "isolated": true,
                "launchOptions": {
                    "headless": true,
                    "executablePath": self.found.browser,
                    "chromiumSandbox": !is_root,
                    "args": QUIET,
                },
            },
            "capabilities": ["core"],
            "outputDir": folder.join("output"),
            "filePaths": "absolute",
            "timeouts": { "action": 30_000, "navigation": 30_000, "settle": settle_ms, "idle": 0 },
            "webmcp": false,
        })
    }

    /// The full URL of a page.
    pub(crate) fn url(&self, path: &str) -> String {
        self.site.url(path)
    }

    fn visit(&self, agent: &Agent, (path, title): (&str, &'static str)) -> Call {
        let url = self.site.url(path);
        Call::answered_with(title, "browser_navigate", &agent.arguments(json!({ "url": url })))
    }

    /// Goes to the page.
    pub(super) async fn navigate(&self, agent: &mut Agent) -> Result<Duration> {
        let call = self.visit(agent, PAGE);
        agent.call(&call).await
    }

    /// Goes to a page, by turns one of two, and looks at it. Two calls.
    pub(super) async fn navigate_and_look(&self, agent: &mut Agent, turn: usize) -> Result<[Duration; 2]> {
        let page = if turn.is_multiple_of(2) { PAGE } else { OTHER_PAGE };
        let go = self.visit(agent, page);
        let look = Call::answered_with(page.1, "browser_snapshot", &agent.arguments(json!({})));
        Ok([agent.call(&go).await?, agent.call(&look).await?])
    }
}

impl Gateway {
    pub(crate) fn tree(&self) -> Tree {
        Tree::of(vec![self.server.pid()])
    }

    /// Resident memory of Greenroom itself, in KiB.
    pub(crate) fn rss_kb(&self) -> u64 {
        self.server.rss_kb()
    }

    /// Host and port.
    pub(crate) fn authority(&self) -> &str {
        self.url.trim_start_matches("http://").trim_end_matches("/mcp")
    }

    /// A client that has greeted.
    pub(crate) async fn client(&self) -> Result<HttpClient> {
        HttpClient::connect(&self.url, Era::Sessions).await.with_context(|| self.last_words())
    }

    /// A client that has greeted, and will use this session: it is made by the first call.
    pub(crate) async fn agent(&self, session: String) -> Result<Agent> {
        Ok(Agent { client: Client::Http(self.client().await?), session: Some(session) })
    }

    pub(crate) fn last_words(&self) -> String {
        self.server.last_words()
    }

    pub(crate) async fn end(self) {
        self.server.end().await;
    }
}

impl Agent {
    pub(crate) fn arguments(&self, mut arguments: Value) -> Value {
        if let Some(session) = &self.session {
            arguments["sessionId"] = session.as_str().into();
        }
        arguments
    }

    pub(crate) async fn call(&mut self, call: &Call) -> Result<Duration> {
        if let Client::Http(client) = &mut self.client {
            // The server may have closed a connection that was left alone.
            client.reconnect().await?;
        }
        timeout(PATIENCE, self.client.call(call))
            .await
            .with_context(|| format!("{}: no answer", call.tool))?
    }

    /// Ends the session.
    pub(crate) async fn close(mut self) -> Result<()> {
        let call = Call::answered_with("result", "session_close", &self.arguments(json!({})));
        self.call(&call).await.map(drop)
    }
}

impl Found {
    fn ask(binaries: &Binaries, data: &Path, scratch: &Path) -> Result<Self> {
        let mut command = routes::unconfigured(binaries, data, &["doctor"]).into_std();
        let output = command.current_dir(scratch).env("XDG_CONFIG_HOME", scratch).output()?;
        Self::read(&String::from_utf8_lossy(&output.stdout))
    }

    /// The doctor's findings: a mark, a subject, and `VERSION at PATH` or a path alone.
    fn read(findings: &str) -> Result<Self> {
        let finding = |subject: &str| {
            let line = findings.lines().find_map(|line| line.strip_prefix("ok  ")?.strip_prefix(subject));
            line.map(str::trim).with_context(|| format!("`greenroom doctor` found no {subject}:\n{findings}"))
        };
        let with_version = |subject: &str| match finding(subject)?.rsplit_once(" at ") {
            Some((version, path)) => Ok((version.to_owned(), PathBuf::from(path))),
            None => bail!("`greenroom doctor` says of its {subject} only {:?}", finding(subject)?),
        };
        let (_, node) = with_version("node")?;
        let (browser_version, browser) = with_version("browser")?;
        Ok(Self { node, server: PathBuf::from(finding("server")?), browser, browser_version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_doctor_found_is_used() {
        let found = Found::read(
            "ok  node         v20.20.2 at /usr/bin/node\nok  npm          /usr/bin/npm\n\
             ok  server       /data/upstream/playwright-1\nok  browser      Chromium 156 at /usr/bin/shell\n",
        )
        .unwrap();
        assert_eq!(found.node, Path::new("/usr/bin/node"));
        assert_eq!(found.server, Path::new("/data/upstream/playwright-1"));
        assert_eq!(
            (found.browser.as_path(), found.browser_version.as_str()),
            (Path::new("/usr/bin/shell"), "Chromium 156")
        );
    }

    #[test]
    fn what_is_ill_is_not_found() {
        let error = Found::read("ok  node         v20 at /node\n!!  browser      none\n").err().unwrap();
        assert!(error.to_string().contains("found no browser"), "{error}");
    }
}
