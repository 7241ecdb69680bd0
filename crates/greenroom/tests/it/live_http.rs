//! Sessions that are watched and stepped into, by server-sent events and over the WebSocket.

use std::net::TcpStream;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use greenroom_testkit::{EventSource, McpHttp, process_alive, send_signal, wait_until};
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use crate::browser_sessions_http::{
    PATIENCE, SESSIONS, call, get, navigate, raw, seen, session, value, wait_for_status, with_browser,
};
use crate::rig::Server;

/// What came down.
#[derive(Debug)]
enum Seen {
    Told(Value),
    Picture(Vec<u8>),
    Closed(Option<u16>),
}

/// Somebody who watches over the WebSocket. Pings are answered while it reads.
struct Watcher {
    socket: WebSocket<TcpStream>,
    /// The last state that was told.
    state: Value,
}

impl Watcher {
    fn connect(server: &Server, id: &str, query: &str) -> Self {
        let authority = server.url.strip_prefix("http://").unwrap().trim_end_matches("/mcp");
        let stream = TcpStream::connect(authority).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let address = format!("ws://{authority}/api/browser-sessions/{id}/live{query}");
        let (socket, response) = tungstenite::client(address, stream).unwrap();
        assert_eq!(response.status(), 101);
        Self { socket, state: Value::Null }
    }

    fn next(&mut self) -> Seen {
        loop {
            match self.socket.read().unwrap() {
                Message::Text(text) => {
                    let told: Value = serde_json::from_str(&text).unwrap();
                    if told["type"] == "state" {
                        self.state = told.clone();
                    }
                    return Seen::Told(told);
                }
                Message::Binary(bytes) => return Seen::Picture(bytes.to_vec()),
                Message::Close(frame) => return Seen::Closed(frame.map(|frame| frame.code.into())),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }

    /// The next message of which this holds; everything before it is dropped.
    fn find(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            match self.next() {
                Seen::Told(told) if is_it(&told) => return told,
                Seen::Told(_) | Seen::Picture(_) => {}
                Seen::Closed(code) => panic!("closed with {code:?} before {what}"),
            }
        }
    }

    /// The state of which this holds. It may have been told before an answer that was waited for.
    fn state(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        if !self.state.is_null() && is_it(&self.state) {
            return self.state.clone();
        }
        self.find(what, |told| told["type"] == "state" && is_it(told))
    }

    fn picture(&mut self) -> (Value, Vec<u8>) {
        let head = self.find("a picture", |told| told["type"] == "frame");
        match self.next() {
            Seen::Picture(bytes) => (head, bytes),
            other => panic!("a frame and then {other:?}"),
        }
    }

    fn closed(&mut self) -> Option<u16> {
        loop {
            if let Seen::Closed(code) = self.next() {
                return code;
            }
        }
    }

    fn send(&mut self, message: &Value) {
        self.socket.send(Message::text(message.to_string())).unwrap();
    }

    /// Asks for something and gives the answer.
    fn ask(&mut self, mut message: Value) -> Value {
        let id = json!(format!("ask-{message}"));
        message["id"] = id.clone();
        self.send(&message);
        self.find("the answer", |told| told["id"] == id)
    }

    fn done(&mut self, message: Value) {
        let answer = self.ask(message);
        assert_eq!(answer["type"], "done", "{answer}");
    }
}

fn events(server: &Server, path: &str, headers: &[(&str, &str)]) -> EventSource {
    EventSource::open(&server.url.replace("/mcp", path), headers, PATIENCE)
}

/// Tools and arguments of what is on record of a session, the oldest first.
fn record(server: &Server, id: &str) -> Vec<(String, Value)> {
    let (_, list) = get(server, &format!("/api/calls?session_id={id}&limit=1000"));
    let calls = list["calls"].as_array().unwrap().iter().rev();
    calls.map(|call| (call["tool"].as_str().unwrap().to_owned(), call["params"].clone())).collect()
}

/// Where an element is in the viewport.
fn place(server: &Server, id: &str, selector: &str) -> (f64, f64) {
    let expression = format!(
        "(() => {{ const r = document.querySelector('{selector}').getBoundingClientRect(); \
         return `@${{r.x + r.width / 2}},${{r.y + r.height / 2}}@`; }})()"
    );
    let text = value(server, id, &expression);
    let (x, y) = text.split('@').nth(1).unwrap().split_once(',').unwrap();
    (x.parse().unwrap(), y.parse().unwrap())
}

#[test]
fn events_show_the_page_until_the_session_ends() {
    with_browser(&[], |server, site| {
        let id = session(server, "c", &json!({ "viewport": { "width": 800, "height": 600 } }));
        navigate(server, &id, &site.url("/static-text"));
        let path = format!("/api/browser-sessions/{id}/screenshots");
        let stream = events(server, &path, &[]);
        let headers = stream.headers();
        assert!(headers.get("Content-Type").unwrap().starts_with("text/event-stream"));
        assert_eq!(stream.next_event().unwrap().retry.as_deref(), Some("2000"));
        let state = stream.next_event().unwrap();
        assert_eq!((state.name.as_str(), &state.data["sessionId"]), ("state", &json!(id)), "{state:?}");
        assert_eq!((&state.data["viewers"], &state.data["status"]), (&json!(1), &json!("running")));
        let shot = stream.find_event("a picture", |event| event.name == "screenshot");
        assert_eq!(shot.data["format"], "jpeg");
        assert!(shot.data["timestamp"].as_str().unwrap().ends_with('Z'), "{:?}", shot.data["timestamp"]);
        let jpeg = STANDARD.decode(shot.data["image"].as_str().unwrap()).unwrap();
        assert!(jpeg.starts_with(b"\xff\xd8"));
        let sequence: u64 = shot.id.as_deref().unwrap().parse().unwrap();

        // Somebody who comes back has that picture, and gets the next one.
        let back = events(server, &path, &[("Last-Event-ID", shot.id.as_deref().unwrap())]);
        let state = back.find_event("the state", |event| event.name == "state");
        assert_eq!(state.data["status"], "running");
        navigate(server, &id, &site.url("/form"));
        let next = back.find_event("a new picture", |event| event.name == "screenshot");
        assert!(next.id.as_deref().unwrap().parse::<u64>().unwrap() > sequence, "{:?}", next.id);
        assert_ne!(next.data["image"], shot.data["image"]);
        let url = json!(site.url("/form"));
        let moved = stream.find_event("the new address", move |event| event.data["currentUrl"] == url);
        assert_eq!(moved.name, "state");

        assert_eq!(raw(server, "DELETE", &format!("/api/browser-sessions/{id}"), b"").0, 204);
        for stream in [&stream, &back] {
            let last = stream.find_event("the end", |event| event.data["status"] == "stopped");
            assert_eq!(last.name, "state");
            assert!(stream.next_event().is_none(), "nothing comes after the end");
        }
        // Whoever comes too late hears that, and no more.
        let late = events(server, &path, &[]);
        let told = late.find_event("the state", |event| event.name == "state");
        assert_eq!(told.data["status"], "stopped");
        assert!(late.next_event().is_none());
    });
}

#[test]
fn a_person_sees_the_page_and_steps_in() {
    with_browser(&[], |server, site| {
        let id = session(server, "c", &json!({ "viewport": { "width": 800, "height": 600 } }));
        navigate(server, &id, &site.url("/changing"));
        let add = place(server, &id, "#add");
        let mut person = Watcher::connect(server, &id, "?maxWidth=400&quality=30&interval=50");
        let state = person.state("the state", |_| true);
        assert_eq!((&state["session"]["sessionId"], &state["yours"]), (&json!(id), &json!(false)), "{state}");
        let (head, jpeg) = person.picture();
        assert_eq!((&head["width"], &head["height"]), (&json!(800), &json!(600)), "{head}");
        assert!(head["capturedAt"].as_str().unwrap().ends_with('Z'), "{head}");
        assert!(jpeg.starts_with(b"\xff\xd8"));
        let (next, _) = person.picture();
        assert!(next["sequence"].as_u64() > head["sequence"].as_u64(), "{head} {next}");
        person.done(json!({ "type": "view", "quality": 90, "maxWidth": 800, "interval": 100 }));
        let wrong = person.ask(json!({ "type": "view", "quality": 500 }));
        assert_eq!(
            (&wrong["type"], &wrong["error"]),
            (&json!("error"), &json!("invalid_request")),
            "{wrong}"
        );

        person.send(&json!({ "type": "move", "x": add.0 - 5.0, "y": add.1 }));
        person.done(json!({ "type": "click", "x": add.0, "y": add.1 }));
        assert!(value(server, &id, "document.getElementById('rows').rows.length").contains('2'));
        person.done(json!({ "type": "wheel", "x": add.0, "y": add.1, "dx": 0, "dy": 40 }));

        person.done(json!({ "type": "navigate", "url": site.url("/form") }));
        let url = json!(site.url("/form"));
        person.state("the new address", |told| told["session"]["currentUrl"] == url);
        let field = place(server, &id, "#name");
        person.done(json!({ "type": "click", "x": field.0, "y": field.1 }));
        person.done(json!({ "type": "type", "text": "Grüße" }));
        person.done(json!({ "type": "key", "key": "!" }));
        assert!(value(server, &id, "document.getElementById('name').value").contains("Grüße!"));
        person.done(json!({ "type": "key", "key": "a", "modifiers": ["Control"] }));
        person.done(json!({ "type": "key", "key": "Delete" }));
        assert!(value(server, &id, "`@${document.getElementById('name').value}@`").contains("@@"));
        person.done(json!({ "type": "back" }));
        person.state("the old address", |told| told["session"]["currentUrl"] != url);
        person.done(json!({ "type": "forward" }));
        person.done(json!({ "type": "reload" }));

        call(server, &id, "browser_tabs", &json!({ "action": "new" }));
        person
            .state("two tabs", |told| told["session"]["tabs"].as_array().is_some_and(|tabs| tabs.len() == 2));
        person.done(json!({ "type": "tab", "index": 0 }));
        person.state("the first tab", |told| told["session"]["tabs"][0]["current"] == true);
        navigate(server, &id, &site.url("/dialogs"));
        let confirm = place(server, &id, "#confirm");
        person.send(&json!({ "type": "click", "x": confirm.0, "y": confirm.1 }));
        let state = person.state("the dialog", |told| told["session"]["dialog"].is_object());
        let dialog = json!({ "kind": "confirm", "message": "Do you agree?" });
        assert_eq!(state["session"]["dialog"], dialog);
        person.done(json!({ "type": "dialog", "accept": true }));
        person.state("no dialog", |told| told["session"].get("dialog").is_none());
        assert!(
            value(server, &id, "document.getElementById('result').textContent").contains("confirm: true")
        );

        wait_until("all is on record", PATIENCE, || {
            let tools: Vec<_> = record(server, &id).into_iter().map(|(tool, _)| tool).collect();
            let wanted = [
                "person_click",
                "person_scroll",
                "person_navigate",
                "person_type",
                "person_key",
                "person_back",
                "person_forward",
                "person_reload",
                "person_tab",
                "person_dialog",
            ];
            wanted.iter().all(|tool| tools.iter().any(|known| known == tool))
        });
        let record = record(server, &id);
        let typed = record.iter().find(|(tool, _)| tool == "person_type").unwrap();
        assert_eq!(typed.1, json!({ "characters": 5 }));
        let clicked = record.iter().find(|(tool, _)| tool == "person_click").unwrap();
        assert_eq!(clicked.1, json!({ "x": add.0.round(), "y": add.1.round() }));
        assert!(!record.iter().any(|(_, params)| params.to_string().contains("Grü")), "{record:?}");

        assert_eq!(raw(server, "DELETE", &format!("/api/browser-sessions/{id}"), b"").0, 204);
        let gone = person.find("the end", |told| told["type"] == "gone");
        assert!(gone["message"].as_str().unwrap().contains("stopped"), "{gone}");
        assert_eq!(person.closed(), Some(4404));
        let mut late = Watcher::connect(server, &id, "");
        late.find("the end", |told| told["type"] == "gone");
        assert_eq!(late.closed(), Some(4404));
    });
}

#[test]
fn who_does_not_answer_slows_nobody_and_is_shown_the_newest_later() {
    with_browser(&[], |server, site| {
        let id = session(server, "c", &json!({}));
        navigate(server, &id, &site.url("/animated"));
        let mut stalled = Watcher::connect(server, &id, "?interval=16");
        let mut live = Watcher::connect(server, &id, "?interval=16");
        let (first, _) = live.picture();
        let mut last = first;
        for _ in 0..100 {
            last = live.picture().0;
        }
        // It reads only now: two pictures, as it has answered none, and then the newest.
        let sequence = |head: &Value| head["sequence"].as_u64().unwrap();
        let mut waiting = Vec::new();
        while waiting.last().is_none_or(|newest| *newest < sequence(&last)) {
            waiting.push(sequence(&stalled.picture().0));
        }
        assert!(waiting.len() <= 3, "{waiting:?} and {last}");
        // Nobody watches, and nothing is taken.
        drop((stalled, live));
        wait_until("nobody watches", PATIENCE, || seen(server, &id)["viewers"] == 0);
        let mut again = Watcher::connect(server, &id, "?interval=16");
        let before = sequence(&again.picture().0);
        drop(again);
        wait_until("nobody watches", PATIENCE, || seen(server, &id)["viewers"] == 0);
        // The page moves all the time, and an agent has its say meanwhile.
        for _ in 0..5 {
            value(server, &id, "new Promise(done => setTimeout(done, 100))");
        }
        let mut again = Watcher::connect(server, &id, "?interval=16");
        assert!(sequence(&again.picture().0) <= before + 3, "pictures were taken that nobody saw");
    });
}

#[test]
fn while_a_person_has_control_the_calls_of_agents_wait() {
    let server = Server::fake("", &[SESSIONS, ("GREENROOM_CALL_TIMEOUT", "3000")]);
    let id = session(&server, "c", &json!({}));
    wait_for_status(&server, &id, "running");
    let (mut person, mut other) = (Watcher::connect(&server, &id, ""), Watcher::connect(&server, &id, ""));
    person.done(json!({ "type": "take" }));
    // Both hear of it, and each whose it is.
    let mine = person.state("control", |told| told["session"]["control"].is_object());
    let theirs = other.state("control", |told| told["session"]["control"].is_object());
    assert_eq!((&mine["yours"], &theirs["yours"]), (&json!(true), &json!(false)));
    assert_eq!(mine["session"]["control"], theirs["session"]["control"]);
    assert!(seen(&server, &id)["control"]["since"].as_str().unwrap().ends_with('Z'));

    let endpoint = server.url.replace("/mcp", &format!("/sessions/{id}/mcp"));
    let echo = |text: &str| json!({ "name": "echo", "arguments": { "text": text }, "_meta": { "progressToken": "p" } });
    let answer = std::thread::scope(|scope| {
        let agent = scope.spawn(|| {
            let mut agent = McpHttp::connect(&endpoint).with_timeout(PATIENCE);
            agent.initialize();
            let answer = agent.request("tools/call", echo("at last"));
            (answer, agent.extras().to_vec())
        });
        wait_until("the call waits", PATIENCE, || seen(&server, &id)["busy"] == true);
        assert_eq!(seen(&server, &id)["calls"], 0);
        person.done(json!({ "type": "hand_back" }));
        agent.join().unwrap()
    });
    assert_eq!(answer.0["result"]["content"][0]["text"], "at last", "{answer:?}");
    let reports: Vec<_> = answer.1.iter().filter_map(|extra| extra["params"]["message"].as_str()).collect();
    assert!(reports.iter().any(|report| report.contains("A person has control")), "{answer:?}");
    person.state("no control", |told| told["session"].get("control").is_none() && told["yours"] == false);
    other.state("no control", |told| told["session"].get("control").is_none());
    // Nobody can give back what is not theirs.
    let refused = other.ask(json!({ "type": "hand_back" }));
    assert_eq!((&refused["type"], &refused["error"]), (&json!("error"), &json!("conflict")), "{refused}");

    // One takes it from another.
    person.done(json!({ "type": "take" }));
    other.done(json!({ "type": "take" }));
    person.state("it is theirs", |told| told["session"]["control"].is_object() && told["yours"] == false);
    let mut agent = McpHttp::connect(&endpoint).with_timeout(PATIENCE);
    agent.initialize();
    let failed = agent.request("tools/call", echo("never"));
    assert!(failed.to_string().contains("A person has control"), "{failed}");
    drop((person, other));
    let taken: Vec<_> = record(&server, &id).into_iter().map(|(tool, _)| tool).collect();
    let count = |tool: &str| taken.iter().filter(|known| *known == tool).count();
    assert_eq!((count("person_take_over"), count("person_hand_back")), (3, 2), "{taken:?}");
    // A connection that is lost gives control back after a while.
    wait_until("control goes back", PATIENCE, || seen(&server, &id).get("control").is_none());
    assert_eq!(agent.call_tool("echo", json!({ "text": "again" }))["content"][0]["text"], "again");
}

#[test]
fn what_is_wrong_with_a_message_is_said_and_the_connection_stays() {
    let server = Server::fake("", &[SESSIONS]);
    let id = session(&server, "c", &json!({}));
    wait_for_status(&server, &id, "running");
    let mut person = Watcher::connect(&server, &id, "");
    for (message, answered) in [
        ("nothing", None),
        ("[1]", None),
        (r#"{"type":"fly","id":7}"#, Some(json!(7))),
        (r#"{"type":"click","id":"a","x":1}"#, Some(json!("a"))),
        (r#"{"type":"move","x":1,"y":1,"z":1,"id":1.5}"#, Some(json!(1.5))),
    ] {
        person.socket.send(Message::text(message)).unwrap();
        let error = person.find("an error", |told| told["type"] == "error");
        assert_eq!(
            (error.get("id"), &error["error"]),
            (answered.as_ref(), &json!("invalid_request")),
            "{error}"
        );
    }
    person.socket.send(Message::binary(vec![1, 2, 3])).unwrap();
    person.find("an error", |told| told["type"] == "error");
    // This kind of browser has no place for a hand.
    let refused = person.ask(json!({ "type": "click", "x": 1, "y": 1 }));
    assert_eq!((&refused["type"], &refused["error"]), (&json!("error"), &json!("conflict")), "{refused}");
    // An error without an id is told too.
    person.send(&json!({ "type": "back" }));
    assert!(person.find("an error", |told| told["type"] == "error").get("id").is_none());
    person.done(json!({ "type": "take" }));
    person.socket.send(Message::text("x".repeat(70_000))).unwrap();
    assert_eq!(person.closed(), Some(1009));
}

#[test]
fn a_stop_closes_what_is_open_and_waits_for_nobody() {
    let server = Server::fake("", &[SESSIONS, ("GREENROOM_LOG", "debug")]);
    let id = session(&server, "c", &json!({}));
    wait_for_status(&server, &id, "running");
    let mut person = Watcher::connect(&server, &id, "");
    person.state("the state", |_| true);
    let shots = events(&server, &format!("/api/browser-sessions/{id}/screenshots"), &[]);
    let all = events(&server, "/api/events", &[]);
    assert!(shots.next_event().is_some() && all.next_event().is_some());
    send_signal(server.pid(), "TERM");
    assert_eq!(person.closed(), Some(1012));
    for stream in [&shots, &all] {
        while stream.next_event().is_some() {}
    }
    wait_until("the server is gone", PATIENCE, || !process_alive(server.pid()));
    assert!(!server.log().contains("connections that stayed open"), "{}", server.log());
}
