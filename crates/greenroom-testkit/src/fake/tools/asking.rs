//! Tools that ask the client something before they answer.

use serde_json::Value;

use super::super::asking::ask;
use super::super::reply::Reply;
use super::super::tool::{Hints, Tool, later};
use super::super::turn::Call;

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "ask_ping",
        title: "Ping the client",
        description: "Sends the client a ping and answers with the result that came back.",
        params: &[],
        hints: Hints::ReadOnly,
        run: |_, _| later(|call| report(call, "ping", "result")),
    },
    Tool {
        name: "ask_roots",
        title: "Ask for roots",
        description: "Asks the client for its roots and answers with the result that came back.",
        params: &[],
        hints: Hints::ReadOnly,
        run: |_, _| {
            later(|call| {
                if !call.peer.has_declared("roots") {
                    return Reply::failure("the client did not declare roots");
                }
                report(call, "roots/list", "result")
            })
        },
    },
    Tool {
        name: "ask_unknown",
        title: "Ask the unknown",
        description: "Sends the client a request it cannot know and answers with the error that came back.",
        params: &[],
        hints: Hints::ReadOnly,
        run: |_, _| later(|call| report(call, "greenroom/no_such_method", "error")),
    },
];

/// The expected half of the client's response, as JSON text.
fn report(call: &Call, method: &str, expected: &str) -> Reply {
    match ask(call, method) {
        Ok(response) => match response.get(expected) {
            Some(part) => Reply::text(&Value::to_string(part)),
            None => Reply::failure(&format!("no {expected} came back but {response}")),
        },
        Err(reason) => Reply::failure(&reason),
    }
}
