//! Browsers that somebody else has started: real ones, driven by number or name, and left as they are.

mod browsers;
mod configured;

use std::time::Duration;

use greenroom_testkit::{McpHttp, Site, children_of, process_alive, send_signal, wait_until};
use serde_json::{Value, json};

use crate::rig::{Server, browser_permit, data_dir_for_both, greenroom};
use browsers::Chromium;

const PATIENCE: Duration = Duration::from_secs(120);

/// Browsers are looked at when calls want them, after the first look.
const NEVER: (&str, &str) = ("GREENROOM_HEALTH_CHECK_INTERVAL", "86400000");

/// A server with these browsers.
fn serve(browsers: &[&Chromium], variables: &[(&str, &str)]) -> Server {
    let urls: Vec<_> = browsers.iter().map(|browser| browser.url()).collect();
    serve_urls(&urls.join(","), variables)
}

fn serve_urls(urls: &str, variables: &[(&str, &str)]) -> Server {
    let folder = data_dir_for_both();
    let mut command = greenroom(folder.path());
    command.env("PW_MCP_PROXY_BROWSER_URLS", urls).envs(variables.iter().copied());
    Server::start(command, Some(folder))
}

fn connect(server: &Server) -> McpHttp {
    let mut client = server.client().with_timeout(PATIENCE);
    client.initialize();
    client
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

fn fine(result: &Value) -> &str {
    assert!(result.get("isError").is_none_or(|error| error == false), "{result}");
    text(result)
}

fn refused(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    text(result)
}

fn meta<'a>(result: &'a Value, name: &str) -> &'a str {
    result["_meta"][format!("greenroom/{name}")].as_str().unwrap_or_else(|| panic!("{result}"))
}

fn states(client: &mut McpHttp) -> Vec<String> {
    let listed = client.call_tool("list_browsers", json!({}));
    let browsers = listed["structuredContent"]["browsers"].as_array().unwrap();
    browsers.iter().map(|browser| browser["state"].as_str().unwrap().to_owned()).collect()
}

fn wait_for(client: &mut McpHttp, wanted: &[&str]) {
    wait_until(&format!("the browsers to be {wanted:?}"), PATIENCE, || states(client) == wanted);
}

fn image(result: &Value) -> String {
    let blocks = result["content"].as_array().unwrap();
    let image = blocks.iter().find(|block| block["type"] == "image").unwrap_or_else(|| panic!("{result}"));
    image["data"].as_str().unwrap().to_owned()
}

#[test]
fn two_browsers_are_driven_at_once_and_told_apart() {
    let _permit = browser_permit();
    let (first, second) = (Chromium::start(), Chromium::start());
    let server = serve(&[&first, &second], &[]);
    let (site, slow) = (Site::start(), Site::start());
    let mut client = server.client().with_timeout(PATIENCE);
    let said = client.initialize()["instructions"].as_str().unwrap().to_owned();
    let attached = format!("Attached: [1] {}, [2] {}.", first.url(), second.url());
    assert!(said.contains(&attached) && said.contains("Give browserIndex"), "{said}");
    wait_for(&mut client, &["connected", "connected"]);

    // The first is busy until the slow site goes, and the second does not wait for it.
    let busy = std::thread::spawn({
        let (mut client, url) = (connect(&server), slow.url("/slow?ms=3600000"));
        move || {
            client.call_tool("navigate_page", json!({ "browserIndex": 1, "url": url, "timeout": 110_000 }))
        }
    });
    wait_until("the slow page to be asked for", PATIENCE, || slow.hits("/slow") > 0);
    let links = site.url("/links");
    let went = client.call_tool("navigate_page", json!({ "browserIndex": 2, "url": links }));
    fine(&went);
    assert_eq!(meta(&went, "browser"), "2");
    assert!(!busy.is_finished(), "both were in flight together");
    drop(slow);
    busy.join().unwrap();

    let words = site.url("/static-text");
    let went = client.call_tool("navigate_page", json!({ "browserIndex": 1, "url": words }));
    fine(&went);
    assert_eq!(meta(&went, "browser"), "1");
    let mut look = |tool: &str| [1, 2].map(|index| client.call_tool(tool, json!({ "browserIndex": index })));
    let [one, two] = look("list_pages");
    assert!(fine(&one).contains(&words) && !fine(&one).contains(&links), "{one}");
    assert!(fine(&two).contains(&links) && !fine(&two).contains(&words), "{two}");
    let [one, two] = look("take_screenshot");
    assert_ne!(image(&one), image(&two));
    let listed = client.call_tool("list_browsers", json!({}));
    assert_eq!(
        fine(&listed),
        format!(
            "Total browsers: 2\n\n[1] {} - connected\n[2] {} - connected\n\nMultiple browsers detected. You MUST specify \
             browserIndex parameter in all tool calls to target a specific browser.",
            first.url(),
            second.url()
        )
    );
    assert_eq!(listed["structuredContent"]["browsers"][0]["page_url"], words.as_str(), "{listed}");
    let tools = client.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    let snapshot = tools.iter().find(|tool| tool["name"] == "take_snapshot").unwrap();
    let properties = snapshot["inputSchema"]["properties"].as_object().unwrap();
    assert!(properties.contains_key("browserIndex") && properties.contains_key("browser"), "{snapshot}");
    assert!(!properties.contains_key("sessionId") && !properties.contains_key("browser_pool"), "{snapshot}");
}

#[test]
fn one_browser_must_not_be_named_one_of_several_must_and_both_come_and_go() {
    let _permit = browser_permit();
    let (first, second) = (Chromium::start(), Chromium::start());
    let server = serve(&[&first], &[NEVER]);
    let mut client = connect(&server);
    wait_for(&mut client, &["connected"]);
    assert_eq!(
        fine(&client.call_tool("list_browsers", json!({}))),
        format!(
            "Total browsers: 1\n\n[1] {} - connected\n\nSingle browser mode: browserIndex parameter must NOT be specified.",
            first.url()
        )
    );
    let shot = |index: Option<Value>| {
        let mut arguments = json!({ "format": "png" });
        if let Some(index) = index {
            arguments["browserIndex"] = index;
        }
        arguments
    };
    let forbidden = client.call_tool("take_screenshot", shot(Some(json!(1))));
    assert!(refused(&forbidden).starts_with("browserIndex must NOT be specified"), "{forbidden}");
    image(&client.call_tool("take_screenshot", shot(None)));

    let far = client.call_tool("connect_browser", json!({ "url": "http://192.0.2.1:9222" }));
    assert!(refused(&far).contains("CONNECT_BROWSERS"), "{far}");
    let attached = client.call_tool("connect_browser", json!({ "url": second.url(), "name": "work" }));
    fine(&attached);
    assert_eq!(attached["structuredContent"]["index"], 2, "{attached}");

    let missing = client.call_tool("take_screenshot", shot(None));
    let expected = "browserIndex parameter is required when multiple browsers are connected.";
    assert!(refused(&missing).starts_with(expected), "{missing}");
    image(&client.call_tool("take_screenshot", shot(Some(json!(2)))));
    image(&client.call_tool("take_screenshot", json!({ "browser": "work" })));
    let wrong = [json!(0), json!(-1), json!(99), json!("1")].map(|index| json!({ "browserIndex": index }));
    for wrong in wrong.into_iter().chain([json!({ "browser": "play" })]) {
        let answer = client.call_tool("list_pages", wrong.clone());
        let listed = format!("[1] {}, [2] {} (name: work)", first.url(), second.url());
        assert!(refused(&answer).contains(&listed), "{wrong}: {answer}");
    }

    let pages = second.pages();
    fine(&client.call_tool("disconnect_browser", json!({ "browser": "work" })));
    assert_eq!(second.pages(), pages, "it goes on as it is");
    image(&client.call_tool("take_screenshot", shot(None)));
    let again = client.call_tool("connect_browser", json!({ "url": second.url() }));
    assert_eq!(again["structuredContent"]["index"], 3, "numbers are not used again: {again}");
}

#[test]
fn what_a_browser_has_shown_is_on_record() {
    let _permit = browser_permit();
    let browser = Chromium::start();
    let server = serve(&[&browser], &[]);
    let (mut client, site) = (connect(&server), Site::start());
    let url = site.url("/links");
    fine(&client.call_tool("navigate_page", json!({ "url": url })));
    let shown = client.call_tool("take_snapshot", json!({}));
    let whole = fine(&shown).to_owned();
    let id = meta(&shown, "refId").to_owned();
    let content = client.call_tool("get_content", json!({ "ref_id": id }));
    assert!(whole.contains(fine(&content).lines().next().unwrap()), "{content}");
    let found = client.call_tool("get_content", json!({ "ref_id": id, "search_for": "link " }));
    assert!(fine(&found).contains("link"), "{found}");
    let queried = client
        .call_tool("get_content", json!({ "ref_id": id, "query": "[?role=='link'].name", "flatten": true }));
    assert!(refused(&queried).ends_with("Read it as text."), "{queried}");

    let function = "() => { console.error('boom'); document.body.append('something new'); return 1 }";
    fine(&client.call_tool("evaluate_script", json!({ "function": function })));
    let console = client.call_tool("list_console_messages", json!({}));
    assert!(fine(&console).contains("boom"), "{console}");
    let kept = client.call_tool("get_console_content", json!({ "ref_id": meta(&console, "refId") }));
    assert!(fine(&kept).contains("[ERROR] boom"), "{kept}");
    let later = client.call_tool("take_snapshot", json!({ "reply": "diff" }));
    assert!(fine(&later).contains("something new") && fine(&later).len() < whole.len(), "{later}");
    let since = client.call_tool("get_content", json!({ "ref_id": meta(&later, "refId"), "since": id }));
    assert!(fine(&since).contains("something new"), "{since}");

    let calls = client.call_tool("list_calls", json!({ "tool": "take_snapshot" }));
    let calls = calls["structuredContent"]["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|call| call["url"] == url.as_str()), "{calls:?}");
}

#[test]
fn a_lost_browser_disturbs_no_other_and_is_brought_back_by_hand() {
    let _permit = browser_permit();
    let (mut first, second) = (Chromium::start(), Chromium::start());
    let server = serve(&[&first, &second], &[NEVER]);
    let mut client = connect(&server);
    wait_for(&mut client, &["connected", "connected"]);
    let pages =
        |client: &mut McpHttp, index: u32| client.call_tool("list_pages", json!({ "browserIndex": index }));
    let reconnect = |client: &mut McpHttp, force: bool| {
        client.call_tool("reconnect_browser", json!({ "browserIndex": 1, "force": force }))
    };

    first.stop();
    fine(&pages(&mut client, 2));
    wait_for(&mut client, &["disconnected", "connected"]);
    let why = format!("no browser answers at {}: nothing listens there", first.url());
    let unreachable = pages(&mut client, 1);
    assert!(refused(&unreachable).contains(&why), "{unreachable}");
    let cooling = pages(&mut client, 1);
    assert!(
        refused(&cooling).contains(&why) && refused(&cooling).contains("Calls try again in"),
        "{cooling}"
    );
    let listed = client.call_tool("list_browsers", json!({}));
    let line = format!("[1] {} - disconnected (error: {why}; calls try again in ", first.url());
    assert!(fine(&listed).contains(&line), "{listed}");
    fine(&pages(&mut client, 2));

    first.start_again();
    let paused = reconnect(&mut client, false);
    assert!(refused(&paused).contains("Calls try again in"), "{paused}");
    assert_eq!(reconnect(&mut client, true)["structuredContent"]["state"], "connected");
    fine(&pages(&mut client, 1));

    // Where nobody has tried in vain there is no pause.
    first.stop();
    wait_for(&mut client, &["disconnected", "connected"]);
    first.start_again();
    assert_eq!(reconnect(&mut client, false)["structuredContent"]["state"], "connected");
    fine(&pages(&mut client, 1));
}

#[test]
fn a_browser_that_is_back_is_found_without_being_asked_for() {
    let _permit = browser_permit();
    let mut browser = Chromium::start();
    let server = serve(&[&browser], &[("GREENROOM_HEALTH_CHECK_INTERVAL", "200")]);
    let mut client = connect(&server);
    wait_for(&mut client, &["connected"]);
    browser.stop();
    wait_for(&mut client, &["disconnected"]);
    browser.start_again();
    wait_for(&mut client, &["connected"]);
    fine(&client.call_tool("list_pages", json!({})));
}

#[test]
fn closing_or_killing_greenroom_leaves_the_browsers_and_their_pages() {
    let _permit = browser_permit();
    let (first, second) = (Chromium::start(), Chromium::start());
    let site = Site::start();
    let mut shown = Vec::new();
    for (number, signal) in ["TERM", "KILL"].into_iter().enumerate() {
        let folder = data_dir_for_both();
        let mut command = greenroom(folder.path());
        command.env("PW_MCP_PROXY_BROWSER_URLS", format!("{},{}", first.url(), second.url())).arg("mcp");
        let mut client = greenroom_testkit::McpStdio::spawn(command).with_timeout(PATIENCE);
        client.initialize();
        for index in [1, 2] {
            let url = site.url(&format!("/items?n={}", 3 + index + 2 * number));
            fine(&client.call_tool("new_page", json!({ "browserIndex": index, "url": url })));
            shown.push((index, url));
        }
        let processes = children_of(client.pid());
        assert!(send_signal(client.pid(), signal));
        client.wait_exit(PATIENCE);
        wait_until("what Greenroom has started to be gone", PATIENCE, || {
            !processes.iter().any(|pid| process_alive(*pid))
        });
        for (index, url) in &shown {
            let browser = if *index == 1 { &first } else { &second };
            assert!(browser.pages().contains(url), "{signal}: {url} in {:?}", browser.pages());
        }
    }
    assert_eq!(shown.len(), 4);
}

#[test]
fn a_start_command_starts_a_browser_that_stays() {
    let _permit = browser_permit();
    let mut browser = Chromium::start();
    browser.stop();
    let command = browser.command_line("{port}");
    let server = serve_urls(&format!("{}|{command}", browser.url()), &[NEVER]);
    let mut client = connect(&server);
    wait_for(&mut client, &["disconnected"]);
    refused(&client.call_tool("list_pages", json!({})));
    let back = client.call_tool("reconnect_browser", json!({ "force": true }));
    assert_eq!(back["structuredContent"]["state"], "connected", "{back}");
    let site = Site::start();
    fine(&client.call_tool("navigate_page", json!({ "url": site.url("/links") })));
    drop((client, server));
    let started = browser.adopt();
    assert!(started.iter().all(|pid| process_alive(*pid)), "{started:?}");
    assert_eq!(browser.pages(), [site.url("/links")]);
}
