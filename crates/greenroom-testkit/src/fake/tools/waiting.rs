//! Tools that take their time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::super::args::Args;
use super::super::outlet;
use super::super::protocol::Fake;
use super::super::reply::Reply;
use super::super::tool::{Hints, Tool, later, needed, now, optional};
use super::super::turn::Outcome;

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "sleep",
        title: "Sleep",
        description: "Waits, then answers.",
        params: &[needed("ms", "integer", "How many milliseconds")],
        hints: Hints::ReadOnly,
        run: |_, args| {
            let ms = args.number("ms")?;
            later(move |call| {
                call.cancelled.wait_for(Duration::from_millis(ms));
                Reply::text(&format!("slept {ms} ms"))
            })
        },
    },
    Tool {
        name: "progress",
        title: "Progress",
        description: "Reports progress step by step, if the request has a progress token, then answers.",
        params: &[
            needed("steps", "integer", "How many steps"),
            optional("delay_ms", "integer", "How many milliseconds each step takes"),
        ],
        hints: Hints::ReadOnly,
        run: progress,
    },
    Tool {
        name: "hang",
        title: "Hang",
        description: "Never answers.",
        params: &[],
        hints: Hints::ReadOnly,
        run: |_, _| {
            later(|call| {
                call.cancelled.wait();
                Reply::Silence
            })
        },
    },
    Tool {
        name: "slow_call_order",
        title: "Slow call in a log",
        description: "Waits, and notes its start and its end in the log that order_log shows.",
        params: &[
            needed("label", "string", "What to call it in the log"),
            needed("ms", "integer", "How many milliseconds"),
        ],
        hints: Hints::Changes,
        run: slow_call_order,
    },
    Tool {
        name: "order_log",
        title: "Log of slow calls",
        description: "The starts and ends of slow_call_order so far, as a JSON list.",
        params: &[],
        hints: Hints::ReadOnly,
        run: |fake, _| now(Reply::text(&json!(fake.ledger.order()).to_string())),
    },
];

fn progress(_: &Arc<Fake>, args: &Args) -> Result<Outcome, Reply> {
    let steps = args.number("steps")?;
    let delay = Duration::from_millis(args.optional("delay_ms", Args::number)?.unwrap_or(0));
    let token = args.progress_token().cloned();
    later(move |call| {
        for step in 1..=steps {
            if call.cancelled.wait_for(delay) {
                break;
            }
            let Some(token) = &token else { continue };
            let message = format!("step {step} of {steps}");
            let params =
                json!({ "progressToken": token, "progress": step, "total": steps, "message": message });
            // Without a stream to report on, the answer still comes.
            let _ = outlet::notify(&*call.outlet, "notifications/progress", Some(params));
        }
        Reply::text(&format!("done in {steps} steps"))
    })
}

fn slow_call_order(fake: &Arc<Fake>, args: &Args) -> Result<Outcome, Reply> {
    let label = args.text("label")?.to_owned();
    let duration = Duration::from_millis(args.number("ms")?);
    fake.ledger.note_order(format!("start {label}"));
    later(move |call| {
        let event = if call.cancelled.wait_for(duration) { "cancelled" } else { "end" };
        call.fake.ledger.note_order(format!("{event} {label}"));
        Reply::text(&label)
    })
}
