//! Whatever happens to Greenroom or to what it started: it comes back, and nothing stays behind.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use greenroom_testkit::{McpStdio, Site, children_of, process_alive, send_signal, wait_until};
use serde_json::{Value, json};

use crate::rig::{Server, browser_of, browser_permit, data_dir, greenroom, shared_data_dir, with_fake};

fn mcp(mut command: Command) -> McpStdio {
    command.arg("mcp");
    let mut client = McpStdio::spawn(command).with_timeout(Duration::from_secs(120));
    client.initialize();
    client
}

fn navigate(client: &mut McpStdio, url: &str) -> Value {
    let result = client.call_tool("browser_navigate", json!({ "url": url }));
    assert!(result.get("isError").is_none_or(|error| error == false), "{result}");
    result
}

fn runs(data_dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(data_dir.join("run")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Everything below it, the guard included, goes.
fn all_gone(processes: &[u32]) {
    wait_until("every process to be gone", Duration::from_secs(60), || {
        !processes.iter().any(|pid| process_alive(*pid))
    });
}

#[test]
fn a_killed_greenroom_leaves_no_process_and_the_next_start_no_folder() {
    let _permit = browser_permit();
    let (folder, site) = (data_dir(), Site::start());
    let mut killed = Vec::new();
    for stop_browser in [false, true] {
        let mut client = mcp(greenroom(folder.path()));
        navigate(&mut client, &site.url("/links"));
        let processes = children_of(client.pid());
        assert!(processes.len() >= 4, "node, the guard and the browser's: {processes:?}");
        if stop_browser {
            assert!(send_signal(browser_of(client.pid()), "STOP"));
        }
        killed.extend(runs(folder.path()));
        assert!(send_signal(client.pid(), "KILL"));
        all_gone(&processes);
    }
    let _next = mcp(with_fake(greenroom(folder.path()), ""));
    let left = runs(folder.path());
    assert!(!killed.iter().any(|run| left.contains(run)), "{killed:?} are gone from {left:?}");
}

#[test]
fn without_its_guard_a_killed_run_is_swept_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let flags = "--spawn-child --ignore-stdin-close --ignore-sigterm";
    let mut client = mcp(with_fake(greenroom(folder.path()), flags));
    let child: u32 = client.call_tool_text("child_pid", json!({})).parse().unwrap();
    let guards = children_of(client.pid());
    let is_guard = |pid: &&u32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains("\0guard\0"))
    };
    let guard = *guards.iter().find(is_guard).expect("a guard runs");
    assert!(send_signal(guard, "KILL"));
    assert!(send_signal(client.pid(), "KILL"));
    wait_until("greenroom to be gone", Duration::from_secs(20), || !process_alive(client.pid()));
    assert!(process_alive(child), "nobody is left to end it");
    assert_eq!(runs(folder.path()).len(), 1);

    let doctor = greenroom(folder.path()).arg("doctor").output().unwrap();
    assert!(
        String::from_utf8_lossy(&doctor.stdout)
            .contains("runs that were killed: 1; their processes still alive: 2"),
        "{doctor:?}"
    );

    let mut next = mcp(with_fake(greenroom(folder.path()), ""));
    all_gone(&[child]);
    assert_eq!(runs(folder.path()).len(), 1, "the next one's own");
    next.close_stdin();
    assert!(next.wait_exit(Duration::from_secs(20)).success());
    assert_eq!(runs(folder.path()), [] as [String; 0]);
}

#[test]
fn every_other_way_to_end_leaves_nothing_either() {
    let _permit = browser_permit();
    let (folder, site) = (data_dir(), Site::start());
    for way in ["TERM", "INT", "stdin", "ABRT"] {
        let mut client = mcp(greenroom(folder.path()));
        navigate(&mut client, &site.url("/links"));
        let processes = children_of(client.pid());
        if way == "stdin" {
            client.close_stdin();
        } else {
            assert!(send_signal(client.pid(), way));
        }
        let status = client.wait_exit(Duration::from_secs(30));
        assert_eq!(status.success(), way != "ABRT", "{way}: {status}");
        all_gone(&processes);
        wait_until("its folder to be gone", Duration::from_secs(10), || runs(folder.path()).is_empty());
    }
}

#[test]
fn two_on_one_data_folder_do_not_disturb_each_other() {
    let _permit = browser_permit();
    let (folder, site) = (data_dir(), Site::start());
    let mut first = mcp(greenroom(folder.path()));
    let mut second = mcp(greenroom(folder.path()));
    navigate(&mut first, &site.url("/links"));
    navigate(&mut second, &site.url("/static-text"));
    let (dead, alive) = (children_of(first.pid()), children_of(second.pid()));
    assert!(send_signal(first.pid(), "KILL"));
    all_gone(&dead);
    // A third one sweeps at its start.
    let mut third = mcp(with_fake(greenroom(folder.path()), ""));
    third.call_tool("echo", json!({ "text": "x" }));
    assert!(alive.iter().all(|pid| process_alive(*pid)), "the second one's browser lives");
    assert!(second.call_tool_text("browser_snapshot", json!({})).contains("Page URL"));
}

#[test]
fn a_killed_server_fails_its_call_with_what_died_and_is_back_for_the_next() {
    let _permit = browser_permit();
    let (folder, site) = (data_dir(), Site::start());
    let mut client = mcp(greenroom(folder.path()));
    navigate(&mut client, &site.url("/links"));
    let browser = browser_of(client.pid());
    let call = json!({ "name": "browser_navigate", "arguments": { "url": site.url("/slow?ms=3600000") } });
    let id = client.send_request("tools/call", call);
    wait_until("the page to be asked for", Duration::from_secs(20), || site.hits("/slow") > 0);
    let is_node = |pid: &&u32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains("greenroom-host"))
    };
    let processes = children_of(client.pid());
    let node = *processes.iter().find(is_node).expect("node runs");
    assert!(send_signal(node, "KILL"));
    let answer = client.wait_for_response(id);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains("the browser host (node) was ended by SIGKILL"), "{answer}");
    navigate(&mut client, &site.url("/static-text"));
    all_gone(&[browser]);
}

#[test]
fn a_stopped_browser_is_seen_and_replaced() {
    let _permit = browser_permit();
    let (folder, site) = (data_dir(), Site::start());
    let mut command = greenroom(folder.path());
    command.env("GREENROOM_HEALTH_CHECK_INTERVAL", "300").env("GREENROOM_HEALTH_CHECK_TIMEOUT", "1000");
    let mut client = mcp(command);
    navigate(&mut client, &site.url("/links"));
    let browser = browser_of(client.pid());
    assert!(send_signal(browser, "STOP"));
    // This call may wait for the restart, or come just before it is noticed and be told; the next ones work.
    wait_until("a new browser", Duration::from_secs(90), || {
        let result = client.call_tool("browser_navigate", json!({ "url": site.url("/static-text") }));
        result.get("isError").is_none_or(|error| error == false)
    });
    all_gone(&[browser]);
    assert!(client.stderr_tail().contains("health check"), "{}", client.stderr_tail());
}

#[test]
fn a_server_that_is_given_up_makes_greenroom_not_ready_until_it_is_restarted_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("starts");
    let variables = [("GREENROOM_RESTART_MAX", "0")];
    let server = Server::fake(&format!("--crash-first 1 {}", count.display()), &variables);
    let mut client = server.client();
    client.initialize();
    let (status, _, _) = client.raw("GET", "/readyz", &[], b"");
    assert_eq!(status, 200, "nothing has failed yet");
    let answer = client.request("tools/list", json!({}));
    assert!(answer["error"]["message"].as_str().unwrap().contains("greenroom restart"), "{answer}");
    let (status, _, body) = client.raw("GET", "/readyz", &[], b"");
    assert_eq!(status, 503);
    assert!(String::from_utf8_lossy(&body).contains("degraded"));

    let port = server.url.rsplit(':').next().unwrap().trim_end_matches("/mcp").to_owned();
    let output = greenroom(folder.path()).args(["restart", "--port", &port]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(client.call_tool("echo", json!({ "text": "back" }))["content"][0]["text"], "back");
    assert_eq!(client.raw("GET", "/readyz", &[], b"").0, 200);
}

#[test]
fn a_restart_without_a_server_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let output = greenroom(folder.path()).args(["restart", "--port", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("greenroom serve"));
}

#[test]
fn the_doctor_names_what_is_there_and_what_is_missing() {
    let shared = shared_data_dir();
    let install = greenroom(&shared).arg("install").output().unwrap();
    assert!(install.status.success(), "{install:?}");
    let free = ["--data-dir", shared.to_str().unwrap()];
    let healthy =
        greenroom(&shared).arg("doctor").args(free).env("GREENROOM_HTTP_PORT", "0").output().unwrap();
    let shown = String::from_utf8_lossy(&healthy.stdout).into_owned();
    for subject in ["node", "npm", "server", "browser", "sandbox", "port", "data folder", "left-overs"] {
        assert!(shown.lines().any(|line| line[4..].starts_with(subject)), "{subject} in {shown}");
    }
    let empty = tempfile::tempdir().unwrap();
    let ill = greenroom(empty.path()).arg("doctor").env("PATH", "/nowhere").output().unwrap();
    assert_eq!(ill.status.code(), Some(1));
    let shown = String::from_utf8_lossy(&ill.stdout);
    assert!(shown.contains("apt-get install nodejs npm") && shown.contains("greenroom install"), "{shown}");
}
