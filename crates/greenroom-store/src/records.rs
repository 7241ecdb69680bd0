//! How each thing that happens becomes rows. Everything here runs within a transaction of the writer.

use std::collections::HashMap;

use bytes::Bytes;
use greenroom_core::ids::{Digest, RefId};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, ToSql, params};

use crate::model::{
    Begun, BlobRef, ConsoleEntry, Cursor, Finished, Level, NewCall, NewSession, SessionState,
};
use crate::words::{console_json, duration_micros, location_json, micros, number, size};

/// What is longer lies in `contents`, once, however many calls brought it.
const INLINE: usize = 512;

/// What a page said during one call is kept up to so many entries. A page that never stops talking would hold up the
/// writer, and everybody with it.
const ENTRIES: usize = 10_000;

/// A call with its answer, and what costs time worked out before the writer gets it.
pub(crate) struct Answer {
    call: Finished,
    result: Option<Kept>,
    snapshot: Option<Kept>,
    console: Option<String>,
}

/// Where a content goes.
enum Kept {
    InRow,
    Once(Digest),
}

impl Kept {
    fn of(bytes: &[u8]) -> Self {
        if bytes.len() > INLINE { Self::Once(Digest::of(bytes)) } else { Self::InRow }
    }
}

impl Answer {
    pub(crate) fn new(mut call: Finished) -> Self {
        keep_the_newest(&mut call.console);
        Self {
            result: call.result.as_deref().map(Kept::of),
            snapshot: call.snapshot.as_deref().map(|text| Kept::of(text.as_bytes())),
            console: (!call.console.is_empty()).then(|| console_json(&call.console)),
            call,
        }
    }

    pub(crate) fn ref_id(&self) -> RefId {
        self.call.ref_id
    }

    /// What is left to say of the call if this cannot be written down.
    pub(crate) fn lost(&self) -> LostAnswer {
        LostAnswer {
            ref_id: self.call.ref_id,
            at: micros(self.call.at),
            took: duration_micros(self.call.took),
            waited: duration_micros(self.call.waited),
        }
    }
}

/// A call whose answer is lost.
pub(crate) struct LostAnswer {
    pub(crate) ref_id: RefId,
    at: i64,
    took: i64,
    waited: i64,
}

/// Leaves out the oldest entries if there are too many, and says so in their place.
fn keep_the_newest(console: &mut Vec<ConsoleEntry>) {
    let surplus = console.len().saturating_sub(ENTRIES);
    if surplus > 0 {
        let message = format!("{surplus} earlier entries were left out");
        let note = ConsoleEntry { level: Level::Warn, message, at: None, location: None };
        console.splice(..surplus, [note]);
    }
}

/// How much there is to be worked out.
pub(crate) fn weight(call: &Finished) -> usize {
    let console: usize = call.console.iter().map(|entry| entry.message.len() + 100).sum();
    call.result.as_ref().map_or(0, Bytes::len) + call.snapshot.as_ref().map_or(0, |text| text.len()) + console
}

/// Bytes as text where they are text, so that a person who looks in can read them.
struct Readable<'a>(&'a [u8]);

impl ToSql for Readable<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value =
            if str::from_utf8(self.0).is_ok() { ValueRef::Text(self.0) } else { ValueRef::Blob(self.0) };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

/// A ref id as it is spelled in the database.
pub(crate) struct Spelled(String);

impl Spelled {
    pub(crate) fn new(ref_id: RefId) -> Self {
        Self(ref_id.to_string())
    }
}

impl ToSql for Spelled {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

pub(crate) fn session_began(
    database: &Connection,
    run: &str,
    session: &NewSession,
) -> Result<(), rusqlite::Error> {
    database
        .prepare_cached(
            "INSERT INTO sessions (session_id, created_at, last_activity, state, metadata, owner, name, run)
             VALUES (?1, ?2, ?2, 'active', ?3, ?4, ?5, ?6)
             ON CONFLICT (session_id) DO UPDATE SET metadata = excluded.metadata, name = excluded.name",
        )?
        .execute(params![
            session.id,
            micros(session.at),
            session.metadata,
            session.owner,
            session.name,
            run
        ])?;
    Ok(())
}

pub(crate) fn session_ended(
    database: &Connection,
    id: &str,
    state: SessionState,
) -> Result<(), rusqlite::Error> {
    database
        .prepare_cached("UPDATE sessions SET state = ?2 WHERE session_id = ?1")?
        .execute(params![id, state.word()])?;
    Ok(())
}

pub(crate) fn begin(database: &Connection, run: &str, call: &NewCall) -> Result<Begun, rusqlite::Error> {
    let ref_id = Spelled::new(call.ref_id);
    let expired = database.prepare_cached("SELECT 1 FROM expired WHERE ref_id = ?")?.exists([&ref_id])?;
    if expired {
        return Ok(Begun::Known);
    }
    let parent = call.parent.map(Spelled::new);
    let mut insert = database.prepare_cached(
        "INSERT INTO requests (ref_id, session_id, tool_name, params, timestamp, owner, run, parent)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (ref_id) DO NOTHING",
    )?;
    let mut insert = || {
        insert.execute(params![
            ref_id,
            call.session,
            call.tool,
            call.params,
            micros(call.at),
            call.owner,
            run,
            parent
        ])
    };
    let inserted = match (insert(), &call.session) {
        // Its session could not be written down when it began. The call is worth more than a whole session row.
        (Err(error), Some(id)) if is_missing_parent(&error) => {
            let session = NewSession {
                id: id.clone(),
                owner: call.owner.clone(),
                name: id.clone(),
                at: call.at,
                metadata: "{}".to_owned(),
            };
            session_began(database, run, &session)?;
            insert()?
        }
        (inserted, _) => inserted?,
    };
    if inserted == 0 {
        return Ok(Begun::Known);
    }
    database
        .prepare_cached("INSERT INTO in_flight (seq, run) VALUES (?, ?)")?
        .execute(params![database.last_insert_rowid(), run])?;
    Ok(Begun::New)
}

/// A row that another refers to is not there.
pub(crate) fn is_missing_parent(error: &rusqlite::Error) -> bool {
    error
        .sqlite_error()
        .is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY)
}

/// When each session was last used, to be written once for all calls of one transaction.
pub(crate) type Activity = HashMap<String, i64>;

/// Whether the call was waiting for its answer. If not, nothing was written.
pub(crate) fn finish(
    database: &Connection,
    answer: &Answer,
    activity: &mut Activity,
) -> Result<bool, rusqlite::Error> {
    let call = &answer.call;
    let ref_id = Spelled::new(call.ref_id);
    let asked: Option<(i64, Option<String>)> = database
        .prepare_cached("SELECT seq, session_id FROM requests WHERE ref_id = ?")?
        .query_row([&ref_id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((seq, session)) = asked else { return Ok(false) };
    if database.prepare_cached("DELETE FROM in_flight WHERE seq = ?")?.execute([seq])? == 0 {
        return Ok(false);
    }
    let at = micros(call.at);
    if let Some(session) = session {
        let last = activity.entry(session).or_insert(at);
        *last = at.max(*last);
    }

    let result = call.result.as_deref().unwrap_or_default();
    let snapshot = call.snapshot.as_deref().unwrap_or_default();
    let result_content = content_number(database, result, answer.result.as_ref())?;
    let snapshot_content = content_number(database, snapshot.as_bytes(), answer.snapshot.as_ref())?;
    let errors = call.console.iter().filter(|entry| entry.level == Level::Error).count();
    database
        .prepare_cached(
            "INSERT INTO responses (seq, ref_id, status, result, page_snapshot, console_logs, error_message, failure, timestamp,
                result_content, result_bytes, snapshot_content, snapshot_bytes, console_count, console_errors,
                took, waited, pool, instance, url, title)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            seq,
            ref_id,
            call.status.word(),
            matches!(answer.result, Some(Kept::InRow)).then_some(Readable(result)),
            matches!(answer.snapshot, Some(Kept::InRow)).then_some(snapshot),
            answer.console,
            call.error,
            call.failure,
            at,
            result_content,
            size(result),
            snapshot_content,
            answer.snapshot.is_some().then(|| size(snapshot.as_bytes())),
            number(call.console.len() as u64),
            number(errors as u64),
            duration_micros(call.took),
            duration_micros(call.waited),
            call.pool,
            call.instance,
            call.url,
            call.title,
        ])?;
    for entry in &call.console {
        database
            .prepare_cached(
                "INSERT INTO console_logs (seq, ref_id, level, message, timestamp, location)
                 VALUES (?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                seq,
                ref_id,
                entry.level.name(),
                entry.message,
                entry.at.map(micros),
                entry.location.as_ref().map(|location| location_json(location).to_string()),
            ])?;
    }
    for (position, blob) in (0_i64..).zip(&call.blobs) {
        database
            .prepare_cached(
                "INSERT INTO call_blobs (ref_id, position, digest, mime_type, size) VALUES (?, ?, ?, ?, ?)",
            )?
            .execute(params![ref_id, position, blob.digest.to_string(), blob.mime_type, number(blob.size)])?;
    }
    Ok(true)
}

/// Answers a call in the place of the answer that is lost, if it is on record and waits for one.
pub(crate) fn lose_answer(database: &Connection, lost: &LostAnswer) -> Result<(), rusqlite::Error> {
    let ref_id = Spelled::new(lost.ref_id);
    database
        .prepare_cached(
            "INSERT INTO responses (seq, ref_id, status, error_message, timestamp, result_bytes, console_count,
                console_errors, took, waited)
             SELECT seq, ref_id, 'error', 'The answer could not be written down', ?2, 0, 0, 0, ?3, ?4
             FROM requests JOIN in_flight USING (seq) WHERE ref_id = ?1",
        )?
        .execute(params![ref_id, lost.at, lost.took, lost.waited])?;
    database
        .prepare_cached("DELETE FROM in_flight WHERE seq = (SELECT seq FROM requests WHERE ref_id = ?)")?
        .execute([&ref_id])?;
    Ok(())
}

/// The number of a content in `contents`, put there if it is new.
fn content_number(
    database: &Connection,
    bytes: &[u8],
    kept: Option<&Kept>,
) -> Result<Option<i64>, rusqlite::Error> {
    let Some(Kept::Once(digest)) = kept else { return Ok(None) };
    let known = database
        .prepare_cached("SELECT content_id FROM contents WHERE hash = ?")?
        .query_row([digest.as_bytes()], |row| row.get(0))
        .optional()?;
    if known.is_some() {
        return Ok(known);
    }
    database.prepare_cached("INSERT INTO contents (hash, size, data) VALUES (?, ?, ?)")?.execute(params![
        digest.as_bytes(),
        size(bytes),
        Readable(bytes)
    ])?;
    Ok(Some(database.last_insert_rowid()))
}

pub(crate) fn move_activity(database: &Connection, activity: &Activity) -> Result<(), rusqlite::Error> {
    for (session, at) in activity {
        database
            .prepare_cached(
                "UPDATE sessions SET last_activity = max(last_activity, ?2) WHERE session_id = ?1",
            )?
            .execute(params![session, at])?;
    }
    Ok(())
}

pub(crate) fn set_cursor(
    database: &Connection,
    ref_id: RefId,
    cursor: &Cursor,
) -> Result<(), rusqlite::Error> {
    database
        .prepare_cached(
            "INSERT OR REPLACE INTO diff_cursors (ref_id, cursor_position, last_snapshot_hash, last_read)
             VALUES (?, ?, ?, ?)",
        )?
        .execute(params![
            Spelled::new(ref_id),
            number(cursor.position),
            cursor.hash.to_string(),
            micros(cursor.read)
        ])?;
    Ok(())
}

pub(crate) fn put_blob(database: &Connection, blob: &BlobRef, at: i64) -> Result<(), rusqlite::Error> {
    database
        .prepare_cached(
            "INSERT INTO blobs (digest, mime_type, size, put_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (digest) DO UPDATE SET put_at = max(put_at, excluded.put_at)",
        )?
        .execute(params![blob.digest.to_string(), blob.mime_type, number(blob.size), at])?;
    Ok(())
}
