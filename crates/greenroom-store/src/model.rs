//! What is written down and what is read back.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
pub(crate) use greenroom_core::console::{ConsoleEntry, Level, Location};
use greenroom_core::ids::{Digest, RefId};

pub struct StoreConfig {
    /// The data folder: the database and the folder of blobs lie in it.
    pub folder: PathBuf,
    /// This life of the process.
    pub run: String,
    pub durability: Durability,
    pub retention: Retention,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// No kill of a process loses anything.
    #[default]
    Process,
    /// Nor does a loss of power. Every commit waits for the disk.
    Power,
}

/// How long things stay. `None`: forever, or without bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    pub age: Option<Duration>,
    pub database_bytes: Option<u64>,
    pub blob_age: Option<Duration>,
    pub blob_bytes: Option<u64>,
}

/// One life of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSession {
    /// Ours, unique for ever.
    pub id: String,
    pub owner: String,
    /// What its owner calls it.
    pub name: String,
    pub at: SystemTime,
    /// JSON: pool, seat and whatever else is known.
    pub metadata: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    Active,
    Closed,
    Error,
}

/// A call as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCall {
    pub ref_id: RefId,
    pub owner: String,
    /// [`NewSession::id`], where the call has a session.
    pub session: Option<String>,
    /// The script that it is a step of.
    pub parent: Option<RefId>,
    pub tool: String,
    /// JSON.
    pub params: String,
    pub at: SystemTime,
}

/// What became of writing down a call that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    New,
    /// There is a call of that id already: it is not to be made again.
    Known,
}

/// A call with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    pub ref_id: RefId,
    pub status: CallStatus,
    /// The result, byte for byte.
    pub result: Option<Bytes>,
    pub snapshot: Option<Arc<str>>,
    pub console: Vec<ConsoleEntry>,
    pub error: Option<String>,
    /// The kind of failure, in a word, where the tool was not the one to report it.
    pub failure: Option<String>,
    pub at: SystemTime,
    /// From arrival to answer.
    pub took: Duration,
    /// The part of it that was waiting for a browser.
    pub waited: Duration,
    pub pool: Option<String>,
    pub instance: Option<String>,
    pub url: Option<String>,
    pub title: Option<String>,
    /// What it brought along that lies in the blob store.
    pub blobs: Vec<BlobRef>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStatus {
    /// No answer yet; never written, only read.
    Pending,
    Success,
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobRef {
    pub digest: Digest,
    pub mime_type: String,
    pub size: u64,
}

/// A call as it is on record, without its large parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub ref_id: RefId,
    pub owner: String,
    /// The life of the session that it was made in.
    pub session: Option<String>,
    /// What its owner calls that session.
    pub session_name: Option<String>,
    pub parent: Option<RefId>,
    pub tool: String,
    pub params: String,
    pub at: SystemTime,
    pub status: CallStatus,
    pub answered: Option<SystemTime>,
    pub took: Option<Duration>,
    pub waited: Option<Duration>,
    pub pool: Option<String>,
    pub instance: Option<String>,
    pub url: Option<String>,
    pub title: Option<String>,
    pub error: Option<String>,
    pub failure: Option<String>,
    pub result_bytes: u64,
    /// Of the snapshot, if there is one.
    pub snapshot: Option<Digest>,
    pub snapshot_bytes: u64,
    pub console_count: u64,
    pub console_errors: u64,
    pub blobs: Vec<BlobRef>,
}

/// Which calls. Everything that is given must hold.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// `None`: anybody's.
    pub owner: Option<String>,
    /// By the name its owner gave it, or by our id of one of its lives.
    pub session: Option<String>,
    pub tool: Option<String>,
    pub status: Option<CallStatus>,
    /// Stands somewhere in the tool's name, the arguments, the page's address or title, or the error. In whatever case,
    /// as far as letters are ASCII.
    pub text: Option<String>,
    pub since: Option<SystemTime>,
    pub until: Option<SystemTime>,
    /// Only calls that come after this one on record, oldest first; without it the newest come first.
    pub after: Option<RefId>,
    /// Only calls that were on record before this one: the next page.
    pub before: Option<RefId>,
    pub limit: usize,
}

/// How far a call's content has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// In bytes.
    pub position: u64,
    /// Of the content that was read.
    pub hash: Digest,
    pub read: SystemTime,
}

/// What a ref id leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    Here(T),
    /// It was there, and retention has removed it.
    Expired,
    Unknown,
}

/// How the store is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreHealth {
    /// Calls that could not be written down since the start.
    pub lost: u64,
    /// Why the last write failed, if it did. `None` again after one that worked.
    pub failing: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub calls: u64,
    pub sessions: u64,
    pub contents: u64,
    pub content_bytes: u64,
    pub database_bytes: u64,
    pub blobs: u64,
    pub blob_bytes: u64,
    pub oldest: Option<SystemTime>,
    pub newest: Option<SystemTime>,
}

/// One life of a session, as it is on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    pub id: String,
    pub owner: String,
    pub name: String,
    /// The life of the process that it belongs to.
    pub run: String,
    pub state: SessionState,
    pub created: SystemTime,
    pub last_activity: SystemTime,
    pub metadata: String,
}

/// What was removed because it was too old or too much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    pub calls: u64,
    pub contents: u64,
    pub blobs: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the history in {} cannot be opened: {cause}", path.display())]
    Open { path: PathBuf, cause: Box<dyn std::error::Error + Send + Sync> },
    #[error("the history was written by a newer Greenroom; use that one, or another data folder")]
    Newer,
    #[error("the history cannot be written: {0}")]
    Write(String),
    #[error("the history cannot be read: {0}")]
    Read(String),
    #[error("the blob is {size} bytes, and the most is {most} (BLOB_MAX_MB)")]
    TooLarge { size: u64, most: u64 },
}
