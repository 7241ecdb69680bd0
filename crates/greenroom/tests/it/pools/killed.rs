//! An instance's upstream is shot or stopped: status shows it, callers hear of it, it comes back, and the others do
//! not notice.

use std::sync::atomic::{AtomicBool, Ordering};

use greenroom_testkit::{process_alive, send_signal, wait_until};
use serde_json::json;

use super::{LIMIT, pid, text, two_pools};
use crate::rig::Server;

/// Does something to the first instance of MAIN, while calls to the other instances all succeed on the processes
/// that they began with.
fn undisturbed(server: &Server, deed: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let others = [json!({ "browser_instance": "1" }), json!({ "browser_pool": "SIDE" })].map(|address| {
            let done = &done;
            scope.spawn(move || {
                let mut client = server.connected();
                let mut call = || client.call_tool("pid", address.clone());
                let first = call();
                assert!(text(&first).parse::<u32>().is_ok(), "{first}");
                loop {
                    let is_last = done.load(Ordering::SeqCst);
                    let now = call();
                    assert_eq!(text(&now), text(&first), "{now}");
                    if is_last {
                        return;
                    }
                }
            })
        });
        deed();
        done.store(true, Ordering::SeqCst);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// It is back, with another process, and the one before is gone.
fn check_back(server: &Server, killed: u32) {
    server.wait_for_another(0, killed);
    assert_ne!(pid(&mut server.connected(), "0"), killed);
    wait_until("the old process to be gone", LIMIT, || !process_alive(killed));
    server.wait_for("all to be free again", |status| status["summary"]["available_instances"] == 3);
}

#[test]
fn killed_while_leased() {
    let server = two_pools("", &[]);
    undisturbed(&server, || {
        let killed = server.process(0);
        std::thread::scope(|scope| {
            let call =
                scope.spawn(|| server.connected().call_tool("hang", json!({ "browser_instance": "0" })));
            wait_until("it to be under way", LIMIT, || server.instance(0)["leased"] == true);
            let waiting =
                scope.spawn(|| server.connected().call_tool("pid", json!({ "browser_instance": "0" })));
            wait_until("another to wait", LIMIT, || server.status()["pools"][0]["waiting_calls"] == 1);
            assert!(send_signal(killed, "KILL"));
            let failed = call.join().unwrap();
            assert_eq!(failed["isError"], true);
            assert!(text(&failed).contains("was ended by SIGKILL"), "{failed}");
            let served = waiting.join().unwrap();
            assert_ne!(text(&served).parse::<u32>().unwrap(), killed, "it waits for the next one");
        });
        check_back(&server, killed);
    });
}

#[test]
fn killed_while_idle() {
    let server = two_pools("", &[]);
    undisturbed(&server, || {
        let killed = server.process(0);
        assert!(send_signal(killed, "KILL"));
        wait_until("the status to show it", LIMIT, || {
            let instance = server.instance(0);
            instance["process_id"] != json!(killed)
        });
        check_back(&server, killed);
    });
    assert!(server.log().contains("SIGKILL"), "{}", server.log());
}

#[test]
fn killed_while_starting() {
    // Slow enough to be caught in the act; nothing is concluded from how long it takes.
    let server = two_pools("--late-start 3000", &[]);
    undisturbed(&server, || {
        let first = server.process(0);
        let others = [
            server.process(1),
            u32::try_from(server.status()["pools"][1]["instances"][0]["process_id"].as_u64().unwrap())
                .unwrap(),
        ];
        assert!(server.ask(&["restart", "MAIN", "0"]).status.success());
        let mut starting = None;
        wait_until("the next process to be there", LIMIT, || {
            let is_fake = |pid: &u32| {
                let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                line.contains("fake-upstream")
            };
            let new = |pid: &u32| *pid != first && !others.contains(pid) && is_fake(pid);
            starting = greenroom_testkit::children_of(server.pid()).into_iter().find(new);
            starting.is_some()
        });
        let killed = starting.unwrap();
        let instance = server.instance(0);
        assert_eq!((&instance["status"], &instance["process_id"]), (&json!("starting"), &json!(null)));
        assert!(send_signal(killed, "KILL"));
        let said = || {
            server.instance(0)["health_check"]["error"]
                .as_str()
                .is_some_and(|error| error.contains("SIGKILL"))
        };
        wait_until("the status to say why", LIMIT, said);
        // Who asks for it meanwhile waits for the next start.
        assert_ne!(pid(&mut server.connected(), "0"), killed);
        check_back(&server, killed);
    });
}

#[test]
fn stopped_and_so_it_answers_nothing() {
    let server = two_pools(
        "",
        &[
            ("PW_MCP_PROXY__MAIN__0_HEALTH_CHECK_INTERVAL", "100"),
            ("PW_MCP_PROXY__MAIN__0_HEALTH_CHECK_TIMEOUT", "1000"),
        ],
    );
    undisturbed(&server, || {
        let stopped = server.process(0);
        assert!(send_signal(stopped, "STOP"));
        wait_until("the status to show it", LIMIT, || {
            let check = &server.instance(0)["health_check"];
            check["responsive"] == false && check["error"].is_string()
        });
        // Not handed out: who takes any gets another at once, who wants this one waits for the next.
        let any = server.connected().call_tool("pid", json!({}));
        assert_ne!(text(&any).parse::<u32>().unwrap(), stopped);
        assert_ne!(pid(&mut server.connected(), "0"), stopped);
        check_back(&server, stopped);
    });
    assert!(server.log().contains("a health check was missed"), "{}", server.log());
}

#[test]
fn stopped_under_a_call_that_then_hears_of_its_deadline() {
    let server = two_pools(
        "",
        &[
            ("PW_MCP_PROXY__MAIN__0_HEALTH_CHECK_INTERVAL", "100"),
            ("PW_MCP_PROXY__MAIN__0_HEALTH_CHECK_TIMEOUT", "500"),
            ("PW_MCP_PROXY__MAIN__0_CALL_TIMEOUT", "8000"),
        ],
    );
    undisturbed(&server, || {
        let stopped = server.process(0);
        std::thread::scope(|scope| {
            let call =
                scope.spawn(|| server.connected().call_tool("hang", json!({ "browser_instance": "0" })));
            wait_until("it to be under way", LIMIT, || server.instance(0)["leased"] == true);
            assert!(send_signal(stopped, "STOP"));
            wait_until("the status to call it failed", LIMIT, || server.instance(0)["status"] == "failed");
            assert!(process_alive(stopped), "a call within its deadline is not ended by checks");
            let failed = call.join().unwrap();
            assert_eq!(failed["isError"], true);
            assert!(text(&failed).contains("CALL_TIMEOUT"), "{failed}");
        });
        check_back(&server, stopped);
    });
}
