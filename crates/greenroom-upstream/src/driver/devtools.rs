//! `chrome-devtools-mcp`: a process for each browser, which it launches itself or attaches to.

mod endpoint;
mod options;
mod results;
mod watcher;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use greenroom_core::config::{BrowserConfig, Profile, UpstreamConfig};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::process::Command;

use super::profile::{self, ProfileLock};
use super::reading::Reading;
use super::{Behind, Driver, LaunchError, Overlap, SeatOptions, Upstream};
use crate::install::{DEVTOOLS_LOCK_FILE, Installer, Need, Server};
use crate::process::{self, Epilogue, Output, Process, Spawned};
use crate::rpc::{Peer, ServerInfo, connect_lines};
use crate::run_folder::Run;

pub use endpoint::reachable;
pub use greenroom_core::attach::Endpoint;
pub(super) use watcher::Watcher;

const WHAT: &str = "chrome-devtools-mcp";

/// The cheapest tool that needs a browser.
const LOOK: &str = "list_pages";

pub struct DevtoolsDriver {
    target: Target,
    env: Vec<(String, String)>,
    start_timeout: Duration,
    message_limit: usize,
    setup: DevtoolsSetup,
}

/// What the driver needs from its surroundings.
pub struct DevtoolsSetup {
    pub run: Arc<Run>,
    pub installer: Installer,
    /// Where files go, unless configured: what tools call by a relative name is relative to it.
    pub output_dir: PathBuf,
    /// What files may be read from, beside the output folder, and what configured names are relative to.
    pub workspace: PathBuf,
    /// Where the profile is kept, if it is and no other place is configured.
    pub profile_dir: PathBuf,
}

/// The browser that is driven.
enum Target {
    Launched(Box<BrowserConfig>),
    /// Somebody else's: it is left as it is.
    Attached(Endpoint),
}

/// What a server is started for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    Browser,
    /// The list of its tools only.
    List,
}

/// One launch: where its files go, and what it is told.
struct Plan {
    folder: PathBuf,
    arguments: Vec<String>,
    lock: Option<ProfileLock>,
}

impl DevtoolsDriver {
    /// Launches a browser of its own.
    pub fn new(browser: BrowserConfig, upstream: &UpstreamConfig, setup: DevtoolsSetup) -> Self {
        Self::with(Target::Launched(Box::new(browser)), upstream, setup)
    }

    /// Drives a browser that somebody else has started, and leaves it and its pages as they are in the end.
    pub fn attached(endpoint: Endpoint, upstream: &UpstreamConfig, setup: DevtoolsSetup) -> Self {
        Self::with(Target::Attached(endpoint), upstream, setup)
    }

    fn with(target: Target, upstream: &UpstreamConfig, setup: DevtoolsSetup) -> Self {
        Self {
            target,
            env: upstream.env.clone(),
            start_timeout: upstream.start_timeout,
            message_limit: upstream.max_message_bytes,
            setup,
        }
    }

    /// Where this path leads: what is relative is so to the workspace.
    fn absolute(&self, path: &Path) -> PathBuf {
        self.setup.workspace.join(path)
    }

    async fn launch_server(&self, seat: Option<&SeatOptions>, wants: Wants) -> Result<Upstream, LaunchError> {
        let need = match &self.target {
            Target::Launched(browser) => Need::devtools(BrowserConfig::clone(browser)),
            Target::Attached(endpoint) => {
                // Before a server is started for it, and in better words than the server has.
                if wants == Wants::Browser {
                    reachable(endpoint).await.map_err(no_browser)?;
                }
                Need::to_attach(Server::Devtools)
            }
        };
        let installed = self.setup.installer.ensure(&need).await?;
        let plan = self.plan(seat, installed.browser.as_deref()).await?;
        let mut command = Command::new(&installed.node);
        command
            .arg(&installed.script)
            .args(&plan.arguments)
            .current_dir(&plan.folder)
            .env("CHROME_DEVTOOLS_MCP_NO_USAGE_STATISTICS", "1")
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        let Spawned { process, stdin, stdout } =
            process::spawn_with(command, None, Output::Piped, &self.setup.run, Some(farewell(plan.lock)))
                .await?;
        let (stdin, stdout) = (stdin.expect("it is piped"), stdout.expect("it is piped"));
        let watch = process.watch();
        let on_end = {
            let watch = watch.clone();
            move || async move { watch.obituary(WHAT).await }
        };
        let peer = connect_lines(stdout, stdin, Vec::new(), self.message_limit, on_end);
        match tokio::time::timeout(self.start_timeout, self.get_ready(&process, &peer, wants)).await {
            Ok(Ok((info, watcher))) => {
                let behind = match watcher {
                    Some(watcher) => Behind::Watched { process, watcher },
                    None => Behind::Process(process),
                };
                Ok(Upstream { peer, info, behind, folder: Some(plan.folder) })
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(LaunchError::TooSlow {
                what: WHAT.to_owned(),
                task: "get a browser ready",
                limit: self.start_timeout,
                last_output: watch.last_output(),
            }),
        }
    }

    /// Where files go and what the server is told.
    async fn plan(&self, seat: Option<&SeatOptions>, executable: Option<&Path>) -> Result<Plan, LaunchError> {
        let (mut folder, workspace) = (self.absolute(&self.setup.output_dir), self.setup.workspace.clone());
        let (mut arguments, mut lock) = (options::common(), None);
        match &self.target {
            Target::Attached(endpoint) => arguments.extend(options::attach(endpoint)),
            Target::Launched(browser) => {
                let mut browser = BrowserConfig::clone(browser);
                if let Some(path) = &browser.output_dir {
                    folder = self.absolute(path);
                }
                if let Some(seat) = seat {
                    options::seat(&mut browser, seat).map_err(LaunchError::Options)?;
                }
                let profile = match &browser.profile {
                    Profile::Isolated => None,
                    Profile::Kept => Some(self.absolute(&self.setup.profile_dir)),
                    Profile::At(path) => Some(self.absolute(path)),
                };
                if let Some(path) = &profile {
                    lock = Some(profile::take(path).await?);
                }
                let is_root = self.setup.installer.machine().is_root;
                arguments.extend(options::launch(&browser, executable, profile.as_deref(), is_root));
            }
        }
        if let Some(seat) = seat {
            folder.clone_from(&seat.folder);
        }
        tokio::fs::create_dir_all(&folder)
            .await
            .map_err(|source| LaunchError::Folder { path: folder.clone(), source })?;
        // A session has its own folder and no other.
        let readable = seat.is_none().then_some(workspace);
        arguments.extend(options::folders([Some(folder.clone()), readable].into_iter().flatten()));
        Ok(Plan { folder, arguments, lock })
    }

    /// The server brings its browser up with the first call. Made here, a browser that cannot be had fails the launch and not
    /// an agent's call, and one that goes can be told from one that has not been.
    async fn get_ready(
        &self,
        process: &Process,
        peer: &Peer,
        wants: Wants,
    ) -> Result<(ServerInfo, Option<Watcher>), LaunchError> {
        let info = peer.initialize().await?;
        if wants == Wants::List {
            return Ok((info, None));
        }
        let answer = peer.call_tool(LOOK, &json!({}), None).map_err(crate::rpc::CallError::from)?.await?;
        if let Some(said) = error_in(&answer) {
            return Err(no_browser(said));
        }
        process.look_well().await;
        let watcher = match &self.target {
            Target::Launched(_) => Watcher::of_process_below(process.pid(), peer),
            Target::Attached(endpoint) => Watcher::of_endpoint(endpoint.clone(), peer),
        };
        Ok((info, Some(watcher)))
    }
}

fn no_browser(said: String) -> LaunchError {
    LaunchError::NoBrowser { what: WHAT.to_owned(), said }
}

/// What a result says went wrong, if it says so.
fn error_in(result: &[u8]) -> Option<String> {
    let result: Value = serde_json::from_slice(result).ok()?;
    let text = result["content"][0]["text"].as_str().unwrap_or("it does not say why");
    (result["isError"] == true).then(|| text.to_owned())
}

/// The profile is given back when the browser has gone.
fn farewell(lock: Option<ProfileLock>) -> Epilogue {
    Box::new(move |_| async move { drop(lock) }.boxed())
}

impl Driver for DevtoolsDriver {
    fn name(&self) -> &str {
        "chrome-devtools"
    }

    fn launch(&self) -> BoxFuture<'_, Result<Upstream, LaunchError>> {
        self.launch_server(None, Wants::Browser).boxed()
    }

    fn launch_to_list(&self) -> BoxFuture<'_, Result<Upstream, LaunchError>> {
        let wants = match &self.target {
            Target::Launched(_) => Wants::Browser,
            Target::Attached(_) => Wants::List,
        };
        self.launch_server(None, wants).boxed()
    }

    fn launch_seat<'a>(&'a self, seat: &'a SeatOptions) -> BoxFuture<'a, Result<Upstream, LaunchError>> {
        self.launch_server(Some(seat), Wants::Browser).boxed()
    }

    fn reachable(&self) -> BoxFuture<'_, Result<(), String>> {
        match &self.target {
            Target::Launched(_) => Box::pin(std::future::ready(Ok(()))),
            Target::Attached(endpoint) => reachable(endpoint).boxed(),
        }
    }

    fn overlap(&self) -> Overlap {
        Overlap::InTurn
    }

    fn tool_list_name(&self) -> Option<String> {
        // The pinned version and what it is told that concerns tools.
        let mut hash = Sha256::new();
        hash.update(DEVTOOLS_LOCK_FILE);
        hash.update(options::common().join(" "));
        Some(hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn offers(&self, _tool: &str) -> bool {
        true
    }

    fn takes_files(&self, tool: &str) -> Option<&'static str> {
        (tool == "upload_file").then_some("filePaths")
    }

    fn read(&self, text: &str) -> Option<Reading> {
        Some(results::read(text))
    }

    fn reads(&self) -> bool {
        true
    }

    fn screenshot_call(&self) -> Option<(&'static str, Value)> {
        Some(("take_screenshot", json!({ "format": "jpeg", "quality": 60 })))
    }

    /// A verbose snapshot is another tree, not another state of the page.
    fn asks_for_part(&self, tool: &str, arguments: &Map<String, Value>) -> bool {
        tool == "take_snapshot" && arguments.get("verbose") == Some(&Value::Bool(true))
    }
}
