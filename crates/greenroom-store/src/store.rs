//! The handle: what the engine holds.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use greenroom_core::ids::{Digest, RefId};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;

use crate::blobs::{Blobs, GRACE};
use crate::clean::{Slice, free_pages};
use crate::database::{self, Opened};
use crate::model::{
    Begun, BlobRef, Cleaned, Cursor, Durability, Finished, NewCall, NewSession, Retention, SessionState,
    Stats, StoreConfig, StoreError, StoreHealth,
};
use crate::reader::Reader;
use crate::records::{Answer, weight};
use crate::words::{duration_micros, micros, number};
use crate::writer::{Checkpointer, Command, Done, Missed, What, Writer};

/// Writes that may be queued. Who comes later waits.
const QUEUE: usize = 1024;
/// Beginnings and ends of sessions that may be queued. They cannot wait, so there is more room.
const SESSION_QUEUE: usize = 64 * 1024;
const READERS: usize = 4;
/// What is bigger is hashed where it holds up nobody.
const BIG: usize = 64 * 1024;
/// Files that one slice of cleaning looks at.
const STRAYS: usize = 100;

#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    run: String,
    durability: Durability,
    retention: Retention,
    blobs: Arc<Blobs>,
    queue: UnboundedSender<Command>,
    room: Arc<Semaphore>,
    session_room: Arc<Semaphore>,
    health: Arc<Mutex<StoreHealth>>,
    readers: Mutex<Vec<Reader>>,
    reading: Arc<Semaphore>,
}

impl Store {
    /// Opens or makes the history in a folder and ends what dead runs left in it. `is_alive` says whether the lock of
    /// another run is held.
    ///
    /// If it cannot be opened for a reason that may pass, there is a store all the same: its health says why, writing
    /// and reading fail, and with each write it is tried again. [`Store::settle`] ends then what dead runs left.
    pub fn open(config: StoreConfig, is_alive: impl Fn(&str) -> bool) -> Result<Self, StoreError> {
        let StoreConfig { folder, run, durability, retention } = config;
        let failed = |cause: Box<dyn std::error::Error + Send + Sync>| StoreError::Open {
            path: database::path_in(&folder),
            cause,
        };
        let now = micros(SystemTime::now());
        let settle = |database: &mut Opened| {
            database::settle_dead_runs(&mut database.connection, &run, now, &is_alive)
        };
        let (mut database, mut failing) =
            at_least_later(database::open_for_writing(&folder, durability, false))?;
        let mut settled = database.as_mut().map_or(Ok(()), settle);
        if settled.as_ref().is_err_and(database::is_damage) {
            drop(database);
            (database, failing) = at_least_later(database::open_for_writing(&folder, durability, true))?;
            settled = database.as_mut().map_or(Ok(()), settle);
        }
        if let Err(error) = settled {
            failing = at_least_later(Err::<(), _>(failed(error.into())))?.1;
        }
        let blobs = Arc::new(Blobs::in_folder(&folder));
        // Each blob makes the folder that it needs, so later is early enough.
        at_least_later(blobs.make().map_err(|error| failed(error.into())))?;

        let is_in_doubt = failing.is_some();
        let health = Arc::new(Mutex::new(StoreHealth { lost: 0, failing }));
        let (queue, commands) = mpsc::unbounded_channel();
        let writer = Writer {
            folder: folder.clone(),
            run: run.clone(),
            durability,
            blobs: Arc::clone(&blobs),
            database,
            is_in_doubt,
            is_suspect: false,
            health: Arc::clone(&health),
            since_checkpoint: 0,
            checkpointer: Checkpointer::start(folder.clone()).map_err(|error| failed(error.into()))?,
            missed: Missed::default(),
        };
        thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || writer.run(commands))
            .map_err(|error| failed(error.into()))?;
        Ok(Self(Arc::new(Inner {
            folder,
            run,
            durability,
            retention,
            blobs,
            queue,
            room: Arc::new(Semaphore::new(QUEUE)),
            session_room: Arc::new(Semaphore::new(SESSION_QUEUE)),
            health,
            readers: Mutex::new(Vec::new()),
            reading: Arc::new(Semaphore::new(READERS)),
        })))
    }

    /// Ends what runs left that have died since, or whose death was not certain yet.
    pub async fn settle(&self, is_alive: impl Fn(&str) -> bool) -> Result<(), StoreError> {
        let own = self.0.run.clone();
        let runs = self.read(|reader| Ok(database::runs_at_work(reader.connection())?)).await?;
        for run in runs.into_iter().filter(|run| *run != own && !is_alive(run)) {
            self.write(What::Settle(run, micros(SystemTime::now()))).await?;
        }
        Ok(())
    }

    /// A session began. Queued: whatever is written later comes after it.
    pub fn session_began(&self, session: NewSession) {
        self.queue_for_session(What::SessionBegan(session));
    }

    /// A session ended. Queued, like its beginning.
    pub fn session_ended(&self, id: &str, state: SessionState) {
        self.queue_for_session(What::SessionEnded(id.to_owned(), state));
    }

    fn queue_for_session(&self, what: What) {
        match Arc::clone(&self.0.session_room).try_acquire_owned() {
            // Nobody listens after the end.
            Ok(room) => drop(self.0.queue.send(Command { what, done: None, _room: Some(room) })),
            Err(_) => tracing::debug!("too much is queued to note the beginning or end of a session"),
        }
    }

    /// Writes down a call that arrived. It is committed when this returns.
    pub async fn begin(&self, call: NewCall) -> Result<Begun, StoreError> {
        match self.write(What::Begin(call)).await? {
            Done::Begun(begun) => Ok(begun),
            _ => Err(unexpected()),
        }
    }

    /// Writes down an answer. It is committed when this returns.
    pub async fn finish(&self, call: Finished) -> Result<(), StoreError> {
        let ref_id = call.ref_id;
        let answer = if weight(&call) > BIG {
            spawn_blocking(move || Answer::new(call)).await.map_err(|error| write_error(&error))?
        } else {
            Answer::new(call)
        };
        match self.write(What::Finish(Box::new(answer))).await? {
            Done::NotWaiting => {
                Err(StoreError::Write(format!("the call {ref_id} is not on record, or was answered before")))
            }
            _ => Ok(()),
        }
    }

    /// Notes how far a call's content has been read.
    pub async fn set_cursor(&self, ref_id: RefId, cursor: Cursor) -> Result<(), StoreError> {
        self.write(What::SetCursor(ref_id, cursor)).await.map(drop)
    }

    /// Keeps a blob. The same content is kept once.
    pub async fn put_blob(&self, bytes: Bytes, mime_type: &str) -> Result<BlobRef, StoreError> {
        let size = bytes.len() as u64;
        if let Some(most) = self.0.retention.blob_bytes.filter(|most| size > *most) {
            return Err(StoreError::TooLarge { size, most });
        }
        let digest = {
            let bytes = bytes.clone();
            spawn_blocking(move || Digest::of(&bytes)).await.map_err(|error| write_error(&error))?
        };
        let blob = BlobRef { digest, mime_type: mime_type.to_owned(), size };
        // On record first: from here on cleaning leaves it alone, so a file that is there stays.
        self.write(What::PutBlob(blob.clone(), micros(SystemTime::now()))).await?;
        let (blobs, durability) = (Arc::clone(&self.0.blobs), self.0.durability);
        spawn_blocking(move || match blobs.has(&digest, size) {
            true => Ok(()),
            false => blobs.write(&digest, &bytes, durability),
        })
        .await
        .map_err(|error| write_error(&error))?
        .map_err(|error| write_error(&error))?;
        Ok(blob)
    }

    /// Reads, beside the writer, on a thread that may wait for the disk.
    pub async fn read<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let read_error = |error: &dyn std::error::Error| StoreError::Read(error.to_string());
        let reading = Arc::clone(&self.0.reading);
        let turn = reading.acquire_owned().await.map_err(|error| read_error(&error))?;
        let inner = Arc::clone(&self.0);
        spawn_blocking(move || {
            // It ends with the reading, also if nobody waits for that any more.
            let _turn = turn;
            let idle = inner.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let reader = match idle {
                Some(reader) if reader.is_current() => reader,
                _ => Reader::open(&inner.folder).map_err(|error| match error {
                    StoreError::Open { .. } => StoreError::Read(error.to_string()),
                    other => other,
                })?,
            };
            let read = f(&reader);
            if read.is_ok() {
                inner.readers.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
            }
            read
        })
        .await
        .map_err(|error| read_error(&error))?
    }

    /// Whether writing works, and what was lost.
    pub fn health(&self) -> StoreHealth {
        self.0.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Removes what is too old or too much. Calls that are made meanwhile wait for one small slice at most.
    pub async fn clean(&self, now: SystemTime) -> Result<Cleaned, StoreError> {
        let now_micros = micros(now);
        let ago = |age: Duration| now_micros.saturating_sub(duration_micros(age));
        let Retention { age, database_bytes, blob_age, blob_bytes } = self.0.retention;

        let mut work = Vec::new();
        if let Some(age) = age {
            work.push(Slice::OldCalls { before: ago(age), after: 0 });
        }
        if let Some(most) = database_bytes {
            let goal = number(most / 10 * 9);
            work.push(Slice::SurplusCalls { above: number(most), goal, after: 0 });
        }
        if age.is_some() || database_bytes.is_some() {
            work.push(Slice::EmptySessions { before: age.map_or(i64::MIN, ago), after: 0 });
        }
        work.push(Slice::Forget);
        if let Some(age) = blob_age {
            work.push(Slice::OldBlobs { before: ago(age) });
        }
        if let Some(most) = blob_bytes {
            work.push(Slice::SurplusBlobs { most: number(most) });
        }
        work.push(Slice::UnusedBlobs { before: ago(GRACE), after: (i64::MIN, String::new()) });
        let blobs = Arc::clone(&self.0.blobs);
        let strays = self
            .read(move |reader| Ok(blobs.strays(now, |digest| reader.knows_blob(digest).unwrap_or(true))))
            .await?;
        work.extend(strays.chunks(STRAYS).map(|strays| Slice::StrayBlobs(strays.to_vec())));
        work.push(Slice::FreePages);

        let mut cleaned = Cleaned::default();
        for slice in work {
            let mut next = Some(slice);
            while let Some(slice) = next {
                let Done::Cleaned(done) = self.write(What::Clean(slice)).await? else {
                    return Err(unexpected());
                };
                cleaned.calls += done.cleaned.calls;
                cleaned.contents += done.cleaned.contents;
                cleaned.blobs += done.cleaned.blobs;
                next = done.next;
            }
        }
        Ok(cleaned)
    }

    /// Ends the writer after what is queued. Nothing is written any more.
    pub async fn close(&self) {
        // An error means that it has ended already.
        let _ = self.send(What::Close, None).await;
    }

    async fn write(&self, what: What) -> Result<Done, StoreError> {
        let room = Arc::clone(&self.0.room).acquire_owned().await.map_err(|error| write_error(&error))?;
        self.send(what, Some(room)).await
    }

    async fn send(&self, what: What, room: Option<OwnedSemaphorePermit>) -> Result<Done, StoreError> {
        let ended = || StoreError::Write("the history is closed".to_owned());
        let (done, outcome) = oneshot::channel();
        self.0.queue.send(Command { what, done: Some(done), _room: room }).map_err(|_| ended())?;
        outcome.await.map_err(|_| ended())?
    }
}

/// What could be opened, or why it could not be yet.
fn at_least_later<T>(opened: Result<T, StoreError>) -> Result<(Option<T>, Option<String>), StoreError> {
    match opened {
        Ok(opened) => Ok((Some(opened), None)),
        Err(error) if database::may_pass(&error) => {
            tracing::error!("calls are not written down for now: {error}");
            Ok((None, Some(error.to_string())))
        }
        Err(error) => Err(error),
    }
}

fn write_error(error: &dyn std::error::Error) -> StoreError {
    StoreError::Write(error.to_string())
}

fn unexpected() -> StoreError {
    StoreError::Write("the writer answered something else".to_owned())
}

/// Gives the room in the database that nothing uses back to the disk. In slices, and a running Greenroom writes in
/// between: its calls wait for one slice at most.
pub fn vacuum(folder: &Path) -> Result<Stats, StoreError> {
    // So that a folder without a history is an error, and not one afterwards.
    Reader::open(folder)?;
    let database = database::open_for_writing(folder, Durability::Process, false)?.connection;
    let failed = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
            StoreError::Write("a running Greenroom is using it just now; try again, or stop it first".into())
        }
        _ => write_error(&error),
    };
    loop {
        let began = Instant::now();
        if free_pages(&database).map_err(failed)?.next.is_none() {
            break;
        }
        // Who waits for the lock only looks now and then whether it is free, so it has to be free for a while.
        thread::sleep(began.elapsed().max(Duration::from_millis(1)));
    }
    // Only now does the file become smaller; beside a running server perhaps a little later. The first does most of it
    // and keeps nobody from writing; the second does, and must not wait long for somebody who reads.
    for (mode, patience) in [("PASSIVE", 0), ("TRUNCATE", 200)] {
        database.busy_timeout(Duration::from_millis(patience)).map_err(failed)?;
        match database.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(())) {
            Err(error) if error.sqlite_error_code() != Some(rusqlite::ErrorCode::DatabaseBusy) => {
                return Err(failed(error));
            }
            _ => {}
        }
    }
    drop(database);
    Reader::open(folder)?.stats()
}
