//! What is answered: all of it, a ref id or what changed; and the rest of what was cut.

use rstest::rstest;
use serde_json::{Value, json};

use super::{Agent, Archive, POOL, blocks, connected, cut, fine, follow, pool, ref_id, texts};

/// What a reply says in the mode `ref`.
fn reference(result: &Value) -> Value {
    let text = texts(result);
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("no reference: {text}"))
}

#[test]
fn a_call_is_answered_as_it_says_or_as_its_session_or_as_the_configuration() {
    let archive = Archive::new();
    let server = archive.serve(&pool(&[("GREENROOM_REPLY", "ref")]));
    let mut agent = connected(&server);
    let result = agent.call("echo", json!({ "text": "hello", "sessionId": "a" }));
    let short = reference(&result);
    assert_eq!(short["ref_id"], result["_meta"]["greenroom/refId"]);
    assert_eq!((&short["session_id"], &short["status"]), (&json!("a"), &json!("success")));
    let metadata = json!({
        "tool": "echo", "has_snapshot": false, "has_console_logs": false, "console_error_count": 0,
    });
    assert_eq!(short["metadata"], metadata);
    let at = short["timestamp"].as_str().unwrap();
    assert!(at.contains('T') && at.ends_with('Z'), "{at}");
    assert_eq!(short.get("error"), None);
    assert_eq!(agent.content(json!({ "ref_id": short["ref_id"] })), "hello");

    assert_eq!(agent.text("echo", json!({ "text": "hello", "sessionId": "a", "reply": "full" })), "hello");
    assert_eq!(agent.text("echo", json!({ "text": "hello", "reply": "full" })), "hello", "on an instance");

    agent.text("create_new_session", json!({ "sessionId": "talkative", "reply": "full" }));
    let talk = json!({ "text": "hello", "sessionId": "talkative" });
    assert_eq!(agent.text("echo", talk.clone()), "hello");
    let mut terse = talk;
    terse["reply"] = "ref".into();
    assert_eq!(reference(&agent.call("echo", terse))["session_id"], "talkative");

    let failed = agent.call("fail", json!({ "message": "it broke" }));
    assert_eq!(failed["isError"], true);
    let short = reference(&failed);
    assert_eq!((&short["status"], &short["error"]), (&json!("error"), &json!("it broke")));
    assert_eq!(short["ref_id"], failed["_meta"]["greenroom/refId"]);
}

#[test]
fn a_wrong_way_to_answer_is_refused_with_the_right_ones() {
    let archive = Archive::new();
    let server = archive.serve(&POOL);
    let mut agent = connected(&server);
    for reply in [json!("brief"), json!(7), json!(["ref"])] {
        let message = agent.complaint("echo", json!({ "text": "x", "reply": reply }));
        assert!(message.contains("`reply` has to be one of: full, ref, diff"), "{message}");
    }
    let message = agent.complaint("create_new_session", json!({ "sessionId": "b", "reply": "brief" }));
    assert!(message.contains("`reply` has to be one of: full, ref, diff"), "{message}");
    assert_eq!(agent.text("echo", json!({ "text": "x", "reply": "" })), "x");
    assert_eq!(agent.text("echo", json!({ "text": "x", "reply": null })), "x");
    // Nothing is known about other servers' pages, so there is nothing to compare.
    assert_eq!(agent.text("echo", json!({ "text": "x", "reply": "diff" })), "x");

    let mut command = archive.command(&pool(&[("GREENROOM_REPLY", "brief")]));
    let refused = command.args(["serve", "--port", "0"]).output().unwrap();
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("REPLY") && message.contains("full"), "{message}");
}

#[rstest]
#[case::of_many_lines("bytes", json!({ "size": 5000 }), 5000)]
#[case::of_one_enormous_line("huge", json!({ "bytes": 5000 }), 5000)]
#[case::that_just_fits("bytes", json!({ "size": 1000 }), 1000)]
#[case::that_just_does_not("bytes", json!({ "size": 1001 }), 1001)]
fn what_is_cut_off_is_read_by_doing_what_the_reply_says(
    #[case] tool: &str,
    #[case] arguments: Value,
    #[case] size: usize,
) {
    let archive = Archive::new();
    let server = archive.serve(&pool(&[("GREENROOM_REPLY_BUDGET", "1000")]));
    let mut agent = connected(&server);
    let reply = agent.text(tool, arguments.clone());
    let whole = json!(&archive.result(&archive.newest()));
    let whole: Value = serde_json::from_str(whole.as_str().unwrap()).unwrap();
    let whole = whole["content"][0]["text"].as_str().unwrap();
    assert_eq!(whole.len(), size);
    let (read, reads) = follow(&mut agent, &reply);
    assert_eq!(read, whole);
    assert_eq!(reads > 0, size > 1000);
    if let Some((beginning, _)) = cut(&reply) {
        assert!(beginning.len() <= 1000 && whole.starts_with(beginning));
        let is_at_a_line = whole[beginning.len()..].starts_with('\n');
        assert!(is_at_a_line || tool == "huge", "{reply}");
    }
}

#[test]
fn empty_lines_where_a_text_is_cut_are_not_lost() {
    let archive = Archive::new();
    let server = archive.serve(&pool(&[("GREENROOM_REPLY_BUDGET", "100")]));
    let mut agent = connected(&server);
    let whole = format!("{}\n\n\n\n{}\n\n\n{}", "a".repeat(97), "b".repeat(97), "c".repeat(40));
    let result = agent.call("echo", json!({ "text": whole }));
    assert_eq!(follow(&mut agent, &fine(&result)).0, whole);
    let id = ref_id(&result);
    let mut plain = String::new();
    loop {
        let piece = agent.content(json!({ "ref_id": id }));
        match piece.rsplit_once("\n[cut: ") {
            Some((text, _)) => plain.push_str(&format!("{text}\n")),
            None => break plain.push_str(&piece),
        }
    }
    assert_eq!(plain, whole);
}

#[test]
fn several_texts_share_one_budget_and_the_rest_of_all_can_be_read() {
    let archive = Archive::new();
    let server = archive.serve(&pool(&[("GREENROOM_REPLY_BUDGET", "1000")]));
    let mut agent = connected(&server);
    let lines = |name: &str, count: usize| {
        (0..count).map(|line| format!("{name} {line}")).collect::<Vec<_>>().join("\n")
    };
    let all = [lines("first", 50), lines("second", 200), lines("third", 200)];
    let content: Vec<_> = all.iter().map(|text| json!({ "type": "text", "text": text })).collect();
    let result = agent.call("blocks", json!({ "content": content }));
    let shown = texts(&result);
    assert!(shown.len() < 1500, "{} bytes", shown.len());
    assert!(shown.starts_with(&all[0]), "{shown}");
    let (read, _) = follow(&mut agent, &shown);
    assert_eq!(read, all.join("\n"));
}

#[test]
fn an_image_that_is_not_kept_stays_in_every_answer() {
    let archive = Archive::new();
    let server = archive.serve(&pool(&[("GREENROOM_BLOB_MAX_MB", "1")]));
    let mut agent = connected(&server);
    for reply in ["full", "ref", "diff"] {
        let small = agent.call("image", json!({ "size": 1000, "reply": reply }));
        assert_eq!(blocks(&small, "resource_link").len(), 1, "{reply}");
        assert_eq!(blocks(&small, "image").len(), usize::from(reply != "ref"), "{reply}: a custom server's");
        let large = agent.call("image", json!({ "size": 2 << 20, "reply": reply }));
        assert_eq!(blocks(&large, "resource_link").len(), 0, "{reply}");
        assert_eq!(blocks(&large, "image").len(), 1, "{reply}: there is no other way to get it");
        ref_id(&large);
    }
    assert!(server.log().contains("BLOB_MAX_MB"), "{}", server.log());
}

#[rstest]
#[case::where_nothing_is_written_down(pool(&[("GREENROOM_HISTORY", "false")]), json!({}), false)]
#[case::in_the_strict_mode_of_sessions(
    vec![("GREENROOM_ADDRESSING", "session"), ("GREENROOM_SESSION_ISOLATION", "process")], json!({ "sessionId": "a" }), true
)]
#[case::where_another_server_is_passed_on(vec![], json!({}), true)]
fn nothing_is_cut_or_added_that_could_not_be_read(
    #[case] mut variables: Vec<(&str, &str)>,
    #[case] mut arguments: Value,
    #[case] is_on_record: bool,
) {
    let archive = Archive::new();
    variables.push(("GREENROOM_REPLY_BUDGET", "1000"));
    variables.push(("GREENROOM_REPLY", "ref"));
    let server = archive.serve(&variables);
    let mut agent = connected(&server);
    let tools = agent.ask("tools/list", json!({}))["result"]["tools"].to_string();
    for ours in ["get_content", "list_calls", "get_blob", "\"reply\""] {
        assert!(!tools.contains(ours), "{ours}");
    }
    arguments["size"] = 5000.into();
    let result = agent.call("bytes", arguments.clone());
    assert_eq!(fine(&result).len(), 5000);
    assert_eq!(result["_meta"]["greenroom/refId"].is_string(), is_on_record, "{}", result["_meta"]);
    let image = agent.call("image", arguments);
    assert_eq!((blocks(&image, "image").len(), blocks(&image, "resource_link").len()), (1, 0));
    if is_on_record {
        assert_eq!(archive.call(&ref_id(&result)).tool, "bytes");
    }
}
