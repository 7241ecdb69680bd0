//! What the configuration says about a browser, seen in a real one.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::poll;
use greenroom_core::config::{BrowserConfig, ImageResponses, Profile, UpstreamConfig};
use greenroom_core::supervision::Supervision;
use greenroom_testkit::{Site, send_signal};
use greenroom_upstream::driver::{PlaywrightDriver, PlaywrightSetup, ProfileError, User};
use greenroom_upstream::{Instance, LaunchError, Upstream};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::room::{Room, browser, browser_pid, peer_said, said};
use crate::support::{MIB, call, gone, launch, launch_error, soon};

fn kept() -> BrowserConfig {
    BrowserConfig { profile: Profile::Kept, ..browser() }
}

/// What a function gives when it runs in the page.
async fn evaluate(upstream: &Upstream, function: &str) -> Value {
    let said = said(upstream, "browser_evaluate", json!({ "function": function })).await.fine();
    serde_json::from_str(said.section("Result")).unwrap_or_else(|error| panic!("{error} in {}", said.text))
}

/// Leaves a cookie and an entry in the local storage that are meant to stay.
async fn leave_traces(room: &Room, upstream: &Upstream) {
    room.navigate(upstream, "/static-text").await.fine();
    let leave = "() => { document.cookie = 'kept=yes; max-age=86400'; localStorage.setItem('kept', 'too'); }";
    said(upstream, "browser_evaluate", json!({ "function": leave })).await.fine();
}

async fn traces(room: &Room, upstream: &Upstream) -> Value {
    room.navigate(upstream, "/static-text").await.fine();
    evaluate(upstream, "() => [document.cookie, localStorage.getItem('kept')]").await
}

fn both_traces() -> Value {
    json!(["kept=yes", "too"])
}

// ---- profiles --------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_kept_profile_survives_the_upstream_and_an_isolated_one_does_not() {
    let room = Room::enter().await;
    for (config, expected) in [(kept(), both_traces()), (browser(), json!(["", null]))] {
        let upstream = room.launch_for(config.clone()).await;
        leave_traces(&room, &upstream).await;
        soon("the end", upstream.close()).await;
        // Nothing has to be waited for: who has closed one may launch the next.
        let upstream = room.launch_for(config).await;
        assert_eq!(traces(&room, &upstream).await, expected);
    }
    assert!(room.profile().join("Default").is_dir());
}

#[tokio::test]
async fn a_profile_may_lie_anywhere() {
    let room = Room::enter().await;
    for (path, expected) in [
        (room.folder.path().join("my own/profile"), room.folder.path().join("my own/profile")),
        (PathBuf::from("relative"), room.workspace().join("relative")),
    ] {
        let upstream = room.launch_for(BrowserConfig { profile: Profile::At(path), ..browser() }).await;
        room.navigate(&upstream, "/links").await.fine();
        assert!(expected.join("Default").is_dir());
    }
    assert!(!room.profile().exists());
}

#[tokio::test]
async fn closing_the_browser_keeps_what_is_in_the_profile() {
    let room = Room::enter().await;
    let upstream = room.launch_for(kept()).await;
    let host = upstream.pid().unwrap();
    leave_traces(&room, &upstream).await;
    for _ in 0..2 {
        let before = browser_pid(host).unwrap();
        said(&upstream, "browser_close", json!({})).await.fine();
        gone(before).await;
        assert_eq!(traces(&room, &upstream).await, both_traces());
        assert_ne!(browser_pid(host), Some(before));
    }
    soon("the reset", upstream.reset()).await;
    assert_eq!(traces(&room, &upstream).await, both_traces());
}

#[tokio::test]
async fn a_profile_survives_the_killing_of_its_host_and_is_free_for_the_restart() {
    let room = Room::enter().await;
    let supervision = Supervision { restart_pause: Duration::from_millis(1), ..Supervision::default() };
    let instance = Instance::new(Arc::new(room.driver_for(kept())), supervision);
    let upstream = soon("the start", instance.acquire()).await.unwrap();
    leave_traces(&room, &upstream).await;
    // Chromium writes cookies down every half minute, and when it is closed.
    said(&upstream, "browser_close", json!({})).await.fine();
    drop(upstream);
    for _ in 0..2 {
        let upstream = soon("the restart", instance.acquire()).await.unwrap();
        assert_eq!(traces(&room, &upstream).await, both_traces());
        // A Chromium that was killed looks like one that runs, to those that look at its lock.
        std::os::unix::fs::symlink("elsewhere-1", room.profile().join("SingletonLock")).unwrap();
        let node = upstream.pid().unwrap();
        assert!(send_signal(node, "KILL"));
        soon("the end", upstream.ended()).await;
    }
    soon("the stop", instance.stop()).await;
}

#[tokio::test]
async fn after_a_browser_with_a_profile_was_killed_the_next_call_has_a_new_one() {
    let room = Room::enter().await;
    let upstream = room.launch_for(kept()).await;
    let host = upstream.pid().unwrap();
    leave_traces(&room, &upstream).await;
    said(&upstream, "browser_close", json!({})).await.fine();
    room.navigate(&upstream, "/links").await.fine();
    let browser = browser_pid(host).unwrap();
    assert!(send_signal(browser, "KILL"));
    gone(browser).await;
    // A call that comes before node has noticed fails; the one after it does not.
    room.navigate(&upstream, "/links").await;
    assert_eq!(traces(&room, &upstream).await, both_traces());
    assert_ne!(browser_pid(host), Some(browser));
}

#[tokio::test]
async fn a_profile_is_free_again_after_its_upstream_was_dropped() {
    let room = Room::enter().await;
    for _ in 0..2 {
        let upstream = room.launch_for(kept()).await;
        room.navigate(&upstream, "/links").await.fine();
        drop(upstream);
    }
}

#[tokio::test]
async fn a_profile_in_use_is_an_error_that_says_so() {
    let room = Room::enter().await;
    let first = room.launch_for(kept()).await;
    let error = launch_error(&room.driver_for(kept())).await;
    assert!(
        matches!(&error, LaunchError::Profile(ProfileError::InUse { path, user: User::Greenroom(_) })
            if *path == room.profile()),
        "{error:?}"
    );
    assert!(error.needs_a_person());
    let shown = error.to_string();
    assert!(shown.contains("ISOLATED=true") && shown.contains("USER_DATA_DIR"), "{shown}");
    // The one that has it is not disturbed.
    room.navigate(&first, "/links").await.fine();
}

#[tokio::test]
async fn the_probe_reaches_a_browser_with_a_profile() {
    let room = Room::enter().await;
    let host = room.start_host().await;
    let options = json!({ "userDataDir": room.profile() });
    let (_, peer) = soon("a context", host.open(options, json!({}), Vec::new(), 16 * MIB)).await.unwrap();
    soon("the handshake", peer.initialize()).await.unwrap();
    assert!(!soon("the probe", host.probe()).await.unwrap());
    peer_said(&peer, "browser_navigate", json!({ "url": room.site.url("/links") })).await.fine();
    assert!(soon("the probe", host.probe()).await.unwrap());

    let browser = browser_pid(host.pid()).unwrap();
    assert!(send_signal(browser, "STOP"));
    let mut probe = Box::pin(host.probe());
    assert!(poll!(&mut probe).is_pending());
    for _ in 0..5 {
        soon("the ping", peer.request("ping", json!({})).unwrap()).await.unwrap();
    }
    assert!(poll!(&mut probe).is_pending());
    assert!(send_signal(browser, "CONT"));
    assert!(soon("the probe after all", probe).await.unwrap());
}

// ---- warming up ------------------------------------------------------------------------------------------------

fn warm(room: &Room, config: BrowserConfig) -> PlaywrightDriver {
    PlaywrightDriver::new(config, &room.settings(), PlaywrightSetup { warm: true, ..room.setup() })
}

#[tokio::test]
async fn a_warm_upstream_has_its_browser_before_the_first_call_and_uses_that() {
    let room = Room::enter().await;
    for config in [browser(), kept()] {
        let upstream = launch(&warm(&room, config)).await;
        let host = upstream.pid().unwrap();
        let browser = browser_pid(host);
        assert!(browser.is_some());
        room.navigate(&upstream, "/links").await.fine();
        assert_eq!(browser_pid(host), browser);
        soon("the end", upstream.close()).await;
    }
}

#[tokio::test]
async fn a_browser_that_cannot_be_warmed_fails_the_launch_and_is_worth_another_try() {
    let room = Room::enter().await;
    for config in [browser(), kept()] {
        let config = BrowserConfig { executable_path: Some("/bin/false".into()), ..config };
        let error = launch_error(&warm(&room, config)).await;
        assert!(matches!(error, LaunchError::Host(_)), "{error:?}");
        assert!(!error.needs_a_person());
        assert!(error.to_string().contains("/bin/false"), "{error}");
    }
}

#[tokio::test]
async fn a_host_that_is_not_ready_in_time_is_reported_with_what_it_printed() {
    let room = Room::enter().await;
    let script = room.folder.path().join("slow.cjs");
    let sleeps =
        "console.error('thinking about it'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)";
    fs::write(&script, sleeps).unwrap();
    let env = vec![("NODE_OPTIONS".to_owned(), format!("--require {}", script.display()))];
    let settings = UpstreamConfig { env, start_timeout: Duration::from_secs(4), ..room.settings() };
    let error = launch_error(&PlaywrightDriver::new(browser(), &settings, room.setup())).await;
    assert!(matches!(error, LaunchError::TooSlow { .. }), "{error:?}");
    let expected = "the browser host (node) did not get ready within 4000 ms (START_TIMEOUT); \
                    its last output was:\nthinking about it";
    assert_eq!(error.to_string(), expected);
}

// ---- what a page sees ------------------------------------------------------------------------------------------

const LOOKS: &str = "() => [innerWidth, innerHeight, navigator.maxTouchPoints > 0, navigator.userAgent]";

#[tokio::test]
async fn a_device_gives_its_size_and_user_agent_and_what_is_set_explicitly_wins() {
    let room = Room::enter().await;
    let device = BrowserConfig { device: Some("Pixel 7 landscape".to_owned()), ..browser() };
    for config in [device.clone(), BrowserConfig { profile: Profile::Kept, ..device.clone() }] {
        let upstream = room.launch_for(config).await;
        room.navigate(&upstream, "/static-text").await.fine();
        let looks = evaluate(&upstream, LOOKS).await;
        assert_eq!(looks.as_array().unwrap()[..3], [json!(863), json!(360), json!(true)], "{looks}");
        assert!(looks[3].as_str().unwrap().contains("Pixel 7"), "{looks}");
        soon("the end", upstream.close()).await;
    }
    let config = BrowserConfig {
        viewport: Some((700, 500)),
        user_agent: Some("a browser of my own".to_owned()),
        ..device
    };
    let upstream = room.launch_for(config).await;
    room.navigate(&upstream, "/static-text").await.fine();
    assert_eq!(evaluate(&upstream, LOOKS).await, json!([700, 500, true, "a browser of my own"]));
}

#[tokio::test]
async fn a_device_that_nobody_knows_is_an_error_that_names_others() {
    let room = Room::enter().await;
    let config = BrowserConfig { device: Some("iPhone 15 Por".to_owned()), ..browser() };
    let error = launch_error(&room.driver_for(config)).await;
    assert!(matches!(error, LaunchError::Options(_)), "{error:?}");
    assert!(error.needs_a_person());
    let shown = error.to_string();
    assert!(shown.contains("no device \"iPhone 15 Por\"; close to it are \"iPhone 15 Pro\""), "{shown}");
}

#[tokio::test]
async fn the_user_agent_reaches_the_site() {
    let room = Room::enter().await;
    let config = BrowserConfig { user_agent: Some("a browser of my own".to_owned()), ..browser() };
    let upstream = room.launch_for(config).await;
    room.navigate(&upstream, "/echo-headers").await.fine();
    let page = said(&upstream, "browser_snapshot", json!({})).await.fine();
    assert!(page.text.contains("User-Agent: a browser of my own"), "{}", page.text);
}

#[tokio::test]
async fn init_scripts_run_before_the_page_in_the_first_page_too() {
    let room = Room::enter().await;
    fs::write(room.workspace().join("one.js"), "window.first = document.readyState").unwrap();
    let other = room.folder.path().join("other.js");
    fs::write(&other, "window.second = window.first").unwrap();
    let init_scripts = vec![PathBuf::from("one.js"), other];
    for config in [browser(), kept()] {
        let config = BrowserConfig { init_scripts: init_scripts.clone(), ..config };
        let upstream = launch(&warm(&room, config)).await;
        room.navigate(&upstream, "/static-text").await.fine();
        assert_eq!(evaluate(&upstream, "() => window.second").await, "loading");
        soon("the end", upstream.close()).await;
    }
}

#[tokio::test]
async fn images_can_be_left_out_of_the_answers_or_be_all_of_them() {
    let room = Room::enter().await;
    for (image_responses, expected) in [
        (ImageResponses::Allow, vec!["text", "image"]),
        (ImageResponses::Omit, vec!["text"]),
        (ImageResponses::Only, vec!["image"]),
    ] {
        let upstream = room.launch_for(BrowserConfig { image_responses, ..browser() }).await;
        room.navigate(&upstream, "/static-text").await.fine();
        let answer = call(&upstream, "browser_take_screenshot", json!({})).await.unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let parts = answer["content"].as_array().unwrap().iter();
        let kinds: Vec<_> = parts.map(|part| part["type"].as_str().unwrap().to_owned()).collect();
        assert_eq!(kinds, expected);
        soon("the end", upstream.close()).await;
    }
}

// ---- files that are named --------------------------------------------------------------------------------------

#[tokio::test]
async fn an_isolated_browser_begins_with_the_storage_state() {
    let room = Room::enter().await;
    let cookie = json!({
        "name": "hidden", "value": "not-for-scripts", "domain": "127.0.0.1", "path": "/", "expires": -1,
        "httpOnly": true, "secure": false, "sameSite": "Lax",
    });
    let origin =
        json!({ "origin": room.site.url(""), "localStorage": [{ "name": "counter", "value": "7" }] });
    let state = json!({ "cookies": [cookie], "origins": [origin] });
    fs::write(room.workspace().join("state.json"), state.to_string()).unwrap();
    let config = BrowserConfig { storage_state: Some("state.json".into()), ..browser() };
    let upstream = room.launch_for(config).await;
    for _ in 0..2 {
        room.navigate(&upstream, "/cookies").await.fine();
        let page = said(&upstream, "browser_snapshot", json!({})).await.fine();
        assert!(page.text.contains("not-for-scripts"), "{}", page.text);
        assert_eq!(evaluate(&upstream, "() => localStorage.getItem('counter')").await, "7");
        // A new context begins with it, too.
        said(&upstream, "browser_close", json!({})).await.fine();
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_with_their_key() {
    let room = Room::enter().await;
    let missing = room.folder.path().join("missing");
    let broken = room.folder.path().join("broken.json");
    fs::write(&broken, "[]").unwrap();
    for (config, expected) in [
        (
            BrowserConfig { storage_state: Some(missing.clone()), ..browser() },
            format!("STORAGE_STATE names {}, which cannot be read", missing.display()),
        ),
        (
            BrowserConfig { storage_state: Some(broken.clone()), ..browser() },
            format!("STORAGE_STATE names {}, which is not the JSON", broken.display()),
        ),
        (
            BrowserConfig { init_scripts: vec![missing.clone()], ..browser() },
            format!("INIT_SCRIPT names {}, which cannot be read", missing.display()),
        ),
    ] {
        let error = launch_error(&room.driver_for(config)).await;
        assert!(error.to_string().starts_with(&expected), "{error}");
        assert!(error.needs_a_person());
    }
}

// ---- the network -----------------------------------------------------------------------------------------------

#[tokio::test]
async fn blocked_origins_are_refused_and_an_allow_list_refuses_all_others() {
    let room = Room::enter().await;
    let other = Site::start();
    let origins = |site: &Site| vec![site.url("")];
    for config in [
        BrowserConfig { blocked_origins: origins(&other), ..browser() },
        BrowserConfig { allowed_origins: origins(&room.site), ..browser() },
        // Blocking wins.
        BrowserConfig {
            allowed_origins: [origins(&room.site), origins(&other)].concat(),
            blocked_origins: origins(&other),
            ..browser()
        },
        BrowserConfig { blocked_origins: origins(&other), ..kept() },
    ] {
        let upstream = room.launch_for(config).await;
        room.navigate(&upstream, "/links").await.fine();
        let refused = said(&upstream, "browser_navigate", json!({ "url": other.url("/links") })).await;
        assert!(refused.is_error && refused.text.contains("ERR_BLOCKED_BY_CLIENT"), "{}", refused.text);
        assert_eq!(other.hits("/links"), 0);
        soon("the end", upstream.close()).await;
    }
}

/// A proxy that answers everything itself, with a page that says what was asked for.
async fn proxy() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("the loopback address has a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await?);
                }
                let head = String::from_utf8_lossy(&head);
                let body = format!("<title>Proxy</title><p>{}</p>", head.lines().next().unwrap_or_default());
                let length = body.len();
                let kind = "Content-Type: text/html\r\nConnection: close";
                let answer = format!("HTTP/1.1 200 OK\r\n{kind}\r\nContent-Length: {length}\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).await
            });
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn the_proxy_is_used_for_everything_but_what_goes_past_it() {
    let room = Room::enter().await;
    let proxy_server = Some(proxy().await);
    for config in [browser(), kept()] {
        let config = BrowserConfig { proxy_server: proxy_server.clone(), ..config };
        let upstream = room.launch_for(config.clone()).await;
        for url in ["http://nowhere.invalid/page".to_owned(), room.site.url("/links")] {
            said(&upstream, "browser_navigate", json!({ "url": url })).await.fine();
            let page = said(&upstream, "browser_snapshot", json!({})).await.fine();
            assert!(page.text.contains(&format!("GET {url} HTTP/1.1")), "{}", page.text);
        }
        assert_eq!(room.site.hits("/links"), 0);
        soon("the end", upstream.close()).await;
    }
    let config = BrowserConfig { proxy_server, proxy_bypass: Some("127.0.0.1".to_owned()), ..browser() };
    let upstream = room.launch_for(config).await;
    room.navigate(&upstream, "/links").await.fine();
    assert_eq!(room.site.hits("/links"), 1);
    let elsewhere = json!({ "url": "http://nowhere.invalid/page" });
    let page = said(&upstream, "browser_navigate", elsewhere).await.fine();
    assert!(page.section("Page").contains("Page Title: Proxy"), "{}", page.text);
}
