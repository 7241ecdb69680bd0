//! Sessions with the fake upstream: a process each, made by the first call and gone with the session.

mod addresses;
mod lifetime;
mod limits;
mod losses;
mod order;
mod tools;
mod watched;

use std::time::Duration;

use greenroom_engine::{CallHandle, Outcome};
use greenroom_testkit::{fake_upstream, process_alive};
use greenroom_upstream::driver::Overlap;
use serde_json::{Value, json};

use crate::Rig;

/// Far more than anything here takes; only a test that fails gets to know it.
const LIMIT: Duration = Duration::from_secs(60);

/// No pool is configured, so every call has a session.
fn sessions(flags: &str, variables: &[(&str, &str)]) -> Rig {
    let command = format!("{} {flags}", fake_upstream().display());
    let isolated = [("GREENROOM_SESSION_ISOLATION", "process")];
    let variables: Vec<_> = isolated.iter().chain(variables).copied().collect();
    Rig::with(&command, Overlap::InTurn, &variables)
}

/// Waits until a condition holds.
async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, waiting).await.is_ok(), "waited in vain for: {what}");
}

fn result(outcome: Outcome) -> Value {
    let bytes = outcome.result.unwrap_or_else(|failure| panic!("{failure}"));
    serde_json::from_slice(&bytes).unwrap()
}

/// What the reply said of the browser before it said anything else.
async fn notice(mut call: CallHandle) -> Option<String> {
    call.outcome().await.served.expect("it came to a browser").notice
}

impl Rig {
    async fn of_session(&self, tool: &str, session: &str) -> String {
        self.text(tool, json!({ "sessionId": session })).await
    }

    async fn pid_in(&self, session: &str) -> u32 {
        self.of_session("pid", session).await.parse().unwrap()
    }

    /// The answer of a tool of ours.
    async fn own(&self, tool: &str, arguments: Value) -> Value {
        result(self.call(tool, arguments).outcome().await)["structuredContent"].take()
    }

    async fn listed(&self) -> Vec<Value> {
        self.own("session_list", json!({})).await["sessions"].as_array().unwrap().clone()
    }

    async fn close(&self, session: &str) {
        self.own("session_close", json!({ "sessionId": session })).await;
    }

    /// Holds a session until the call is cancelled or its upstream is gone. It runs when this returns.
    async fn hanging(&self, session: &str) -> CallHandle {
        let pid = self.pid_in(session).await;
        let call = self.call("hang", json!({ "sessionId": session }));
        let engine = &self.engine;
        let is_busy = || {
            let found = engine.sessions(&greenroom_engine::Caller::local());
            found.iter().any(|listed| listed.id == session && listed.state == "busy")
        };
        until("the call to run", || is_busy() && process_alive(pid)).await;
        call
    }

    /// What lies in the folder where sessions keep their files.
    fn folders(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.cache.path().join("sessions")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}
