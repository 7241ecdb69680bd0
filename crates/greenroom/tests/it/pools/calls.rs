//! Calls to pools over every way in.

use serde_json::{Value, json};

use super::{MAIN, SIDE, text, two_pools};
use crate::rig::stdio_with;

/// A request, whichever way it takes.
type Request<'a> = dyn FnMut(&str, Value) -> Value + 'a;

/// Everything that has to do with pools, the same over every transport and in both eras.
fn check(request: &mut Request<'_>) {
    let mut call = |name: &str, arguments: Value| {
        let answer = request("tools/call", json!({ "name": name, "arguments": arguments }));
        answer.get("result").unwrap_or_else(|| panic!("{answer}")).clone()
    };
    let result = call("pid", json!({ "browser_pool": "SIDE", "browser_instance": "0" }));
    let meta = &result["_meta"];
    assert_eq!(
        (&meta["greenroom/pool"], &meta["greenroom/instance"]),
        (&json!("SIDE"), &json!("0")),
        "{result}"
    );
    assert!(meta["greenroom/waitedMs"].is_u64(), "{result}");
    let result = call("pid", json!({}));
    assert_eq!(result["_meta"]["greenroom/pool"], "MAIN", "{result}");
    // What the upstream says in `_meta` stays beside it.
    let result = call("odd_content", json!({}));
    assert!(
        result["_meta"]["example.com/result"].is_object() && result["_meta"]["greenroom/pool"].is_string()
    );

    let failed = call("pid", json!({ "browser_pool": "NONE" }));
    assert_eq!(failed["isError"], true);
    assert!(text(&failed).contains("The pools are: MAIN, SIDE."), "{failed}");

    let bulk = call(
        "browser_execute_bulk",
        json!({ "browser_instance": "debug", "commands": [
            { "tool": "pid", "return_result": true }, { "tool": "pid", "return_result": true } ] }),
    );
    assert_eq!(bulk["_meta"]["greenroom/instance"], "1", "{bulk}");
    let report = &bulk["structuredContent"];
    assert_eq!((&report["success"], &report["executed_count"]), (&json!(true), &json!(2)), "{bulk}");
    assert_eq!(report["results"][0]["content"], report["results"][1]["content"]);

    let status = call("browser_pool_status", json!({}));
    let said: Value = serde_json::from_str(text(&status)).unwrap();
    assert_eq!(said, status["structuredContent"]);
    assert_eq!(said["summary"]["total_instances"], 3, "{said}");
    let one = call("browser_pool_status", json!({ "pool_name": "SIDE" }));
    assert_eq!(one["structuredContent"]["pools"].as_array().unwrap().len(), 1);

    let tools = request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    let tool =
        |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!(tool("echo")["inputSchema"]["properties"]["browser_pool"]["enum"], json!(["MAIN", "SIDE"]));
    for own in ["browser_pool_status", "browser_execute_bulk"] {
        assert_eq!(tool(own)["outputSchema"]["type"], "object", "{own}");
    }

    let resources = request("resources/list", json!({}));
    assert_eq!(resources["result"]["resources"][0]["uri"], "greenroom://status", "{resources}");
    let read = request("resources/read", json!({ "uri": "greenroom://status" }));
    let contents = &read["result"]["contents"][0];
    assert_eq!(contents["mimeType"], "application/json", "{read}");
    let status: Value = serde_json::from_str(contents["text"].as_str().unwrap()).unwrap();
    assert_eq!(status["summary"], said["summary"]);
    let missing = request("resources/read", json!({ "uri": "greenroom://nothing" }));
    assert!(missing["error"]["message"].as_str().unwrap().contains("greenroom://status"), "{missing}");
}

const ALIAS: (&str, &str) = ("PW_MCP_PROXY__MAIN__1_ALIAS", "debug");

#[test]
fn over_http_in_both_eras() {
    let server = two_pools("", &[ALIAS]);
    let mut old = server.connected();
    check(&mut |method, params| old.request(method, params));
    let mut new = server.client();
    check(&mut |method, params| new.call_modern(method, params));
}

#[test]
fn over_stdio_in_both_eras() {
    let variables: Vec<_> = MAIN.into_iter().chain([SIDE, ALIAS]).collect();
    let mut rig = stdio_with("", &variables);
    rig.client.initialize();
    check(&mut |method, params| rig.client.request(method, params));
    let mut rig = stdio_with("", &variables);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    check(&mut |method, mut params| {
        params["_meta"] = meta.clone();
        rig.client.request(method, params)
    });
}

#[test]
fn the_instructions_say_how_to_stay_on_one_browser() {
    let server = two_pools("", &[]);
    let hello = server.client().initialize();
    let instructions = hello["instructions"].as_str().unwrap();
    for word in ["browser_instance", "browser_pool", "browser_execute_bulk", "browser_pool_status"] {
        assert!(instructions.contains(word), "{word} in {instructions}");
    }
}

#[test]
fn calls_of_one_connection_are_served_in_the_order_in_which_they_were_sent() {
    let variables = [("GREENROOM__MAIN_INSTANCES", "1"), ("GREENROOM__MAIN_IS_DEFAULT", "true")];
    let mut rig = stdio_with("", &variables);
    rig.client.initialize();
    let call =
        |n: usize| json!({ "name": "slow_call_order", "arguments": { "label": n.to_string(), "ms": 1 } });
    let ids: Vec<_> = (0..50).map(|n| rig.client.send_request("tools/call", call(n))).collect();
    for id in ids {
        rig.client.wait_for_response(id);
    }
    let log: Vec<String> = serde_json::from_str(&rig.client.call_tool_text("order_log", json!({}))).unwrap();
    let expected: Vec<_> = (0..50).flat_map(|n| [format!("start {n}"), format!("end {n}")]).collect();
    assert_eq!(log, expected);
}

#[test]
fn who_waits_is_told_its_position_and_hears_every_report() {
    let variables = [("GREENROOM__MAIN_INSTANCES", "1"), ("GREENROOM__MAIN_IS_DEFAULT", "true")];
    let mut rig = stdio_with("", &variables);
    rig.client.initialize();
    rig.client.call_tool("pid", json!({}));
    let busy = rig.client.send_request("tools/call", json!({ "name": "hang", "arguments": {} }));
    let arguments = json!({ "steps": 4, "delay_ms": 0 });
    let call = json!({ "name": "progress", "arguments": arguments, "_meta": { "progressToken": 7 } });
    let waiting = rig.client.send_request("tools/call", call);
    let is_report = |message: &Value| message["method"] == "notifications/progress";
    let first = rig.client.next_message_where(is_report);
    assert_eq!(first["params"]["message"], "Waiting for a browser of pool MAIN: number 1 in line", "{first}");
    rig.client.notify("notifications/cancelled", json!({ "requestId": busy }));
    rig.client.wait_for_response(waiting);
    let reports: Vec<_> = rig.client.notifications().into_iter().filter(is_report).collect();
    let numbers: Vec<_> =
        reports.iter().map(|report| report["params"]["progress"].as_f64().unwrap()).collect();
    assert_eq!(numbers.len(), 4, "{reports:?}");
    assert!(numbers.is_sorted_by(|a, b| a < b) && numbers[0] > first["params"]["progress"].as_f64().unwrap());
    assert!(reports.iter().all(|report| report["params"]["progressToken"] == 7), "{reports:?}");
}
