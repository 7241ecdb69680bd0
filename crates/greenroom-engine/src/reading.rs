//! Reading what is on record, in small pieces. Takes no lease and touches no browser.

mod asked;
mod pieces;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use greenroom_core::console::Level;
use greenroom_core::ids::{Digest, RefId};
use greenroom_core::snapshot::{Queryable, Snapshot};
use greenroom_core::text;
use greenroom_store::{Call, CallStatus, Filter, Found, Reader, Store, StoreError};
use moka::sync::Cache;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::call::CallFailure;
use crate::history::{History, RESULT_FILE};
use crate::reply::without_end;
use crate::sessions::Caller;
use crate::status::timestamp;
pub(crate) use asked::BlobArguments;
pub use asked::{ConsoleArguments, ContentArguments, Format, ListArguments, Part};
use asked::{How, Wanted, moment, number};

/// How long the parsed form of a page is kept after it was last read, and how much of that in all.
const KEPT_FOR: Duration = Duration::from_secs(300);
const KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// How many read at once.
const AT_ONCE: usize = 2;

/// How much of a call's parameters a list shows, in bytes.
const LISTED_PARAMS: usize = 1024;

/// How many calls are listed where nobody says.
const LISTED: usize = 50;
const MOST_LISTED: usize = 1000;

/// Larger blobs do not go into a message.
const LARGEST_IN_MESSAGE: u64 = 16 * 1024 * 1024;

/// Why something cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadFailure {
    #[error("Calls are not written down here (HISTORY), so there is nothing to read.")]
    Off,
    #[error("The history cannot be opened, so there is nothing to read now: {0}")]
    Broken(String),
    #[error("The call `{0}` was not answered in time.")]
    Unanswered(RefId),
    #[error(
        "`{0}` is no ref id. A ref id looks like 123e4567-e89b-42d3-a456-426614174000; `list_calls` names yours."
    )]
    NoRefId(String),
    #[error("There is no call `{0}`. `list_calls` names those on record.")]
    Unknown(RefId),
    #[error(
        "The call `{0}` has expired: history is kept for a limited time (RETENTION_DAYS, MAX_DATABASE_MB)."
    )]
    Expired(RefId),
    #[error("There is no answered call of session `{0}` on record.")]
    NoSuchSession(String),
    #[error("The call `{0}` has no answer yet.")]
    Pending(RefId),
    #[error("The call `{0}` has no page snapshot. Read what it answered with part=\"result\".")]
    NoSnapshot(RefId),
    #[error(
        "The snapshot of this call cannot be read as a tree ({0}), so it can neither be queried nor written as JSON. Read it as text."
    )]
    NoTree(String),
    #[error("{0}")]
    Wrong(String),
    #[error(transparent)]
    PastTheEnd(#[from] text::PastTheEnd),
    #[error("The query is not right: {0}")]
    Query(String),
    #[error("There is no such blob, or it has expired (BLOB_TTL_HOURS, BLOB_MAX_MB).")]
    NoBlob,
    #[error(
        "The blob has {size} bytes, and at most {LARGEST_IN_MESSAGE} go into a message. Fetch it over HTTP: /api/blobs/{digest}."
    )]
    BlobTooLarge { size: u64, digest: Digest },
    #[error("The history cannot be read now: {0}")]
    Store(String),
}

impl From<StoreError> for ReadFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error.to_string())
    }
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub ref_id: RefId,
    pub text: String,
    /// Lines, or items of a query's list, in all.
    pub total: usize,
    /// Where the next page begins, if there is one.
    pub next_offset: Option<usize>,
}

/// A blob that was asked for.
#[derive(Clone, Debug)]
pub struct Blob {
    pub digest: Digest,
    pub mime_type: String,
    pub size: u64,
    pub path: std::path::PathBuf,
}

/// Pages that were read a moment ago, in the form that reading needs.
pub(crate) struct Shelf {
    volumes: Cache<Digest, Arc<Volume>>,
    /// Reading a large page keeps a processor busy; there are others to serve.
    readers: Arc<Semaphore>,
}

struct Volume {
    text: Arc<str>,
    tree: OnceLock<Result<(Snapshot, Queryable), String>>,
}

impl Volume {
    fn new(text: Arc<str>) -> Self {
        Self { text, tree: OnceLock::new() }
    }

    fn tree(&self) -> Result<&(Snapshot, Queryable), ReadFailure> {
        let tree = self.tree.get_or_init(|| {
            let snapshot = Snapshot::parse(&self.text).map_err(|error| error.to_string())?;
            let queryable = Queryable::new(&snapshot);
            Ok((snapshot, queryable))
        });
        tree.as_ref().map_err(|error| ReadFailure::NoTree(error.clone()))
    }
}

impl Shelf {
    pub(crate) fn new() -> Self {
        let weight =
            |_: &Digest, volume: &Arc<Volume>| u32::try_from(volume.text.len() * 4).unwrap_or(u32::MAX);
        let volumes =
            Cache::builder().max_capacity(KEPT_BYTES).weigher(weight).time_to_idle(KEPT_FOR).build();
        Self { volumes, readers: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Does what may take a while, where nobody waits for the processor.
    async fn at_work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ReadFailure> + Send + 'static,
    ) -> Result<T, ReadFailure> {
        let turn = Arc::clone(&self.readers).acquire_owned().await.expect("the semaphore is never closed");
        let worked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        worked.await.unwrap_or_else(|error| Err(ReadFailure::Store(error.to_string())))
    }
}

/// Whoever reads, and where.
pub struct Desk {
    pub(crate) history: Arc<History>,
    pub(crate) shelf: Arc<Shelf>,
    /// `None`: everything may be read.
    pub(crate) owner: Option<String>,
    /// Bytes of text at once; 0 for any number.
    pub(crate) budget: usize,
}

pub(crate) fn owner(caller: &Caller) -> String {
    caller.to_string()
}

impl Desk {
    fn store(&self) -> Result<&Store, ReadFailure> {
        self.history.store().ok_or_else(|| match self.history.missing() {
            Some(why) => ReadFailure::Broken(why.to_owned()),
            None => ReadFailure::Off,
        })
    }

    async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ReadFailure> {
        Ok(self.store()?.read(look).await?)
    }

    pub async fn call(&self, ref_id: RefId) -> Result<Call, ReadFailure> {
        let owner = self.owner.clone();
        match self.read(move |reader| reader.call(owner.as_deref(), ref_id)).await? {
            Found::Here(call) => Ok(call),
            Found::Expired => Err(ReadFailure::Expired(ref_id)),
            Found::Unknown => Err(ReadFailure::Unknown(ref_id)),
        }
    }

    /// The call that the arguments name.
    async fn named(&self, ref_id: Option<&str>, session: Option<&str>) -> Result<Call, ReadFailure> {
        match (ref_id.filter(|id| !id.is_empty()), session.filter(|name| !name.is_empty())) {
            (Some(id), None) => self.call(parse_ref(id)?).await,
            (None, Some(name)) => {
                let (owner, session) = (self.owner.clone(), name.to_owned());
                let latest = self.read(move |reader| reader.latest(owner.as_deref(), &session)).await?;
                latest.ok_or_else(|| ReadFailure::NoSuchSession(name.to_owned()))
            }
            (Some(_), Some(_)) => {
                Err(ReadFailure::Wrong("Give either `ref_id` or `sessionId`, not both.".to_owned()))
            }
            (None, None) => Err(ReadFailure::Wrong(
                "Give `ref_id`, or `sessionId` for what that session has shown last.".to_owned(),
            )),
        }
    }

    /// The exact bytes of a result, wherever they are.
    pub async fn result(&self, call: &Call) -> Result<Option<Bytes>, ReadFailure> {
        let ref_id = call.ref_id;
        if let Some(bytes) = self.read(move |reader| reader.result(ref_id)).await? {
            return Ok(Some(bytes));
        }
        let Some(file) = call.blobs.iter().find(|blob| blob.mime_type == RESULT_FILE) else {
            return Ok(None);
        };
        let (owner, digest) = (Some(call.owner.clone()), file.digest);
        match self.read(move |reader| reader.blob(owner.as_deref(), digest)).await? {
            Found::Here((_, path)) => match tokio::fs::read(path).await {
                Ok(bytes) => Ok(Some(bytes.into())),
                Err(_) => Err(ReadFailure::NoBlob),
            },
            Found::Expired | Found::Unknown => Err(ReadFailure::NoBlob),
        }
    }

    /// The text that is read: the page's snapshot, or what the call answered.
    async fn volume(&self, call: &Call, part: Option<Part>) -> Result<Arc<Volume>, ReadFailure> {
        let ref_id = call.ref_id;
        if call.status == CallStatus::Pending {
            return Err(ReadFailure::Pending(ref_id));
        }
        match (part, call.snapshot) {
            (Some(Part::Snapshot) | None, Some(digest)) => {
                if let Some(volume) = self.shelf.volumes.get(&digest) {
                    return Ok(volume);
                }
                let text = self.read(move |reader| reader.snapshot(ref_id)).await?;
                let text = text.ok_or(ReadFailure::NoSnapshot(ref_id))?;
                let volume = Arc::new(Volume::new(text.into()));
                self.shelf.volumes.insert(digest, Arc::clone(&volume));
                Ok(volume)
            }
            (Some(Part::Snapshot), None) => Err(ReadFailure::NoSnapshot(ref_id)),
            (Some(Part::Result) | None, _) => {
                let result = self.result(call).await?;
                let text = match result {
                    Some(bytes) => result_text(&bytes),
                    None => call.error.clone().unwrap_or_default(),
                };
                Ok(Arc::new(Volume::new(text.into())))
            }
        }
    }

    pub async fn content(&self, arguments: ContentArguments) -> Result<Content, ReadFailure> {
        let arguments = Wanted::check(arguments)?;
        let call = self.named(arguments.ref_id.as_deref(), arguments.session.as_deref()).await?;
        let ref_id = call.ref_id;
        let volume = self.volume(&call, arguments.part).await?;
        if let How::Plain { reset } = arguments.how
            && arguments.ref_id.is_some()
            && arguments.format == Format::Yaml
        {
            return self.unread(ref_id, volume, reset).await;
        }
        let old = match arguments.how {
            How::Since(other) => {
                let other = self.call(other).await?;
                Some(self.volume(&other, arguments.part).await?)
            }
            _ => None,
        };
        let budget = self.budget;
        self.shelf.at_work(move || pieces::read(&arguments, ref_id, &volume, old.as_deref(), budget)).await
    }

    /// What has not been read of it yet. The cursor is on disk before the text is returned, if it can be.
    async fn unread(&self, ref_id: RefId, volume: Arc<Volume>, reset: bool) -> Result<Content, ReadFailure> {
        let cursor = self.read(move |reader| reader.cursor(ref_id)).await?.filter(|_| !reset);
        let budget = self.budget;
        let (content, cursor) =
            self.shelf.at_work(move || Ok(pieces::unread(ref_id, &volume.text, cursor, budget))).await?;
        if let Err(error) = self.store()?.set_cursor(ref_id, cursor).await {
            tracing::debug!(%error, "how far a call was read is not kept");
        }
        Ok(content)
    }

    pub async fn console(&self, arguments: &ConsoleArguments) -> Result<(RefId, String), ReadFailure> {
        let ref_id = parse_ref(&arguments.ref_id)?;
        let level = match arguments.level.as_deref() {
            None | Some("") => None,
            Some(name) => Some(Level::named(name).ok_or_else(|| {
                ReadFailure::Wrong(format!(
                    "`{name}` is no level. The levels are debug, info, warn and error; leave it out for all."
                ))
            })?),
        };
        self.call(ref_id).await?;
        let entries = self.read(move |reader| reader.console(ref_id)).await?;
        let wanted = entries.iter().filter(|entry| level.is_none_or(|level| entry.level == level));
        let offset = number("offset", arguments.offset, 0)?.unwrap_or(0);
        let limit = number("limit", arguments.limit, 1)?.unwrap_or(usize::MAX);
        let lines: Vec<_> = wanted.skip(offset).take(limit).map(ToString::to_string).collect();
        let whole = lines.join("\n");
        let end = text::cut(&whole, self.budget);
        if end == whole.len() {
            return Ok((ref_id, whole));
        }
        let (seen, total) = (text::line_count(&whole[..end]), text::line_count(&whole));
        let cut = format!(
            "[cut: {seen} of {total} lines. Ask for one level, or for a page of entries with offset and limit.]"
        );
        Ok((ref_id, format!("{}\n{cut}", without_end(&whole[..end]))))
    }

    pub async fn list(&self, arguments: ListArguments) -> Result<Vec<Call>, ReadFailure> {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let status = match given(arguments.status).as_deref() {
            None => None,
            Some("success") => Some(CallStatus::Success),
            Some("error") => Some(CallStatus::Error),
            Some("pending") => Some(CallStatus::Pending),
            Some(other) => {
                let message = format!("`{other}` is no status. There are success, error and pending.");
                return Err(ReadFailure::Wrong(message));
            }
        };
        let limit = number("limit", arguments.limit, 1)?.unwrap_or(LISTED).min(MOST_LISTED);
        let filter = Filter {
            owner: self.owner.clone(),
            session: given(arguments.session),
            tool: given(arguments.tool),
            status,
            text: given(arguments.text),
            since: given(arguments.since).map(|text| moment("since", &text)).transpose()?,
            until: given(arguments.until).map(|text| moment("until", &text)).transpose()?,
            before: given(arguments.before).map(|id| parse_ref(&id)).transpose()?,
            after: None,
            limit,
        };
        self.read(move |reader| reader.calls(&filter)).await
    }

    pub async fn blob(&self, uri: &str) -> Result<Blob, ReadFailure> {
        let digest =
            Digest::from_uri(uri).map_err(|error| ReadFailure::Wrong(format!("`{uri}`: {error}.")))?;
        let owner = self.owner.clone();
        match self.read(move |reader| reader.blob(owner.as_deref(), digest)).await? {
            Found::Here((blob, path)) => {
                Ok(Blob { digest, mime_type: blob.mime_type, size: blob.size, path })
            }
            Found::Expired | Found::Unknown => Err(ReadFailure::NoBlob),
        }
    }

    /// A blob with its content, where that is not too much for a message.
    pub async fn blob_content(&self, uri: &str) -> Result<(Blob, Vec<u8>), ReadFailure> {
        let blob = self.blob(uri).await?;
        if blob.size > LARGEST_IN_MESSAGE {
            return Err(ReadFailure::BlobTooLarge { size: blob.size, digest: blob.digest });
        }
        let bytes = tokio::fs::read(&blob.path).await.map_err(|_| ReadFailure::NoBlob)?;
        Ok((blob, bytes))
    }
}

pub fn parse_ref(text: &str) -> Result<RefId, ReadFailure> {
    text.trim().parse().map_err(|_| ReadFailure::NoRefId(text.to_owned()))
}

/// All texts of a result, or what it is where it has none.
pub fn result_text(result: &[u8]) -> String {
    let body = serde_json::from_slice::<Map<String, Value>>(result).unwrap_or_default();
    let blocks = body.get("content").and_then(Value::as_array).into_iter().flatten();
    let texts: Vec<_> =
        blocks.filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str()).collect();
    if texts.is_empty() { String::from_utf8_lossy(result).into_owned() } else { texts.join("\n") }
}

/// A call as lists show it.
pub fn describe(call: &Call) -> Value {
    let millis = |duration: Option<Duration>| duration.map(|duration| duration.as_secs_f64() * 1000.0);
    let params = serde_json::from_str::<Value>(&call.params).unwrap_or(Value::Null);
    let mut shown = json!({
        "ref_id": call.ref_id,
        "session_id": call.session_name,
        "tool": call.tool,
        "params": params,
        "status": status_word(call.status),
        "timestamp": timestamp(call.at),
        "duration_ms": millis(call.took).map(|ms| (ms * 10.0).round() / 10.0),
        "pool": call.pool,
        "instance": call.instance,
        "url": call.url,
        "title": call.title,
        "metadata": {
            "tool": call.tool,
            "has_snapshot": call.snapshot.is_some(),
            "has_console_logs": call.console_count > 0,
            "console_error_count": call.console_errors,
        },
    });
    if let Some(error) = &call.error {
        shown["error"] = error.as_str().into();
    }
    if let Some(parent) = call.parent {
        shown["parent"] = json!(parent);
    }
    let blobs = call.blobs.iter().filter(|blob| blob.mime_type != RESULT_FILE);
    let blobs: Vec<_> = blobs
        .map(|blob| json!({ "uri": blob.digest.uri(), "mime_type": blob.mime_type, "size": blob.size }))
        .collect();
    if !blobs.is_empty() {
        shown["blobs"] = blobs.into();
    }
    shown
}

/// A call among others: what is long is told by the call alone.
pub fn describe_briefly(call: &Call) -> Value {
    let mut shown = describe(call);
    if call.params.len() > LISTED_PARAMS {
        shown["params"] = text::beginning(call.params.clone(), LISTED_PARAMS).into();
    }
    if let Some(error) = &call.error {
        shown["error"] = text::beginning(error.clone(), LISTED_PARAMS).into();
    }
    shown
}

pub fn status_word(status: CallStatus) -> &'static str {
    match status {
        CallStatus::Pending => "pending",
        CallStatus::Success => "success",
        CallStatus::Error => "error",
    }
}

impl From<ReadFailure> for CallFailure {
    fn from(failure: ReadFailure) -> Self {
        Self::Read(failure)
    }
}
