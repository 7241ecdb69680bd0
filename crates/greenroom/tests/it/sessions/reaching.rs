//! The ways to a session: by its name, by a door of its own, or by the connection.

use greenroom_testkit::McpHttp;
use rstest::rstest;
use serde_json::{Value, json};

use super::{House, PATIENCE, fine, listed, navigate, value};
use crate::rig::{Server, data_dir, greenroom};

fn modern(client: &mut McpHttp, tool: &str, arguments: &Value) -> String {
    let answer = client.call_modern("tools/call", json!({ "name": tool, "arguments": arguments }));
    fine(answer.get("result").unwrap_or_else(|| panic!("{answer}")))
}

#[rstest]
#[case::in_the_older_era(false)]
#[case::in_the_newer_era(true)]
fn a_client_that_connects_anew_for_every_call_keeps_its_browser(#[case] is_modern: bool) {
    let house = House::new(&[]);
    let call = |tool: &str, mut arguments: Value| {
        arguments["sessionId"] = "mine".into();
        if is_modern {
            return modern(&mut house.server.client().with_timeout(PATIENCE), tool, &arguments);
        }
        let mut client = house.client();
        let text = fine(&client.call_tool(tool, arguments));
        client.end_session();
        text
    };
    call("browser_navigate", json!({ "url": house.site.url("/links") }));
    for round in 0..5 {
        let count = "() => { window.visits = (window.visits ?? 0) + 1; return `visit ${window.visits}`; }";
        let text = call("browser_evaluate", json!({ "function": count }));
        assert!(text.contains(&format!("visit {}", round + 1)), "{text}");
    }
}

#[rstest]
#[case::plain("chat-7", "chat-7")]
#[case::to_be_escaped("a b/\u{fc}?#%", "a%20b%2F%C3%BC%3F%23%25")]
fn a_session_has_a_door_of_its_own_with_the_upstreams_plain_tools(#[case] name: &str, #[case] escaped: &str) {
    let house = House::new(&[]);
    let url = house.server.url.replace("/mcp", &format!("/sessions/{escaped}/mcp"));
    let mut bound = McpHttp::connect(&url).with_timeout(PATIENCE);
    bound.initialize();
    let mut client = house.client();
    let tools = |client: &mut McpHttp| client.request("tools/list", json!({}))["result"]["tools"].take();
    let (plain, added) = (tools(&mut bound), tools(&mut client));
    for tool in plain.as_array().unwrap() {
        let mut expected =
            added.as_array().unwrap().iter().find(|other| other["name"] == tool["name"]).unwrap().clone();
        for ours in ["sessionId", "reply"] {
            expected["inputSchema"]["properties"].as_object_mut().unwrap().remove(ours).unwrap();
        }
        let required = expected["inputSchema"]["required"].as_array_mut().unwrap();
        assert_eq!(required.remove(0), "sessionId");
        let mut tool = tool.clone();
        if required.is_empty() && tool["inputSchema"].get("required").is_none() {
            tool["inputSchema"]["required"] = json!([]);
        }
        assert_eq!(tool, expected);
    }
    // Five for sessions, four for history.
    assert!(plain.as_array().unwrap().len() + 9 == added.as_array().unwrap().len(), "{plain}");

    let link = house.site.url("/links");
    let result = bound.call_tool("browser_navigate", json!({ "url": link }));
    assert_eq!(result["_meta"]["greenroom/sessionId"], name, "{result}");
    let newer = modern(&mut McpHttp::connect(&url).with_timeout(PATIENCE), "browser_snapshot", &json!({}));
    assert!(newer.contains("/links"), "{newer}");
    assert!(value(&mut client, name, "location.pathname").contains("/links"));
    let list = listed(&mut client);
    assert_eq!((list.len(), &list[0]["id"], &list[0]["url"]), (1, &json!(name), &json!(link)), "{list:?}");
}

#[test]
fn a_door_to_a_name_that_is_too_long_is_refused() {
    let house = House::new(&[]);
    let path = format!("/sessions/{}/mcp", "x".repeat(257));
    let (status, _, body) = house.client().raw("POST", &path, &[("Content-Type", "application/json")], b"{}");
    assert_eq!(status, 400);
    assert!(String::from_utf8_lossy(&body).contains("257 letters"));
}

#[test]
fn each_connection_can_have_a_browser_without_asking() {
    let house = House::new(&[("GREENROOM_IMPLICIT_SESSION", "connection")]);
    let (mut one, mut two) = (house.client(), house.client());
    let go =
        |client: &mut McpHttp, url: &str| fine(&client.call_tool("browser_navigate", json!({ "url": url })));
    go(&mut one, &house.site.url("/links"));
    go(&mut two, &house.site.url("/form"));
    for (client, page) in [(&mut one, "/links"), (&mut two, "/form")] {
        let text = fine(&client.call_tool("browser_snapshot", json!({})));
        assert!(text.contains(page), "{text}");
    }
    assert_eq!(listed(&mut one).len(), 2);
    navigate(&mut one, "by name", &house.site.url("/console"));
    assert!(value(&mut two, "by name", "location.pathname").contains("/console"), "names are for all");
}

#[test]
fn where_sessions_are_required_the_real_tools_are_as_the_specification_says() {
    let folder = data_dir();
    let mut command = greenroom(folder.path());
    command.env("GREENROOM_ADDRESSING", "session");
    let server = Server::start(command, None);
    let mut client = server.client().with_timeout(PATIENCE);
    client.initialize();
    let mut tools = client.request("tools/list", json!({}))["result"]["tools"].take();
    let tools = tools.as_array_mut().unwrap();
    let own = tools.split_off(tools.len() - 2);
    assert_eq!([&own[0]["name"], &own[1]["name"]], [&json!("session_list"), &json!("session_close")]);
    assert!(tools.len() > 20);
    for tool in tools {
        let schema = &tool["inputSchema"];
        let (first, parameter) = schema["properties"].as_object().unwrap().iter().next().unwrap();
        assert_eq!(first, "sessionId", "{tool}");
        assert_eq!(parameter.to_string(), r#"{"type":"string","description":"Session ID for isolation"}"#);
        assert_eq!(schema["required"][0], "sessionId", "{tool}");
        let names: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
        assert!(!names.iter().any(|name| ["browser_pool", "browser_instance"].contains(&name.as_str())));
    }
    let refused = client.call_tool("browser_navigate", json!({ "url": "about:blank" }));
    assert_eq!(refused["isError"], true);
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("`sessionId` is missing"), "{refused}");
}

#[rstest]
#[case::shared("context", false)]
#[case::of_its_own("process", true)]
fn code_in_the_servers_process_is_offered_only_where_no_other_session_lives(
    #[case] seat: &str,
    #[case] offered: bool,
) {
    let variables = [("GREENROOM_ALLOW_UNSAFE_CODE", "true"), ("GREENROOM_SESSION_ISOLATION", seat)];
    let house = House::new(&variables);
    let mut client = house.client();
    let tools = client.request("tools/list", json!({})).to_string();
    assert_eq!(tools.contains("browser_run_code_unsafe"), offered, "in the list");
    let code = json!({ "sessionId": "one", "code": "async () => 7 * 6" });
    let answer =
        client.request("tools/call", json!({ "name": "browser_run_code_unsafe", "arguments": code }));
    assert_eq!(answer.to_string().contains("42"), offered, "{answer}");
}

#[test]
fn beside_pools_a_session_may_not_run_code_in_a_server_that_others_share() {
    let house = House::new(&[
        ("GREENROOM_ALLOW_UNSAFE_CODE", "true"),
        ("GREENROOM__P_INSTANCES", "1"),
        ("GREENROOM__P_IS_DEFAULT", "true"),
        ("GREENROOM_START", "lazy"),
    ]);
    let mut client = house.client();
    let code = json!({ "sessionId": "one", "code": "async () => 7 * 6" });
    let refused = client.call_tool("browser_run_code_unsafe", code);
    assert_eq!(refused["isError"], true);
    assert!(
        refused["content"][0]["text"].as_str().unwrap().contains("SESSION_ISOLATION=process"),
        "{refused}"
    );
    assert!(listed(&mut client).is_empty());
}
