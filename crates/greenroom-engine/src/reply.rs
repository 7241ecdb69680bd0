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

use crate::capture::Caught;
use crate::status::timestamp;

/// How much of what went wrong a ref tells, in bytes.
const LONGEST_ERROR: usize = 2048;

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
            Reply::Ref => written(reference(about, &caught, &Map::new())),
            Reply::Full | Reply::Diff => result,
        };
    };
    match manner.reply {
        Reply::Ref => written(reference(about, &caught, &body)),
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
    let links = links(about, caught);
    let budget = if manner.budget == 0 { usize::MAX } else { manner.budget };
    let content = body.get_mut("content")?.as_array_mut()?;
    let mut is_changed = !caught.blobs.is_empty();
    let is_text = |block: &Value| block["type"] == "text";
    if let Some(first) = content.iter_mut().find(|block| is_text(block)) {
        let text = first["text"].as_str()?;
        let replaced =
            links.iter().fold(text.to_owned(), |text, (words, instead)| text.replace(words, instead));
        if replaced != text {
            first["text"] = replaced.into();
            is_changed = true;
        }
    }
    let texts: Vec<_> =
        content.iter().filter(|block| is_text(block)).filter_map(|block| block["text"].as_str()).collect();
    if texts.iter().map(|text| text.len()).sum::<usize>() > budget {
        // Read back they are one text, so they are cut as one.
        let whole = texts.join("\n");
        let mut short = shortened(about, caught, &whole, budget);
        let mut is_first = true;
        content.retain_mut(|block| {
            if is_text(block) && std::mem::take(&mut is_first) {
                block["text"] = std::mem::take(&mut short).into();
                return true;
            }
            !is_text(block)
        });
        is_changed = true;
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
    let inline =
        caught.capture.snapshot.as_deref().and_then(|snapshot| Some((text.find(snapshot)?, snapshot)));
    if let Some((start, snapshot)) = inline {
        let (head, tail) = (&text[..start], &text[start + snapshot.len()..]);
        // What stands around the snapshot is short, and what happened stands behind it.
        if let Some(room) = budget.checked_sub(head.len() + tail.len()).filter(|room| *room >= budget / 2) {
            // Offsets count in the snapshot, which begins somewhere in this text.
            let seen = &snapshot[..text::cut(snapshot, room)];
            let how = how_to_read_on(about.ref_id, seen, snapshot, None);
            return format!("{head}{}\n{how}{tail}", without_end(seen));
        }
    }
    let seen = &text[..text::cut(text, budget)];
    let part = Some("result").filter(|_| caught.capture.snapshot.is_some());
    format!("{}\n{}", without_end(seen), how_to_read_on(about.ref_id, seen, text, part))
}

/// A text that ends with a line, without the end of that line. Lines that are empty stay.
pub(crate) fn without_end(text: &str) -> &str {
    text.strip_suffix('\n').unwrap_or(text)
}

/// Says how much is left of a text of which somebody has seen the beginning.
pub(crate) fn how_to_read_on(ref_id: RefId, seen: &str, whole: &str, part: Option<&str>) -> String {
    let (id, total) = (ref_id, text::line_count(whole));
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
fn reference(about: &About<'_>, caught: &Caught, body: &Map<String, Value>) -> Map<String, Value> {
    let error = caught.is_error.then(|| text::beginning(caught.error_in(Some(body)), LONGEST_ERROR));
    let answer = summary(about, caught, error);
    let mut short = Map::new();
    short.insert("content".to_owned(), json!([{ "type": "text", "text": answer.to_string() }]));
    add_links(&mut short, caught);
    add_unkept(&mut short, caught);
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
    let mut text = head;
    if text.len() > budget {
        let end = text::cut(&text, budget);
        // It is put together from parts of the answer, so its lines have other numbers there.
        let how = format!(
            "[cut: {end} of {} bytes. All of it: get_content(ref_id=\"{}\", part=\"result\", offset=0).]\n",
            text.len(),
            about.ref_id
        );
        text = format!("{}\n{how}", without_end(&text[..end]));
    }
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
        text.push_str(without_end(&shown[..end]));
        if !shown.is_empty() {
            text.push('\n');
        }
        if end < shown.len() {
            let how = if is_whole {
                how_to_read_on(about.ref_id, &shown[..end], shown, None)
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
    add_unkept(&mut body, caught);
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

/// What has no link stays in the answer: there is no other way to get it.
fn add_unkept(body: &mut Map<String, Value>, caught: &Caught) {
    let Some(content) = body.get_mut("content").and_then(Value::as_array_mut) else { return };
    content.extend(caught.unkept.iter().cloned());
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use greenroom_core::console::ConsoleEntry;
    use greenroom_core::ids::Digest;
    use greenroom_store::BlobRef;
    use greenroom_upstream::driver::Page;
    use greenroom_upstream::driver::reading::{Capture, ConsoleAt, Mention, Reading};

    use super::*;
    use crate::capture::{Before, Kept};

    const ID: &str = "123e4567-e89b-42d3-a456-426614174000";

    fn reply(manner: (Reply, usize), texts: &[&str], mut caught: Caught) -> Value {
        let content: Vec<_> = texts.iter().map(|text| json!({ "type": "text", "text": text })).collect();
        let body = json!({ "content": content, "isError": caught.is_error });
        caught.body = body.as_object().cloned();
        let about = About {
            ref_id: ID.parse().unwrap(),
            session: Some("a"),
            tool: "browser_click",
            at: SystemTime::UNIX_EPOCH,
        };
        let bytes = Bytes::from(body.to_string());
        let composed = compose(Manner { reply: manner.0, budget: manner.1 }, &about, bytes.clone(), caught);
        if composed == bytes { Value::from("as it came") } else { serde_json::from_slice(&composed).unwrap() }
    }

    fn text(reply: &Value) -> &str {
        reply["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{reply}"))
    }

    fn shown(snapshot: &str) -> Caught {
        let capture = Capture { snapshot: Some(Arc::from(snapshot)), ..Capture::default() };
        Caught { is_read: true, capture, ..Caught::default() }
    }

    fn mention(words: &str) -> Mention {
        Mention { words: words.to_owned(), path: words.into() }
    }

    #[test]
    fn an_answer_that_needs_no_change_is_passed_on_byte_for_byte() {
        for budget in [0, 5] {
            assert_eq!(reply((Reply::Full, budget), &["12345"], Caught::default()), "as it came");
        }
        let nothing_to_compare = reply((Reply::Diff, 5), &["12345"], Caught::default());
        assert_eq!(nothing_to_compare, "as it came");
    }

    #[test]
    fn texts_are_cut_as_one_and_the_lines_of_all_are_counted() {
        let cut = reply((Reply::Full, 12), &["a\nb\nc", "d\ne\nf\ng", "h"], Caught::default());
        let expected = format!(
            "a\nb\nc\nd\ne\nf\n[cut: 6 of 8 lines. The rest: get_content(ref_id=\"{ID}\", offset=6), or with search_for=\"…\".]"
        );
        assert_eq!((text(&cut), cut["content"].as_array().unwrap().len()), (expected.as_str(), 1));
    }

    #[test]
    fn a_budget_that_is_used_up_exactly_is_no_budget_for_more() {
        let cut = reply((Reply::Full, 4), &["a\nb\n", "c\nd"], Caught::default());
        assert!(text(&cut).starts_with("a\nb\n[cut: 2 of 5 lines."), "{cut}");
    }

    #[test]
    fn what_stands_behind_a_snapshot_stays_when_it_is_cut() {
        let snapshot = (0..40).map(|line| format!("- line {line}")).collect::<Vec<_>>().join("\n");
        let answer = format!("### Snapshot\n```yaml\n{snapshot}\n```\n### Events\n- Downloaded");
        let cut = reply((Reply::Full, 200), &[&answer], shown(&snapshot));
        let (before, rest) = text(&cut).split_once("\n[cut: ").unwrap();
        let lines = before.lines().count() - 2;
        assert!(before.ends_with(&format!("- line {}", lines - 1)), "{cut}");
        assert!(
            rest.contains(&format!("{lines} of 40 lines")) && rest.contains(&format!("offset={lines})")),
            "{cut}"
        );
        assert!(rest.ends_with("]\n```\n### Events\n- Downloaded"), "{cut}");
        assert!(!rest.contains("part="), "{cut}");
    }

    #[test]
    fn before_a_snapshot_lines_are_those_of_the_answer() {
        let answer = format!("### Result\n{}\n### Snapshot\n```yaml\n- a\n```", "x\n".repeat(100));
        let cut = reply((Reply::Full, 50), &[&answer], shown("- a"));
        assert!(text(&cut).contains("part=\"result\", offset="), "{cut}");
    }

    #[test]
    fn files_are_called_by_what_can_be_reached_from_afar() {
        let mut caught = shown("- a");
        let link = "- [Snapshot](/s/page.yml)";
        caught.capture.reading = Reading {
            snapshot: Some(SnapshotAt::File { file: mention(link), is_ours: true }),
            console: Some(ConsoleAt::Log { file: mention("/s/console.log#L1-L2"), lines: (1, 2) }),
            ..Reading::default()
        };
        let entry = |level| ConsoleEntry { level, message: "m".into(), at: None, location: None };
        caught.capture.console = vec![entry(Level::Error), entry(Level::Info)];
        let digest = Digest::of(b"picture");
        let blob = BlobRef { digest, mime_type: "image/png".into(), size: 7 };
        caught.blobs.push(Kept { blob, name: "shot.png".into(), words: "/s/shot.png".into() });
        let answer = format!(
            "- [Screenshot](/s/shot.png)\nawait page.screenshot('/s/shot.png')\n{link}\n- New console entries: /s/console.log#L1-L2"
        );
        let full = reply((Reply::Full, 0), &[&answer], caught);
        let expected = format!(
            "- [Screenshot]({})\nawait page.screenshot('shot.png')\n- 3 bytes: get_content(ref_id=\"{ID}\")\n\
             - New console entries: 2 (1 errors): get_console_content(ref_id=\"{ID}\")",
            digest.uri()
        );
        assert_eq!(text(&full), expected);
        assert_eq!(full["content"][1]["uri"], digest.uri());
    }

    #[test]
    fn a_reference_is_the_format_of_the_seed_and_says_what_went_wrong() {
        let mut caught = shown("- a");
        caught.is_error = true;
        caught.unkept.push(json!({ "type": "image", "data": "", "mimeType": "image/png" }));
        let short = reply((Reply::Ref, 0), &["### Error\nno such thing"], caught);
        let answer: Value = serde_json::from_str(text(&short)).unwrap();
        let expected = json!({
            "ref_id": ID, "session_id": "a", "status": "error", "timestamp": answer["timestamp"],
            "metadata": {
                "tool": "browser_click", "has_snapshot": true, "has_console_logs": false, "console_error_count": 0,
            },
            "error": "### Error\nno such thing",
        });
        assert_eq!((answer, &short["isError"]), (expected, &json!(true)));
        assert_eq!(short["content"][1]["type"], "image", "what is not kept is not left out");
    }

    #[test]
    fn a_difference_names_the_page_when_it_is_another_and_cuts_what_is_too_long() {
        let page = Page { url: "http://x/".into(), title: "X".into() };
        let caught = |gist: &str, is_same: bool| {
            let mut caught = shown("- a [ref=e1]");
            caught.capture.reading.page = Some(page.clone());
            caught.capture.reading.gist = gist.to_owned();
            caught.before = Before {
                page: if is_same { page.clone() } else { Page::default() },
                snapshot: Some(Arc::from("- a [ref=e1]")),
            };
            caught
        };
        let same = reply((Reply::Diff, 0), &["…"], caught("### Result\nok\n", true));
        let expected = format!("### Result\nok\n### Changes (0 added, 0 changed, 0 removed)\nref_id: {ID}");
        assert_eq!(text(&same), expected);
        let other = reply((Reply::Diff, 0), &["…"], caught("", false));
        assert!(
            text(&other).starts_with("### Page\n- Page URL: http://x/\n- Page Title: X\n### Changes"),
            "{other}"
        );

        let gist = format!("### Result\n{}", "word\n".repeat(100));
        let cut = reply((Reply::Diff, 100), &["…"], caught(&gist, true));
        let hint = format!("All of it: get_content(ref_id=\"{ID}\", part=\"result\", offset=0).]");
        assert!(text(&cut).contains(&hint) && text(&cut).len() < 400, "{cut}");
    }
}
