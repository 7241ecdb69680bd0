//! The second driver from the outside: as a pool, as a session, and beside the first.

use std::time::Duration;

use greenroom_testkit::{McpHttp, Site, send_signal, wait_until};
use serde_json::{Value, json};

use crate::rig::{
    Server, browser_of, browser_permit, data_dir, data_dir_for_both, greenroom, shared_data_dir,
};

const PATIENCE: Duration = Duration::from_secs(120);

/// A server with these variables, and with both servers in its data folder.
fn serve(variables: &[(&str, &str)]) -> Server {
    let folder = data_dir_for_both();
    let mut command = greenroom(folder.path());
    command.envs(variables.iter().copied());
    Server::start(command, Some(folder))
}

fn connect(server: &Server) -> McpHttp {
    let mut client = server.client().with_timeout(PATIENCE);
    client.initialize();
    client
}

fn fine(result: &Value) -> &str {
    assert!(result.get("isError").is_none_or(|error| error == false), "{result}");
    result["content"][0]["text"].as_str().unwrap()
}

fn tools(client: &mut McpHttp) -> Vec<Value> {
    client.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone()
}

fn meta<'a>(result: &'a Value, name: &str) -> &'a str {
    result["_meta"][format!("greenroom/{name}")].as_str().unwrap_or_else(|| panic!("{result}"))
}

/// What history has of a call.
fn remembered(client: &mut McpHttp, result: &Value) -> Value {
    let calls = client.call_tool("list_calls", json!({}))["structuredContent"]["calls"].clone();
    let id = meta(result, "refId");
    let found = calls.as_array().unwrap().iter().find(|call| call["ref_id"] == id).cloned();
    found.unwrap_or_else(|| panic!("no {id} in {calls}"))
}

#[test]
fn two_instances_of_a_pool_navigate_show_and_are_remembered() {
    let _permit = browser_permit();
    let server = serve(&[
        ("PW_MCP_PROXY__DEV_INSTANCES", "2"),
        ("PW_MCP_PROXY__DEV_IS_DEFAULT", "true"),
        ("PW_MCP_PROXY__DEV_DRIVER", "chrome-devtools"),
        ("PW_MCP_PROXY__DEV_VIEWPORT_SIZE", "800x600"),
    ]);
    let (mut client, site) = (connect(&server), Site::start());
    let names: Vec<String> =
        tools(&mut client).iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    for name in ["navigate_page", "take_snapshot", "performance_start_trace", "take_heapsnapshot"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    let mut served = Vec::new();
    for (instance, path) in [("0", "/static-text"), ("1", "/links")] {
        let url = site.url(path);
        let went = client.call_tool("navigate_page", json!({ "url": url, "browser_instance": instance }));
        fine(&went);
        served.push(meta(&went, "instance").to_owned());
        let snapshot = client.call_tool("take_snapshot", json!({ "browser_instance": instance }));
        assert!(fine(&snapshot).contains(&format!("url=\"{url}\"")), "{snapshot}");
        assert_eq!(remembered(&mut client, &snapshot)["url"], url.as_str());
        let id = meta(&snapshot, "refId");
        let content = client.call_tool("get_content", json!({ "ref_id": id }));
        assert!(fine(&content).contains("RootWebArea"), "{content}");
        let shot = client.call_tool("take_screenshot", json!({ "browser_instance": instance }));
        assert!(shot["content"].as_array().unwrap().iter().any(|block| block["type"] == "image"), "{shot}");
    }
    assert_eq!(served, ["0", "1"]);
}

#[test]
fn a_session_has_a_server_of_its_own_and_hears_when_its_browser_was_lost() {
    let _permit = browser_permit();
    let server = serve(&[("GREENROOM_DRIVER", "chrome-devtools"), ("GREENROOM_WARM_SESSIONS", "0")]);
    let (mut client, site) = (connect(&server), Site::start());
    let url = site.url("/static-text");
    fine(&client.call_tool("navigate_page", json!({ "url": url, "sessionId": "a" })));
    let function = "() => { console.error('boom'); return 1 }";
    fine(&client.call_tool("evaluate_script", json!({ "function": function, "sessionId": "a" })));
    let console = client.call_tool("list_console_messages", json!({ "sessionId": "a" }));
    assert!(fine(&console).contains("boom"), "{console}");
    let id = meta(&console, "refId");
    let kept = client.call_tool("get_console_content", json!({ "ref_id": id }));
    assert!(fine(&kept).contains("[ERROR] boom"), "{kept}");
    fine(&client.call_tool("take_screenshot", json!({ "filePath": "shot.png", "sessionId": "a" })));
    let files = client.call_tool("session_files", json!({ "sessionId": "a" }));
    assert!(files.to_string().contains("shot.png"), "{files}");

    // The server behind would take another browser without a word.
    send_signal(browser_of(server.pid()), "KILL");
    wait_until("a reply says so", PATIENCE, || {
        let pages = client.call_tool("list_pages", json!({ "sessionId": "a" })).to_string();
        pages.contains("was lost") || pages.contains("has gone")
    });
    let again = client.call_tool("navigate_page", json!({ "url": url, "sessionId": "a" }));
    fine(&again);
    assert!(again["content"].to_string().contains(&format!("navigated to {url}")), "{again}");
}

#[test]
fn beside_playwright_the_tools_are_a_union_and_a_missing_one_says_where_it_is() {
    let _permit = browser_permit();
    let server = serve(&[
        ("PW_MCP_PROXY__PW_INSTANCES", "1"),
        ("PW_MCP_PROXY__PW_IS_DEFAULT", "true"),
        ("PW_MCP_PROXY__DEV_INSTANCES", "1"),
        ("PW_MCP_PROXY__DEV_DRIVER", "chrome-devtools"),
    ]);
    let (mut client, site) = (connect(&server), Site::start());
    let listed = tools(&mut client);
    let has = |name: &str| listed.iter().any(|tool| tool["name"] == name);
    assert!(has("browser_navigate") && has("navigate_page"), "{listed:?}");
    let url = site.url("/static-text");
    let mut refused = |tool: &str, arguments: Value| {
        let answer = client.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    let lacking = refused("navigate_page", json!({ "url": url }));
    assert_eq!(lacking, "Unknown tool: navigate_page in this pool. It is there in: DEV.");
    let lacking = refused("browser_navigate", json!({ "url": url, "browser_pool": "DEV" }));
    assert_eq!(lacking, "Unknown tool: browser_navigate in this pool. It is there in: PW.");
    fine(&client.call_tool("navigate_page", json!({ "url": url, "browser_pool": "DEV" })));
    fine(&client.call_tool("browser_navigate", json!({ "url": url })));
}

#[test]
fn install_and_doctor_speak_of_what_the_pools_need() {
    let folder = data_dir();
    let mut command = greenroom(folder.path());
    command.env("GREENROOM_DRIVER", "chrome-devtools").env("GREENROOM_DATA_DIR", shared_data_dir());
    let installed = command.arg("install").output().unwrap();
    let shown = String::from_utf8_lossy(&installed.stdout).into_owned();
    assert!(installed.status.success() && shown.contains("upstream/devtools-"), "{shown}");
    assert!(!shown.contains("upstream/playwright-"), "{shown}");

    let bare = tempfile::tempdir().unwrap();
    let doctor =
        greenroom(bare.path()).env("GREENROOM_DRIVER", "chrome-devtools").arg("doctor").output().unwrap();
    let shown = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(shown.contains("chrome-devtools-mcp is not installed"), "{shown}");
}
