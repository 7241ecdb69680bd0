//! Tools that fail.

use serde_json::json;

use crate::start::{SOON, initialized};

#[test]
fn fail_says_so_in_the_result() {
    let result = initialized(&[]).call_tool("fail", json!({ "message": "no such element" }));
    assert_eq!(result["isError"], true);
    assert_eq!(result["content"][0]["text"], "no such element");
}

#[test]
fn rpc_error_has_the_code_and_the_message() {
    let arguments = json!({ "code": -32050, "message": "out of order" });
    let params = json!({ "name": "rpc_error", "arguments": arguments });
    assert_eq!(initialized(&[]).request("tools/call", params)["error"], arguments);
}

#[test]
fn crash_ends_the_process_with_its_last_words() {
    let mut fake = initialized(&[]);
    let arguments = json!({ "code": 42, "stderr": "the browser is gone\nreally" });
    let id = fake.send_request("tools/call", json!({ "name": "crash", "arguments": arguments }));
    assert_eq!(fake.response_within(id, SOON).unwrap_err(), "the child closed its stdout");
    assert_eq!(fake.wait_exit(SOON).code(), Some(42));
    greenroom_testkit::wait_until("the last words", SOON, || {
        fake.stderr_tail() == "the browser is gone\nreally\n"
    });
}

#[test]
fn abort_ends_the_process_by_a_signal() {
    let mut fake = initialized(&[]);
    fake.send_request("tools/call", json!({ "name": "abort" }));
    assert_eq!(fake.wait_exit(SOON).code(), None);
}

#[test]
fn garbage_comes_before_the_answer() {
    let mut fake = initialized(&[]);
    assert_eq!(fake.call_tool_text("garbage", json!({})), "that was garbage");
    assert_eq!(fake.stray_lines(), ["this is not json {"]);
    assert_eq!(fake.next_message()["id"], 999_999_999);
}

#[test]
fn flood_stderr_prints_as_many_lines() {
    let mut fake = initialized(&[]);
    assert_eq!(fake.call_tool_text("flood_stderr", json!({ "lines": 5000 })), "printed 5000 lines");
    greenroom_testkit::wait_until("the last line", SOON, || fake.stderr_tail().contains("noise 00005000 "));
}
