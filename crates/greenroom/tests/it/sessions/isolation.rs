//! Eight agents at once, and each sees only what it has done itself.

use std::process::Command;

use greenroom_testkit::{McpHttp, McpStdio, Site};
use rstest::rstest;
use serde_json::{Value, json};

use super::{PATIENCE, fine};
use crate::rig::{Server, browser_permit, data_dir, greenroom};

const AGENTS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Stdio,
    OlderHttp,
    NewerHttp,
}

/// Where calls of several agents go at once.
struct Panel {
    agents: Agents,
    _server: Option<Server>,
}

enum Agents {
    /// One process whose client sends before it has an answer.
    Stdio(Box<McpStdio>),
    Http(Vec<McpHttp>, fn(&mut McpHttp, &str, Value) -> Value),
}

impl Panel {
    fn new(way: Way, mut command: Command) -> Self {
        if way == Way::Stdio {
            command.arg("mcp");
            let mut client = McpStdio::spawn(command).with_timeout(PATIENCE);
            client.initialize();
            return Self { agents: Agents::Stdio(Box::new(client)), _server: None };
        }
        let server = Server::start(command, None);
        let mut clients: Vec<_> = (0..AGENTS).map(|_| server.client().with_timeout(PATIENCE)).collect();
        let agents = if way == Way::NewerHttp {
            Agents::Http(clients, McpHttp::call_modern)
        } else {
            clients.iter_mut().for_each(|client| drop(client.initialize()));
            Agents::Http(clients, McpHttp::request)
        };
        Self { agents, _server: Some(server) }
    }

    /// One request of each agent, all at once; their results in the agents' order.
    fn all(&mut self, method: &str, params: impl Fn(usize) -> Value) -> Vec<Value> {
        let params: Vec<_> = (0..AGENTS).map(params).collect();
        let answers: Vec<Value> = match &mut self.agents {
            Agents::Stdio(client) => {
                let send = |params: &Value| client.send_request(method, params.clone());
                let ids: Vec<_> = params.iter().map(send).collect();
                ids.into_iter().map(|id| client.wait_for_response(id)).collect()
            }
            Agents::Http(clients, ask) => std::thread::scope(|scope| {
                let ask = *ask;
                let of_each = clients.iter_mut().zip(&params);
                let threads: Vec<_> = of_each
                    .map(|(client, params)| scope.spawn(move || ask(client, method, params.clone())))
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            }),
        };
        let result = |answer: Value| answer.get("result").unwrap_or_else(|| panic!("{answer}")).clone();
        answers.into_iter().map(result).collect()
    }

    fn call(&mut self, tool: &str, arguments: impl Fn(usize) -> Value) -> Vec<String> {
        let results = self.all("tools/call", |agent| {
            let mut arguments = arguments(agent);
            arguments["sessionId"] = name(agent).into();
            json!({ "name": tool, "arguments": arguments })
        });
        results.iter().map(fine).collect()
    }
}

fn name(agent: usize) -> String {
    format!("agent {agent}")
}

/// What an agent leaves behind on a page, and nobody else does.
fn mark(agent: usize, page: usize) -> String {
    format!("mark-{agent}-{page}-of-{AGENTS}")
}

/// More for a long run: `GREENROOM_TEST_PAGES=48`.
fn pages(default: usize) -> usize {
    std::env::var("GREENROOM_TEST_PAGES").ok().and_then(|pages| pages.parse().ok()).unwrap_or(default)
}

/// The text has this agent's mark of this page, and none of another agent.
fn only_own(text: &str, agent: usize, page: usize, what: &str) {
    assert!(text.contains(&mark(agent, page)), "{what} of agent {agent} lacks page {page}: {text}");
    for other in (0..AGENTS).filter(|other| *other != agent) {
        assert!(
            !text.contains(&format!("mark-{other}-")),
            "{what} of agent {agent} has agent {other}'s: {text}"
        );
    }
}

#[rstest]
#[case::in_contexts_over_stdio("context", Way::Stdio)]
#[case::in_contexts_over_http_of_the_older_era("context", Way::OlderHttp)]
#[case::in_contexts_over_http_of_the_newer_era("context", Way::NewerHttp)]
#[case::in_processes_over_stdio("process", Way::Stdio)]
#[case::in_processes_over_http_of_the_older_era("process", Way::OlderHttp)]
#[case::in_processes_over_http_of_the_newer_era("process", Way::NewerHttp)]
fn eight_agents_see_nothing_of_one_another(#[case] seat: &str, #[case] way: Way) {
    let _permit = browser_permit();
    let (folder, site) = (data_dir(), Site::start());
    let mut command = greenroom(folder.path());
    command.env("GREENROOM_TIMEOUT_SETTLE", "0").env("GREENROOM_SESSION_ISOLATION", seat);
    let mut panel = Panel::new(way, command);
    let pages = pages(if seat == "context" { 4 } else { 2 });
    for page in 0..pages {
        visit(&mut panel, &site, page);
    }
    for agent in 0..AGENTS {
        let uri = format!("greenroom://sessions/agent%20{agent}/files/page.md");
        let read = panel.all("resources/read", |_| json!({ "uri": uri })).remove(0);
        only_own(read["contents"][0]["text"].as_str().unwrap(), agent, pages - 1, "the file");
    }
}

/// One page of each: what was there before is the agent's own, and what it leaves is seen by itself.
fn visit(panel: &mut Panel, site: &Site, page: usize) {
    let path = |agent: usize| format!("/items/{}", 1 + agent * 100 + page);
    let texts = panel.call("browser_navigate", |agent| json!({ "url": site.url(&path(agent)) }));
    for (agent, text) in texts.iter().enumerate() {
        assert!(text.contains(&format!("{}\n", path(agent))), "agent {agent}: {text}");
    }
    if page > 0 {
        let kept = "() => `cookie ${document.cookie} storage ${localStorage.getItem('who')}`";
        let texts = panel.call("browser_evaluate", |_| json!({ "function": kept }));
        for (agent, text) in texts.iter().enumerate() {
            only_own(text, agent, page - 1, "what was kept");
            assert_eq!(text.matches(&mark(agent, page - 1)).count(), 2, "cookie and storage: {text}");
        }
    }
    let texts = panel.call("browser_evaluate", |agent| {
        let mark = mark(agent, page);
        json!({ "function": format!(
            "() => {{ document.cookie = 'who={mark}'; localStorage.setItem('who', '{mark}'); document.title = '{mark}'; \
             document.querySelector('h1').textContent = '{mark}'; console.error('{mark}'); return location.pathname; }}"
        ) })
    });
    for (agent, text) in texts.iter().enumerate() {
        assert!(text.contains(&format!("\"{}\"", path(agent))), "agent {agent}: {text}");
    }
    let texts = panel.call("browser_tabs", |_| json!({ "action": "list" }));
    for (agent, text) in texts.iter().enumerate() {
        only_own(text, agent, page, "the title");
        assert!(text.contains(&path(agent)), "{text}");
    }
    let texts = panel.call("browser_console_messages", |_| json!({ "level": "error" }));
    for (agent, text) in texts.iter().enumerate() {
        only_own(text, agent, page, "the console");
    }
    // All of them under the same name.
    panel.call("browser_snapshot", |_| json!({ "filename": "page.md" }));
}
