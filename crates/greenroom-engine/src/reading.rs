//! Reading what is on record, in small pieces. Takes no lease and touches no browser.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use greenroom_core::console::Level;
use greenroom_core::ids::{Digest, RefId};
use greenroom_core::snapshot::{Queryable, Snapshot};
use greenroom_core::text;
use greenroom_store::{Call, CallStatus, Cursor, Filter, Found, Reader, Store, StoreError};
use moka::sync::Cache;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::call::CallFailure;
use crate::capture::text_of;
use crate::history::{History, RESULT_FILE};
use crate::reply::{how_to_read_on, without_end};
use crate::sessions::Caller;
use crate::status::timestamp;

/// How long the parsed form of a page is kept after it was last read, and how much of that in all.
const KEPT_FOR: Duration = Duration::from_secs(300);
const KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// How many read at once, and how long a comparison may look for the shortest way to tell the difference.
const AT_ONCE: usize = 2;
const COMPARING: Duration = Duration::from_secs(1);

/// How much of a call's parameters a list shows, in bytes.
const LISTED_PARAMS: usize = 1024;

/// How many calls are listed where nobody says.
const LISTED: usize = 50;
const MOST_LISTED: usize = 1000;

/// Larger blobs do not go into a message.
const LARGEST_IN_MESSAGE: u64 = 16 * 1024 * 1024;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentArguments {
    #[serde(default)]
    pub ref_id: Option<String>,
    #[serde(default, rename = "sessionId")]
    pub session: Option<String>,
    #[serde(default)]
    pub part: Option<Part>,
    #[serde(default)]
    pub search_for: Option<String>,
    #[serde(default)]
    pub before_lines: Option<i64>,
    #[serde(default)]
    pub after_lines: Option<i64>,
    #[serde(default)]
    pub reset_cursor: Option<bool>,
    #[serde(default)]
    pub since: Option<String>,
    #[serde(default)]
    pub offset: Option<i64>,
    #[serde(default)]
    pub limit: Option<i64>,
    #[serde(default)]
    pub query: Option<String>,
    #[serde(default)]
    pub flatten: Option<bool>,
    #[serde(default)]
    pub format: Option<Format>,
}

/// Which content of a call.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    Snapshot,
    Result,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    #[default]
    Yaml,
    Json,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsoleArguments {
    pub ref_id: String,
    #[serde(default)]
    pub level: Option<String>,
    #[serde(default)]
    pub offset: Option<i64>,
    #[serde(default)]
    pub limit: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListArguments {
    #[serde(default, rename = "sessionId")]
    pub session: Option<String>,
    #[serde(default)]
    pub tool: Option<String>,
    #[serde(default)]
    pub status: Option<String>,
    #[serde(default)]
    pub since: Option<String>,
    #[serde(default)]
    pub until: Option<String>,
    #[serde(default)]
    pub before: Option<String>,
    #[serde(default)]
    pub limit: Option<i64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlobArguments {
    pub(crate) uri: String,
}

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
                    Some(bytes) => {
                        let body = serde_json::from_slice::<Map<String, Value>>(&bytes).ok();
                        let text = body.as_ref().map(all_text).filter(|text| !text.is_empty());
                        text.unwrap_or_else(|| String::from_utf8_lossy(&bytes).into_owned())
                    }
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
        self.shelf.at_work(move || read(&arguments, ref_id, &volume, old.as_deref(), budget)).await
    }

    /// What has not been read of it yet. The cursor is on disk before the text is returned, if it can be.
    async fn unread(&self, ref_id: RefId, volume: Arc<Volume>, reset: bool) -> Result<Content, ReadFailure> {
        let cursor = self.read(move |reader| reader.cursor(ref_id)).await?.filter(|_| !reset);
        let budget = self.budget;
        let (content, cursor) =
            self.shelf.at_work(move || Ok(unread(ref_id, &volume.text, cursor, budget))).await?;
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

/// Reads as it was asked for. Takes its time for large texts.
fn read(
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
fn unread(ref_id: RefId, whole: &str, cursor: Option<Cursor>, budget: usize) -> (Content, Cursor) {
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

/// The arguments of `get_content`, looked at together.
struct Wanted {
    ref_id: Option<String>,
    session: Option<String>,
    part: Option<Part>,
    how: How,
    offset: Option<usize>,
    limit: Option<usize>,
    format: Format,
    is_format_given: bool,
}

enum How {
    Plain { reset: bool },
    Page,
    Search { needle: String, before: usize, after: usize },
    Since(RefId),
    Query { expression: String, flatten: bool },
}

impl Wanted {
    fn check(arguments: ContentArguments) -> Result<Self, ReadFailure> {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (needle, since, query) =
            (given(arguments.search_for), given(arguments.since), given(arguments.query));
        let wrong = |message: &str| Err(ReadFailure::Wrong(message.to_owned()));
        if [needle.is_some(), since.is_some(), query.is_some()].into_iter().filter(|is| *is).count() > 1 {
            return wrong("`search_for`, `since` and `query` are three ways to read: give one of them.");
        }
        let before = number("before_lines", arguments.before_lines, 0)?;
        let after = number("after_lines", arguments.after_lines, 0)?;
        if needle.is_none() && (before.is_some_and(|lines| lines > 0) || after.is_some_and(|lines| lines > 0))
        {
            return wrong("`before_lines` and `after_lines` go with `search_for`.");
        }
        if query.is_none() && arguments.flatten == Some(true) {
            return wrong("`flatten` goes with `query`.");
        }
        if (needle.is_some() || since.is_some()) && arguments.format == Some(Format::Json) {
            return wrong(
                "`format` json is for the whole tree or a `query`; searches and changes are lines of text.",
            );
        }
        let offset = number("offset", arguments.offset, 0)?;
        let limit = number("limit", arguments.limit, 1)?;
        let how = match (needle, since, query) {
            (Some(needle), ..) => {
                How::Search { needle, before: before.unwrap_or(0), after: after.unwrap_or(0) }
            }
            (_, Some(since), _) => How::Since(parse_ref(&since)?),
            (_, _, Some(expression)) => {
                How::Query { expression, flatten: arguments.flatten.unwrap_or(false) }
            }
            _ if offset.is_some() || limit.is_some() => How::Page,
            _ => How::Plain { reset: arguments.reset_cursor.unwrap_or(false) },
        };
        Ok(Self {
            ref_id: given(arguments.ref_id),
            session: given(arguments.session),
            part: arguments.part,
            how,
            offset,
            limit,
            is_format_given: arguments.format.is_some(),
            format: arguments.format.unwrap_or_default(),
        })
    }
}

fn number(name: &str, given: Option<i64>, least: i64) -> Result<Option<usize>, ReadFailure> {
    match given {
        None => Ok(None),
        Some(number) if number < least => {
            Err(ReadFailure::Wrong(format!("`{name}` has to be {least} or more, and it is {number}.")))
        }
        Some(number) => Ok(Some(usize::try_from(number).unwrap_or(usize::MAX))),
    }
}

pub fn parse_ref(text: &str) -> Result<RefId, ReadFailure> {
    text.trim().parse().map_err(|_| ReadFailure::NoRefId(text.to_owned()))
}

fn moment(name: &str, text: &str) -> Result<SystemTime, ReadFailure> {
    let parsed = text.parse::<jiff::Timestamp>().ok();
    parsed.map(SystemTime::from).ok_or_else(|| {
        ReadFailure::Wrong(format!(
            "`{name}` is a moment such as 2026-11-15T08:30:00Z, and `{text}` is none."
        ))
    })
}

/// All texts of a result.
fn all_text(body: &Map<String, Value>) -> String {
    let blocks = body.get("content").and_then(Value::as_array);
    let texts: Vec<_> = blocks
        .into_iter()
        .flatten()
        .filter(|block| block["type"] == "text")
        .filter_map(|block| block["text"].as_str())
        .collect();
    match texts.as_slice() {
        [] => text_of(body).unwrap_or_default().to_owned(),
        texts => texts.join("\n"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
