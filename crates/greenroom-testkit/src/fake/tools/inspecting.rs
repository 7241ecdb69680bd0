//! Tools that tell what the server sees of its surroundings and of its client.

use std::env;
use std::process;

use super::super::reply::Reply;
use super::super::tool::{Hints, Tool, needed, now, optional};

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "env",
        title: "Environment variable",
        description: "The value of an environment variable of the server.",
        params: &[needed("name", "string", "The variable's name")],
        hints: Hints::ReadOnly,
        run: |_, args| {
            let name = args.text("name")?;
            now(match env::var_os(name) {
                Some(value) => Reply::text(&value.to_string_lossy()),
                None => Reply::failure(&format!("{name} is not set")),
            })
        },
    },
    Tool {
        name: "cwd",
        title: "Working directory",
        description: "The server's working directory.",
        params: &[],
        hints: Hints::ReadOnly,
        run: |_, _| {
            now(match env::current_dir() {
                Ok(folder) => Reply::text(&folder.to_string_lossy()),
                Err(error) => Reply::failure(&error.to_string()),
            })
        },
    },
    Tool {
        name: "pid",
        title: "Process id",
        description: "The server's process id.",
        params: &[],
        hints: Hints::ReadOnly,
        run: |_, _| now(Reply::text(&process::id().to_string())),
    },
    Tool {
        name: "child_pid",
        title: "Process id of the child",
        description: "The process id of the child that the server started with --spawn-child.",
        params: &[],
        hints: Hints::ReadOnly,
        run: |fake, _| {
            now(match fake.child {
                Some(pid) => Reply::text(&pid.to_string()),
                None => Reply::failure("the server was not started with --spawn-child"),
            })
        },
    },
    Tool {
        name: "calls_seen",
        title: "Calls seen",
        description: "What the server has received so far, as JSON: calls (with this one), cancellations, pings.",
        params: &[],
        hints: Hints::ReadOnly,
        run: |fake, _| now(Reply::text(&fake.ledger.summary().to_string())),
    },
    Tool {
        name: "own_pool",
        title: "Pool of its own",
        description: "Tells what it was called with. One parameter has a name that a gateway may want to use too.",
        params: &[optional("browser_pool", "string", "Where to swim")],
        hints: Hints::ReadOnly,
        run: |_, args| now(Reply::text(&args.all().to_string())),
    },
];
