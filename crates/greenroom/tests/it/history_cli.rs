//! The history on the command line: while a server runs, after it was killed, and without any.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use greenroom_core::ids::{Digest, RefId};
use greenroom_store::{
    CallStatus, ConsoleEntry, Durability, Finished, Level, Location, NewCall, NewSession, Retention, Store,
    StoreConfig,
};
use greenroom_testkit::{McpHttp, process_alive, send_signal, wait_until};
use serde_json::{Value, json};

use crate::rig::{Server, greenroom, with_fake};

/// Far more than anything here takes; only a test that fails gets to know it.
const LIMIT: Duration = Duration::from_secs(60);

/// A server on this folder whose sessions are processes of the fake upstream.
fn serve(folder: &Path) -> Server {
    let mut command = with_fake(greenroom(folder), "");
    command.env("GREENROOM_SESSION_ISOLATION", "process").env("GREENROOM_BLOB_THRESHOLD_KB", "64");
    Server::start(command, None)
}

fn client(server: &Server) -> McpHttp {
    let mut client = server.client();
    client.initialize();
    client
}

/// Calls a tool in a session, and gives the ref id.
fn call(client: &mut McpHttp, session: &str, tool: &str, mut arguments: Value) -> String {
    arguments["sessionId"] = session.into();
    let result = client.call_tool(tool, arguments);
    result["_meta"]["greenroom/refId"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

/// A call that never ends, in a session.
fn hang(server: &Server, session: &str) {
    let mut client = client(server);
    let arguments = json!({ "sessionId": session });
    let params = json!({ "name": "hang", "arguments": arguments });
    let message = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params }).to_string();
    let id = client.session_id().unwrap().to_owned();
    std::thread::spawn(move || {
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Mcp-Session-Id", id.as_str()),
            ("MCP-Protocol-Version", "2025-11-25"),
        ];
        let _ = client.try_raw("POST", "/mcp", &headers, message.as_bytes());
    });
}

fn kill(server: Server) {
    let pid = server.pid();
    assert!(send_signal(pid, "KILL"));
    drop(server);
    wait_until("it to be gone", LIMIT, || !process_alive(pid));
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    greenroom(folder).args(arguments).output().unwrap()
}

/// What a command that succeeds prints.
fn said(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "{arguments:?}");
    text(&output.stdout)
}

/// What a command that fails says.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The calls that a listing names.
fn listed(folder: &Path, arguments: &[&str]) -> Vec<Value> {
    let arguments: Vec<_> = ["calls", "--json"].iter().chain(arguments).copied().collect();
    said(folder, &arguments).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn tools(calls: &[Value]) -> Vec<&str> {
    calls.iter().map(|call| call["tool"].as_str().unwrap()).collect()
}

/// All files below a folder, by their path in it.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(folder, folder, &mut found);
    found
}

/// What the fake answers to `echo`.
fn echo(text: &str) -> String {
    format!("{{\"content\":[{{\"type\":\"text\",\"text\":{}}}]}}", Value::from(text))
}

/// A session with calls of every kind, by tool.
fn a_busy_session(client: &mut McpHttp, session: &str) -> BTreeMap<&'static str, String> {
    let mut calls = BTreeMap::new();
    for (tool, arguments) in [
        ("echo", json!({ "text": "näive \u{1b}[2J" })),
        ("odd_content", json!({})),
        ("fail", json!({ "message": "no such element\nlook again" })),
        ("bytes", json!({ "size": 200_000 })),
        ("image", json!({})),
    ] {
        calls.insert(tool, call(client, session, tool, arguments));
    }
    calls
}

#[test]
fn calls_are_listed_and_shown_while_the_server_runs_and_after_it_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = serve(folder);
    let mut client = client(&server);
    let calls = a_busy_session(&mut client, "shop");
    let other = call(&mut client, "other", "echo", json!({ "text": "x" }));
    hang(&server, "stuck");
    wait_until("it to be on record", LIMIT, || listed(folder, &["--status", "pending"]).len() == 1);
    let look = || {
        let all = listed(folder, &[]);
        assert_eq!(tools(&all), ["echo", "odd_content", "fail", "bytes", "image", "echo", "hang"]);
        assert_eq!(all[6]["status"], "pending");
        assert_eq!(tools(&listed(folder, &["--session", "shop"])).len(), 5);
        assert_eq!(listed(folder, &["--session", "other"])[0]["ref_id"], *other);
        assert_eq!(listed(folder, &["--session", "nobody"]), [] as [Value; 0]);
        assert_eq!(tools(&listed(folder, &["--tool", "echo"])), ["echo", "echo"]);
        assert_eq!(tools(&listed(folder, &["--status", "error"])), ["fail"]);
        assert_eq!(tools(&listed(folder, &["--limit", "2"])), ["echo", "hang"]);
        assert_eq!(listed(folder, &["--since", "1h"]).len(), 7);
        assert_eq!(listed(folder, &["--since", "2200-01-01T00:00:00Z"]).len(), 0);

        let table = said(folder, &["calls"]);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 8, "{table}");
        assert!(lines[0].starts_with("TIME ") && lines[0].contains("SESSION"), "{table}");
        for word in ["shop", "fail", "error", &calls["fail"], "no such element look again"] {
            assert!(lines[3].contains(word), "{word} in {table}");
        }

        let shown = said(folder, &["show", &calls["fail"][..6]]);
        for word in
            [&calls["fail"], "shop (life ", "pool DEFAULT", "{\"message\":\"no such element\\nlook again\""]
        {
            assert!(shown.contains(word), "{word} in {shown}");
        }
        let shown = said(folder, &["show", &calls["bytes"].to_uppercase()]);
        assert!(shown.contains("0000000020 the quick") && !shown.contains("0000000021"), "{shown}");
        let rest = format!("greenroom show {} --content", calls["bytes"]);
        assert!(shown.contains(&rest) && shown.contains("blobs/sha256/"), "{shown}");
        assert_eq!(said(folder, &["show", &calls["bytes"], "--content"]).len(), 200_000);

        assert_eq!(said(folder, &["show", &calls["echo"], "--result"]), echo("näive \u{1b}[2J"));
        assert_eq!(said(folder, &["show", &calls["echo"], "--content"]), "näive \u{1b}[2J");
        assert!(!said(folder, &["show", &calls["echo"]]).contains('\u{1b}'));
        let params: Value =
            serde_json::from_str(&said(folder, &["show", &calls["echo"], "--params"])).unwrap();
        assert_eq!(params["text"], "näive \u{1b}[2J");
        assert!(said(folder, &["show", &calls["odd_content"], "--result"]).contains("{\"exact\":1.50,"));

        let shown: Value = serde_json::from_str(&said(folder, &["show", &calls["image"], "--json"])).unwrap();
        assert_eq!(shown["session_id"], "shop");
        assert_eq!(shown["blobs"][0]["mime_type"], "image/png");
        let picture = std::fs::read(shown["blobs"][0]["file"].as_str().unwrap()).unwrap();
        assert!(picture.starts_with(b"\x89PNG"), "{shown}");

        let pending = all[6]["ref_id"].as_str().unwrap();
        assert!(said(folder, &["show", pending]).contains("pending"));
        assert!(refused(folder, &["show", pending, "--content"]).contains("no answer yet"));

        let stats: Value = serde_json::from_str(&said(folder, &["db", "stats", "--json"])).unwrap();
        assert_eq!((&stats["calls"], &stats["sessions"]), (&json!(7), &json!(3)), "{stats}");
        assert_eq!(stats["blobs"]["count"], 2, "{stats}");
        assert!(said(folder, &["db", "stats"]).contains("greenroom.db"));
        assert!(said(folder, &["db", "check"]).contains("is sound"));
        assert!(said(folder, &["db", "vacuum"]).contains(" before, "));
    };
    look();
    kill(server);
    look();
}

/// A `greenroom calls --follow --json`, and what it has printed.
struct Follower {
    child: Child,
    lines: Arc<Mutex<Vec<Value>>>,
}

impl Follower {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = greenroom(folder);
        command.args(["calls", "--follow", "--json"]).args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (stdout, sink) = (BufReader::new(child.stdout.take().unwrap()), Arc::clone(&lines));
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                sink.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        Self { child, lines }
    }

    fn seen(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        let shown = |call: &Value| call["params"]["text"].as_str().unwrap_or("-").to_owned();
        lines.iter().map(shown).collect()
    }

    fn wait_for(&self, expected: &[&str]) {
        wait_until(&format!("{expected:?}"), LIMIT, || self.seen().len() >= expected.len());
        assert_eq!(self.seen(), expected);
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn new_calls_are_followed_across_a_restart_and_shown_once_they_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = serve(folder);
    let mut agent = client(&server);
    call(&mut agent, "shop", "echo", json!({ "text": "before" }));
    call(&mut agent, "shop", "echo", json!({ "text": "one" }));
    hang(&server, "stuck");
    wait_until("it to be on record", LIMIT, || listed(folder, &["--status", "pending"]).len() == 1);

    let mut all = Follower::start(folder, &["--limit", "2"]);
    let shop = Follower::start(folder, &["--session", "shop"]);
    let new = Follower::start(folder, &["--limit", "0", "--status", "error"]);
    all.wait_for(&["one"]);
    shop.wait_for(&["before", "one"]);
    call(&mut agent, "other", "echo", json!({ "text": "two" }));
    call(&mut agent, "shop", "echo", json!({ "text": "three" }));
    all.wait_for(&["one", "two", "three"]);
    shop.wait_for(&["before", "one", "three"]);
    assert_eq!(new.seen(), [] as [&str; 0]);

    kill(server);
    let server = serve(folder);
    // What the killed server left is answered with an error by the next one.
    all.wait_for(&["one", "two", "three", "-"]);
    new.wait_for(&["-"]);
    let orphan = all.lines.lock().unwrap()[3].clone();
    assert_eq!((&orphan["tool"], &orphan["status"]), (&json!("hang"), &json!("error")), "{orphan}");
    call(&mut client(&server), "shop", "echo", json!({ "text": "four" }));
    all.wait_for(&["one", "two", "three", "-", "four"]);
    shop.wait_for(&["before", "one", "three", "four"]);

    assert!(send_signal(all.child.id(), "INT"));
    assert_eq!(all.child.wait().unwrap().signal(), Some(2));
}

#[test]
fn an_export_holds_exact_bytes_of_every_life_as_a_folder_and_as_a_zip_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = serve(folder);
    let name = "../shop | 1";
    let calls = a_busy_session(&mut client(&server), name);
    call(&mut client(&server), "other", "echo", json!({ "text": "of somebody else" }));
    kill(server);
    let server = serve(folder);
    let again = call(&mut client(&server), name, "image", json!({}));

    let shown = said(folder, &["export", name, "--output", "out/here"]);
    assert!(shown.contains("2 lives, 6 calls, 1 blob"), "{shown}");
    let exported = files(&folder.join("out/here"));
    let file = |number: usize, tool: &str, ref_id: &str, name: &str| {
        let path = format!("calls/{number:04}-{tool}-{}/{name}", &ref_id[..8]);
        exported.get(&path).unwrap_or_else(|| panic!("{path} in {:?}", exported.keys()))
    };
    assert_eq!(text(file(1, "echo", &calls["echo"], "result.json")), echo("näive \u{1b}[2J"));
    assert!(text(file(2, "odd_content", &calls["odd_content"], "result.json")).contains("{\"exact\":1.50,"));
    assert_eq!(text(file(3, "fail", &calls["fail"], "error.txt")), "no such element\nlook again");
    let large = file(4, "bytes", &calls["bytes"], "result.json");
    assert_eq!(*large, run(folder, &["show", &calls["bytes"], "--result"]).stdout);
    assert_eq!(text(large), echo(&said(folder, &["show", &calls["bytes"], "--content"])));
    assert_eq!(file(6, "image", &again, "result.json"), file(5, "image", &calls["image"], "result.json"));

    let index: Value = serde_json::from_slice(&exported["blobs/index.json"]).unwrap();
    assert_eq!(index[0]["calls"][0]["ref_id"], *calls["image"]);
    assert_eq!(index[0]["calls"][1]["ref_id"], *again);
    let picture = &exported[index[0]["file"].as_str().unwrap()];
    assert_eq!(index[0]["sha256"], Digest::of(picture).to_string());
    assert!(index[0]["file"].as_str().unwrap().ends_with(".png"), "{index}");

    let session: Value = serde_json::from_slice(&exported["session.json"]).unwrap();
    assert_eq!(session["name"], name);
    assert_eq!((&session["lives"][0]["calls"], &session["lives"][1]["calls"]), (&json!(5), &json!(1)));
    assert_eq!(
        (&session["lives"][0]["state"], &session["lives"][1]["state"]),
        (&json!("closed"), &json!("active"))
    );
    let lines = text(&exported["calls.jsonl"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(tools(&lines), ["echo", "odd_content", "fail", "bytes", "image", "image"]);
    assert_eq!(lines[4]["blobs"][0]["file"], index[0]["file"]);
    let page = text(&exported["index.md"]);
    assert!(page.contains(&calls["echo"]) && page.contains("[bytes](calls/0004-bytes-"), "{page}");

    // The same as a zip file, under a name that the session's cannot turn into a path.
    let shown = said(folder, &["export", name, "--zip"]);
    let path = shown.split(": ").next().unwrap();
    assert!(path.starts_with("_shop___1-") && path.ends_with(".zip"), "{shown}");
    let mut archive = zip::ZipArchive::new(std::fs::File::open(folder.join(path)).unwrap()).unwrap();
    let mut zipped = BTreeMap::new();
    for number in 0..archive.len() {
        let mut entry = archive.by_index(number).unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        zipped.insert(entry.name().unwrap().into_owned(), bytes);
    }
    assert!(zipped.keys().eq(exported.keys()));
    for (name, bytes) in exported.iter().filter(|(name, _)| *name != "session.json") {
        assert_eq!(&zipped[name], bytes, "{name}");
    }

    // Nothing is overwritten, and nothing unfinished stays.
    for arguments in [&["export", name, "--output", "out/here"][..], &["export", name, "--zip"]] {
        assert!(refused(folder, arguments).contains("is there already"));
    }
    std::fs::create_dir(folder.join("empty")).unwrap();
    said(folder, &["export", "other", "--output", "empty"]);
    let left = |place: &Path| {
        let names = std::fs::read_dir(place)
            .unwrap()
            .map(|entry| text(entry.unwrap().file_name().as_encoded_bytes()));
        names.filter(|name| name.contains("export")).count()
    };
    assert_eq!((left(folder), left(&folder.join("out"))), (0, 0));
}

/// A history with one call that brought a page, written by no server.
fn a_page(folder: &Path, snapshot: &str) -> RefId {
    let config = StoreConfig {
        folder: folder.to_owned(),
        run: "run".to_owned(),
        durability: Durability::Process,
        retention: Retention::default(),
    };
    let store = Store::open(config, |_| true).unwrap();
    let ref_id: RefId = "123e4567-e89b-42d3-a456-426614174000".parse().unwrap();
    let at = SystemTime::now();
    let (owner, name) = ("local".to_owned(), "shop".to_owned());
    let new = |ref_id| NewCall {
        ref_id,
        owner: owner.clone(),
        session: Some("life".to_owned()),
        parent: None,
        tool: "browser_navigate".to_owned(),
        params: "{}".to_owned(),
        at,
    };
    let entry = ConsoleEntry {
        level: Level::Error,
        message: "boom".to_owned(),
        at: None,
        location: Some(Location { url: "http://a/x.js".to_owned(), line: Some(3), column: None }),
    };
    let finished = Finished {
        ref_id,
        status: CallStatus::Success,
        result: Some(echo("### Page").into()),
        snapshot: Some(snapshot.into()),
        console: vec![entry],
        error: None,
        failure: None,
        at,
        took: Duration::from_millis(12),
        waited: Duration::from_millis(2),
        pool: Some("MAIN".to_owned()),
        instance: Some("0".to_owned()),
        url: Some("http://a/".to_owned()),
        title: Some("A title".to_owned()),
        blobs: Vec::new(),
    };
    let writing = async {
        let session =
            NewSession { id: "life".to_owned(), owner: owner.clone(), name, at, metadata: "{}".to_owned() };
        store.session_began(session);
        store.begin(new(ref_id)).await.unwrap();
        store.finish(finished).await.unwrap();
        // Two that begin alike.
        store.begin(new("abcdef00-0000-4000-8000-000000000001".parse().unwrap())).await.unwrap();
        store.begin(new("abcdef00-0000-4000-8000-000000000002".parse().unwrap())).await.unwrap();
        store.close().await;
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(writing);
    ref_id
}

#[test]
fn a_page_is_shown_with_its_snapshot_and_its_console() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let snapshot = "- heading \"Hello\" [ref=e1]\n- button [ref=e2]";
    let ref_id = a_page(folder, snapshot).to_string();
    let shown = said(folder, &["show", "123e4567e8"]);
    for word in
        [&ref_id, "A title", "http://a/", "pool MAIN, instance 0", "1 entry, 1 error", "- button [ref=e2]"]
    {
        assert!(shown.contains(word), "{word} in {shown}");
    }
    assert_eq!(said(folder, &["show", &ref_id, "--content"]), snapshot);
    assert_eq!(said(folder, &["show", &ref_id, "--result"]), echo("### Page"));
    assert_eq!(said(folder, &["show", &ref_id, "--console"]), "[ERROR] boom @ http://a/x.js:3\n");
    assert!(said(folder, &["calls"]).contains("http://a/"));
    said(folder, &["export", "shop", "-o", "out"]);
    let exported = files(&folder.join("out"));
    let of_call = |name: &str| text(&exported[&format!("calls/0001-browser_navigate-123e4567/{name}")]);
    assert_eq!(of_call("snapshot.yml"), snapshot);
    assert_eq!(of_call("console.log"), "[ERROR] boom @ http://a/x.js:3\n");
}

#[test]
fn what_cannot_be_found_or_read_is_said_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for arguments in
        [&["calls"][..], &["show", "abcdef"], &["export", "x"], &["db", "stats"], &["db", "vacuum"]]
    {
        let message = refused(folder, arguments);
        assert!(message.contains("no history in") && message.contains("--data-dir"), "{message}");
    }
    assert!(!folder.join("greenroom.db").exists());

    a_page(folder, "");
    let unknown = "00000000-0000-4000-8000-000000000000";
    for (arguments, words) in [
        (["show", unknown], "`greenroom calls` lists"),
        (["show", "0000"], "`greenroom calls` lists"),
        (["show", "abc"], "no ref id"),
        (["show", "abc_%"], "no ref id"),
        (["show", "abcdef"], "000000000002"),
        (["export", "nobody"], "`greenroom calls` names"),
    ] {
        let message = refused(folder, &arguments);
        assert!(message.contains(words), "{arguments:?}: {message}");
    }
    for wrong in [
        &["calls", "--since", "soon"][..],
        &["calls", "--status", "odd"],
        &["show", "abcd", "--json", "--result"],
    ] {
        assert_eq!(run(folder, wrong).status.code(), Some(2), "{wrong:?}");
    }

    // Damaged in the middle, then beyond recognition.
    let path = folder.join("greenroom.db");
    said(folder, &["db", "vacuum"]);
    let sound = std::fs::read(&path).unwrap();
    let mut damaged = sound.clone();
    for byte in &mut damaged[4096..] {
        *byte ^= 0x55;
    }
    for content in [damaged, b"this is no database at all, and never was one".repeat(100)] {
        for log in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(folder.join(format!("greenroom.db{log}")));
        }
        std::fs::write(&path, content).unwrap();
        let output = run(folder, &["db", "check"]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
        assert!(text(&output.stderr).contains("damaged"), "{}", text(&output.stderr));
    }
}
