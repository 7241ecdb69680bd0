//! What reaches an agent in a task of twenty steps on the test site, with a real browser, by kind of reply.
//!
//! The agent knows the site as somebody would who was told what to do: by what stands on links, fields and buttons. The
//! references that its actions need it takes from texts that it was given, and from nowhere else.

mod agent;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::json;

use crate::measure::say;
use crate::sessions::rig::{Gateway, Rig};
use agent::Agent;

pub(super) const STEPS: usize = 20;

/// How long at least the page that changes by itself is watched, in tens of its changes of 200 ms each.
const WATCHED_TENS: u32 = 2;

/// How replies are made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// Every reply brings the whole snapshot, as the browser server does where it does not write it to a file.
    Inline,
    Full,
    Ref,
    Diff,
}

impl Mode {
    pub(super) const ALL: [Self; 4] = [Self::Inline, Self::Full, Self::Ref, Self::Diff];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Full => "full",
            Self::Ref => "ref",
            Self::Diff => "diff",
        }
    }

    /// What the gateway is told.
    fn variables(self) -> Vec<(&'static str, String)> {
        match self {
            Self::Inline => {
                vec![("GREENROOM_REPLY", "full".to_owned()), ("GREENROOM_REPLY_BUDGET", "0".to_owned())]
            }
            _ => vec![("GREENROOM_REPLY", self.name().to_owned())],
        }
    }
}

/// What one mode took.
pub(super) struct Run {
    pub(super) mode: Mode,
    pub(super) outcome: Result<Spent>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Spent {
    /// Bytes that reached the agent at each step, what it read afterwards included.
    pub(super) bytes: Vec<usize>,
    /// Calls that read from the record.
    pub(super) reads: usize,
}

impl Spent {
    pub(super) fn total(&self) -> usize {
        self.bytes.iter().sum()
    }

    /// Without the first step, whose page is far larger than all the others.
    pub(super) fn after_the_list(&self) -> usize {
        self.bytes.iter().skip(1).sum()
    }
}

/// One action.
enum Act {
    Go(&'static str),
    Click(&'static str),
    Type(&'static str, &'static str),
    Choose(&'static str, &'static str),
    NewTab,
    Tab(usize),
    /// Another tab is not shown by going there.
    Look,
    /// Until the counter has gone on for a while.
    Watch,
}

struct Step {
    act: Act,
    /// Whether it leads to another page.
    enters: bool,
    /// What the agent then has to see, to know that it worked.
    sees: &'static [&'static str],
}

const fn step(act: Act) -> Step {
    Step { act, enters: false, sees: &[] }
}

impl Step {
    const fn enters(mut self) -> Self {
        self.enters = true;
        self
    }

    const fn sees(mut self, words: &'static [&'static str]) -> Self {
        self.sees = words;
        self
    }
}

const NAME: &str = "textbox \"Name\"";
const EMAIL: &str = "textbox \"E-mail\"";
const SEND: &str = "button \"Send\"";

#[rustfmt::skip]
const TASK: [Step; STEPS] = [
    step(Act::Go("/items")).enters(),
    step(Act::Click("link \"Item 3217:")).enters().sees(&["heading \"Item 3217\""]),
    step(Act::Go("/form")).enters(),
    step(Act::Type(NAME, "Ada")),
    step(Act::Type(EMAIL, "ada.example.com")),
    step(Act::Choose("combobox \"Favourite colour\"", "Green")),
    step(Act::Click(SEND)).enters().sees(&["The e-mail address needs an @."]),
    step(Act::Click("link \"Try again\"")).enters(),
    step(Act::Type(NAME, "Ada")),
    step(Act::Type(EMAIL, "ada@example.com")),
    step(Act::Click(SEND)).enters().sees(&["Thank you.", "ada@example.com"]),
    step(Act::NewTab).enters(),
    step(Act::Go("/changing")).enters(),
    step(Act::Click("button \"Add a row\"")).sees(&["Row 2"]),
    step(Act::Tab(0)).enters(),
    step(Act::Look).sees(&["Thank you."]),
    step(Act::Click("link \"All pages\"")).enters().sees(&["Every page shows one thing."]),
    step(Act::Tab(1)).enters(),
    step(Act::Look).sees(&["Row 2"]),
    step(Act::Watch),
];

pub(super) async fn measure(rig: &Rig<'_>, transcripts: Option<&Path>) -> Vec<Run> {
    let mut runs = Vec::new();
    for mode in Mode::ALL {
        say(format_args!("{STEPS} steps with replies: {}", mode.name()));
        runs.push(Run { mode, outcome: run(mode, rig, transcripts).await });
    }
    runs
}

async fn run(mode: Mode, rig: &Rig<'_>, transcripts: Option<&Path>) -> Result<Spent> {
    let gateway = rig.gateway_with(&mode.variables()).await?;
    let done = work(mode, rig, &gateway, transcripts).await.with_context(|| gateway.last_words());
    gateway.end().await;
    done
}

async fn work(mode: Mode, rig: &Rig<'_>, gateway: &Gateway, transcripts: Option<&Path>) -> Result<Spent> {
    let mut agent = Agent::new(mode, gateway.client().await?);
    let mut outcome = Ok(());
    for (number, step) in TASK.iter().enumerate() {
        outcome = take(step, &mut agent, rig).await.with_context(|| format!("step {}", number + 1));
        if outcome.is_err() {
            break;
        }
    }
    if let Some(folder) = transcripts {
        fs::create_dir_all(folder)?;
        fs::write(folder.join(format!("{}.txt", mode.name())), agent.transcript())?;
    }
    outcome.map(|()| agent.spent().clone())
}

async fn take(step: &Step, agent: &mut Agent, rig: &Rig<'_>) -> Result<()> {
    agent.begin_step();
    let mut awaited = None;
    let (tool, arguments) = match &step.act {
        Act::Go(path) => ("browser_navigate", json!({ "url": rig.url(path) })),
        Act::Click(words) => {
            let target = agent.find(words).await?;
            ("browser_click", json!({ "element": words, "target": target }))
        }
        Act::Type(words, text) => {
            let target = agent.find(words).await?;
            ("browser_type", json!({ "element": words, "target": target, "text": text }))
        }
        Act::Choose(words, value) => {
            let target = agent.find(words).await?;
            ("browser_select_option", json!({ "element": words, "target": target, "values": [value] }))
        }
        Act::NewTab => ("browser_tabs", json!({ "action": "new" })),
        Act::Tab(index) => ("browser_tabs", json!({ "action": "select", "index": index })),
        Act::Look => ("browser_snapshot", json!({})),
        Act::Watch => {
            // A single number may come and go between two looks of the browser server, so that it is any of ten.
            let tens = agent.count().await? / 10 + WATCHED_TENS;
            awaited = Some(tens * 10);
            ("browser_wait_for", json!({ "text": format!("Counter: {tens}") }))
        }
    };
    agent.act(tool, arguments, step.enters).await?;
    for words in step.sees {
        agent.look_for(words).await?;
    }
    if let Some(awaited) = awaited {
        let count = agent.count().await?;
        ensure!(count >= awaited, "the counter is at {count}, and {awaited} was waited for");
    }
    Ok(())
}
