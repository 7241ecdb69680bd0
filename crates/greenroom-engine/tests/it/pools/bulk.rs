//! Scripts: several calls on one instance, with nobody in between.

use greenroom_engine::CallFailure;
use serde_json::{Value, json};

use super::{Watched, main_pool, result};
use crate::Rig;

fn step(tool: &str, args: Value) -> Value {
    let mut step = json!({ "tool": tool });
    step["args"] = args;
    step
}

fn returned(tool: &str) -> Value {
    json!({ "tool": tool, "return_result": true })
}

/// A slow call that notes its beginning and its end.
fn noted(label: &str) -> Value {
    step("slow_call_order", json!({ "label": label, "ms": 1 }))
}

/// Runs a script and returns its report, which is the text and the structured content alike.
async fn run(rig: &Rig, bulk: Value) -> Value {
    let result = rig.result("browser_execute_bulk", bulk).await;
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, result["structuredContent"]);
    assert_eq!(result["isError"], json!(result["structuredContent"]["success"] != true));
    text
}

async fn log(rig: &Rig) -> Vec<String> {
    serde_json::from_str(&rig.text("order_log", json!({})).await).unwrap()
}

/// Refused before anything ran.
async fn refused(rig: &Rig, bulk: Value) -> String {
    let failure = rig.failure("browser_execute_bulk", bulk).await;
    assert!(
        matches!(failure, CallFailure::BadArguments { .. } | CallFailure::UnknownTool { .. }),
        "{failure}"
    );
    failure.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_of_three_lands_on_one_of_three_instances_a_hundred_times_out_of_a_hundred() {
    let rig = main_pool(3, &["LEASE_TIMEOUT=0", "MAX_QUEUE=1000"]);
    let others = (0..4).map(|_| {
        let rig = &rig;
        async move {
            for _ in 0..100 {
                rig.text("pid", json!({})).await;
            }
        }
    });
    let scripts = async {
        let mut instances = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let report =
                run(&rig, json!({ "commands": [returned("pid"), returned("pid"), returned("pid")] })).await;
            let pid = |n: usize| report["results"][n]["content"][0]["text"].as_str().unwrap().to_owned();
            assert_eq!((pid(0), pid(1)), (pid(1), pid(2)), "{report}");
            assert_eq!(report["success"], true);
            instances.insert(pid(0));
        }
        instances
    };
    let (instances, _) = futures::join!(scripts, futures::future::join_all(others));
    assert!(instances.len() > 1, "they were not always on the same one: {instances:?}");
    rig.wait_for_rest();
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_in_between_two_steps() {
    let rig = main_pool(1, &["LEASE_TIMEOUT=0"]);
    let script = |name: &str| {
        let steps: Vec<_> = (0..5).map(|n| noted(&format!("{name}{n}"))).collect();
        rig.call("browser_execute_bulk", json!({ "commands": steps }))
    };
    for mut script in ["a", "b", "c"].map(script) {
        script.outcome().await.result.unwrap();
    }
    let steps = ["a", "b", "c"].iter().flat_map(|name| (0..5).map(move |n| format!("{name}{n}")));
    let expected: Vec<_> = steps.flat_map(|step| [format!("start {step}"), format!("end {step}")]).collect();
    assert_eq!(log(&rig).await, expected);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_goes_to_the_instance_it_names() {
    let rig = main_pool(3, &["_MAIN__2_ALIAS=third"]);
    let third = rig.pid_of(2).await.to_string();
    let commands = json!([returned("pid")]);
    for name in [json!("third"), json!(2)] {
        let report =
            run(&rig, json!({ "browser_pool": "MAIN", "browser_instance": name, "commands": commands }))
                .await;
        assert_eq!(report["results"][0]["content"][0]["text"], third.as_str());
    }
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_fails_ends_the_script_unless_it_is_told_to_go_on() {
    let rig = main_pool(1, &[]);
    let commands =
        json!([noted("first"), step("fail", json!({ "message": "no such button" })), returned("pid")]);
    let stopped = run(&rig, json!({ "commands": commands })).await;
    assert_eq!(
        stopped,
        json!({
            "success": false, "executed_count": 2, "total_count": 3, "results": [null, null],
            "errors": [null, "no such button"], "stopped_at": 1,
        })
    );
    let went_on = run(&rig, json!({ "commands": commands, "stop_on_error": false })).await;
    assert_eq!((&went_on["success"], &went_on["executed_count"]), (&json!(false), &json!(3)));
    assert_eq!((&went_on["stopped_at"], &went_on["errors"][1]), (&Value::Null, &json!("no such button")));
    assert!(went_on["results"][2]["content"][0]["text"].is_string(), "{went_on}");
    // An error of the protocol is one of the step, too.
    let broken =
        json!([step("rpc_error", json!({ "code": -32055, "message": "no such moon" })), noted("never")]);
    let report = run(&rig, json!({ "commands": broken })).await;
    assert!(report["errors"][0].as_str().unwrap().contains("no such moon"), "{report}");
    assert_eq!(log(&rig).await.iter().filter(|line| line.contains("never")).count(), 0);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_come_for_the_steps_that_ask_or_for_all() {
    let rig = main_pool(1, &[]);
    let commands =
        json!([returned("cwd"), step("pid", json!({})), { "tool": "image", "return_result": true }]);
    let result = rig.result("browser_execute_bulk", json!({ "commands": commands })).await;
    let report = &result["structuredContent"];
    assert!(report["results"][0]["content"][0]["text"].is_string() && report["results"][1].is_null());
    assert_eq!(report["results"][2]["content"][0]["text"], "[image 1 of this answer]");
    assert_eq!(result["content"][1]["type"], "image", "{result}");
    assert_eq!((&report["stopped_at"], &report["success"]), (&Value::Null, &json!(true)));
    let report =
        run(&rig, json!({ "commands": [step("pid", json!({})), noted("x")], "return_all_results": true }))
            .await;
    assert_eq!(report["results"][1]["content"][0]["text"], "x");
    assert!(report["results"][0]["content"][0]["text"].is_string());
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_be_found_wrong_is_refused_before_anything_runs() {
    let rig = main_pool(1, &[]);
    let after = |wrong: Value| json!({ "commands": [noted("ran"), noted("ran"), wrong] });
    for (wrong, said) in [
        (
            step("browser_execute_bulk", json!({ "commands": [] })),
            "`browser_execute_bulk` cannot be called from within",
        ),
        (
            step("browser_pool_status", json!({})),
            "`browser_pool_status` cannot be called from within a script (commands[2])",
        ),
        (step("pid", json!({ "browser_pool": "MAIN" })), "`browser_pool` stands beside `commands`"),
        (step("pid", json!({ "browser_instance": 0 })), "not in commands[2].args"),
        (step("ecko", json!({})), "Unknown tool: ecko. Did you mean `echo`?"),
        (json!({ "args": {} }), "missing field `tool`"),
        (json!({ "tool": "pid", "arguments": {} }), "unknown field `arguments`"),
        (json!({ "tool": "pid", "args": [] }), "invalid type"),
    ] {
        let text = refused(&rig, after(wrong.clone())).await;
        assert!(text.contains(said), "{wrong}: {text}");
    }
    assert!(refused(&rig, json!({ "commands": [] })).await.contains("`commands` is empty"));
    assert!(refused(&rig, json!({})).await.contains("missing field `commands`"));
    let many = refused(&rig, json!({ "commands": vec![noted("ran"); 1001] })).await;
    assert!(many.contains("1001 entries, and 1000 is the most"), "{many}");
    assert!(
        refused(&rig, json!({ "commands": [noted("ran")], "stop": true }))
            .await
            .contains("unknown field `stop`")
    );
    rig.wait_for_rest();
    assert_eq!(log(&rig).await, [] as [&str; 0]);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_is_cancelled_ends_and_frees_its_instance() {
    let rig = main_pool(1, &[]);
    let commands = json!([noted("done"), step("hang", json!({})), noted("never")]);
    let mut script = rig.watched("browser_execute_bulk", json!({ "commands": commands }));
    while !said(&mut script).await.starts_with("2 of 3") {}
    script.handle.cancel();
    assert!(matches!(script.handle.outcome().await.result, Err(CallFailure::Cancelled)));
    assert_eq!(log(&rig).await, ["start done", "end done"]);
    rig.wait_for_rest();
    // One that still waits goes without having begun.
    let busy = rig.occupied(0).await;
    let mut waiting = rig.call("browser_execute_bulk", json!({ "commands": [noted("never")] }));
    waiting.cancel();
    assert!(matches!(waiting.outcome().await.result, Err(CallFailure::Cancelled)));
    busy.end().await;
    assert_eq!(log(&rig).await, ["start done", "end done"]);
    rig.engine.shutdown().await;
}

async fn said(script: &mut Watched) -> String {
    script.reports.recv().await.expect("the script goes on").message.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_has_the_time_that_a_call_has() {
    let rig = main_pool(1, &["CALL_TIMEOUT=3000"]);
    // Together they take longer than one may.
    let slow = |label: &str| step("slow_call_order", json!({ "label": label, "ms": 700 }));
    let steps: Vec<_> = ["a", "b", "c", "d", "e"].map(slow).into();
    let report = run(&rig, json!({ "commands": steps })).await;
    assert_eq!(report["success"], true, "{report}");
    let commands = json!([noted("f"), step("hang", json!({})), returned("pid")]);
    let report = run(&rig, json!({ "commands": commands, "stop_on_error": false })).await;
    assert!(report["errors"][1].as_str().unwrap().contains("within 3 s (CALL_TIMEOUT)"), "{report}");
    assert!(report["results"][2]["content"][0]["text"].is_string(), "the next step works: {report}");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_step_is_reported() {
    let rig = main_pool(1, &[]);
    let busy = rig.occupied(0).await;
    let commands = json!([noted("x"), step("pid", json!({})), step("echo", json!({ "text": "x" }))]);
    let mut script = rig.watched("browser_execute_bulk", json!({ "commands": commands }));
    assert!(said(&mut script).await.starts_with("Waiting for a browser of pool MAIN"));
    busy.end().await;
    let report = result(script.handle.outcome().await);
    assert_eq!(report["structuredContent"]["success"], true);
    let mut reports = Vec::new();
    while let Some(report) = script.reports.recv().await {
        reports.push((report.progress, report.total, report.message.unwrap()));
    }
    let expected = ["1 of 3: slow_call_order", "2 of 3: pid", "3 of 3: echo"];
    let expected: Vec<_> =
        [1.0, 2.0, 3.0].into_iter().zip(expected).map(|(n, text)| (n, Some(4.0), text.to_owned())).collect();
    assert_eq!(reports, expected);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_dies_in_the_middle_is_said_and_the_next_script_works() {
    let rig = main_pool(1, &[]);
    let commands =
        json!([noted("x"), step("crash", json!({ "code": 3, "stderr": "boom" })), returned("pid")]);
    let report = run(&rig, json!({ "commands": commands })).await;
    assert_eq!((&report["stopped_at"], &report["executed_count"]), (&json!(1), &json!(2)));
    let error = report["errors"][1].as_str().unwrap();
    assert!(error.contains("exited with code 3") && error.contains("boom"), "{error}");
    // Going on makes no sense then: whatever comes back is another browser.
    let report = run(&rig, json!({ "commands": commands, "stop_on_error": false })).await;
    assert!(
        report["errors"][2].as_str().is_some_and(|error| error.contains("exited with code 3")),
        "{report}"
    );
    let report = run(&rig, json!({ "commands": [returned("pid")] })).await;
    assert_eq!(report["success"], true);
    rig.wait_for_rest();
    rig.engine.shutdown().await;
}
