//! What a result says: what its driver reads in it, and the files that it only mentions.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use greenroom_core::console::ConsoleEntry;

use super::Page;

/// What a driver reads in the text of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub page: Option<Page>,
    /// What went wrong, where the tool says that something did.
    pub error: Option<String>,
    pub snapshot: Option<SnapshotAt>,
    pub console: Option<ConsoleAt>,
    /// Every other file that is mentioned.
    pub files: Vec<Mention>,
    /// The rest in short: what somebody who gets page, snapshot and console otherwise still has to know.
    pub gist: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotAt {
    Inline(String),
    File {
        file: Mention,
        /// The server wrote it for this answer alone, so that it can go when it has been read.
        is_ours: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsoleAt {
    Inline(Vec<ConsoleEntry>),
    /// Lines of a log that the server keeps.
    Log {
        file: Mention,
        /// From 1, both included.
        lines: (usize, usize),
    },
}

/// A file, and the words that speak of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    pub words: String,
    pub path: PathBuf,
}

/// A result with what it mentioned.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    pub reading: Reading,
    pub snapshot: Option<Arc<str>>,
    pub console: Vec<ConsoleEntry>,
    /// A file that was written for this answer alone, and is not needed once the answer is on record.
    pub leftover: Option<PathBuf>,
}

/// Reads lines of a server's log as console entries.
pub type ReadLog = fn(log: &str, file: &Path) -> Vec<ConsoleEntry>;

/// Snapshots and logs beyond this are not read.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

impl Reading {
    /// Fetches what is only mentioned, and leaves it where it is. Nothing outside `folder` is touched, whatever the result says: pages have a
    /// hand in what it says. Waits for the disk.
    pub fn fetch(self, folder: &Path, read_log: ReadLog) -> Capture {
        let mut leftover = None;
        let snapshot = match &self.snapshot {
            Some(SnapshotAt::Inline(text)) => Some(Arc::from(text.as_str())),
            Some(SnapshotAt::File { file, is_ours }) => {
                let text = read_within(folder, &file.path);
                leftover = (*is_ours && text.is_ok()).then(|| file.path.clone());
                logged(text, &file.path).map(Arc::from)
            }
            None => None,
        };
        // While a dialog is open a page cannot be read, and its snapshot is empty.
        let snapshot = snapshot.filter(|text: &Arc<str>| !text.is_empty());
        let console = match &self.console {
            Some(ConsoleAt::Inline(entries)) => Some(entries.clone()),
            Some(ConsoleAt::Log { file, lines: (first, last) }) => {
                logged(read_within(folder, &file.path), &file.path).map(|log| {
                    let count = last.saturating_sub(*first).saturating_add(1);
                    let lines: Vec<_> = log.lines().skip(first.saturating_sub(1)).take(count).collect();
                    read_log(&lines.join("\n"), &file.path)
                })
            }
            None => None,
        };
        Capture { reading: self, snapshot, console: console.unwrap_or_default(), leftover }
    }
}

fn logged(text: io::Result<String>, path: &Path) -> Option<String> {
    text.inspect_err(
        |error| tracing::debug!(%error, path = %path.display(), "a file that a result mentions was not read"),
    )
    .ok()
}

/// Reads a file that lies in a folder, and not merely by its name.
fn read_within(folder: &Path, path: &Path) -> io::Result<String> {
    let refused = |why: &str| io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned());
    if !path.canonicalize()?.starts_with(folder.canonicalize()?) {
        return Err(refused("it lies elsewhere"));
    }
    let data = std::fs::symlink_metadata(path)?;
    if !data.is_file() || data.len() > MOST_BYTES {
        return Err(refused("it is no file, or too large"));
    }
    std::fs::read_to_string(path)
}

/// The file in `folder` that a result mentions, as it really is; `None` where it lies elsewhere or is gone.
pub fn mentioned_file(folder: &Path, path: &Path) -> Option<PathBuf> {
    let (folder, path) = (folder.canonicalize().ok()?, path.canonicalize().ok()?);
    (path.starts_with(&folder) && path.is_file()).then_some(path)
}
