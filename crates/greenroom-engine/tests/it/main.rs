//! The engine with the fake upstream: what callers see, and what is left behind.

#![expect(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

mod attached;
mod pools;
mod sessions;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use greenroom_core::config::{self, Source};
use greenroom_engine::{
    AttachFactory, CallError, CallFailure, CallRequest, DriverFactory, Engine, EngineConfig, Origin,
    Unavailable,
};
use greenroom_testkit::{fake_upstream, process_alive};
use greenroom_upstream::driver::{CustomDriver, Overlap};
use greenroom_upstream::{Driver, LaunchError, Run, Upstream};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// The fake upstream, with calls in turn or beside one another.
struct Fake {
    inner: CustomDriver,
    overlap: Overlap,
    /// Pools may have different servers, and so different lists.
    keeps_list: bool,
}

impl Driver for Fake {
    fn name(&self) -> &str {
        "fake"
    }

    fn launch(&self) -> BoxFuture<'_, Result<Upstream, LaunchError>> {
        self.inner.launch()
    }

    fn overlap(&self) -> Overlap {
        self.overlap
    }

    fn tool_list_name(&self) -> Option<String> {
        self.keeps_list.then(|| "fake".to_owned())
    }

    fn offers(&self, tool: &str) -> bool {
        tool != "abort"
    }

    /// Noise, so that no picture is like the one before.
    fn screenshot_call(&self) -> Option<(&'static str, Value)> {
        Some(("image", json!({ "size": 1000, "fresh": true })))
    }
}

struct Rig {
    engine: Engine,
    cache: tempfile::TempDir,
}

/// An engine on the fake upstream: `command` for all, and further variables for pools.
fn engine(command: &str, overlap: Overlap, variables: &[(&str, &str)], folder: &Path) -> Engine {
    let pairs = [("GREENROOM_DRIVER", "custom"), ("GREENROOM_UPSTREAM_COMMAND", command)];
    let pairs = pairs.iter().chain(variables).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut config = config::load(vec![config::environment_layer(Source::Environment, pairs)])
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    for instance in config.pools.iter_mut().flat_map(|pool| &mut pool.instances) {
        // Restarts without long pauses.
        instance.upstream.supervision.restart_pause = Duration::from_millis(1);
    }
    let run = Arc::new(Run::begin(folder, None).unwrap());
    let attach = attach(&config, &run, folder);
    let run_id = run.id().to_owned();
    let drivers: DriverFactory = Arc::new(move |pool, instance| {
        let config::Driver::Custom(custom) = &instance.upstream.driver else {
            panic!("custom was asked for")
        };
        let inner = CustomDriver::new(custom, &instance.upstream, Arc::clone(&run));
        Arc::new(Fake { inner, overlap, keeps_list: pool.is_implicit })
    });
    let config = EngineConfig {
        pools: config.pools,
        addressing: config.addressing,
        drain: config.drain_timeout,
        max_sessions_per_caller: config.max_sessions_per_caller,
        rest_session_idle: config.rest_session_idle,
        session_files_grace: config.session_files_grace,
        readable: Vec::new(),
        data_dir: folder.to_owned(),
        run_id,
        history: config.history,
        browsers: config.browsers,
        connect: config.connect,
        attach,
        browser_limits: config.browser_limits,
    };
    Engine::new(config, &drivers)
}

/// A browser that is there as long as a file is, driven by the fake upstream.
struct FakeBrowser {
    inner: CustomDriver,
    sign: PathBuf,
    launches: PathBuf,
}

impl Driver for FakeBrowser {
    fn name(&self) -> &str {
        "fake browser"
    }

    fn launch(&self) -> BoxFuture<'_, Result<Upstream, LaunchError>> {
        let mut launches =
            std::fs::OpenOptions::new().create(true).append(true).open(&self.launches).unwrap();
        std::io::Write::write_all(&mut launches, b".").unwrap();
        self.inner.launch()
    }

    fn reachable(&self) -> BoxFuture<'_, Result<(), String>> {
        let here = if self.sign.exists() { Ok(()) } else { Err("nothing listens there".to_owned()) };
        Box::pin(std::future::ready(here))
    }

    fn overlap(&self) -> Overlap {
        Overlap::InTurn
    }

    fn tool_list_name(&self) -> Option<String> {
        None
    }

    fn offers(&self, _tool: &str) -> bool {
        true
    }
}

/// The browser with the debugging port N is there as long as the file `up-N` is.
fn attach(config: &config::Config, run: &Arc<Run>, folder: &Path) -> AttachFactory {
    let upstream = config.pools[0].instances[0].upstream.clone();
    let (run, folder) = (Arc::clone(run), folder.to_owned());
    Arc::new(move |browser| {
        let config::Driver::Custom(custom) = &upstream.driver else { panic!("custom was asked for") };
        let port = browser.endpoint.port();
        Arc::new(FakeBrowser {
            inner: CustomDriver::new(custom, &upstream, Arc::clone(&run)),
            sign: folder.join(format!("up-{port}")),
            launches: folder.join(format!("launches-{port}")),
        })
    })
}

impl Rig {
    fn new(flags: &str, overlap: Overlap, call_timeout: Option<Duration>) -> Self {
        Self::of(&format!("{} {flags}", fake_upstream().display()), overlap, call_timeout)
    }

    fn of(command: &str, overlap: Overlap, call_timeout: Option<Duration>) -> Self {
        let millis = call_timeout.map_or_else(|| "0".to_owned(), |limit| limit.as_millis().to_string());
        Self::with(command, overlap, &[("GREENROOM_CALL_TIMEOUT", &millis)])
    }

    fn with(command: &str, overlap: Overlap, variables: &[(&str, &str)]) -> Self {
        let cache = tempfile::tempdir().unwrap();
        Self { engine: engine(command, overlap, variables, cache.path()), cache }
    }

    /// Whether the only instance was started again, and how often.
    fn restarts(&self) -> u64 {
        self.engine.restarts("DEFAULT", "0").unwrap()
    }

    fn call(&self, tool: &str, arguments: Value) -> greenroom_engine::CallHandle {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        self.engine.call(CallRequest {
            origin: Origin::local(),
            tool: tool.to_owned(),
            arguments,
            place: None,
            ref_id: None,
            progress: None,
        })
    }

    async fn text(&self, tool: &str, arguments: Value) -> String {
        let outcome = self.call(tool, arguments).outcome().await;
        let bytes = outcome.result.unwrap_or_else(|failure| panic!("{failure}"));
        let result: Value = serde_json::from_slice(&bytes).unwrap();
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    async fn failure(&self, tool: &str, arguments: Value) -> CallFailure {
        self.call(tool, arguments).outcome().await.result.expect_err("this call cannot succeed")
    }

    async fn pid(&self) -> u32 {
        self.text("pid", json!({})).await.parse().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_the_upstreams_bytes() {
    let rig = Rig::new("", Overlap::Beside, None);
    assert_eq!(rig.text("echo", json!({ "text": "hello" })).await, "hello");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_upstream_starts_with_the_first_call_and_is_gone_after_shutdown() {
    let rig = Rig::new("", Overlap::Beside, None);
    assert!(rig.engine.known_tools().is_none());
    let pid = rig.pid().await;
    assert!(process_alive(pid));
    rig.engine.shutdown().await;
    assert!(!process_alive(pid));
    assert!(matches!(rig.failure("echo", json!({ "text": "x" })).await, CallFailure::ShuttingDown));
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_first_calls_share_one_launch() {
    let rig = Rig::new("--late-start 50", Overlap::Beside, None);
    let pids = futures::future::join_all((0..50).map(|_| rig.pid())).await;
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_tool_is_refused_with_the_nearest_name() {
    let rig = Rig::new("", Overlap::Beside, None);
    let failure = rig.failure("ecko", json!({})).await;
    assert_eq!(failure.to_string(), "Unknown tool: ecko. Did you mean `echo`?");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_the_driver_does_not_offer_does_not_exist() {
    let rig = Rig::new("", Overlap::Beside, None);
    assert!(rig.engine.tools().await.unwrap().find("abort").is_none());
    assert!(matches!(rig.failure("abort", json!({})).await, CallFailure::UnknownTool { .. }));
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_tools_is_kept_across_starts_and_needs_no_upstream_then() {
    let first = Rig::new("", Overlap::Beside, None);
    let names: Vec<_> = first.engine.tools().await.unwrap().iter().map(|tool| tool.name.clone()).collect();
    first.engine.shutdown().await;

    let folder = first.cache.path();
    let crashing = format!("{} --crash-on-start", fake_upstream().display());
    let second = engine(&crashing, Overlap::Beside, &[], folder);
    let kept: Vec<_> = second.tools().await.unwrap().iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(kept, names);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_list_is_seen_and_an_announcement_without_one_is_not() {
    let rig = Rig::new("", Overlap::Beside, None);
    let before = rig.engine.tools().await.unwrap().hash();
    let mut watch = rig.engine.watch_tools();
    watch.mark_unchanged();
    rig.text("announce_tools", json!({})).await;
    let added = rig.text("change_tools", json!({})).await;
    watch.changed().await.unwrap();
    let list = watch.borrow_and_update().clone().unwrap();
    assert_ne!(list.hash(), before);
    // Had the empty announcement counted, this would be the list before the change.
    assert!(list.find(&added).is_some(), "{added} is in the list");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_in_turn_never_overlap_and_keep_their_order() {
    let rig = Rig::new("", Overlap::InTurn, None);
    rig.pid().await;
    let calls: Vec<_> =
        (0..6).map(|n| rig.call("slow_call_order", json!({ "label": format!("{n}"), "ms": 10 }))).collect();
    for mut call in calls {
        call.outcome().await.result.unwrap();
    }
    let log: Vec<String> = serde_json::from_str(&rig.text("order_log", json!({})).await).unwrap();
    let expected: Vec<_> = (0..6).flat_map(|n| [format!("start {n}"), format!("end {n}")]).collect();
    assert_eq!(log, expected);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_beside_one_another_do_not_wait_for_a_slow_one() {
    let rig = Rig::new("", Overlap::Beside, None);
    let mut hanging = rig.call("hang", json!({}));
    assert_eq!(rig.text("echo", json!({ "text": "quick" })).await, "quick");
    hanging.cancel();
    assert!(matches!(hanging.outcome().await.result, Err(CallFailure::Cancelled)));
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_frees_its_caller_and_tells_the_upstream() {
    let rig = Rig::new("", Overlap::InTurn, None);
    rig.pid().await;
    let mut hanging = rig.call("hang", json!({}));
    // It holds the turn once the upstream has seen it; cancelling must not depend on that.
    hanging.cancel();
    assert!(matches!(hanging.outcome().await.result, Err(CallFailure::Cancelled)));
    assert_eq!(rig.text("echo", json!({ "text": "next" })).await, "next");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_wait_gives_up_its_place() {
    let rig = Rig::new("", Overlap::InTurn, None);
    rig.pid().await;
    let mut first = rig.call("sleep", json!({ "ms": 300 }));
    let mut waiting = rig.call("slow_call_order", json!({ "label": "never", "ms": 1 }));
    waiting.cancel();
    assert!(matches!(waiting.outcome().await.result, Err(CallFailure::Cancelled)));
    first.outcome().await.result.unwrap();
    assert_eq!(rig.text("order_log", json!({})).await, "[]");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_does_not_stop_its_call() {
    let rig = Rig::new("", Overlap::InTurn, None);
    rig.pid().await;
    drop(rig.call("slow_call_order", json!({ "label": "left", "ms": 50 })));
    let log = rig.text("order_log", json!({})).await;
    assert_eq!(log, r#"["start left","end left"]"#);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_over_its_deadline_is_told_so_and_the_next_one_works() {
    let rig = Rig::new("", Overlap::Beside, Some(Duration::from_millis(300)));
    rig.engine.tools().await.unwrap();
    let failure = rig.failure("hang", json!({})).await;
    assert!(matches!(failure, CallFailure::TimedOut { .. }), "{failure}");
    assert!(failure.to_string().contains("CALL_TIMEOUT"));
    assert_eq!(rig.text("echo", json!({ "text": "alive" })).await, "alive");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_dies_fails_its_calls_with_its_last_words_and_comes_back() {
    let rig = Rig::new("", Overlap::Beside, None);
    let before = rig.pid().await;
    let mut bystander = rig.call("hang", json!({}));
    let failure = rig.failure("crash", json!({ "code": 3, "stderr": "out of cheese" })).await;
    let text = failure.to_string();
    assert!(matches!(failure, CallFailure::Upstream(CallError::Ended(_))), "{text}");
    assert!(text.contains("exited with code 3") && text.contains("out of cheese"), "{text}");
    assert!(matches!(bystander.outcome().await.result, Err(CallFailure::Upstream(CallError::Ended(_)))));
    assert_ne!(rig.pid().await, before);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_cannot_start_is_given_up_and_everyone_who_waits_hears_why() {
    let rig = Rig::new("--crash-on-start --stderr no-display", Overlap::Beside, None);
    let failures = futures::future::join_all((0..8).map(|_| rig.failure("echo", json!({})))).await;
    for failure in failures {
        let text = failure.to_string();
        assert!(matches!(failure, CallFailure::Unavailable(Unavailable::Failed(_))), "{text}");
        assert!(text.contains("no-display") && text.contains("greenroom restart"), "{text}");
    }
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_there_is_said_at_once_and_looked_for_again_by_the_next_call() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("server");
    let rig = Rig::of(&program.display().to_string(), Overlap::Beside, None);
    let failure = rig.failure("echo", json!({})).await;
    assert!(matches!(failure, CallFailure::Unavailable(Unavailable::NotStarted(_))), "{failure}");
    assert!(failure.to_string().contains("was not found"), "{failure}");
    std::os::unix::fs::symlink(fake_upstream(), &program).unwrap();
    assert_eq!(rig.text("echo", json!({ "text": "found" })).await, "found");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_failed_is_tried_again_while_the_call_waits() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("started-once");
    let rig = Rig::new(&format!("--crash-once {}", marker.display()), Overlap::Beside, None);
    assert_eq!(rig.text("echo", json!({ "text": "again" })).await, "again");
    assert_eq!(rig.restarts(), 0, "the first that works is no restart");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_calls_during_a_restart_are_answered_or_told_why() {
    let rig = Rig::new("", Overlap::Beside, Some(Duration::from_secs(60)));
    rig.pid().await;
    let mut crash = rig.call("crash", json!({}));
    let calls = (0..50).map(|n| {
        let mut call = rig.call("echo", json!({ "text": n.to_string() }));
        async move { call.outcome().await.result }
    });
    let outcomes = futures::future::join_all(calls).await;
    crash.outcome().await.result.unwrap_err();
    let (answered, told): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!(answered.len() + told.len(), 50);
    for outcome in told {
        let failure = outcome.unwrap_err();
        assert!(matches!(failure, CallFailure::Upstream(CallError::Ended(_))), "{failure}");
        assert!(failure.to_string().contains("exited with code 1"), "{failure}");
    }
    assert_eq!(rig.text("echo", json!({ "text": "after" })).await, "after");
    assert_eq!(rig.restarts(), 1);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_given_up_upstream_is_started_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("starts");
    let rig = Rig::new(&format!("--crash-first 4 {}", count.display()), Overlap::Beside, None);
    assert!(matches!(rig.failure("echo", json!({})).await, CallFailure::Unavailable(Unavailable::Failed(_))));
    // Another call does not wake it.
    rig.failure("echo", json!({})).await;
    rig.engine.restart("DEFAULT", "0", "the disk is mended").unwrap();
    assert_eq!(rig.text("echo", json!({ "text": "well" })).await, "well");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_reaches_the_caller_in_order() {
    let rig = Rig::new("", Overlap::Beside, None);
    // Once it is up nobody has to be told that they wait.
    rig.pid().await;
    let (sender, mut reports) = mpsc::channel(32);
    let Value::Object(arguments) = json!({ "steps": 5, "delay_ms": 1 }) else { unreachable!() };
    let request = CallRequest {
        origin: Origin::local(),
        tool: "progress".to_owned(),
        arguments,
        place: None,
        ref_id: None,
        progress: Some(sender),
    };
    rig.engine.call(request).outcome().await.result.unwrap();
    let mut seen = Vec::new();
    while let Some(report) = reports.recv().await {
        seen.push(report.progress);
    }
    assert_eq!(seen.len(), 5);
    assert!(seen.is_sorted(), "{seen:?}");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_waits_for_calls_in_flight() {
    let rig = Rig::new("", Overlap::Beside, None);
    rig.pid().await;
    let mut call = rig.call("sleep", json!({ "ms": 200 }));
    // The call is under way once the upstream has been asked, which its predecessor on the same pipe shows.
    rig.text("echo", json!({ "text": "x" })).await;
    rig.engine.shutdown().await;
    call.outcome().await.result.unwrap();
}
