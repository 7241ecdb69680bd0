//! What the page says when something is gone, and how it finds back by itself.

use std::path::Path;
use std::time::{Duration, Instant};

use greenroom_testkit::{Wire, send_signal, wait_until};

use super::{Driven, at, coloured, serve};
use crate::browser_sessions_http::{PATIENCE, raw, seen};
use crate::rig::{Server, browser_permit, data_dir, greenroom};

/// How long a connection that is lost keeps control.
const CONTROL_KEPT: Duration = Duration::from_secs(15);

#[test]
fn of_a_session_that_has_ended_the_page_says_so_and_offers_another() {
    let _permit = browser_permit();
    let server = serve(&[]);
    let (mut agent, mut eyes) = (Driven::new(&server, "agent"), Driven::new(&server, "eyes"));
    agent.go(&coloured("Red page", "rgb(200,0,0)"));
    eyes.go(&at(&server, "/sessions/agent"));
    eyes.wait("text('.word') === 'Live'");
    assert_eq!(raw(&server, "DELETE", "/api/browser-sessions/agent", b"").0, 204);
    eyes.wait("text('.word') === 'Stopped'");
    eyes.wait_for_text(".cover", "This session has ended");
    assert!(eyes.has("isSeen('a[slot=ended]') && one('.control').disabled"));
    // A name can be used again, and who looks at it sees that.
    agent.go(&coloured("Blue page", "rgb(0,0,200)"));
    eyes.wait("text('.word') === 'Live' && isColour(one('canvas'), 0, 0, 200)");

    assert_eq!(raw(&server, "DELETE", "/api/browser-sessions/agent", b"").0, 204);
    eyes.wait_for_text(".cover", "This session has ended");
    eyes.click("button", "Start a new session");
    eyes.wait("location.pathname.startsWith('/sessions/') && location.pathname !== '/sessions/agent'");
    eyes.wait("text('.word') === 'Live'");
}

/// A server that is started again in the same place.
fn on_port(folder: &Path, port: u16, origin: &str) -> Server {
    let mut command = greenroom(folder);
    command.env("GREENROOM_TIMEOUT_SETTLE", "50").env("GREENROOM_CORS_ORIGINS", origin);
    command.env("GREENROOM_HTTP_PORT", port.to_string());
    Server::start_as_configured(command)
}

fn port_of(server: &Server) -> u16 {
    server.url.trim_end_matches("/mcp").rsplit(':').next().unwrap().parse().unwrap()
}

#[test]
fn the_page_is_back_when_the_server_or_the_network_is() {
    let _permit = browser_permit();
    let eyes_server = serve(&[]);
    let mut eyes = Driven::new(&eyes_server, "eyes");
    let wire = Wire::start();
    let origin = format!("http://127.0.0.1:{}", wire.port());
    let folder = data_dir();
    let mut server = on_port(folder.path(), 0, &origin);
    let port = port_of(&server);
    wire.lead_to(port);
    let mut agent = Driven::new(&server, "agent");
    agent.go(&coloured("Red page", "rgb(200,0,0)"));

    // The network.
    eyes.go(&format!("{origin}/sessions/agent"));
    eyes.wait("text('.word') === 'Live'");
    eyes.click("button", "Take over");
    eyes.wait("one('greenroom-live').dataset.control === 'mine'");
    let cut = Instant::now();
    wire.cut();
    eyes.wait("text('#link').includes('The server cannot be reached')");
    eyes.wait("text('.word') === 'Reconnecting' && text('.cover').includes('Trying again')");
    assert!(eyes.has("isColour(one('canvas'), 200, 0, 0)"), "the last picture stays");
    wire.mend();
    eyes.wait("text('.word') === 'Live' && !isSeen('#link')");
    // Who is back in time still has control.
    if cut.elapsed() < CONTROL_KEPT {
        eyes.wait("one('greenroom-live').dataset.control === 'mine'");
        eyes.click("button", "Hand back");
    }
    wait_until("it is handed back", PATIENCE, || seen(&server, "agent").get("control").is_none());
    agent.go(&coloured("Blue page", "rgb(0,0,200)"));
    eyes.wait("isColour(one('canvas'), 0, 0, 200)");
    eyes.wait("text('.timeline').includes('browser_navigate')");

    // The server.
    for signal in ["TERM", "KILL"] {
        send_signal(server.pid(), signal);
        eyes.wait("text('#link').includes('The server cannot be reached')");
        eyes.wait("['Reconnecting', 'Stopped'].includes(text('.word'))");
        drop(server);
        server = on_port(folder.path(), port, &origin);
        eyes.wait("!isSeen('#link') && text('.lamp-word') === 'Connected'");
        eyes.wait("text('.word') === 'Stopped' && text('.cover').includes('This session has ended')");
        assert!(eyes.has("text('.timeline').includes('browser_navigate')"), "what it did is still there");
        let mut agent = Driven::new(&server, "agent");
        agent.go(&coloured("Green page", "rgb(0,160,0)"));
        eyes.wait("text('.word') === 'Live' && isColour(one('canvas'), 0, 160, 0)");
    }

    // The overview, meanwhile away.
    eyes.click("link", "Greenroom");
    eyes.wait("all('.wall .card').length === 1");
    wire.cut();
    eyes.wait("text('#link').includes('The server cannot be reached')");
    let mut agent = Driven::new(&server, "newcomer");
    agent.go(&coloured("Red page", "rgb(200,0,0)"));
    wire.mend();
    eyes.wait("!isSeen('#link') && all('.wall .card').length === 2");
    eyes.wait("all('greenroom-thumbnail').every((e) => e.hasAttribute('data-has-picture'))");
}
