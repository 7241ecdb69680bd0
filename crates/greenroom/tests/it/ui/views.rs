//! Every view in light, dark and as wide as a phone: nothing sticks out, nobody is kept out, nothing is wrong in
//! the console. The pictures are kept in `target/ui-shots`, for people to look at.

use std::path::PathBuf;
use std::process::Command;

use greenroom_testkit::{Site, wait_until};
use serde_json::{Value, json};

use super::{Driven, at, coloured, serve};
use crate::browser_sessions_http::{PATIENCE, get, raw, session};
use crate::rig::{browser_permit, shared_data_dir};

/// What judges whether everybody can use a page.
const AXE: &str = "axe-core@4.10.3";

/// Where its script is; fetched once for all runs in this target folder.
fn axe() -> PathBuf {
    let folder = shared_data_dir().join("axe");
    let package = folder.join(AXE);
    let script = package.join("node_modules/axe-core/axe.min.js");
    if !script.exists() {
        std::fs::create_dir_all(&folder).unwrap();
        let fresh = tempfile::tempdir_in(&folder).unwrap();
        let install =
            ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", AXE, "--prefix"];
        let done = Command::new("npm").args(install).arg(fresh.path()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        // Whoever came first has put the same there.
        let _ = std::fs::rename(fresh.keep(), &package);
    }
    script
}

struct View<'a> {
    name: &'a str,
    path: String,
    /// What holds when all of it is there.
    ready: &'a str,
    /// A button that is pressed first.
    press: Option<&'a str>,
    /// One look tells as much as three.
    is_extra: bool,
    /// What the page asked for is not there, and the browser's console says that.
    is_missing: bool,
}

impl<'a> View<'a> {
    fn new(name: &'a str, path: &str, ready: &'a str) -> Self {
        Self { name, path: path.to_owned(), ready, press: None, is_extra: false, is_missing: false }
    }

    fn after(press: &'a str, name: &'a str, path: &str, ready: &'a str) -> Self {
        Self { press: Some(press), ..Self::new(name, path, ready) }
    }

    fn extra(self) -> Self {
        Self { is_extra: true, ..self }
    }

    fn missing(name: &'a str, path: &str, ready: &'a str) -> Self {
        Self { is_missing: true, ..Self::new(name, path, ready) }
    }
}

#[derive(Clone, Copy)]
struct Look {
    name: &'static str,
    width: u32,
    height: u32,
    theme: &'static str,
}

const LOOKS: [Look; 3] = [
    Look { name: "light", width: 1280, height: 800, theme: "light" },
    Look { name: "dark", width: 1280, height: 800, theme: "dark" },
    Look { name: "phone", width: 360, height: 740, theme: "light" },
];

/// Looks at a view and gives everything that is wrong with it.
fn faults(eyes: &mut Driven, view: &View<'_>, look: Look) -> Vec<String> {
    eyes.go(&view.path);
    // The mock chat has no switch of its own; it is as the system is.
    eyes.value(&format!("(document.documentElement.style.colorScheme = '{}') && null", look.theme));
    if let Some(button) = view.press {
        eyes.wait("document.readyState === 'complete'");
        eyes.click("button", button);
    }
    eyes.wait(view.ready);
    // What fades in has done so; what turns for as long as it is there may go on.
    eyes.wait(
        "document.getAnimations().every((one) => one.playState !== 'running' \
         || one.effect.getTiming().iterations > 1)",
    );
    let mut faults = Vec::new();
    let width = eyes.number("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)");
    if width > f64::from(look.width) {
        faults.push(format!("it is {width} pixels wide"));
    }
    let found = eyes.value(
        "axe.run({ resultTypes: ['violations'] }).then(({ violations }) => violations
            .filter(({ impact }) => impact === 'serious' || impact === 'critical')
            .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.target.join(' ')}: ${node.failureSummary}`)))",
    );
    faults.extend(found.as_array().unwrap().iter().map(Value::to_string));
    let console = eyes.call("browser_console_messages", json!({ "level": "warning" }));
    let said = console.lines().filter(|line| line.starts_with("[ERROR]") || line.starts_with("[WARNING]"));
    let is_expected = |line: &str| {
        view.is_missing
            && (line.contains("Failed to load resource") || line.contains("WebSocket connection to"))
    };
    faults.extend(said.filter(|line| !is_expected(line)).map(str::to_owned));
    faults
}

#[test]
fn every_view_fits_its_window_and_is_open_to_everybody() {
    let _permit = browser_permit();
    let axe = axe();
    let eyes_server = serve(&[("GREENROOM_INIT_SCRIPT", axe.to_str().unwrap())]);
    let mut eyes = Driven::new(&eyes_server, "eyes");
    let (server, site) = (serve(&[]), Site::start());
    let shots = shared_data_dir().with_file_name("ui-shots");
    std::fs::create_dir_all(&shots).unwrap();
    let mut wrong = Vec::new();
    // The judge itself: a page on which everything is wrong.
    let bad = "data:text/html,<title>Bad</title><body style='width:3000px'><img src='data:,'>\
        <script>console.error('boom')</script>";
    eyes.go(bad);
    let found = faults(&mut eyes, &View::new("bad", bad, "true"), LOOKS[0]).join(" ");
    assert!(["pixels wide", "image-alt", "boom"].iter().all(|fault| found.contains(fault)), "{found}");
    let mut look_at = |views: &[View<'_>]| {
        for look in LOOKS {
            eyes.resize(look.width, look.height);
            eyes.go(&views[0].path);
            eyes.value(&format!("localStorage.setItem('greenroom.theme', '\"{}\"')", look.theme));
            for view in views.iter().filter(|view| !view.is_extra || look.name == "dark") {
                let what = format!("{}-{}", view.name, look.name);
                let found = faults(&mut eyes, view, look);
                wrong.extend(found.into_iter().map(|fault| format!("{what}: {fault}")));
                let is_long = look.name == "phone" && view.name != "demo";
                let query = format!("/api/browser-sessions/eyes/screenshot?fullPage={is_long}");
                let (status, _, picture) = raw(&eyes_server, "GET", &query, b"");
                assert_eq!(status, 200, "{what}");
                std::fs::write(shots.join(format!("{what}.png")), picture).unwrap();
            }
        }
    };
    let nobody = "00000000-0000-4000-8000-000000000000";
    look_at(&[
        View::new("empty", &at(&server, "/"), "isSeen('.welcome') && isSeen('.pool')"),
        View::new("empty-history", &at(&server, "/history"), "text('main').includes('No call is on record')")
            .extra(),
        View::missing(
            "unknown-session",
            &at(&server, "/sessions/nobody"),
            "text('.cover').includes('There is no such session')",
        ),
        View::missing(
            "unknown-call",
            &at(&server, &format!("/calls/{nobody}")),
            "text('main').includes('not on record')",
        ),
    ]);

    let chat = session(&server, "chat-1", &json!({}));
    let mut agent = Driven::new(&server, &chat);
    agent.go(&site.url("/changing"));
    agent.call("browser_snapshot", json!({}));
    agent.click("button", "Add a row");
    let mut other = Driven::new(&server, "price-watch");
    other.go(&site.url("/form"));
    other.call("browser_take_screenshot", json!({}));
    other
        .client
        .call_tool("browser_click", json!({ "sessionId": "price-watch", "target": "e999", "element": "x" }));
    session(&server, "chat-2", &json!({ "viewport": "mobile" }));
    let mut third = Driven::new(&server, "a-rather-long-name-that-somebody-has-given-to-a-session");
    third.go(&coloured("A page with a title that is longer than what a card has room for, by far", "teal"));
    let call = |query: &str| {
        let mut found = String::new();
        wait_until("the call is on record", PATIENCE, || {
            let (_, list) = get(&server, &format!("/api/calls?limit=1&{query}"));
            found = list["calls"][0]["ref_id"].as_str().unwrap_or_default().to_owned();
            !found.is_empty()
        });
        at(&server, &format!("/calls/{found}"))
    };
    let clicked = call(&format!("tool=browser_click&session_id={chat}"));
    let live = "text('.word') === 'Live' && text('h1') === 'chat-1 · p' && all('.timeline .call').length > 2";
    look_at(&[
        View::new(
            "overview",
            &at(&server, "/"),
            "all('.wall .card').length === 4 && isSeen('.pool') \
             && all('greenroom-thumbnail').some((e) => e.hasAttribute('data-has-picture'))",
        ),
        View::after("Options", "overview-options", &at(&server, "/"), "isSeen('.start-options')").extra(),
        View::after(
            "Settings",
            "session-settings",
            &at(&server, "/sessions/price-watch"),
            "isSeen('.settings')",
        )
        .extra(),
        View::new("demo-start", &at(&server, "/demo"), "isSeen('.none')").extra(),
        View::new("session", &at(&server, &format!("/sessions/{chat}")), live),
        View::new("call", &clicked, "isSeen('#panel-result pre')"),
        View::new("call-snapshot", &format!("{clicked}#snapshot"), "isSeen('#panel-snapshot .line')").extra(),
        View::new("call-changes", &format!("{clicked}#changes"), "isSeen('#panel-changes .line.added')"),
        View::new("call-failed", &call("status=error"), "isSeen('.bad-note')").extra(),
        View::new("call-picture", &call("tool=browser_take_screenshot"), "one('main img')?.naturalWidth > 0")
            .extra(),
        View::new(
            "history",
            &at(&server, "/history"),
            "all('tr[data-ref]').length > 5 && text('.whose').includes('chat-1 · p')",
        ),
        View::new("demo", &at(&server, &format!("/demo?session={chat}")), "text('.word') === 'Live'"),
    ]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
