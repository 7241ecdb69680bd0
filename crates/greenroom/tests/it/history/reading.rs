//! Reading pages from the record in small pieces.

use greenroom_testkit::wait_until;
use serde_json::{Value, json};

use super::{Agent, Archive, House, PATIENCE, POOL, connected, pool};

/// A page of `get_content` and where the next one begins.
fn page(agent: &mut impl Agent, arguments: Value) -> (String, Option<u64>) {
    let result = agent.call("get_content", arguments);
    (super::fine(&result), result["_meta"]["greenroom/nextOffset"].as_u64())
}

#[test]
fn a_page_is_searched_paged_queried_and_compared() {
    let house = House::new(&[]);
    let mut agent = house.client();
    let visit = |path: &str| json!({ "sessionId": "a", "url": house.site.url(path) });
    let id = agent.reference("browser_navigate", visit("/form"));
    let snapshot = house.archive.reader().snapshot(super::parse(&id)).unwrap().unwrap();
    let lines: Vec<_> = snapshot.lines().collect();

    // The words around a word, each line with its number.
    let at = lines.iter().position(|line| line.contains("textbox \"E-mail\"")).unwrap();
    let search =
        json!({ "ref_id": id, "search_for": "TEXTBOX \"e-mail\"", "before_lines": 2, "after_lines": 1 });
    let around = agent.content(search);
    let expected = format!(
        "{}- {}\n{}- {}\n{at}: {}\n{}- {}",
        at - 2,
        lines[at - 2],
        at - 1,
        lines[at - 1],
        lines[at],
        at + 1,
        lines[at + 1]
    );
    assert_eq!(around, expected);
    assert_eq!(agent.content(json!({ "ref_id": id, "search_for": "no such word" })), "");

    // Page by page, twice the same, and together everything.
    let read_all = |agent: &mut greenroom_testkit::McpHttp| {
        let (mut pages, mut next) = (Vec::new(), Some(0));
        while let Some(offset) = next {
            let (text, following) = page(agent, json!({ "ref_id": id, "offset": offset, "limit": 7 }));
            pages.push(text);
            next = following;
        }
        pages
    };
    let pages = read_all(&mut agent);
    assert_eq!(pages.concat(), snapshot);
    agent.call("browser_navigate", visit("/links"));
    assert_eq!(read_all(&mut agent), pages, "whatever the browser does");

    // Over the tree, and over all elements.
    let flat = json!({ "ref_id": id, "query": "[?role=='textbox'].name", "flatten": true });
    let names: Value = serde_json::from_str(&agent.content(flat.clone())).unwrap();
    assert_eq!(names, json!(["Name", "E-mail", "Password", "Message"]));
    let tree = json!({ "ref_id": id, "query": "[?role=='textbox'].name" });
    assert_eq!(serde_json::from_str::<Value>(&agent.content(tree)).unwrap(), json!([]), "they are deeper");
    let (mut yaml, mut some) = (flat.clone(), flat);
    yaml["format"] = "yaml".into();
    assert_eq!(agent.content(yaml), "- \"Name\"\n- \"E-mail\"\n- \"Password\"\n- \"Message\"");
    some["offset"] = 1.into();
    some["limit"] = 2.into();
    let (text, next) = page(&mut agent, some.clone());
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!(["E-mail", "Password"]));
    assert_eq!(next, Some(3));
    some["offset"] = 4.into();
    let message = agent.complaint("get_content", some);
    assert!(message.contains("past the end"), "{message}");
    for query in ["[?role==", "nonsense(@)", "[].name | "] {
        let message = agent.complaint("get_content", json!({ "ref_id": id, "query": query }));
        assert!(message.contains("The query is not right"), "{query}: {message}");
    }
    let json: Value =
        serde_json::from_str(&agent.content(json!({ "ref_id": id, "format": "json" }))).unwrap();
    assert!(json.to_string().contains("\"Favourite colour\""), "{json}");
    assert_eq!(agent.content(json!({ "ref_id": id, "format": "yaml" })), snapshot, "which is a plain read");

    // What the call said, rather than what the page showed.
    let result = agent.content(json!({ "ref_id": id, "part": "result", "offset": 0 }));
    assert!(result.contains("### Page") && result.contains("Page URL"), "{result}");

    // By the session: what it has shown last.
    let latest = agent.content(json!({ "sessionId": "a", "offset": 0 }));
    assert!(latest.contains("link") && !latest.contains("textbox"), "{latest}");

    // What changed between two calls, line by line.
    let before = agent.reference("browser_navigate", visit("/form"));
    let target = {
        let found = agent.content(json!({ "ref_id": before, "search_for": "checkbox" }));
        found.split_once("[ref=").unwrap().1.split(']').next().unwrap().to_owned()
    };
    let click = json!({ "sessionId": "a", "target": target, "element": "News" });
    let after = agent.reference("browser_click", click);
    let changes = agent.content(json!({ "ref_id": after, "since": before }));
    let has =
        |mark: char, words: &str| changes.lines().any(|line| line.starts_with(mark) && line.contains(words));
    assert!(has('+', "[checked]") && !has('-', "[checked]") && has('-', "checkbox"), "{changes}");
    assert!(!changes.contains("textbox"), "{changes}");
    assert_eq!(agent.content(json!({ "ref_id": after, "since": after })), "");
}

#[test]
fn calls_are_listed_by_session_tool_status_and_time() {
    let archive = Archive::new();
    let server = archive.serve(&POOL);
    let mut agent = connected(&server);
    let mut ids = Vec::new();
    for number in 0..6 {
        let session = if number % 2 == 0 { "even" } else { "odd" };
        ids.push(agent.reference("echo", json!({ "text": number.to_string(), "sessionId": session })));
    }
    let failed = agent.call("fail", json!({ "message": "no", "sessionId": "odd" }));
    ids.push(super::ref_id(&failed));
    ids.push(agent.reference("pid", json!({})));
    let mut list = |filter: Value| {
        let result = agent.call("list_calls", filter);
        let calls = result["structuredContent"]["calls"].as_array().unwrap().clone();
        let place = |call: &Value| ids.iter().position(|id| call["ref_id"] == id.as_str()).unwrap();
        calls.iter().map(place).collect::<Vec<_>>()
    };
    assert_eq!(list(json!({})), [7, 6, 5, 4, 3, 2, 1, 0], "the newest first");
    assert_eq!(list(json!({ "sessionId": "even" })), [4, 2, 0]);
    assert_eq!(list(json!({ "sessionId": "odd", "status": "success" })), [5, 3, 1]);
    assert_eq!(list(json!({ "status": "error" })), [6]);
    assert_eq!(list(json!({ "status": "pending" })), [] as [usize; 0]);
    assert_eq!(list(json!({ "tool": "pid" })), [7]);
    assert_eq!(list(json!({ "sessionId": "nobody" })), [] as [usize; 0]);
    assert_eq!(list(json!({ "limit": 3 })), [7, 6, 5]);
    assert_eq!(list(json!({ "limit": 3, "before": ids[5] })), [4, 3, 2], "the next page");
    let whole = agent.call("list_calls", json!({ "limit": 1 }));
    let newest = &whole["structuredContent"]["calls"][0];
    assert_eq!(
        (&newest["status"], &newest["pool"], &newest["instance"]),
        (&json!("success"), &json!("MAIN"), &json!("0"))
    );
    let moment = |place: usize| {
        let all = agent_list(&server);
        all[7 - place]["timestamp"].as_str().unwrap().to_owned()
    };
    let (third, sixth) = (moment(3), moment(6));
    let mut list = |filter: Value| {
        let result = agent.call("list_calls", filter);
        result["structuredContent"]["calls"].as_array().unwrap().len()
    };
    // A moment that is shown may be rounded, so what it splits is said by at least and at most.
    let (since, until) = (list(json!({ "since": third })), list(json!({ "until": third })));
    assert_eq!(since + until, 8, "every call is on one side");
    assert!((4..=5).contains(&since), "{since}");
    assert!(list(json!({ "since": third, "until": sixth })) >= 2);
}

fn agent_list(server: &crate::rig::Server) -> Vec<Value> {
    let result = connected(server).call("list_calls", json!({}));
    result["structuredContent"]["calls"].as_array().unwrap().clone()
}

#[test]
fn reading_takes_no_lease_and_outlives_its_session() {
    let archive = Archive::new();
    let server = archive.serve(&pool(&[("GREENROOM_LEASE_TIMEOUT", "3600000")]));
    let mut agent = connected(&server);
    let of_session = agent.reference("echo", json!({ "text": "from a session", "sessionId": "a" }));
    let of_lease = agent.reference("echo", json!({ "text": "from a lease" }));
    agent.text("session_close", json!({ "sessionId": "a" }));
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| connected(&server).call_tool("hang", json!({})));
        let is_leased = || {
            let (_, _, body) = server.client().raw("GET", "/api/pools", &[], b"");
            serde_json::from_slice::<Value>(&body).unwrap()["pools"][0]["instances"][0]["leased"] == true
        };
        wait_until("the only instance to be leased", PATIENCE, is_leased);
        assert_eq!(agent.content(json!({ "ref_id": of_lease })), "from a lease");
        assert_eq!(agent.content(json!({ "ref_id": of_session })), "from a session");
        assert_eq!(agent.content(json!({ "sessionId": "a" })), "from a session");
        assert_eq!(agent.text("get_console_content", json!({ "ref_id": of_lease })), "");
        let pending = agent.call("list_calls", json!({ "status": "pending" }));
        assert_eq!(pending["structuredContent"]["calls"][0]["tool"], "hang", "{pending}");
        assert!(server.ask(&["restart", "MAIN", "0"]).status.success());
        assert_eq!(busy.join().unwrap()["isError"], true);
    });
}
