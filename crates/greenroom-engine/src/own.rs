//! Greenroom's own tools: how they are described and how their arguments are read.

use std::collections::BTreeMap;

use greenroom_core::config::Reply;
use greenroom_core::target::PLAIN;
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
    GetContent,
    GetConsoleContent,
    ListCalls,
    GetBlob,
    ListBrowsers,
    ReconnectBrowser,
    ConnectBrowser,
    DisconnectBrowser,
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
    #[serde(default)]
    pub(crate) reply: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BrowserArguments {
    #[serde(default, rename = "browserIndex")]
    pub(crate) index: Option<Value>,
    #[serde(default)]
    pub(crate) browser: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReconnectArguments {
    #[serde(default, rename = "browserIndex")]
    pub(crate) index: Option<Value>,
    #[serde(default)]
    pub(crate) browser: Option<String>,
    #[serde(default)]
    pub(crate) force: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConnectArguments {
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) tags: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) headers: Option<BTreeMap<String, String>>,
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
            Self::GetContent => "get_content",
            Self::GetConsoleContent => "get_console_content",
            Self::ListCalls => "list_calls",
            Self::GetBlob => "get_blob",
            Self::ListBrowsers => "list_browsers",
            Self::ReconnectBrowser => "reconnect_browser",
            Self::ConnectBrowser => "connect_browser",
            Self::DisconnectBrowser => "disconnect_browser",
        }
    }

    /// Reads arguments into what the tool expects.
    pub(crate) fn read<T: for<'de> Deserialize<'de>>(
        self,
        arguments: Map<String, Value>,
    ) -> Result<T, CallFailure> {
        serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
            let (path, problem) = (error.path().to_string(), error.inner().to_string());
            // What is missing or unknown names itself.
            let problem = if path == "." { problem } else { format!("`{path}`: {problem}") };
            CallFailure::BadArguments { tool: self.name(), problem }
        })
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
            Self::GetContent => get_content(additions),
            Self::GetConsoleContent => get_console_content(),
            Self::ListCalls => list_calls(additions),
            Self::GetBlob => get_blob(),
            Self::ListBrowsers => list_browsers(),
            Self::ReconnectBrowser => reconnect_browser(),
            Self::ConnectBrowser => connect_browser(),
            Self::DisconnectBrowser => disconnect_browser(),
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
    if let Some(default) = additions.reply {
        properties["reply"] = json!({
            "type": "string", "enum": Reply::NAMES,
            "description": format!("How its calls are answered unless they say otherwise. Default: {}.", default.name()),
        });
    }
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

fn list_browsers() -> Value {
    json!({
        "name": OwnTool::ListBrowsers.name(),
        "title": "List attached browsers",
        "description": "Lists all connected browsers with their indices and connection status.",
        "inputSchema": { "type": "object", "properties": {}, "additionalProperties": false },
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    })
}

/// Which attached browser a tool of ours is about.
fn one_browser() -> Value {
    json!({
        "browserIndex": { "type": "integer", "minimum": 1, "description": "Index of the browser (1-based)." },
        "browser": { "type": "string", "description": "Its name, instead of browserIndex." },
    })
}

fn reconnect_browser() -> Value {
    let mut properties = one_browser();
    properties["force"] = json!({
        "type": "boolean", "default": false,
        "description": "Try also during the pause after a failure, and also when there is a connection.",
    });
    json!({
        "name": OwnTool::ReconnectBrowser.name(),
        "title": "Reconnect an attached browser",
        "description": "Connects again to an attached browser that was lost, and starts it where its operator has said how.",
        "inputSchema": { "type": "object", "properties": properties, "additionalProperties": false },
        "annotations": { "openWorldHint": false },
    })
}

fn connect_browser() -> Value {
    json!({
        "name": OwnTool::ConnectBrowser.name(),
        "title": "Attach a running browser",
        "description": "Attaches a browser that runs already, by its debugging address.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "url": { "type": "string", "description": "Such as http://127.0.0.1:9222 or ws://127.0.0.1:9222/devtools/browser/…" },
                "name": { "type": "string", "description": "A name for it, to be used as `browser`." },
                "tags": { "type": "array", "items": { "type": "string" }, "description": "Words that describe it." },
                "headers": {
                    "type": "object", "additionalProperties": { "type": "string" },
                    "description": "Headers for a ws:// address.",
                },
            },
            "required": ["url"],
            "additionalProperties": false,
        },
        "annotations": { "openWorldHint": false },
    })
}

fn disconnect_browser() -> Value {
    json!({
        "name": OwnTool::DisconnectBrowser.name(),
        "title": "Let go of an attached browser",
        "description": "Ends the connection to an attached browser. The browser and its pages stay as they are.",
        "inputSchema": { "type": "object", "properties": one_browser(), "additionalProperties": false },
        "annotations": { "openWorldHint": false },
    })
}

fn ref_id() -> Value {
    json!({ "type": "string", "description": "The call, by the ref id that its reply gave." })
}

fn get_content(additions: &Additions) -> Value {
    let number = |least: u32, text: &str| json!({ "type": "integer", "minimum": least, "description": text });
    let mut properties = json!({
        "ref_id": ref_id(),
        "search_for": { "type": "string", "description": "Only lines that contain this text, each with its line number." },
        "before_lines": number(0, "With search_for: lines to show before each."),
        "after_lines": number(0, "With search_for: lines to show after each."),
        "offset": number(0, "Line (with query: item) to begin with."),
        "limit": number(1, "Lines (with query: items) to return."),
        "query": {
            "type": "string",
            "description": "JMESPath over the page's elements, which have role, name, ref, attributes, url, text and children. With \
                            flatten, such as: [?role=='button'].{name: name, ref: ref}",
        },
        "flatten": { "type": "boolean", "description": "With query: over one list of all elements instead of the tree." },
        "format": { "type": "string", "enum": ["yaml", "json"], "description": "Default: yaml, and json with query." },
        "since": { "type": "string", "description": "Ref id of an earlier call: only the lines that differ." },
        "reset_cursor": { "type": "boolean", "description": "Read from the beginning again." },
        "part": {
            "type": "string", "enum": ["snapshot", "result"],
            "description": "The page's snapshot, or the text that the call answered. Default: the snapshot, if there is one.",
        },
    });
    if additions.modes.has_sessions() {
        properties["sessionId"] = json!({ "type": "string", "description": "Instead of ref_id: what this session has shown last." });
    }
    json!({
        "name": OwnTool::GetContent.name(),
        "title": "Read a page or answer from the record",
        "description": "Reads what a call has shown, from the record: no browser is used. Plain, it returns what has not been read of it \
                        yet, and nothing when all has. Find what you need with search_for or query rather than reading all of it.",
        "inputSchema": { "type": "object", "properties": properties, "additionalProperties": false },
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    })
}

fn get_console_content() -> Value {
    json!({
        "name": OwnTool::GetConsoleContent.name(),
        "title": "Read console messages from the record",
        "description": "Returns the console messages that a call brought along.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "ref_id": ref_id(),
                "level": {
                    "type": "string", "enum": ["debug", "info", "warn", "error", ""],
                    "description": "Only messages of this level.",
                },
                "offset": { "type": "integer", "minimum": 0, "description": "Entry to begin with." },
                "limit": { "type": "integer", "minimum": 1, "description": "Entries to return." },
            },
            "required": ["ref_id"],
            "additionalProperties": false,
        },
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    })
}

fn list_calls(additions: &Additions) -> Value {
    let text = |text: &str| json!({ "type": "string", "description": text });
    let mut properties = json!({
        "tool": text("Only calls of this tool."),
        "status": { "type": "string", "enum": ["success", "error", "pending"], "description": "Only calls that ended so." },
        "since": text("Only calls from this moment on, such as 2026-11-15T08:30:00Z."),
        "until": text("Only calls before this moment."),
        "before": text("Only calls older than this ref id: the next page."),
        "limit": { "type": "integer", "minimum": 1, "maximum": 1000, "description": "How many at most. Default: 50." },
    });
    if additions.modes.has_sessions() {
        properties["sessionId"] = text("Only calls of this session.");
    }
    json!({
        "name": OwnTool::ListCalls.name(),
        "title": "List calls on record",
        "description": "Lists your calls on record, the newest first, each with its ref id.",
        "inputSchema": { "type": "object", "properties": properties, "additionalProperties": false },
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    })
}

fn get_blob() -> Value {
    json!({
        "name": OwnTool::GetBlob.name(),
        "title": "Fetch an image or file",
        "description": "Returns an image, PDF or large result that a reply links to as blob://sha256/….",
        "inputSchema": {
            "type": "object",
            "properties": { "uri": { "type": "string", "description": "Its address, blob://sha256/…" } },
            "required": ["uri"],
            "additionalProperties": false,
        },
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
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
    additions.add_to(&mut schema, &PLAIN);
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
