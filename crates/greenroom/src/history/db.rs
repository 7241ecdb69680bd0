//! `greenroom db`: the database itself.

use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result};
use greenroom_core::config::Config;
use greenroom_store::Stats;
use serde_json::json;

use super::{History, database_in, print, size, time};
use crate::table::Table;

/// The bytes of the files that the database is, with their paths.
struct Files {
    database: (String, u64),
    log: (String, u64),
    blobs: String,
}

impl Files {
    fn of(history: &History) -> Self {
        let file = |suffix: &str| {
            let path = format!("{}{suffix}", database_in(&history.folder).display());
            let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
            (path, bytes)
        };
        Self {
            database: file(""),
            log: file("-wal"),
            blobs: history.folder.join("blobs").display().to_string(),
        }
    }
}

pub(crate) fn stats(config: &Config, as_json: bool) -> Result<ExitCode> {
    let history = History::open(config)?;
    let stats = history.reader.stats()?;
    let Files { database, log, blobs } = Files::of(&history);
    if as_json {
        let shown = json!({
            "calls": stats.calls,
            "sessions": stats.sessions,
            "oldest": stats.oldest.map(time::utc),
            "newest": stats.newest.map(time::utc),
            "contents": stats.contents,
            "content_bytes": stats.content_bytes,
            "database": { "path": database.0, "bytes": database.1 },
            "log": { "path": log.0, "bytes": log.1 },
            "blobs": { "path": blobs, "count": stats.blobs, "bytes": stats.blob_bytes },
        });
        return print(format!("{shown:#}\n").as_bytes());
    }
    let Stats { calls, sessions, contents, content_bytes, blobs: files, blob_bytes, oldest, newest, .. } =
        stats;
    let when = |at: Option<SystemTime>| at.map_or_else(|| "-".to_owned(), time::exactly);
    let mut table = Table::new(["WHAT", "HOW MANY", "SIZE", "WHERE"]);
    let mut row = |what: &str, count: Option<u64>, bytes: Option<u64>, place: &str| {
        let count = count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        table.row([what.to_owned(), count, bytes.map_or_else(|| "-".to_owned(), size), place.to_owned()]);
    };
    row("calls", Some(calls), None, "");
    row("sessions", Some(sessions), None, "");
    row("contents", Some(contents), Some(content_bytes), "in the database");
    row("database", None, Some(database.1), &database.0);
    row("its log", None, Some(log.1), &log.0);
    row("blobs", Some(files), Some(blob_bytes), &blobs);
    let shown =
        format!("{}\noldest call  {}\nnewest call  {}\n", table.indented(""), when(oldest), when(newest));
    print(shown.as_bytes())
}

pub(crate) fn vacuum(config: &Config) -> Result<ExitCode> {
    let history = History::open(config)?;
    // With its log: after a while beside a busy server, that is where much of it is.
    let bytes = |history: &History| {
        let files = Files::of(history);
        files.database.1 + files.log.1
    };
    let before = bytes(&history);
    let path = Files::of(&history).database.0;
    greenroom_store::vacuum(&history.folder)
        .with_context(|| format!("{path} was not made smaller; nothing is lost"))?;
    let shown = format!("{path}: {} before, {} now\n", size(before), size(bytes(&history)));
    print(shown.as_bytes())
}

pub(crate) fn check(config: &Config) -> Result<ExitCode> {
    let what_to_do = "the history is damaged. The next Greenroom that starts with this data folder and cannot use it puts it \
        aside as greenroom.db.damaged-N and begins a new one; calls go on meanwhile. `sqlite3 greenroom.db .recover` saves \
        what can be saved";
    let history = History::open(config)?;
    let faults = match history.reader.check() {
        Ok(faults) => faults,
        Err(error) => return Err(error).context(what_to_do),
    };
    let path = database_in(&history.folder);
    if faults.is_empty() {
        return print(format!("{} is sound.\n", path.display()).as_bytes());
    }
    print(faults.iter().map(|fault| format!("{fault}\n")).collect::<String>().as_bytes())?;
    anyhow::bail!("{}: {what_to_do}", path.display())
}
