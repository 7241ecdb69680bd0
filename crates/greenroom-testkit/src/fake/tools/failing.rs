//! Tools that fail, each in its own way.

use std::io::{self, Write};
use std::process;

use serde_json::json;

use super::super::args::Args;
use super::super::crash::crash;
use super::super::reply::Reply;
use super::super::tool::{Hints, Tool, later, needed, now, optional};

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "fail",
        title: "Fail",
        description: "Answers with a result that says the tool failed.",
        params: &[needed("message", "string", "Why it failed")],
        hints: Hints::ReadOnly,
        run: |_, args| now(Reply::failure(args.text("message")?)),
    },
    Tool {
        name: "rpc_error",
        title: "Protocol error",
        description: "Answers with a JSON-RPC error.",
        params: &[
            needed("code", "integer", "The error's code"),
            needed("message", "string", "The error's message"),
        ],
        hints: Hints::ReadOnly,
        run: |_, args| now(Reply::error(args.signed("code")?, args.text("message")?)),
    },
    Tool {
        name: "crash",
        title: "Crash",
        description: "Ends the process without an answer.",
        params: &[
            optional("code", "integer", "The exit code, 1 if not given"),
            optional("stderr", "string", "What to print on stderr first"),
        ],
        hints: Hints::Destroys,
        run: |_, args| {
            let code = args.optional("code", Args::signed)?.unwrap_or(1);
            crash(i32::try_from(code).unwrap_or(1), args.optional("stderr", Args::text)?)
        },
    },
    Tool {
        name: "abort",
        title: "Abort",
        description: "Ends the process by a signal, without an answer.",
        params: &[],
        hints: Hints::Destroys,
        run: |_, _| process::abort(),
    },
    Tool {
        name: "garbage",
        title: "Garbage",
        description: "Sends an answer nobody asked for and a line that is not JSON, then answers.",
        params: &[],
        hints: Hints::ReadOnly,
        run: |_, _| {
            later(|call| {
                let stray = json!({ "result": {}, "jsonrpc": "2.0", "id": 999_999_999 });
                let sent = call.outlet.send(&stray.to_string()).and_then(|()| call.outlet.send(NOT_JSON));
                match sent {
                    Ok(()) => Reply::text("that was garbage"),
                    Err(error) => Reply::failure(&format!("cannot send garbage: {error}")),
                }
            })
        },
    },
    Tool {
        name: "flood_stderr",
        title: "Flood stderr",
        description: "Prints many long lines on stderr, then answers.",
        params: &[needed("lines", "integer", "How many lines")],
        hints: Hints::ReadOnly,
        run: |_, args| {
            let lines = args.number("lines")?;
            // Later, as it blocks when nobody reads stderr, which is what it is for.
            later(move |_| match flood(lines) {
                Ok(()) => Reply::text(&format!("printed {lines} lines")),
                Err(error) => Reply::failure(&format!("stderr is closed: {error}")),
            })
        },
    },
];

const NOT_JSON: &str = "this is not json {";

fn flood(lines: u64) -> io::Result<()> {
    let tail = "x".repeat(180);
    let mut stderr = io::stderr().lock();
    (1..=lines).try_for_each(|line| stderr.write_all(format!("noise {line:08} {tail}\n").as_bytes()))
}
