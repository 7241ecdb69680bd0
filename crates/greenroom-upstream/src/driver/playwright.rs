//! `@playwright/mcp`, inside our host.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use greenroom_core::config::{Browser, BrowserConfig, UpstreamConfig};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::process::Command;

use super::{Behind, Driver, LaunchError, Overlap, Upstream};
use crate::host::{Host, SCRIPT};
use crate::install::{Installed, Installer};
use crate::run_folder::Run;

/// Runs code inside the upstream's own process.
const UNSAFE_TOOL: &str = "browser_run_code_unsafe";

/// Keeps Chromium from looking for the outside on its own account.
const QUIET: [&str; 4] =
    ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];

/// Old files are removed from the output folder beyond this.
const OUTPUT_LIMIT_BYTES: u64 = 256 * 1024 * 1024;

pub struct PlaywrightDriver {
    browser: BrowserConfig,
    env: Vec<(String, String)>,
    start_timeout: Duration,
    message_limit: usize,
    allow_unsafe_code: bool,
    setup: PlaywrightSetup,
}

/// What the driver needs from its surroundings.
pub struct PlaywrightSetup {
    pub run: Arc<Run>,
    pub installer: Installer,
    /// Where files without a name of their own go, unless configured.
    pub output_dir: PathBuf,
    /// What relative file names are relative to, and what files may be read from.
    pub workspace: PathBuf,
}

impl PlaywrightDriver {
    pub fn new(browser: BrowserConfig, upstream: &UpstreamConfig, setup: PlaywrightSetup) -> Self {
        Self {
            browser,
            env: upstream.env.clone(),
            start_timeout: upstream.start_timeout,
            message_limit: upstream.max_message_bytes,
            allow_unsafe_code: upstream.allow_unsafe_code,
            setup,
        }
    }

    fn output_dir(&self) -> &Path {
        self.browser.output_dir.as_deref().unwrap_or(&self.setup.output_dir)
    }

    /// The host's first request: how to launch a browser, and each connection's configuration.
    fn start_request(&self, installed: &Installed) -> Value {
        let browser = &self.browser;
        let kind = match browser.browser {
            Browser::Firefox => "firefox",
            Browser::Webkit => "webkit",
            Browser::Chromium | Browser::Chrome | Browser::Edge => "chromium",
        };
        let mut options = json!({ "headless": browser.headless, "executablePath": installed.browser });
        if browser.browser.is_chromium() {
            let no_sandbox = browser.no_sandbox.unwrap_or_else(|| nix::unistd::geteuid().is_root());
            options["chromiumSandbox"] = (!no_sandbox).into();
            options["args"] = json!(QUIET);
        }
        let mut capabilities = vec!["core"];
        capabilities.extend(browser.caps.iter().map(String::as_str));
        json!({
            "launch": { "type": kind, "options": options },
            "mcp": {
                "capabilities": capabilities,
                "outputDir": self.output_dir(),
                "outputMaxSize": OUTPUT_LIMIT_BYTES,
                // Our working directory is not the agent's: a relative path would mislead it.
                "filePaths": "absolute",
                "timeouts": {
                    "action": millis(browser.timeout_action),
                    "navigation": millis(browser.timeout_navigation),
                    "settle": millis(browser.timeout_settle),
                    // Greenroom decides when a browser goes.
                    "idle": 0,
                },
                // Pages must not be able to add tools.
                "webmcp": false,
            },
        })
    }

    fn context_options(&self) -> Value {
        let mut options = json!({ "ignoreHTTPSErrors": self.browser.ignore_https_errors });
        if let Some((width, height)) = self.browser.viewport {
            options["viewport"] = json!({ "width": width, "height": height });
        } else if !self.browser.headless {
            // A window that a person sees decides the page's size itself.
            options["viewport"] = Value::Null;
        }
        options
    }

    async fn launch_host(&self) -> Result<Upstream, LaunchError> {
        let installed = self.setup.installer.ensure(&self.browser).await?;
        let output_dir = self.output_dir();
        tokio::fs::create_dir_all(output_dir)
            .await
            .map_err(|source| LaunchError::Folder { path: output_dir.to_owned(), source })?;
        let mut command = Command::new(&installed.node);
        command.current_dir(&self.setup.workspace).envs(self.env.iter().map(|(name, value)| (name, value)));
        let launch = async {
            let host =
                Host::start(command, &installed.host_script, self.start_request(&installed), &self.setup.run)
                    .await?;
            let roots = vec![file_uri(&self.setup.workspace)];
            let (context, peer) = host.open(self.context_options(), roots, self.message_limit).await?;
            let info = peer.initialize().await?;
            Ok::<_, LaunchError>(Upstream { peer, info, behind: Behind::Host { host, context } })
        };
        match tokio::time::timeout(self.start_timeout, launch).await {
            Ok(launched) => launched,
            Err(_) => Err(LaunchError::TooSlow {
                what: "the browser host (node)".to_owned(),
                limit: self.start_timeout,
                last_output: Vec::new(),
            }),
        }
    }
}

impl Driver for PlaywrightDriver {
    fn name(&self) -> &str {
        "playwright"
    }

    fn launch(&self) -> BoxFuture<'_, Result<Upstream, LaunchError>> {
        self.launch_host().boxed()
    }

    fn overlap(&self) -> Overlap {
        Overlap::InTurn
    }

    fn tool_list_name(&self) -> Option<String> {
        // The list depends on the pinned version, on the capabilities and on how our script asks for it.
        let mut hash = Sha256::new();
        hash.update(crate::install::LOCK_FILE);
        hash.update(SCRIPT);
        hash.update(self.browser.caps.join(","));
        let digest = hash.finalize();
        Some(digest[..8].iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn offers(&self, tool: &str) -> bool {
        self.allow_unsafe_code || tool != UNSAFE_TOOL
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn file_uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut uri = String::from("file://");
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn paths_become_uris_that_come_back_as_the_same_path() {
        assert_eq!(super::file_uri(Path::new("/a b/ü#?%")), "file:///a%20b/%C3%BC%23%3F%25");
    }
}
