//! Seats that are ready before anybody asks, and hosts that nobody needs any more.

use greenroom_testkit::{children_of, wait_until};
use serde_json::json;

use super::{House, PATIENCE, fine, navigate};

#[test]
fn nothing_runs_before_the_first_session() {
    let house = House::new(&[]);
    let mut client = house.client();
    client.request("tools/list", json!({}));
    wait_until("the one who was asked for the list to go", PATIENCE, || house.hosts().is_empty());
    assert_eq!(house.launches(), 0);
    assert!(house.folders().is_empty());
}

#[test]
fn after_the_first_session_the_next_ones_find_a_browser_that_is_up() {
    let house = House::new(&[("GREENROOM_WARM_SESSIONS", "2")]);
    let mut client = house.client();
    for (round, session) in ["one", "two", "three", "four"].into_iter().enumerate() {
        navigate(&mut client, session, &house.site.url("/links"));
        house.wait_for_warm(round + 1, 2);
    }
    assert_eq!(house.launches(), 1);
    assert_eq!(house.server.log().matches("browser_launched").count(), 1);
    // One with wishes of its own cannot have a warm seat, but the host.
    let wishes = json!({ "sessionId": "small", "viewport": { "width": 320, "height": 200 } });
    fine(&client.call_tool("create_new_session", wishes));
    navigate(&mut client, "small", &house.site.url("/links"));
    let size = super::value(&mut client, "small", "`${innerWidth} by ${innerHeight}`");
    assert!(size.contains("320 by 200"), "{size}");
    assert_eq!(house.launches(), 1);
}

#[test]
fn a_full_host_gets_another_beside_it_and_an_empty_one_goes() {
    let house = House::new(&[
        ("GREENROOM_SESSIONS_PER_HOST", "2"),
        ("GREENROOM_WARM_SESSIONS", "0"),
        // Empty hosts are looked for every so often; a quarter of this.
        ("GREENROOM_SESSION_IDLE_TIMEOUT", "20000"),
    ]);
    let mut client = house.client();
    let sessions = ["a", "b", "c"];
    for session in sessions {
        navigate(&mut client, session, &house.site.url("/links"));
    }
    assert_eq!(house.hosts().len(), 2);
    fine(&client.call_tool("session_close", json!({ "sessionId": "c" })));
    let mut stay =
        || ["a", "b"].iter().for_each(|session| drop(navigate(&mut client, session, "about:blank")));
    wait_until("the empty one to go", PATIENCE, || {
        stay();
        house.hosts().len() == 1
    });
}

#[test]
fn hosts_that_nobody_uses_go_away() {
    let house = House::new(&[("GREENROOM_SESSION_IDLE_TIMEOUT", "1500")]);
    let mut client = house.client();
    navigate(&mut client, "one", &house.site.url("/links"));
    wait_until("every host to go", PATIENCE, || house.hosts().is_empty());
    wait_until("every folder to go", PATIENCE, || {
        house
            .folders()
            .iter()
            .all(|folder| std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some()))
    });
    let text = navigate(&mut client, "one", &house.site.url("/links"));
    assert!(text.contains("it was idle for 1.5 s"), "{text}");
}

#[test]
fn stopping_while_seats_are_being_warmed_leaves_nothing() {
    let house = House::new(&[("GREENROOM_SESSIONS_PER_HOST", "1"), ("GREENROOM_WARM_SESSIONS", "3")]);
    navigate(&mut house.client(), "one", &house.site.url("/links"));
    let processes = children_of(house.server.pid());
    // Waits for the end, and not for long.
    drop(house);
    wait_until("every process to be gone", PATIENCE, || {
        !processes.iter().any(|pid| greenroom_testkit::process_alive(*pid))
    });
}
