//! Hosts and browsers that are killed under sessions.

use greenroom_testkit::{McpHttp, process_alive, send_signal, wait_until};
use serde_json::{Value, json};

use super::{House, PATIENCE, fine, listed, navigate, value};
use crate::rig::browser_of;

const FRESH: &str = "This is a fresh one: nothing is open in it.";

/// The next answer of a session says that its browser was lost; the one after that does not.
fn hears_once(client: &mut McpHttp, house: &House, session: &str) {
    let arguments = || json!({ "sessionId": session, "url": house.site.url("/form") });
    let first = client.call_tool("browser_navigate", arguments());
    fine(&first);
    let said = first["content"][0]["text"].as_str().unwrap();
    assert!(said.contains(&format!("The browser of session `{session}` was lost")), "{first}");
    assert!(said.ends_with(FRESH), "{said}");
    let second = fine(&client.call_tool("browser_navigate", arguments()));
    assert!(!second.contains(FRESH), "{second}");
}

fn wait_for_state(client: &mut McpHttp, sessions: &[&str], state: &str) {
    wait_until("the state to be known", PATIENCE, || {
        let listed = listed(client);
        let is_so = |session: &&Value| session["state"] == state;
        sessions.iter().all(|name| listed.iter().filter(|session| session["id"] == *name).any(|s| is_so(&s)))
    });
}

#[test]
fn when_a_shared_host_is_killed_every_session_on_it_hears_once_and_works_again() {
    let house = House::new(&[]);
    let mut client = house.client();
    let sessions = ["one", "two", "three"];
    for session in sessions {
        navigate(&mut client, session, &house.site.url("/links"));
    }
    let hosts = house.hosts();
    assert_eq!(hosts.len(), 1, "they share one");
    // One of them is in the middle of a call.
    let (url, slow) = (house.server.url.clone(), house.site.url("/slow?ms=3600000"));
    let busy = std::thread::spawn(move || {
        let mut client = McpHttp::connect(&url).with_timeout(PATIENCE);
        client.initialize();
        client.call_tool("browser_navigate", json!({ "sessionId": "one", "url": slow }))
    });
    wait_until("the page to be asked for", PATIENCE, || house.site.hits("/slow") > 0);
    assert!(send_signal(hosts[0], "KILL"));
    let told = busy.join().unwrap();
    assert_eq!(told["isError"], true, "{told}");
    assert!(told["content"][0]["text"].as_str().unwrap().contains("SIGKILL"), "{told}");
    wait_for_state(&mut client, &sessions, "lost");
    for session in sessions {
        hears_once(&mut client, &house, session);
    }
    wait_for_state(&mut client, &sessions, "idle");
}

#[test]
fn sessions_on_another_host_are_not_disturbed() {
    let house = House::new(&[("GREENROOM_SESSIONS_PER_HOST", "1"), ("GREENROOM_WARM_SESSIONS", "0")]);
    let mut client = house.client();
    navigate(&mut client, "victim", &house.site.url("/links"));
    let hosts = house.hosts();
    navigate(&mut client, "bystander", &house.site.url("/links"));
    assert_eq!((hosts.len(), house.hosts().len()), (1, 2));
    value(&mut client, "bystander", "window.mark = 'still here'");
    assert!(send_signal(hosts[0], "KILL"));
    wait_for_state(&mut client, &["victim"], "lost");
    let text = value(&mut client, "bystander", "window.mark");
    assert!(text.contains("still here") && !text.contains(FRESH), "{text}");
    hears_once(&mut client, &house, "victim");
    assert!(value(&mut client, "bystander", "window.mark").contains("still here"));
}

#[test]
fn when_only_the_browser_is_killed_its_sessions_hear_once_and_the_host_stays() {
    let house = House::new(&[]);
    let mut client = house.client();
    for session in ["one", "two"] {
        navigate(&mut client, session, &house.site.url("/links"));
    }
    let (hosts, browser) = (house.hosts(), browser_of(house.server.pid()));
    assert!(send_signal(browser, "KILL"));
    wait_for_state(&mut client, &["one", "two"], "lost");
    for session in ["one", "two"] {
        hears_once(&mut client, &house, session);
    }
    assert_eq!(house.hosts(), hosts);
    assert!(!process_alive(browser));
}

#[test]
fn a_browser_of_a_sessions_own_is_replaced_too() {
    let house = House::new(&[("GREENROOM_SESSION_ISOLATION", "process")]);
    let mut client = house.client();
    for session in ["one", "two"] {
        navigate(&mut client, session, &house.site.url("/links"));
    }
    let hosts = house.hosts();
    assert_eq!(hosts.len(), 2);
    value(&mut client, "two", "window.mark = 'still here'");
    assert!(send_signal(hosts[0], "KILL"));
    wait_for_state(&mut client, &["one"], "lost");
    hears_once(&mut client, &house, "one");
    assert!(value(&mut client, "two", "window.mark").contains("still here"));
    for session in ["one", "two"] {
        fine(&client.call_tool("session_close", json!({ "sessionId": session })));
    }
    assert_eq!(house.hosts(), [] as [u32; 0]);
}

#[test]
fn a_stopped_browser_is_seen_and_its_sessions_get_another() {
    let house = House::new(&[
        ("GREENROOM_HEALTH_CHECK_INTERVAL", "300"),
        ("GREENROOM_HEALTH_CHECK_TIMEOUT", "1000"),
        ("GREENROOM_WARM_SESSIONS", "0"),
    ]);
    let mut client = house.client();
    navigate(&mut client, "one", &house.site.url("/links"));
    let browser = browser_of(house.server.pid());
    assert!(send_signal(browser, "STOP"));
    wait_for_state(&mut client, &["one"], "lost");
    hears_once(&mut client, &house, "one");
    wait_until("the stopped one to be gone", PATIENCE, || !process_alive(browser));
}

#[test]
fn a_session_that_its_server_has_forgotten_is_made_anew_and_says_so_once() {
    let upstream = greenroom_testkit::FakeHttp::start(&["--http-forget-after", "3"]);
    let folder = tempfile::tempdir().unwrap();
    let mut command = crate::rig::greenroom(folder.path());
    command
        .env("GREENROOM_DRIVER", "custom")
        .env("GREENROOM_UPSTREAM_URL", upstream.url())
        .env("GREENROOM_SESSION_ISOLATION", "process");
    let server = crate::rig::Server::start(command, Some(folder));
    let mut client = server.client();
    client.initialize();
    let mut echo = |text: &str| client.call_tool("echo", json!({ "sessionId": "far", "text": text }));
    for text in ["one", "two", "three"] {
        assert_eq!(echo(text)["content"][0]["text"], text);
    }
    let forgotten = echo("four");
    assert_eq!(forgotten["isError"], true, "{forgotten}");
    let fresh = echo("five");
    let said = fresh["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("The browser of session `far` was lost") && said.ends_with(FRESH), "{fresh}");
    assert_eq!(fresh["content"][1]["text"], "five", "{fresh}");
    assert_eq!(echo("six")["content"][0]["text"], "six");
}
