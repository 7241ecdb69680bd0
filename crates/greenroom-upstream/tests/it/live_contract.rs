//! What the host offers beside MCP, tried on the real server and the real Chromium.

use std::pin::pin;

use futures::poll;
use greenroom_core::config::{BrowserConfig, UpstreamConfig};
use greenroom_core::percent::escape;
use greenroom_upstream::driver::{PlaywrightDriver, SeatOptions};
use greenroom_upstream::host::HostError;
use greenroom_upstream::live::{
    Button, Cast, CastOptions, Dialog, Frame, ImageFormat, Input, Live, Modifier, PageState, Scale,
    ScreenshotOptions, Tab,
};
use greenroom_upstream::{Driver, Upstream};
use serde_json::{Value, json};

use crate::room::{Room, browser, said};
use crate::support::{launch, repeat_until, soon};

const LARGE: CastOptions = CastOptions { quality: 60, max_width: 1280 };
const SMALL: CastOptions = CastOptions { quality: 30, max_width: 320 };

/// An address that is the page itself.
fn page(html: &str) -> String {
    format!("data:text/html,{}", escape(html.as_bytes(), b""))
}

async fn show(upstream: &Upstream, html: &str) {
    said(upstream, "browser_navigate", json!({ "url": page(html) })).await.fine();
}

fn live(upstream: &Upstream) -> Live<'_> {
    upstream.live().expect("it runs in our host")
}

/// Waits for a state of the pages.
async fn until(upstream: &Upstream, what: &str, is_it: impl Fn(&PageState) -> bool) -> PageState {
    let mut state = live(upstream).state();
    let found = soon(what, state.wait_for(is_it)).await;
    found.unwrap().clone()
}

async fn until_title(upstream: &Upstream, title: &str) -> PageState {
    until(upstream, title, |state| current(state).is_some_and(|tab| tab.title == title)).await
}

fn current(state: &PageState) -> Option<&Tab> {
    state.tabs.iter().find(|tab| tab.is_current)
}

async fn evaluate(upstream: &Upstream, function: &str) -> String {
    let result = said(upstream, "browser_evaluate", json!({ "function": function })).await.fine();
    result.section("Result").trim_end().to_owned()
}

async fn run_in_host(upstream: &Upstream, code: &str) -> String {
    let result = said(upstream, "browser_run_code_unsafe", json!({ "code": code })).await.fine();
    result.section("Result").trim_end().to_owned()
}

async fn cast(upstream: &Upstream, options: CastOptions) -> Cast {
    soon("a screencast", live(upstream).cast(options)).await.unwrap()
}

async fn next(cast: &mut Cast) -> Frame {
    let frame = soon("a frame", cast.next()).await.expect("the context is there");
    assert!(frame.jpeg.starts_with(&[0xff, 0xd8]) && frame.jpeg.ends_with(&[0xff, 0xd9]), "not a JPEG");
    frame
}

/// What the current page looks like when it is at rest.
async fn look(upstream: &Upstream, options: CastOptions) -> Frame {
    next(&mut cast(upstream, options).await).await
}

/// Takes frames until one is this.
async fn until_frame(cast: &mut Cast, what: &str, expected: &Frame) {
    let coming = async { while next(cast).await.jpeg != expected.jpeg {} };
    soon(what, coming).await;
}

async fn input(upstream: &Upstream, input: Input) {
    soon("the input", live(upstream).input(&input)).await.unwrap();
}

fn click(x: f64, y: f64) -> Input {
    Input::Click { x, y, button: Button::Left, count: 1, modifiers: Vec::new() }
}

fn key(key: &str, modifiers: &[Modifier]) -> Input {
    Input::Key { key: key.to_owned(), modifiers: modifiers.to_vec() }
}

fn jpeg_size(jpeg: &[u8]) -> (u16, u16) {
    let mut at = 2;
    loop {
        let (marker, length) = (jpeg[at + 1], u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
        if (0xc0..=0xc2).contains(&marker) {
            let size = |from: usize| u16::from_be_bytes([jpeg[from], jpeg[from + 1]]);
            return (size(at + 7), size(at + 5));
        }
        at += 2 + usize::from(length);
    }
}

fn png_size(png: &[u8]) -> (u32, u32) {
    assert!(png.starts_with(b"\x89PNG"), "not a PNG");
    let size = |from: usize| u32::from_be_bytes(png[from..from + 4].try_into().unwrap());
    (size(16), size(20))
}

// ---- the state of the pages ------------------------------------------------------------------------------------

#[tokio::test]
async fn where_the_pages_are_is_told_without_a_call() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    assert_eq!(*live(&upstream).state().borrow(), PageState::default());
    room.navigate(&upstream, "/links").await.fine();
    let state = until_title(&upstream, "Links - Test site").await;
    let tab = Tab { url: room.site.url("/links"), title: "Links - Test site".to_owned(), is_current: true };
    assert_eq!(state, PageState { tabs: vec![tab], viewport: Some((1280, 720)), dialog: None });

    let size = json!({ "width": 700, "height": 500 });
    said(&upstream, "browser_resize", size).await.fine();
    until(&upstream, "the new size", |state| state.viewport == Some((700, 500))).await;

    said(&upstream, "browser_close", json!({})).await.fine();
    until(&upstream, "no pages", |state| state.tabs.is_empty()).await;
    room.navigate(&upstream, "/links").await.fine();
    until_title(&upstream, "Links - Test site").await;
}

#[tokio::test]
async fn a_page_that_goes_elsewhere_or_names_itself_while_loading_is_followed() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    let elsewhere = room.site.url("/items/7");
    let html = format!("<title>first</title><script>onload = () => location.href = '{elsewhere}'</script>");
    // The call may end before the page does.
    said(&upstream, "browser_navigate", json!({ "url": page(&html) })).await;
    let state = until_title(&upstream, "Item 7 - Test site").await;
    assert_eq!(current(&state).unwrap().url, elsewhere);

    show(&upstream, "<title>first</title><script>onload = () => document.title = 'second'</script>").await;
    until_title(&upstream, "second").await;
    // Within the document, and with no event at all.
    evaluate(&upstream, "() => { history.pushState({}, ''); document.title = 'third' }").await;
    until_title(&upstream, "third").await;
    evaluate(&upstream, "() => { document.title = 'fourth' }").await;
    until_title(&upstream, "fourth").await;
}

/// What the upstream lists: for each tab whether it is the current one, and where it is.
async fn listed(upstream: &Upstream) -> Vec<(bool, String)> {
    let list = said(upstream, "browser_tabs", json!({ "action": "list" })).await.fine();
    let lines = list.section("Result").lines().filter(|line| line.starts_with("- "));
    let read = |line: &str| {
        let url = line.rsplit_once('(').unwrap().1.trim_end_matches(')').to_owned();
        (line.contains("(current)"), url)
    };
    lines.map(read).collect()
}

#[tokio::test]
async fn the_tabs_are_those_of_the_upstream_and_the_current_one_is_its_own() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    room.navigate(&upstream, "/links").await.fine();
    let open = format!("() => {{ window.open('{}') }}", room.site.url("/items/1"));
    let tabs = async |arguments: Value| said(&upstream, "browser_tabs", arguments).await.fine();
    let agree = async |what: &str, count: usize| {
        let agreeing = async || {
            let list = listed(&upstream).await;
            let told = |state: &PageState| -> Vec<(bool, String)> {
                state.tabs.iter().map(|tab| (tab.is_current, tab.url.clone())).collect()
            };
            let state = live(&upstream).state();
            let agrees = told(&state.borrow()) == list && list.len() == count;
            agrees.then_some(list)
        };
        repeat_until(what, agreeing).await
    };
    agree("the first tab", 1).await;
    evaluate(&upstream, &open).await;
    let list = agree("a popup", 2).await;
    assert!(list[0].0, "a popup is not the current tab: {list:?}");
    tabs(json!({ "action": "new", "url": room.site.url("/form") })).await;
    assert!(agree("a new tab", 3).await[2].0);
    tabs(json!({ "action": "select", "index": 1 })).await;
    assert!(agree("another tab", 3).await[1].0);
    // The one after it takes its place; after the last one, the one before.
    tabs(json!({ "action": "close" })).await;
    assert!(agree("one tab less", 2).await[1].0);
    tabs(json!({ "action": "close" })).await;
    assert!(agree("two tabs less", 1).await[0].0);
}

#[tokio::test]
async fn a_dialog_shows_and_goes() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    let html = "<title>before</title><body style='margin:0'>\
        <button style='position:fixed;left:0;top:0;width:100px;height:100px' \
        onclick=\"document.title = confirm('Really?')\">ask</button>";
    show(&upstream, html).await;
    // The click is done although the page waits for an answer.
    input(&upstream, click(50.0, 50.0)).await;
    let state = until(&upstream, "the dialog", |state| state.dialog.is_some()).await;
    assert_eq!(state.dialog, Some(Dialog { kind: "confirm".to_owned(), message: "Really?".to_owned() }));
    let error = soon("the refusal", live(&upstream).input(&click(50.0, 50.0))).await.unwrap_err();
    assert!(error.to_string().contains("shows a dialog"), "{error}");
    said(&upstream, "browser_handle_dialog", json!({ "accept": true })).await.fine();
    until(&upstream, "no dialog", |state| state.dialog.is_none()).await;
    until_title(&upstream, "true").await;
    input(&upstream, click(500.0, 500.0)).await;
}

// ---- the screencast --------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_page_at_rest_gives_one_frame_and_the_next_when_something_changes() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    assert!(live(&upstream).has_cast());
    room.navigate(&upstream, "/links").await.fine();
    let mut cast = cast(&upstream, LARGE).await;
    let first = next(&mut cast).await;
    assert_eq!((jpeg_size(&first.jpeg), first.viewport), ((1280, 720), (1280, 720)));
    let second = {
        let mut waiting = pin!(cast.next());
        for _ in 0..5 {
            assert!(poll!(&mut waiting).is_pending(), "nothing has changed");
            said(&upstream, "browser_snapshot", json!({})).await.fine();
        }
        evaluate(&upstream, "() => { document.body.style.background = 'red' }").await;
        soon("the change", waiting).await.unwrap()
    };
    assert_ne!(first.jpeg, second.jpeg);
    assert!(first.captured <= second.captured);
}

#[tokio::test]
async fn a_frame_that_was_waited_for_in_vain_is_not_lost() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    room.navigate(&upstream, "/links").await.fine();
    let mut cast = cast(&upstream, LARGE).await;
    assert!(poll!(pin!(cast.next())).is_pending());
    let first = next(&mut cast).await;
    assert_eq!(first.jpeg, look(&upstream, LARGE).await.jpeg);
}

#[tokio::test]
async fn a_page_that_moves_gives_frame_after_frame_each_new() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    room.navigate(&upstream, "/animated").await.fine();
    let (mut large, mut small) = (cast(&upstream, LARGE).await, cast(&upstream, SMALL).await);
    let take = async |cast: &mut Cast, width: u16| {
        let mut last = next(cast).await;
        for _ in 0..20 {
            let frame = next(cast).await;
            assert_eq!((jpeg_size(&frame.jpeg).0, frame.viewport), (width, (1280, 720)));
            assert_ne!(frame.jpeg, last.jpeg);
            assert!(frame.captured >= last.captured);
            last = frame;
        }
    };
    // Side by side, each in its own size.
    tokio::join!(take(&mut large, 1280), take(&mut small, 320));
}

#[tokio::test]
async fn who_asks_late_gets_the_last_state_and_nothing_in_between_is_kept() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    show(&upstream, "<h1 id=n>0</h1>").await;
    let (mut slow, mut slower) = (cast(&upstream, LARGE).await, cast(&upstream, SMALL).await);
    next(&mut slow).await;
    // Far more changes than Chromium sends on its own, each of them drawn.
    let change = "async () => { for (let n = 1; n <= 30; n += 1) { document.querySelector('#n').textContent = n; \
        document.body.style.background = `rgb(${n * 8}, 80, 80)`; \
        await new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn))); } }";
    evaluate(&upstream, change).await;
    let (large, small) = (look(&upstream, LARGE).await, look(&upstream, SMALL).await);
    // The page is at rest, so the first frame is the last.
    assert_eq!(next(&mut slow).await.jpeg, large.jpeg);
    assert_eq!(next(&mut slower).await.jpeg, small.jpeg);
    for cast in [&mut slow, &mut slower] {
        let mut waiting = pin!(cast.next());
        assert!(poll!(&mut waiting).is_pending());
        said(&upstream, "browser_snapshot", json!({})).await.fine();
        assert!(poll!(&mut waiting).is_pending());
    }
    // And it goes on from there.
    evaluate(&upstream, "() => { document.body.style.background = 'green' }").await;
    let green = look(&upstream, LARGE).await;
    until_frame(&mut slow, "the change", &green).await;
}

#[tokio::test]
async fn a_cast_follows_the_current_tab_to_other_sites_and_into_a_new_context() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    // There is no page yet.
    let mut cast = cast(&upstream, LARGE).await;
    assert!(poll!(pin!(cast.next())).is_pending());
    room.navigate(&upstream, "/links").await.fine();
    let links = look(&upstream, LARGE).await;
    until_frame(&mut cast, "the first page", &links).await;

    let other_site = room.site.url("/form").replace("127.0.0.1", "localhost");
    said(&upstream, "browser_navigate", json!({ "url": other_site })).await.fine();
    let form = look(&upstream, LARGE).await;
    assert_ne!(form.jpeg, links.jpeg);
    until_frame(&mut cast, "the page of the other site", &form).await;

    let new = json!({ "action": "new", "url": room.site.url("/items/3") });
    said(&upstream, "browser_tabs", new).await.fine();
    let item = look(&upstream, LARGE).await;
    until_frame(&mut cast, "the new tab", &item).await;
    said(&upstream, "browser_tabs", json!({ "action": "select", "index": 0 })).await.fine();
    until_frame(&mut cast, "the first tab again", &form).await;
    said(&upstream, "browser_tabs", json!({ "action": "close" })).await.fine();
    until_frame(&mut cast, "the tab that is left", &item).await;

    said(&upstream, "browser_close", json!({})).await.fine();
    room.navigate(&upstream, "/links").await.fine();
    until_frame(&mut cast, "the page after the browser was closed", &links).await;
    soon("the reset", upstream.reset()).await;
    room.navigate(&upstream, "/items/3").await.fine();
    until_frame(&mut cast, "the page after a reset", &item).await;
}

#[tokio::test]
async fn a_cast_that_is_dropped_leaves_no_session_in_the_browser() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    room.navigate(&upstream, "/animated").await.fine();
    let count = "async page => { const context = page.context(); context.sessions = 0; \
        const make = context.newCDPSession.bind(context); \
        context.newCDPSession = async page => { const session = await make(page); context.sessions += 1; \
        const detach = session.detach.bind(session); \
        session.detach = async () => { await detach(); context.sessions -= 1; }; return session; }; return true; }";
    run_in_host(&upstream, count).await;
    let sessions = async || run_in_host(&upstream, "async page => page.context().sessions").await;
    let (mut one, mut two) = (cast(&upstream, LARGE).await, cast(&upstream, SMALL).await);
    next(&mut one).await;
    next(&mut two).await;
    assert_eq!(sessions().await, "2");
    drop(one);
    repeat_until("one to go", async || (sessions().await == "1").then_some(())).await;
    next(&mut two).await;
    drop(two);
    repeat_until("the other to go", async || (sessions().await == "0").then_some(())).await;
    soon("a picture", live(&upstream).screenshot(&ScreenshotOptions::default())).await.unwrap();
    assert_eq!(sessions().await, "0");
}

#[tokio::test]
async fn with_its_context_a_cast_ends_and_nobody_elses_does() {
    let room = Room::enter().await;
    let host = soon("a host", room.driver().launch_shared().unwrap()).await.unwrap();
    let seat = SeatOptions { folder: room.output(), ..SeatOptions::default() };
    let (one, two) =
        (soon("a seat", host.open(&seat)).await.unwrap(), soon("a seat", host.open(&seat)).await.unwrap());
    for upstream in [&one, &two] {
        room.navigate(upstream, "/animated").await.fine();
    }
    let (mut first, mut second) = (cast(&one, LARGE).await, cast(&two, LARGE).await);
    next(&mut first).await;
    let mut state = live(&one).state();
    soon("the end", one.close()).await;
    soon("the cast to end", async { while first.next().await.is_some() {} }).await;
    drop(one);
    soon("the state to end", async { while state.changed().await.is_ok() {} }).await;
    next(&mut second).await;
    drop(two);
    soon("the cast to end", async { while second.next().await.is_some() {} }).await;
}

// ---- input -----------------------------------------------------------------------------------------------------

#[tokio::test]
async fn what_a_person_does_reaches_the_page() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    let html = "<body style='margin:0;height:5000px'>\
        <input style='position:fixed;left:0;top:0;width:200px;height:50px'>\
        <div style='position:fixed;left:0;top:100px;width:200px;height:200px'></div>\
        <script>window.seen = []; const note = (...words) => seen.push(words.join(' ')); \
        const held = e => (e.shiftKey ? 'Shift ' : '') + (e.ctrlKey ? 'Control ' : ''); \
        const pad = document.querySelector('div'); \
        for (const type of ['mousedown', 'mouseup', 'click', 'dblclick', 'contextmenu']) \
        pad.addEventListener(type, e => note(held(e) + type, e.clientX, e.clientY, e.button)); \
        document.querySelector('input').addEventListener('keydown', e => note(held(e) + e.key)); \
        </script>";
    show(&upstream, html).await;
    let seen = async || evaluate(&upstream, "() => seen.splice(0).join(', ')").await;
    let value = async || evaluate(&upstream, "() => document.querySelector('input').value").await;

    input(&upstream, click(60.0, 150.0)).await;
    assert_eq!(seen().await, "\"mousedown 60 150 0, mouseup 60 150 0, click 60 150 0\"");
    let (x, y, modifiers) = (60.0, 150.0, vec![Modifier::Shift]);
    input(&upstream, Input::Click { x, y, button: Button::Right, count: 1, modifiers }).await;
    assert_eq!(
        seen().await,
        "\"Shift mousedown 60 150 2, Shift contextmenu 60 150 2, Shift mouseup 60 150 2\""
    );
    input(&upstream, Input::Click { x, y, button: Button::Left, count: 2, modifiers: Vec::new() }).await;
    assert!(seen().await.contains("dblclick 60 150 0"));
    let (button, modifiers) = (Button::Left, Vec::new());
    input(&upstream, Input::Down { x, y, button, modifiers: modifiers.clone() }).await;
    input(&upstream, Input::Move { x: 70.0, y: 160.0 }).await;
    input(&upstream, Input::Up { x: 80.0, y: 170.0, button, modifiers }).await;
    assert_eq!(seen().await, "\"mousedown 60 150 0, mouseup 80 170 0, click 80 170 0\"");

    input(&upstream, click(100.0, 25.0)).await;
    input(&upstream, Input::Type { text: "aö!".to_owned() }).await;
    assert_eq!((value().await, seen().await), ("\"aö!\"".to_owned(), "\"a, !\"".to_owned()));
    input(&upstream, key("ß", &[])).await;
    input(&upstream, key("+", &[])).await;
    input(&upstream, key("Backspace", &[])).await;
    assert_eq!(value().await, "\"aö!ß\"");
    input(&upstream, key("a", &[Modifier::Control])).await;
    let long = "long ".repeat(200);
    input(&upstream, Input::Type { text: long.clone() }).await;
    assert_eq!(value().await, format!("\"{long}\""));
    assert!(seen().await.contains("Control a"));
    let error = soon("the refusal", live(&upstream).input(&key("NoSuchKey", &[]))).await.unwrap_err();
    assert!(matches!(&error, HostError::Refused(why) if why.contains("NoSuchKey")), "{error:?}");

    input(&upstream, Input::Wheel { x: 60.0, y: 150.0, dx: 0.0, dy: 300.0 }).await;
    repeat_until("the page to scroll", async || {
        (evaluate(&upstream, "() => scrollY").await != "0").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_person_can_go_to_pages_and_back() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    let error = soon("the refusal", live(&upstream).input(&Input::Back)).await.unwrap_err();
    assert!(matches!(&error, HostError::Refused(why) if why == "no page is open"), "{error:?}");
    room.navigate(&upstream, "/links").await.fine();
    input(&upstream, Input::Navigate { url: room.site.url("/items/1") }).await;
    until_title(&upstream, "Item 1 - Test site").await;
    input(&upstream, Input::Back).await;
    until_title(&upstream, "Links - Test site").await;
    input(&upstream, Input::Forward).await;
    until_title(&upstream, "Item 1 - Test site").await;
    let before = room.site.hits("/items/1");
    input(&upstream, Input::Reload).await;
    assert!(room.site.hits("/items/1") > before);
    // An address without a scheme is taken as the upstream takes it.
    let (_, bare) =
        room.site.url("/items/2").split_once("://").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let bare = bare.replace("127.0.0.1", "localhost");
    input(&upstream, Input::Navigate { url: bare }).await;
    until_title(&upstream, "Item 2 - Test site").await;
    // The upstream goes on from where the person is.
    let snapshot = said(&upstream, "browser_snapshot", json!({})).await.fine();
    assert!(snapshot.section("Page").contains("/items/2"), "{}", snapshot.text);
    let file = Input::Navigate { url: "file:///etc/hostname".to_owned() };
    let error = soon("the refusal", live(&upstream).input(&file)).await.unwrap_err();
    assert!(matches!(error, HostError::Refused(_)), "{error:?}");
}

// ---- pictures --------------------------------------------------------------------------------------------------

#[tokio::test]
async fn pictures_come_in_the_size_and_format_that_was_asked_for() {
    let room = Room::enter().await;
    let (device, viewport) = (Some("Pixel 7".to_owned()), Some((400, 300)));
    let upstream = room.launch_for(BrowserConfig { device, viewport, ..browser() }).await;
    show(&upstream, "<meta name=viewport content='width=device-width'><body style='margin:0;height:1000px'>")
        .await;
    let take = async |options: ScreenshotOptions| {
        soon("a picture", live(&upstream).screenshot(&options)).await.unwrap()
    };
    let plain = ScreenshotOptions::default();
    assert_eq!(png_size(&take(plain).await), (400, 300));
    assert_eq!(png_size(&take(ScreenshotOptions { full_page: true, ..plain }).await), (400, 1000));
    let (width, height) = png_size(&take(ScreenshotOptions { scale: Scale::Device, ..plain }).await);
    assert!(width > 800 && height > 600, "{width} x {height}");
    let jpeg = ScreenshotOptions { format: ImageFormat::Jpeg, quality: Some(40), ..plain };
    assert_eq!(jpeg_size(&take(jpeg).await), (400, 300));
    // A frame says what it shows in the pixels that a click is given in.
    assert_eq!(look(&upstream, SMALL).await.viewport, (400, 300));
}

#[tokio::test]
async fn a_page_can_be_had_as_pdf() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    let error = soon("the refusal", live(&upstream).pdf()).await.unwrap_err();
    assert!(matches!(&error, HostError::Refused(why) if why == "no page is open"), "{error:?}");
    room.navigate(&upstream, "/links").await.fine();
    let pdf = soon("a PDF", live(&upstream).pdf()).await.unwrap();
    assert!(pdf.starts_with(b"%PDF"));
}

#[tokio::test]
async fn a_picture_over_the_limit_fails_alone() {
    let room = Room::enter().await;
    let settings = UpstreamConfig { max_message_bytes: 16 * 1024, ..room.settings() };
    let upstream = launch(&PlaywrightDriver::new(browser(), &settings, room.setup())).await;
    room.navigate(&upstream, "/links").await.fine();
    let plain = ScreenshotOptions::default();
    let error = soon("the refusal", live(&upstream).screenshot(&plain)).await.unwrap_err();
    assert!(matches!(&error, HostError::Refused(why) if why.contains("the limit is 16384")), "{error:?}");
    // Frames are asked for one by one, so they are not limited.
    look(&upstream, LARGE).await;
}

#[tokio::test]
async fn a_page_that_hangs_does_not_answer_and_says_so() {
    let room = Room::enter().await;
    let upstream = room.launch().await;
    show(&upstream, "<title>it hangs</title><script>setTimeout(() => { for (;;); }, 500)</script>").await;
    until_title(&upstream, "it hangs").await;
    let text = Input::Type { text: "hello".to_owned() };
    let typing = async || live(&upstream).input(&text).await.err().map(|error| error.to_string());
    let error = repeat_until("the page to hang", typing).await;
    assert_eq!(error, "the browser did not finish the input within 5 s");
}
