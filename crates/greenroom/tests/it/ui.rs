//! The web page in a real Chromium, which is driven through Greenroom itself: one session looks at the page
//! that another one is shown in.

mod overlay;
mod record;
mod recovery;
mod stepping_in;
mod views;
mod watching;

use std::time::{Duration, Instant};

use greenroom_testkit::McpHttp;
use serde_json::{Value, json};

use crate::browser_sessions_http::PATIENCE;
use crate::rig::{Server, data_dir, greenroom};

/// Finds elements wherever they are, shadow roots and all.
const FINDERS: &str = "
    const all = (selector, root = document) => [
        ...root.querySelectorAll(selector),
        ...[...root.querySelectorAll('*')].flatMap((e) => (e.shadowRoot ? all(selector, e.shadowRoot) : [])),
    ];
    const one = (selector) => all(selector)[0];
    const isSeen = (selector) => all(selector).some((e) => e.checkVisibility());
    const text = (selector) => all(selector).filter((e) => e.checkVisibility()).map((e) => e.innerText).join('\\n');
    const box = (selector) => {
        const { x, y, width, height } = one(selector).getBoundingClientRect();
        return { x, y, width, height };
    };
    const pixel = (canvas) => {
        const { width, height } = canvas;
        return [...canvas.getContext('2d').getImageData(width / 2, height / 2, 1, 1).data].slice(0, 3);
    };
    const isColour = (canvas, r, g, b) =>
        canvas && pixel(canvas).every((value, at) => Math.abs(value - [r, g, b][at]) < 24);
";

/// A browser session of the tests'.
struct Driven {
    client: McpHttp,
    session: String,
}

impl Driven {
    fn new(server: &Server, session: &str) -> Self {
        let mut client = server.client().with_timeout(PATIENCE);
        client.initialize();
        Self { client, session: session.to_owned() }
    }

    fn call(&mut self, tool: &str, mut arguments: Value) -> String {
        arguments["sessionId"] = json!(self.session);
        let result = self.client.call_tool(tool, arguments.clone());
        let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        assert!(result.get("isError").is_none_or(|error| error == false), "{tool} {arguments}: {text}");
        text
    }

    fn go(&mut self, url: &str) {
        self.call("browser_navigate", json!({ "url": url }));
    }

    /// What an expression is in the page.
    fn value(&mut self, expression: &str) -> Value {
        let function = format!("() => {{ {FINDERS} return ({expression}); }}");
        let text = self.call("browser_evaluate", json!({ "function": function }));
        let value = text.strip_prefix("### Result\n").unwrap_or_else(|| panic!("{text}"));
        let value = &value[..value.rfind("\n### Ran").unwrap_or(value.len())];
        serde_json::from_str(value).unwrap_or(Value::Null)
    }

    fn number(&mut self, expression: &str) -> f64 {
        self.value(expression).as_f64().unwrap_or_else(|| panic!("{expression} is no number"))
    }

    fn has(&mut self, expression: &str) -> bool {
        self.value(expression) == true
    }

    /// Waits until an expression is true in the page.
    #[track_caller]
    fn wait(&mut self, expression: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.has(expression) {
            if Instant::now() >= until {
                let page = self.call("browser_snapshot", json!({}));
                panic!("waited {PATIENCE:?} in vain for {expression} in {page}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until something that can be seen and has this selector has this text.
    #[track_caller]
    fn wait_for_text(&mut self, selector: &str, words: &str) {
        self.wait(&format!("text({}).includes({})", json!(selector), json!(words)));
    }

    fn click(&mut self, role: &str, name: &str) {
        self.call("browser_click", json!({ "target": selector(role, name), "element": name }));
    }

    fn fill(&mut self, role: &str, name: &str, text: &str) {
        self.call("browser_type", json!({ "target": selector(role, name), "element": name, "text": text }));
    }

    fn press(&mut self, key: &str) {
        self.call("browser_press_key", json!({ "key": key }));
    }

    fn resize(&mut self, width: u32, height: u32) {
        self.call("browser_resize", json!({ "width": width, "height": height }));
        self.wait(&format!("innerWidth === {width} && innerHeight === {height}"));
    }
}

fn selector(role: &str, name: &str) -> String {
    format!("role={role}[name={}s]", json!(name))
}

/// With the real driver, and tools that know places on a page.
fn serve(variables: &[(&str, &str)]) -> Server {
    let folder = data_dir();
    let mut command = greenroom(folder.path());
    command.env("GREENROOM_TIMEOUT_SETTLE", "50").env("GREENROOM_CAPS", "vision");
    command.envs(variables.iter().copied());
    Server::start(command, Some(folder))
}

/// Where a server has this path.
fn at(server: &Server, path: &str) -> String {
    server.url.replace("/mcp", path)
}

/// A page that is all of one colour.
fn coloured(title: &str, colour: &str) -> String {
    format!("data:text/html,<title>{title}</title><body style='background:{colour}'>")
}
