//! Pools from the outside: configured, called, looked at, restarted, scaled and shot at.

mod calls;
mod configured;
mod control;
mod killed;

use std::time::Duration;

use greenroom_testkit::{McpHttp, wait_until};
use serde_json::{Value, json};

use crate::rig::Server;

/// Far more than anything here takes; only a test that fails gets to know it.
const LIMIT: Duration = Duration::from_secs(60);

const MAIN: [(&str, &str); 2] =
    [("PW_MCP_PROXY__MAIN_INSTANCES", "2"), ("PW_MCP_PROXY__MAIN_IS_DEFAULT", "true")];
const SIDE: (&str, &str) = ("PW_MCP_PROXY__SIDE_INSTANCES", "1");

/// A server with the pools MAIN, of two instances, and SIDE, of one, all of them up.
fn two_pools(flags: &str, variables: &[(&str, &str)]) -> Server {
    let all: Vec<_> = MAIN.into_iter().chain([SIDE]).chain(variables.iter().copied()).collect();
    let server = Server::fake(flags, &all);
    server.wait_for("all to be up", |status| status["summary"]["available_instances"] == 3);
    server
}

impl Server {
    /// A client of the older era, with a session.
    fn connected(&self) -> McpHttp {
        let mut client = self.client();
        client.initialize();
        client
    }

    fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, b"")
    }

    fn send(&self, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
        let headers = [("Content-Type", "application/json")];
        let (status, _, body) = self.client().raw(method, path, &headers, body);
        let parsed = serde_json::from_slice(&body);
        (status, parsed.unwrap_or_else(|_| panic!("not JSON: {}", String::from_utf8_lossy(&body))))
    }

    fn status(&self) -> Value {
        self.get("/api/pools").1
    }

    /// One instance of MAIN.
    fn instance(&self, id: usize) -> Value {
        self.get("/api/pools/MAIN").1["pools"][0]["instances"][id].take()
    }

    /// The process behind an instance of MAIN.
    fn process(&self, id: usize) -> u32 {
        u32::try_from(self.instance(id)["process_id"].as_u64().expect("it is up")).unwrap()
    }

    fn wait_for(&self, what: &str, condition: impl Fn(&Value) -> bool) {
        wait_until(what, LIMIT, || condition(&self.status()));
    }

    /// Until another process than this serves an instance of MAIN.
    fn wait_for_another(&self, id: usize, than: u32) {
        wait_until("another process", LIMIT, || {
            let instance = self.instance(id);
            instance["status"] == "healthy"
                && instance["process_id"].as_u64().is_some_and(|pid| pid != u64::from(than))
        });
    }
}

/// Which process serves an instance of MAIN, by a call to it.
fn pid(client: &mut McpHttp, instance: &str) -> u32 {
    let result = client.call_tool("pid", json!({ "browser_instance": instance }));
    text(&result).parse().unwrap_or_else(|_| panic!("{result}"))
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}
