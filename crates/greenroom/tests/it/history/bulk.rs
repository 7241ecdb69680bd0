//! A script is on record, and so is every step of it.

use greenroom_store::{CallStatus, Filter};
use serde_json::{Value, json};

use super::{Agent, Archive, POOL, connected, ref_id};

#[test]
fn every_step_of_a_script_has_a_ref_id_of_its_own_and_the_script_as_its_parent() {
    let archive = Archive::new();
    let server = archive.serve(&POOL);
    let mut agent = connected(&server);
    let commands = json!([
        { "tool": "echo", "args": { "text": "one" }, "return_result": true },
        { "tool": "image" },
        { "tool": "fail", "args": { "message": "two" } },
        { "tool": "echo", "args": { "text": "three" }, "return_result": true },
    ]);
    let script = json!({ "commands": commands, "stop_on_error": false, "sessionId": "a" });
    let result = agent.call("browser_execute_bulk", script);
    let id = ref_id(&result);
    let call = archive.call(&id);
    assert_eq!((call.tool.as_str(), call.status), ("browser_execute_bulk", CallStatus::Error));
    assert_eq!(call.session_name.as_deref(), Some("a"));
    assert_eq!(call.error.as_deref(), Some("Step 2 (fail): two"));
    let params: Value = serde_json::from_str(&call.params).unwrap();
    assert_eq!(params, json!({ "commands": commands, "stop_on_error": false }));

    let all = archive.reader().calls(&Filter { limit: 100, ..Filter::default() }).unwrap();
    let mut steps: Vec<_> = all.into_iter().filter(|step| step.parent == Some(call.ref_id)).collect();
    steps.reverse();
    let tools: Vec<_> = steps.iter().map(|step| step.tool.as_str()).collect();
    assert_eq!(tools, ["echo", "image", "fail", "echo"]);
    assert!(steps.iter().all(|step| step.session_name.as_deref() == Some("a")));
    assert_eq!((steps[1].status, steps[2].status), (CallStatus::Success, CallStatus::Error));
    assert_eq!(steps[1].blobs.len(), 1);

    let report = &result["structuredContent"];
    for (index, text) in [(0, "one"), (3, "three")] {
        let step = report["results"][index]["_meta"]["greenroom/refId"].as_str().unwrap();
        assert_eq!(step, steps[index].ref_id.to_string());
        assert_eq!(agent.content(json!({ "ref_id": step })), text);
    }
    let message = agent.content(json!({ "ref_id": steps[2].ref_id.to_string() }));
    assert_eq!(message, "two");
    let listed = agent.call("list_calls", json!({ "sessionId": "a" }));
    let listed = listed["structuredContent"]["calls"].as_array().unwrap();
    assert_eq!(listed.len(), 5);
    assert_eq!(listed.iter().filter(|call| call["parent"] == *id).count(), 4);
}

#[test]
fn a_script_that_cannot_run_is_on_record_as_that() {
    let archive = Archive::new();
    let server = archive.serve(&POOL);
    let mut agent = connected(&server);
    let message = agent.complaint("browser_execute_bulk", json!({ "commands": [] }));
    assert!(message.contains("`commands` is empty"), "{message}");
    let call = archive.call(&archive.newest());
    assert_eq!((call.tool.as_str(), call.status), ("browser_execute_bulk", CallStatus::Error));
    assert!(call.error.unwrap().contains("`commands` is empty"));

    // Own tools read the record; they are no steps of a script.
    let script = json!({ "commands": [{ "tool": "get_content", "args": {} }] });
    let message = agent.complaint("browser_execute_bulk", script);
    assert!(message.contains("cannot be called from within a script"), "{message}");
}

#[test]
fn all_steps_together_stay_within_the_budget() {
    let archive = Archive::new();
    let server = archive.serve(&POOL);
    let mut agent = connected(&server);
    let step = json!({ "tool": "bytes", "args": { "size": 20_000 }, "return_result": true });
    let commands: Vec<_> = (0..10).map(|_| step.clone()).collect();
    let result = agent.call("browser_execute_bulk", json!({ "commands": commands }));
    let text = result["content"][0]["text"].as_str().unwrap();
    // Each of those that come too late has a kilobyte and says how to read the rest.
    assert!(text.len() < 32_768 + 10 * 2_048, "{}", text.len());
    assert!(text.contains("[cut: "), "{text}");
}
