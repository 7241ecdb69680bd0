//! From the history to what a call has changed.

use serde_json::json;

use super::{Driven, at, serve};
use crate::rig::browser_permit;

#[test]
fn a_call_is_followed_to_what_it_has_changed() {
    let _permit = browser_permit();
    let server = serve(&[]);
    let (mut agent, mut eyes) = (Driven::new(&server, "agent"), Driven::new(&server, "eyes"));
    agent.go("data:text/html,<title>Lamp</title><h1>Lamp</h1><button onclick='this.textContent = `Off`'>On</button>");
    agent.call("browser_snapshot", json!({}));
    agent.click("button", "On");

    eyes.go(&at(&server, "/"));
    eyes.click("link", "History");
    eyes.wait("location.pathname === '/history' && all('tr[data-ref]').length > 0");
    eyes.fill("combobox", "Session", "agent");
    eyes.wait("all('tr[data-ref]').length === 3 && location.search === '?session=agent'");
    eyes.fill("searchbox", "Search", "nothing is like this");
    eyes.wait_for_text("main", "No call is like that");
    eyes.fill("searchbox", "Search", "Lamp");
    eyes.wait("all('tr[data-ref]').length > 0");
    eyes.fill("combobox", "Tool", "browser_click");
    eyes.wait("all('tr[data-ref]').length === 1");
    eyes.click("link", "browser_click");
    eyes.wait("location.pathname.startsWith('/calls/') && text('h1') === 'browser_click'");
    eyes.wait_for_text("aside", "button");
    eyes.wait_for_text("#panel-result", "Ran Playwright code");
    eyes.click("tab", "Snapshot");
    eyes.wait_for_text("#panel-snapshot", "button \"Off\"");
    eyes.click("tab", "Changes");
    eyes.wait("text('#panel-changes .line.added').includes('button \"Off\"')");
    eyes.wait("text('#panel-changes .line.removed').includes('button \"On\"')");
    eyes.click("link", "Previous call");
    eyes.wait("text('h1') === 'browser_snapshot'");
}
