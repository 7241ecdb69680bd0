//! The window over another page, in the mock chat.

use serde_json::{Value, json};

use super::{Driven, at, serve};
use crate::browser_sessions_http::{get, raw};
use crate::rig::browser_permit;

/// Where the window is: left, top, width, height.
fn place(eyes: &mut Driven) -> [f64; 4] {
    let value = eyes.value("box('.window')");
    ["x", "y", "width", "height"].map(|name| value[name].as_f64().unwrap_or_else(|| panic!("{value}")))
}

/// Drags the middle of an element by so much.
fn drag(eyes: &mut Driven, selector: &str, by: [f64; 2]) {
    let value = eyes.value(&format!("box('{selector}')"));
    let middle =
        |from: &str, length: &str| value[from].as_f64().unwrap() + value[length].as_f64().unwrap() / 2.0;
    let (x, y) = (middle("x", "width"), middle("y", "height"));
    let drag = json!({ "element": selector, "startX": x, "startY": y, "endX": x + by[0], "endY": y + by[1] });
    eyes.call("browser_mouse_drag_xy", drag);
}

#[track_caller]
fn assert_near(seen: [f64; 4], wanted: [f64; 4]) {
    let is_near = seen.iter().zip(wanted).all(|(seen, wanted)| (seen - wanted).abs() < 1.5);
    assert!(is_near, "the window is at {seen:?} and not at {wanted:?}");
}

#[track_caller]
fn wait_until_inside(eyes: &mut Driven) {
    eyes.wait(
        "(({ x, y, width, height }) => x >= 0 && y >= 0 && x + width <= innerWidth && y + height <= innerHeight)\
         (box('.window'))",
    );
}

#[test]
fn the_window_starts_a_browser_and_is_moved_resized_and_put_away() {
    let _permit = browser_permit();
    let server = serve(&[]);
    let mut eyes = Driven::new(&server, "eyes");
    eyes.go(&at(&server, "/demo"));
    eyes.resize(1200, 800);
    eyes.wait("isSeen('.window')");
    eyes.click("button", "Start browser");
    eyes.wait("text('.word') === 'Live'");
    eyes.wait_for_text("#talk", "Started a browser for this conversation");
    let (_, list) = get(&server, "/api/browser-sessions");
    let started = list["sessions"].as_array().unwrap().iter().find(|one| one["conversationId"] == "demo");
    assert_eq!(started.map(|one| &one["profileId"]), Some(&json!("visitor")), "{list}");
    wait_until_inside(&mut eyes);

    let [x, y, width, height] = place(&mut eyes);
    drag(&mut eyes, ".title", [-200.0, -150.0]);
    assert_near(place(&mut eyes), [x - 200.0, y - 150.0, width, height]);
    drag(&mut eyes, ".corner", [60.0, 40.0]);
    assert_near(place(&mut eyes), [x - 200.0, y - 150.0, width + 60.0, height + 40.0]);
    let large = place(&mut eyes);
    // Never out of reach, whichever way it is pulled.
    for by in [[-5000.0, -5000.0], [5000.0, 5000.0]] {
        drag(&mut eyes, ".title", by);
        wait_until_inside(&mut eyes);
        assert_eq!(place(&mut eyes)[2..], large[2..]);
    }
    drag(&mut eyes, ".corner", [-5000.0, -5000.0]);
    let [x, y, width, height] = place(&mut eyes);
    assert!(width >= 300.0 && height >= 200.0, "{width} × {height}");

    // The same with the keyboard alone.
    eyes.value("one('.grip').focus()");
    eyes.press("ArrowLeft");
    eyes.press("ArrowUp");
    assert_near(place(&mut eyes), [x - 16.0, y - 16.0, width, height]);
    eyes.value("one('.corner').focus()");
    eyes.press("ArrowRight");
    eyes.press("ArrowDown");
    let normal = [x - 16.0, y - 16.0, width + 16.0, height + 16.0];
    assert_near(place(&mut eyes), normal);

    eyes.click("button", "Minimise");
    eyes.wait("!isSeen('greenroom-live') && box('.window').height < 60");
    eyes.click("button", "Restore");
    eyes.wait("isSeen('greenroom-live')");
    assert_near(place(&mut eyes), normal);
    eyes.click("button", "Maximise");
    eyes.wait("box('.window').width > 1100 && box('.window').height > 700");
    eyes.click("button", "Restore size");
    eyes.wait("box('.window').width < 600");
    assert_near(place(&mut eyes), normal);
    eyes.resize(500, 500);
    wait_until_inside(&mut eyes);
    eyes.resize(1200, 800);
    eyes.wait("text('.word') === 'Live'");

    eyes.click("button", "Close");
    eyes.wait("!isSeen('.window') && one('#browser').ariaPressed === 'false'");
    eyes.click("button", "Browser");
    eyes.wait("isSeen('.window') && text('.word') === 'Live'");
    // It is where it was when the page is opened again.
    eyes.go(&at(&server, "/demo"));
    eyes.wait("isSeen('.window')");
    assert_near(place(&mut eyes), normal);

    // What it shows can be acted on here as well.
    let id = started.map_or(Value::Null, |one| one["sessionId"].clone());
    eyes.click("button", "Start browser");
    eyes.wait("text('.word') === 'Live'");
    assert_eq!(eyes.value("one('greenroom-preview').getAttribute('session')"), id, "the same as before");
    eyes.click("button", "Take over");
    eyes.wait("one('greenroom-live').dataset.control === 'mine'");

    // Even as small as it gets, it says that the session has ended and has the button for another.
    drag(&mut eyes, ".corner", [-5000.0, -5000.0]);
    let path = format!("/api/browser-sessions/{}", id.as_str().unwrap());
    assert_eq!(raw(&server, "DELETE", &path, b"").0, 204);
    eyes.wait_for_text(".cover", "This session has ended");
    let bottom = "((box) => box.y + box.height)";
    assert!(eyes.has(&format!("{bottom}(box('.cover .primary')) <= {bottom}(box('.stage'))")));
    eyes.click("button", "Start a new session");
    eyes.wait("text('.word') === 'Live'");
    assert_ne!(eyes.value("one('greenroom-preview').getAttribute('session')"), id);
}
