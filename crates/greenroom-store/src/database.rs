//! The file: opening it, bringing it up to date, and putting it aside when it is damaged.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use rusqlite_migration::{M, Migrations, SchemaVersion};

use crate::model::{Durability, StoreError};

static MIGRATIONS: LazyLock<Migrations<'static>> =
    LazyLock::new(|| Migrations::new(vec![M::up(include_str!("schema/001.sql"))]));

/// How long it may take until another Greenroom that writes to the same file lets go of it. It writes little at a time,
/// so longer than this only if it hangs, and calls wait here.
const PATIENCE: Duration = Duration::from_secs(2);
/// Nobody's call waits for one who reads.
const PATIENCE_OF_READERS: Duration = Duration::from_secs(5);

pub(crate) fn path_in(folder: &Path) -> PathBuf {
    folder.join("greenroom.db")
}

/// Makes a folder that is nobody else's to look into.
pub(crate) fn make_private_folder(folder: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A connection that writes, and which file it is of, since that may be put aside and another begun.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    path: PathBuf,
    file: Option<(u64, u64)>,
}

impl Opened {
    /// Whether what it writes to is the history of its folder. If that cannot be told, it is.
    pub(crate) fn is_current(&self) -> bool {
        match fs::metadata(&self.path) {
            Ok(file) => self.file == Some((file.dev(), file.ino())),
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
    }
}

/// Which file is at a path. Nothing is opened for it.
pub(crate) fn which_file(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Opens the database for writing, made or brought up to date where needed. A damaged one is put aside first. A
/// suspect one is looked at in full, which takes time.
pub(crate) fn open_for_writing(
    folder: &Path,
    durability: Durability,
    is_suspect: bool,
) -> Result<Opened, StoreError> {
    let path = path_in(folder);
    let failed =
        |cause: Box<dyn std::error::Error + Send + Sync>| StoreError::Open { path: path.clone(), cause };
    make_private_folder(folder).map_err(|error| failed(error.into()))?;
    // Two Greenrooms that start at once must not both make the file, nor both put it aside.
    let turn = turn_file(folder).map_err(|error| failed(error.into()))?;
    turn.lock().map_err(|error| failed(error.into()))?;

    let opened = connect(&path, durability).and_then(|connection| match is_suspect {
        true => look_through(connection),
        false => Ok(connection),
    });
    match opened {
        Err(Trouble::Damaged(cause)) => {
            let aside = put_aside(&path).map_err(|error| failed(error.into()))?;
            tracing::error!(
                %cause,
                kept = %aside.display(),
                "the history is damaged: it was put aside and a new one begun"
            );
            connect(&path, durability)
        }
        other => other,
    }
    // Nobody puts it aside before the turn is over.
    .map(|connection| Opened { connection, file: which_file(&path), path: path.clone() })
    .map_err(|trouble| match trouble {
        Trouble::Newer => StoreError::Newer,
        Trouble::Damaged(cause) => failed(cause.into()),
        Trouble::Other(cause) => failed(cause),
    })
}

enum Trouble {
    Damaged(String),
    Newer,
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        if is_damage(&error) { Self::Damaged(error.to_string()) } else { Self::Other(error.into()) }
    }
}

impl From<rusqlite_migration::Error> for Trouble {
    fn from(error: rusqlite_migration::Error) -> Self {
        use rusqlite_migration::{Error, MigrationDefinitionError::DatabaseTooFarAhead};
        match error {
            Error::MigrationDefinition(DatabaseTooFarAhead) => Self::Newer,
            Error::RusqliteError { err, .. } => err.into(),
            other => Self::Other(other.into()),
        }
    }
}

fn connect(path: &Path, durability: Durability) -> Result<Connection, Trouble> {
    make_private_file(path).map_err(|error| Trouble::Other(error.into()))?;
    let mut connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Before anything else is written, or it has no effect.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let synchronous = match durability {
        Durability::Process => "NORMAL",
        Durability::Power => "FULL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "cache_size", -32 * 1024)?;
    // The log is worked off beside the writer. If that falls behind, at 64 MB the writer has to.
    connection.pragma_update(None, "wal_autocheckpoint", 16_000)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    MIGRATIONS.to_latest(&mut connection)?;
    Ok(connection)
}

fn look_through(connection: Connection) -> Result<Connection, Trouble> {
    let fault: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if fault == "ok" { Ok(connection) } else { Err(Trouble::Damaged(fault)) }
}

/// Writes what is in the log into the file, as far as nobody has to wait for it. With a connection of its own each time,
/// since the file may have been put aside.
pub(crate) fn work_off_log(folder: &Path) -> Result<(), rusqlite::Error> {
    let connection = Connection::open_with_flags(
        path_in(folder),
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

/// Opens the database for looking only.
pub(crate) fn open_for_reading(folder: &Path) -> Result<Connection, StoreError> {
    let path = path_in(folder);
    let failed =
        |cause: Box<dyn std::error::Error + Send + Sync>| StoreError::Open { path: path.clone(), cause };
    if !path.exists() {
        return Err(failed("there is no history yet".into()));
    }
    let connect = || -> Result<Connection, rusqlite::Error> {
        let connection = Connection::open_with_flags(
            &path,
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        connection.busy_timeout(PATIENCE_OF_READERS)?;
        connection.set_prepared_statement_cache_capacity(64);
        connection.pragma_update(None, "cache_size", -8 * 1024)?;
        Ok(connection)
    };
    let connection = connect().map_err(|error| failed(error.into()))?;
    match MIGRATIONS.current_version(&connection) {
        Ok(SchemaVersion::Inside(version)) if MIGRATIONS.pending_migrations(&connection) == Ok(0) => {
            tracing::trace!(%version, "the history is open for reading");
            Ok(connection)
        }
        Ok(SchemaVersion::Outside(_)) => Err(StoreError::Newer),
        Ok(_) => Err(failed("it was written by an older Greenroom; start this one once".into())),
        Err(error) => Err(failed(error.into())),
    }
}

/// Makes the database an empty file of ours only; SQLite gives what it makes beside it the same permissions.
///
/// One that is there is never opened here, nor are its log and the index of it: closing any descriptor of a file drops
/// every lock that this process has on it. SQLite would not know, and the next process to leave the file would take
/// itself for the last one and remove the log that is being written here. Of a file that has just been made nobody
/// can have a lock that matters: it is no database yet.
fn make_private_file(path: &Path) -> std::io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => match path.is_dir() {
            true => Err(ErrorKind::IsADirectory.into()),
            false => Ok(()),
        },
        made => made.map(drop),
    }
}

/// The file whose lock says whose turn it is to open the database.
fn turn_file(folder: &Path) -> std::io::Result<File> {
    let path = folder.join("greenroom.db.opening");
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Gives the damaged file, and the log that belongs to it, another name.
fn put_aside(path: &Path) -> std::io::Result<PathBuf> {
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let aside = (1..)
        .map(|number| format!(".damaged-{number}"))
        .find(|suffix| !beside(suffix).exists())
        .expect("there is always another number");
    // The log first: left behind alone it would be read into the new database.
    for log in ["-wal", "-shm"] {
        match fs::rename(beside(log), beside(&format!("{aside}{log}"))) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, beside(&aside))?;
    Ok(beside(&aside))
}

/// The file is no sound database, as opposed to one that cannot be reached now.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Whether what could not be opened may be opened later, with nothing changed but the disk.
pub(crate) fn may_pass(error: &StoreError) -> bool {
    let StoreError::Open { cause, .. } = error else { return false };
    if let Some(error) = cause.downcast_ref::<std::io::Error>() {
        // What is excluded says that the path is a wrong one.
        return !matches!(
            error.kind(),
            ErrorKind::NotADirectory
                | ErrorKind::IsADirectory
                | ErrorKind::AlreadyExists
                | ErrorKind::InvalidInput
                | ErrorKind::InvalidFilename
        );
    }
    let code = cause.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
    matches!(
        code,
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::OutOfMemory
                | ErrorCode::SystemIoFailure
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::FileLockingProtocolFailed
        )
    )
}

/// Ends what runs that are no more have left: their sessions are closed, their calls answered with an error.
pub(crate) fn settle_dead_runs(
    connection: &mut Connection,
    own_run: &str,
    now: i64,
    is_alive: impl Fn(&str) -> bool,
) -> Result<(), rusqlite::Error> {
    for run in runs_at_work(connection)?.iter().filter(|run| *run != own_run && !is_alive(run)) {
        let transaction = connection.transaction()?;
        settle(&transaction, run, now)?;
        transaction.commit()?;
    }
    Ok(())
}

/// Runs that have sessions or calls which nobody has ended.
pub(crate) fn runs_at_work(connection: &Connection) -> Result<Vec<String>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT run FROM sessions WHERE state = 'active' UNION SELECT run FROM in_flight")?
        .query_map([], |row| row.get::<_, String>(0))?
        .collect()
}

/// Ends what one run has left. Within a transaction.
pub(crate) fn settle(connection: &Connection, run: &str, now: i64) -> Result<(), rusqlite::Error> {
    connection.execute("UPDATE sessions SET state = 'closed' WHERE run = ? AND state = 'active'", [run])?;
    connection.execute(
        "INSERT INTO responses (seq, ref_id, status, error_message, timestamp, result_bytes, console_count,
                console_errors, took, waited)
             SELECT seq, q.ref_id, 'error', 'Greenroom ended before the call was answered', ?2, 0, 0, 0, 0, 0
             FROM in_flight AS f JOIN requests AS q USING (seq) WHERE f.run = ?1",
        params![run, now],
    )?;
    let calls = connection.execute("DELETE FROM in_flight WHERE run = ?", [run])?;
    tracing::info!(run, calls, "a Greenroom that is no more left sessions or calls: they are ended now");
    Ok(())
}
