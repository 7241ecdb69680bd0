//! Any MCP server: a command that speaks stdio, or an address that speaks Streamable HTTP.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use greenroom_core::config::{CustomConfig, Transport, UpstreamConfig};
use tokio::process::Command;

use super::{Behind, Driver, LaunchError, Overlap, Upstream};
use crate::process::{self, Output, Spawned};
use crate::rpc::{CallError, connect_http, connect_lines};
use crate::run_folder::Run;

const GREETING: &str = "answer `initialize`";

pub struct CustomDriver {
    run: Arc<Run>,
    transport: Transport,
    env: Vec<(String, String)>,
    start_timeout: Duration,
    message_limit: usize,
}

impl CustomDriver {
    pub fn new(custom: &CustomConfig, upstream: &UpstreamConfig, run: Arc<Run>) -> Self {
        Self {
            run,
            transport: custom.transport.clone(),
            env: upstream.env.clone(),
            start_timeout: upstream.start_timeout,
            message_limit: upstream.max_message_bytes,
        }
    }

    async fn launch_stdio(&self, program: &str, args: &[String]) -> Result<Upstream, LaunchError> {
        let mut command = Command::new(program);
        command.args(args).envs(self.env.iter().map(|(name, value)| (name, value)));
        let Spawned { process, stdin, stdout } =
            process::spawn(command, None, Output::Piped, &self.run).await?;
        let (stdin, stdout) = (stdin.expect("it is piped"), stdout.expect("it is piped"));
        let what = format!("`{program}`");
        let (watch, named) = (process.watch(), what.clone());
        let on_end = move || async move { watch.obituary(&named).await };
        let peer = connect_lines(stdout, stdin, Vec::new(), self.message_limit, on_end);
        let handshake = peer.initialize();
        match tokio::time::timeout(self.start_timeout, handshake).await {
            Ok(Ok(info)) => Ok(Upstream { peer, info, behind: Behind::Process(process), folder: None }),
            Ok(Err(source)) => Err(LaunchError::Handshake { what, source }),
            Err(_) => {
                let last_output = process.watch().last_output();
                Err(LaunchError::TooSlow { what, task: GREETING, limit: self.start_timeout, last_output })
            }
        }
    }

    async fn launch_http(&self, url: &str) -> Result<Upstream, LaunchError> {
        let what = url.to_owned();
        let connecting = connect_http(url, Vec::new(), self.message_limit);
        match tokio::time::timeout(self.start_timeout, connecting).await {
            Ok(Ok((peer, info))) => Ok(Upstream { peer, info, behind: Behind::Remote, folder: None }),
            Ok(Err(source)) => Err(LaunchError::Handshake { what, source }),
            Err(_) => Err(LaunchError::TooSlow {
                what,
                task: GREETING,
                limit: self.start_timeout,
                last_output: Vec::new(),
            }),
        }
    }
}

impl Driver for CustomDriver {
    fn name(&self) -> &str {
        "custom"
    }

    fn launch(&self) -> BoxFuture<'_, Result<Upstream, LaunchError>> {
        match &self.transport {
            Transport::Stdio { program, args } => self.launch_stdio(program, args).boxed(),
            Transport::Http { url } => self.launch_http(url).boxed(),
        }
    }

    fn overlap(&self) -> Overlap {
        Overlap::Beside
    }

    fn tool_list_name(&self) -> Option<String> {
        None
    }

    fn offers(&self, _tool: &str) -> bool {
        true
    }
}

impl From<CallError> for LaunchError {
    fn from(source: CallError) -> Self {
        Self::Handshake { what: "the server".to_owned(), source }
    }
}
