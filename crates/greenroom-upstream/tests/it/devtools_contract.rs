//! The facts about the pinned `chrome-devtools-mcp` that the driver relies on, with a real browser.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use greenroom_core::config::{BrowserConfig, Profile};
use greenroom_testkit::{children_of, send_signal};
use greenroom_upstream::driver::reading::{ConsoleAt, SnapshotAt};
use greenroom_upstream::driver::{DevtoolsDriver, DevtoolsSetup, Endpoint, SeatOptions, reachable};
use greenroom_upstream::{Driver, LaunchError, Upstream};
use serde_json::{Value, json};

use crate::room::{Room, Said, arguments_of, browser, browser_pid, browser_program, installer, said};
use crate::support::{call, eventually, gone, launch, launch_error, run, soon};

impl Room {
    fn devtools_setup(&self) -> DevtoolsSetup {
        DevtoolsSetup {
            run: run(),
            installer: installer(),
            output_dir: self.output(),
            workspace: self.workspace(),
            profile_dir: self.profile(),
        }
    }

    fn devtools(&self, browser: BrowserConfig) -> DevtoolsDriver {
        DevtoolsDriver::new(browser, &self.settings(), self.devtools_setup())
    }

    fn attaching(&self, endpoint: Endpoint) -> DevtoolsDriver {
        DevtoolsDriver::attached(endpoint, &self.settings(), self.devtools_setup())
    }

    async fn visit(&self, upstream: &Upstream, path: &str) -> Said {
        said(upstream, "navigate_page", json!({ "url": self.site.url(path) })).await.fine()
    }
}

/// What a function gives when it runs in the page.
async fn evaluate(upstream: &Upstream, function: &str) -> Value {
    let said = said(upstream, "evaluate_script", json!({ "function": function })).await.fine();
    let json = said.text.split("```json\n").nth(1).and_then(|rest| rest.split("\n```").next());
    serde_json::from_str(json.unwrap_or_default()).unwrap_or_else(|error| panic!("{error} in {}", said.text))
}

/// A browser that somebody has started, ended with everything that came of it.
struct Theirs {
    child: Child,
    port: u16,
}

impl Theirs {
    async fn start(room: &Room) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self::start_on(room, port).await
    }

    async fn start_on(room: &Room, port: u16) -> Self {
        let child = Command::new(browser_program().await)
            .args(["--headless", "--no-sandbox", "--disable-background-networking", "--no-first-run"])
            .arg(format!("--remote-debugging-port={port}"))
            .arg(format!("--user-data-dir={}", room.folder.path().join("theirs").display()))
            .arg(room.site.url("/static-text"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let theirs = Self { child, port };
        eventually("their browser listens", || TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
        theirs
    }

    fn url(&self) -> Endpoint {
        Endpoint::Url(format!("http://127.0.0.1:{}", self.port))
    }

    fn get(&self, path: &str) -> String {
        use std::io::Write;
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let host = format!("127.0.0.1:{}", self.port);
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let (mut text, mut chunk) = (Vec::new(), [0; 4096]);
        let whole = |text: &[u8]| {
            let text = String::from_utf8_lossy(text).into_owned();
            let (head, body) = text.split_once("\r\n\r\n")?;
            let length =
                head.to_lowercase().split("content-length:").nth(1)?.lines().next()?.trim().parse().ok()?;
            (body.len() >= length).then(|| body.to_owned())
        };
        loop {
            if let Some(body) = whole(&text) {
                return body;
            }
            let count = stream.read(&mut chunk).unwrap();
            assert!(count > 0, "it ended in the middle of its answer");
            text.extend(&chunk[..count]);
        }
    }

    fn socket(&self) -> Endpoint {
        let version: Value = serde_json::from_str(&self.get("/json/version")).unwrap();
        let url = version["webSocketDebuggerUrl"].as_str().unwrap().to_owned();
        Endpoint::WebSocket { url, headers: vec![("X-From".to_owned(), "greenroom".to_owned())] }
    }

    /// The addresses of its pages.
    fn pages(&self) -> Vec<String> {
        let list: Vec<Value> = serde_json::from_str(&self.get("/json/list")).unwrap();
        let mut pages: Vec<_> = list
            .iter()
            .filter(|target| target["type"] == "page")
            .map(|target| target["url"].as_str().unwrap().to_owned())
            .collect();
        pages.sort();
        pages
    }

    fn kill(&mut self) {
        let all: Vec<u32> = children_of(self.child.id()).into_iter().chain([self.child.id()]).collect();
        for pid in all {
            send_signal(pid, "KILL");
        }
        let _ = self.child.wait();
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        self.kill();
    }
}

#[tokio::test]
async fn its_tools_and_the_shapes_of_its_results_are_those_that_are_read() {
    let room = Room::enter().await;
    let driver = room.devtools(BrowserConfig { viewport: Some((800, 600)), ..browser() });
    let upstream = launch(&driver).await;
    let tools = soon("the tools", upstream.list_tools()).await.unwrap();
    assert_eq!(tools.len(), 32);
    let with_page: Vec<&str> =
        tools.iter().map(|tool| tool.get()).filter(|tool| tool.contains("\"pageId\"")).collect();
    assert_eq!(with_page.len(), 2, "only those that are about pages ask for one: {with_page:?}");

    let url = room.site.url("/static-text");
    let reading = driver.read(&room.visit(&upstream, "/static-text").await.text).unwrap();
    let page = reading.page.unwrap();
    assert_eq!(page.url, url);
    assert!(!page.title.is_empty());
    assert_eq!(evaluate(&upstream, "() => [innerWidth, innerHeight]").await, json!([800, 600]));

    evaluate(&upstream, "() => { console.error('boom\\nagain'); console.log('fine'); return 1 }").await;
    let console = said(&upstream, "list_console_messages", json!({})).await.fine();
    let Some(ConsoleAt::Inline(entries)) = driver.read(&console.text).unwrap().console else {
        panic!("{}", console.text)
    };
    let shown: Vec<_> = entries.iter().map(ToString::to_string).collect();
    for expected in ["[ERROR] boom\nagain", "[INFO] fine"] {
        assert!(shown.contains(&expected.to_owned()), "{shown:?}");
    }

    let snapshot = said(&upstream, "take_snapshot", json!({})).await.fine();
    let reading = driver.read(&snapshot.text).unwrap();
    assert_eq!(reading.page, Some(page));
    let Some(SnapshotAt::Inline(tree)) = reading.snapshot else { panic!("{}", snapshot.text) };
    assert!(tree.starts_with("uid=1_0 RootWebArea "), "{tree}");

    let shot = call(&upstream, "take_screenshot", json!({})).await.unwrap();
    let shot: Value = serde_json::from_slice(&shot).unwrap();
    assert_eq!(
        (&shot["content"][1]["type"], &shot["content"][1]["mimeType"]),
        (&json!("image"), &json!("image/png"))
    );
    let saved = said(&upstream, "take_screenshot", json!({ "filePath": "shot.png" })).await.fine();
    let file = &driver.read(&saved.text).unwrap().files[0];
    assert_eq!(file.path, room.output().join("shot.png").canonicalize().unwrap());
    let outside = said(&upstream, "take_screenshot", json!({ "filePath": "/var/shot.png" })).await;
    assert!(outside.is_error, "{}", outside.text);
    soon("the end", upstream.close()).await;
}

#[tokio::test]
async fn a_kept_profile_stays_and_belongs_to_one_at_a_time() {
    let room = Room::enter().await;
    let kept = BrowserConfig { profile: Profile::Kept, ..browser() };
    let upstream = launch(&room.devtools(kept.clone())).await;
    room.visit(&upstream, "/static-text").await;
    evaluate(&upstream, "() => { localStorage.setItem('kept', 'yes'); return 1 }").await;
    let error = launch_error(&room.devtools(kept.clone())).await;
    assert!(matches!(error, LaunchError::Profile(_)), "{error:?}");
    soon("the end", upstream.close()).await;
    let upstream = launch(&room.devtools(kept)).await;
    room.visit(&upstream, "/static-text").await;
    assert_eq!(evaluate(&upstream, "() => localStorage.getItem('kept')").await, "yes");
}

#[tokio::test]
async fn a_session_has_a_folder_and_a_viewport_of_its_own() {
    let room = Room::enter().await;
    let folder = room.folder.path().join("session");
    let seat = SeatOptions { folder: folder.clone(), viewport: Some((640, 480)), ..SeatOptions::default() };
    let kept = BrowserConfig { profile: Profile::Kept, ..browser() };
    let upstream = soon("the launch", room.devtools(kept).launch_seat(&seat)).await.unwrap();
    assert_eq!(upstream.folder(), Some(folder.as_path()));
    assert_eq!(evaluate(&upstream, "() => innerWidth").await, 640);
    said(&upstream, "take_screenshot", json!({ "filePath": "own.png" })).await.fine();
    assert!(folder.join("own.png").is_file() && !room.profile().exists());
    std::fs::write(room.workspace().join("secret.txt"), "x").unwrap();
    let secret = room.workspace().join("secret.png");
    let elsewhere = said(&upstream, "take_screenshot", json!({ "filePath": secret })).await;
    assert!(elsewhere.is_error || elsewhere.text.contains("Error"), "{}", elsewhere.text);
}

#[tokio::test]
async fn when_its_browser_is_killed_the_server_counts_as_gone_and_nothing_is_left() {
    let room = Room::enter().await;
    let upstream = launch(&room.devtools(browser())).await;
    let server = upstream.pid().unwrap();
    let browser = browser_pid(server).unwrap();
    soon("the check", upstream.check()).await.unwrap();
    assert!(send_signal(browser, "KILL"));
    let ended = soon("the end", upstream.ended()).await;
    assert!(ended.reason.contains(&format!("the browser, process {browser}, has gone")), "{ended:?}");
    drop(upstream);
    gone(server).await;
}

#[tokio::test]
async fn a_browser_that_hangs_misses_its_checks_though_the_server_answers() {
    let room = Room::enter().await;
    let upstream = launch(&room.devtools(browser())).await;
    let (server, browser) = (upstream.pid().unwrap(), browser_pid(upstream.pid().unwrap()).unwrap());
    assert!(send_signal(browser, "STOP"));
    let missed = tokio::time::timeout(Duration::from_secs(3), upstream.check()).await;
    assert!(missed.is_err(), "{missed:?}");
    assert!(send_signal(browser, "CONT"));
    soon("the check", upstream.check()).await.unwrap();
    // An open dialog is not an illness.
    let function = "() => { setTimeout(() => alert('hi'), 0); return 1 }";
    let _ = call(&upstream, "evaluate_script", json!({ "function": function })).await;
    soon("the check", upstream.check()).await.unwrap();
    drop(upstream);
    gone(server).await;
    gone(browser).await;
}

#[tokio::test]
async fn attaching_and_leaving_again_changes_nothing_about_the_browser() {
    let room = Room::enter().await;
    let theirs = Theirs::start(&room).await;
    let before = theirs.pages();
    assert_eq!(before, [room.site.url("/static-text")]);
    for (endpoint, is_orderly) in [(theirs.url(), true), (theirs.socket(), true), (theirs.url(), false)] {
        let driver = room.attaching(endpoint.clone());
        let upstream = launch(&driver).await;
        let pages = said(&upstream, "list_pages", json!({})).await.fine();
        assert_eq!(driver.read(&pages.text).unwrap().page.unwrap().url, before[0]);
        soon("the check", upstream.check()).await.unwrap();
        let server = upstream.pid().unwrap();
        assert_eq!(browser_pid(server), None, "it starts none of its own: {:?}", arguments_of(server));
        if is_orderly {
            soon("the end", upstream.close()).await;
        }
        drop(upstream);
        gone(server).await;
        assert_eq!(theirs.pages(), before, "{endpoint:?}");
        soon("their browser", reachable(&endpoint)).await.unwrap();
    }
}

#[tokio::test]
async fn when_an_attached_browser_goes_the_connection_does_and_when_it_is_back_so_is_the_way_there() {
    let room = Room::enter().await;
    let mut theirs = Theirs::start(&room).await;
    let driver = room.attaching(theirs.url());
    let upstream = launch(&driver).await;
    theirs.kill();
    let ended = soon("the end", upstream.ended()).await;
    assert!(ended.reason.contains("nothing listens there"), "{ended:?}");
    let error = launch_error(&driver).await;
    assert!(matches!(&error, LaunchError::NoBrowser { .. }), "{error:?}");
    assert!(!error.needs_a_person());
    let _again = Theirs::start_on(&room, theirs.port).await;
    soon("the way", async { while reachable(&theirs.url()).await.is_err() {} }).await;
    let upstream = launch(&driver).await;
    said(&upstream, "list_pages", json!({})).await.fine();
}

#[tokio::test]
async fn an_address_without_a_browser_says_what_is_there() {
    let site = greenroom_testkit::Site::start();
    let error = reachable(&Endpoint::Url(site.url(""))).await.unwrap_err();
    assert!(error.contains("--remote-debugging-port"), "{error}");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for endpoint in [
        Endpoint::Url(format!("http://{free}")),
        Endpoint::WebSocket { url: format!("ws://{free}/devtools/browser/x"), headers: Vec::new() },
    ] {
        let error = reachable(&endpoint).await.unwrap_err();
        assert!(error.contains("nothing listens there"), "{error}");
    }
}

#[tokio::test]
async fn a_small_picture_is_taken_by_its_own_tool() {
    let room = Room::enter().await;
    let driver = room.devtools(browser());
    let upstream = launch(&driver).await;
    assert!(upstream.live().is_none(), "it has no side channel");
    room.visit(&upstream, "/links").await;
    let (tool, arguments) = driver.screenshot_call().unwrap();
    let result: Value = serde_json::from_slice(&call(&upstream, tool, arguments).await.unwrap()).unwrap();
    let content = result["content"].as_array().unwrap();
    let image = content.iter().find(|part| part["type"] == "image").unwrap_or_else(|| panic!("{result}"));
    assert_eq!(image["mimeType"], "image/jpeg");
}
