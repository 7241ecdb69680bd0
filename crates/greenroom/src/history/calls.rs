//! `greenroom calls`: what was called, like a log.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use greenroom_core::config::Config;
use greenroom_core::ids::RefId;
use greenroom_engine::{describe, status_word};
use greenroom_store::{Call, CallStatus, Filter, Found, Reader};

use super::{History, database_in, one_line, time};
use crate::cli::{CallsFlags, Status};
use crate::pools::written;

/// How often `--follow` looks again.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The last column gets that much room also where the terminal has less.
const LEAST_ROOM: usize = 24;

pub(crate) fn list(config: &Config, flags: &CallsFlags) -> Result<ExitCode> {
    let history = History::open(config)?;
    let status = flags.status.map(|status| match status {
        Status::Success => CallStatus::Success,
        Status::Error => CallStatus::Error,
        Status::Pending => CallStatus::Pending,
    });
    let filter = Filter {
        session: flags.session.clone(),
        tool: flags.tool.clone(),
        status,
        since: flags.since,
        limit: flags.limit,
        ..Filter::default()
    };
    let mut view = View::new(flags.json);
    let mut stdout = std::io::stdout();
    let mut show = |calls: &[Call]| {
        let shown = view.shown(calls);
        stdout.write_all(shown.as_bytes()).and_then(|()| stdout.flush())
    };
    if !flags.follow {
        let mut calls = history.reader.calls(&filter)?;
        calls.reverse();
        return written(show(&calls));
    }
    let mut follower = Follower::new(filter);
    let mut calls = follower.first(&history.reader)?;
    loop {
        let outcome = if calls.is_empty() { Ok(()) } else { show(&calls) };
        if outcome.is_err() {
            return written(outcome);
        }
        std::thread::sleep(LOOK_EVERY);
        // Opened each time: a damaged history is put aside, and another one begun under its name.
        calls = match database_in(&history.folder).exists() {
            true => follower.next(&Reader::open(&history.folder)?)?,
            false => Vec::new(),
        };
    }
}

/// Which calls have been seen, and which of them still wait for their answer.
struct Follower {
    /// Without a status: it is what changes.
    filter: Filter,
    status: Option<CallStatus>,
    last: Option<RefId>,
    waiting: Vec<RefId>,
    /// What the first look has seen already of what the second one finds.
    known: HashSet<RefId>,
}

impl Follower {
    fn new(mut filter: Filter) -> Self {
        let status = filter.status.take();
        Self { filter, status, last: None, waiting: Vec::new(), known: HashSet::new() }
    }

    /// The newest calls that were answered, oldest first. Calls go on meanwhile: each question takes in what the one before
    /// it may have missed, and what is seen twice is remembered.
    fn first(&mut self, reader: &Reader) -> Result<Vec<Call>> {
        let newest = newest(reader)?;
        let seen = reader.calls(&Filter { limit: 1, ..self.filter.clone() })?;
        self.last = seen.first().map(|call| call.ref_id).or(newest);
        let is_for_pending = self.status == Some(CallStatus::Pending);
        if !is_for_pending {
            let pending = Some(CallStatus::Pending);
            let waiting =
                reader.calls(&Filter { status: pending, limit: usize::MAX, ..self.filter.clone() })?;
            self.waiting = waiting.into_iter().rev().map(|call| call.ref_id).collect();
        }
        let mut calls = reader.calls(&Filter { status: self.status, ..self.filter.clone() })?;
        calls.retain(|call| {
            is_for_pending || call.status != CallStatus::Pending && !self.waiting.contains(&call.ref_id)
        });
        calls.reverse();
        self.known = calls.iter().map(|call| call.ref_id).chain(self.waiting.iter().copied()).collect();
        Ok(calls)
    }

    /// What has been answered since, in that order.
    fn next(&mut self, reader: &Reader) -> Result<Vec<Call>> {
        let mut answered = Vec::new();
        let mut waiting = Vec::new();
        for ref_id in std::mem::take(&mut self.waiting) {
            match reader.call(None, ref_id)? {
                Found::Here(call) if call.status == CallStatus::Pending => waiting.push(ref_id),
                Found::Here(call) => answered.push(call),
                Found::Expired | Found::Unknown => {}
            }
        }
        let newest = newest(reader)?;
        let new = self.arrived(reader)?;
        self.last = new.last().map(|call| call.ref_id).or(newest).or(self.last);
        let known = std::mem::take(&mut self.known);
        for call in new.into_iter().filter(|call| !known.contains(&call.ref_id)) {
            match (call.status, self.status) {
                (CallStatus::Pending, Some(CallStatus::Pending)) => answered.push(call),
                (CallStatus::Pending, _) => waiting.push(call.ref_id),
                _ => answered.push(call),
            }
        }
        self.waiting = waiting;
        answered.retain(|call| self.status.is_none_or(|status| call.status == status));
        answered.sort_by_key(|call| call.answered.unwrap_or(call.at));
        Ok(answered)
    }

    /// What is on record after the last call that was seen, oldest first.
    fn arrived(&self, reader: &Reader) -> Result<Vec<Call>> {
        let last = match self.last {
            // In another history than the one before nothing has been seen.
            Some(last) if reader.call(None, last)? == Found::Unknown => None,
            last => last,
        };
        let mut calls = reader.calls(&Filter { after: last, limit: usize::MAX, ..self.filter.clone() })?;
        if last.is_none() {
            calls.reverse();
        }
        Ok(calls)
    }
}

fn newest(reader: &Reader) -> Result<Option<RefId>> {
    let newest = reader.calls(&Filter { limit: 1, ..Filter::default() })?;
    Ok(newest.first().map(|call| call.ref_id))
}

/// Calls as lines. Columns are as wide as what has been seen, so that those that come later stand below it.
struct View {
    json: bool,
    /// Of the terminal. `None`: nobody looks, and nothing is shortened.
    width: Option<usize>,
    columns: Option<[usize; 6]>,
}

const HEAD: [&str; 7] = ["TIME", "SESSION", "TOOL", "STATUS", "TOOK", "REF", "PAGE OR ERROR"];

impl View {
    fn new(json: bool) -> Self {
        let size = terminal_size::terminal_size_of(std::io::stdout());
        Self { json, width: size.map(|(width, _)| usize::from(width.0)), columns: None }
    }

    fn shown(&mut self, calls: &[Call]) -> String {
        if self.json {
            return calls.iter().map(|call| format!("{}\n", describe(call))).collect();
        }
        let today = time::date(SystemTime::now());
        let mut rows: Vec<_> = calls.iter().map(|call| row(call, &today)).collect();
        if self.columns.is_none() {
            rows.insert(0, HEAD.map(str::to_owned));
        }
        let columns = self.columns.get_or_insert_default();
        for row in &rows {
            for (width, cell) in columns.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let taken: usize = columns.iter().map(|width| width + 2).sum();
        let room = self.width.map(|width| width.saturating_sub(taken).max(LEAST_ROOM));
        let mut out = String::new();
        for row in rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(*columns) {
                let _ = write!(line, "{cell:width$}  ");
            }
            line.push_str(&room.map_or_else(|| row[6].clone(), |room| shortened(&row[6], room)));
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

fn row(call: &Call, today: &str) -> [String; 7] {
    let error = call.error.as_deref().filter(|_| call.status == CallStatus::Error);
    [
        time::short(call.at, today),
        call.session_name.as_deref().map_or_else(|| "-".to_owned(), one_line),
        one_line(&call.tool),
        status_word(call.status).to_owned(),
        call.took.map_or_else(|| "-".to_owned(), time::span),
        call.ref_id.to_string(),
        one_line(error.or(call.url.as_deref()).unwrap_or_default()),
    ]
}

fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn what_does_not_fit_is_cut_and_says_so() {
        assert_eq!(shortened("http://a/b", 10), "http://a/b");
        assert_eq!(shortened("http://a/bc", 10), "http://a/…");
        assert_eq!(shortened("éèêë", 3), "éè…");
    }
}
