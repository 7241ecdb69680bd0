//! The real thing: the pinned server and a real Chromium on the test site, over every way in.

use std::path::PathBuf;
use std::time::Duration;

use greenroom_testkit::{McpHttp, McpStdio, Site, children_of, process_alive, wait_until};
use serde_json::{Value, json};

use crate::rig::{BrowserPermit, Server, browser_permit, greenroom, shared_data_dir};

/// One agent, whichever way it came in.
trait Agent {
    fn call(&mut self, tool: &str, arguments: Value) -> Value;

    /// The text of a call that must succeed.
    fn text(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        let texts = result["content"].as_array().unwrap().iter().filter_map(|block| block["text"].as_str());
        let text = texts.collect::<Vec<_>>().join("\n");
        assert!(result.get("isError").is_none_or(|error| error == false), "{tool}: {text}");
        text
    }

    /// The ref that the current snapshot gives to the element whose line holds this.
    fn reference(&mut self, line: &str) -> String {
        let snapshot = self.text("browser_snapshot", json!({}));
        let found = snapshot.lines().find(|text| text.contains(line));
        let found = found.unwrap_or_else(|| panic!("no {line} in {snapshot}"));
        let start = found.find("[ref=").unwrap_or_else(|| panic!("no ref in {found}")) + 5;
        found[start..].split(']').next().unwrap().to_owned()
    }

    fn click(&mut self, line: &str) -> String {
        let target = self.reference(line);
        self.text("browser_click", json!({ "target": target, "element": line }))
    }
}

impl Agent for McpStdio {
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.call_tool(tool, arguments)
    }
}

impl Agent for McpHttp {
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.call_tool(tool, arguments)
    }
}

/// The newer era, where every call stands alone.
struct Modern(McpHttp);

impl Agent for Modern {
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.0.call_modern("tools/call", json!({ "name": tool, "arguments": arguments }));
        answer.get("result").unwrap_or_else(|| panic!("{answer}")).clone()
    }
}

/// A working directory, which is also where files may be read from.
struct Workspace {
    folder: tempfile::TempDir,
    _permit: BrowserPermit,
}

impl Workspace {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), _permit: browser_permit() }
    }

    fn command(&self) -> std::process::Command {
        let mut command = greenroom(self.folder.path());
        command.env("GREENROOM_DATA_DIR", shared_data_dir()).env("GREENROOM_TIMEOUT_SETTLE", "100");
        command
    }

    fn stdio(&self) -> McpStdio {
        let mut command = self.command();
        command.args(["mcp", "--standalone"]);
        // The first one on a machine installs what is missing.
        let mut client = McpStdio::spawn(command).with_timeout(Duration::from_secs(300));
        client.initialize();
        client
    }

    fn server(&self) -> Server {
        Server::start(self.command(), None)
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

/// The tools that an agent cannot do without, one after another on one browser.
fn work_through_the_site(agent: &mut dyn Agent, upload: &str) {
    let site = Site::start();

    let text = agent.text("browser_navigate", json!({ "url": site.url("/dialogs") }));
    assert!(text.contains("Page URL") && text.contains("/dialogs"), "{text}");

    let text = agent.click("button \"Confirm\"");
    assert!(text.contains("Do you agree?"), "{text}");
    agent.text("browser_handle_dialog", json!({ "accept": true }));
    assert!(agent.text("browser_snapshot", json!({})).contains("confirm: true"));

    agent.text("browser_take_screenshot", json!({ "filename": "shot.png" }));
    let result = agent.call("browser_take_screenshot", json!({}));
    let image = result["content"].as_array().unwrap().iter().find(|block| block["type"] == "image");
    let image = image.unwrap_or_else(|| panic!("no image in {result}"));
    assert!(image["data"].as_str().unwrap().len() > 1000);

    let text = agent.text("browser_evaluate", json!({ "function": "() => document.title.length + 1000" }));
    assert!(text.contains("10"), "{text}");

    agent.text("browser_navigate", json!({ "url": site.url("/upload") }));
    agent.click("button \"File\"");
    agent.text("browser_file_upload", json!({ "paths": [upload] }));
    agent.click("button \"Upload\"");
    let page = agent.text("browser_snapshot", json!({}));
    let name = upload.rsplit('/').next().unwrap();
    assert!(page.contains(name) && page.contains("bytes"), "{page}");

    agent.text("browser_tabs", json!({ "action": "new", "url": site.url("/static-text") }));
    let tabs = agent.text("browser_tabs", json!({ "action": "list" }));
    assert!(tabs.contains("/upload") && tabs.contains("/static-text"), "{tabs}");
    agent.text("browser_tabs", json!({ "action": "select", "index": 0 }));
    assert!(agent.text("browser_snapshot", json!({})).contains(name));

    for _ in 0..3 {
        agent.text("browser_close", json!({}));
        let text = agent.text("browser_navigate", json!({ "url": site.url("/links") }));
        assert!(text.contains("/links"), "{text}");
    }
    let tabs = agent.text("browser_tabs", json!({ "action": "list" }));
    assert!(!tabs.contains("/static-text"), "closing closes all tabs: {tabs}");
}

#[test]
fn an_agent_works_over_stdio() {
    let workspace = Workspace::new();
    let upload = workspace.file("notes.txt", "seven b");
    work_through_the_site(&mut workspace.stdio(), upload.to_str().unwrap());
}

#[test]
fn an_agent_works_over_http_in_the_older_era() {
    let workspace = Workspace::new();
    let server = workspace.server();
    let mut client = server.client();
    client.initialize();
    // What the server has in its working directory is not the client's; what the session has written is.
    work_through_the_site(&mut client, "shot.png");
}

#[test]
fn an_agent_works_over_http_in_the_newer_era() {
    let workspace = Workspace::new();
    let server = workspace.server();
    work_through_the_site(&mut Modern(server.client()), "shot.png");
}

#[test]
fn a_cancelled_navigation_frees_the_caller_and_the_browser() {
    let workspace = Workspace::new();
    let site = Site::start();
    let mut command = workspace.command();
    // Nothing but the cancellation can end the navigation before the client's patience is over.
    command
        .args(["mcp", "--standalone"])
        .env("GREENROOM_TIMEOUT", "3600000")
        .env("GREENROOM_CALL_TIMEOUT", "0");
    let mut agent = McpStdio::spawn(command).with_timeout(Duration::from_secs(300));
    agent.initialize();
    agent.text("browser_navigate", json!({ "url": site.url("/links") }));
    for round in 0..3 {
        let path = format!("/slow?ms=3600000&round={round}");
        let call = json!({ "name": "browser_navigate", "arguments": { "url": site.url(&path) } });
        let id = agent.send_request("tools/call", call);
        wait_until("the page is asked for", Duration::from_secs(20), || site.hits("/slow") > round);
        agent.notify("notifications/cancelled", json!({ "requestId": id, "reason": "changed my mind" }));
        // On the same browser, which the slow page would hold for an hour.
        let text = agent.text("browser_navigate", json!({ "url": site.url("/static-text") }));
        assert!(text.contains("/static-text"), "{text}");
        assert!(!agent.text("browser_snapshot", json!({})).is_empty());
    }
}

#[test]
fn a_call_over_its_deadline_costs_the_page_and_not_the_browser() {
    let workspace = Workspace::new();
    let site = Site::start();
    let mut command = workspace.command();
    command.args(["mcp", "--standalone"]).env("GREENROOM_CALL_TIMEOUT", "6000");
    let mut agent = McpStdio::spawn(command).with_timeout(Duration::from_secs(300));
    agent.initialize();
    agent.request("tools/list", json!({}));
    let result = agent.call("browser_navigate", json!({ "url": site.url("/slow?ms=30000") }));
    assert_eq!(result["isError"], true, "{result}");
    assert!(result["content"][0]["text"].as_str().unwrap().contains("CALL_TIMEOUT"), "{result}");
    let text = agent.text("browser_navigate", json!({ "url": site.url("/links") }));
    assert!(text.contains("/links"), "{text}");
}

#[test]
fn files_outside_of_the_workspace_are_refused() {
    let workspace = Workspace::new();
    let site = Site::start();
    let mut agent = workspace.stdio();
    agent.text("browser_navigate", json!({ "url": site.url("/upload") }));
    agent.click("button \"File\"");
    let result = agent.call("browser_file_upload", json!({ "paths": ["/etc/hostname"] }));
    assert_eq!(result["isError"], true);
    assert!(result["content"][0]["text"].as_str().unwrap().contains("outside allowed roots"), "{result}");
}

#[test]
fn code_in_the_servers_own_process_is_not_offered_unless_allowed() {
    let workspace = Workspace::new();
    let mut agent = workspace.stdio();
    let names = agent.request("tools/list", json!({}))["result"]["tools"].to_string();
    assert!(names.contains("browser_navigate") && !names.contains("browser_run_code_unsafe"));
    let call = json!({ "name": "browser_run_code_unsafe", "arguments": { "code": "1" } });
    assert_eq!(agent.request("tools/call", call)["error"]["code"], -32602);
}

#[test]
fn when_the_client_leaves_the_browser_goes() {
    let workspace = Workspace::new();
    let site = Site::start();
    let mut agent = workspace.stdio();
    agent.text("browser_navigate", json!({ "url": site.url("/links") }));
    let processes = children_of(agent.pid());
    assert!(processes.len() >= 3, "node and the browser's processes: {processes:?}");
    agent.close_stdin();
    assert!(agent.wait_exit(Duration::from_secs(30)).success());
    wait_until("all of them are gone", Duration::from_secs(10), || {
        !processes.iter().any(|pid| process_alive(*pid))
    });
}

#[test]
fn the_tools_are_known_without_a_browser_once_they_were_seen() {
    let workspace = Workspace::new();
    workspace.stdio().request("tools/list", json!({}));
    let mut agent = workspace.stdio();
    let tools = agent.request("tools/list", json!({}));
    assert!(tools["result"]["tools"].as_array().unwrap().len() > 20);
    assert_eq!(children_of(agent.pid()), [] as [u32; 0], "no process was needed for that");
}

#[test]
fn calls_that_are_sent_without_waiting_run_in_the_order_they_were_sent() {
    let workspace = Workspace::new();
    let mut agent = workspace.stdio();
    agent.text("browser_navigate", json!({ "url": "data:text/html,<title>order</title>" }));
    let ids: Vec<_> = (0..40)
        .map(|n| {
            let function = format!("() => {{ (window.seen ??= []).push({n}); }}");
            let call = json!({ "name": "browser_evaluate", "arguments": { "function": function } });
            agent.send_request("tools/call", call)
        })
        .collect();
    for id in ids {
        agent.wait_for_response(id);
    }
    let seen = agent.text("browser_evaluate", json!({ "function": "() => window.seen.join(' ')" }));
    let expected = (0..40).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
    assert!(seen.contains(&expected), "{seen}");
}
