//! Ways to say which browsers are attached, and beside what.

use greenroom_testkit::{McpStdio, Site};
use serde_json::{Value, json};

use super::{Chromium, PATIENCE, connect, fine, meta, refused, serve, wait_for};
use crate::rig::{Server, browser_permit, data_dir_for_both, greenroom};

#[test]
fn over_stdio_a_flag_is_all_that_is_needed() {
    let _permit = browser_permit();
    let browser = Chromium::start();
    let folder = data_dir_for_both();
    let mut command = greenroom(folder.path());
    command.args(["mcp", "--browserUrl", &browser.url()]).env("GREENROOM_ADDRESSING", "browser");
    let mut client = McpStdio::spawn(command).with_timeout(PATIENCE);
    let said = client.initialize()["instructions"].as_str().unwrap().to_owned();
    let attached =
        format!("There is one browser, so do not give browserIndex. Attached: [1] {}.", browser.url());
    assert!(said.ends_with(&attached), "{said}");
    let site = Site::start();
    let arguments = json!({ "type": "url", "url": site.url("/static-text") });
    let went = client.call_tool("navigate_page", arguments);
    fine(&went);
    assert_eq!(meta(&went, "browser"), "1");
    let tools = client.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    let went = tools.iter().find(|tool| tool["name"] == "navigate_page").unwrap();
    let properties = went["inputSchema"]["properties"].as_object().unwrap();
    for (name, is_there) in [("browserIndex", true), ("url", true), ("sessionId", false), ("reply", false)] {
        assert_eq!(properties.contains_key(name), is_there, "{name} in {properties:?}");
    }
    assert_eq!(browser.pages(), [site.url("/static-text")]);
}

#[test]
fn a_websocket_address_will_do_as_well() {
    let _permit = browser_permit();
    let browser = Chromium::start();
    let folder = data_dir_for_both();
    let socket = browser.socket();
    let mut command = greenroom(folder.path());
    command.args(["mcp", "--wsEndpoint", &socket]);
    let mut client = McpStdio::spawn(command).with_timeout(PATIENCE);
    client.initialize();
    fine(&client.call_tool("list_pages", json!({})));
    let listed = client.call_tool("list_browsers", json!({}));
    assert!(fine(&listed).contains(&format!("[1] {socket} - connected\n")), "{listed}");
}

#[test]
fn beside_a_pool_a_browser_is_used_by_those_who_name_it() {
    let _permit = browser_permit();
    let browser = Chromium::start();
    let variables = [("PW_MCP_PROXY__PW_INSTANCES", "1"), ("PW_MCP_PROXY__PW_IS_DEFAULT", "true")];
    let server = serve(&[&browser], &variables);
    let (mut client, site) = (connect(&server), Site::start());
    wait_for(&mut client, &["connected"]);
    let tools = client.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    let has = |name: &str| tools.iter().any(|tool| tool["name"] == name);
    assert!(has("browser_navigate") && has("navigate_page") && has("list_browsers"), "{tools:?}");

    let (words, links) = (site.url("/static-text"), site.url("/links"));
    let pooled = client.call_tool("browser_navigate", json!({ "url": words }));
    fine(&pooled);
    assert_eq!((meta(&pooled, "pool"), meta(&pooled, "instance")), ("PW", "0"));
    let attached = client.call_tool("navigate_page", json!({ "url": links, "browserIndex": 1 }));
    fine(&attached);
    assert_eq!(meta(&attached, "browser"), "1");
    assert_eq!(browser.pages(), [links]);
    let both =
        client.call_tool("navigate_page", json!({ "url": words, "browserIndex": 1, "sessionId": "a" }));
    assert!(refused(&both).starts_with("`browserIndex` and `sessionId` contradict one another"), "{both}");
    let mut lacking = |tool: &str, arguments: Value| {
        let answer = client.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    assert_eq!(
        lacking("navigate_page", json!({ "url": words })),
        "Unknown tool: navigate_page in this pool. It is there in: browser [1]."
    );
    assert_eq!(
        lacking("browser_navigate", json!({ "url": words, "browserIndex": 1 })),
        "Unknown tool: browser_navigate in this browser. It is there in: PW."
    );
}

const FILE: &str = r#"
[server]
CONNECT_BROWSERS = "none"
[[browsers]]
name = "work"
url = "http://127.0.0.1:1"
tags = ["mine", "chrome"]
driver = "chrome-devtools"
start = ["no-such-program", "--remote-debugging-port={port}"]
[[browsers]]
url = "ws://127.0.0.1:1/devtools/browser/x?token=secret"
headers = { Authorization = "Bearer secret" }
"#;

#[test]
fn a_file_names_browsers_and_their_tools_are_known_before_any_of_them_is_there() {
    let folder = data_dir_for_both();
    let file = folder.path().join("mine.toml");
    std::fs::write(&file, FILE).unwrap();
    let mut command = greenroom(folder.path());
    command.env("GREENROOM_HEALTH_CHECK_INTERVAL", "86400000").arg("--config").arg(&file);
    let server = Server::start(command, Some(folder));
    let mut client = connect(&server);
    let tools = client.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    let has = |name: &str| tools.iter().any(|tool| tool["name"] == name);
    assert!(has("navigate_page") && has("reconnect_browser"), "{tools:?}");
    assert!(!has("connect_browser") && !has("disconnect_browser"), "the operator has forbidden it");
    wait_for(&mut client, &["disconnected", "disconnected"]);
    let listed = client.call_tool("list_browsers", json!({}));
    let shown = fine(&listed);
    let line = "[1] http://127.0.0.1:1 - disconnected (name: work; tags: mine, chrome; error: no browser answers at ";
    assert!(shown.contains(line), "{shown}");
    assert!(shown.contains("[2] ws://127.0.0.1:1/devtools/browser/x?… - disconnected"), "{shown}");
    assert!(!listed.to_string().contains("secret"), "{listed}");
    let failed = client.call_tool("reconnect_browser", json!({ "browser": "work" }));
    let why = "its start command `no-such-program --remote-debugging-port=1` cannot be run";
    assert!(refused(&failed).contains(why), "{failed}");
}

#[test]
fn a_file_that_merely_lies_there_attaches_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("greenroom.toml"), FILE).unwrap();
    let output = greenroom(folder.path()).args(["config", "check"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("merely lies in the working directory"), "{said}");
}
