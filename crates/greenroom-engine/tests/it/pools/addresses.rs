//! Which pool and instance a call names, and which tools it finds there.

use greenroom_engine::CallFailure;
use serde_json::{Value, json};

use super::{fake, main_pool, pools, served};
use crate::Rig;

/// MAIN with two instances and SIDE with one.
fn two_pools(settings: &[&str]) -> Rig {
    let pools_of =
        ["_MAIN_INSTANCES=2", "_MAIN_IS_DEFAULT=true", "_MAIN__1_ALIAS=debug", "_SIDE_INSTANCES=1"];
    let all: Vec<_> = pools_of.into_iter().chain(settings.iter().copied()).collect();
    let rig = pools("", &all);
    rig.wait_for_healthy("MAIN", 2);
    rig.wait_for_healthy("SIDE", 1);
    rig
}

/// A tool as it is listed.
async fn listed(rig: &Rig, name: &str) -> Option<Value> {
    let list = rig.engine.tools().await.unwrap();
    list.find(name).map(|tool| serde_json::from_str(tool.raw.get()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_pool_or_instance_is_an_error_that_lists_the_valid_ones() {
    let rig = two_pools(&[]);
    assert_eq!(
        rig.failure("pid", json!({ "browser_pool": "main" })).await.to_string(),
        "Invalid pool name in browser_pool: there is no pool `main`. The pools are: MAIN, SIDE."
    );
    for name in ["2", "Debug", "-1"] {
        assert_eq!(
            rig.failure("pid", json!({ "browser_instance": name })).await.to_string(),
            format!("Instance not found in pool 'MAIN': `{name}`. Its instances are: 0, 1 (debug).")
        );
    }
    assert_eq!(
        rig.failure("pid", json!({ "browser_pool": "SIDE", "browser_instance": "debug" })).await.to_string(),
        "Instance not found in pool 'SIDE': `debug`. Its instances are: 0."
    );
    for wrong in [json!({}), json!([0]), json!(true)] {
        let text = rig.failure("pid", json!({ "browser_instance": wrong })).await.to_string();
        assert_eq!(text, "`browser_instance` has to be a text.");
    }
    let bulk = json!({ "browser_pool": "NONE", "commands": [{ "tool": "pid" }] });
    let text = rig.failure("browser_execute_bulk", bulk).await.to_string();
    assert!(text.contains("there is no pool `NONE`"), "{text}");
    let text = rig.failure("browser_pool_status", json!({ "pool_name": "NONE" })).await.to_string();
    assert!(text.contains("The pools are: MAIN, SIDE."), "{text}");
    rig.wait_for_rest();
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_and_an_empty_text_mean_any_and_a_number_is_an_instance() {
    let rig = two_pools(&[]);
    for address in [
        json!({ "browser_pool": "", "browser_instance": "" }),
        json!({ "browser_pool": null, "browser_instance": null }),
        json!({ "browser_pool": " MAIN ", "browser_instance": "  " }),
    ] {
        let outcome = rig.call("pid", address.clone()).outcome().await;
        assert_eq!(outcome.served.unwrap().pool, "MAIN", "{address}");
    }
    for instance in [json!(1), json!("1"), json!("debug"), json!(" 1 ")] {
        assert_eq!(served(rig.call("pid", json!({ "browser_instance": instance }))).await, "1", "{instance}");
    }
    let outcome = rig.call("pid", json!({ "browser_pool": "SIDE" })).outcome().await;
    assert_eq!(outcome.served.unwrap().pool, "SIDE");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_of_the_upstream_has_the_parameters_and_the_upstream_does_not_get_them() {
    let settings = ["_SIDE_DESCRIPTION=For tests"];
    let rig = two_pools(&settings);
    let list = rig.engine.tools().await.unwrap();
    let is_ours =
        |name: &str| ["session_", "get_", "list_", "create_"].iter().any(|start| name.starts_with(start));
    let is_addressed = |name: &str| !is_ours(name) && !["own_pool", "browser_pool_status"].contains(&name);
    for tool in list.iter().filter(|tool| is_addressed(&tool.name)) {
        let tool: Value = serde_json::from_str(tool.raw.get()).unwrap();
        let properties = &tool["inputSchema"]["properties"];
        assert_eq!(properties["browser_pool"]["enum"], json!(["MAIN", "SIDE"]), "{tool}");
        assert_eq!(
            properties["browser_pool"]["description"],
            "Pool of browsers to use. Default: MAIN. SIDE: For tests."
        );
        assert_eq!(properties["browser_instance"]["type"], "string", "{tool}");
        assert_eq!(properties["sessionId"]["type"], "string", "{tool}");
        let required = tool["inputSchema"]["required"].as_array().into_iter().flatten();
        assert!(
            !required
                .into_iter()
                .any(|name| ["sessionId", "browser_pool", "browser_instance"]
                    .contains(&name.as_str().unwrap())),
            "{tool}"
        );
    }
    let arguments =
        json!({ "a": 1, "browser_pool": "SIDE", "browser_instance": 0, "z": { "browser_pool": 2 } });
    let result = rig.result("structured", arguments).await;
    assert_eq!(result["structuredContent"], json!({ "a": 1, "z": { "browser_pool": 2 } }));
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_of_the_upstreams_own_keeps_its_name_and_ours_gets_another() {
    let rig = two_pools(&[]);
    let tool = listed(&rig, "own_pool").await.unwrap();
    let properties = tool["inputSchema"]["properties"].as_object().unwrap();
    let names: Vec<_> = properties.keys().map(String::as_str).collect();
    assert_eq!(names, ["sessionId", "browser_pool", "greenroom_browser_pool", "browser_instance", "reply"]);
    assert_eq!(properties["browser_pool"]["description"], "Where to swim");
    let arguments = json!({ "browser_pool": "the lake", "greenroom_browser_pool": "SIDE" });
    let outcome = rig.call("own_pool", arguments).outcome().await;
    assert_eq!(outcome.served.as_ref().unwrap().pool, "SIDE");
    assert_eq!(super::result(outcome)["content"][0]["text"], r#"{"browser_pool":"the lake"}"#);
    // The same from within a script.
    let command =
        json!({ "tool": "own_pool", "args": { "browser_pool": "the lake" }, "return_result": true });
    let bulk =
        rig.result("browser_execute_bulk", json!({ "browser_pool": "SIDE", "commands": [command] })).await;
    let answer = &bulk["structuredContent"]["results"][0]["content"][0]["text"];
    assert_eq!(answer, r#"{"browser_pool":"the lake"}"#, "{bulk}");
    let command = json!({ "tool": "own_pool", "args": { "greenroom_browser_pool": "SIDE" } });
    let text = rig.failure("browser_execute_bulk", json!({ "commands": [command] })).await.to_string();
    assert!(text.contains("`greenroom_browser_pool` stands beside `commands`"), "{text}");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_pool_shows_the_tools_that_it_is_told_to() {
    let rig =
        two_pools(&["_MAIN_TOOLS=echo,p*,calls_seen", "_SIDE_TOOLS=echo,sleep,env", "_SIDE_HIDE_TOOLS=env"]);
    let list = rig.engine.tools().await.unwrap();
    let names: Vec<_> = list.iter().map(|tool| tool.name.as_str()).collect();
    let proxied = ["echo", "progress", "pid", "calls_seen", "sleep"];
    assert_eq!(names[..5], proxied);
    let sessions = ["session_list", "session_close", "session_files", "create_new_session"];
    assert_eq!(names[5..7], ["browser_pool_status", "browser_execute_bulk"]);
    assert_eq!(names[7..11], sessions);
    assert_eq!(names[11..], ["get_content", "get_console_content", "list_calls", "get_blob"]);
    assert_eq!(rig.text("echo", json!({ "text": "both", "browser_pool": "SIDE" })).await, "both");
    rig.text("sleep", json!({ "ms": 1, "browser_pool": "SIDE" })).await;
    let failure = rig.failure("sleep", json!({ "ms": 1 })).await;
    assert!(matches!(failure, CallFailure::UnknownTool { .. }));
    assert_eq!(failure.to_string(), "Unknown tool: sleep in this pool. It is there in: SIDE.");
    let hidden = rig.failure("env", json!({ "name": "PATH", "browser_pool": "SIDE" })).await;
    assert!(matches!(hidden, CallFailure::UnknownTool { .. }), "{hidden}");
    let bulk = json!({ "commands": [{ "tool": "pid" }, { "tool": "sleep", "args": { "ms": 1 } }] });
    let failure = rig.failure("browser_execute_bulk", bulk).await;
    assert!(matches!(failure, CallFailure::UnknownTool { .. }), "a script does not get around it: {failure}");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_of_different_servers_have_their_tools_together_and_say_where_each_is() {
    let other = format!("_SIDE_UPSTREAM_COMMAND={}", fake("--extra-tools 2"));
    let rig = two_pools(&[&other]);
    assert!(listed(&rig, "extra_2").await.is_some() && listed(&rig, "pid").await.is_some());
    let said = rig.text("extra_1", json!({ "browser_pool": "SIDE", "ref": "e1" })).await;
    assert_eq!(said, r#"extra_1 was called with {"ref":"e1"}"#);
    assert_eq!(
        rig.failure("extra_1", json!({})).await.to_string(),
        "Unknown tool: extra_1 in this pool. It is there in: SIDE."
    );
    assert_eq!(rig.failure("ecko", json!({})).await.to_string(), "Unknown tool: ecko. Did you mean `echo`?");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_started_for_a_tool_that_does_not_exist() {
    let rig = pools("", &["_MAIN_INSTANCES=2", "_MAIN_IS_DEFAULT=true", "START=lazy"]);
    rig.engine.tools().await.unwrap();
    rig.wait_for_healthy("MAIN", 1);
    let busy = rig.occupied(0).await;
    assert!(matches!(rig.failure("ecko", json!({})).await, CallFailure::UnknownTool { .. }));
    busy.end().await;
    // Had the second been asked to start, it would be up before the first has been started anew.
    rig.engine.restart("MAIN", "0", "to see what else is started").unwrap();
    rig.pid_of(0).await;
    assert_eq!(rig.instance("MAIN", 1).process_id, None);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_pools_there_are_neither_parameters_nor_tools_for_them() {
    let rig = pools("", &[]);
    let tool = listed(&rig, "echo").await.unwrap();
    assert!(tool["inputSchema"]["properties"].get("browser_pool").is_none(), "{tool}");
    assert!(listed(&rig, "browser_pool_status").await.is_none());
    rig.engine.shutdown().await;
    let rig = main_pool(1, &[]);
    assert!(listed(&rig, "browser_pool_status").await.is_some());
    rig.engine.shutdown().await;
}
