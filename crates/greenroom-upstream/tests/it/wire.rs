//! The raw client on a wire whose other end is written by the test, byte by byte: what no server that is built
//! from parsed values can send.

use greenroom_upstream::rpc::{CallError, Ended, Peer, connect_lines};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use crate::support::soon;

const LIMIT: usize = 4096;

/// The server's end.
struct Wire {
    from_client: Lines<BufReader<ReadHalf<DuplexStream>>>,
    to_client: WriteHalf<DuplexStream>,
}

impl Wire {
    /// The client's next message.
    async fn read(&mut self) -> Value {
        let line = soon("a line of the client", self.from_client.next_line()).await;
        let line = line.expect("the wire holds").expect("the client has not closed it");
        serde_json::from_str(&line).expect("the client writes JSON")
    }

    async fn write(&mut self, text: impl AsRef<[u8]>) {
        self.to_client.write_all(text.as_ref()).await.expect("the wire holds");
    }
}

fn connected(roots: Vec<String>) -> (Peer, Wire) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reading, writing) = tokio::io::split(ours);
    let peer = connect_lines(reading, writing, roots, LIMIT, || async { Ended::because("the wire was cut") });
    let (from_client, to_client) = tokio::io::split(theirs);
    (peer, Wire { from_client: BufReader::new(from_client).lines(), to_client })
}

#[tokio::test]
async fn whitespace_number_forms_and_escapes_of_a_result_stay_as_they_are() {
    let (peer, mut wire) = connected(Vec::new());
    for result in [
        r#"{ "b" : 1.0e+2 ,"a":[ 1.50,-0, 12345678901234567890123 ]  }"#,
        r#"{"a":"\u00e9\/é","a":2}"#,
        "\t[ ]",
        "\"text\"",
    ] {
        let pending = peer.request("any", json!({})).unwrap();
        let id = pending.id();
        wire.write(format!("{{ \"jsonrpc\" : \"2.0\",\"result\":{result} ,\t\"id\": {id} }}\r\n")).await;
        assert_eq!(soon("the answer", pending).await.unwrap(), result.trim_start());
    }
}

#[tokio::test]
async fn an_answer_may_arrive_in_pieces_and_several_at_once() {
    let (peer, mut wire) = connected(Vec::new());
    let [first, second, third] = [(); 3].map(|()| peer.request("any", json!({})).unwrap());
    let ids = [first.id(), second.id(), third.id()];
    let [one, two, three] = ids.map(|id| format!("{{\"id\":{id},\"result\":{id}}}"));
    for byte in one.bytes() {
        wire.write([byte]).await;
    }
    wire.write(format!("\n\n  \n{two}\n{three}\n")).await;
    for (pending, id) in [first, second, third].into_iter().zip(ids) {
        assert_eq!(soon("the answer", pending).await.unwrap(), id.to_string());
    }
}

#[tokio::test]
async fn a_token_is_sent_only_when_progress_is_wanted_and_it_is_the_connections_own() {
    let (peer, mut wire) = connected(Vec::new());
    let plain = peer.call_tool("look", &json!({ "at": "this" }), None).unwrap();
    assert_eq!(
        wire.read().await,
        json!({ "jsonrpc": "2.0", "id": plain.id(), "method": "tools/call",
                "params": { "name": "look", "arguments": { "at": "this" } } })
    );
    let (sender, mut reports) = mpsc::channel(10);
    let reporting = peer.call_tool("look", &json!({}), Some(sender)).unwrap();
    let token = wire.read().await["params"]["_meta"]["progressToken"].take();
    assert!(!token.is_null());

    let report = |token: &Value, progress: &Value| {
        let params = json!({ "progressToken": token, "progress": progress, "total": 9 });
        format!("{}\n", json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }))
    };
    // Reports for a call that did not ask, for nobody, and nonsense; then the one that counts.
    for (token, progress) in [
        (json!(plain.id()), json!(1)),
        (json!(999_999), json!(2)),
        (json!("a text"), json!(3)),
        (token.clone(), json!("nonsense")),
        (token, json!(4.5)),
    ] {
        wire.write(report(&token, &progress)).await;
    }
    wire.write(format!("{{\"id\":{},\"result\":{{}}}}\n", reporting.id())).await;
    soon("the answer", reporting).await.unwrap();
    let heard = soon("a report", reports.recv()).await.unwrap();
    assert_eq!((heard.progress, heard.total, heard.message), (4.5, Some(9.0), None));
    assert_eq!(soon("the end of reports", reports.recv()).await, None);
}

#[tokio::test]
async fn questions_of_the_server_are_answered_with_their_id_as_it_was_written() {
    let (peer, mut wire) = connected(vec!["file:///a".to_owned()]);
    // An id that one of our own requests has as well: the two directions do not mix.
    let pending = peer.request("any", json!({})).unwrap();
    let id = pending.id();
    wire.read().await;
    for (question, answer) in [
        (format!(r#"{{"id":{id},"method":"ping"}}"#), json!({ "jsonrpc": "2.0", "id": id, "result": {} })),
        (
            r#"{"id":"x-1","method":"roots/list","params":{}}"#.to_owned(),
            json!({ "jsonrpc": "2.0", "id": "x-1", "result": { "roots": [{ "uri": "file:///a" }] } }),
        ),
        (
            r#"{"id":7,"method":"elicitation/create"}"#.to_owned(),
            json!({ "jsonrpc": "2.0", "id": 7, "error": { "code": -32601, "message": "Method not found" } }),
        ),
    ] {
        wire.write(format!("{question}\n")).await;
        assert_eq!(wire.read().await, answer);
    }
    wire.write(format!("{{\"id\":{id},\"result\":\"mine\"}}\n")).await;
    assert_eq!(soon("the answer", pending).await.unwrap(), "\"mine\"");
}

#[tokio::test]
async fn malformed_lines_are_survived() {
    let (peer, mut wire) = connected(Vec::new());
    let pending = peer.request("any", json!({})).unwrap();
    let id = pending.id();
    let malformed: [&[u8]; 9] = [
        b"Server listening on stdio",
        b"{",
        b"[1,2]",
        b"null",
        b"{}",
        b"{\"id\":null,\"result\":1}",
        b"{\"id\":{},\"result\":1}",
        b"{\"method\":5}",
        b"\xff\xfe\x00{\"id\":1}",
    ];
    for line in malformed {
        wire.write([line, b"\n"].concat()).await;
    }
    wire.write(format!("{{\"id\":{id},\"result\":\"fine\"}}\n")).await;
    assert_eq!(soon("the answer", pending).await.unwrap(), "\"fine\"");
}

#[tokio::test]
async fn an_answer_with_neither_result_nor_error_fails_its_call() {
    let (peer, mut wire) = connected(Vec::new());
    let pending = peer.request("any", json!({})).unwrap();
    wire.write(format!("{{\"id\":{}}}\n", pending.id())).await;
    let error = soon("the answer", pending).await.unwrap_err();
    assert!(matches!(error, CallError::Transport(_)), "{error:?}");
}

#[tokio::test]
async fn the_data_of_an_error_is_kept_and_an_error_of_another_shape_is_shown() {
    let (peer, mut wire) = connected(Vec::new());
    let pending = peer.request("any", json!({})).unwrap();
    let error = r#"{"code":-1,"message":"no","data":{"z":1.0,"a":2}}"#;
    wire.write(format!("{{\"id\":{},\"error\":{error}}}\n", pending.id())).await;
    match soon("the answer", pending).await.unwrap_err() {
        CallError::Rpc { code: -1, message, data: Some(data) } => {
            assert_eq!((message.as_str(), data.get()), ("no", r#"{"z":1.0,"a":2}"#));
        }
        other => panic!("{other:?}"),
    }
    let pending = peer.request("any", json!({})).unwrap();
    wire.write(format!("{{\"id\":{},\"error\":\"just no\"}}\n", pending.id())).await;
    let error = soon("the answer", pending).await.unwrap_err();
    assert!(error.to_string().contains("just no"), "{error}");
}

fn filler() -> String {
    // Brackets and quotes inside a text, and an `id` that is not the message's.
    r#"{"id":3,"x":"}]\"\\"}"#.repeat(LIMIT)
}

#[tokio::test]
async fn a_message_over_the_limit_fails_the_call_it_answers_wherever_its_id_stands() {
    let (peer, mut wire) = connected(Vec::new());
    let beside = peer.request("any", json!({})).unwrap();
    let filler = json!({ "id": beside.id(), "text": filler() }).to_string();
    for id_first in [true, false] {
        let pending = peer.request("any", json!({})).unwrap();
        let id = pending.id();
        let line = if id_first {
            format!("{{\"id\":{id},\"result\":{filler}}}\n")
        } else {
            format!("{{\"result\":{filler},\"id\":{id}}}\n")
        };
        wire.write(line).await;
        let error = soon("the refusal", pending).await.unwrap_err();
        assert!(matches!(error, CallError::TooLarge { limit: LIMIT }), "{error:?}");
    }
    let id = beside.id();
    wire.write(format!("{{\"id\":{id},\"result\":\"alive\"}}\n")).await;
    assert_eq!(soon("the call beside them", beside).await.unwrap(), "\"alive\"");
}

#[tokio::test]
async fn a_message_just_over_the_limit_that_comes_in_one_piece_is_refused_too() {
    let (peer, mut wire) = connected(Vec::new());
    let pending = peer.request("any", json!({})).unwrap();
    let line = format!("{{\"id\":{},\"result\":\"{}\"}}\n", pending.id(), "x".repeat(LIMIT));
    wire.write(line).await;
    let error = soon("the refusal", pending).await.unwrap_err();
    assert!(matches!(error, CallError::TooLarge { .. }), "{error:?}");
}

#[tokio::test]
async fn a_message_over_the_limit_that_names_nobody_leaves_nobody_waiting() {
    let (peer, mut wire) = connected(Vec::new());
    let waiting: Vec<_> = (0..3).map(|_| peer.request("any", json!({})).unwrap()).collect();
    wire.write(format!("{}\n", "no id in here ".repeat(LIMIT))).await;
    for pending in waiting {
        let error = soon("the refusal", pending).await.unwrap_err();
        assert!(matches!(error, CallError::TooLarge { .. }), "{error:?}");
    }
    let next = peer.request("any", json!({})).unwrap();
    wire.write(format!("{{\"id\":{},\"result\":\"next\"}}\n", next.id())).await;
    assert_eq!(soon("the next answer", next).await.unwrap(), "\"next\"");
}

#[tokio::test]
async fn the_answer_to_a_dropped_call_is_nobodys() {
    let (peer, mut wire) = connected(Vec::new());
    let dropped = peer.request("any", json!({})).unwrap();
    let dropped_id = dropped.id();
    drop(dropped);
    let next = peer.request("any", json!({})).unwrap();
    assert_ne!(next.id(), dropped_id);
    wire.write(format!("{{\"id\":{dropped_id},\"result\":\"late\"}}\n")).await;
    wire.write(format!("{{\"id\":{},\"result\":\"next\"}}\n", next.id())).await;
    assert_eq!(soon("the answer", next).await.unwrap(), "\"next\"");
}

#[tokio::test]
async fn all_pages_of_a_tool_list_are_read_and_a_cursor_that_repeats_ends_it() {
    let (peer, mut wire) = connected(Vec::new());
    let listing = tokio::spawn(async move { peer.list_tools().await });
    for (cursor, page) in [
        (None, r#"{"tools":[{"name": "a", "x":1.0}],"nextCursor":"p2"}"#),
        (Some("p2"), r#"{"tools":[{"name":"b"}],"nextCursor":"p3"}"#),
        (Some("p3"), r#"{"tools":[{"name":"c"}],"nextCursor":"p3"}"#),
    ] {
        let request = wire.read().await;
        assert_eq!(request["method"], "tools/list");
        assert_eq!(request["params"]["cursor"].as_str(), cursor);
        wire.write(format!("{{\"id\":{},\"result\":{page}}}\n", request["id"])).await;
    }
    let tools = soon("the list", listing).await.unwrap().unwrap();
    let texts: Vec<_> = tools.iter().map(|tool| tool.get()).collect();
    assert_eq!(texts, [r#"{"name": "a", "x":1.0}"#, r#"{"name":"b"}"#, r#"{"name":"c"}"#]);
}

#[tokio::test]
async fn the_handshake_asks_for_the_newest_revision_and_then_says_that_it_is_done() {
    let (peer, mut wire) = connected(Vec::new());
    let shaking = tokio::spawn(async move { peer.initialize().await });
    let request = wire.read().await;
    assert_eq!(request["params"]["protocolVersion"], "2025-11-25");
    assert_eq!(request["params"]["capabilities"], json!({}));
    assert_eq!(request["params"]["clientInfo"]["name"], "greenroom");
    let result = r#"{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"s"}}"#;
    wire.write(format!("{{\"id\":{},\"result\":{result}}}\n", request["id"])).await;
    assert_eq!(wire.read().await["method"], "notifications/initialized");
    let info = soon("the handshake", shaking).await.unwrap().unwrap();
    assert_eq!((info.protocol_version.as_str(), info.instructions), ("2025-03-26", None));
}

#[tokio::test]
async fn when_the_wire_is_cut_everyone_who_waits_hears_why_and_so_does_who_asks_later() {
    let (peer, wire) = connected(Vec::new());
    let waiting: Vec<_> = (0..3).map(|_| peer.request("any", json!({})).unwrap()).collect();
    drop(wire);
    for pending in waiting {
        let error = soon("the end", pending).await.unwrap_err();
        assert!(matches!(&error, CallError::Ended(ended) if ended.reason == "the wire was cut"), "{error:?}");
    }
    assert_eq!(soon("the end", peer.ended()).await.reason, "the wire was cut");
    assert_eq!(peer.request("any", json!({})).err(), Some(Ended::because("the wire was cut")));
}
