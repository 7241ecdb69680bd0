//! Looking at a running server's pools, restarting and scaling them: on the command line and over HTTP.

use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};

use greenroom_testkit::{process_alive, wait_until};
use serde_json::{Value, json};

use super::{LIMIT, MAIN, SIDE, pid, text, two_pools};
use crate::rig::Server;

const ALIAS: (&str, &str) = ("PW_MCP_PROXY__MAIN__1_ALIAS", "debug");

/// What was printed, by one that succeeded.
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What was complained of, by one that failed.
fn complained(output: &Output) -> String {
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn status_is_a_table_and_json_and_of_one_pool_if_asked() {
    let server = two_pools("", &[ALIAS, ("PW_MCP_PROXY__SIDE_DESCRIPTION", "For tests")]);
    let shown = printed(&server.ask(&["status"]));
    for part in [
        "MAIN (default)\n  2 of 2 healthy, 0 in use, 2 free, calls waiting: 0, sessions: 0\n",
        "SIDE: For tests\n",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let row = shown.lines().find(|line| line.contains("debug")).expect("a row for it");
    assert!(row.contains("healthy") && row.contains(&server.process(1).to_string()), "{row}");

    let all: Value = serde_json::from_str(&printed(&server.ask(&["status", "--json"]))).unwrap();
    assert_eq!(all["summary"], server.status()["summary"]);
    assert_eq!(all["pools"][0]["waiting_calls"], 0);
    let one: Value = serde_json::from_str(&printed(&server.ask(&["status", "SIDE", "--json"]))).unwrap();
    assert_eq!((&one["pools"][0]["name"], &one["summary"]["total_pools"]), (&json!("SIDE"), &json!(1)));
    assert!(!printed(&server.ask(&["status", "SIDE"])).contains("MAIN"));
    assert!(complained(&server.ask(&["status", "side"])).contains("The pools are: MAIN, SIDE."));
}

#[test]
fn status_is_shown_again_and_again_if_asked_to_watch() {
    let server = two_pools("", &[]);
    let folder = tempfile::tempdir().unwrap();
    let mut command = server.asking(folder.path(), &["status", "--watch", "MAIN"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let headings = lines.map_while(Result::ok).filter(|line| line == "MAIN (default)");
    assert_eq!(headings.take(3).count(), 3);
    // Nobody reads any more: it ends by itself, and that is no error.
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_restart_reaches_all_one_pool_or_one_instance_by_number_or_alias() {
    let server = two_pools("", &[ALIAS]);
    let mut client = server.connected();
    let mut pids = || -> [u32; 3] {
        server.wait_for("all to be up", |status| status["summary"]["healthy_instances"] == 3);
        let side = client.call_tool("pid", json!({ "browser_pool": "SIDE" }));
        [pid(&mut client, "0"), pid(&mut client, "1"), text(&side).parse().unwrap()]
    };
    let mut before = pids();
    for (arguments, shown, changed) in [
        (&["restart", "MAIN", "0"][..], "MAIN: being started anew: 0\n", [true, false, false]),
        (&["restart", "MAIN", "debug"], "MAIN: being started anew: debug\n", [false, true, false]),
        (&["restart", "MAIN"], "MAIN: being started anew: 0, 1\n", [true, true, false]),
        (&["restart"], "MAIN: being started anew: 0, 1\nSIDE: being started anew: 0\n", [true, true, true]),
    ] {
        assert_eq!(printed(&server.ask(arguments)), shown);
        let after = pids();
        let differ: Vec<_> = before.iter().zip(&after).map(|(before, after)| before != after).collect();
        assert_eq!(differ, changed, "{arguments:?}: {before:?} {after:?}");
        before = after;
    }
    assert!(complained(&server.ask(&["restart", "NONE"])).contains("The pools are: MAIN, SIDE."));
    let said = complained(&server.ask(&["restart", "MAIN", "2"]));
    assert!(said.contains("Its instances are: 0, 1 (debug)."), "{said}");
    assert_eq!(pids(), before, "and nothing has happened to them");
}

#[test]
fn a_pool_is_scaled_while_it_works() {
    let server = two_pools("", &[]);
    let mut client = server.connected();
    let goes = pid(&mut client, "1");
    assert_eq!(printed(&server.ask(&["scale", "MAIN", "1"])), "MAIN has 1 instance now; draining: 1\n");
    wait_until("the second to be gone", LIMIT, || !process_alive(goes));
    assert_eq!(printed(&server.ask(&["scale", "MAIN", "3"])), "MAIN has 3 instances now; added: 1, 2\n");
    server.wait_for("all to be up", |status| status["pools"][0]["healthy_instances"] == 3);
    assert_ne!(pid(&mut client, "1"), goes);
    assert_eq!(printed(&server.ask(&["scale", "MAIN", "3"])), "MAIN has 3 instances now\n");
    assert!(complained(&server.ask(&["scale", "NONE", "3"])).contains("The pools are: MAIN, SIDE."));
    for count in ["0", "1001", "-1", "many"] {
        assert_eq!(server.ask(&["scale", "MAIN", count]).status.code(), Some(2), "{count}");
    }
}

#[test]
fn the_pools_over_http() {
    let server = two_pools("", &[ALIAS]);
    let (status, all) = server.get("/api/pools");
    assert_eq!((status, &all["summary"]["total_pools"]), (200, &json!(2)));
    let (status, one) = server.get("/api/pools/SIDE");
    assert_eq!((status, &one["pools"][0]["name"]), (200, &json!("SIDE")));
    let (status, unknown) = server.get("/api/pools/NONE");
    assert_eq!((status, &unknown["error"]), (404, &json!("not_found")));
    assert!(unknown["message"].as_str().unwrap().contains("The pools are: MAIN, SIDE."), "{unknown}");

    let before = server.process(1);
    let (status, answer) = server.send("POST", "/api/pools/MAIN/instances/debug/restart", b"");
    assert_eq!((status, &answer["status"]), (202, &json!("restarting")), "{answer}");
    server.wait_for_another(1, before);
    let (status, answer) = server.send("POST", "/api/pools/MAIN/restart", b"");
    assert_eq!((status, &answer["instances"]), (202, &json!(["0", "1"])));
    for path in ["/api/pools/NONE/restart", "/api/pools/MAIN/instances/2/restart", "/api/pools/NONE/scale"] {
        let (status, answer) = server.send("POST", path, br#"{"instances":1}"#);
        assert_eq!((status, &answer["error"]), (404, &json!("not_found")), "{path}: {answer}");
    }
    for path in ["/api/pools/MAIN/restart", "/api/pools/MAIN/scale"] {
        assert_eq!(server.get(path).0, 405, "{path}");
    }
    for body in [
        &b""[..],
        b"{",
        b"3",
        b"[]",
        b"{}",
        br#"{"instances":0}"#,
        br#"{"instances":1001}"#,
        br#"{"instances":-1}"#,
        br#"{"instances":"3"}"#,
        br#"{"instances":1.5}"#,
        br#"{"instances":1,"force":true}"#,
        b"\xff\xfe",
    ] {
        let (status, answer) = server.send("POST", "/api/pools/MAIN/scale", body);
        assert_eq!((status, &answer["error"]), (400, &json!("bad_request")), "{body:?}: {answer}");
    }
    assert_eq!(server.status()["pools"][0]["total_instances"], 2);
    let (status, scaled) = server.send("POST", "/api/pools/MAIN/scale", br#"{"instances":3}"#);
    assert_eq!(status, 202);
    assert_eq!(scaled, json!({ "pool": "MAIN", "instances": 3, "added": [2], "draining": [] }));
}

#[test]
fn only_a_default_pool_that_is_down_makes_greenroom_not_ready() {
    let server = two_pools("", &[("GREENROOM_RESTART_MAX", "0")]);
    let mut client = server.connected();
    let ready = || server.get("/readyz");
    let mut crash = |pool: &str, instance: &str| {
        client.call_tool("crash", json!({ "browser_pool": pool, "browser_instance": instance }));
    };
    crash("SIDE", "0");
    server.wait_for("SIDE to be down", |status| status["pools"][1]["instances"][0]["status"] == "failed");
    let (status, body) = ready();
    assert_eq!((status, &body["pools_down"]), (200, &json!(["SIDE"])), "{body}");
    crash("MAIN", "0");
    server.wait_for("half of MAIN to be down", |status| status["summary"]["failed_instances"] == 2);
    assert_eq!(ready().0, 200, "one instance is left");
    crash("MAIN", "1");
    server.wait_for("MAIN to be down", |status| status["summary"]["failed_instances"] == 3);
    let (status, body) = ready();
    assert_eq!((status, &body["error"]), (503, &json!("degraded")), "{body}");
    assert!(body["message"].as_str().unwrap().contains("The default pool MAIN"), "{body}");
    assert_eq!(server.get("/healthz").0, 200, "the process lives");
    printed(&server.ask(&["restart", "MAIN", "1"]));
    server.wait_for("it to be back", |status| status["summary"]["healthy_instances"] == 1);
    assert_eq!(ready().0, 200);
}

#[test]
fn a_stop_lets_leases_finish_while_who_waits_hears_of_it() {
    let all: Vec<_> = MAIN.into_iter().chain([SIDE]).collect();
    let server = Server::fake("", &all);
    let mut client = server.connected();
    pid(&mut client, "0");
    let answers = std::thread::scope(|scope| {
        let call = |ms: u64| {
            let server = &server;
            scope.spawn(move || {
                server.connected().call_tool("sleep", json!({ "ms": ms, "browser_instance": "0" }))
            })
        };
        let leased = call(4000);
        wait_until("it to be under way", LIMIT, || server.instance(0)["leased"] == true);
        let waiting = call(1);
        wait_until("another to wait", LIMIT, || server.status()["pools"][0]["waiting_calls"] == 1);
        greenroom_testkit::send_signal(server.pid(), "TERM");
        [leased.join().unwrap(), waiting.join().unwrap()]
    });
    assert!(text(&answers[0]).contains("slept"), "{}", answers[0]);
    assert!(text(&answers[1]).contains("shutting down"), "{}", answers[1]);
}
