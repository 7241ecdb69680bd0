//! Watching a session, and what it takes to watch.

use greenroom_testkit::wait_until;
use serde_json::{Value, json};

use super::{Driven, at, coloured, serve};
use crate::browser_sessions_http::{PATIENCE, seen};
use crate::rig::{Server, browser_permit, data_dir_for_both, greenroom};

fn wait_for_viewers(server: &Server, id: &str, count: u64) {
    wait_until(&format!("{count} who watch"), PATIENCE, || seen(server, id)["viewers"] == count);
}

#[test]
fn a_session_is_seen_going_from_page_to_page() {
    let _permit = browser_permit();
    let server = serve(&[]);
    let (mut agent, mut eyes) = (Driven::new(&server, "agent"), Driven::new(&server, "eyes"));
    agent.go(&coloured("Red page", "rgb(200,0,0)"));
    eyes.go(&at(&server, "/sessions/agent"));
    eyes.wait("isColour(one('canvas'), 200, 0, 0)");
    eyes.wait("text('.word') === 'Live' && document.title.startsWith('Red page')");
    eyes.wait("all('.timeline .call.success').length === 1");

    agent.go(&coloured("Blue page", "rgb(0,0,200)"));
    eyes.wait("isColour(one('canvas'), 0, 0, 200)");
    eyes.wait("one('[aria-label=Address]').value.includes('Blue page')");
    eyes.wait("document.title.startsWith('Blue page')");
    eyes.wait("one('canvas').ariaLabel.includes('Blue page')");
    eyes.wait("all('.timeline .call.success').length === 2");
    assert_eq!(eyes.value("one('.timeline .call a').innerText"), "browser_navigate");

    // Where it is told to go, it goes: the address, and back.
    eyes.fill("textbox", "Address", &coloured("Green page", "rgb(0,160,0)"));
    eyes.press("Enter");
    eyes.wait("isColour(one('canvas'), 0, 160, 0)");
    eyes.click("button", "Back");
    eyes.wait("isColour(one('canvas'), 0, 0, 200)");
    eyes.wait("text('.timeline').includes('Person went back')");
}

#[test]
fn nothing_is_captured_for_who_looks_away() {
    let _permit = browser_permit();
    let server = serve(&[]);
    let (mut agent, mut eyes) = (Driven::new(&server, "agent"), Driven::new(&server, "eyes"));
    agent.go(&coloured("Red page", "rgb(200,0,0)"));
    eyes.go(&at(&server, "/sessions/agent"));
    wait_for_viewers(&server, "agent", 1);
    eyes.click("link", "Greenroom");
    // The wall shows both sessions, and who leaves for it no longer watches the one.
    eyes.wait("isColour(all('greenroom-thumbnail').find((e) => e.sessionId === 'agent')?.canvas, 200, 0, 0)");
    wait_for_viewers(&server, "agent", 1);

    eyes.value("(document.body.style.paddingBottom = '4000px', scrollTo(0, 4000))");
    wait_for_viewers(&server, "agent", 0);
    eyes.value("scrollTo(0, 0)");
    wait_for_viewers(&server, "agent", 1);
    let hide = |is_hidden: bool| {
        format!(
            "(Object.defineProperty(document, 'hidden', {{ value: {is_hidden}, configurable: true }}), \
             document.dispatchEvent(new Event('visibilitychange')))"
        )
    };
    eyes.value(&hide(true));
    wait_for_viewers(&server, "agent", 0);
    eyes.value(&hide(false));
    wait_for_viewers(&server, "agent", 1);
    eyes.click("link", "History");
    wait_for_viewers(&server, "agent", 0);

    eyes.go(&at(&server, "/sessions/agent"));
    eyes.wait("text('.word') === 'Live'");
    eyes.value(&hide(true));
    eyes.wait("text('.word') === 'Paused'");
    eyes.value(&hide(false));
    eyes.wait("text('.word') === 'Live'");
    eyes.go("about:blank");
    wait_for_viewers(&server, "agent", 0);
}

#[test]
fn a_chrome_devtools_session_is_seen_by_its_screenshots() {
    let _permit = browser_permit();
    let folder = data_dir_for_both();
    let mut command = greenroom(folder.path());
    command.env("GREENROOM_DRIVER", "chrome-devtools").env("GREENROOM_WARM_SESSIONS", "0");
    let (server, eyes_server) = (Server::start(command, Some(folder)), serve(&[]));
    let (mut agent, mut eyes) = (Driven::new(&server, "agent"), Driven::new(&eyes_server, "eyes"));
    let go = |agent: &mut Driven, url: String| agent.call("navigate_page", json!({ "url": url }));
    go(&mut agent, coloured("Red page", "rgb(200,0,0)"));
    eyes.go(&at(&server, "/sessions/agent"));
    eyes.wait("isColour(one('canvas'), 200, 0, 0)");
    eyes.wait_for_text(".foot", "View only");
    eyes.wait_for_text(".foot", "by screenshots");
    assert_eq!(
        eyes.value("one('.control').disabled && one('[aria-label=Address]').disabled"),
        Value::Bool(true)
    );
    go(&mut agent, coloured("Blue page", "rgb(0,0,200)"));
    eyes.wait("isColour(one('canvas'), 0, 0, 200)");
}
