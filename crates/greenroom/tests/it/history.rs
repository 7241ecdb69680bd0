//! History from the outside: what is on record, what is answered, and what is read back.

mod browser;
mod bulk;
mod cursors;
mod disk;
mod forged;
mod killed;
mod mistakes;
mod reading;
mod replies;
mod together;

use std::process::Command;
use std::time::Duration;

use greenroom_core::ids::RefId;
use greenroom_store::{Call, Filter, Found, Reader};
use greenroom_testkit::{McpHttp, McpStdio, Site, wait_until};
use serde_json::{Map, Value, json};

use crate::rig::{BrowserPermit, Server, browser_permit, data_dir, greenroom, with_fake};

/// Far more than anything here takes; only a test that fails gets to know it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A pool of one instance, beside which there are sessions.
const POOL: [(&str, &str); 3] = [
    ("GREENROOM__MAIN_INSTANCES", "1"),
    ("GREENROOM__MAIN_IS_DEFAULT", "true"),
    ("GREENROOM_SESSION_ISOLATION", "process"),
];

/// The pool, with more settings.
fn pool<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    POOL.into_iter().chain(more.iter().copied()).collect()
}

/// A data folder that outlives its servers.
struct Archive {
    folder: tempfile::TempDir,
    _permit: Option<BrowserPermit>,
}

impl Archive {
    /// For servers of the fake upstream.
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), _permit: None }
    }

    /// For servers of the real one.
    fn with_browser() -> Self {
        let permit = browser_permit();
        Self { folder: data_dir(), _permit: Some(permit) }
    }

    fn command(&self, variables: &[(&str, &str)]) -> Command {
        let command = greenroom(self.folder.path());
        let mut command = if self._permit.is_some() { command } else { with_fake(command, "") };
        command.env("GREENROOM_TIMEOUT_SETTLE", "0").envs(variables.iter().copied());
        command
    }

    fn serve(&self, variables: &[(&str, &str)]) -> Server {
        Server::start(self.command(variables), None)
    }

    fn stdio(&self, variables: &[(&str, &str)]) -> McpStdio {
        let mut command = self.command(variables);
        command.args(["mcp", "--standalone"]);
        let mut client = McpStdio::spawn(command).with_timeout(PATIENCE);
        client.initialize();
        client
    }

    /// Waits until so many runs are left: the guard of one that was shot has tidied up after it. Before that a start
    /// takes it for one that is still there.
    fn wait_for_runs(&self, count: usize) {
        let runs = self.folder.path().join("run");
        let left = || std::fs::read_dir(&runs).into_iter().flatten().flatten().count();
        wait_until("the runs that are left", PATIENCE, || left() == count);
    }

    fn reader(&self) -> Reader {
        Reader::open(self.folder.path()).unwrap()
    }

    /// A call as it is on record.
    fn call(&self, ref_id: &str) -> Call {
        match self.reader().call(None, parse(ref_id)).unwrap() {
            Found::Here(call) => call,
            other => panic!("{other:?}"),
        }
    }

    /// The ref id of the newest call.
    fn newest(&self) -> String {
        let newest = Filter { limit: 1, ..Filter::default() };
        self.reader().calls(&newest).unwrap().pop().unwrap().ref_id.to_string()
    }

    /// The exact result of a call.
    fn result(&self, ref_id: &str) -> String {
        String::from_utf8(self.reader().result(parse(ref_id)).unwrap().unwrap().to_vec()).unwrap()
    }
}

fn parse(ref_id: &str) -> RefId {
    ref_id.parse().unwrap_or_else(|_| panic!("no ref id: {ref_id}"))
}

/// A server of the real browser, with a site to visit.
struct House {
    server: Server,
    site: Site,
    archive: Archive,
}

impl House {
    fn new(variables: &[(&str, &str)]) -> Self {
        let archive = Archive::with_browser();
        Self { server: archive.serve(variables), site: Site::start(), archive }
    }

    fn client(&self) -> McpHttp {
        connected(&self.server)
    }
}

fn connected(server: &Server) -> McpHttp {
    let mut client = server.client().with_timeout(PATIENCE);
    client.initialize();
    client
}

/// One agent, whichever way it came in.
trait Agent {
    fn ask(&mut self, method: &str, params: Value) -> Value;

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": arguments }));
        answer.get("result").unwrap_or_else(|| panic!("{tool}: {answer}")).clone()
    }

    /// The text of a call that must work.
    fn text(&mut self, tool: &str, arguments: Value) -> String {
        fine(&self.call(tool, arguments))
    }

    /// The ref id of a call that must work.
    fn reference(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        fine(&result);
        ref_id(&result)
    }

    fn content(&mut self, arguments: Value) -> String {
        self.text("get_content", arguments)
    }

    /// What is said about a call that must not work.
    fn complaint(&mut self, tool: &str, arguments: Value) -> String {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": arguments }));
        if let Some(message) = answer["error"]["message"].as_str() {
            return message.to_owned();
        }
        assert_eq!(answer["result"]["isError"], true, "{tool} {arguments}: {answer}");
        texts(&answer["result"])
    }
}

impl Agent for McpHttp {
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.request(method, params)
    }
}

impl Agent for McpStdio {
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.request(method, params)
    }
}

/// All text of a result.
fn texts(result: &Value) -> String {
    let blocks = result["content"].as_array().unwrap_or_else(|| panic!("{result}"));
    blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// All text of a result that must not be an error.
fn fine(result: &Value) -> String {
    let text = texts(result);
    assert!(result.get("isError").is_none_or(|error| error == false), "{text}");
    text
}

fn ref_id(result: &Value) -> String {
    let id = result["_meta"]["greenroom/refId"].as_str();
    id.unwrap_or_else(|| panic!("no ref id: {result}")).to_owned()
}

fn blocks<'a>(result: &'a Value, kind: &str) -> Vec<&'a Value> {
    result["content"].as_array().unwrap().iter().filter(|block| block["type"] == kind).collect()
}

/// What stands before the cut in a text, and what is said there.
fn cut(text: &str) -> Option<(&str, Hint)> {
    let (before, hint) = text.rsplit_once("\n[cut: ")?;
    let (hint, _) = hint.split_once(']').unwrap_or_else(|| panic!("{hint}"));
    Some((before, Hint::parse(hint)))
}

/// What is said about the rest of a text, taken literally.
struct Hint {
    arguments: Map<String, Value>,
    /// The same again until nothing comes.
    is_repeated: bool,
}

impl Hint {
    fn parse(hint: &str) -> Self {
        let call = hint.split_once("get_content(").unwrap_or_else(|| panic!("no call in: {hint}")).1;
        let (call, rest) = call.split_once(')').unwrap();
        let pairs = call.split(", ").map(|pair| pair.split_once('=').unwrap_or_else(|| panic!("{hint}")));
        let value = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| panic!("{hint}"));
        let arguments = pairs.map(|(name, text)| (name.to_owned(), value(text))).collect();
        Self { arguments, is_repeated: rest.contains("again and again until it is empty") }
    }
}

/// Everything of a text of which a reply has the beginning, by doing what it says. The second value says how often
/// something was read.
fn follow(agent: &mut dyn Agent, reply: &str) -> (String, usize) {
    let Some((beginning, mut hint)) = cut(reply) else { return (reply.to_owned(), 0) };
    let mut whole = format!("{beginning}\n");
    for reads in 1.. {
        if hint.is_repeated {
            return follow_by_bytes(agent, &hint, reads);
        }
        let more = agent.content(Value::Object(hint.arguments));
        let Some((text, next)) = cut(&more) else { return (whole + &more, reads) };
        whole.push_str(text);
        whole.push('\n');
        hint = next;
    }
    unreachable!("it ends above")
}

/// A text one of whose lines is longer than a reply is read from its beginning.
fn follow_by_bytes(agent: &mut dyn Agent, hint: &Hint, before: usize) -> (String, usize) {
    let mut whole = String::new();
    for reads in before.. {
        let more = agent.content(Value::Object(hint.arguments.clone()));
        if more.is_empty() {
            return (whole, reads);
        }
        let Some((text, how)) = more.rsplit_once("\n[cut: ") else {
            whole.push_str(&more);
            continue;
        };
        whole.push_str(text);
        // It says how many bytes have been read, so whether the end of a line was one of them.
        let read: usize = how.split(' ').next().unwrap().parse().unwrap();
        if whole.len() < read {
            whole.push('\n');
        }
        assert_eq!(whole.len(), read, "{how}");
    }
    unreachable!("it ends above")
}
