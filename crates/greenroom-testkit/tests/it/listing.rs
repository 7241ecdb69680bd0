//! Tools that change the list of tools, and tools that look around.

use std::path::Path;
use std::process::Command;

use greenroom_testkit::{McpStdio, fake_upstream};
use serde_json::{Value, json};

use crate::start::initialized;

#[test]
fn a_tool_that_was_added_is_announced_listed_and_called() {
    let mut fake = initialized(&[]);
    let count = |fake: &mut McpStdio| {
        fake.request("tools/list", Value::Null)["result"]["tools"].as_array().unwrap().len()
    };
    let before = count(&mut fake);
    assert_eq!(fake.call_tool_text("change_tools", json!({})), "added_1");
    assert_eq!(fake.next_message()["method"], "notifications/tools/list_changed");
    assert_eq!(count(&mut fake), before + 1);
    assert_eq!(fake.call_tool_text("added_1", json!({})), "added_1 was called with {}");

    fake.call_tool("announce_tools", json!({}));
    assert_eq!(fake.next_message()["method"], "notifications/tools/list_changed");
    assert_eq!(count(&mut fake), before + 1);
}

#[test]
fn the_surroundings_are_told() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).canonicalize().unwrap();
    let mut command = Command::new(fake_upstream());
    command.current_dir(&folder).env("GREENROOM_TEST", "a value");
    let mut fake = McpStdio::spawn(command);
    fake.initialize();
    assert_eq!(fake.call_tool_text("env", json!({ "name": "GREENROOM_TEST" })), "a value");
    assert_eq!(fake.call_tool("env", json!({ "name": "GREENROOM_NOT_SET" }))["isError"], true);
    assert_eq!(fake.call_tool_text("cwd", json!({})), folder.to_str().unwrap());
    assert_eq!(fake.call_tool_text("pid", json!({})), fake.pid().to_string());
    assert_eq!(fake.call_tool("child_pid", json!({}))["isError"], true);
}
