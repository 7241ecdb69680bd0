//! Drivers: what Greenroom knows about each kind of browser MCP server, behind one face.

mod custom;
mod devtools;
mod playwright;
mod profile;
pub mod reading;

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::{broadcast, mpsc};

use crate::host::{ContextId, Host, HostError};
use crate::install::InstallError;
use crate::live::Live;
use crate::process::{Process, SpawnError};
use crate::rpc::{CallError, Ended, Notice, Peer, Pending, Progress, ServerInfo};

pub use custom::CustomDriver;
use devtools::Watcher;
pub use devtools::{DevtoolsDriver, DevtoolsSetup, Endpoint, reachable};
use playwright::shared::SharedContext;
pub use playwright::shared::{SeatOptions, SharedHost};
pub use playwright::{PlaywrightDriver, PlaywrightSetup, WindowsError};
pub use profile::{ProfileError, User};
use reading::{ReadLog, Reading};

/// How long a browser may take to be told that a call is not wanted any more. One that hangs never answers.
const INTERRUPT_LIMIT: Duration = Duration::from_secs(2);

/// How one kind of server is launched and treated.
pub trait Driver: Send + Sync + 'static {
    /// What people call it.
    fn name(&self) -> &str;

    /// Starts a server and shakes hands with it.
    fn launch(&self) -> BoxFuture<'_, Result<Upstream, LaunchError>>;

    /// Starts a server that is only asked for its tools. Its browser is not needed where it has not been started yet.
    fn launch_to_list(&self) -> BoxFuture<'_, Result<Upstream, LaunchError>> {
        self.launch()
    }

    /// Starts a process whose browser many connections can share, each in an isolated context of its own. `None` where
    /// this kind of server cannot do that.
    fn launch_shared(&self) -> Option<BoxFuture<'_, Result<SharedHost, LaunchError>>> {
        None
    }

    /// Whether the browser answers, where it is one that somebody else has started. Anything else is there when it is
    /// launched.
    fn reachable(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Starts a server for one session. What it asks for beyond a folder is for those who can give it.
    fn launch_seat<'a>(&'a self, _seat: &'a SeatOptions) -> BoxFuture<'a, Result<Upstream, LaunchError>> {
        self.launch()
    }

    /// Whether calls may run beside one another on one upstream. A page has one state: there they take turns.
    fn overlap(&self) -> Overlap;

    /// Names the tool list that a launch would give, where that is known without launching: the same name always
    /// means the same list, so it can be kept across starts.
    fn tool_list_name(&self) -> Option<String>;

    /// Whether a tool is shown to agents at all.
    fn offers(&self, tool: &str) -> bool;

    /// Tools that run what they are given inside the server's own process, where others may live too.
    fn tools_in_server(&self) -> &'static [&'static str] {
        &[]
    }

    /// The argument of a tool that is a list of files which a page is to get, where it has one.
    fn takes_files(&self, _tool: &str) -> Option<&'static str> {
        None
    }

    /// What the text of a result says, where this kind of server is understood.
    fn read(&self, _text: &str) -> Option<Reading> {
        None
    }

    /// Whether `read` understands anything at all.
    fn reads(&self) -> bool {
        false
    }

    /// How the logs that a result mentions are read.
    fn read_log(&self) -> ReadLog {
        |_, _| Vec::new()
    }

    /// The tool, with its arguments, that takes a small picture of the current page, where this kind of server has one.
    fn screenshot_call(&self) -> Option<(&'static str, Value)> {
        None
    }

    /// Whether a call asks for a part of the page only, so that its snapshot is not the page's.
    fn asks_for_part(&self, _tool: &str, _arguments: &Map<String, Value>) -> bool {
        false
    }
}

/// Where a browser is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub url: String,
    pub title: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    InTurn,
    Beside,
}

#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error(transparent)]
    Install(#[from] InstallError),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("{what} did not answer `initialize`")]
    Handshake {
        what: String,
        #[source]
        source: CallError,
    },
    #[error("{what} did not {task} within {} ms (START_TIMEOUT){}", limit.as_millis(), shown(last_output))]
    TooSlow {
        what: String,
        /// What it was to do by then.
        task: &'static str,
        limit: Duration,
        last_output: Vec<String>,
    },
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(transparent)]
    Windows(#[from] WindowsError),
    /// The server runs, and says why its browser does not.
    #[error("{what} has no browser: {said}")]
    NoBrowser { what: String, said: String },
    /// The host takes no such options; it would not take them the next time either.
    #[error("a browser cannot be opened as it is configured: {0}")]
    Options(String),
    #[error("{key} names {}, which cannot be read. Correct it, or remove it", path.display())]
    File {
        key: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "STORAGE_STATE names {}, which is not the JSON that Playwright saves. Save it again, or remove the setting",
        path.display()
    )]
    StorageState {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("the folder {} could not be made", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl LaunchError {
    /// Whether trying again cannot help before a person has done something.
    pub fn needs_a_person(&self) -> bool {
        matches!(
            self,
            Self::Install(_)
                | Self::Spawn(_)
                | Self::Folder { .. }
                | Self::Host(HostError::Spawn(_))
                // Whoever has the profile may keep it for days. The next demand tries again.
                | Self::Profile(_)
                | Self::Windows(_)
                | Self::Options(_)
                | Self::File { .. }
                | Self::StorageState { .. }
        )
    }
}

/// An error with its causes, each said once.
pub fn chain(error: &LaunchError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}

fn shown(last_output: &[String]) -> String {
    if last_output.is_empty() {
        String::new()
    } else {
        format!("; its last output was:\n{}", last_output.join("\n"))
    }
}

/// One live connection to a browser MCP server. Dropping it ends the process behind it, if there is one.
pub struct Upstream {
    peer: Peer,
    info: ServerInfo,
    behind: Behind,
    /// Where the server writes files, if that is known.
    folder: Option<PathBuf>,
}

/// What stands behind the connection, and so what can be done beside MCP.
enum Behind {
    Host {
        host: Host,
        context: ContextId,
    },
    /// One context of a host that others use too.
    Shared(SharedContext),
    Process(Process),
    /// A server with one browser, which may be gone or hang while the server answers.
    Watched {
        process: Process,
        watcher: Watcher,
    },
    Remote,
}

impl Behind {
    /// The host and the context in it.
    fn context(&self) -> Option<(&Host, ContextId)> {
        match self {
            Self::Host { host, context } => Some((host, *context)),
            Self::Shared(shared) => Some((shared.host(), shared.context())),
            Self::Process(_) | Self::Watched { .. } | Self::Remote => None,
        }
    }
}

impl Upstream {
    pub fn info(&self) -> &ServerInfo {
        &self.info
    }

    /// Where the server writes files, if that is known.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// What this browser offers beside MCP; none where its server has no side channel.
    pub fn live(&self) -> Option<Live<'_>> {
        self.behind.context().map(|(host, context)| Live::new(host, context))
    }

    pub fn pid(&self) -> Option<u32> {
        match &self.behind {
            Behind::Host { host, .. } => Some(host.pid()),
            Behind::Shared(shared) => Some(shared.host().pid()),
            Behind::Process(process) | Behind::Watched { process, .. } => Some(process.pid()),
            Behind::Remote => None,
        }
    }

    pub async fn list_tools(&self) -> Result<Vec<Box<RawValue>>, CallError> {
        self.peer.list_tools().await
    }

    pub fn call(
        &self,
        tool: &str,
        arguments: &impl Serialize,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<Pending, Ended> {
        self.peer.call_tool(tool, arguments, progress)
    }

    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.peer.notices()
    }

    pub fn has_ended(&self) -> bool {
        self.peer.has_ended()
    }

    pub fn ended(&self) -> impl Future<Output = Ended> + Send + use<> {
        self.peer.ended()
    }

    /// A health check: the server answers a ping, and the browser a round trip of its own, since Node answers
    /// pings for a browser that hangs.
    pub async fn check(&self) -> Result<(), String> {
        match &self.behind {
            Behind::Host { host, .. } => host.look(),
            // Its host is looked after by whoever launched it.
            Behind::Shared(_) => {}
            Behind::Process(process) | Behind::Watched { process, .. } => process.look(),
            Behind::Remote => {}
        }
        let ping = async {
            match self.peer.request("ping", serde_json::json!({})).map_err(CallError::from)?.await {
                // Not every server knows it; an answer is an answer.
                Ok(_) | Err(CallError::Rpc { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        };
        ping.await.map_err(|error: CallError| error.to_string())?;
        if let Some((host, _)) = self.behind.context() {
            host.probe().await.map_err(|error| error.to_string())?;
        }
        if let Behind::Watched { watcher, .. } = &self.behind {
            watcher.probe(&self.peer).await?;
        }
        Ok(())
    }

    /// Nobody waits for this call any more: stops what can be stopped without harm. Says whether an answer is
    /// still to be expected, in which case the browser is busy until it has come.
    pub async fn interrupt(&self, call: u64) -> AfterInterrupt {
        match self.behind.context() {
            // Cancelling would change nothing but that the answer is not sent: the server goes on, and takes nothing
            // else up before it is done.
            None if matches!(self.behind, Behind::Watched { .. }) => AfterInterrupt::Answers,
            Some((host, context)) => {
                // MCP's own cancellation would leave the page in the middle of things (and get no answer).
                match tokio::time::timeout(INTERRUPT_LIMIT, host.stop_loading(context)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!(%error, "loading could not be stopped"),
                    Err(_) => tracing::debug!("the browser does not answer, so loading was not stopped"),
                }
                AfterInterrupt::Answers
            }
            None => {
                self.peer.cancel(call, "the caller cancelled the request");
                AfterInterrupt::Silent
            }
        }
    }

    /// A call did not end in time: makes the browser usable again, at the price of its pages.
    pub async fn reset(&self) {
        if let Some((host, context)) = self.behind.context()
            && let Err(error) = host.reset(context).await
        {
            tracing::warn!(%error, "the browser context could not be closed");
        }
    }

    /// Gives it up: from now on it is treated as gone, and whoever looks after it replaces it.
    pub fn retire(&self, reason: &str) {
        self.peer.end(Ended::because(reason));
    }

    /// Ends it in order: asked first, then the harder ways.
    pub async fn close(&self) {
        match &self.behind {
            Behind::Host { host, .. } => host.exit().await,
            Behind::Shared(shared) => shared.close().await,
            Behind::Process(process) | Behind::Watched { process, .. } => {
                process.look_well().await;
                self.peer.close();
                process.end(Duration::from_secs(2)).await;
            }
            Behind::Remote => {
                self.peer.close();
                let _ = tokio::time::timeout(Duration::from_secs(2), self.ended()).await;
            }
        }
    }
}

/// What follows an interrupted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterInterrupt {
    /// The server will answer, and is busy until then.
    Answers,
    /// The server was told and owes no answer.
    Silent,
}
