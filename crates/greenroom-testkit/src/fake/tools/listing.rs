//! Tools that change the list of tools, or claim to.

use super::super::reply::Reply;
use super::super::tool::{Hints, Tool, now};

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "change_tools",
        title: "Add a tool",
        description: "Adds a tool to the list, says that the list changed, and answers with the tool's name.",
        params: &[],
        hints: Hints::Changes,
        run: |fake, _| {
            let name = fake.catalog.add();
            fake.announce_tools();
            now(Reply::text(&name))
        },
    },
    Tool {
        name: "announce_tools",
        title: "Announce no change",
        description: "Says that the list of tools changed though it did not.",
        params: &[],
        hints: Hints::ReadOnly,
        run: |fake, _| {
            fake.announce_tools();
            now(Reply::text("announced"))
        },
    },
];
