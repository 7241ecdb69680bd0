//! `greenroom show`: everything about a call.

use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use greenroom_core::config::Config;
use greenroom_engine::status_word;
use greenroom_store::{Call, CallStatus};

use super::{History, Kept, RESULT_FILE, counted, one_line, plain, print, size, time, whole};
use crate::cli::ShowFlags;

/// How much of the content is shown beside everything else.
const SHOWN_LINES: usize = 20;
const SHOWN_CHARACTERS: usize = 200;
/// What a call was called with is shown in full up to here.
const SHOWN_PARAMS: usize = 400;

pub(crate) fn show(config: &Config, flags: &ShowFlags) -> Result<ExitCode> {
    let history = History::open(config)?;
    let call = history.call(&flags.call)?;
    let gone = || {
        anyhow!(
            "the result of {} was kept as a file, and that is gone: such files stay for a limited time \
             (BLOB_TTL_HOURS, BLOB_MAX_MB)",
            call.ref_id
        )
    };
    if flags.params {
        return print(format!("{}\n", call.params).as_bytes());
    }
    if flags.json {
        let console = history.reader.console(call.ref_id)?;
        let shown =
            whole(&call, &console, |blob| Ok(history.blob(blob)?.map(|path| path.display().to_string())))?;
        return print(format!("{shown:#}\n").as_bytes());
    }
    if call.status == CallStatus::Pending && (flags.content || flags.result || flags.console) {
        bail!("the call {} has no answer yet; `greenroom calls --follow` says when it has", call.ref_id);
    }
    if flags.result {
        let result = history.result(&call)?.ok_or_else(|| {
            let why = call.error.as_deref().map(|error| format!(": {}", one_line(error))).unwrap_or_default();
            anyhow!("the call {} has no result{why}", call.ref_id)
        })?;
        return print(&result.read()?.ok_or_else(gone)?);
    }
    if flags.content {
        return print(history.content(&call)?.ok_or_else(gone)?.as_bytes());
    }
    if flags.console {
        return print(console_lines(&history, &call)?.as_bytes());
    }
    print(everything(&history, &call)?.as_bytes())
}

/// What the page wrote to its console, a line each.
pub(super) fn console_lines(history: &History, call: &Call) -> Result<String> {
    let entries = history.reader.console(call.ref_id)?;
    let line = |entry: &greenroom_store::ConsoleEntry| match entry.at {
        Some(at) => format!("{} {entry}\n", time::utc(at)),
        None => format!("{entry}\n"),
    };
    Ok(entries.iter().map(line).collect())
}

fn everything(history: &History, call: &Call) -> Result<String> {
    let mut out = String::new();
    let mut say = |name: &str, value: &str| {
        let value = plain(value);
        let value = value.trim_end().replace('\n', &format!("\n{:10}", ""));
        out.push_str(&format!("{name:<10}{value}\n"));
    };
    say("ref", &call.ref_id.to_string());
    say("tool", &call.tool);
    say("status", status_word(call.status));
    say("when", &time::exactly(call.at));
    match (call.took, call.waited) {
        (Some(took), Some(waited)) if !waited.is_zero() => {
            let waited = time::span(waited);
            say("took", &format!("{} (waited {waited} for a browser)", time::span(took)));
        }
        (Some(took), _) => say("took", &time::span(took)),
        (None, _) => {}
    }
    if let Some(life) = &call.session {
        say("session", &format!("{} (life {life})", call.session_name.as_deref().unwrap_or("-")));
    }
    if let Some(parent) = call.parent {
        say("step of", &parent.to_string());
    }
    say("owner", &call.owner);
    if let Some(pool) = &call.pool {
        let instance = call.instance.as_deref().map(|id| format!(", instance {id}")).unwrap_or_default();
        say("where", &format!("pool {pool}{instance}"));
    }
    for (name, value) in [("url", &call.url), ("title", &call.title)] {
        if let Some(value) = value {
            say(name, value);
        }
    }
    let command = format!("greenroom show {}", call.ref_id);
    if call.params.len() <= SHOWN_PARAMS {
        say("params", &call.params);
    } else {
        say("params", &format!("{}: {command} --params", size(call.params.len() as u64)));
    }
    if let Some(error) = &call.error {
        say("error", error);
    }
    if call.status == CallStatus::Pending {
        say("result", "there is none yet");
        return Ok(out);
    }
    let result = match history.result(call)? {
        None => "none".to_owned(),
        Some(Kept::Here(bytes)) => size(bytes.len() as u64),
        Some(Kept::File(path)) => {
            let bytes =
                call.blobs.iter().find(|blob| blob.mime_type == RESULT_FILE).map_or(0, |blob| blob.size);
            format!("{} in {}", size(bytes), path.display())
        }
        Some(Kept::Gone) => {
            "it was kept as a file, and that is gone (BLOB_TTL_HOURS, BLOB_MAX_MB)".to_owned()
        }
    };
    say("result", &result);
    if call.snapshot.is_some() {
        say("snapshot", &size(call.snapshot_bytes));
    }
    if call.console_count > 0 {
        let entries = counted(call.console_count, "entry", "entries");
        let errors = counted(call.console_errors, "error", "errors");
        say("console", &format!("{entries}, {errors}: {command} --console"));
    }
    for blob in call.blobs.iter().filter(|blob| blob.mime_type != RESULT_FILE) {
        let place = history.blob(blob)?.map_or_else(|| "gone".to_owned(), |path| path.display().to_string());
        say("blob", &format!("{}, {}: {place}", blob.mime_type, size(blob.size)));
    }
    if let Some(content) = history.content(call)?.filter(|_| result != "none") {
        out.push_str(&beginning(&content, &command));
    }
    Ok(out)
}

/// The first lines of a content, and how to see the rest.
fn beginning(content: &str, command: &str) -> String {
    let mut out = String::from("\n");
    let mut is_whole = true;
    for line in content.lines().take(SHOWN_LINES) {
        let shown: String = line.chars().take(SHOWN_CHARACTERS).collect();
        out.push_str("  ");
        out.push_str(plain(&shown).trim_end());
        if shown.len() < line.len() {
            out.push('…');
            is_whole = false;
        }
        out.push('\n');
    }
    let lines = content.lines().count();
    if lines > SHOWN_LINES || !is_whole {
        let lines = counted(lines as u64, "line", "lines");
        out.push_str(&format!(
            "\nAll of it ({lines}, {}): {command} --content\n",
            size(content.len() as u64)
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::beginning;

    #[test]
    fn a_long_content_says_how_to_see_all_of_it() {
        assert_eq!(beginning("a\nb\n", "show me"), "\n  a\n  b\n");
        let shown = beginning(&"line\n".repeat(21), "show me");
        assert_eq!(shown.matches("  line\n").count(), 20);
        assert!(shown.ends_with("\nAll of it (21 lines, 105 bytes): show me --content\n"), "{shown}");
        let shown = beginning(&"x".repeat(300), "show me");
        assert!(shown.contains("x…\n") && shown.contains("(1 line, 300 bytes)"), "{shown}");
    }
}
