//! A room for one browser host: its folders, a site to visit, and the right to start a browser there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use greenroom_core::config::{BrowserConfig, UpstreamConfig};
use greenroom_testkit::{Site, children_of};
use greenroom_upstream::Upstream;
use greenroom_upstream::driver::{PlaywrightDriver, PlaywrightSetup};
use greenroom_upstream::host::{ContextId, Host, HostError, Wire};
use greenroom_upstream::install::{Installed, Installer, Machine, Need};
use greenroom_upstream::rpc::{Peer, Pending};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::support::{MIB, browser_config, call, chain, eventually, launch, run, settings, soon};

/// A small machine has room for two browsers.
static BROWSERS: Semaphore = Semaphore::const_new(2);

/// Installed once for the tests of all crates.
pub(crate) fn test_data() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target folder");
    target.join("test-data")
}

pub(crate) fn installer() -> Installer {
    Installer::new(test_data(), Machine::this(), true, |_| {})
}

/// On a machine without a browser this fetches one, which takes as long as the network does.
pub(crate) async fn installed() -> Installed {
    match installer().ensure(&Need::playwright(browser())).await {
        Ok(installed) => installed,
        Err(error) => panic!("{}", chain(&error)),
    }
}

/// What the tests of the real browser begin with.
pub(crate) fn browser() -> BrowserConfig {
    BrowserConfig {
        // No navigation here ends by running into it.
        timeout_navigation: Duration::from_secs(3600),
        timeout_settle: Duration::ZERO,
        ..browser_config()
    }
}

/// The browser that is installed here.
pub(crate) async fn browser_program() -> PathBuf {
    installed().await.browser.expect("it is on this machine")
}

/// The folders of one host, and the right to start a browser there.
pub(crate) struct Room {
    pub(crate) site: Site,
    pub(crate) folder: TempDir,
    _permit: SemaphorePermit<'static>,
}

impl Room {
    pub(crate) async fn enter() -> Self {
        installed().await;
        let permit = BROWSERS.acquire().await.expect("it is never closed");
        let folder = TempDir::new().expect("a temporary folder");
        for name in ["workspace", "temporary"] {
            fs::create_dir(folder.path().join(name)).expect("the folder is new");
        }
        Self { site: Site::start(), folder, _permit: permit }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    pub(crate) fn output(&self) -> PathBuf {
        self.folder.path().join("output")
    }

    /// A browser that is killed leaves folders behind; here they go with the room.
    pub(crate) fn temporary(&self) -> String {
        self.folder.path().join("temporary").display().to_string()
    }

    /// The settings of an upstream in this room.
    pub(crate) fn settings(&self) -> UpstreamConfig {
        UpstreamConfig { env: vec![("TMPDIR".to_owned(), self.temporary())], ..settings() }
    }

    pub(crate) fn setup(&self) -> PlaywrightSetup {
        PlaywrightSetup {
            run: run(),
            installer: installer(),
            output_dir: self.output(),
            workspace: self.workspace(),
            profile_dir: self.profile(),
            warm: false,
        }
    }

    pub(crate) fn profile(&self) -> PathBuf {
        self.folder.path().join("profile")
    }

    pub(crate) fn driver(&self) -> PlaywrightDriver {
        self.driver_for(browser())
    }

    pub(crate) fn driver_for(&self, browser: BrowserConfig) -> PlaywrightDriver {
        PlaywrightDriver::new(browser, &self.settings(), self.setup())
    }

    pub(crate) async fn launch_for(&self, browser: BrowserConfig) -> Upstream {
        launch(&self.driver_for(browser)).await
    }

    pub(crate) async fn launch(&self) -> Upstream {
        launch(&self.driver()).await
    }

    /// A host without the driver around it, for what the driver does not show.
    pub(crate) async fn start_host(&self) -> Host {
        let installed = installed().await;
        self.try_host(&installed.script, &browser_program().await).await.expect("the host starts")
    }

    /// Another script or another browser in the place of the installed ones.
    pub(crate) async fn try_host(&self, script: &Path, browser: &Path) -> Result<Host, HostError> {
        let mut command = Command::new(&installed().await.node);
        command.arg(script).current_dir(self.workspace()).env("TMPDIR", self.temporary());
        let options = json!({ "headless": true, "executablePath": browser, "chromiumSandbox": false });
        let start = json!({
            "launch": { "type": "chromium", "options": options },
            "mcp": { "capabilities": ["core"], "outputDir": self.output(), "webmcp": false },
        });
        let starting = async {
            let host = Host::spawn(command, Wire::Socket, &run()).await?;
            host.start(start).await?;
            Ok(host)
        };
        soon("the host", starting).await
    }

    pub(crate) async fn navigate(&self, upstream: &Upstream, path: &str) -> Said {
        said(upstream, "browser_navigate", json!({ "url": self.site.url(path) })).await
    }

    /// A navigation that has reached the site, which will not answer it.
    pub(crate) async fn navigate_for_ever(&self, upstream: &Upstream) -> Pending {
        let url = self.site.url("/slow?ms=3600000");
        let before = self.site.hits("/slow");
        let pending = upstream.call("browser_navigate", &json!({ "url": url }), None).expect("it is up");
        eventually("the browser to ask for the slow page", || self.site.hits("/slow") > before).await;
        pending
    }
}

pub(crate) async fn open(host: &Host) -> (ContextId, Peer) {
    let opening = host.open(json!({}), json!({}), Vec::new(), 16 * MIB);
    let (context, peer) = soon("a context", opening).await.expect("a context can be opened");
    soon("the handshake", peer.initialize()).await.expect("the connection shakes hands");
    (context, peer)
}

/// A tool's result as text.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

impl Said {
    pub(crate) fn read(result: &[u8]) -> Self {
        let value: Value = serde_json::from_slice(result).expect("a result is JSON");
        let text = value["content"][0]["text"].as_str().expect("it begins with text").to_owned();
        Self { text, is_error: value["isError"] == true }
    }

    /// The text below a heading, up to the next one.
    #[track_caller]
    pub(crate) fn section(&self, heading: &str) -> &str {
        let start = format!("### {heading}\n");
        let Some((_, rest)) = self.text.split_once(&start) else { panic!("no {heading} in {}", self.text) };
        rest.split("\n### ").next().unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn headings(&self) -> Vec<&str> {
        self.text.lines().filter_map(|line| line.strip_prefix("### ")).collect()
    }

    #[track_caller]
    pub(crate) fn fine(self) -> Self {
        assert!(!self.is_error, "{}", self.text);
        self
    }
}

pub(crate) async fn said(upstream: &Upstream, tool: &str, arguments: Value) -> Said {
    match call(upstream, tool, arguments).await {
        Ok(result) => Said::read(&result),
        Err(error) => panic!("{tool} failed: {}", chain(&error)),
    }
}

pub(crate) async fn peer_said(peer: &Peer, tool: &str, arguments: Value) -> Said {
    let pending = peer.call_tool(tool, &arguments, None).expect("the connection is up");
    Said::read(&soon(tool, pending).await.expect("it is answered"))
}

pub(crate) fn arguments_of(pid: u32) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    text.split('\0').map(str::to_owned).collect()
}

/// The browser's main process. Debian's program is a script that has the same arguments and stands before it.
pub(crate) fn browser_pid(host: u32) -> Option<u32> {
    let is_main = |pid: &u32| {
        let arguments = arguments_of(*pid);
        arguments.iter().any(|argument| argument == "--remote-debugging-pipe")
            && !arguments.iter().any(|argument| argument.starts_with("--type="))
    };
    children_of(host).into_iter().rfind(is_main)
}
