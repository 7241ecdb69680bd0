//! Many sessions, one after another, some of them killed: nothing of them stays.

use greenroom_testkit::{children_of, fd_count, process_alive, send_signal, thread_count, wait_until};
use serde_json::json;

use super::{House, PATIENCE, fine, listed, navigate};
use crate::rig::browser_of;

/// More for a long run: `GREENROOM_TEST_SESSIONS=500`.
fn rounds() -> usize {
    std::env::var("GREENROOM_TEST_SESSIONS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(24)
}

#[test]
fn many_sessions_with_hosts_browsers_and_clients_killed_in_turn_leave_nothing() {
    let house = House::new(&[("GREENROOM_SESSION_FILES_GRACE", "0")]);
    let mut client = house.client();
    let mut life = |round: usize| {
        let name = format!("session {round}");
        navigate(&mut client, &name, &house.site.url("/links"));
        let shot = json!({ "sessionId": name, "filename": "shot.png" });
        fine(&client.call_tool("browser_take_screenshot", shot));
        match round % 8 {
            3 => {
                let host = house.hosts()[0];
                assert!(send_signal(host, "KILL"));
                wait_until("the host to go", PATIENCE, || !process_alive(host));
            }
            5 => assert!(send_signal(browser_of(house.server.pid()), "KILL")),
            // A client that leaves in the middle of its call.
            7 => {
                let mut leaving = house.client();
                let slow = house.site.url(&format!("/slow?ms=3600000&round={round}"));
                let call =
                    json!({ "name": "browser_navigate", "arguments": { "sessionId": name, "url": slow } });
                let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call });
                std::thread::scope(|scope| {
                    let hits = house.site.hits("/slow");
                    scope.spawn(move || leaving.post(&request));
                    wait_until("the page to be asked for", PATIENCE, || house.site.hits("/slow") > hits);
                    fine(&client.call_tool("session_close", json!({ "sessionId": name })));
                });
                return;
            }
            _ => {}
        }
        fine(&client.call_tool("session_close", json!({ "sessionId": name })));
    };
    for round in 0..8 {
        life(round);
    }
    let pid = house.server.pid();
    house.wait_for_warm(0, 1);
    let before = (fd_count(pid), thread_count(pid), children_of(pid).len());
    for round in 0..rounds() {
        life(round);
    }
    house.wait_for_warm(0, 1);
    assert_eq!(house.hosts().len(), 1);
    wait_until(&format!("everything to be as before ({before:?})"), PATIENCE, || {
        let now = (fd_count(pid), thread_count(pid), children_of(pid).len());
        // A browser has a process more or less from time to time; one that leaks has one for every session.
        now.0 <= before.0 + 4 && now.1 <= before.1 + 4 && now.2 <= before.2 + 3
    });
    assert!(listed(&mut client).is_empty());
}
