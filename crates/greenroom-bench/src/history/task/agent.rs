//! The one who does the task: it acts, reads what it is given, and looks up what it was not.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::super::sight::{is_there, number, ref_id, reference, text, weight};
use super::{Mode, Spent};
use crate::client::{Call, HttpClient};

const SESSION: &str = "agent";
/// What one call may take, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Of longer texts a transcript shows only the beginning.
const SHOWN: usize = 3000;

pub(super) struct Agent {
    mode: Mode,
    client: HttpClient,
    /// What it was given about the page that it is on, the newest last.
    seen: Vec<String>,
    /// Where in that the last reply begins.
    last_reply: usize,
    /// The last call that has shown the page.
    shown: Option<String>,
    spent: Spent,
    transcript: String,
}

impl Agent {
    pub(super) fn new(mode: Mode, client: HttpClient) -> Self {
        Self {
            mode,
            client,
            seen: Vec::new(),
            last_reply: 0,
            shown: None,
            spent: Spent::default(),
            transcript: String::new(),
        }
    }

    pub(super) fn spent(&self) -> &Spent {
        &self.spent
    }

    pub(super) fn transcript(&self) -> &str {
        &self.transcript
    }

    pub(super) fn begin_step(&mut self) {
        self.spent.bytes.push(0);
        // Writing to a String does not fail.
        let _ = writeln!(self.transcript, "\n===== step {} =====", self.spent.bytes.len());
    }

    /// Makes a call of the browser.
    pub(super) async fn act(&mut self, tool: &'static str, mut arguments: Value, enters: bool) -> Result<()> {
        arguments["sessionId"] = SESSION.into();
        let reply = self.ask(tool, &arguments).await?;
        let mut shown = text(&reply);
        // With differences the agent is told when all is new; otherwise it has to know that it went elsewhere.
        let is_other_page = match self.mode {
            Mode::Diff => shown.contains("### Snapshot\n"),
            _ => enters,
        };
        if is_other_page {
            self.seen.clear();
        }
        if has_snapshot(&shown) {
            let id = ref_id(&reply)?;
            // Some tools bring it along in any case.
            if self.mode == Mode::Inline && shown.contains(LINK) {
                let whole = self.ask("get_content", &json!({ "ref_id": id, "part": "snapshot" })).await?;
                shown.push('\n');
                shown.push_str(&text(&whole));
            }
            self.shown = Some(id);
        }
        self.last_reply = self.seen.len();
        self.seen.push(shown);
        Ok(())
    }

    /// The reference of the element whose line has these words.
    pub(super) async fn find(&mut self, words: &str) -> Result<String> {
        let found = self.seen.iter().rev().find_map(|text| reference(text, words));
        if let Some(found) = found {
            return Ok(found.to_owned());
        }
        let found = self.search(words).await?;
        let found = reference(&found, words).map(str::to_owned);
        found.with_context(|| format!("no reference for `{words}` was to be had"))
    }

    /// Makes sure that these words are on the page now.
    pub(super) async fn look_for(&mut self, words: &str) -> Result<()> {
        if self.seen[self.last_reply..].iter().any(|text| is_there(text, words)) {
            return Ok(());
        }
        if !is_there(&self.search(words).await?, words) {
            bail!("`{words}` is not there");
        }
        Ok(())
    }

    /// Where the counter of the changing page is.
    pub(super) async fn count(&mut self) -> Result<u32> {
        let told = self.seen[self.last_reply..].iter().rev().find_map(|text| number(text, "status"));
        match told {
            Some(count) => Ok(count),
            None => {
                let found = self.search("status [ref=").await?;
                number(&found, "status").with_context(|| format!("no counter in `{found}`"))
            }
        }
    }

    /// Reads the lines that have these words from the record.
    async fn search(&mut self, words: &str) -> Result<String> {
        let id = self.shown.clone().context("nothing has been shown yet")?;
        self.spent.reads += 1;
        let found = self.ask("get_content", &json!({ "ref_id": id, "search_for": words })).await?;
        let found = text(&found);
        self.seen.push(found.clone());
        Ok(found)
    }

    async fn ask(&mut self, tool: &'static str, arguments: &Value) -> Result<Value> {
        let call = Call::of(tool, arguments);
        self.client.reconnect().await?;
        let (_, reply) = timeout(PATIENCE, self.client.ask(&call))
            .await
            .with_context(|| format!("{tool}: no answer"))?
            .with_context(|| format!("{tool} {arguments}"))?;
        let bytes = weight(&reply);
        if let Some(step) = self.spent.bytes.last_mut() {
            *step += bytes;
        }
        let shown: String = text(&reply).chars().take(SHOWN).collect();
        let _ = writeln!(self.transcript, ">>> {tool} {arguments}\n<<< {bytes} bytes\n{shown}");
        Ok(reply)
    }
}

/// What stands in a reply instead of a snapshot.
const LINK: &str = "bytes: get_content(ref_id=";

/// Whether a reply says that there is a snapshot to read.
fn has_snapshot(text: &str) -> bool {
    [LINK, "### Changes (", "### Snapshot\n", "\"has_snapshot\":true"].iter().any(|sign| text.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_reply_says_whether_there_is_a_snapshot() {
        assert!(has_snapshot("### Snapshot\n- 12 bytes: get_content(ref_id=\"x\")"));
        assert!(has_snapshot("### Changes (0 added, 0 changed, 0 removed)"));
        assert!(has_snapshot(r#"{"metadata":{"has_snapshot":true}}"#));
        assert!(!has_snapshot(r#"{"metadata":{"has_snapshot":false}}"#));
        assert!(!has_snapshot("### Result\nNothing."));
    }
}
