//! `browser_execute_bulk`: a script of calls on one browser.

use bytes::Bytes;
use greenroom_core::ids::RefId;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::call::CallFailure;
use crate::capture::Caught;
use crate::note::Note;
use crate::own::{BulkArguments, OwnTool};
use crate::running::{Held, Rest, Running, Spot, ask};
use crate::tools::{Kind, ToolBooks};

/// How many calls one script may have.
const MOST_COMMANDS: usize = 1000;

/// What every step may return, however much the others have.
const LEAST_OF_A_STEP: usize = 1024;

/// Where a call runs, as calls outside of scripts say it.
const ADDRESS: [&str; 8] = [
    "sessionId",
    "browser_pool",
    "browser_instance",
    "reply",
    "greenroom_reply",
    "greenroom_sessionId",
    "greenroom_browser_pool",
    "greenroom_browser_instance",
];

/// Reads a script and finds what can be found wrong with it before anything runs.
pub(crate) fn read(arguments: Map<String, Value>, books: &ToolBooks) -> Result<BulkArguments, CallFailure> {
    let tool = OwnTool::ExecuteBulk;
    let bulk: BulkArguments = tool.read(arguments)?;
    let wrong = |problem: String| Err(CallFailure::BadArguments { tool: tool.name(), problem });
    if bulk.commands.is_empty() {
        return wrong("`commands` is empty".to_owned());
    }
    if bulk.commands.len() > MOST_COMMANDS {
        return wrong(format!(
            "`commands` has {} entries, and {MOST_COMMANDS} is the most",
            bulk.commands.len()
        ));
    }
    for (index, command) in bulk.commands.iter().enumerate() {
        if matches!(books.kind(&command.tool), Some(Kind::Own(_))) {
            return wrong(format!(
                "`{}` cannot be called from within a script (commands[{index}])",
                command.tool
            ));
        }
        // What the tool calls by such a name itself is its own business.
        let is_address =
            |name: &&&str| command.args.contains_key(**name) && !books.takes(&command.tool, name);
        if let Some(name) = ADDRESS.iter().find(is_address) {
            return wrong(format!(
                "`{name}` stands beside `commands` and not in commands[{index}].args: the whole script runs on one browser"
            ));
        }
    }
    Ok(bulk)
}

/// What the script has come to.
struct Script {
    bulk: BulkArguments,
    results: Vec<Value>,
    errors: Vec<Value>,
    /// Images and sounds, which JSON in a text would only bury.
    media: Vec<Value>,
    stopped_at: Option<usize>,
    /// Bytes of text in what is returned so far.
    returned: usize,
}

impl Running {
    pub(crate) async fn run_bulk(mut self, mut note: Note, spot: Spot, bulk: BulkArguments) {
        let tools: Vec<_> = bulk.commands.iter().map(|command| command.tool.clone()).collect();
        let (held, known) = tokio::join!(self.hold(spot, &tools), note.begin());
        if let Some(ref_id) = known {
            drop(held);
            return self.answer_as_before(&note, ref_id).await;
        }
        let held = match held {
            Ok(held) => held,
            Err(failure) => return self.answer(note, Err(failure), Caught::default()).await,
        };
        let script = Script {
            bulk,
            results: Vec::new(),
            errors: Vec::new(),
            media: Vec::new(),
            stopped_at: None,
            returned: 0,
        };
        self.perform(note, script, held).await;
    }

    async fn let_person_at(&self, held: &Held, deadline: Option<Instant>) -> Result<(), CallFailure> {
        let Some(session) = held.session() else { return Ok(()) };
        tokio::select! {
            ready = self.let_person_finish(session, Instant::now(), deadline) => ready,
            () = self.cancel.cancelled() => Err(CallFailure::Cancelled),
            () = self.engine.stopping.cancelled() => Err(CallFailure::ShuttingDown),
        }
    }

    async fn perform(&mut self, note: Note, mut script: Script, held: Held) {
        let total = script.bulk.commands.len();
        for index in 0..total {
            if self.engine.stopping.is_cancelled() {
                script.take(index, Err(CallFailure::ShuttingDown), None);
                script.stopped_at = Some(index);
                break;
            }
            let command = &mut script.bulk.commands[index];
            let (tool, arguments) = (command.tool.clone(), std::mem::take(&mut command.args));
            let left = u32::try_from(total - index).unwrap_or(u32::MAX);
            self.progress.report(Some(left), format!("{} of {total}: {tool}", index + 1));
            // Every step has the time that it would have by itself.
            let deadline = held.deadline(Instant::now());
            let mut step = note.step(&tool, &arguments, script.budget_left(note.budget()));
            step.begin().await;
            let is_part = held.asks_for_part(&tool, &arguments);
            // A person may have taken over since the last step.
            let (result, rest) = match self.let_person_at(&held, deadline).await {
                Ok(()) => ask(&held, &tool, arguments, None, deadline, &self.cancel).await,
                Err(failure) => (Err(failure), Rest::Nothing),
            };
            let caught = held.catch(&step, &result, is_part).await;
            let result = step.finish(result, caught, self.served.as_ref()).await;
            if matches!(result, Err(CallFailure::Cancelled)) {
                self.answer(note, Err(CallFailure::Cancelled), Caught::default()).await;
                return rest.settle(&held, deadline).await;
            }
            rest.settle(&held, deadline).await;
            let went_wrong = script.take(index, result, step.ref_id());
            if went_wrong && script.bulk.stop_on_error {
                break;
            }
        }
        drop(held);
        let report = script.report(total);
        self.answer(note, Ok(report.bytes), Caught::of_script(report.error)).await;
    }
}

impl Script {
    /// Notes what a step has brought. Says whether it went wrong.
    fn take(&mut self, index: usize, result: Result<Bytes, CallFailure>, ref_id: Option<RefId>) -> bool {
        let result = result.and_then(|bytes| {
            serde_json::from_slice::<Value>(&bytes).map_err(|error| CallFailure::BadArguments {
                tool: "the upstream",
                problem: error.to_string(),
            })
        });
        let wanted = self.bulk.return_all_results
            || self.bulk.commands.get(index).is_some_and(|command| command.return_result);
        let (result, error) = match result {
            Err(failure) => (Value::Null, Some(failure.to_string())),
            Ok(mut result) => {
                if let Some(ref_id) = ref_id.filter(|_| wanted) {
                    result["_meta"]["greenroom/refId"] = json!(ref_id);
                }
                let error = (result["isError"] == Value::Bool(true)).then(|| text_of(&result));
                if wanted {
                    self.returned += text_of(&result).len();
                }
                (if wanted { self.without_media(result) } else { Value::Null }, error)
            }
        };
        self.results.push(result);
        let went_wrong = error.is_some();
        if went_wrong && self.bulk.stop_on_error {
            self.stopped_at = Some(index);
        }
        self.errors.push(error.map_or(Value::Null, Value::String));
        went_wrong
    }

    fn without_media(&mut self, mut result: Value) -> Value {
        for block in result["content"].as_array_mut().into_iter().flatten() {
            let kind = block["type"].as_str().unwrap_or_default().to_owned();
            if kind == "image" || kind == "audio" {
                let note = format!("[{kind} {} of this answer]", self.media.len() + 1);
                self.media.push(std::mem::replace(block, json!({ "type": "text", "text": note })));
            }
        }
        result
    }

    /// What the next step may return, so that all of them together stay within the budget; 0 for any number of bytes.
    fn budget_left(&self, budget: usize) -> usize {
        if budget == 0 { 0 } else { budget.saturating_sub(self.returned).max(LEAST_OF_A_STEP) }
    }

    fn report(self, total: usize) -> Report {
        let report = json!({
            "success": self.errors.len() == total && self.errors.iter().all(Value::is_null),
            "executed_count": self.errors.len(),
            "total_count": total,
            "results": self.results,
            "errors": self.errors,
            "stopped_at": self.stopped_at,
        });
        let mut content = vec![json!({ "type": "text", "text": report.to_string() })];
        content.extend(self.media);
        let is_error = report["success"] != Value::Bool(true);
        let result = json!({ "content": content, "structuredContent": report, "isError": is_error });
        let failed = self.errors.iter().enumerate().find_map(|(index, error)| Some((index, error.as_str()?)));
        let error = failed
            .map(|(index, error)| format!("Step {index} ({}): {error}", self.bulk.commands[index].tool));
        let error = is_error.then(|| error.unwrap_or_else(|| "the script was stopped".to_owned()));
        Report { bytes: serde_json::to_vec(&result).expect("JSON can be written").into(), error }
    }
}

struct Report {
    bytes: Bytes,
    /// What went wrong first, if anything did.
    error: Option<String>,
}

fn text_of(result: &Value) -> String {
    let blocks = result["content"].as_array().into_iter().flatten();
    let texts: Vec<_> = blocks.filter_map(|block| block["text"].as_str()).collect();
    if texts.is_empty() { "the tool reported an error".to_owned() } else { texts.join("\n") }
}
