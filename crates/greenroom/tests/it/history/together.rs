//! Two Greenrooms with one data folder: each writes, both read, and neither ends what is the other's.

use greenroom_store::{CallStatus, SessionState};
use greenroom_testkit::{send_signal, wait_until};
use serde_json::{Value, json};

use super::{Agent, Archive, PATIENCE, POOL, connected};
use crate::rig::Server;

#[test]
fn two_servers_share_a_record_and_the_start_of_one_ends_nothing_of_the_other() {
    let archive = Archive::new();
    let first = archive.serve(&POOL);
    let mut one = connected(&first);
    let old = one.reference("echo", json!({ "text": "from the first", "sessionId": "a" }));
    std::thread::scope(|scope| {
        let busy = scope
            .spawn(|| connected(&first).call_tool("sleep", json!({ "ms": 3_600_000, "sessionId": "b" })));
        let pending = |agent: &mut dyn Agent| {
            let result = agent.call("list_calls", json!({ "status": "pending" }));
            result["structuredContent"]["calls"].as_array().unwrap().len()
        };
        wait_until("a call in flight", PATIENCE, || pending(&mut one) == 1);

        let second = archive.serve(&POOL);
        let mut two = connected(&second);
        assert_eq!(pending(&mut two), 1, "it goes on");
        assert_eq!(archive.reader().sessions(None, "a").unwrap()[0].state, SessionState::Active);
        assert_eq!(two.content(json!({ "ref_id": old })), "from the first");
        assert_eq!(one.content(json!({ "ref_id": old })), "", "they have one cursor");
        let new = two.reference("echo", json!({ "text": "from the second" }));
        assert_eq!(one.content(json!({ "ref_id": new })), "from the second");

        // The first is shot; the second does not mind, and the third tidies up.
        assert!(send_signal(first.pid(), "KILL"));
        drop(busy.join());
        two.reference("echo", json!({ "text": "still here", "sessionId": "c" }));
        archive.wait_for_runs(1);
        let third = archive.serve(&POOL);
        assert_eq!(pending(&mut connected(&third)), 0);
        for name in ["a", "b"] {
            assert_eq!(
                archive.reader().sessions(None, name).unwrap()[0].state,
                SessionState::Closed,
                "{name}"
            );
        }
        assert_eq!(archive.reader().sessions(None, "c").unwrap()[0].state, SessionState::Active);
        let listed = two.call("list_calls", json!({ "tool": "sleep" }));
        let call = archive.call(listed["structuredContent"]["calls"][0]["ref_id"].as_str().unwrap());
        assert_eq!(call.status, CallStatus::Error);
        assert!(call.error.unwrap().contains("Greenroom ended before"));
    });
}

#[test]
fn many_write_at_once() {
    let archive = Archive::new();
    let servers: Vec<Server> = (0..2).map(|_| archive.serve(&POOL)).collect();
    let mut alone = archive.stdio(&POOL);
    let ids = std::thread::scope(|scope| {
        let write = |agent: &mut dyn Agent, name: &str| -> Vec<(String, String)> {
            let text = |number: usize| format!("{name} says {number}");
            (0..50)
                .map(|number| (agent.reference("echo", json!({ "text": text(number) })), text(number)))
                .collect()
        };
        let over_http = |server| scope.spawn(move || write(&mut connected(server), "a server"));
        let threads: Vec<_> = servers.iter().map(over_http).collect();
        let mut ids = write(&mut alone, "stdio");
        threads.into_iter().for_each(|thread| ids.extend(thread.join().unwrap()));
        ids
    });
    assert_eq!(ids.len(), 150);
    for (id, text) in ids {
        let result: Value = serde_json::from_str(&archive.result(&id)).unwrap();
        assert_eq!(super::fine(&result), text);
    }
    assert_eq!(archive.reader().check().unwrap(), [] as [String; 0]);
}
