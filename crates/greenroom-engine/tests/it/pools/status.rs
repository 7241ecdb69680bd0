//! `browser_pool_status`: exactly what the specification shows, and what the tool's own schema says.

use serde_json::{Value, json};

use super::pools;
use crate::Rig;

/// What a JSON Schema asks of a value, as far as ours use it. Says what is wrong.
fn violations(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let Some(schema) = schema.as_object() else { panic!("a schema is an object: {schema}") };
    for (keyword, wanted) in schema {
        let holds = match keyword.as_str() {
            "type" => {
                let kinds = wanted.as_array().map_or_else(|| vec![wanted], |kinds| kinds.iter().collect());
                kinds.iter().any(|kind| is_a(value, kind.as_str().unwrap()))
            }
            "enum" => wanted.as_array().unwrap().contains(value),
            "minimum" => value.as_f64().is_none_or(|number| number >= wanted.as_f64().unwrap()),
            "required" => {
                let mut names = wanted.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                names.all(|name| value.get(name).is_some())
            }
            "properties" => {
                for (name, schema) in wanted.as_object().unwrap() {
                    let inner = value.get(name);
                    inner
                        .into_iter()
                        .for_each(|inner| violations(schema, inner, &format!("{at}.{name}"), found));
                }
                true
            }
            "items" => {
                let items = value.as_array().into_iter().flatten();
                items
                    .enumerate()
                    .for_each(|(n, item)| violations(wanted, item, &format!("{at}[{n}]"), found));
                true
            }
            "description" => true,
            other => panic!("teach this test the keyword {other}"),
        };
        if !holds {
            found.push(format!("{at}: {keyword} {wanted} does not hold for {value}"));
        }
    }
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "null" => value.is_null(),
        other => panic!("teach this test the type {other}"),
    }
}

/// The answer of an own tool, checked against the schema that it is listed with.
async fn checked(rig: &Rig, tool: &str, arguments: Value) -> Value {
    let result = rig.result(tool, arguments).await;
    let list = rig.engine.tools().await.unwrap();
    let listed: Value = serde_json::from_str(list.find(tool).unwrap().raw.get()).unwrap();
    let mut found = Vec::new();
    violations(&listed["outputSchema"], &result["structuredContent"], tool, &mut found);
    assert_eq!(found, [] as [&str; 0]);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), result["structuredContent"]);
    result["structuredContent"].clone()
}

/// What differs from run to run, replaced by what kind of thing it is.
fn without_chance(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match name.as_str() {
                    "process_id" | "lease_duration_ms" if value.is_u64() => *value = json!("a number"),
                    "lease_started_at" | "last_check" if value.is_string() => {
                        let text = value.as_str().unwrap();
                        let form = "0000-00-00T00:00:00.000Z";
                        let digits = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "0");
                        assert_eq!(digits(text), form, "the form of {name}");
                        *value = json!("a time");
                    }
                    "error" if value.is_string() => *value = json!("a cause"),
                    _ => without_chance(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_chance),
        _ => {}
    }
}

const EXPECTED: &str = r#"{
  "pools": [
    {
      "name": "MAIN",
      "description": "General web scraping and navigation",
      "is_default": true,
      "total_instances": 3,
      "healthy_instances": 2,
      "leased_instances": 1,
      "available_instances": 1,
      "instances": [
        {
          "id": "0",
          "alias": null,
          "status": "healthy",
          "leased": true,
          "lease_duration_ms": "a number",
          "lease_started_at": "a time",
          "browser": "fake",
          "headless": null,
          "process_id": "a number",
          "health_check": {
            "last_check": "a time",
            "responsive": true,
            "error": null
          }
        },
        {
          "id": "1",
          "alias": "debug_browser",
          "status": "healthy",
          "leased": false,
          "lease_duration_ms": null,
          "lease_started_at": null,
          "browser": "fake",
          "headless": null,
          "process_id": "a number",
          "health_check": {
            "last_check": "a time",
            "responsive": true,
            "error": null
          }
        },
        {
          "id": "2",
          "alias": null,
          "status": "failed",
          "leased": false,
          "lease_duration_ms": null,
          "lease_started_at": null,
          "browser": "fake",
          "headless": null,
          "process_id": null,
          "health_check": {
            "last_check": "a time",
            "responsive": false,
            "error": "a cause"
          }
        }
      ]
    },
    {
      "name": "LATER",
      "description": "",
      "is_default": false,
      "total_instances": 1,
      "healthy_instances": 0,
      "leased_instances": 0,
      "available_instances": 0,
      "instances": [
        {
          "id": "0",
          "alias": null,
          "status": "starting",
          "leased": false,
          "lease_duration_ms": null,
          "lease_started_at": null,
          "browser": "fake",
          "headless": null,
          "process_id": null,
          "health_check": {
            "last_check": null,
            "responsive": false,
            "error": null
          }
        }
      ]
    }
  ],
  "summary": {
    "total_pools": 2,
    "total_instances": 4,
    "healthy_instances": 2,
    "failed_instances": 1,
    "leased_instances": 1,
    "available_instances": 1
  }
}"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_status_has_the_keys_of_the_specification_in_their_order() {
    let rig = pools(
        "",
        &[
            "_MAIN_INSTANCES=3",
            "_MAIN_IS_DEFAULT=true",
            "_MAIN_DESCRIPTION=General web scraping and navigation",
            "_MAIN__1_ALIAS=debug_browser",
            "_LATER_INSTANCES=1",
            "_LATER_START=lazy",
            "HEALTH_CHECK_INTERVAL=100",
            "RESTART_MAX=0",
        ],
    );
    rig.wait_for_healthy("MAIN", 3);
    let all_checked = || (0..3).all(|id| rig.instance("MAIN", id).health_check.last_check.is_some());
    greenroom_testkit::wait_until("all to be checked", super::LIMIT, all_checked);
    rig.failure("crash", json!({ "browser_instance": 2 })).await;
    rig.wait_for_failed("MAIN", 2);
    let busy = rig.occupied(0).await;
    let mut status = checked(&rig, "browser_pool_status", json!({})).await;
    without_chance(&mut status);
    assert_eq!(format!("{status:#}"), EXPECTED);

    let one = checked(&rig, "browser_pool_status", json!({ "pool_name": "LATER" })).await;
    assert_eq!(one["pools"].as_array().unwrap().len(), 1);
    assert_eq!((&one["summary"]["total_pools"], &one["summary"]["failed_instances"]), (&json!(1), &json!(0)));
    for name in [json!(null), json!("")] {
        let all = checked(&rig, "browser_pool_status", json!({ "pool_name": name })).await;
        assert_eq!(all["summary"]["total_pools"], 2);
    }
    assert!(
        rig.failure("browser_pool_status", json!({ "pool": "MAIN" })).await.to_string().contains("pool_name")
    );
    busy.end().await;
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_needs_no_instance_and_waits_for_nobody() {
    let rig = super::main_pool(1, &["_MAIN_MAX_QUEUE=1"]);
    let busy = rig.occupied(0).await;
    let waiting = rig.endless(json!({}));
    let status = checked(&rig, "browser_pool_status", json!({})).await;
    assert_eq!(status["summary"]["leased_instances"], 1);
    let before = status["pools"][0]["instances"][0]["lease_duration_ms"].as_u64().unwrap();
    greenroom_testkit::wait_until("the lease to grow older", super::LIMIT, || {
        rig.instance("MAIN", 0).lease_duration_ms.unwrap() > before
    });
    waiting.end().await;
    busy.end().await;
    rig.wait_for_rest();
    assert_eq!(rig.instance("MAIN", 0).lease_started_at, None);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_answers_as_its_schema_says() {
    let rig = super::main_pool(1, &[]);
    for commands in [
        json!([{ "tool": "pid", "return_result": true }]),
        json!([{ "tool": "fail", "args": { "message": "x" } }]),
    ] {
        checked(&rig, "browser_execute_bulk", json!({ "commands": commands })).await;
    }
    rig.engine.shutdown().await;
}
