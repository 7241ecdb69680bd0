//! What Greenroom relies on of the pinned `@playwright/mcp`, of our host script around it and of Chromium, tried
//! on the real ones. When a newer version is pinned, a test that fails here names the reliance that broke.

use std::fs;
use std::path::Path;

use futures::poll;
use greenroom_testkit::{children_of, process_alive, send_signal};
use greenroom_upstream::Driver;
use greenroom_upstream::driver::AfterInterrupt;
use greenroom_upstream::host::HostError;
use greenroom_upstream::rpc::{CallError, Notice, Peer};
use serde_json::{Value, json};

use crate::room::{Room, Said, arguments_of, browser_pid, browser_program, installed, open, peer_said, said};
use crate::support::{eventually, gone, launch, soon};

/// Every page of another context or site has one of its own.
fn renderers(host: u32) -> usize {
    let is_renderer = |pid: &u32| arguments_of(*pid).iter().any(|argument| argument == "--type=renderer");
    children_of(host).iter().filter(|pid| is_renderer(pid)).count()
}

// ---- tools and their results -----------------------------------------------------------------------------------

#[tokio::test]
async fn the_tools_are_the_25_core_ones_and_the_unsafe_one_is_not_offered() {
    let room = Room::enter().await;
    let driver = room.driver();
    let upstream = launch(&driver).await;
    let tools = soon("the list", upstream.list_tools()).await.unwrap();
    let names: Vec<String> = tools
        .iter()
        .map(|tool| serde_json::from_str::<Value>(tool.get()).unwrap()["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names.len(), 25, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("browser_")), "{names:?}");
    let held_back: Vec<_> = names.iter().filter(|name| !driver.offers(name)).collect();
    assert_eq!(held_back, ["browser_run_code_unsafe"]);
    // Listing needs no browser.
    assert_eq!(browser_pid(upstream.pid().unwrap()), None);
}

#[tokio::test]
async fn results_are_sections_with_the_page_and_a_link_to_a_snapshot_file() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    let click = json!({ "element": "the link", "target": "a[href='/items/42']" });
    for (tool, arguments, path, title) in [
        ("browser_navigate", json!({ "url": room.site.url("/links") }), "/links", "Links"),
        ("browser_click", click, "/items/42", "Item 42"),
    ] {
        let result = said(&upstream, tool, arguments).await.fine();
        assert_eq!(result.headings(), ["Ran Playwright code", "Page", "Snapshot"], "{tool}");
        let url = room.site.url(path);
        let page = format!("- Page URL: {url}\n- Page Title: {title} - Test site");
        assert_eq!(result.section("Page"), page, "{tool}");
        let link = result.section("Snapshot").strip_prefix("- [Snapshot](").unwrap();
        let file = Path::new(link.trim_end().strip_suffix(')').unwrap());
        assert!(file.is_absolute() && file.starts_with(room.output()), "{}", file.display());
        let snapshot = fs::read_to_string(file).unwrap();
        assert!(snapshot.contains(&format!("heading \"{title}\"")), "{snapshot}");
    }
}

#[tokio::test]
async fn the_snapshot_tool_gives_the_snapshot_inline() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    room.navigate(&upstream, "/links").await.fine();
    let result = said(&upstream, "browser_snapshot", json!({})).await.fine();
    assert_eq!(result.headings(), ["Page", "Snapshot"]);
    let snapshot = result.section("Snapshot");
    assert!(snapshot.starts_with("```yaml\n") && snapshot.ends_with("```"), "{snapshot}");
    // A reference out of it is what other tools take as their target.
    let line = snapshot.lines().find(|line| line.contains("link \"Item 42\"")).unwrap();
    let reference = line.split("[ref=").nth(1).unwrap().split(']').next().unwrap();
    let click = json!({ "element": "Item 42", "target": reference });
    let clicked = said(&upstream, "browser_click", click).await.fine();
    assert!(clicked.section("Page").contains("/items/42"), "{}", clicked.text);
}

#[tokio::test]
async fn console_entries_are_counted_and_linked() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    let result = room.navigate(&upstream, "/console").await.fine();
    assert!(result.section("Page").contains("\n- Console: 2 errors, 1 warnings"), "{}", result.text);
    let entry = result.section("Events").trim_end();
    let link = entry.strip_prefix("- New console entries: ").unwrap();
    let (file, lines) = link.rsplit_once('#').unwrap();
    assert!(Path::new(file).is_absolute() && Path::new(file).starts_with(room.output()), "{link}");
    assert!(lines.starts_with("L1"), "{link}");
    let log = fs::read_to_string(file).unwrap();
    assert!(log.contains("[ERROR] an error line @"), "{log}");
}

#[tokio::test]
async fn a_tools_error_is_a_result_that_says_so() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    room.navigate(&upstream, "/links").await.fine();
    let result = said(&upstream, "browser_click", json!({ "element": "nothing", "target": "e99999" })).await;
    assert!(result.is_error);
    assert!(result.headings().contains(&"Error"), "{}", result.text);
}

#[tokio::test]
async fn meta_among_the_arguments_changes_the_output_so_it_must_be_stripped_before() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    room.navigate(&upstream, "/links").await.fine();
    let plain = said(&upstream, "browser_snapshot", json!({})).await.fine();
    let json = said(&upstream, "browser_snapshot", json!({ "_meta": { "json": true } })).await.fine();
    let raw = said(&upstream, "browser_snapshot", json!({ "_meta": { "raw": true } })).await.fine();
    assert!(plain.text.starts_with("### Page\n"), "{}", plain.text);
    assert!(json.text.starts_with("{\n"), "{}", json.text);
    assert!(raw.text.starts_with("- generic"), "{}", raw.text);
}

#[tokio::test]
async fn the_value_of_a_password_field_stands_in_the_snapshot() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    room.navigate(&upstream, "/form").await.fine();
    let secret = json!({ "element": "password", "target": "#password", "text": "hunter2" });
    said(&upstream, "browser_type", secret).await.fine();
    let snapshot = said(&upstream, "browser_snapshot", json!({})).await.fine();
    let line = snapshot.text.lines().find(|line| line.contains("textbox \"Password\"")).unwrap();
    assert!(line.ends_with(": hunter2"), "{line}");
}

#[tokio::test]
async fn the_first_navigation_announces_a_change_of_the_tool_list_though_nothing_changed() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    let list = async || {
        let tools = soon("the list", upstream.list_tools()).await.unwrap();
        tools.iter().map(|tool| tool.get().to_owned()).collect::<Vec<_>>()
    };
    let before = list().await;
    let mut notices = upstream.notices();
    room.navigate(&upstream, "/links").await.fine();
    assert_eq!(soon("the notice", notices.recv()).await.unwrap(), Notice::ToolsChanged);
    assert_eq!(list().await, before);
}

#[tokio::test]
async fn files_outside_the_workspace_are_refused_and_those_inside_are_taken() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    room.navigate(&upstream, "/upload").await.fine();
    said(&upstream, "browser_click", json!({ "element": "file", "target": "#file" })).await.fine();
    let outside = room.folder.path().join("outside.txt");
    let inside = room.workspace().join("inside.txt");
    for path in [&outside, &inside] {
        fs::write(path, "twelve bytes").unwrap();
    }
    let refused = said(&upstream, "browser_file_upload", json!({ "paths": [outside] })).await;
    assert!(refused.is_error && refused.text.contains("outside allowed roots"), "{}", refused.text);
    said(&upstream, "browser_file_upload", json!({ "paths": [inside] })).await.fine();
    let submit = json!({ "element": "upload", "target": "button" });
    said(&upstream, "browser_click", submit).await.fine();
    let snapshot = said(&upstream, "browser_snapshot", json!({})).await.fine();
    assert!(snapshot.text.contains("inside.txt") && snapshot.text.contains("12 bytes"), "{}", snapshot.text);

    let escape = room.folder.path().join("outside.png");
    let refused = said(&upstream, "browser_take_screenshot", json!({ "filename": escape })).await;
    assert!(refused.is_error && refused.text.contains("outside allowed roots"), "{}", refused.text);
    assert!(!escape.exists());
}

#[tokio::test]
async fn an_answer_over_the_limit_fails_its_own_call_and_the_tunnel_lives_on() {
    let room = Room::enter().await;
    let host = room.start_host().await;
    let limit = 64 * 1024;
    let (_, narrow) = soon("a context", host.open(json!({}), json!({}), Vec::new(), limit)).await.unwrap();
    soon("the handshake", narrow.initialize()).await.unwrap();
    let url = |path: &str| json!({ "url": room.site.url(path) });
    peer_said(&narrow, "browser_navigate", url("/big-text?kb=1000")).await.fine();
    let snapshot = narrow.call_tool("browser_snapshot", &json!({}), None).unwrap();
    let beside = narrow.request("ping", json!({})).unwrap();
    let error = soon("the refusal", snapshot).await.unwrap_err();
    assert!(matches!(error, CallError::TooLarge { limit: 65_536 }), "{error:?}");
    soon("the ping beside it", beside).await.unwrap();
    peer_said(&narrow, "browser_navigate", url("/links")).await.fine();
    peer_said(&narrow, "browser_snapshot", json!({})).await.fine();
}

// ---- closing, stopping, starting over --------------------------------------------------------------------------

#[tokio::test]
async fn a_closed_browser_is_usable_again_any_number_of_times_and_leaves_no_pages_behind() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    let host = upstream.pid().unwrap();
    for round in 0..6 {
        room.navigate(&upstream, "/links").await.fine();
        let tabs = said(&upstream, "browser_tabs", json!({ "action": "list" })).await.fine();
        let open = tabs.section("Result").lines().filter(|line| line.starts_with("- ")).count();
        assert_eq!(open, 1, "round {round}: {}", tabs.text);
        let closed = said(&upstream, "browser_close", json!({})).await.fine();
        assert!(closed.text.contains("No open tabs"), "{}", closed.text);
        // A page that leaked would keep its renderer; some builds hold a spare one.
        eventually("the page's process to go", || renderers(host) <= 1).await;
    }
    // Closing what is closed is no error, and does not wear anything out either.
    for _ in 0..2 {
        said(&upstream, "browser_close", json!({})).await;
    }
    room.navigate(&upstream, "/links").await.fine();
}

#[tokio::test]
async fn closing_the_browser_forgets_its_cookies() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    for _ in 0..2 {
        // The first visit sends none; a second would.
        room.navigate(&upstream, "/cookies").await.fine();
        let snapshot = said(&upstream, "browser_snapshot", json!({})).await.fine();
        assert!(!snapshot.text.contains("not-for-scripts"), "{}", snapshot.text);
        said(&upstream, "browser_close", json!({})).await.fine();
    }
}

#[tokio::test]
async fn an_interrupted_navigation_ends_and_the_next_call_works() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    room.navigate(&upstream, "/storage").await.fine();
    for _ in 0..3 {
        let pending = room.navigate_for_ever(&upstream).await;
        let after = soon("the interruption", upstream.interrupt(pending.id())).await;
        assert_eq!(after, AfterInterrupt::Answers);
        let result = soon("the interrupted call to be answered", pending).await.unwrap();
        assert!(Said::read(&result).is_error, "{}", Said::read(&result).text);
        // The page that was there is there still, and works.
        let snapshot = said(&upstream, "browser_snapshot", json!({})).await.fine();
        assert!(snapshot.section("Page").contains("/storage"), "{}", snapshot.text);
        let click = json!({ "element": "button", "target": "#increment" });
        said(&upstream, "browser_click", click).await.fine();
    }
    let kept = said(&upstream, "browser_snapshot", json!({})).await.fine();
    assert!(kept.text.lines().any(|line| line.trim_end().ends_with(": \"3\"")), "{}", kept.text);
}

#[tokio::test]
async fn interrupting_when_no_page_is_open_does_no_harm() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    assert_eq!(soon("the interruption", upstream.interrupt(1)).await, AfterInterrupt::Answers);
    room.navigate(&upstream, "/links").await.fine();
}

#[tokio::test]
async fn a_reset_fails_the_pending_call_and_the_next_one_begins_with_a_fresh_browser() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    room.navigate(&upstream, "/cookies").await.fine();
    let browser = browser_pid(upstream.pid().unwrap()).unwrap();
    for _ in 0..2 {
        let pending = room.navigate_for_ever(&upstream).await;
        soon("the reset", upstream.reset()).await;
        let result = soon("the pending call to be answered", pending).await.unwrap();
        assert!(Said::read(&result).is_error, "{}", Said::read(&result).text);
        room.navigate(&upstream, "/cookies").await.fine();
        let snapshot = said(&upstream, "browser_snapshot", json!({})).await.fine();
        assert!(!snapshot.text.contains("not-for-scripts"), "{}", snapshot.text);
    }
    // Only the context is new: the browser itself is the same.
    assert_eq!(browser_pid(upstream.pid().unwrap()), Some(browser));
}

// ---- when something dies ---------------------------------------------------------------------------------------

#[tokio::test]
async fn after_the_browser_was_killed_the_next_call_has_a_new_one() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    let host = upstream.pid().unwrap();
    room.navigate(&upstream, "/links").await.fine();
    for _ in 0..2 {
        let browser = browser_pid(host).unwrap();
        assert!(send_signal(browser, "KILL"));
        gone(browser).await;
        // A call that comes before node has noticed fails; the one after it does not.
        let first = room.navigate(&upstream, "/links").await;
        if first.is_error {
            room.navigate(&upstream, "/links").await.fine();
        }
        assert_ne!(browser_pid(host).unwrap(), browser);
    }
}

#[tokio::test]
async fn a_call_in_flight_when_the_browser_is_killed_is_answered_with_an_error() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    let pending = room.navigate_for_ever(&upstream).await;
    assert!(send_signal(browser_pid(upstream.pid().unwrap()).unwrap(), "KILL"));
    let result = soon("the call to be answered", pending).await.unwrap();
    assert!(Said::read(&result).is_error, "{}", Said::read(&result).text);
}

#[tokio::test]
async fn when_node_is_killed_its_calls_end_with_the_reason_and_the_browser_goes_with_it() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    let pending = room.navigate_for_ever(&upstream).await;
    let node = upstream.pid().unwrap();
    let family = children_of(node);
    assert!(browser_pid(node).is_some());
    assert!(send_signal(node, "KILL"));
    let error = soon("the call to end", pending).await.unwrap_err();
    let CallError::Ended(ended) = error else { panic!("{error:?}") };
    assert_eq!(ended.reason, "the browser host (node) was ended by SIGKILL");
    assert_eq!(soon("the end", upstream.ended()).await, ended);
    assert_eq!(upstream.call("browser_snapshot", &json!({}), None).err(), Some(ended));
    for pid in family {
        gone(pid).await;
    }
}

#[tokio::test]
async fn dropping_or_closing_an_upstream_ends_node_and_the_browser() {
    let room = Room::enter().await;
    for in_order in [false, true] {
        let upstream = room.launch().await;
        room.navigate(&upstream, "/links").await.fine();
        let node = upstream.pid().unwrap();
        let family = children_of(node);
        assert!(browser_pid(node).is_some());
        if in_order {
            soon("the end of the host", upstream.close()).await;
            assert!(!process_alive(node));
            let ended = soon("the end", upstream.ended()).await;
            assert_eq!(ended.reason, "the browser host (node) exited with code 0");
        } else {
            drop(upstream);
            gone(node).await;
        }
        for pid in family {
            gone(pid).await;
        }
        if in_order {
            // A browser that was closed in order has cleared away after itself.
            let left = fs::read_dir(room.temporary()).unwrap().flatten().map(|entry| entry.path());
            let left: Vec<_> =
                left.filter(|path| path.display().to_string().contains("playwright")).collect();
            assert_eq!(left, Vec::<std::path::PathBuf>::new());
        }
        fs::remove_dir_all(room.temporary()).unwrap();
        fs::create_dir(room.temporary()).unwrap();
    }
}

#[tokio::test]
async fn a_browser_that_cannot_be_launched_fails_the_call_and_is_tried_again_by_the_next() {
    let room = Room::enter().await;
    let installed = installed().await;
    // A program that fails until the real browser takes its place.
    let program = room.folder.path().join("browser");
    std::os::unix::fs::symlink("/bin/false", &program).unwrap();
    let host = room.try_host(&installed.script, &program).await.unwrap();
    let (_, peer) = open(&host).await;
    let url = json!({ "url": room.site.url("/links") });
    let failed = peer_said(&peer, "browser_navigate", url.clone()).await;
    assert!(failed.is_error, "{}", failed.text);
    fs::remove_file(&program).unwrap();
    std::os::unix::fs::symlink(browser_program().await, &program).unwrap();
    peer_said(&peer, "browser_navigate", url).await.fine();
}

#[tokio::test]
async fn a_host_that_cannot_load_its_packages_says_so() {
    let room = Room::enter().await;
    let installed = installed().await;
    // Elsewhere there is no `playwright` beside the script.
    for file in fs::read_dir(installed.script.parent().unwrap()).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), room.folder.path().join(file.file_name())).unwrap();
    }
    let script = room.folder.path().join("host.cjs");
    let outcome = room.try_host(&script, Path::new("/bin/false")).await;
    let error = outcome.err().expect("there is nothing to load");
    assert!(
        matches!(&error, HostError::Refused(why) if why.contains("Cannot find module 'playwright'")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_host_script_that_crashes_is_reported_with_what_it_printed() {
    let room = Room::enter().await;
    let script = room.folder.path().join("host.cjs");
    fs::write(&script, "throw new Error('this script is broken')").unwrap();
    let outcome = room.try_host(&script, Path::new("/bin/false")).await;
    let error = outcome.err().expect("the script is broken");
    let HostError::Ended(ended) = &error else { panic!("{error:?}") };
    assert_eq!(ended.reason, "the browser host (node) exited with code 1");
    assert!(error.to_string().contains("this script is broken"), "{error}");
}

// ---- health ----------------------------------------------------------------------------------------------------

#[tokio::test]
async fn the_probe_reaches_the_browser_itself_where_mcp_only_reaches_node() {
    let room = Room::enter().await;
    let host = room.start_host().await;
    let (_, peer) = open(&host).await;
    assert!(!soon("the probe", host.probe()).await.unwrap(), "no browser has been needed yet");
    let url = json!({ "url": room.site.url("/links") });
    peer_said(&peer, "browser_navigate", url).await.fine();
    assert!(soon("the probe", host.probe()).await.unwrap());

    let browser = browser_pid(host.pid()).unwrap();
    assert!(send_signal(browser, "STOP"));
    let mut probe = Box::pin(host.probe());
    assert!(poll!(&mut probe).is_pending());
    // What node answers came after the probe was sent, and the probe is not answered still.
    for _ in 0..5 {
        soon("the ping", peer.request("ping", json!({})).unwrap()).await.unwrap();
        assert_eq!(soon("the list", peer.list_tools()).await.unwrap().len(), 25);
    }
    assert!(poll!(&mut probe).is_pending());
    assert!(send_signal(browser, "CONT"));
    assert!(soon("the probe after all", probe).await.unwrap());
}

// ---- several contexts on one host ------------------------------------------------------------------------------

#[tokio::test]
async fn contexts_of_one_host_share_a_browser_and_no_cookies() {
    let room = Room::enter().await;
    let host = room.start_host().await;
    let ((one, first), (other, second)) = (open(&host).await, open(&host).await);
    assert_ne!(one, other);
    let visit = async |peer: &Peer| {
        peer_said(peer, "browser_navigate", json!({ "url": room.site.url("/cookies") })).await.fine();
        peer_said(peer, "browser_snapshot", json!({})).await.fine().text
    };
    let cookie = "not-for-scripts";
    assert!(!visit(&first).await.contains(cookie));
    assert!(visit(&first).await.contains(cookie), "its own cookie comes back");
    let browser = browser_pid(host.pid()).unwrap();
    assert!(!visit(&second).await.contains(cookie), "the other context has none");
    assert_eq!(browser_pid(host.pid()).unwrap(), browser, "it needed no browser of its own");

    // Starting over in one leaves the other alone.
    soon("the reset", host.reset(one)).await.unwrap();
    assert!(!visit(&first).await.contains(cookie));
    assert!(visit(&second).await.contains(cookie));
}

#[tokio::test]
async fn exiting_ends_every_connection_of_the_host() {
    let room = Room::enter().await;
    let host = room.start_host().await;
    let ((_, first), (_, second)) = (open(&host).await, open(&host).await);
    peer_said(&first, "browser_navigate", json!({ "url": room.site.url("/links") })).await.fine();
    soon("the exit", host.exit()).await;
    for peer in [first, second] {
        let ended = soon("the end", peer.ended()).await;
        assert_eq!(ended.reason, "the browser host (node) exited with code 0");
    }
    let error = soon("the refusal", host.probe()).await.unwrap_err();
    assert!(matches!(error, HostError::Ended(_)), "{error:?}");
}

#[tokio::test]
async fn dropping_a_host_ends_the_calls_of_its_connections() {
    let room = Room::enter().await;
    let host = room.start_host().await;
    let (_, peer) = open(&host).await;
    let url = json!({ "url": room.site.url("/slow?ms=3600000") });
    let pending = peer.call_tool("browser_navigate", &url, None).unwrap();
    eventually("the browser to ask for the slow page", || room.site.hits("/slow") > 0).await;
    drop(host);
    let error = soon("the call to end", pending).await.unwrap_err();
    assert!(matches!(error, CallError::Ended(_)), "{error:?}");
}

#[tokio::test]
async fn closing_a_connection_ends_it_and_leaves_the_others() {
    let room = Room::enter().await;
    let host = room.start_host().await;
    let ((_, first), (_, second)) = (open(&host).await, open(&host).await);
    let url = json!({ "url": room.site.url("/links") });
    peer_said(&first, "browser_navigate", url.clone()).await.fine();
    first.close();
    assert_eq!(soon("the end", first.ended()).await.reason, "the browser context was closed");
    assert!(first.call_tool("browser_snapshot", &json!({}), None).is_err());
    peer_said(&second, "browser_navigate", url).await.fine();
}

#[tokio::test]
async fn dropping_an_upstream_whose_browser_hangs_ends_the_browser_too() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    room.navigate(&upstream, "/links").await.fine();
    let family = children_of(upstream.pid().unwrap());
    assert!(send_signal(browser_pid(upstream.pid().unwrap()).unwrap(), "STOP"));
    drop(upstream);
    for pid in family {
        gone(pid).await;
    }
}

#[tokio::test]
async fn a_browser_that_hangs_goes_with_a_host_that_was_killed() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    room.navigate(&upstream, "/links").await.fine();
    let node = upstream.pid().unwrap();
    let family = children_of(node);
    assert!(send_signal(browser_pid(node).unwrap(), "STOP"));
    assert!(send_signal(node, "KILL"));
    for pid in family {
        gone(pid).await;
    }
}
