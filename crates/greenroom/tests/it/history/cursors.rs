//! The seven things that were promised about the cursor of `get_content`, over both ways in and across a SIGKILL.

use greenroom_testkit::{process_alive, send_signal, wait_until};
use rstest::rstest;
use serde_json::json;

use super::{Agent, Archive, House, PATIENCE, POOL, connected, fine, pool, ref_id};
use crate::rig::Server;

#[derive(Clone, Copy)]
enum Way {
    Stdio,
    Http,
}

/// An agent, the process that it talks to, and the server, where there is one.
fn arrive(archive: &Archive, way: Way, variables: &[(&str, &str)]) -> (Box<dyn Agent>, u32, Option<Server>) {
    match way {
        Way::Stdio => {
            let client = archive.stdio(variables);
            let pid = client.pid();
            (Box::new(client), pid, None)
        }
        Way::Http => {
            let server = archive.serve(variables);
            (Box::new(connected(&server)), server.pid(), Some(server))
        }
    }
}

fn kill(pid: u32) {
    assert!(send_signal(pid, "KILL"));
    wait_until("it to be dead", PATIENCE, || !process_alive(pid));
}

#[rstest]
#[case::over_stdio(Way::Stdio)]
#[case::over_http(Way::Http)]
fn what_was_read_is_not_read_again_until_the_cursor_is_reset_whatever_is_killed(#[case] way: Way) {
    let archive = Archive::new();
    let (mut agent, pid, server) = arrive(&archive, way, &POOL);
    let result = agent.call("bytes", json!({ "size": 5000 }));
    let (whole, id) = (fine(&result), ref_id(&result));
    let plain = json!({ "ref_id": id });

    assert_eq!(agent.content(plain.clone()), whole, "the first read gives everything");
    let again = agent.call("get_content", plain.clone());
    assert_eq!((fine(&again).as_str(), &again["isError"]), ("", &json!(false)), "nothing is new");
    let reset = json!({ "ref_id": id, "reset_cursor": true });
    assert_eq!(agent.content(reset.clone()), whole);
    assert_eq!(agent.content(plain.clone()), "", "a reset is a read too");

    let other = agent.reference("bytes", json!({ "size": 5000 }));
    for question in [
        json!({ "ref_id": other, "search_for": "fox" }),
        json!({ "ref_id": other, "offset": 3, "limit": 2 }),
        json!({ "ref_id": other, "since": id }),
    ] {
        agent.content(question);
    }
    assert_eq!(agent.content(json!({ "ref_id": other })), whole, "none of these moves the cursor");

    kill(pid);
    drop((agent, server));
    let (mut agent, _, _server) = arrive(&archive, way, &POOL);
    assert_eq!(agent.content(plain.clone()), "", "it was read before");
    assert_eq!(agent.content(reset), whole);
    let third = agent.reference("bytes", json!({ "size": 5000 }));
    assert_eq!(agent.content(json!({ "ref_id": third })), whole);
}

#[rstest]
#[case::over_stdio(Way::Stdio)]
#[case::over_http(Way::Http)]
fn reading_goes_on_where_it_was_when_greenroom_was_killed(#[case] way: Way) {
    let archive = Archive::new();
    let variables = pool(&[("GREENROOM_REPLY_BUDGET", "1000")]);
    let (mut id, mut whole) = (String::new(), String::new());
    for life in 0.. {
        let (mut agent, pid, _server) = arrive(&archive, way, &variables);
        if life == 0 {
            id = agent.reference("bytes", json!({ "size": 2500 }));
        }
        let piece = agent.content(json!({ "ref_id": id }));
        kill(pid);
        match piece.rsplit_once("\n[cut: ") {
            Some((text, _)) => whole.push_str(&format!("{text}\n")),
            None => {
                whole.push_str(&piece);
                break;
            }
        }
    }
    let lines: Vec<_> = whole.lines().map(|line| line[..10].parse::<usize>().unwrap()).collect();
    assert_eq!(lines, (1..=40).collect::<Vec<_>>());
    assert_eq!(whole.len(), 2500);
}

#[test]
fn content_that_is_not_what_was_read_is_read_from_the_beginning() {
    let archive = Archive::new();
    let server = archive.serve(&POOL);
    let mut agent = connected(&server);
    let result = agent.call("bytes", json!({ "size": 700 }));
    let (whole, id) = (fine(&result), ref_id(&result));
    assert_eq!(agent.content(json!({ "ref_id": id })), whole);
    let database = rusqlite::Connection::open(archive.folder.path().join("greenroom.db")).unwrap();
    database.busy_timeout(PATIENCE).unwrap();
    let other = "UPDATE diff_cursors SET last_snapshot_hash = ? WHERE ref_id = ?";
    assert_eq!(database.execute(other, ["0".repeat(64), id.clone()]).unwrap(), 1);
    assert_eq!(agent.content(json!({ "ref_id": id })), whole, "its hash is another");
    assert_eq!(agent.content(json!({ "ref_id": id })), "");
}

#[test]
fn the_console_is_returned_in_full_every_time() {
    let house = House::new(&[]);
    let mut agent = house.client();
    let visit = json!({ "sessionId": "a", "url": house.site.url("/console") });
    let id = agent.reference("browser_navigate", visit);
    let console = agent.text("get_console_content", json!({ "ref_id": id }));
    assert!(console.contains("an error line"), "{console}");
    for _ in 0..2 {
        assert_eq!(agent.text("get_console_content", json!({ "ref_id": id })), console);
    }

    // Its levels, and what else is known of each.
    let mut of = |level: &str| agent.text("get_console_content", json!({ "ref_id": id, "level": level }));
    let page = house.site.url("/console");
    let location = format!(" @ {page}:");
    for (level, mark, message) in [
        ("info", "[INFO] ", "a log line"),
        ("warn", "[WARN] ", "a warning"),
        ("error", "[ERROR] ", "an error line"),
    ] {
        let text = of(level);
        assert!(text.lines().all(|line| line.starts_with(mark) || !line.starts_with('[')), "{level}: {text}");
        let line = text.lines().find(|line| line.contains(message)).unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains(&location), "{line}");
    }
    assert!(of("error").contains("an uncaught error"));
    assert_eq!(of("debug"), "");
    assert_eq!(of(""), console);
    let call = house.archive.call(&id);
    assert!(call.console_count >= 5 && call.console_errors >= 2, "{call:?}");
    let wrong = agent.complaint("get_console_content", json!({ "ref_id": id, "level": "loud" }));
    assert!(wrong.contains("`loud` is no level") && wrong.contains("debug, info, warn and error"), "{wrong}");
}
