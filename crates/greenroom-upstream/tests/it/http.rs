//! The custom driver over Streamable HTTP: both kinds of answer, an event stream and one JSON body.

use std::time::Duration;

use futures::future::join_all;
use greenroom_core::config::UpstreamConfig;
use greenroom_testkit::{FakeHttp, McpHttp, send_signal};
use greenroom_upstream::driver::AfterInterrupt;
use greenroom_upstream::rpc::{CallError, Notice};
use greenroom_upstream::{LaunchError, Upstream};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::scripted_http::{self, Answer};
use crate::support::{
    MIB, call, call_text, call_until, chain, eventually, gone, http_driver, launch, launch_error,
    printed_by_the_fake, repeat_until, settings, soon, text_of,
};

/// With either, the essentials hold.
const ANSWERS: [&[&str]; 2] = [&[], &["--http-json"]];

async fn connect(server: &FakeHttp) -> Upstream {
    launch(&http_driver(server.url(), &settings())).await
}

fn echo(text: &str) -> Value {
    json!({ "text": text })
}

/// Asks until the stream for what belongs to no request is open: only there can the server ask back.
async fn wait_for_the_stream(upstream: &Upstream) {
    call_until(upstream, "ask_ping", |answer| answer == "{}").await;
}

#[tokio::test]
async fn a_result_is_handed_up_byte_for_byte_as_the_server_wrote_it() {
    for flags in ANSWERS {
        let server = FakeHttp::start(flags);
        let upstream = connect(&server).await;
        for (tool, arguments) in [
            ("structured", json!({ "zebra": 1, "apple": { "y": 1.5, "x": [null, "é\u{1f600}\n"] } })),
            ("odd_content", json!({})),
            ("image", json!({ "size": 5000 })),
            ("bytes", json!({ "size": 3 * MIB })),
        ] {
            let printed = printed_by_the_fake(tool, &arguments);
            let result = call(&upstream, tool, arguments).await.unwrap();
            assert!(result == printed.as_bytes(), "{tool} with {flags:?}");
        }
        assert_eq!(upstream.info().server_info.name, "fake-upstream");
        assert_eq!(upstream.pid(), None);
    }
}

#[tokio::test]
async fn calls_run_beside_one_another_and_one_that_never_ends_holds_up_nobody() {
    for flags in ANSWERS {
        let server = FakeHttp::start(flags);
        let upstream = connect(&server).await;
        let mut hanging = upstream.call("hang", &json!({}), None).unwrap();
        let calls = (0..50).map(|number| {
            let upstream = &upstream;
            async move {
                let text = format!("call {number}");
                assert_eq!(call_text(upstream, "echo", echo(&text)).await, text);
            }
        });
        join_all(calls).await;
        assert!(futures::poll!(&mut hanging).is_pending());
    }
}

#[tokio::test]
async fn progress_reaches_the_call_that_asked_for_it() {
    let server = FakeHttp::start(&[]);
    let upstream = connect(&server).await;
    let (sender, mut reports) = mpsc::channel(10);
    let pending = upstream.call("progress", &json!({ "steps": 3 }), Some(sender)).unwrap();
    assert_eq!(text_of(&soon("the answer", pending).await.unwrap()), "done in 3 steps");
    for step in [1.0, 2.0, 3.0] {
        let report = soon("progress", reports.recv()).await.unwrap();
        assert_eq!((report.progress, report.total), (step, Some(3.0)));
    }
    assert_eq!(soon("the end of progress", reports.recv()).await, None);
}

#[tokio::test]
async fn a_ping_of_the_server_is_answered_on_the_stream_that_is_held_open_for_it() {
    // With JSON bodies there is no other way for a question to come.
    let server = FakeHttp::start(&["--http-json"]);
    let upstream = connect(&server).await;
    wait_for_the_stream(&upstream).await;
    let error: Value = serde_json::from_str(&call_text(&upstream, "ask_unknown", json!({})).await).unwrap();
    assert_eq!(error["code"], -32601);
}

#[tokio::test]
async fn a_change_of_the_tool_list_is_passed_on() {
    let server = FakeHttp::start(&["--http-json"]);
    let upstream = connect(&server).await;
    wait_for_the_stream(&upstream).await;
    let mut notices = upstream.notices();
    assert_eq!(call_text(&upstream, "change_tools", json!({})).await, "added_1");
    assert_eq!(soon("the notice", notices.recv()).await.unwrap(), Notice::ToolsChanged);
}

#[tokio::test]
async fn an_answer_over_the_limit_fails_its_own_call_and_no_other() {
    for flags in ANSWERS {
        let server = FakeHttp::start(flags);
        let settings = UpstreamConfig { max_message_bytes: MIB, ..settings() };
        let upstream = launch(&http_driver(server.url(), &settings)).await;
        let beside = upstream.call("sleep", &json!({ "ms": 200 }), None).unwrap();
        let mut hanging = upstream.call("hang", &json!({}), None).unwrap();
        let huge = upstream.call("huge", &json!({ "bytes": 100 * MIB }), None).unwrap();
        let error = soon("the huge answer to be refused", huge).await.unwrap_err();
        assert!(matches!(error, CallError::TooLarge { limit: MIB }), "{error:?} with {flags:?}");
        assert_eq!(text_of(&soon("the call beside it", beside).await.unwrap()), "slept 200 ms");
        assert!(futures::poll!(&mut hanging).is_pending());
        assert_eq!(call_text(&upstream, "echo", echo("after it")).await, "after it");
    }
}

#[tokio::test]
async fn events_that_are_no_messages_and_answers_that_nobody_asked_for_are_survived() {
    let server = FakeHttp::start(&[]);
    let upstream = connect(&server).await;
    assert_eq!(call_text(&upstream, "garbage", json!({})).await, "that was garbage");
    assert_eq!(call_text(&upstream, "echo", echo("still here")).await, "still here");
}

#[tokio::test]
async fn a_protocol_error_is_passed_on_with_its_code_and_message() {
    for flags in ANSWERS {
        let server = FakeHttp::start(flags);
        let upstream = connect(&server).await;
        let error =
            call(&upstream, "rpc_error", json!({ "code": -32042, "message": "no" })).await.unwrap_err();
        assert!(
            matches!(&error, CallError::Rpc { code: -32042, message, .. } if message == "no"),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn an_interrupted_call_is_cancelled_at_the_server() {
    let server = FakeHttp::start(&[]);
    let upstream = connect(&server).await;
    let slow = json!({ "label": "a", "ms": 3_600_000 });
    let pending = upstream.call("slow_call_order", &slow, None).unwrap();
    call_until(&upstream, "order_log", |log| log == r#"["start a"]"#).await;
    assert_eq!(upstream.interrupt(pending.id()).await, AfterInterrupt::Silent);
    call_until(&upstream, "order_log", |log| log == r#"["start a","cancelled a"]"#).await;
}

#[tokio::test]
async fn a_call_whose_stream_ends_without_an_answer_fails() {
    let server = FakeHttp::start(&[]);
    let upstream = connect(&server).await;
    let pending = upstream.call("hang", &json!({}), None).unwrap();
    // The fake server answers a cancelled call by ending its stream.
    call_until(&upstream, "calls_seen", |seen| !seen.contains("\"calls\":1,")).await;
    upstream.interrupt(pending.id()).await;
    let error = soon("the call to fail", pending).await.unwrap_err();
    assert!(matches!(error, CallError::Transport(_)), "{error:?}");
    assert_eq!(call_text(&upstream, "echo", echo("still here")).await, "still here");
}

#[tokio::test]
async fn a_server_that_forgot_the_session_ends_the_connection_and_says_so() {
    for flags in ANSWERS {
        let server = FakeHttp::start(&[flags, &["--http-forget-after", "1"]].concat());
        let upstream = connect(&server).await;
        assert_eq!(call_text(&upstream, "echo", echo("once")).await, "once");
        // The server forgets a moment after it has answered.
        let ended = repeat_until("the end", async || match call(&upstream, "echo", echo("twice")).await {
            Ok(_) => None,
            Err(CallError::Ended(ended)) => Some(ended),
            Err(other) => panic!("{other:?}"),
        })
        .await;
        assert_eq!(ended.reason, "the server no longer knows our MCP session");
        assert_eq!(soon("the end", upstream.ended()).await, ended);
        assert_eq!(upstream.call("echo", &echo("later"), None).err(), Some(ended));
    }
}

#[tokio::test]
async fn a_call_to_a_server_that_has_gone_fails_with_its_address() {
    let server = FakeHttp::start(&[]);
    let upstream = connect(&server).await;
    let in_flight = upstream.call("hang", &json!({}), None).unwrap();
    assert_eq!(call_text(&upstream, "echo", echo("up")).await, "up");
    assert!(send_signal(server.pid(), "KILL"));
    let error = soon("the call in flight to fail", in_flight).await.unwrap_err();
    assert!(matches!(error, CallError::Transport(_)), "{error:?}");
    assert!(error.to_string().contains(server.url()), "{error}");
    gone(server.pid()).await;
    let error = call(&upstream, "echo", echo("anyone?")).await.unwrap_err();
    assert!(matches!(error, CallError::Transport(_)), "{error:?}");
    assert!(error.to_string().starts_with(&format!("{} cannot be reached", server.url())), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_fails_the_launch_with_its_address() {
    let server = FakeHttp::start(&[]);
    let url = server.url().to_owned();
    drop(server);
    let error = launch_error(&http_driver(&url, &settings())).await;
    assert!(matches!(error, LaunchError::Handshake { source: CallError::Transport(_), .. }), "{error:?}");
    assert!(chain(&error).contains(&format!("{url} cannot be reached: ")), "{}", chain(&error));
}

#[tokio::test]
async fn an_address_that_is_no_mcp_endpoint_fails_the_launch_with_what_it_answered() {
    let server = FakeHttp::start(&[]);
    let url = server.url().replace("/mcp", "/elsewhere");
    let error = launch_error(&http_driver(&url, &settings())).await;
    let shown = chain(&error);
    assert!(shown.contains("404") && shown.contains("the endpoint is /mcp"), "{shown}");
}

#[tokio::test]
async fn a_server_that_does_not_answer_initialize_in_time_is_too_slow() {
    let server = FakeHttp::start(&["--hang-on-initialize"]);
    let settings = UpstreamConfig { start_timeout: Duration::from_millis(300), ..settings() };
    let error = launch_error(&http_driver(server.url(), &settings)).await;
    assert!(matches!(error, LaunchError::TooSlow { .. }), "{error:?}");
    let expected = format!("{} did not answer `initialize` within 300 ms (START_TIMEOUT)", server.url());
    assert_eq!(error.to_string(), expected);
}

// ---- servers that do it otherwise ------------------------------------------------------------------------------

/// A server without a stream of its own that answers every call like this.
async fn connect_to_one_that_answers(answer: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Upstream {
    let url = scripted_http::start(move |method, message| {
        scripted_http::shake_hands(method, message).unwrap_or_else(|| answer(message))
    });
    launch(&http_driver(&url, &settings())).await
}

#[tokio::test]
async fn a_server_that_offers_no_stream_of_its_own_will_do() {
    let upstream =
        connect_to_one_that_answers(|message| scripted_http::answer(message, &json!("here"))).await;
    for _ in 0..3 {
        assert_eq!(call(&upstream, "any", json!({})).await.unwrap(), "\"here\"");
    }
}

#[tokio::test]
async fn an_event_may_have_comments_carriage_returns_and_data_over_several_lines() {
    let upstream = connect_to_one_that_answers(|message| {
        let id = &message["id"];
        let events = format!(
            ": hello\r\nid: 1\r\ndata:\r\n\r\nretry: 100\r\nevent: message\r\ndata: {{\"id\":{id},\r\n\
             data:\"result\":[1.0,\r\ndata:  2]}}\r\n\r\n"
        );
        Some((200, "Text/Event-Stream; charset=utf-8", events))
    })
    .await;
    assert_eq!(call(&upstream, "any", json!({})).await.unwrap(), "[1.0,\n 2]");
}

#[tokio::test]
async fn a_stream_that_ends_in_the_middle_of_an_event_fails_its_call() {
    let upstream = connect_to_one_that_answers(|message| {
        let event = format!("data: {{\"id\":{},\"result\":1}}\n", message["id"]);
        Some((200, "text/event-stream", event))
    })
    .await;
    let error = call(&upstream, "any", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::Transport(_)), "{error:?}");
}

#[tokio::test]
async fn a_protocol_error_that_comes_as_an_http_error_is_passed_on() {
    let upstream = connect_to_one_that_answers(|message| {
        let error = json!({ "code": -32001, "message": "not now" });
        let body = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
        Some((400, "application/json", body.to_string()))
    })
    .await;
    let error = call(&upstream, "any", json!({})).await.unwrap_err();
    assert!(
        matches!(&error, CallError::Rpc { code: -32001, message, .. } if message == "not now"),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_http_error_fails_its_call_with_the_status_and_the_text() {
    let upstream =
        connect_to_one_that_answers(|_| Some((503, "text/plain", "come back later".to_owned()))).await;
    let error = call(&upstream, "any", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::Transport(_)), "{error:?}");
    let shown = error.to_string();
    assert!(shown.contains("503") && shown.contains("come back later"), "{shown}");
}

// ---- goodbye ---------------------------------------------------------------------------------------------------

/// Whether the server still knows the first session it opened.
fn first_session_is_known(server: &FakeHttp) -> bool {
    let mut stranger = McpHttp::connect(server.url());
    stranger.set_session_id(Some(&format!("fake-{}-1", server.pid())));
    let status = stranger.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
    assert!(status == 200 || status == 404, "{status}");
    status == 200
}

#[tokio::test]
async fn closing_ends_the_session_at_the_server_and_the_calls_in_flight() {
    let server = FakeHttp::start(&[]);
    let upstream = connect(&server).await;
    assert!(first_session_is_known(&server));
    let in_flight = upstream.call("hang", &json!({}), None).unwrap();
    soon("the goodbye", upstream.close()).await;
    assert!(!first_session_is_known(&server));
    let error = soon("the call in flight to end", in_flight).await.unwrap_err();
    assert!(matches!(error, CallError::Ended(_)), "{error:?}");
    assert_eq!(soon("the end", upstream.ended()).await.reason, "the connection was closed");
}

#[tokio::test]
async fn dropping_an_upstream_ends_its_session_at_the_server() {
    let server = FakeHttp::start(&[]);
    let upstream = connect(&server).await;
    assert!(first_session_is_known(&server));
    drop(upstream);
    eventually("the session to be ended", || !first_session_is_known(&server)).await;
}

#[tokio::test]
async fn a_notification_that_the_server_never_accepts_does_not_hold_up_later_calls() {
    let upstream = connect_to_one_that_answers(|message| match message["params"]["name"].as_str() {
        Some("echo") => scripted_http::answer(message, &json!("here")),
        _ => None,
    })
    .await;
    let hanging = upstream.call("hang", &json!({}), None).unwrap();
    upstream.interrupt(hanging.id()).await;
    assert_eq!(call(&upstream, "echo", json!({})).await.unwrap(), "\"here\"");
}

#[tokio::test]
async fn a_refusal_that_names_no_request_fails_its_call_with_what_it_says() {
    let upstream = connect_to_one_that_answers(|_| {
        let error = json!({ "code": -32000, "message": "Bad Request: too many sessions" });
        let body = json!({ "jsonrpc": "2.0", "id": null, "error": error });
        Some((400, "application/json", body.to_string()))
    })
    .await;
    let error = call(&upstream, "any", json!({})).await.unwrap_err();
    let shown = error.to_string();
    assert!(shown.contains("400") && shown.contains("too many sessions"), "{shown}");
}
