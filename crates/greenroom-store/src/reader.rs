//! Reading back.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use greenroom_core::ids::{Digest, RefId};
use rusqlite::types::{Null, ToSql, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use crate::blobs::Blobs;
use crate::database;
use crate::model::{
    BlobRef, Call, CallStatus, ConsoleEntry, Cursor, Filter, Found, Level, SessionRow, SessionState, Stats,
    StoreError,
};
use crate::records::Spelled;
use crate::words::{count, duration, location, micros, time};

/// One connection that only reads, and the folder of blobs. It works beside a running server and when there is none.
pub struct Reader {
    database: Connection,
    path: PathBuf,
    /// Which file it is, since it may be put aside and another begun.
    file: Option<(u64, u64)>,
    blobs: Blobs,
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Read(error.to_string())
    }
}

/// A query and its values.
type Query = (String, Vec<Box<dyn ToSql>>);

/// Calls that are brought into order without much ado.
const MANY: i64 = 10_000;

/// The columns of a call, in the order of [`call_from`].
const CALL: &str =
    "SELECT q.ref_id, q.owner, q.session_id, s.name, q.parent, q.tool_name, q.params, q.timestamp,
        r.status, r.timestamp, r.took, r.waited, r.pool, r.instance, r.url, r.title, r.error_message,
        r.result_bytes, r.page_snapshot, c.hash, r.snapshot_bytes, r.console_count, r.console_errors,
        r.failure
    FROM requests AS q
    LEFT JOIN responses AS r ON r.seq = q.seq
    LEFT JOIN sessions AS s ON s.session_id = q.session_id
    LEFT JOIN contents AS c ON c.content_id = r.snapshot_content";

impl Reader {
    /// Opens the history in a folder for looking only.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let path = database::path_in(folder);
        let file = database::which_file(&path);
        let database = database::open_for_reading(folder)?;
        Ok(Self { database, path, file, blobs: Blobs::in_folder(folder) })
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.database
    }

    /// Whether what it reads is still the history of its folder.
    pub(crate) fn is_current(&self) -> bool {
        self.file == database::which_file(&self.path)
    }

    /// A call, if it is that owner's. `None`: whoever's it is.
    pub fn call(&self, owner: Option<&str>, ref_id: RefId) -> Result<Found<Call>, StoreError> {
        let id = Spelled::new(ref_id);
        let call = self
            .database
            .prepare_cached(&format!("{CALL} WHERE q.ref_id = ?1 AND (?2 IS NULL OR q.owner = ?2)"))?
            .query_row(params![id, owner], call_from)
            .optional()?;
        if let Some(call) = call {
            return Ok(Found::Here(self.with_blobs(call)?));
        }
        let expired = self
            .database
            .prepare_cached("SELECT 1 FROM expired WHERE ref_id = ?1 AND (?2 IS NULL OR owner = ?2)")?
            .exists(params![id, owner])?;
        Ok(if expired { Found::Expired } else { Found::Unknown })
    }

    /// The calls whose id begins like this, no more than so many.
    pub fn find(&self, beginning: &str, most: usize) -> Result<Vec<RefId>, StoreError> {
        // An id is made of hexadecimal digits and `-`, and `g` comes after all of them.
        let end = format!("{beginning}g");
        let mut statement = self.database.prepare_cached(
            "SELECT ref_id FROM requests WHERE ref_id >= ?1 AND ref_id < ?2 ORDER BY ref_id LIMIT ?3",
        )?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let found = statement.query_map(params![beginning, end, most], |row| parsed(row, 0))?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// The result of a call, byte for byte.
    pub fn result(&self, ref_id: RefId) -> Result<Option<Bytes>, StoreError> {
        self.content(
            "SELECT coalesce(r.result, c.data) FROM requests AS q JOIN responses AS r USING (seq)
             LEFT JOIN contents AS c ON c.content_id = r.result_content WHERE q.ref_id = ?",
            ref_id,
        )
        .map(|content| content.map(Bytes::from))
    }

    /// The snapshot that a call brought.
    pub fn snapshot(&self, ref_id: RefId) -> Result<Option<String>, StoreError> {
        let content = self.content(
            "SELECT coalesce(r.page_snapshot, c.data) FROM requests AS q JOIN responses AS r USING (seq)
             LEFT JOIN contents AS c ON c.content_id = r.snapshot_content WHERE q.ref_id = ?",
            ref_id,
        )?;
        content
            .map(|bytes| String::from_utf8(bytes).map_err(|error| StoreError::Read(error.to_string())))
            .transpose()
    }

    fn content(&self, query: &str, ref_id: RefId) -> Result<Option<Vec<u8>>, StoreError> {
        let content = self
            .database
            .prepare_cached(query)?
            .query_row([Spelled::new(ref_id)], |row| {
                Ok(match row.get_ref(0)? {
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes.to_vec()),
                    _ => None,
                })
            })
            .optional()?;
        Ok(content.flatten())
    }

    /// What the page said while the call ran, in order.
    pub fn console(&self, ref_id: RefId) -> Result<Vec<ConsoleEntry>, StoreError> {
        let mut statement = self.database.prepare_cached(
            "SELECT level, message, timestamp, location FROM console_logs
             WHERE seq = (SELECT seq FROM requests WHERE ref_id = ?) ORDER BY id",
        )?;
        let entries = statement.query_map([Spelled::new(ref_id)], |row| {
            Ok(ConsoleEntry {
                level: Level::named(row.get_ref(0)?.as_str()?).unwrap_or(Level::Info),
                message: row.get(1)?,
                at: row.get::<_, Option<i64>>(2)?.map(time),
                location: row.get::<_, Option<String>>(3)?.as_deref().and_then(location),
            })
        })?;
        Ok(entries.collect::<Result<_, _>>()?)
    }

    /// Of the newest life of a session that was answered anything: its newest call that has a snapshot, else the newest
    /// that was answered. What an earlier life saw is no page of this one.
    pub fn latest(&self, owner: Option<&str>, session: &str) -> Result<Option<Call>, StoreError> {
        for life in self.sessions(owner, session)? {
            for must_have in ["r.snapshot_bytes IS NOT NULL", "r.status IS NOT NULL"] {
                let query = format!(
                    "{CALL} WHERE q.seq = (
                        SELECT q.seq FROM requests AS q JOIN responses AS r USING (seq)
                        WHERE q.session_id = ? AND {must_have} ORDER BY q.seq DESC LIMIT 1)"
                );
                let call =
                    self.database.prepare_cached(&query)?.query_row([&life.id], call_from).optional()?;
                if let Some(call) = call {
                    return self.with_blobs(call).map(Some);
                }
            }
        }
        Ok(None)
    }

    /// The calls of which everything in the filter holds.
    pub fn calls(&self, filter: &Filter) -> Result<Vec<Call>, StoreError> {
        let Some((query, values)) = self.query(filter)? else { return Ok(Vec::new()) };
        let mut statement = self.database.prepare_cached(&query)?;
        let calls = statement
            .query_map(params_from_iter(values.iter().map(AsRef::as_ref)), call_from)?
            .collect::<Result<Vec<_>, _>>()?;
        calls.into_iter().map(|call| self.with_blobs(call)).collect()
    }

    /// How to ask for the calls of a filter. `None`: there are none.
    ///
    /// They come in the order on record, so SQLite would go through all that an owner ever did. Where few can be meant,
    /// it is told to look at those.
    fn query(&self, filter: &Filter) -> Result<Option<Query>, StoreError> {
        let mut index = "";
        let mut conditions = vec!["TRUE"];
        let mut values: Vec<Box<dyn ToSql>> = Vec::new();
        let mut must = |condition: &'static str, value: Box<dyn ToSql>| {
            conditions.push(condition);
            values.push(value);
        };
        if let Some(owner) = &filter.owner {
            must("q.owner = ?", Box::new(owner.clone()));
        }
        if let Some(session) = &filter.session {
            let lives = self.sessions(filter.owner.as_deref(), session)?;
            let lives: Vec<_> = lives.into_iter().map(|life| life.id).collect();
            let lives = serde_json::to_string(&lives).map_err(|error| StoreError::Read(error.to_string()))?;
            must("q.session_id IN (SELECT value FROM json_each(?))", Box::new(lives));
            index = "INDEXED BY requests_by_session";
        }
        if let Some(tool) = &filter.tool {
            must("q.tool_name = ?", Box::new(tool.clone()));
        }
        match filter.status {
            // Without a look at every call: few wait for their answer.
            Some(CallStatus::Pending) => {
                must("q.seq IN (SELECT seq FROM in_flight) AND r.status IS ?", Box::new(Null));
                index = "";
            }
            Some(status) => must("r.status = ?", Box::new(status.word())),
            None => {}
        }
        if let Some(text) = &filter.text {
            must(
                "EXISTS (SELECT 1 FROM (SELECT ? AS pattern) WHERE q.tool_name LIKE pattern ESCAPE '\\'
                    OR q.params LIKE pattern ESCAPE '\\' OR r.url LIKE pattern ESCAPE '\\'
                    OR r.title LIKE pattern ESCAPE '\\' OR r.error_message LIKE pattern ESCAPE '\\')",
                Box::new(containing(text)),
            );
        }
        let since = filter.since.map_or(i64::MIN, micros);
        let until = filter.until.map_or(i64::MAX, micros);
        if filter.since.is_some() || filter.until.is_some() {
            let is_short = !self.are_many_between(since, until)?;
            if is_short && index.is_empty() {
                index = "INDEXED BY requests_by_time";
            }
            // Otherwise not by that index: all of a long time would have to be brought into order.
            must(if is_short { "q.timestamp >= ?" } else { "+q.timestamp >= ?" }, Box::new(since));
            must(if is_short { "q.timestamp <= ?" } else { "+q.timestamp <= ?" }, Box::new(until));
            if !is_short && until < i64::MAX && self.are_many_between(until + 1, i64::MAX)? {
                must(
                    "q.seq <= (SELECT max(seq) FROM requests INDEXED BY requests_by_time WHERE timestamp <= ?)",
                    Box::new(until),
                );
            }
        }
        if let Some(after) = filter.after {
            match self.place(after)? {
                Place::At(seq) => must("q.seq > ?", Box::new(seq)),
                Place::BeforeAll => {}
                Place::Nowhere => return Ok(None),
            }
        }
        if let Some(before) = filter.before {
            match self.place(before)? {
                Place::At(seq) => must("q.seq < ?", Box::new(seq)),
                Place::BeforeAll | Place::Nowhere => return Ok(None),
            }
        }
        values.push(Box::new(i64::try_from(filter.limit).unwrap_or(i64::MAX)));
        let conditions = conditions.join(" AND ");
        let direction = if filter.after.is_some() { "ASC" } else { "DESC" };
        let call = CALL.replace("requests AS q", &format!("requests AS q {index}"));
        let query = format!("{call} WHERE {conditions} ORDER BY q.seq {direction} LIMIT ?");
        Ok(Some((query, values)))
    }

    /// Whether more calls came in that time than one wants to bring into order.
    fn are_many_between(&self, since: i64, until: i64) -> Result<bool, StoreError> {
        let mut statement = self.database.prepare_cached(
            "SELECT count(*) FROM (SELECT 1 FROM requests INDEXED BY requests_by_time
                WHERE timestamp BETWEEN ?1 AND ?2 LIMIT ?3 + 1)",
        )?;
        Ok(statement.query_row([since, until, MANY], |row| row.get::<_, i64>(0))? > MANY)
    }

    /// Where a call is in the order on record.
    fn place(&self, ref_id: RefId) -> Result<Place, StoreError> {
        let id = Spelled::new(ref_id);
        let seq = self
            .database
            .prepare_cached("SELECT seq FROM requests WHERE ref_id = ?")?
            .query_row([&id], |row| row.get(0))
            .optional()?;
        if let Some(seq) = seq {
            return Ok(Place::At(seq));
        }
        let expired =
            self.database.prepare_cached("SELECT 1 FROM expired WHERE ref_id = ?")?.exists([&id])?;
        Ok(if expired { Place::BeforeAll } else { Place::Nowhere })
    }

    /// How far a call's content has been read.
    pub fn cursor(&self, ref_id: RefId) -> Result<Option<Cursor>, StoreError> {
        let cursor = self
            .database
            .prepare_cached(
                "SELECT cursor_position, last_snapshot_hash, last_read FROM diff_cursors WHERE ref_id = ?",
            )?
            .query_row([Spelled::new(ref_id)], |row| {
                Ok(Cursor { position: count(row.get(0)?), hash: parsed(row, 1)?, read: time(row.get(2)?) })
            })
            .optional()?;
        Ok(cursor)
    }

    /// The lives of a session, by its name or by the id of one of them, newest first.
    pub fn sessions(&self, owner: Option<&str>, name: &str) -> Result<Vec<SessionRow>, StoreError> {
        let mut statement = self.database.prepare_cached(
            "SELECT session_id, owner, name, run, state, created_at, last_activity, metadata FROM sessions
             WHERE (name = ?1 OR session_id = ?1) AND (?2 IS NULL OR owner = ?2)
             ORDER BY created_at DESC, rowid DESC",
        )?;
        let sessions = statement.query_map(params![name, owner], |row| {
            Ok(SessionRow {
                id: row.get(0)?,
                owner: row.get(1)?,
                name: row.get(2)?,
                run: row.get(3)?,
                state: SessionState::from_word(row.get_ref(4)?.as_str()?),
                created: time(row.get(5)?),
                last_activity: time(row.get(6)?),
                metadata: row.get(7)?,
            })
        })?;
        Ok(sessions.collect::<Result<_, _>>()?)
    }

    /// A blob that a call of that owner brought along, and the file that it is in.
    pub fn blob(&self, owner: Option<&str>, digest: Digest) -> Result<Found<(BlobRef, PathBuf)>, StoreError> {
        let brought = self
            .database
            .prepare_cached(
                "SELECT b.mime_type, b.size FROM call_blobs AS b JOIN requests AS q ON q.ref_id = b.ref_id
                 WHERE b.digest = ?1 AND (?2 IS NULL OR q.owner = ?2) LIMIT 1",
            )?
            .query_row(params![digest.to_string(), owner], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((mime_type, size)) = brought else { return Ok(Found::Unknown) };
        let blob = BlobRef { digest, mime_type, size: count(size) };
        if !self.blobs.has(&digest, blob.size) {
            return Ok(Found::Expired);
        }
        let path = self.blobs.path(&digest);
        Ok(Found::Here((blob, path)))
    }

    /// Whether a blob is on record, be it that no call refers to it yet.
    pub(crate) fn knows_blob(&self, digest: &Digest) -> Result<bool, StoreError> {
        let mut statement = self.database.prepare_cached("SELECT 1 FROM blobs WHERE digest = ?")?;
        Ok(statement.exists([digest.to_string()])?)
    }

    /// How much there is.
    pub fn stats(&self) -> Result<Stats, StoreError> {
        let one = |query: &str| self.database.query_row(query, [], |row| row.get::<_, i64>(0)).map(count);
        let two = |query: &str| {
            self.database.query_row(query, [], |row| Ok((count(row.get(0)?), count(row.get(1)?))))
        };
        let end = |direction: &str| {
            let query = format!("SELECT timestamp FROM requests ORDER BY seq {direction} LIMIT 1");
            self.database.query_row(&query, [], |row| row.get::<_, i64>(0)).optional()
        };
        let (contents, content_bytes) = two("SELECT count(*), coalesce(sum(size), 0) FROM contents")?;
        let (blobs, blob_bytes) = two("SELECT count(*), coalesce(sum(size), 0) FROM blobs")?;
        Ok(Stats {
            calls: one("SELECT count(*) FROM requests")?,
            sessions: one("SELECT count(*) FROM sessions")?,
            contents,
            content_bytes,
            database_bytes: one("PRAGMA page_count")? * one("PRAGMA page_size")?,
            blobs,
            blob_bytes,
            oldest: end("ASC")?.map(time),
            newest: end("DESC")?.map(time),
        })
    }

    /// What is wrong with the database. Nothing: it is sound.
    pub fn check(&self) -> Result<Vec<String>, StoreError> {
        let mut faults = self
            .database
            .prepare("PRAGMA integrity_check")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<Vec<String>, _>>()?;
        faults.retain(|fault| fault != "ok");
        let orphans = self
            .database
            .prepare("PRAGMA foreign_key_check")?
            .query_map([], |row| {
                let (table, number): (String, Option<i64>) = (row.get(0)?, row.get(1)?);
                let parent: String = row.get(2)?;
                let number = number.map(|number| format!(" {number}")).unwrap_or_default();
                Ok(format!("row{number} of {table} refers to nothing in {parent}"))
            })?
            .collect::<Result<Vec<String>, _>>()?;
        faults.extend(orphans);
        Ok(faults)
    }

    fn with_blobs(&self, mut call: Call) -> Result<Call, StoreError> {
        call.blobs = self
            .database
            .prepare_cached(
                "SELECT digest, mime_type, size FROM call_blobs WHERE ref_id = ? ORDER BY position",
            )?
            .query_map([Spelled::new(call.ref_id)], |row| {
                Ok(BlobRef { digest: parsed(row, 0)?, mime_type: row.get(1)?, size: count(row.get(2)?) })
            })?
            .collect::<Result<_, _>>()?;
        Ok(call)
    }
}

/// Where a call is in the order on record.
enum Place {
    At(i64),
    /// Retention removed it, and what is removed is the oldest.
    BeforeAll,
    Nowhere,
}

fn call_from(row: &Row<'_>) -> Result<Call, rusqlite::Error> {
    let status = match row.get_ref(8)?.as_str_or_null()? {
        Some("success") => CallStatus::Success,
        Some(_) => CallStatus::Error,
        None => CallStatus::Pending,
    };
    // Of a short snapshot there is only the text; its digest takes no time to work out.
    let snapshot = match (row.get_ref(18)?.as_str_or_null()?, row.get::<_, Option<[u8; 32]>>(19)?) {
        (Some(text), _) => Some(Digest::of(text.as_bytes())),
        (None, hash) => hash.map(Digest::from_bytes),
    };
    let number =
        |column: usize| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map_or(0, count));
    Ok(Call {
        ref_id: parsed(row, 0)?,
        owner: row.get(1)?,
        session: row.get(2)?,
        session_name: row.get(3)?,
        parent: row.get_ref(4)?.as_str_or_null()?.map(|_| parsed(row, 4)).transpose()?,
        tool: row.get(5)?,
        params: row.get(6)?,
        at: time(row.get(7)?),
        status,
        answered: row.get::<_, Option<i64>>(9)?.map(time),
        took: row.get::<_, Option<i64>>(10)?.map(duration),
        waited: row.get::<_, Option<i64>>(11)?.map(duration),
        pool: row.get(12)?,
        instance: row.get(13)?,
        url: row.get(14)?,
        title: row.get(15)?,
        error: row.get(16)?,
        failure: row.get(23)?,
        result_bytes: number(17)?,
        snapshot,
        snapshot_bytes: number(20)?,
        console_count: number(21)?,
        console_errors: number(22)?,
        blobs: Vec::new(),
    })
}

fn parsed<T: std::str::FromStr>(row: &Row<'_>, column: usize) -> Result<T, rusqlite::Error>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    row.get_ref(column)?.as_str()?.parse().map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
    })
}

/// The pattern of whatever contains a text. Of what is special in patterns, nothing is in the text.
fn containing(text: &str) -> String {
    let mut pattern = String::from("%");
    for character in text.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::model::Durability;

    #[test]
    fn a_filter_looks_at_no_more_calls_than_it_has_to() {
        let folder = tempfile::tempdir().unwrap();
        // One call in each second, 30,000 in all.
        database::open_for_writing(folder.path(), Durability::Process, false)
            .unwrap()
            .connection
            .execute_batch(
                "INSERT INTO sessions VALUES ('life', 0, 0, 'active', '{}', 'ann', 'shop', 'run');
                 WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 30000)
                 INSERT INTO requests (ref_id, session_id, tool_name, params, timestamp, owner, run)
                 SELECT format('00000000-0000-4000-8000-%012d', n), 'life', 'x', '{}', n * 1000000, 'ann', 'run'
                 FROM n;
                 INSERT INTO in_flight SELECT seq, 'run' FROM requests WHERE seq = 7",
            )
            .unwrap();
        let reader = Reader::open(folder.path()).unwrap();
        let plan = |filter: Filter| {
            let filter = Filter { owner: Some("ann".into()), limit: 10, ..filter };
            let (query, values) = reader.query(&filter).unwrap().unwrap();
            let mut statement = reader.database.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
            let steps = statement
                .query_map(params_from_iter(values.iter().map(AsRef::as_ref)), |row| row.get::<_, String>(3))
                .unwrap();
            let of_calls = |step: &String| step.contains(" q ");
            let steps: Vec<_> = steps.map(Result::unwrap).filter(of_calls).collect();
            (steps.join("; "), reader.calls(&filter).unwrap().len())
        };
        let second = |second| Some(UNIX_EPOCH + Duration::from_secs(second));
        let session = Filter { session: Some("shop".into()), ..Filter::default() };
        let before = reader.find("00000000-0000-4000-8000-000000000020", 1).unwrap().pop();
        for filter in [
            session.clone(),
            Filter { before, ..session.clone() },
            Filter { after: before, ..session.clone() },
            Filter { since: second(100), until: second(200), ..session.clone() },
            Filter { since: second(100), tool: Some("x".into()), ..session.clone() },
        ] {
            let (plan, found) = plan(filter.clone());
            assert!(plan.contains("requests_by_session") && found == 10, "{filter:?}: {plan}");
        }
        for filter in [
            Filter { since: second(29_000), ..Filter::default() },
            Filter { until: second(1_000), ..Filter::default() },
            Filter { since: second(1_000), until: second(1_009), ..Filter::default() },
        ] {
            let (plan, found) = plan(filter.clone());
            assert!(plan.contains("requests_by_time") && found == 10, "{filter:?}: {plan}");
        }
        // The newest of a long time are not found by bringing all of it into order.
        for filter in [
            Filter { since: second(5), ..Filter::default() },
            Filter { until: second(15_000), ..Filter::default() },
            Filter { until: second(29_000), ..Filter::default() },
        ] {
            let (plan, found) = plan(filter.clone());
            assert!(!plan.contains("requests_by_time") && found == 10, "{filter:?}: {plan}");
        }
        let pending = Filter { status: Some(CallStatus::Pending), ..session };
        let (plan, found) = plan(pending);
        assert!(plan.contains("rowid=?") && found == 1, "{plan}");
    }
}
