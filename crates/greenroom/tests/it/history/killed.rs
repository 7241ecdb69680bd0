//! Calls under load while Greenroom is shot at: what was handed out can be read, always.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use greenroom_core::ids::RefId;
use greenroom_store::{CallStatus, Filter, Found, Reader, SessionState};
use greenroom_testkit::{McpHttp, send_signal};
use serde_json::{Value, json};

use super::{Archive, connected, parse};
use crate::rig::Server;

const CONNECTIONS: usize = 16;
const SESSIONS: usize = 4;

/// More for a long run: `GREENROOM_TEST_KILLS=20 GREENROOM_TEST_CALLS=10000`.
fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

/// A ref id that somebody got, and what the upstream answered.
struct Receipt {
    ref_id: RefId,
    status: CallStatus,
    result: Expected,
}

enum Expected {
    Exactly(String),
    /// Too large for the record, so a file.
    Text(usize),
    Image,
}

#[test]
fn every_ref_id_that_was_handed_out_is_readable_after_a_kill() {
    let (rounds, calls) = (setting("GREENROOM_TEST_KILLS", 4), setting("GREENROOM_TEST_CALLS", 400));
    let archive = Archive::new();
    let variables = [
        ("GREENROOM__MAIN_INSTANCES", "4"),
        ("GREENROOM__MAIN_IS_DEFAULT", "true"),
        ("GREENROOM_SESSION_ISOLATION", "process"),
        ("GREENROOM_BLOB_THRESHOLD_KB", "16"),
        ("GREENROOM_LOG", "warn"),
    ];
    let mut random = Random::new();
    let mut receipts = Vec::new();
    for round in 0..rounds {
        let server = archive.serve(&variables);
        check_settled(&archive.reader(), round);
        let after = random.below(calls);
        let handed_out = fire(&server, round, after);
        drop(server);
        archive.wait_for_runs(0);
        let reader = archive.reader();
        assert_eq!(reader.check().unwrap(), [] as [String; 0], "in round {round}, after {after} calls");
        handed_out.iter().for_each(|receipt| check(&reader, receipt));
        receipts.extend(handed_out);
    }
    let _server = archive.serve(&variables);
    let reader = archive.reader();
    check_settled(&reader, rounds);
    let on_record = reader.stats().unwrap().calls;
    assert!(on_record >= receipts.len() as u64);
    eprintln!("{rounds} kills: {} ref ids handed out, {on_record} calls on record", receipts.len());
    receipts.iter().for_each(|receipt| check(&reader, receipt));
    assert_eq!(reader.check().unwrap(), [] as [String; 0]);
}

/// Calls from all sides until the server is dead, which it is after about so many.
fn fire(server: &Server, round: usize, after: usize) -> Vec<Receipt> {
    let (answered, is_shot) = (AtomicUsize::new(0), AtomicBool::new(false));
    let receipts = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let (answered, is_shot, receipts) = (&answered, &is_shot, &receipts);
            scope.spawn(move || {
                let mut client = connected(server).with_timeout(Duration::from_secs(60));
                for number in 0.. {
                    match call(&mut client, round, connection, number) {
                        Some(receipt) => receipts.lock().unwrap().push(receipt),
                        None if is_shot.load(Ordering::SeqCst) => return,
                        None => panic!("the server is gone, and nobody has shot it:\n{}", server.log()),
                    }
                    if answered.fetch_add(1, Ordering::SeqCst) == after {
                        is_shot.store(true, Ordering::SeqCst);
                        assert!(send_signal(server.pid(), "KILL"));
                    }
                }
            });
        }
    });
    receipts.into_inner().unwrap()
}

/// One call; `None` once the server is dead.
fn call(client: &mut McpHttp, round: usize, connection: usize, number: usize) -> Option<Receipt> {
    let text = format!("round {round}, connection {connection}, number {number}");
    let success = CallStatus::Success;
    let (tool, mut arguments, status, result) = match number % 16 {
        3 => {
            let result = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
            let expected = Expected::Exactly(result.to_string());
            ("fail", json!({ "message": text }), CallStatus::Error, expected)
        }
        7 => ("image", json!({ "size": 1000 + number + connection }), success, Expected::Image),
        11 => {
            let size = 20_000 + number;
            ("bytes", json!({ "size": size }), success, Expected::Text(size))
        }
        kind => {
            let text = if kind % 2 == 0 { text } else { text + &" and so on".repeat(100) };
            let result = json!({ "content": [{ "type": "text", "text": text }] });
            ("echo", json!({ "text": text }), success, Expected::Exactly(result.to_string()))
        }
    };
    if connection < SESSIONS {
        arguments["sessionId"] = format!("session {connection}").into();
    }
    let answer = client.try_call_tool(tool, arguments).ok()?;
    // What is half done when the shot falls may still hear of it.
    let ref_id = answer["result"]["_meta"]["greenroom/refId"].as_str()?;
    let is_error = answer["result"]["isError"] == Value::Bool(true);
    assert_eq!(is_error, status == CallStatus::Error, "{answer}");
    Some(Receipt { ref_id: parse(ref_id), status, result })
}

fn check(reader: &Reader, receipt: &Receipt) {
    let ref_id = receipt.ref_id;
    let Found::Here(call) = reader.call(None, ref_id).unwrap() else { panic!("{ref_id} is lost") };
    assert_eq!(call.status, receipt.status, "{call:?}");
    let blob = || {
        let [blob] = call.blobs.as_slice() else { panic!("{call:?}") };
        let Found::Here((_, path)) = reader.blob(Some(&call.owner), blob.digest).unwrap() else {
            panic!("{call:?}")
        };
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(greenroom_core::ids::Digest::of(&bytes), blob.digest);
        bytes
    };
    match &receipt.result {
        Expected::Exactly(result) => {
            assert_eq!(reader.result(ref_id).unwrap().as_deref(), Some(result.as_bytes()));
        }
        Expected::Text(size) => {
            let result: Value = serde_json::from_slice(&blob()).unwrap();
            assert_eq!(result["content"][0]["text"].as_str().unwrap().len(), *size);
        }
        Expected::Image => {
            blob();
            assert!(reader.result(ref_id).unwrap().is_some());
        }
    }
}

/// Right after a start: nothing of those that are dead is open.
fn check_settled(reader: &Reader, rounds: usize) {
    let pending = Filter { status: Some(CallStatus::Pending), limit: 10, ..Filter::default() };
    assert_eq!(reader.calls(&pending).unwrap(), []);
    let failed = Filter { status: Some(CallStatus::Error), limit: usize::MAX >> 1, ..Filter::default() };
    for call in reader.calls(&failed).unwrap() {
        let error = call.error.as_deref().unwrap();
        let is_known = error.starts_with("round ") || error == "Greenroom ended before the call was answered";
        assert!(is_known, "{call:?}");
    }
    for session in 0..SESSIONS {
        let lives = reader.sessions(None, &format!("session {session}")).unwrap();
        assert!(lives.len() <= rounds);
        assert!(lives.iter().all(|life| life.state == SessionState::Closed), "{lives:?}");
    }
}

struct Random(u64);

impl Random {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self(u64::try_from(now.as_nanos() % u128::from(u64::MAX)).unwrap() | 1)
    }

    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % most.max(1)
    }
}
