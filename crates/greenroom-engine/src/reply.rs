//! What a caller gets of an answer: all of it, a ref id to read it by, or what has changed.
//!
//! An answer is shortened only when the whole of it is on record, so that nothing is lost by it.

use std::time::SystemTime;

use bytes::Bytes;
use greenroom_core::config::Reply;
use greenroom_core::console::Level;
use greenroom_core::ids::RefId;
use greenroom_core::{snapshot, text};
use greenroom_upstream::driver::reading::{ConsoleAt, SnapshotAt};
use serde_json::{Map, Value, json};

use crate::capture::{Caught, text_of};
use crate::status::timestamp;

/// How a call is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) reply: Reply,
    /// Bytes of text at most; 0 for any number.
    pub(crate) budget: usize,
}

impl Manner {
    /// As it came.
    pub(crate) const WHOLE: Self = Self { reply: Reply::Full, budget: 0 };
}

/// The call that is answered.
pub(crate) struct About<'a> {
    pub(crate) ref_id: RefId,
    pub(crate) session: Option<&'a str>,
    pub(crate) tool: &'a str,
    pub(crate) at: SystemTime,
}

/// Makes the reply. The bytes of an answer that needs no change are returned as they are.
pub(crate) fn compose(manner: Manner, about: &About<'_>, result: Bytes, mut caught: Caught) -> Bytes {
    let Some(body) = caught.body.take() else {
        // Nobody has looked into it, so it is short; and there is nothing to compare.
        return match manner.reply {
            Reply::Ref => written(reference(about, &caught, Map::new())),
            Reply::Full | Reply::Diff => result,
        };
    };
    match manner.reply {
        Reply::Ref => written(reference(about, &caught, body)),
        Reply::Diff if caught.is_read => written(difference(manner, about, &caught, body)),
        Reply::Full | Reply::Diff => match full(manner, about, &caught, body) {
            Some(body) => written(body),
            None => result,
        },
    }
}

fn written(body: Map<String, Value>) -> Bytes {
    serde_json::to_vec(&Value::Object(body)).expect("JSON can be written").into()
}

/// The answer itself, with the files it mentions replaced by what can be read from afar, and cut. `None` where nothing
/// has to be done.
fn full(
    manner: Manner,
    about: &About<'_>,
    caught: &Caught,
    mut body: Map<String, Value>,
) -> Option<Map<String, Value>> {
    let mut is_changed = !caught.blobs.is_empty();
    let mut left = if manner.budget == 0 { usize::MAX } else { manner.budget };
    let mut is_first = true;
    for block in body.get_mut("content")?.as_array_mut()?.iter_mut().filter(|block| block["type"] == "text") {
        let Some(text) = block["text"].as_str() else { continue };
        let mut text = std::borrow::Cow::Borrowed(text);
        if std::mem::take(&mut is_first) {
            for (words, instead) in links(about, caught) {
                if text.contains(&words) {
                    text = text.replace(&words, &instead).into();
                }
            }
        }
        if text.len() > left {
            text = shortened(about, caught, &text, left).into();
            left = 0;
        } else {
            left -= text.len();
        }
        if let std::borrow::Cow::Owned(text) = text {
            block["text"] = text.into();
            is_changed = true;
        }
    }
    add_links(&mut body, caught);
    is_changed.then_some(body)
}

/// What the answer calls a file, and what it is called in the reply.
fn links(about: &About<'_>, caught: &Caught) -> Vec<(String, String)> {
    let (capture, id) = (&caught.capture, about.ref_id);
    let mut links = Vec::new();
    if let Some(SnapshotAt::File { file, .. }) = &capture.reading.snapshot {
        let instead = match &capture.snapshot {
            Some(text) => format!("- {} bytes: get_content(ref_id=\"{id}\")", text.len()),
            None => "- empty".to_owned(),
        };
        links.push((file.words.clone(), instead));
    }
    if let Some(ConsoleAt::Log { file, .. }) = &capture.reading.console {
        let how = format!("get_console_content(ref_id=\"{id}\")");
        links.push((file.words.clone(), format!("{}: {how}", console_count(caught))));
    }
    for kept in caught.blobs.iter().filter(|kept| !kept.words.is_empty()) {
        links.push((format!("]({})", kept.words), format!("]({})", kept.blob.digest.uri())));
        // Elsewhere, in code, it is a name.
        links.push((kept.words.clone(), kept.name.clone()));
    }
    links
}

fn console_count(caught: &Caught) -> String {
    format!("{} ({} errors)", caught.capture.console.len(), errors(caught))
}

fn errors(caught: &Caught) -> usize {
    caught.capture.console.iter().filter(|entry| entry.level == Level::Error).count()
}

/// As much of a text as may be, and how to read on.
fn shortened(about: &About<'_>, caught: &Caught, text: &str, budget: usize) -> String {
    let end = text::cut(text, budget);
    let inline =
        caught.capture.snapshot.as_deref().and_then(|snapshot| Some((text.find(snapshot)?, snapshot)));
    let how = match inline {
        // Offsets count in the snapshot, which begins somewhere in this text.
        Some((start, snapshot)) if (start..start + snapshot.len()).contains(&end) => {
            how_to_read_on(about, &snapshot[..end - start], snapshot, None)
        }
        _ => how_to_read_on(
            about,
            &text[..end],
            text,
            Some("result").filter(|_| caught.capture.snapshot.is_some()),
        ),
    };
    format!("{}\n{how}", text[..end].trim_end_matches('\n'))
}

/// Says how much is left of a text of which somebody has seen the beginning.
pub(crate) fn how_to_read_on(about: &About<'_>, seen: &str, whole: &str, part: Option<&str>) -> String {
    let (id, total) = (about.ref_id, text::line_count(whole));
    let part = part.map(|part| format!(", part=\"{part}\"")).unwrap_or_default();
    if !seen.is_empty() && !seen.ends_with('\n') {
        return format!(
            "[cut: {} of {} bytes. The rest: get_content(ref_id=\"{id}\"{part}), again and again until it is empty.]",
            seen.len(),
            whole.len(),
        );
    }
    let lines = text::line_count(seen);
    format!(
        "[cut: {lines} of {total} lines. The rest: get_content(ref_id=\"{id}\"{part}, offset={lines}), or with search_for=\"…\".]"
    )
}

/// The seed's format: nothing but what is needed to ask for more.
fn reference(about: &About<'_>, caught: &Caught, body: Map<String, Value>) -> Map<String, Value> {
    let error = caught.is_error.then(|| text_of(&body).unwrap_or("the tool reported an error").to_owned());
    let answer = summary(about, caught, error);
    let mut short = Map::new();
    short.insert("content".to_owned(), json!([{ "type": "text", "text": answer.to_string() }]));
    add_links(&mut short, caught);
    if caught.is_error {
        short.insert("isError".to_owned(), true.into());
    }
    short
}

fn summary(about: &About<'_>, caught: &Caught, error: Option<String>) -> Value {
    let capture = &caught.capture;
    let mut answer = json!({
        "ref_id": about.ref_id,
        "session_id": about.session,
        "status": if error.is_some() { "error" } else { "success" },
        "timestamp": timestamp(about.at),
        "metadata": {
            "tool": about.tool,
            "has_snapshot": capture.snapshot.is_some(),
            "has_console_logs": !capture.console.is_empty(),
            "console_error_count": errors(caught),
        },
    });
    if let Some(error) = error {
        answer["error"] = error.into();
    }
    answer
}

/// What has changed since the session's last snapshot.
fn difference(
    manner: Manner,
    about: &About<'_>,
    caught: &Caught,
    mut body: Map<String, Value>,
) -> Map<String, Value> {
    let (capture, before) = (&caught.capture, &caught.before);
    let mut head = String::new();
    if let Some(page) = caught.page().filter(|page| **page != before.page) {
        head.push_str(&format!("### Page\n- Page URL: {}\n- Page Title: {}\n", page.url, page.title));
    }
    let mut gist = capture.reading.gist.clone();
    for (words, instead) in links(about, caught) {
        gist = gist.replace(&words, &instead);
    }
    head.push_str(&gist);
    if !capture.console.is_empty() {
        let count = console_count(caught);
        head.push_str(&format!("### Events\n- New console entries: {count}: get_console_content\n"));
    }
    let budget = if manner.budget == 0 { usize::MAX } else { manner.budget };
    let mut text = if head.len() > budget { shortened(about, caught, &head, budget) + "\n" } else { head };
    if let Some(now) = capture.snapshot.as_deref() {
        let changes = before.snapshot.as_deref().map(|before| snapshot::changes(before, now));
        let (heading, shown, is_whole) = match &changes {
            Some(changes) if !changes.is_new_page => {
                let counts = (changes.added, changes.changed, changes.removed);
                (
                    format!("### Changes ({} added, {} changed, {} removed)", counts.0, counts.1, counts.2),
                    changes.text.as_str(),
                    false,
                )
            }
            _ => ("### Snapshot".to_owned(), now, true),
        };
        text.push_str(&heading);
        text.push('\n');
        let room = budget.saturating_sub(text.len()).max(1);
        let end = text::cut(shown, room);
        text.push_str(shown[..end].trim_end_matches('\n'));
        if !shown.is_empty() {
            text.push('\n');
        }
        if end < shown.len() {
            let how = if is_whole {
                how_to_read_on(about, &shown[..end], shown, None)
            } else {
                format!(
                    "[cut: {end} of {} bytes of changes. The page as it is now: get_content(ref_id=\"{}\").]",
                    shown.len(),
                    about.ref_id
                )
            };
            text.push_str(&how);
            text.push('\n');
        }
    }
    text.push_str(&format!("ref_id: {}", about.ref_id));
    body.insert("content".to_owned(), json!([{ "type": "text", "text": text }]));
    add_links(&mut body, caught);
    body
}

/// What is kept of the answer, for whoever wants to fetch it.
fn add_links(body: &mut Map<String, Value>, caught: &Caught) {
    let Some(content) = body.get_mut("content").and_then(Value::as_array_mut) else { return };
    for kept in &caught.blobs {
        content.push(json!({
            "type": "resource_link", "uri": kept.blob.digest.uri(), "name": kept.name,
            "mimeType": kept.blob.mime_type, "size": kept.blob.size,
        }));
    }
}
