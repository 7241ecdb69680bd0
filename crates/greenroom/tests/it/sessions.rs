//! Sessions in real browsers: nothing of one is seen in another, over every way in and on both kinds of seat.

mod files;
mod isolation;
mod leftovers;
mod losses;
mod reaching;
mod warm;

use std::time::Duration;

use greenroom_testkit::{McpHttp, Site, children_of, wait_until};
use serde_json::{Value, json};

use crate::rig::{BrowserPermit, Server, browser_permit, data_dir, greenroom};

/// Far more than anything here takes; only a test that fails gets to know it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server with a data folder of its own, and a site to visit.
struct House {
    server: Server,
    folder: tempfile::TempDir,
    site: Site,
    _permit: BrowserPermit,
}

impl House {
    fn new(variables: &[(&str, &str)]) -> Self {
        let permit = browser_permit();
        let folder = data_dir();
        let mut command = greenroom(folder.path());
        command.env("GREENROOM_TIMEOUT_SETTLE", "0").envs(variables.iter().copied());
        Self { server: Server::start(command, None), folder, site: Site::start(), _permit: permit }
    }

    /// A client of the older era, with a connection of its own.
    fn client(&self) -> McpHttp {
        let mut client = self.server.client().with_timeout(PATIENCE);
        client.initialize();
        client
    }

    /// The processes of the hosts.
    fn hosts(&self) -> Vec<u32> {
        let is_host = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("greenroom-host")
        };
        children_of(self.server.pid()).into_iter().filter(is_host).collect()
    }

    /// How many hosts have been started so far.
    fn launches(&self) -> usize {
        self.server.log().matches("a host for sessions is up").count()
    }

    /// The folders of sessions, those of warm seats among them.
    fn folders(&self) -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(self.folder.path().join("sessions")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// Waits until so many sessions have been made in advance.
    fn wait_for_warm(&self, in_use: usize, warm: usize) {
        wait_until("the warm seats", PATIENCE, || self.folders().len() == in_use + warm);
    }
}

/// All text of a result that must not be an error.
fn fine(result: &Value) -> String {
    let blocks = result["content"].as_array().unwrap_or_else(|| panic!("{result}"));
    let text = blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n");
    assert!(result.get("isError").is_none_or(|error| error == false), "{text}");
    text
}

fn navigate(client: &mut McpHttp, session: &str, url: &str) -> String {
    fine(&client.call_tool("browser_navigate", json!({ "sessionId": session, "url": url })))
}

/// What an expression is in the page of a session.
fn value(client: &mut McpHttp, session: &str, expression: &str) -> String {
    let arguments = json!({ "sessionId": session, "function": format!("() => {expression}") });
    fine(&client.call_tool("browser_evaluate", arguments))
}

fn listed(client: &mut McpHttp) -> Vec<Value> {
    let result = client.call_tool("session_list", json!({}));
    result["structuredContent"]["sessions"].as_array().unwrap_or_else(|| panic!("{result}")).clone()
}
