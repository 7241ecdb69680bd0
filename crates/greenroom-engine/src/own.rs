//! Greenroom's own tools: how they are described and how their arguments are read.

use greenroom_core::target::Parameters;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::call::CallFailure;
use crate::status;
use crate::tools::Additions;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnTool {
    PoolStatus,
    ExecuteBulk,
    SessionList,
    SessionClose,
    SessionFiles,
    CreateSession,
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

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoArguments {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionArguments {
    #[serde(rename = "sessionId")]
    pub(crate) session: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateArguments {
    #[serde(default, rename = "sessionId")]
    pub(crate) session: Option<String>,
    #[serde(default)]
    pub(crate) pool: Option<String>,
    /// In milliseconds.
    #[serde(default)]
    pub(crate) idle_timeout: Option<u64>,
    #[serde(default)]
    pub(crate) viewport: Option<Viewport>,
    #[serde(default)]
    pub(crate) user_agent: Option<String>,
    #[serde(default)]
    pub(crate) device: Option<String>,
    #[serde(default)]
    pub(crate) storage_state: Option<Map<String, Value>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Viewport {
    pub(crate) width: u32,
    pub(crate) height: u32,
}

fn yes() -> bool {
    true
}

impl OwnTool {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PoolStatus => "browser_pool_status",
            Self::ExecuteBulk => "browser_execute_bulk",
            Self::SessionList => "session_list",
            Self::SessionClose => "session_close",
            Self::SessionFiles => "session_files",
            Self::CreateSession => "create_new_session",
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

    /// Whether it needs a browser.
    pub(crate) fn has_place(self) -> bool {
        self == Self::ExecuteBulk
    }

    /// The tool as `tools/list` shows it.
    pub(crate) fn describe(self, additions: &Additions) -> Box<RawValue> {
        let tool = match self {
            Self::PoolStatus => pool_status(&additions.pools),
            Self::ExecuteBulk => execute_bulk(additions),
            Self::SessionList => session_list(),
            Self::SessionClose => session_close(),
            Self::SessionFiles => session_files(),
            Self::CreateSession => create_session(additions),
        };
        serde_json::value::to_raw_value(&tool).expect("JSON stays JSON")
    }
}

fn pool_status(pools: &[(String, String)]) -> Value {
    let names: Vec<_> = pools.iter().map(|(name, _)| name).collect();
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

/// The session that a tool of ours is about.
fn one_session() -> Value {
    json!({
        "type": "object",
        "properties": { "sessionId": { "type": "string", "description": "Name of the session." } },
        "required": ["sessionId"],
        "additionalProperties": false,
    })
}

fn session_list() -> Value {
    json!({
        "name": OwnTool::SessionList.name(),
        "title": "List browser sessions",
        "description": "Lists your browser sessions: where each is, what it shows, and how long it may still be idle.",
        "inputSchema": { "type": "object", "properties": {}, "additionalProperties": false },
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    })
}

fn session_close() -> Value {
    json!({
        "name": OwnTool::SessionClose.name(),
        "title": "Close a browser session",
        "description": "Closes a browser session and frees its browser. Its cookies and pages are gone.",
        "inputSchema": one_session(),
        "annotations": { "destructiveHint": true, "openWorldHint": false },
    })
}

fn session_files() -> Value {
    json!({
        "name": OwnTool::SessionFiles.name(),
        "title": "Files of a browser session",
        "description": "Lists the files that a browser session has written: screenshots, PDFs, downloads. Each can be read as \
                        the resource that its uri names.",
        "inputSchema": one_session(),
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    })
}

fn create_session(additions: &Additions) -> Value {
    let mut properties = json!({
        "sessionId": { "type": "string", "description": "Name of the session. Not given: one is made up." },
        "idle_timeout": {
            "type": "integer", "minimum": 0,
            "description": "Milliseconds without a call after which the session ends; 0 for never.",
        },
        "viewport": {
            "type": "object",
            "description": "Size of the page in pixels.",
            "properties": { "width": { "type": "integer" }, "height": { "type": "integer" } },
            "required": ["width", "height"],
            "additionalProperties": false,
        },
        "user_agent": { "type": "string", "description": "What the browser says it is." },
        "device": { "type": "string", "description": "Device to imitate, such as \"iPhone 15\"." },
        "storage_state": {
            "type": "object",
            "description": "Cookies and local storage to begin with, as browser_storage_state writes them.",
        },
    });
    if additions.modes.pools {
        let names: Vec<_> = additions.pools.iter().map(|(name, _)| name).collect();
        properties["pool"] =
            json!({ "type": "string", "enum": names, "description": "Pool whose configuration it uses." });
    }
    json!({
        "name": OwnTool::CreateSession.name(),
        "title": "Make a browser session",
        "description": "Makes an isolated browser session with settings of its own and answers its sessionId. Not needed for a \
                        plain session: any call with a new sessionId makes one.",
        "inputSchema": { "type": "object", "properties": properties, "additionalProperties": false },
    })
}

fn execute_bulk(additions: &Additions) -> Value {
    let properties = json!({
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
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "required": ["commands"],
        "additionalProperties": false,
    });
    additions.add_to(&mut schema, &Parameters::default());
    let entries = |items: Value, text: &str| json!({ "type": "array", "items": items, "description": text });
    json!({
        "name": OwnTool::ExecuteBulk.name(),
        "title": "Run several calls on one browser",
        "description": "Runs several calls one after another on the same browser, with nobody else in between, and answers \
                        once. Ask for the results you need with return_result: usually only the last one.",
        "inputSchema": schema,
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
