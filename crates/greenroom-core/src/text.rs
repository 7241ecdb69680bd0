//! Reading a long text in small pieces: by size, by lines, by a word, by what changed.
//!
//! Lines are numbered from 0 everywhere, so that a number seen in one answer can be given to the next question.

use std::fmt::Write as _;
use std::time::Instant;

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// Where to cut so that at most `budget` bytes remain: after the end of a line, and inside one only where the
/// first line alone is longer than that. A budget of 0 is none.
pub fn cut(text: &str, budget: usize) -> usize {
    if budget == 0 || text.len() <= budget {
        return text.len();
    }
    let whole_lines = text.as_bytes()[..budget].iter().rposition(|byte| *byte == b'\n');
    match whole_lines {
        Some(end) => end + 1,
        None => (0..=budget).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0),
    }
}

/// A last line counts whether or not its end is marked.
pub fn line_count(text: &str) -> usize {
    let ends = text.bytes().filter(|byte| *byte == b'\n').count();
    if text.is_empty() || text.ends_with('\n') { ends } else { ends + 1 }
}

/// A page that begins after the last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "offset {offset} is past the end: there are {lines} lines, and the first has the number 0; ask for a smaller \
     offset"
)]
pub struct PastTheEnd {
    pub offset: usize,
    pub lines: usize,
}

/// The lines from `offset` on, at most `limit` of them, with their ends.
pub fn page(text: &str, offset: usize, limit: Option<usize>) -> Result<&str, PastTheEnd> {
    let is_past = || PastTheEnd { offset, lines: line_count(text) };
    let start = match offset {
        0 => 0,
        _ => after_lines(text, offset).filter(|start| *start < text.len()).ok_or_else(is_past)?,
    };
    let rest = &text[start..];
    let end = limit.and_then(|limit| after_lines(rest, limit)).unwrap_or(rest.len());
    Ok(&rest[..end])
}

/// Where the line after so many begins, if that many end.
fn after_lines(text: &str, lines: usize) -> Option<usize> {
    match lines.checked_sub(1) {
        None => Some(0),
        Some(last) => text.match_indices('\n').nth(last).map(|(at, _)| at + 1),
    }
}

/// The lines that contain a word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    pub count: usize,
    /// Number of the line, and whether it contains the word itself.
    pub lines: Vec<(usize, bool)>,
    /// The lines with their numbers: `12: ` before one that contains the word, `11- ` before one around it, and a
    /// line `--` where some are left out in between.
    pub text: String,
}

/// Every line that contains `needle`, in capitals or not, with so many lines around it.
pub fn search(text: &str, needle: &str, before: usize, after: usize) -> Matches {
    let lines: Vec<&str> = text.lines().collect();
    let found = lines_with(text, needle, lines.len());
    let mut matches = Matches { count: found.len(), ..Matches::default() };
    for (nth, &line) in found.iter().enumerate() {
        let seen = matches.lines.last().map(|&(last, _)| last + 1);
        let first = line.saturating_sub(before).max(seen.unwrap_or(0));
        let next = found.get(nth + 1).copied().unwrap_or(lines.len());
        let end = line.saturating_add(after).saturating_add(1).min(next).min(lines.len());
        if seen.is_some_and(|seen| seen < first) {
            matches.text.push_str("--\n");
        }
        for (shown, content) in lines[..end].iter().enumerate().skip(first) {
            let mark = if shown == line { ':' } else { '-' };
            matches.lines.push((shown, shown == line));
            // Writing to a string cannot fail.
            let _ = writeln!(matches.text, "{shown}{mark} {content}");
        }
    }
    if matches.text.ends_with('\n') {
        matches.text.pop();
    }
    matches
}

fn lines_with(text: &str, needle: &str, lines: usize) -> Vec<usize> {
    if needle.is_empty() {
        return (0..lines).collect();
    }
    if needle.contains('\n') {
        return Vec::new();
    }
    // Letters beyond ASCII cannot be in what matches such a word.
    let (text, needle) = match needle.is_ascii() {
        true => (text.to_ascii_lowercase(), needle.to_ascii_lowercase()),
        false => (without_case(text), without_case(needle)),
    };
    let mut found = Vec::new();
    // So many bytes have been looked at, and so many lines ended in them.
    let (mut counted, mut line) = (0, 0);
    for (at, _) in text.match_indices(&needle) {
        line += text.as_bytes()[counted..at].iter().filter(|byte| **byte == b'\n').count();
        counted = at;
        if found.last() != Some(&line) {
            found.push(line);
        }
    }
    found
}

/// Letter by letter, so that what a word becomes does not depend on where it stands.
fn without_case(text: &str) -> String {
    let mut lower = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_ascii() {
            true => lower.push(c.to_ascii_lowercase()),
            false => lower.extend(c.to_lowercase()),
        }
    }
    lower
}

/// The beginning of a text, with so many bytes at most, and a sign where something is left out.
pub fn beginning(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// What changed, line by line: `- ` before what went, `+ ` before what came, under `@@ line N @@`, the line of the
/// new text where it happened. Empty when nothing did.
///
/// When `deadline` has passed the rest is told more coarsely, which is correct all the same.
pub fn changes(old: &str, new: &str, deadline: Option<Instant>) -> String {
    let old: Vec<&str> = old.lines().collect();
    let new: Vec<&str> = new.lines().collect();
    let mut text = String::new();
    let mut group_goes_on_at = None;
    for change in capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline) {
        if matches!(change, DiffOp::Equal { .. }) {
            continue;
        }
        let (removed, added) = (change.old_range(), change.new_range());
        if group_goes_on_at != Some((removed.start, added.start)) {
            let _ = writeln!(text, "@@ line {} @@", added.start);
        }
        group_goes_on_at = Some((removed.end, added.end));
        for line in &old[removed] {
            let _ = writeln!(text, "- {line}");
        }
        for line in &new[added] {
            let _ = writeln!(text, "+ {line}");
        }
    }
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

#[cfg(test)]
mod tests;
