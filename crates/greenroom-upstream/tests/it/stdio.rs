//! The custom driver over pipes, with the fake server at the other end.

use std::time::Duration;

use futures::future::join_all;
use greenroom_core::config::UpstreamConfig;
use greenroom_testkit::{fake_upstream, process_alive};
use greenroom_upstream::driver::AfterInterrupt;
use greenroom_upstream::process::{self, Output, SpawnError};
use greenroom_upstream::rpc::{CallError, Notice, connect_lines};
use greenroom_upstream::{LaunchError, Upstream};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::support::{
    MIB, call, call_pid, call_text, call_until, chain, eventually, fake_driver, gone, launch, launch_error,
    printed_by_the_fake, processes_with_argument, run, settings, soon, stdio_driver, text_of,
};

async fn fake(flags: &[&str]) -> Upstream {
    launch(&fake_driver(flags, &settings())).await
}

/// The same, with a limit of one mebibyte for a message.
async fn narrow_fake(flags: &[&str]) -> Upstream {
    let settings = UpstreamConfig { max_message_bytes: MIB, ..settings() };
    launch(&fake_driver(flags, &settings)).await
}

fn echo(text: &str) -> Value {
    json!({ "text": text })
}

// ---- results ---------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_result_is_handed_up_byte_for_byte_as_the_server_wrote_it() {
    let upstream = fake(&[]).await;
    let nested = json!({ "zebra": 1, "apple": { "y": 1.5, "x": [null, true, "é\u{1f600}\n"] }, "0": -0.0 });
    for (tool, arguments) in [
        ("structured", nested),
        ("odd_content", json!({})),
        ("image", json!({ "size": 5000 })),
        ("fail", json!({ "message": "it did not work" })),
    ] {
        let printed = printed_by_the_fake(tool, &arguments);
        assert_eq!(call(&upstream, tool, arguments).await.unwrap(), printed.as_bytes(), "{tool}");
    }
}

#[tokio::test]
async fn key_order_number_forms_and_unknown_fields_of_a_result_are_kept() {
    let upstream = fake(&["--id-first"]).await;
    let structured = call(&upstream, "structured", json!({ "b": 1, "a": 2 })).await.unwrap();
    let expected =
        r#"{"content":[{"type":"text","text":"{\"b\":1,\"a\":2}"}],"structuredContent":{"b":1,"a":2}}"#;
    assert_eq!(structured, expected);
    let odd = call(&upstream, "odd_content", json!({})).await.unwrap();
    let odd = std::str::from_utf8(&odd).unwrap();
    assert!(odd.starts_with(r#"{"content":[{"type":"hologram","data":{"x":1},"#), "{odd}");
    assert!(odd.ends_with(r#""futureField":{"exact":1.50,"kept":true}}"#), "{odd}");
}

#[tokio::test]
async fn what_the_server_says_of_itself_and_its_tools_is_known_after_the_launch() {
    let upstream = fake(&["--extra-tools", "300"]).await;
    assert_eq!(upstream.info().server_info.name, "fake-upstream");
    assert_eq!(upstream.info().protocol_version, "2025-11-25");
    assert!(upstream.info().instructions.as_deref().unwrap().starts_with("A stand-in"));
    assert_eq!(upstream.pid(), Some(call_pid(&upstream, "pid").await));
    let tools = soon("the list", upstream.list_tools()).await.unwrap();
    let names: Vec<String> = tools
        .iter()
        .map(|tool| serde_json::from_str::<Value>(tool.get()).unwrap()["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.contains(&"echo".to_owned()), "{names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with("extra_")).count(), 300);
}

#[tokio::test]
async fn a_protocol_error_is_passed_on_with_its_code_and_message() {
    let upstream = fake(&[]).await;
    let unknown = call(&upstream, "no_such_tool", json!({})).await.unwrap_err();
    assert!(
        matches!(&unknown, CallError::Rpc { code: -32602, message, .. } if message == "Unknown tool: no_such_tool"),
        "{unknown:?}"
    );
    let scripted = call(&upstream, "rpc_error", json!({ "code": -32042, "message": "no, \"thanks\"" })).await;
    let scripted = scripted.unwrap_err();
    assert!(matches!(scripted, CallError::Rpc { code: -32042, .. }), "{scripted:?}");
    assert_eq!(scripted.to_string(), "no, \"thanks\"");
}

#[tokio::test]
async fn the_configured_environment_reaches_the_server() {
    let mut settings = settings();
    settings.env = vec![("GREENROOM_TEST_WORD".to_owned(), "a b=c".to_owned())];
    let upstream = launch(&fake_driver(&[], &settings)).await;
    assert_eq!(call_text(&upstream, "env", json!({ "name": "GREENROOM_TEST_WORD" })).await, "a b=c");
    // And it is added to ours, not put in its place.
    assert!(!call_text(&upstream, "env", json!({ "name": "PATH" })).await.is_empty());
}

// ---- calls beside one another ----------------------------------------------------------------------------------

#[tokio::test]
async fn many_calls_beside_one_another_each_get_their_own_answer() {
    let upstream = fake(&[]).await;
    let calls = (0..300).map(|number| {
        let upstream = &upstream;
        async move {
            let text = format!("call {number}");
            // Some answer at once and some later, so that answers overtake one another.
            if number % 3 == 0 {
                let sleep = json!({ "label": text, "ms": 300 - number });
                assert_eq!(call_text(upstream, "slow_call_order", sleep).await, text);
            } else {
                assert_eq!(call_text(upstream, "echo", echo(&text)).await, text);
            }
        }
    });
    join_all(calls).await;
}

#[tokio::test]
async fn a_call_that_never_ends_does_not_hold_up_the_others() {
    let upstream = fake(&[]).await;
    let mut hanging = upstream.call("hang", &json!({}), None).unwrap();
    for number in 0..20 {
        let text = number.to_string();
        assert_eq!(call_text(&upstream, "echo", echo(&text)).await, text);
    }
    assert!(futures::poll!(&mut hanging).is_pending());
}

#[tokio::test]
async fn answers_that_nobody_fetches_do_not_hold_up_the_reader() {
    let upstream = fake(&[]).await;
    let size = 2 * MIB;
    let unfetched: Vec<_> =
        (0..20).map(|_| upstream.call("bytes", &json!({ "size": size }), None).unwrap()).collect();
    assert_eq!(call_text(&upstream, "echo", echo("past them")).await, "past them");
    for pending in unfetched {
        assert_eq!(text_of(&soon("an answer", pending).await.unwrap()).len(), size);
    }
}

#[tokio::test]
async fn a_call_that_was_dropped_is_forgotten_and_its_late_answer_does_no_harm() {
    let upstream = fake(&[]).await;
    let slow = |label: &str| json!({ "label": label, "ms": 30 });
    drop(upstream.call("slow_call_order", &slow("dropped"), None).unwrap());
    call_until(&upstream, "order_log", |log| log.contains("end dropped")).await;
    assert_eq!(call_text(&upstream, "slow_call_order", slow("next")).await, "next");
}

// ---- progress --------------------------------------------------------------------------------------------------

#[tokio::test]
async fn progress_reaches_the_call_that_asked_for_it_and_no_other() {
    let upstream = fake(&[]).await;
    let mut reporting = Vec::new();
    for steps in 1..=5_u32 {
        let (sender, reports) = mpsc::channel(100);
        let arguments = json!({ "steps": steps, "delay_ms": 2 });
        reporting.push((steps, upstream.call("progress", &arguments, Some(sender)).unwrap(), reports));
    }
    for (steps, pending, mut reports) in reporting {
        assert_eq!(text_of(&soon("the answer", pending).await.unwrap()), format!("done in {steps} steps"));
        let mut seen = Vec::new();
        // The channel closes with the answer.
        while let Some(report) = soon("progress", reports.recv()).await {
            assert_eq!(report.total, Some(f64::from(steps)));
            assert_eq!(report.message.unwrap(), format!("step {} of {steps}", seen.len() + 1));
            seen.push(report.progress);
        }
        assert_eq!(seen, (1..=steps).map(f64::from).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn progress_that_nobody_reads_is_dropped_and_the_answer_comes_all_the_same() {
    let upstream = fake(&[]).await;
    let (sender, mut unread) = mpsc::channel(1);
    let pending = upstream.call("progress", &json!({ "steps": 5000 }), Some(sender)).unwrap();
    assert_eq!(call_text(&upstream, "echo", echo("beside it")).await, "beside it");
    assert_eq!(text_of(&soon("the answer", pending).await.unwrap()), "done in 5000 steps");
    assert_eq!(unread.recv().await.unwrap().progress, 1.0);
    assert_eq!(unread.recv().await, None);
}

// ---- questions of the server -----------------------------------------------------------------------------------

#[tokio::test]
async fn a_ping_of_the_server_is_answered() {
    let upstream = fake(&[]).await;
    assert_eq!(call_text(&upstream, "ask_ping", json!({})).await, "{}");
}

#[tokio::test]
async fn a_request_of_the_server_that_nobody_knows_is_answered_with_an_error() {
    let upstream = fake(&[]).await;
    let error: Value = serde_json::from_str(&call_text(&upstream, "ask_unknown", json!({})).await).unwrap();
    assert_eq!(error["code"], -32601);
}

#[tokio::test]
async fn no_roots_are_declared_to_a_custom_server() {
    let upstream = fake(&[]).await;
    assert_eq!(call_text(&upstream, "ask_roots", json!({})).await, "the client did not declare roots");
}

#[tokio::test]
async fn roots_are_declared_and_listed_where_there_are_some() {
    let spawned = process::spawn(Command::new(fake_upstream()), None, Output::Piped, &run()).await.unwrap();
    let watch = spawned.process.watch();
    let roots = vec!["file:///srv/a%20b".to_owned(), "file:///tmp".to_owned()];
    let peer =
        connect_lines(spawned.stdout.unwrap(), spawned.stdin.unwrap(), roots, MIB, move || async move {
            watch.obituary("the fake").await
        });
    soon("the handshake", peer.initialize()).await.unwrap();
    let result = soon("the roots", peer.call_tool("ask_roots", &json!({}), None).unwrap()).await.unwrap();
    assert_eq!(text_of(&result), r#"{"roots":[{"uri":"file:///srv/a%20b"},{"uri":"file:///tmp"}]}"#);
}

#[tokio::test]
async fn a_change_of_the_tool_list_is_passed_on() {
    let upstream = fake(&[]).await;
    let mut notices = upstream.notices();
    assert_eq!(call_text(&upstream, "change_tools", json!({})).await, "added_1");
    assert_eq!(soon("the notice", notices.recv()).await.unwrap(), Notice::ToolsChanged);
    let tools = soon("the list", upstream.list_tools()).await.unwrap();
    assert!(tools.iter().any(|tool| tool.get().contains("added_1")));
}

#[tokio::test]
async fn an_interrupted_call_is_cancelled_at_the_server() {
    let upstream = fake(&[]).await;
    let pending = upstream.call("hang", &json!({}), None).unwrap();
    let id = pending.id();
    assert_eq!(upstream.interrupt(id).await, AfterInterrupt::Silent);
    let seen: Value = serde_json::from_str(&call_text(&upstream, "calls_seen", json!({})).await).unwrap();
    assert_eq!(seen["cancelledIds"], json!([id]));
}

// ---- what a server does wrong ----------------------------------------------------------------------------------

#[tokio::test]
async fn an_answer_over_the_limit_fails_its_own_call_and_no_other_wherever_its_id_stands() {
    for flags in [&[][..], &["--id-first"]] {
        let upstream = narrow_fake(flags).await;
        let beside = upstream.call("sleep", &json!({ "ms": 200 }), None).unwrap();
        let mut hanging = upstream.call("hang", &json!({}), None).unwrap();
        let huge = upstream.call("huge", &json!({ "bytes": 100 * MIB }), None).unwrap();
        let error = soon("the huge answer to be refused", huge).await.unwrap_err();
        assert!(matches!(error, CallError::TooLarge { limit: MIB }), "{error:?} with {flags:?}");
        assert!(error.to_string().contains("limit of 1 MiB (MAX_MESSAGE_MB)"), "{error}");
        assert_eq!(text_of(&soon("the call beside it", beside).await.unwrap()), "slept 200 ms");
        assert!(futures::poll!(&mut hanging).is_pending());
        // The text has a line break now and then, which takes two bytes in JSON.
        let nearly = MIB / 10 * 9;
        assert_eq!(call_text(&upstream, "bytes", json!({ "size": nearly })).await.len(), nearly);
    }
}

#[tokio::test]
async fn lines_that_are_no_messages_and_answers_that_nobody_asked_for_are_survived() {
    let upstream = fake(&[]).await;
    assert_eq!(call_text(&upstream, "garbage", json!({})).await, "that was garbage");
    assert_eq!(call_text(&upstream, "echo", echo("still here")).await, "still here");
}

#[tokio::test]
async fn a_flood_on_standard_error_is_survived_and_only_its_end_is_kept() {
    let upstream = fake(&[]).await;
    assert_eq!(
        call_text(&upstream, "flood_stderr", json!({ "lines": 200_000 })).await,
        "printed 200000 lines"
    );
    let error = call(&upstream, "crash", json!({ "stderr": "that was too much" })).await.unwrap_err();
    let CallError::Ended(ended) = error else { panic!("{error:?}") };
    let kept = &ended.last_output;
    assert!(kept.len() < 100, "{} lines", kept.len());
    assert_eq!(kept.last().unwrap(), "that was too much");
    assert!(kept[kept.len() - 2].starts_with("noise 00200000 "), "{kept:?}");
}

// ---- how a server ends -----------------------------------------------------------------------------------------

#[tokio::test]
async fn a_crash_fails_all_calls_in_flight_with_the_exit_code_and_the_last_words() {
    let upstream = fake(&[]).await;
    let beside = upstream.call("hang", &json!({}), None).unwrap();
    let crash = json!({ "code": 7, "stderr": "out of cheese\nredo from start" });
    for outcome in [call(&upstream, "crash", crash).await, soon("the call beside it", beside).await] {
        let error = outcome.unwrap_err();
        let CallError::Ended(ended) = &error else { panic!("{error:?}") };
        assert!(ended.reason.ends_with("fake-upstream` exited with code 7"), "{}", ended.reason);
        assert_eq!(ended.last_output, ["out of cheese", "redo from start"]);
        let shown = error.to_string();
        assert!(shown.ends_with("its last output was:\nout of cheese\nredo from start"), "{shown}");
    }
    let ended = soon("the end", upstream.ended()).await;
    assert!(ended.reason.contains("exited with code 7"), "{ended}");
    assert_eq!(upstream.call("echo", &echo("too late"), None).err(), Some(ended));
}

#[tokio::test]
async fn a_server_that_is_ended_by_a_signal_is_reported_with_its_name() {
    let upstream = fake(&[]).await;
    let error = call(&upstream, "abort", json!({})).await.unwrap_err();
    assert!(
        matches!(&error, CallError::Ended(ended) if ended.reason.ends_with("was ended by SIGABRT")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_server_that_crashes_on_start_fails_the_launch_with_its_last_words() {
    let driver = fake_driver(
        &["--crash-on-start", "--exit-code", "3", "--stderr", "no licence was found"],
        &settings(),
    );
    let error = launch_error(&driver).await;
    assert!(matches!(error, LaunchError::Handshake { source: CallError::Ended(_), .. }), "{error:?}");
    let shown = chain(&error);
    for part in ["fake-upstream` did not answer `initialize`", "exited with code 3", "no licence was found"] {
        assert!(shown.contains(part), "{part:?} is not in {shown:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_initialize_in_time_is_named_and_killed() {
    let marker = "--stderr=nobody-else-has-this-argument";
    let mut settings = settings();
    settings.start_timeout = Duration::from_millis(700);
    // A shell that prints, then waits for ever: the fake server would not say anything before it hangs.
    let script = "echo 'looking for a browser' >&2; read line; read line";
    let error = launch_error(&stdio_driver("sh", &["-c", script, marker], &settings)).await;
    assert!(matches!(error, LaunchError::TooSlow { .. }), "{error:?}");
    assert!(
        error.to_string().starts_with("`sh` did not answer `initialize` within 700 ms (START_TIMEOUT)"),
        "{error}"
    );
    eventually("the slow server to be killed", || processes_with_argument(marker) == 0).await;
}

#[tokio::test]
async fn the_fake_server_that_hangs_on_initialize_is_too_slow() {
    let mut settings = settings();
    settings.start_timeout = Duration::from_millis(300);
    let error = launch_error(&fake_driver(&["--hang-on-initialize"], &settings)).await;
    assert!(
        matches!(error, LaunchError::TooSlow { limit, .. } if limit == settings.start_timeout),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_program_that_is_missing_is_named_with_what_to_do() {
    let error = launch_error(&stdio_driver("/no/such/browser-server", &[], &settings())).await;
    assert!(matches!(error, LaunchError::Spawn(SpawnError::NotFound { .. })), "{error:?}");
    assert_eq!(
        error.to_string(),
        "the program `/no/such/browser-server` was not found; install it or correct the path"
    );
}

#[tokio::test]
async fn a_file_that_cannot_be_run_is_named_with_the_cause() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let error = launch_error(&stdio_driver(path, &[], &settings())).await;
    assert!(matches!(error, LaunchError::Spawn(SpawnError::Failed { .. })), "{error:?}");
    assert_eq!(error.to_string(), format!("the program `{path}` could not be started"));
    assert!(chain(&error).contains("Permission denied"), "{}", chain(&error));
}

#[tokio::test]
async fn dropping_an_upstream_kills_its_process_and_what_that_started() {
    let upstream = fake(&["--spawn-child", "--ignore-stdin-close", "--ignore-sigterm"]).await;
    let (pid, child) = (upstream.pid().unwrap(), call_pid(&upstream, "child_pid").await);
    assert!(process_alive(pid) && process_alive(child));
    drop(upstream);
    gone(pid).await;
    gone(child).await;
}

#[tokio::test]
async fn a_call_in_flight_when_its_upstream_is_dropped_ends() {
    let upstream = fake(&[]).await;
    let pending = upstream.call("hang", &json!({}), None).unwrap();
    drop(upstream);
    let error = soon("the call to end", pending).await.unwrap_err();
    assert!(
        matches!(&error, CallError::Ended(ended) if ended.reason.ends_with("ended by SIGKILL")),
        "{error:?}"
    );
}

/// Closes a server and tells how it ended.
async fn end_by_closing(flags: &[&str]) -> String {
    let upstream = fake(flags).await;
    let pid = upstream.pid().expect("it is a process");
    soon("the server to be closed", upstream.close()).await;
    assert!(!process_alive(pid));
    soon("the end", upstream.ended()).await.reason
}

#[tokio::test]
async fn closing_lets_a_server_go_by_itself() {
    let reason = end_by_closing(&[]).await;
    assert!(reason.ends_with("exited with code 0"), "{reason}");
}

#[tokio::test]
async fn closing_ends_a_server_that_ignores_its_closed_input_by_sigterm() {
    let reason = end_by_closing(&["--ignore-stdin-close"]).await;
    assert!(reason.ends_with("was ended by SIGTERM"), "{reason}");
}

#[tokio::test]
async fn closing_ends_a_server_that_ignores_sigterm_too_by_sigkill() {
    let reason = end_by_closing(&["--ignore-stdin-close", "--ignore-sigterm"]).await;
    assert!(reason.ends_with("was ended by SIGKILL"), "{reason}");
}

#[tokio::test]
async fn what_a_crashed_server_started_is_killed_after_it() {
    let upstream = fake(&["--spawn-child"]).await;
    let child = call_pid(&upstream, "child_pid").await;
    let error = call(&upstream, "crash", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::Ended(_)), "{error:?}");
    gone(child).await;
}

#[tokio::test]
async fn what_a_closed_server_started_is_killed_after_it() {
    let upstream = fake(&["--spawn-child"]).await;
    let child = call_pid(&upstream, "child_pid").await;
    soon("the server to be closed", upstream.close()).await;
    gone(child).await;
}

#[tokio::test]
async fn a_server_that_died_is_noticed_though_a_child_of_its_holds_its_output_open() {
    let error = launch_error(&stdio_driver("sh", &["-c", "sleep 1000 & exit 3"], &settings())).await;
    assert!(chain(&error).contains("exited with code 3"), "{}", chain(&error));
}
