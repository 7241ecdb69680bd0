//! What a real browser's calls leave on record, and how they are answered.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use greenroom_store::CallStatus;
use serde_json::{Value, json};

use super::{Agent, Archive, House, blocks, connected, cut, fine, follow, ref_id, texts};
use crate::rig::Server;

/// Files below a folder, by their names.
fn files(archive: &Archive, end: &str) -> Vec<String> {
    let sessions = archive.folder.path().join("sessions");
    let folders = std::fs::read_dir(sessions).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(end)).collect()
}

/// The element ref in the line of a text that has these words.
fn element(text: &str, words: &str) -> String {
    let line = text.lines().find(|line| line.contains(words) && line.contains("[ref="));
    let line = line.unwrap_or_else(|| panic!("no {words} in {text}"));
    line.split_once("[ref=").unwrap().1.split(']').next().unwrap().to_owned()
}

#[test]
fn a_call_is_on_record_with_everything_that_it_brought() {
    let house = House::new(&[]);
    let (mut agent, archive) = (house.client(), &house.archive);
    let url = house.site.url("/changing");
    let result = agent.call("browser_navigate", json!({ "sessionId": "a", "url": url }));
    let id = ref_id(&result);
    let call = archive.call(&id);
    assert_eq!((call.tool.as_str(), call.status), ("browser_navigate", CallStatus::Success));
    assert_eq!(serde_json::from_str::<Value>(&call.params).unwrap(), json!({ "url": url }));
    assert_eq!(
        (call.url.as_deref(), call.title.as_deref()),
        (Some(url.as_str()), Some("Changing page - Test site")),
        "{call:?}"
    );
    assert_eq!((call.session_name.as_deref(), call.instance.as_deref()), (Some("a"), None));
    assert_eq!(call.pool.as_deref(), result["_meta"]["greenroom/pool"].as_str());
    let (took, waited) = (call.took.unwrap(), call.waited.unwrap());
    assert!(took >= waited && took.as_millis() > 0 && call.answered.unwrap() >= call.at, "{call:?}");

    // The upstream said it with a link to a file. That is on record, and the file is gone: who reads the reply
    // gets the same by the ref id.
    let raw = archive.result(&id);
    let body: Value = serde_json::from_str(&raw).unwrap();
    let said = fine(&body);
    assert!(said.contains("- [Snapshot](/") && said.contains(".yml)"), "{said}");
    assert_eq!(files(archive, ".yml"), [] as [String; 0]);
    let reply = fine(&result);
    assert!(!reply.contains(".yml") && !reply.contains(archive.folder.path().to_str().unwrap()), "{reply}");
    assert!(reply.contains(&format!("get_content(ref_id=\"{id}\")")), "{reply}");
    let snapshot = archive.reader().snapshot(super::parse(&id)).unwrap().unwrap();
    assert!(snapshot.contains("button \"Add a row\"") && snapshot.len() as u64 == call.snapshot_bytes);
    assert_eq!(agent.content(json!({ "ref_id": id })), snapshot);
    let kept_lines = |text: &str| text.lines().filter(|line| !line.contains("Snapshot](")).count();
    assert_eq!(kept_lines(&said) + 1, kept_lines(&reply), "nothing else was changed:\n{said}\n{reply}");

    // Inline, it is in the answer too.
    let result = agent.call("browser_snapshot", json!({ "sessionId": "a" }));
    let inline = archive.reader().snapshot(super::parse(&ref_id(&result))).unwrap().unwrap();
    assert!(fine(&result).contains(&format!("```yaml\n{inline}\n```")), "{result}");
    let body: Value = serde_json::from_str(&archive.result(&ref_id(&result))).unwrap();
    assert_eq!(fine(&body), fine(&result), "which is what the upstream said");

    // A click is on record with the snapshot that came of it.
    let target = element(&inline, "button \"Add a row\"");
    let click = json!({ "sessionId": "a", "target": target, "element": "Add" });
    let id = agent.reference("browser_click", click.clone());
    let call = archive.call(&id);
    let mut params = click;
    params.as_object_mut().unwrap().remove("sessionId");
    assert_eq!(serde_json::from_str::<Value>(&call.params).unwrap(), params);
    assert!(agent.content(json!({ "ref_id": id })).contains("Row 2"));

    // A name that the agent chose is the agent's file.
    agent.text("browser_snapshot", json!({ "sessionId": "a", "filename": "mine.yml" }));
    assert_eq!(files(archive, ".yml"), ["mine.yml"]);

    // What fails is on record as that.
    let gone = json!({ "sessionId": "a", "url": "http://127.0.0.1:9/" });
    let failed = agent.call("browser_navigate", gone);
    assert_eq!(failed["isError"], true);
    let call = archive.call(&ref_id(&failed));
    assert_eq!(call.status, CallStatus::Error);
    assert!(call.error.unwrap().contains("ERR_"), "{failed}");

    // The record does not end with the session.
    agent.text("session_close", json!({ "sessionId": "a" }));
    assert!(agent.content(json!({ "ref_id": id, "reset_cursor": true })).contains("Row 2"));
    assert!(agent.content(json!({ "sessionId": "a", "limit": 500 })).contains("Add a row"));
    let lives = archive.reader().sessions(None, "a").unwrap();
    assert_eq!(lives.len(), 1);
}

#[test]
fn who_cannot_read_the_record_keeps_the_file_of_the_snapshot() {
    let house = House::new(&[("GREENROOM_ADDRESSING", "session")]);
    let mut agent = house.client();
    let visit = json!({ "sessionId": "a", "url": house.site.url("/links") });
    let reply = agent.text("browser_navigate", visit);
    let (_, path) = reply.split_once("- [Snapshot](").unwrap_or_else(|| panic!("{reply}"));
    let path = path.split(')').next().unwrap();
    assert!(std::fs::read_to_string(path).unwrap().contains("link"), "{path}");
}

/// What a picture is, by all ways to get it.
fn fetched(agent: &mut impl Agent, uri: &str) -> Vec<u8> {
    let read = agent.ask("resources/read", json!({ "uri": uri }));
    let contents = &read["result"]["contents"][0];
    let bytes = STANDARD.decode(contents["blob"].as_str().unwrap_or_else(|| panic!("{read}"))).unwrap();
    let result = agent.call("get_blob", json!({ "uri": uri }));
    let block = &result["content"][0];
    let data = block["data"].as_str().or(block["resource"]["blob"].as_str());
    assert_eq!(STANDARD.decode(data.unwrap_or_else(|| panic!("{result}"))).unwrap(), bytes);
    let mime_type =
        if block["type"] == "image" { &block["mimeType"] } else { &block["resource"]["mimeType"] };
    assert_eq!(contents["mimeType"], *mime_type);
    bytes
}

#[test]
fn pictures_and_pdfs_are_kept_and_linked() {
    let house = House::new(&[("GREENROOM_CAPS", "pdf")]);
    let mut agent = house.client();
    agent.text("browser_navigate", json!({ "sessionId": "a", "url": house.site.url("/static-text") }));
    for reply in ["full", "ref", "diff"] {
        let shot = agent.call("browser_take_screenshot", json!({ "sessionId": "a", "reply": reply }));
        let [link] = blocks(&shot, "resource_link")[..] else { panic!("{reply}: {shot}") };
        assert_eq!(link["mimeType"], "image/png");
        let uri = link["uri"].as_str().unwrap();
        assert!(uri.starts_with("blob://sha256/"), "{uri}");
        let bytes = fetched(&mut agent, uri);
        assert_eq!((&bytes[1..4], link["size"].as_u64()), (&b"PNG"[..], Some(bytes.len() as u64)));
        let images = blocks(&shot, "image");
        if reply == "full" {
            assert_eq!(STANDARD.decode(images[0]["data"].as_str().unwrap()).unwrap(), bytes);
        } else {
            assert_eq!(images.len(), 0, "{reply}");
        }
        let text = texts(&shot);
        let folder = house.archive.folder.path().to_str().unwrap();
        assert!(!text.contains(folder), "{reply}: {text}");
        if reply != "ref" {
            assert!(text.contains(uri), "{reply}: {text}");
        }
        assert!(text.contains(&ref_id(&shot)) || reply == "full", "{text}");

        let pdf = agent.call("browser_pdf_save", json!({ "sessionId": "a", "reply": reply }));
        let [link] = blocks(&pdf, "resource_link")[..] else { panic!("{reply}: {pdf}") };
        assert_eq!(link["mimeType"], "application/pdf");
        assert!(fetched(&mut agent, link["uri"].as_str().unwrap()).starts_with(b"%PDF"));
        assert!(!texts(&pdf).contains(folder), "{pdf}");
        let listed = agent.call("list_calls", json!({ "tool": "browser_pdf_save", "limit": 1 }));
        let listed = &listed["structuredContent"]["calls"][0];
        assert_eq!(listed["blobs"][0]["uri"], link["uri"], "{listed}");
    }
}

#[test]
fn a_picture_that_is_not_to_be_returned_is_linked_all_the_same() {
    let house = House::new(&[("GREENROOM_IMAGE_RESPONSES", "omit")]);
    let mut agent = house.client();
    agent.text("browser_navigate", json!({ "sessionId": "a", "url": house.site.url("/static-text") }));
    let shot = agent.call("browser_take_screenshot", json!({ "sessionId": "a" }));
    assert_eq!(blocks(&shot, "image").len(), 0, "{shot}");
    let [link] = blocks(&shot, "resource_link")[..] else { panic!("{shot}") };
    assert_eq!(&fetched(&mut agent, link["uri"].as_str().unwrap())[1..4], b"PNG");
}

#[test]
fn changes_are_answered_with_refs_to_act_on_and_long_pages_by_what_was_cut() {
    let house = House::new(&[("GREENROOM_REPLY", "diff"), ("GREENROOM_REPLY_BUDGET", "4000")]);
    let mut agent = house.client();
    let session = |mut arguments: Value| {
        arguments["sessionId"] = "a".into();
        arguments
    };
    // The first page is new, so all of it is shown.
    let first = agent.text("browser_navigate", session(json!({ "url": house.site.url("/form") })));
    assert!(first.contains("### Snapshot") && first.contains("textbox \"Name\""), "{first}");
    assert!(first.contains("Page URL"), "{first}");
    let tick = json!({ "target": element(&first, "checkbox \"Send me news\""), "element": "News" });
    let result = agent.call("browser_click", session(tick));
    let changed = fine(&result);
    assert!(changed.contains("### Changes (") && changed.contains("[checked]"), "{changed}");
    assert!(!changed.contains("textbox \"Name\"") && !changed.contains("Page URL"), "{changed}");
    assert!(changed.ends_with(&format!("ref_id: {}", ref_id(&result))), "{changed}");
    // What it shows can be acted on.
    let again = json!({ "target": element(&changed, "checkbox"), "element": "News" });
    let back = agent.text("browser_click", session(again));
    let now = back.lines().rfind(|line| line.contains("checkbox")).unwrap_or_else(|| panic!("{back}"));
    assert!(back.contains("### Changes (") && !now.contains("[checked]"), "{back}");
    let same = agent.text("browser_snapshot", session(json!({})));
    assert!(same.contains("### Changes (0 added, 0 changed, 0 removed)"), "{same}");

    // A part of the page is compared with nothing, and nothing is compared with it.
    let part = json!({ "target": element(&first, "combobox"), "reply": "full" });
    agent.call("browser_snapshot", session(part));
    let same = agent.text("browser_snapshot", session(json!({})));
    assert!(same.contains("### Changes (0 added, 0 changed, 0 removed)"), "{same}");

    // A page too long for a reply.
    let visit = |reply: &str| session(json!({ "url": house.site.url("/items"), "reply": reply }));
    let result = agent.call("browser_navigate", visit("diff"));
    let snapshot = house.archive.reader().snapshot(super::parse(&ref_id(&result))).unwrap().unwrap();
    assert!(snapshot.len() > 500_000);
    let reply = fine(&result);
    assert!(reply.len() < 4500, "{}", reply.len());
    let (shown, hint) = cut(&reply).unwrap();
    let shown = shown.split_once("### Snapshot\n").unwrap().1;
    let lines = shown.lines().count();
    assert!(snapshot.starts_with(shown) && hint.arguments["offset"] == lines, "{reply}");
    let next = agent.content(Value::Object(hint.arguments));
    let next = cut(&next).unwrap().0;
    assert!(snapshot.starts_with(&format!("{shown}\n{next}\n")), "{next}");

    // Inline in the middle of an answer.
    let result = agent.call("browser_snapshot", session(json!({ "reply": "full" })));
    let reply = fine(&result);
    assert!(reply.len() < 4500, "{}", reply.len());
    let (before, hint) = cut(&reply).unwrap();
    let shown = before.split_once("```yaml\n").unwrap().1;
    assert!(reply.ends_with("```"), "the block is closed: {reply}");
    assert_eq!(hint.arguments["offset"], shown.lines().count());
    assert!(snapshot.starts_with(shown));

    // And a result that is no page.
    let long = session(
        json!({ "function": "() => Array.from({ length: 400 }, (_, n) => `number ${n}`)", "reply": "full" }),
    );
    let result = agent.call("browser_evaluate", long);
    let body: Value = serde_json::from_str(&house.archive.result(&ref_id(&result))).unwrap();
    assert_eq!(follow(&mut agent, &fine(&result)).0, fine(&body));
    let long = session(json!({ "function": "() => 'x'.repeat(10000)", "reply": "full" }));
    let result = agent.call("browser_evaluate", long);
    let body: Value = serde_json::from_str(&house.archive.result(&ref_id(&result))).unwrap();
    assert_eq!(follow(&mut agent, &fine(&result)).0, fine(&body));
}

#[test]
fn the_record_is_read_while_the_browser_is_busy() {
    let house = House::new(&[]);
    let mut agent = house.client();
    let visit = json!({ "sessionId": "a", "url": house.site.url("/links") });
    let id = agent.reference("browser_navigate", visit);
    let slow = json!({ "sessionId": "a", "url": house.site.url("/slow?ms=3600000") });
    std::thread::scope(|scope| {
        let busy = Busy::new(&house.server, scope, slow);
        greenroom_testkit::wait_until("the slow page", super::PATIENCE, || house.site.hits("/slow") > 0);
        assert!(agent.content(json!({ "ref_id": id })).contains("link"));
        assert!(agent.content(json!({ "sessionId": "a", "search_for": "link" })).contains("link"));
        let pending = agent.call("list_calls", json!({ "sessionId": "a", "status": "pending" }));
        assert_eq!(pending["structuredContent"]["calls"][0]["tool"], "browser_navigate", "{pending}");
        let waiting = pending["structuredContent"]["calls"][0]["ref_id"].clone();
        let message = agent.complaint("get_content", json!({ "ref_id": waiting }));
        assert!(message.contains("has no answer yet"), "{message}");
        agent.text("session_close", json!({ "sessionId": "a" }));
        busy.0.join().unwrap();
    });
}

/// A call that does not come to an end by itself.
struct Busy<'scope>(std::thread::ScopedJoinHandle<'scope, ()>);

impl<'scope> Busy<'scope> {
    fn new<'env>(
        server: &'env Server,
        scope: &'scope std::thread::Scope<'scope, 'env>,
        arguments: Value,
    ) -> Self {
        Self(scope.spawn(move || drop(connected(server).call_tool("browser_navigate", arguments))))
    }
}
