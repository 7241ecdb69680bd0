//! `docs/tools.md` lists every tool, as the pinned servers and Greenroom itself describe them.

use std::path::Path;
use std::time::Duration;

use greenroom_testkit::McpHttp;
use serde_json::{Map, Value, json};

use crate::rig::{Server, browser_permit, data_dir_for_both, greenroom};

/// What Greenroom adds to the tools of others.
const ADDED: [&str; 6] =
    ["sessionId", "browser_pool", "browser_instance", "browserIndex", "browser", "reply"];

const ALL_CAPS: &str = "vision,pdf,devtools,network,storage,testing,config";

fn tools(url: &str) -> Vec<Value> {
    let mut client = McpHttp::connect(url).with_timeout(Duration::from_secs(120));
    client.initialize();
    client.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone()
}

fn name(tool: &Value) -> &str {
    tool["name"].as_str().unwrap()
}

/// On one line, and without what ends a cell.
fn cell(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|").replace('<', "&lt;")
}

fn kind(parameter: &str, schema: &Value) -> String {
    if let Some(choices) = schema["enum"].as_array().filter(|_| !parameter.contains("pool")) {
        let choices: Vec<_> = choices.iter().map(|choice| format!("`{choice}`").replace('"', "")).collect();
        return choices.join(", ");
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[several].as_array() {
            let mut kinds: Vec<_> = choices.iter().map(|choice| kind(parameter, choice)).collect();
            kinds.dedup();
            return kinds.join(" or ");
        }
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("list of {}", self::kind("", &schema["items"])),
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    }
}

fn table(properties: &Map<String, Value>, required: Option<&Vec<Value>>) -> String {
    let mut lines =
        vec!["| parameter | type | needed | description |".to_owned(), "|---|---|---|---|".to_owned()];
    for (name, schema) in properties {
        let is_required =
            required.is_some_and(|required| required.iter().any(|known| known == name.as_str()));
        let needed = if is_required { "yes" } else { "" };
        let description = schema["description"].as_str().unwrap_or_default();
        lines.push(format!("| `{name}` | {} | {needed} | {} |", kind(name, schema), cell(description)));
    }
    lines.join("\n") + "\n"
}

fn section(tool: &Value, leave_out: &[&str]) -> String {
    let schema = &tool["inputSchema"];
    let mut properties = schema["properties"].as_object().cloned().unwrap_or_default();
    properties.retain(|name, _| !leave_out.contains(&name.as_str()));
    let said = cell(tool["description"].as_str().unwrap_or_default());
    let parameters = if properties.is_empty() {
        "No parameters.\n".to_owned()
    } else {
        table(&properties, schema["required"].as_array())
    };
    format!("\n#### `{}`\n\n{said}\n\n{parameters}", name(tool))
}

/// The reference: ours, and those of a pool of the first driver beside a browser that the second drives.
fn reference() -> String {
    let _permit = browser_permit();
    let folder = data_dir_for_both();
    let mut command = greenroom(folder.path());
    command.envs([
        ("GREENROOM__MAIN_INSTANCES", "1"),
        ("GREENROOM__MAIN_IS_DEFAULT", "true"),
        ("GREENROOM_START", "lazy"),
        ("GREENROOM_CAPS", ALL_CAPS),
        ("GREENROOM_ALLOW_UNSAFE_CODE", "true"),
        // Nobody is there, and nobody has to be.
        ("GREENROOM_BROWSER_URLS", "http://127.0.0.1:1"),
    ]);
    let server = Server::start(command, Some(folder));
    let all = tools(&server.url);
    let plain = tools(&server.url.replace("/mcp", "/sessions/any/mcp"));
    let is_proxied = |tool: &&Value| plain.iter().any(|known| name(known) == name(tool));
    let (playwright, devtools): (Vec<_>, Vec<_>) =
        plain.iter().partition(|tool| name(tool).starts_with("browser_"));

    let added = &plain.iter().find_map(|known| all.iter().find(|tool| name(tool) == name(known))).unwrap()["inputSchema"]
        ["properties"];
    let added: Map<String, Value> =
        ADDED.iter().map(|name| ((*name).to_owned(), added[*name].clone())).collect();
    let mut page = "\n### Parameters that Greenroom adds to every tool\n\nEach only where it can mean something, as shown above; here \
         beside a pool `MAIN` and an attached browser. A tool that has a parameter of that name itself keeps it, and ours is called \
         `greenroom_…` there.\n\n"
        .to_owned();
    page += &table(&added, None);
    page += "\n### Greenroom's own\n";
    for tool in all.iter().filter(|tool| !is_proxied(tool)) {
        let leave_out: &[&str] = if name(tool) == "browser_execute_bulk" { &ADDED } else { &[] };
        page += &section(tool, leave_out);
    }
    page += &format!("\n### Of the Playwright driver, with `CAPS={ALL_CAPS}` and `ALLOW_UNSAFE_CODE=true`\n");
    playwright.into_iter().for_each(|tool| page += &section(tool, &[]));
    page += "\n### Of the chrome-devtools driver\n";
    devtools.into_iter().for_each(|tool| page += &section(tool, &[]));
    page + "\n"
}

/// Replaces what stands between the two markers when `UPDATE_DOCS` is set; otherwise it must be what the servers say.
#[test]
fn the_reference_of_tools_in_the_docs_is_what_the_servers_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- tools: begin -->\n", "<!-- tools: end -->");
    let (before, rest) = page.split_once(begin).expect("the page has a place for the reference");
    let (_, after) = rest.split_once(end).expect("the place has an end");
    let fresh = format!("{before}{begin}{}{end}{after}", reference());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    } else {
        assert!(
            page == fresh,
            "docs/tools.md is behind; run UPDATE_DOCS=1 cargo test -p greenroom --test it reference"
        );
    }
}
