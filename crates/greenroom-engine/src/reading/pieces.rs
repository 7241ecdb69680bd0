//! Pieces of a text or a tree, as they were asked for.

use std::time::{Duration, Instant, SystemTime};

use greenroom_core::ids::{Digest, RefId};
use greenroom_core::text;
use greenroom_store::Cursor;
use serde_json::Value;

use super::asked::{Format, How, Part, Wanted};
use super::{Content, ReadFailure, Volume};
use crate::reply::{how_to_read_on, without_end};

/// How long a comparison may look for the shortest way to tell the difference.
const COMPARING: Duration = Duration::from_secs(1);

/// Reads as it was asked for. Takes its time for large texts.
pub(super) fn read(
    arguments: &Wanted,
    ref_id: RefId,
    volume: &Volume,
    old: Option<&Volume>,
    budget: usize,
) -> Result<Content, ReadFailure> {
    let whole = &*volume.text;
    match arguments.how {
        How::Plain { .. } | How::Page if arguments.format == Format::Json => {
            let (snapshot, _) = volume.tree()?;
            let tree = snapshot.to_json();
            Ok(listed(ref_id, tree, arguments.offset, arguments.limit, Format::Json, budget)?)
        }
        How::Plain { .. } | How::Page => {
            let (offset, limit) = (arguments.offset.unwrap_or(0), arguments.limit);
            let page = text::page(whole, offset, limit)?;
            let start = whole.len() - text::page(whole, offset, None)?.len();
            Ok(paged(ref_id, (start, page), whole, offset, arguments.part, budget))
        }
        How::Search { ref needle, before, after } => {
            let found = text::search(whole, needle, before, after);
            let in_all = format!("{} matching lines in all", found.count);
            portion(ref_id, &found.text, arguments, budget, &in_all)
        }
        How::Since(_) => {
            let deadline = Instant::now() + COMPARING;
            let changes = old.map(|old| text::changes(&old.text, whole, Some(deadline))).unwrap_or_default();
            portion(ref_id, &changes, arguments, budget, "more lines of changes")
        }
        How::Query { ref expression, flatten } => {
            let (_, queryable) = volume.tree()?;
            let found = queryable.query(expression, flatten);
            let found = found.map_err(|error| ReadFailure::Query(error.to_string()))?;
            let format = if arguments.is_format_given { arguments.format } else { Format::Json };
            Ok(listed(ref_id, found, arguments.offset, arguments.limit, format, budget)?)
        }
    }
}

/// What has not been read of a text yet, and how far it is read then.
pub(super) fn unread(ref_id: RefId, whole: &str, cursor: Option<Cursor>, budget: usize) -> (Content, Cursor) {
    let hash = Digest::of(whole.as_bytes());
    let position = match cursor.filter(|cursor| cursor.hash == hash) {
        Some(cursor) => usize::try_from(cursor.position).unwrap_or(usize::MAX).min(whole.len()),
        None => 0,
    };
    let rest = whole.get(position..).unwrap_or(whole);
    let end = text::cut(rest, budget);
    let read = position + end;
    let cursor = Cursor { position: u64::try_from(read).unwrap_or(u64::MAX), hash, read: SystemTime::now() };
    let total = text::line_count(whole);
    if read == whole.len() {
        return (Content { ref_id, text: rest.to_owned(), total, next_offset: None }, cursor);
    }
    let next = text::line_count(&whole[..read]);
    let text = format!(
        "{}\n[cut: {read} of {} bytes have been read. The rest: the same call again, or offset={next}, or search_for=\"…\".]",
        without_end(&rest[..end]),
        whole.len(),
    );
    (Content { ref_id, text, total, next_offset: Some(next) }, cursor)
}

/// A page of lines that were made for this answer: matches, or changes.
fn portion(
    ref_id: RefId,
    whole: &str,
    arguments: &Wanted,
    budget: usize,
    in_all: &str,
) -> Result<Content, ReadFailure> {
    if whole.is_empty() {
        return Ok(Content { ref_id, text: String::new(), total: 0, next_offset: None });
    }
    let offset = arguments.offset.unwrap_or(0);
    let page = text::page(whole, offset, arguments.limit)?;
    let end = text::cut(page, budget);
    let (seen, total) = (&page[..end], text::line_count(whole));
    let next = offset + text::line_count(seen);
    let next_offset = (next < total).then_some(next);
    let mut text = seen.to_owned();
    if end < page.len() {
        let rest = match next_offset {
            Some(next) => format!(" The rest: the same call with offset={next}."),
            None => String::new(),
        };
        let how = if seen.ends_with('\n') {
            format!("[cut: {in_all}.{rest}]")
        } else {
            format!(
                "[cut inside a line that is longer than a reply may be. All of it: get_content(ref_id=\"{ref_id}\").{rest}]"
            )
        };
        text = format!("{}\n{how}", without_end(&text));
    }
    Ok(Content { ref_id, text, total, next_offset })
}

/// A page of a text, cut. `start` is where it begins.
fn paged(
    ref_id: RefId,
    (start, page): (usize, &str),
    whole: &str,
    offset: usize,
    part: Option<Part>,
    budget: usize,
) -> Content {
    let end = text::cut(page, budget);
    let total = text::line_count(whole);
    let shown = offset + text::line_count(&page[..end]);
    let next = (shown < total).then_some(shown);
    let mut text = page[..end].to_owned();
    if end < page.len() {
        let part = part.filter(|part| *part == Part::Result).map(|_| "result");
        let how = how_to_read_on(ref_id, &whole[..start + end], whole, part);
        text = format!("{}\n{how}", without_end(&text));
    }
    Content { ref_id, text, total, next_offset: next }
}

/// A value, or a page of it where it is a list.
fn listed(
    ref_id: RefId,
    value: Value,
    offset: Option<usize>,
    limit: Option<usize>,
    format: Format,
    budget: usize,
) -> Result<Content, ReadFailure> {
    let write = |value: &Value| match format {
        Format::Json => serde_json::to_string_pretty(value).expect("JSON can be written"),
        Format::Yaml => yaml(value),
    };
    let Value::Array(items) = value else {
        if offset.is_some_and(|offset| offset > 0) {
            return Err(ReadFailure::Wrong(
                "`offset` is for lists, and the query gives a single value.".to_owned(),
            ));
        }
        return Ok(Content { ref_id, text: shortened(write(&value), budget), total: 1, next_offset: None });
    };
    let (total, offset) = (items.len(), offset.unwrap_or(0));
    if offset > 0 && offset >= total {
        return Err(ReadFailure::Wrong(format!(
            "`offset` {offset} is past the end: the list has {total} items."
        )));
    }
    let wanted: Vec<_> = items.into_iter().skip(offset).take(limit.unwrap_or(usize::MAX)).collect();
    let all = wanted.len();
    let (count, mut text) = within(wanted, budget, &write);
    let next = offset + count;
    if count < all {
        text.push_str(&format!(
            "\n[cut: {count} of {all} items. The rest: the same call with offset={next}.]"
        ));
    }
    let next_offset = (next < total).then_some(next);
    Ok(Content { ref_id, text, total, next_offset })
}

/// A value that is too long by itself, cut.
fn shortened(text: String, budget: usize) -> String {
    let end = text::cut(&text, budget);
    if end == text.len() {
        return text;
    }
    format!(
        "{}\n[cut: {end} of {} bytes of one value. Ask for less of it with a narrower query, such as [].name with flatten.]",
        without_end(&text[..end]),
        text.len()
    )
}

/// As many items as fit.
fn within(mut items: Vec<Value>, budget: usize, write: &impl Fn(&Value) -> String) -> (usize, String) {
    if budget > 0 {
        let mut size = "[\n]".len();
        let fits = items.iter().take_while(|item| {
            // In the list its lines are indented, and a comma follows.
            let item = write(item);
            size += item.len() + 2 * text::line_count(&item) + ",\n".len();
            size <= budget
        });
        let fits = fits.count().max(1);
        items.truncate(fits);
    }
    let count = items.len();
    (count, shortened(write(&Value::Array(items)), budget))
}

/// A value as YAML, in the plainest way: blocks, and scalars as JSON writes them.
fn yaml(value: &Value) -> String {
    fn write(value: &Value, indent: usize, out: &mut String) {
        let pad = "  ".repeat(indent);
        match value {
            Value::Array(items) if !items.is_empty() => {
                for item in items {
                    out.push_str(&format!("{pad}-"));
                    inside(item, indent, out);
                }
            }
            Value::Object(fields) if !fields.is_empty() => {
                for (name, value) in fields {
                    out.push_str(&format!("{pad}{}:", Value::from(name.as_str())));
                    inside(value, indent, out);
                }
            }
            scalar => out.push_str(&format!("{pad}{scalar}\n")),
        }
    }
    fn inside(value: &Value, indent: usize, out: &mut String) {
        let is_block = value.as_array().is_some_and(|items| !items.is_empty())
            || value.as_object().is_some_and(|fields| !fields.is_empty());
        if is_block {
            out.push('\n');
            write(value, indent + 1, out);
        } else {
            out.push_str(&format!(" {value}\n"));
        }
    }
    let mut out = String::new();
    write(value, 0, &mut out);
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::reading::ContentArguments;

    fn list(value: Value, offset: Option<usize>, limit: Option<usize>, budget: usize) -> Content {
        let ref_id = "123e4567-e89b-42d3-a456-426614174000".parse().unwrap();
        listed(ref_id, value, offset, limit, Format::Json, budget).unwrap()
    }

    #[test]
    fn items_that_do_not_fit_are_left_for_the_next_page() {
        let items: Vec<_> = (0..100).map(|number| json!({ "name": format!("item {number}") })).collect();
        let (mut next, mut read) = (Some(0), Vec::new());
        while let Some(offset) = next {
            let page = list(json!(items), Some(offset), None, 500);
            assert!(page.text.len() < 600, "{}", page.text);
            let (items, hint) = page.text.rsplit_once("\n[cut: ").unwrap_or((&page.text, ""));
            read.extend(serde_json::from_str::<Vec<Value>>(items).unwrap());
            assert_eq!(page.total, 100);
            next = page.next_offset;
            let expected = next.map(|next| format!("offset={next}.]")).unwrap_or_default();
            assert!(hint.ends_with(&expected), "{hint}");
        }
        assert_eq!(read, items);
        let limited = list(json!(items), Some(98), Some(1), 500);
        assert_eq!((limited.next_offset, limited.text.contains("[cut")), (Some(99), false));
    }

    #[test]
    fn matches_that_do_not_fit_say_where_the_rest_is_also_inside_a_line() {
        let ref_id = "123e4567-e89b-42d3-a456-426614174000".parse().unwrap();
        let arguments = |offset| {
            let given = ContentArguments {
                ref_id: Some("x".to_owned()),
                search_for: Some("needle".to_owned()),
                offset,
                ..ContentArguments::default()
            };
            Wanted::check(given).unwrap()
        };
        let short =
            portion(ref_id, "0: a\n1: b\n2: c", &arguments(None), 10, "3 matching lines in all").unwrap();
        assert_eq!(
            short.text,
            "0: a\n1: b\n[cut: 3 matching lines in all. The rest: the same call with offset=2.]"
        );
        assert_eq!((short.total, short.next_offset), (3, Some(2)));
        let long = format!("0: {}\n1: b", "x".repeat(100));
        let cut = portion(ref_id, &long, &arguments(None), 10, "2 matching lines in all").unwrap();
        assert!(cut.text.contains("[cut inside a line"), "{}", cut.text);
        assert_eq!(cut.next_offset, Some(1), "the rest of the line is not skipped silently");
        let last = portion(ref_id, &long, &arguments(Some(1)), 10, "").unwrap();
        assert_eq!((last.text.as_str(), last.next_offset), ("1: b", None));
    }

    #[test]
    fn a_value_that_is_too_long_by_itself_is_cut_too() {
        let long: Vec<_> = (0..100).map(|number| format!("line {number}")).collect();
        for value in [json!({ "children": long }), json!([{ "children": long }]), json!("x".repeat(2000))] {
            let content = list(value, None, None, 500);
            assert!(content.text.len() < 700, "{}", content.text);
            assert!(content.text.contains("narrower query"), "{}", content.text);
            assert_eq!(content.next_offset, None);
        }
        assert!(!list(json!({ "children": long }), None, None, 0).text.contains("[cut"));
    }

    #[test]
    fn values_are_plain_yaml() {
        let value = json!([{ "role": "button", "ref": null, "children": [] }, ["a: b", 1.5], {}]);
        let expected =
            "-\n  \"role\": \"button\"\n  \"ref\": null\n  \"children\": []\n-\n  - \"a: b\"\n  - 1.5\n- {}";
        assert_eq!(yaml(&value), expected);
        assert_eq!(yaml(&json!("x")), "\"x\"");
    }

    #[test]
    fn ways_to_read_that_contradict_each_other_are_refused() {
        let check = |arguments: Value| {
            Wanted::check(serde_json::from_value(arguments).unwrap()).err().map(|error| error.to_string())
        };
        let id = "123e4567-e89b-42d3-a456-426614174000";
        for fine in [
            json!({ "ref_id": id, "search_for": "", "since": "", "query": "" }),
            json!({ "ref_id": id, "before_lines": 0, "flatten": false }),
            json!({ "ref_id": id, "query": "[]", "flatten": true, "format": "yaml", "limit": 1 }),
        ] {
            assert_eq!(check(fine.clone()), None, "{fine}");
        }
        for (wrong, expected) in [
            (json!({ "search_for": "a", "query": "b" }), "give one of them"),
            (json!({ "since": id, "format": "json" }), "lines of text"),
            (json!({ "query": "a", "after_lines": 1 }), "go with `search_for`"),
            (json!({ "search_for": "a", "flatten": true }), "goes with `query`"),
        ] {
            assert!(check(wrong.clone()).is_some_and(|message| message.contains(expected)), "{wrong}");
        }
    }
}
