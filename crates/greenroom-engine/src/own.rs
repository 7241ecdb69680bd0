//! Greenroom's own tools: how they are described and how their arguments are read.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::call::CallFailure;
use crate::status;
use crate::tools::{instance_parameter, pool_parameter};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnTool {
    PoolStatus,
    ExecuteBulk,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PoolStatusArguments {
    #[serde(default)]
    pub(crate) pool_name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkArguments {
    pub(crate) commands: Vec<BulkCommand>,
    #[serde(default = "yes")]
    pub(crate) stop_on_error: bool,
    #[serde(default)]
    pub(crate) return_all_results: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkCommand {
    pub(crate) tool: String,
    #[serde(default)]
    pub(crate) args: Map<String, Value>,
    #[serde(default)]
    pub(crate) return_result: bool,
}

fn yes() -> bool {
    true
}

impl OwnTool {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PoolStatus => "browser_pool_status",
            Self::ExecuteBulk => "browser_execute_bulk",
        }
    }

    /// Reads arguments into what the tool expects.
    pub(crate) fn read<T: for<'de> Deserialize<'de>>(
        self,
        arguments: Map<String, Value>,
    ) -> Result<T, CallFailure> {
        serde_json::from_value(Value::Object(arguments))
            .map_err(|error| CallFailure::BadArguments { tool: self.name(), problem: error.to_string() })
    }

    /// The tool as `tools/list` shows it. `pools` where calls can name one.
    pub(crate) fn describe(self, pools: Option<&[(String, String)]>) -> Box<RawValue> {
        let tool = match self {
            Self::PoolStatus => pool_status(pools),
            Self::ExecuteBulk => execute_bulk(pools),
        };
        serde_json::value::to_raw_value(&tool).expect("JSON stays JSON")
    }
}

fn pool_status(pools: Option<&[(String, String)]>) -> Value {
    let names: Vec<_> = pools.into_iter().flatten().map(|(name, _)| name).collect();
    let mut pool_name = json!({ "type": "string", "description": "Only this pool. Not given: all of them." });
    if !names.is_empty() {
        pool_name["enum"] = json!(names);
    }
    json!({
        "name": OwnTool::PoolStatus.name(),
        "title": "Status of the browser pools",
        "description": "Shows every pool of browsers: what it is for, which instances are healthy, which are in use and for \
                        how long, and what is wrong with the others.",
        "inputSchema": {
            "type": "object",
            "properties": { "pool_name": pool_name },
            "additionalProperties": false,
        },
        "outputSchema": status::schema(),
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    })
}

fn execute_bulk(pools: Option<&[(String, String)]>) -> Value {
    let mut properties = json!({
        "commands": {
            "type": "array",
            "minItems": 1,
            "description": "The calls, in order.",
            "items": {
                "type": "object",
                "properties": {
                    "tool": { "type": "string", "description": "Name of the tool." },
                    "args": { "type": "object", "description": "Its arguments." },
                    "return_result": {
                        "type": "boolean", "default": false,
                        "description": "Return what this call answers.",
                    },
                },
                "required": ["tool"],
                "additionalProperties": false,
            },
        },
        "stop_on_error": {
            "type": "boolean", "default": true,
            "description": "Stop at the first call that fails.",
        },
        "return_all_results": {
            "type": "boolean", "default": false,
            "description": "Return what every call answers.",
        },
    });
    if let Some(pools) = pools {
        properties["browser_pool"] = pool_parameter(pools);
        properties["browser_instance"] = instance_parameter();
    }
    let entries = |items: Value, text: &str| json!({ "type": "array", "items": items, "description": text });
    json!({
        "name": OwnTool::ExecuteBulk.name(),
        "title": "Run several calls on one browser",
        "description": "Runs several calls one after another on the same browser, with nobody else in between, and answers \
                        once. Ask for the results you need with return_result: usually only the last one.",
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": ["commands"],
            "additionalProperties": false,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "success": { "type": "boolean", "description": "Every call worked." },
                "executed_count": { "type": "integer" },
                "total_count": { "type": "integer" },
                "results": entries(
                    json!({ "type": ["object", "null"] }),
                    "One for each call that was run: its result, or null where it was not asked for or there is none.",
                ),
                "errors": entries(
                    json!({ "type": ["string", "null"] }),
                    "One for each call that was run: what went wrong, or null.",
                ),
                "stopped_at": {
                    "type": ["integer", "null"],
                    "description": "Index of the call that ended the script early, or null.",
                },
            },
            "required": ["success", "executed_count", "total_count", "results", "errors", "stopped_at"],
        },
    })
}
