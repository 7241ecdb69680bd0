//! Attached browsers without a browser: each is there as long as a file is, and the fake upstream drives it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use greenroom_engine::{BrowserReport, CallFailure};
use greenroom_testkit::{fake_upstream, wait_until};
use greenroom_upstream::driver::Overlap;
use serde_json::{Value, json};

use crate::Rig;

/// Far more than anything here takes; only a test that fails gets to know it.
const LIMIT: Duration = Duration::from_secs(60);

/// Nothing is looked at but by calls, after the first look.
const NEVER: (&str, &str) = ("GREENROOM_HEALTH_CHECK_INTERVAL", "86400000");
const OFTEN: (&str, &str) = ("GREENROOM_HEALTH_CHECK_INTERVAL", "100");

const ONE: (&str, &str) = ("GREENROOM_BROWSER_URLS", "http://127.0.0.1:1");
const TWO: (&str, &str) = ("GREENROOM_BROWSER_URLS", "http://127.0.0.1:1,http://127.0.0.1:2");

fn rig(up: &[u16], variables: &[(&str, &str)]) -> Rig {
    let cache = tempfile::tempdir().unwrap();
    for port in up {
        std::fs::write(cache.path().join(format!("up-{port}")), "").unwrap();
    }
    let command = fake_upstream().display().to_string();
    Rig { engine: crate::engine(&command, Overlap::InTurn, variables, cache.path()), cache }
}

impl Rig {
    fn sign(&self, port: u16) -> PathBuf {
        self.cache.path().join(format!("up-{port}"))
    }

    fn starts(&self, port: u16) {
        std::fs::write(self.sign(port), "").unwrap();
    }

    fn goes(&self, port: u16) {
        std::fs::remove_file(self.sign(port)).unwrap();
    }

    fn launches(&self, port: u16) -> usize {
        std::fs::read(self.cache.path().join(format!("launches-{port}"))).map_or(0, |bytes| bytes.len())
    }

    fn browser(&self, index: usize) -> BrowserReport {
        self.engine.browsers().into_iter().find(|browser| browser.index == index).unwrap()
    }

    fn wait_for(&self, index: usize, state: &str) {
        wait_until(&format!("browser {index} to be {state}"), LIMIT, || self.browser(index).state == state);
    }

    async fn answer(&self, tool: &str, arguments: Value) -> Value {
        let outcome = self.call(tool, arguments).outcome().await;
        let bytes = outcome.result.unwrap_or_else(|failure| panic!("{failure}"));
        serde_json::from_slice(&bytes).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_is_not_there_is_tried_once_a_while_and_by_whoever_insists() {
    let rig = rig(&[], &[ONE, NEVER]);
    rig.wait_for(1, "disconnected");
    let failure = rig.failure("pid", json!({})).await;
    assert!(matches!(failure, CallFailure::BrowserUnreachable { .. }), "{failure}");
    assert!(failure.to_string().contains("[1] http://127.0.0.1:1 cannot be reached: nothing listens there"));
    let report = rig.browser(1);
    assert_eq!(report.last_error.as_deref(), Some("nothing listens there"));
    assert!(report.last_attempt.is_some() && report.cool_down_ms.is_some_and(|left| left > 0), "{report:?}");

    rig.starts(1);
    for tool in ["pid", "reconnect_browser"] {
        let failure = rig.failure(tool, json!({})).await;
        let CallFailure::BrowserCoolsDown { left, .. } = &failure else { panic!("{failure}") };
        assert!(!left.is_zero() && *left <= Duration::from_secs(60), "{left:?}");
        assert!(failure.to_string().contains("nothing listens there. Calls try again in"), "{failure}");
    }
    assert_eq!(rig.launches(1), 0);
    let report = rig.answer("reconnect_browser", json!({ "force": true })).await;
    assert_eq!(report["structuredContent"]["state"], "connected", "{report}");
    assert!(rig.pid().await > 0);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_calls_share_one_attempt() {
    let rig = rig(&[], &[ONE, NEVER]);
    rig.wait_for(1, "disconnected");
    rig.starts(1);
    let pids = futures::future::join_all((0..20).map(|_| rig.pid())).await;
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    assert_eq!(rig.launches(1), 1);
    // There is a connection that works, so there is nothing to do, unless somebody insists.
    rig.answer("reconnect_browser", json!({})).await;
    assert_eq!(rig.pid().await, pids[0]);
    rig.answer("reconnect_browser", json!({ "force": true })).await;
    assert_ne!(rig.pid().await, pids[0]);
    assert_eq!(rig.launches(1), 2);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_is_back_is_found_by_the_watch_and_one_that_has_gone_is_noticed() {
    let rig = rig(&[], &[TWO, OFTEN, ("GREENROOM_HEALTH_CHECK_FAILURES", "2")]);
    rig.wait_for(1, "disconnected");
    rig.starts(1);
    rig.wait_for(1, "connected");
    assert_eq!(rig.browser(2).state, "disconnected");
    rig.goes(1);
    rig.wait_for(1, "disconnected");
    assert_eq!(rig.browser(1).last_error.as_deref(), Some("nothing listens there"));
    rig.starts(1);
    rig.wait_for(1, "connected");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_by_itself_is_made_again_by_the_next_call() {
    let rig = rig(&[1], &[ONE, NEVER]);
    let before = rig.pid().await;
    rig.failure("crash", json!({ "code": 3, "stderr": "out of cheese" })).await;
    wait_until("its end to be noticed", LIMIT, || rig.browser(1).state == "disconnected");
    let said = rig.browser(1).last_error.unwrap();
    assert!(said.contains("exited with code 3"), "{said}");
    assert_ne!(rig.pid().await, before, "it was no failed attempt, so there is no pause");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_to_one_browser_take_turns_and_calls_to_two_do_not_wait_for_each_other() {
    let rig = rig(&[1, 2], &[TWO, NEVER]);
    let mut hanging = rig.call("hang", json!({ "browserIndex": 1 }));
    assert_eq!(rig.text("echo", json!({ "text": "beside", "browserIndex": 2 })).await, "beside");
    hanging.cancel();
    assert!(matches!(hanging.outcome().await.result, Err(CallFailure::Cancelled)));
    let calls: Vec<_> = (0..5)
        .map(|n| json!({ "label": n.to_string(), "ms": 5, "browserIndex": 2 }))
        .map(|arguments| rig.call("slow_call_order", arguments))
        .collect();
    for mut call in calls {
        call.outcome().await.result.unwrap();
    }
    let log: Vec<String> =
        serde_json::from_str(&rig.text("order_log", json!({ "browserIndex": 2 })).await).unwrap();
    let expected: Vec<_> = (0..5).flat_map(|n| [format!("start {n}"), format!("end {n}")]).collect();
    assert_eq!(log, expected);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_come_and_go_under_numbers_that_are_not_used_again() {
    let rig = rig(&[1, 2, 3, 4], &[ONE, NEVER]);
    rig.pid().await;
    let connect = |port: u16, name: &str| json!({ "url": format!("http://127.0.0.1:{port}"), "name": name });
    let second = rig.answer("connect_browser", connect(2, "work")).await;
    assert_eq!(second["structuredContent"]["index"], 2, "{second}");
    assert!(
        rig.failure("pid", json!({})).await.to_string().starts_with("browserIndex parameter is required")
    );
    let work = rig.text("pid", json!({ "browser": "work" })).await;
    assert_eq!(rig.text("pid", json!({ "browserIndex": 2 })).await, work);

    for same in [connect(2, "other"), connect(3, "work")] {
        let failure = rig.failure("connect_browser", same).await;
        assert!(matches!(failure, CallFailure::BrowserKnown { .. }), "{failure}");
    }
    // One that is not there is not attached, and has no number.
    let failure = rig.failure("connect_browser", connect(9, "nobody")).await.to_string();
    assert!(failure.starts_with("No browser was attached: nothing listens there"), "{failure}");
    assert_eq!(rig.engine.browsers().len(), 2);

    let gone = rig.answer("disconnect_browser", json!({ "browser": "work" })).await;
    assert_eq!(gone["structuredContent"]["browserIndex"], 2, "{gone}");
    assert!(rig.sign(2).exists(), "nobody has touched the browser");
    let pid = rig.pid().await;
    assert_ne!(pid.to_string(), work, "there is one again, and it must not be named");
    let third = rig.answer("connect_browser", connect(3, "")).await;
    assert_eq!(third["structuredContent"]["index"], 3, "{third}");
    let missing = rig.failure("pid", json!({ "browserIndex": 2 })).await.to_string();
    assert!(missing.starts_with("There is no browser 2. The browsers are: [1] "), "{missing}");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_who_attach_the_same_browser_at_once_get_it_once() {
    let rig = rig(&[1, 2], &[ONE, NEVER]);
    let attach = || async {
        let arguments = json!({ "url": "http://127.0.0.1:2" });
        rig.call("connect_browser", arguments).outcome().await.result
    };
    let outcomes = futures::future::join_all((0..4).map(|_| attach())).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert_eq!((rig.engine.browsers().len(), rig.launches(2)), (2, 1));
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_a_browser_which_is_let_go_of_is_told() {
    let rig = rig(&[1, 2], &[TWO, NEVER]);
    rig.text("pid", json!({ "browserIndex": 2 })).await;
    let mut running = rig.call("hang", json!({ "browserIndex": 2 }));
    let mut waiting = rig.call("pid", json!({ "browserIndex": 2 }));
    rig.answer("disconnect_browser", json!({ "browserIndex": 2 })).await;
    running.outcome().await.result.unwrap_err();
    let failure = waiting.outcome().await.result.unwrap_err().to_string();
    assert!(failure.contains("no browser 2") || failure.contains("ended"), "{failure}");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_browsers_of_this_machine_may_be_attached_unless_the_operator_says_otherwise() {
    let near = rig(&[1], &[ONE, NEVER]);
    for url in
        ["http://192.0.2.1:9222", "http://127.0.0.1.example:9222", "ws://example.com/devtools/browser/x"]
    {
        let failure = near.failure("connect_browser", json!({ "url": url })).await.to_string();
        assert!(
            failure.contains("is not on this machine") && failure.contains("CONNECT_BROWSERS"),
            "{failure}"
        );
    }
    // Nor does it say how to start anything.
    for more in [json!({ "start": "sh -c true" }), json!({ "command": "sh" }), json!({ "driver": "custom" })]
    {
        let mut arguments = json!({ "url": "http://127.0.0.1:2" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let failure = near.failure("connect_browser", arguments).await.to_string();
        assert!(failure.contains("unknown field"), "{failure}");
    }
    let piped =
        near.failure("connect_browser", json!({ "url": "http://127.0.0.1:2|touch x" })).await.to_string();
    assert!(piped.contains("not right") || piped.contains("No browser was attached"), "{piped}");
    near.engine.shutdown().await;

    let none = rig(&[1], &[ONE, NEVER, ("GREENROOM_CONNECT_BROWSERS", "none")]);
    let list = none.engine.tools().await.unwrap();
    assert!(list.find("list_browsers").is_some() && list.find("reconnect_browser").is_some());
    assert!(list.find("connect_browser").is_none() && list.find("disconnect_browser").is_none());
    none.engine.shutdown().await;

    let far = rig(&[1, 9222], &[ONE, NEVER, ("GREENROOM_CONNECT_BROWSERS", "any")]);
    far.answer("connect_browser", json!({ "url": "http://192.0.2.1:9222" })).await;
    far.engine.shutdown().await;
}

/// A program that writes down what it was given, and brings the browser up.
fn recorder(folder: &Path) -> PathBuf {
    let program = folder.join("recorder");
    let script = "#!/bin/sh\nfolder=\"$(dirname \"$0\")\"\nprintf '%s\\n' \"$@\" > \"$folder/words\"\n: > \"$folder/up-$1\"\n";
    std::fs::write(&program, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    program
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_command_is_run_word_by_word_without_a_shell_and_only_when_a_reconnect_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let program = recorder(folder.path());
    let words = "{port} 'a;b' $(id) '$HOME' > /nowhere && {url} *";
    let browser = format!("http://127.0.0.1:7|{} {words}", program.display());
    let command = fake_upstream().display().to_string();
    let variables = [("GREENROOM_BROWSER_URLS", browser.as_str()), NEVER];
    let engine = crate::engine(&command, Overlap::InTurn, &variables, folder.path());
    let rig = Rig { engine, cache: folder };
    rig.wait_for(1, "disconnected");
    rig.failure("pid", json!({})).await;
    assert!(!rig.cache.path().join("words").exists(), "a call starts nothing");
    let report = rig.answer("reconnect_browser", json!({ "force": true })).await;
    assert_eq!(report["structuredContent"]["state"], "connected", "{report}");
    let given = std::fs::read_to_string(rig.cache.path().join("words")).unwrap();
    let given: Vec<_> = given.lines().collect();
    assert_eq!(given, ["7", "a;b", "$(id)", "$HOME", ">", "/nowhere", "&&", "http://127.0.0.1:7", "*"]);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_pools_a_call_goes_to_a_browser_only_when_it_says_so() {
    let variables = [
        ONE,
        NEVER,
        ("GREENROOM__MAIN_INSTANCES", "1"),
        ("GREENROOM__MAIN_IS_DEFAULT", "true"),
        ("GREENROOM__MAIN_TOOLS", "pid,echo"),
    ];
    let rig = rig(&[1], &variables);
    let list = rig.engine.tools().await.unwrap();
    assert!(list.find("hang").is_some() && list.find("browser_pool_status").is_some());
    let pooled = rig.pid().await;
    let attached = rig.text("pid", json!({ "browserIndex": 1 })).await;
    assert_ne!(pooled.to_string(), attached);
    let lacking = rig.failure("order_log", json!({})).await.to_string();
    assert_eq!(lacking, "Unknown tool: order_log in this pool. It is there in: browser [1].");
    assert_eq!(rig.text("order_log", json!({ "browserIndex": 1 })).await, "[]");
    let both = rig.failure("pid", json!({ "browserIndex": 1, "sessionId": "a" })).await.to_string();
    assert!(both.starts_with("`browserIndex` and `sessionId` contradict one another"), "{both}");
    let shown = rig.text("list_browsers", json!({})).await;
    assert!(shown.ends_with("Without it a call goes to a pool or session."), "{shown}");
    // The last browser may go; the pool stays.
    rig.answer("disconnect_browser", json!({ "browserIndex": 1 })).await;
    assert_eq!(rig.pid().await, pooled);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_two_servers_have_takes_what_either_takes_and_runs_where_the_call_goes() {
    let loud = format!("{} --loud-echo", fake_upstream().display());
    let variables = [
        ("GREENROOM__MAIN_INSTANCES", "1"),
        ("GREENROOM__MAIN_IS_DEFAULT", "true"),
        ("GREENROOM__SIDE_INSTANCES", "1"),
        ("GREENROOM__SIDE_UPSTREAM_COMMAND", loud.as_str()),
    ];
    let rig = rig(&[], &variables);
    let list = rig.engine.tools().await.unwrap();
    let echo: Value = serde_json::from_str(list.find("echo").unwrap().raw.get()).unwrap();
    let said = "Depends on where it runs. MAIN: Answers with the text it is given. SIDE: Answers loudly.";
    assert_eq!(echo["description"], said);
    let properties = echo["inputSchema"]["properties"].as_object().unwrap();
    for name in ["text", "volume", "browser_pool"] {
        assert!(properties.contains_key(name), "{name} in {properties:?}");
    }
    assert_eq!(echo["inputSchema"]["required"], json!(["text"]));
    let pid: Value = serde_json::from_str(list.find("pid").unwrap().raw.get()).unwrap();
    assert!(!pid["description"].as_str().unwrap().contains("MAIN"), "what is the same is said once: {pid}");
    for pool in ["MAIN", "SIDE"] {
        let arguments = json!({ "text": pool, "volume": 3, "browser_pool": pool });
        assert_eq!(rig.text("echo", arguments).await, pool);
    }
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_to_a_browser_can_say_how_they_are_answered() {
    let rig = rig(&[1], &[ONE, NEVER]);
    let list = rig.engine.tools().await.unwrap();
    assert!(list.find("echo").unwrap().raw.get().contains("\"reply\""));
    let short = rig.text("echo", json!({ "text": "long story", "reply": "ref" })).await;
    assert!(!short.contains("long story"), "{short}");
    rig.engine.shutdown().await;

    let strict = rig_of_seed();
    let list = strict.engine.tools().await.unwrap();
    assert!(!list.find("echo").unwrap().raw.get().contains("\"reply\""), "to the letter");
    strict.engine.shutdown().await;
}

fn rig_of_seed() -> Rig {
    rig(&[1], &[ONE, NEVER, ("GREENROOM_ADDRESSING", "browser")])
}

#[tokio::test(flavor = "multi_thread")]
async fn where_browsers_are_the_rule_the_first_one_may_come_later() {
    let rig = rig(&[1], &[("GREENROOM_ADDRESSING", "browser"), NEVER]);
    let names: Vec<_> = rig.engine.tools().await.unwrap().iter().map(|tool| tool.name.clone()).collect();
    assert!(names.contains(&"connect_browser".to_owned()) && !names.contains(&"pid".to_owned()), "{names:?}");
    for tool in ["pid", "reconnect_browser"] {
        let failure = rig.failure(tool, json!({})).await.to_string();
        assert!(failure.starts_with("No browser is attached."), "{failure}");
    }
    rig.answer("connect_browser", json!({ "url": "http://127.0.0.1:1" })).await;
    assert!(rig.engine.tools().await.unwrap().find("pid").is_some());
    assert!(rig.pid().await > 0);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_never_ends_costs_the_connection_and_not_the_browser() {
    let rig = rig(&[1], &[ONE, NEVER, ("GREENROOM_CALL_TIMEOUT", "1500")]);
    let before = rig.pid().await;
    let failure = rig.failure("hang", json!({})).await;
    assert!(matches!(failure, CallFailure::TimedOut { shares_a_page: false, .. }), "{failure}");
    wait_until("the connection to be given up", LIMIT, || rig.browser(1).state == "disconnected");
    assert_ne!(rig.pid().await, before);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_are_hidden_for_all_are_hidden_here_too() {
    let rig = rig(&[1], &[ONE, NEVER, ("GREENROOM_HIDE_TOOLS", "pid,h*")]);
    let list = rig.engine.tools().await.unwrap();
    assert!(list.find("echo").is_some() && list.find("pid").is_none() && list.find("hang").is_none());
    assert!(matches!(rig.failure("pid", json!({})).await, CallFailure::UnknownTool { .. }));
    let bulk = json!({ "commands": [{ "tool": "echo", "args": { "text": "x" } }, { "tool": "hang" }] });
    let failure = rig.failure("browser_execute_bulk", bulk).await;
    assert!(matches!(failure, CallFailure::UnknownTool { .. }), "a script does not get around it: {failure}");
    rig.engine.shutdown().await;
}
