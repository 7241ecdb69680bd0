//! Doing something in a page that is watched, and taking the browser over.

use serde_json::{Value, json};

use super::{Driven, at, coloured, serve};
use crate::browser_sessions_http::get;
use crate::rig::browser_permit;

/// A button and a field, far from the middle and from each other.
const PAGE: &str = "data:text/html,<title>0 times</title><body style='margin:0'>\
    <button style='position:absolute;left:900px;top:40px;width:120px;height:30px' \
    onclick='document.title = `${++window.n} times`'>Press</button>\
    <input style='position:absolute;left:100px;top:600px;width:300px;height:30px'>\
    <script>window.n = 0</script>";

#[test]
fn a_click_and_a_text_reach_the_page_and_the_record() {
    let _permit = browser_permit();
    let server = serve(&[]);
    let (mut agent, mut eyes) = (Driven::new(&server, "agent"), Driven::new(&server, "eyes"));
    agent.go(PAGE);
    eyes.go(&at(&server, "/sessions/agent"));
    eyes.wait("text('.word') === 'Live'");
    let press = |agent: &mut Driven, eyes: &mut Driven, selector: &str| {
        let place =
            agent.value(&format!("[box('{selector}'), {{ width: innerWidth, height: innerHeight }}]"));
        let picture = eyes.value("box('canvas')");
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{place} {picture}"));
        let along = |from: &str, length: &str| {
            let middle = number(&place[0][from]) + number(&place[0][length]) / 2.0;
            number(&picture[from]) + middle * number(&picture[length]) / number(&place[1][length])
        };
        let (x, y) = (along("x", "width"), along("y", "height"));
        eyes.call("browser_mouse_click_xy", json!({ "x": x, "y": y, "element": selector }));
    };
    press(&mut agent, &mut eyes, "button");
    agent.wait("document.title === '1 times'");
    press(&mut agent, &mut eyes, "input");
    agent.wait("document.activeElement.localName === 'input'");
    for key in ["o", "p", "e", "n", "Backspace"] {
        eyes.press(key);
    }
    agent.wait("one('input').value === 'ope'");
    // Escape twice brings the keyboard back; at once, for it is a matter of time.
    assert!(eyes.has("isSeen('.hint')"));
    let escape = "one('.keys').dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }))";
    eyes.value(&format!("({escape}, {escape})"));
    eyes.wait("!isSeen('.hint')");

    eyes.wait("text('.timeline').includes('Person typed')");
    let (_, list) = get(&server, "/api/calls?session_id=agent&limit=100");
    let of = |tool: &str| -> Vec<Value> {
        let calls = list["calls"].as_array().unwrap().iter();
        calls.filter(|call| call["tool"] == tool).map(|call| call["params"].clone()).collect()
    };
    assert_eq!(of("person_click").len(), 2, "{list}");
    let typed = of("person_type");
    assert!(!typed.is_empty() && typed.iter().all(|one| !one.to_string().contains("\"o")), "{typed:?}");
    assert_eq!(typed.iter().filter_map(|one| one["characters"].as_u64()).sum::<u64>(), 4, "{typed:?}");
}

#[test]
fn while_a_person_has_control_an_agents_call_waits() {
    let _permit = browser_permit();
    let server = serve(&[]);
    let (mut agent, mut eyes) = (Driven::new(&server, "agent"), Driven::new(&server, "eyes"));
    agent.go(&coloured("Red page", "rgb(200,0,0)"));
    eyes.go(&at(&server, "/sessions/agent"));
    eyes.wait("text('.word') === 'Live'");
    eyes.click("button", "Take over");
    eyes.wait("one('greenroom-live').dataset.control === 'mine'");
    eyes.wait_for_text(".banner", "You have control.");
    eyes.wait_for_text(".banner", "calls wait until you hand back");
    std::thread::scope(|scope| {
        let mut agent = Driven::new(&server, "agent");
        let waiting = scope.spawn(move || agent.go(&coloured("Blue page", "rgb(0,0,200)")));
        eyes.wait("text('.timeline .call.pending').includes('browser_navigate')");
        assert!(eyes.has("isColour(one('canvas'), 200, 0, 0)"));
        assert!(!waiting.is_finished());
        eyes.click("button", "Hand back");
        waiting.join().unwrap();
    });
    eyes.wait("one('greenroom-live').dataset.control === 'free' && !isSeen('.banner')");
    eyes.wait("isColour(one('canvas'), 0, 0, 200) && all('.timeline .pending').length === 0");
    eyes.wait(
        "text('.timeline').includes('Person took over') && text('.timeline').includes('Person handed back')",
    );

    // Somebody else's control is shown as theirs.
    eyes.click("button", "Take over");
    eyes.wait("one('greenroom-live').dataset.control === 'mine'");
    let mut others = Driven::new(&server, "other eyes");
    others.go(&at(&server, "/sessions/agent"));
    others.wait("one('greenroom-live').dataset.control === 'other' && one('.control').disabled");
    others.wait_for_text(".banner", "Another person has control since");
}
