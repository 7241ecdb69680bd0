//! The one thread that writes.
//!
//! It takes everything that is queued, up to a bound, writes it in one transaction, and wakes all who wait: the more
//! there is to do, the less each pays for the commit. What is queued is bounded by permits that come with the
//! commands.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use greenroom_core::ids::RefId;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::blobs::Blobs;
use crate::clean::{self, Slice, SliceDone};
use crate::database::{self, Opened};
use crate::model::{
    Begun, BlobRef, Cursor, Durability, NewCall, NewSession, SessionState, StoreError, StoreHealth,
};
use crate::records::{self, Activity, Answer, LostAnswer};

/// How many commands share a commit.
const GROUP: usize = 256;
/// After how many commands the log is worked off.
const CHECKPOINT: usize = 2_000;
/// How many beginnings and ends of sessions are kept for later while nothing can be written, and how many calls whose
/// answers are lost.
const MISSED: usize = 10_000;

/// Something to write down, and whom to tell.
pub(crate) struct Command {
    pub(crate) what: What,
    /// Who waits for it. Nobody does for sessions.
    pub(crate) done: Option<oneshot::Sender<Result<Done, StoreError>>>,
    /// Its place in the queue.
    pub(crate) _room: Option<OwnedSemaphorePermit>,
}

pub(crate) enum What {
    SessionBegan(NewSession),
    SessionEnded(String, SessionState),
    Begin(NewCall),
    Finish(Box<Answer>),
    /// The answer of this call is lost.
    LoseAnswer(LostAnswer),
    SetCursor(RefId, Cursor),
    PutBlob(BlobRef, i64),
    Clean(Slice),
    /// This run is no more; at this time.
    Settle(String, i64),
    /// Nothing more is taken after it.
    Close,
}

/// What came of it.
pub(crate) enum Done {
    Written,
    Begun(Begun),
    /// The call that was to be answered is not waiting for an answer.
    NotWaiting,
    Cleaned(SliceDone),
}

impl What {
    /// It is one of the two writes that make up a call.
    fn is_of_a_call(&self) -> bool {
        matches!(self, Self::Begin(_) | Self::Finish(_))
    }

    fn is_of_a_session(&self) -> bool {
        matches!(self, Self::SessionBegan(_) | Self::SessionEnded(..))
    }
}

pub(crate) struct Writer {
    pub(crate) folder: PathBuf,
    pub(crate) run: String,
    pub(crate) durability: Durability,
    pub(crate) blobs: Arc<Blobs>,
    /// `None` while there is none to be had.
    pub(crate) database: Option<Opened>,
    /// The last failure may have been the connection's own.
    pub(crate) is_in_doubt: bool,
    /// SQLite called the file damaged.
    pub(crate) is_suspect: bool,
    pub(crate) health: Arc<Mutex<StoreHealth>>,
    /// Commands since the log was last worked off.
    pub(crate) since_checkpoint: usize,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) missed: Missed,
}

/// What could not be written and is small enough to be kept, to be written before anything else.
#[derive(Default)]
pub(crate) struct Missed {
    /// Beginnings and ends of sessions.
    sessions: Vec<What>,
    /// Calls that would wait for their answers for ever.
    answers: VecDeque<What>,
    /// Answers that there was no room for.
    forgotten: u64,
}

impl Missed {
    fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.answers.is_empty()
    }

    fn add_session(&mut self, what: What) {
        if self.sessions.len() < MISSED {
            self.sessions.push(what);
        }
    }

    fn add_answer(&mut self, answer: LostAnswer) {
        if self.answers.len() == MISSED {
            self.answers.pop_front();
            self.forgotten += 1;
        }
        self.answers.push_back(What::LoseAnswer(answer));
    }

    /// Who tries again to write down an answer has not lost it.
    fn leave_out_those_in(&mut self, group: &[Command]) {
        if self.answers.is_empty() {
            return;
        }
        let again: HashSet<_> = group
            .iter()
            .filter_map(|command| match &command.what {
                What::Finish(answer) => Some(answer.ref_id()),
                _ => None,
            })
            .collect();
        self.answers.retain(|what| !matches!(what, What::LoseAnswer(lost) if again.contains(&lost.ref_id)));
    }

    /// Writes all of it. What cannot be written now is kept, what cannot be written at all is not.
    fn write(&mut self, database: &mut Connection, place: Place<'_>) -> Result<(), Failure> {
        if self.is_empty() {
            return Ok(());
        }
        let things: Vec<&What> = self.sessions.iter().chain(&self.answers).collect();
        let written = write_together(database, place, &things).map_err(Failure::from);
        if let Err(failure) = &written {
            if failure.is_of_the_disk {
                return Err(failure.clone());
            }
            let mut is_for_later = |what: &What| {
                let written = write_together(database, place, &[what]).map_err(Failure::from);
                written.is_err_and(|failure| failure.is_of_the_disk)
            };
            self.sessions.retain(&mut is_for_later);
            self.answers.retain(&mut is_for_later);
        } else {
            self.sessions.clear();
            self.answers.clear();
        }
        if self.forgotten > 0 {
            let calls = self.forgotten;
            tracing::warn!(
                calls,
                "so many calls seem to wait for answers that are lost, until the next start"
            );
            self.forgotten = 0;
        }
        Ok(())
    }
}

impl Writer {
    pub(crate) fn run(mut self, mut queue: UnboundedReceiver<Command>) {
        let mut closing = Vec::new();
        while let Some(first) = queue.blocking_recv() {
            let mut group = Vec::with_capacity(GROUP);
            let mut next = Some(first);
            while let Some(command) = next {
                if matches!(command.what, What::Close) {
                    queue.close();
                    closing.push(command);
                } else {
                    group.push(command);
                }
                next = if group.len() < GROUP { queue.try_recv().ok() } else { None };
            }
            if !group.is_empty() {
                self.write(group);
            }
        }
        if !self.missed.is_empty() {
            self.write(Vec::new());
        }
        self.checkpointer.end();
        if let Some(Opened { connection: database, .. }) = self.database.take() {
            if let Err(error) = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())) {
                tracing::debug!(%error, "the last checkpoint of the history is left to the next start");
            }
            drop(database);
        }
        for command in closing {
            tell(command, Ok(Done::Written));
        }
    }

    /// Writes a group and tells everybody in it.
    fn write(&mut self, group: Vec<Command>) {
        self.missed.leave_out_those_in(&group);
        let connected = self.connected();
        let things: Vec<&What> = group.iter().map(|command| &command.what).collect();
        let all_fail = |failure: &Failure| things.iter().map(|_| Err(failure.clone())).collect();
        let written: Written = match (&mut self.database, connected) {
            (Some(Opened { connection: database, .. }), Ok(())) => {
                let place = Place { run: &self.run, blobs: &self.blobs };
                match self.missed.write(database, place) {
                    Err(failure) if failure.is_hopeless => all_fail(&failure),
                    _ => write_together_or_singly(database, place, &things),
                }
            }
            (_, connected) => {
                let cause = connected.err().map_or_else(String::new, |error| error.to_string());
                all_fail(&Failure::of_opening(cause))
            }
        };
        let written_count = written.len();

        let mut cause = None;
        let mut lost = 0;
        let mut worked = false;
        let mut told = Vec::with_capacity(group.len());
        for (command, result) in group.into_iter().zip(written) {
            match result {
                Ok(done) => {
                    worked = true;
                    told.push((command, Ok(done)));
                }
                Err(failure) => {
                    lost += u64::from(command.what.is_of_a_call());
                    if failure.is_of_the_connection {
                        self.is_in_doubt = true;
                        self.is_suspect |= failure.is_damage;
                    }
                    if failure.is_of_the_disk {
                        cause = Some(failure.message.clone());
                    }
                    if let What::Finish(answer) = &command.what {
                        self.missed.add_answer(answer.lost());
                    }
                    if command.what.is_of_a_session() {
                        if failure.is_of_the_disk {
                            self.missed.add_session(command.what);
                        }
                    } else {
                        told.push((command, Err(StoreError::Write(failure.message))));
                    }
                }
            }
        }
        self.since_checkpoint += written_count;
        if self.since_checkpoint >= CHECKPOINT {
            self.since_checkpoint = 0;
            // Full: it is at it.
            let _ = self.checkpointer.asking.try_send(());
        }
        // Who is told may ask at once how the store is.
        self.note(lost, cause, worked);
        for (command, result) in told {
            tell(command, result);
        }
    }

    /// Sees to it that there is a connection, and a new one if the old one is in doubt. The old one goes only then: on
    /// a full disk there would be no other, and nothing could even be read.
    fn connected(&mut self) -> Result<(), StoreError> {
        if self.is_suspect {
            // Before the file is put aside, since the last to leave a file removes its log by its name.
            self.database = None;
        }
        if self.database.as_ref().is_some_and(|database| !database.is_current()) {
            // By another Greenroom that found it damaged, perhaps. What is written to it now nobody would find.
            tracing::warn!(
                "the history was put aside or removed: it goes on in the file that is in its place"
            );
            self.is_in_doubt = true;
        }
        if self.database.is_none() || self.is_in_doubt {
            let new = database::open_for_writing(&self.folder, self.durability, self.is_suspect)?;
            self.database = Some(new);
            self.is_in_doubt = false;
            self.is_suspect = false;
        }
        Ok(())
    }

    /// Says once that writing began to fail, and once that it works again.
    fn note(&self, lost: u64, cause: Option<String>, worked: bool) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.lost += lost;
        if let Some(cause) = cause {
            if health.failing.is_none() {
                tracing::warn!(%cause, "history cannot be written: calls go on without it");
            }
            health.failing = Some(cause);
        } else if worked && health.failing.take().is_some() {
            tracing::warn!(lost = health.lost, "history is written again");
        }
    }
}

/// Works off the log whenever it is asked to, beside the writer: that waits for the disk, and no call should. Only if
/// it falls far behind does SQLite make the writer do it.
pub(crate) struct Checkpointer {
    asking: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    pub(crate) fn start(folder: PathBuf) -> std::io::Result<Self> {
        let (asking, asked) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("history-log".to_owned()).spawn(move || {
            while asked.recv().is_ok() {
                if let Err(error) = database::work_off_log(&folder) {
                    tracing::debug!(%error, "the log of the history could not be worked off");
                }
            }
        })?;
        Ok(Self { asking, thread })
    }

    /// Lets go of the file.
    fn end(self) {
        drop(self.asking);
        if self.thread.join().is_err() {
            tracing::warn!("working off the log of the history had failed");
        }
    }
}

fn tell(command: Command, result: Result<Done, StoreError>) {
    if let Some(done) = command.done {
        // Who asked may have gone; it is written all the same.
        let _ = done.send(result);
    }
}

/// Why something could not be written.
#[derive(Clone)]
struct Failure {
    message: String,
    /// The next try is to be made with a new connection.
    is_of_the_connection: bool,
    is_damage: bool,
    /// Everything else would have failed too, as opposed to a thing that cannot be written at all.
    is_of_the_disk: bool,
    /// Trying singly would only make everybody wait.
    is_hopeless: bool,
}

impl Failure {
    fn of_opening(message: String) -> Self {
        Self {
            message,
            is_of_the_connection: true,
            is_damage: false,
            is_of_the_disk: true,
            is_hopeless: true,
        }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        let code = error.sqlite_error_code();
        let is_busy = matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked));
        let is_full = matches!(code, Some(ErrorCode::DiskFull | ErrorCode::OutOfMemory));
        let is_damage = database::is_damage(&error);
        let is_of_the_connection = is_damage
            || matches!(
                code,
                Some(
                    ErrorCode::SystemIoFailure
                        | ErrorCode::ReadOnly
                        | ErrorCode::CannotOpen
                        | ErrorCode::PermissionDenied
                        | ErrorCode::FileLockingProtocolFailed
                )
            );
        Self {
            message: error.to_string(),
            is_of_the_connection,
            is_damage,
            is_of_the_disk: is_of_the_connection || is_busy || is_full,
            is_hopeless: is_busy || (is_of_the_connection && code != Some(ErrorCode::SystemIoFailure)),
        }
    }
}

/// Whose things are written, and where.
#[derive(Clone, Copy)]
struct Place<'a> {
    run: &'a str,
    blobs: &'a Blobs,
}

type Written = Vec<Result<Done, Failure>>;

/// All in one transaction. If one of them fails, each in its own, so that only that one does.
fn write_together_or_singly(database: &mut Connection, place: Place<'_>, things: &[&What]) -> Written {
    let failure = match write_together(database, place, things) {
        Ok(done) => return done.into_iter().map(Ok).collect(),
        Err(error) => Failure::from(error),
    };
    if failure.is_hopeless || things.len() <= 1 {
        return things.iter().map(|_| Err(failure.clone())).collect();
    }
    things
        .iter()
        .map(|what| {
            let mut done = write_together(database, place, &[what])?;
            Ok(done.pop().expect("one thing was written"))
        })
        .collect()
}

fn write_together(
    database: &mut Connection,
    place: Place<'_>,
    things: &[&What],
) -> Result<Vec<Done>, rusqlite::Error> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut activity = Activity::new();
    let done = things
        .iter()
        .map(|what| write_one(&transaction, place, what, &mut activity))
        .collect::<Result<Vec<_>, _>>()?;
    records::move_activity(&transaction, &activity)?;
    transaction.commit()?;
    Ok(done)
}

fn write_one(
    database: &Connection,
    Place { run, blobs }: Place<'_>,
    what: &What,
    activity: &mut Activity,
) -> Result<Done, rusqlite::Error> {
    match what {
        What::SessionBegan(session) => records::session_began(database, run, session)?,
        What::SessionEnded(id, state) => records::session_ended(database, id, *state)?,
        What::Begin(call) => return records::begin(database, run, call).map(Done::Begun),
        What::Finish(answer) => {
            if !records::finish(database, answer, activity)? {
                return Ok(Done::NotWaiting);
            }
        }
        What::LoseAnswer(lost) => records::lose_answer(database, lost)?,
        What::SetCursor(ref_id, cursor) => records::set_cursor(database, *ref_id, cursor)?,
        What::PutBlob(blob, at) => records::put_blob(database, blob, *at)?,
        What::Clean(slice) => return clean::clean(database, blobs, slice).map(Done::Cleaned),
        What::Settle(run, now) => database::settle(database, run, *now)?,
        What::Close => {}
    }
    Ok(Done::Written)
}
