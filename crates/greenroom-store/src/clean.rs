//! Removing what is too old or too much, in slices that are small enough for calls to wait for.

use greenroom_core::ids::Digest;
use rusqlite::{Connection, OptionalExtension, params};

use crate::blobs::Blobs;
use crate::model::Cleaned;

/// Calls, blobs or sessions that one slice looks at.
const SLICE: i64 = 100;
/// Calls after which one looks whether enough are gone.
const FEW: usize = 10;
/// Pages that one slice gives back to the disk.
const PAGES: i64 = 200;
/// Ids of removed calls that are remembered.
const REMEMBERED: i64 = 1_000_000;

/// The next piece of work.
pub(crate) enum Slice {
    /// Calls that came before that time, from that one on record on.
    OldCalls {
        before: i64,
        after: i64,
    },
    /// The oldest calls, if the database is bigger than that, until it is as small as the goal.
    SurplusCalls {
        above: i64,
        goal: i64,
        after: i64,
    },
    /// The oldest of the remembered ids.
    Forget,
    /// Sessions that have ended and have no call any more.
    EmptySessions {
        before: i64,
        after: i64,
    },
    OldBlobs {
        before: i64,
    },
    /// The oldest blobs, as long as they take more room than that.
    SurplusBlobs {
        most: i64,
    },
    /// Blobs that no call brought and none will, from that one on.
    UnusedBlobs {
        before: i64,
        after: (i64, String),
    },
    /// Files that nothing on record knows.
    StrayBlobs(Vec<Digest>),
    /// Room in the file that nothing uses.
    FreePages,
}

/// What a slice did, and where to go on.
#[derive(Default)]
pub(crate) struct SliceDone {
    pub(crate) cleaned: Cleaned,
    pub(crate) next: Option<Slice>,
}

pub(crate) fn clean(
    database: &Connection,
    blobs: &Blobs,
    slice: &Slice,
) -> Result<SliceDone, rusqlite::Error> {
    match slice {
        Slice::OldCalls { before, after } => old_calls(database, *before, *after),
        Slice::SurplusCalls { above, goal, after } => surplus_calls(database, *above, *goal, *after),
        Slice::Forget => forget(database),
        Slice::EmptySessions { before, after } => empty_sessions(database, *before, *after),
        Slice::OldBlobs { before } => old_blobs(database, blobs, *before),
        Slice::SurplusBlobs { most } => surplus_blobs(database, blobs, *most),
        Slice::UnusedBlobs { before, after } => unused_blobs(database, blobs, *before, after),
        Slice::StrayBlobs(digests) => stray_blobs(database, blobs, digests),
        Slice::FreePages => free_pages(database),
    }
}

struct OldCall {
    seq: i64,
    ref_id: String,
    owner: String,
    timestamp: i64,
}

/// The oldest calls on record after one, without those that wait for their answer.
fn oldest(database: &Connection, after: i64) -> Result<Vec<OldCall>, rusqlite::Error> {
    database
        .prepare_cached(
            "SELECT seq, ref_id, owner, timestamp FROM requests AS q
             WHERE seq > ?1 AND NOT EXISTS (SELECT 1 FROM in_flight AS f WHERE f.seq = q.seq)
             ORDER BY seq LIMIT ?2",
        )?
        .query_map([after, SLICE], |row| {
            Ok(OldCall { seq: row.get(0)?, ref_id: row.get(1)?, owner: row.get(2)?, timestamp: row.get(3)? })
        })?
        .collect()
}

/// Calls lie in the order of their arrival, so a slice in which none is old is followed by none that is. Looking at
/// whole slices forgives a clock that was set.
fn old_calls(database: &Connection, before: i64, after: i64) -> Result<SliceDone, rusqlite::Error> {
    let slice = oldest(database, after)?;
    let last = slice.last().map(|call| call.seq);
    let old: Vec<_> = slice.into_iter().filter(|call| call.timestamp < before).collect();
    let cleaned = remove_calls(database, &old)?;
    let next = last.filter(|_| !old.is_empty()).map(|after| Slice::OldCalls { before, after });
    Ok(SliceDone { cleaned, next })
}

fn surplus_calls(
    database: &Connection,
    above: i64,
    goal: i64,
    after: i64,
) -> Result<SliceDone, rusqlite::Error> {
    if used_bytes(database)? <= above {
        return Ok(SliceDone::default());
    }
    let slice = oldest(database, after)?;
    let mut cleaned = Cleaned::default();
    // A few at a time, since a few may be enough.
    for few in slice.chunks(FEW) {
        if used_bytes(database)? <= goal {
            return Ok(SliceDone { cleaned, next: None });
        }
        let removed = remove_calls(database, few)?;
        cleaned.calls += removed.calls;
        cleaned.contents += removed.contents;
    }
    let next = slice.last().map(|call| Slice::SurplusCalls { above: goal, goal, after: call.seq });
    Ok(SliceDone { cleaned, next })
}

/// What the database takes, without the room in it that is free.
fn used_bytes(database: &Connection) -> Result<i64, rusqlite::Error> {
    let pragma = |name| database.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    Ok((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?)
}

fn remove_calls(database: &Connection, calls: &[OldCall]) -> Result<Cleaned, rusqlite::Error> {
    let mut contents = Vec::new();
    for call in calls {
        let of_call: Option<(Option<i64>, Option<i64>)> = database
            .prepare_cached("SELECT result_content, snapshot_content FROM responses WHERE seq = ?")?
            .query_row([call.seq], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        contents.extend(of_call.into_iter().flat_map(|(result, snapshot)| [result, snapshot]).flatten());
        // Everything that belongs to it goes with it.
        database.prepare_cached("DELETE FROM requests WHERE seq = ?")?.execute([call.seq])?;
        database
            .prepare_cached("INSERT OR IGNORE INTO expired (ref_id, owner) VALUES (?, ?)")?
            .execute([&call.ref_id, &call.owner])?;
    }
    contents.sort_unstable();
    contents.dedup();
    let mut removed = 0;
    for content in contents {
        removed += database
            .prepare_cached(
                "DELETE FROM contents WHERE content_id = ?1
                 AND NOT EXISTS (SELECT 1 FROM responses WHERE result_content = ?1)
                 AND NOT EXISTS (SELECT 1 FROM responses WHERE snapshot_content = ?1)",
            )?
            .execute([content])?;
    }
    Ok(Cleaned { calls: calls.len() as u64, contents: removed as u64, blobs: 0 })
}

fn forget(database: &Connection) -> Result<SliceDone, rusqlite::Error> {
    let removed = database
        .prepare_cached(
            "DELETE FROM expired WHERE id IN (
                SELECT id FROM expired WHERE id <= (SELECT max(id) FROM expired) - ?1 ORDER BY id LIMIT ?2)",
        )?
        .execute([REMEMBERED, SLICE])?;
    Ok(SliceDone { next: (removed > 0).then_some(Slice::Forget), ..SliceDone::default() })
}

fn empty_sessions(database: &Connection, before: i64, after: i64) -> Result<SliceDone, rusqlite::Error> {
    // Sessions that lasted longer than any call that is left have none.
    let oldest: Option<i64> = database
        .prepare_cached("SELECT timestamp FROM requests ORDER BY seq LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let before = before.max(oldest.unwrap_or(before));
    let slice = database
        .prepare_cached("SELECT rowid FROM sessions WHERE rowid > ?1 ORDER BY rowid LIMIT ?2")?
        .query_map([after, SLICE], |row| row.get(0))?
        .collect::<Result<Vec<i64>, _>>()?;
    let Some(last) = slice.last() else { return Ok(SliceDone::default()) };
    database
        .prepare_cached(
            "DELETE FROM sessions WHERE rowid > ?1 AND rowid <= ?2 AND state <> 'active' AND last_activity < ?3
             AND NOT EXISTS (SELECT 1 FROM requests WHERE requests.session_id = sessions.session_id)",
        )?
        .execute([after, *last, before])?;
    let next = Some(Slice::EmptySessions { before, after: *last });
    Ok(SliceDone { next, ..SliceDone::default() })
}

fn old_blobs(database: &Connection, blobs: &Blobs, before: i64) -> Result<SliceDone, rusqlite::Error> {
    let old = database
        .prepare_cached("SELECT digest FROM blobs WHERE put_at < ?1 ORDER BY put_at LIMIT ?2")?
        .query_map([before, SLICE], |row| row.get(0))?
        .collect::<Result<Vec<String>, _>>()?;
    let next = (!old.is_empty()).then_some(Slice::OldBlobs { before });
    Ok(SliceDone { cleaned: remove_blobs(database, blobs, &old)?, next })
}

fn surplus_blobs(database: &Connection, blobs: &Blobs, most: i64) -> Result<SliceDone, rusqlite::Error> {
    let all: i64 = database
        .prepare_cached("SELECT coalesce(sum(size), 0) FROM blobs")?
        .query_row([], |row| row.get(0))?;
    let mut surplus = all - most;
    let oldest = database
        .prepare_cached("SELECT digest, size FROM blobs ORDER BY put_at LIMIT ?")?
        .query_map([SLICE], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<Vec<(String, i64)>, _>>()?;
    let mut too_much = Vec::new();
    for (digest, size) in oldest {
        if surplus <= 0 {
            break;
        }
        surplus -= size;
        too_much.push(digest);
    }
    let next = (surplus > 0 && !too_much.is_empty()).then_some(Slice::SurplusBlobs { most });
    Ok(SliceDone { cleaned: remove_blobs(database, blobs, &too_much)?, next })
}

fn unused_blobs(
    database: &Connection,
    blobs: &Blobs,
    before: i64,
    after: &(i64, String),
) -> Result<SliceDone, rusqlite::Error> {
    let slice = database
        .prepare_cached(
            "SELECT digest, put_at, EXISTS (SELECT 1 FROM call_blobs WHERE call_blobs.digest = blobs.digest)
             FROM blobs WHERE (put_at, digest) > (?1, ?2) AND put_at < ?3 ORDER BY put_at, digest LIMIT ?4",
        )?
        .query_map(params![after.0, after.1, before, SLICE], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?
        .collect::<Result<Vec<(String, i64, bool)>, _>>()?;
    let next = slice
        .last()
        .map(|(digest, put_at, _)| Slice::UnusedBlobs { before, after: (*put_at, digest.clone()) });
    let unused: Vec<_> =
        slice.into_iter().filter(|(_, _, is_used)| !is_used).map(|(digest, ..)| digest).collect();
    Ok(SliceDone { cleaned: remove_blobs(database, blobs, &unused)?, next })
}

/// The files go before the commit: who brings the same blob again waits for this transaction, and then sees that the
/// file is not there.
fn remove_blobs(
    database: &Connection,
    blobs: &Blobs,
    digests: &[String],
) -> Result<Cleaned, rusqlite::Error> {
    for digest in digests {
        database.prepare_cached("DELETE FROM blobs WHERE digest = ?")?.execute([digest])?;
        blobs.remove(digest);
    }
    Ok(Cleaned { blobs: digests.len() as u64, ..Cleaned::default() })
}

fn stray_blobs(
    database: &Connection,
    blobs: &Blobs,
    digests: &[Digest],
) -> Result<SliceDone, rusqlite::Error> {
    let mut cleaned = Cleaned::default();
    for digest in digests {
        let digest = digest.to_string();
        if !database.prepare_cached("SELECT 1 FROM blobs WHERE digest = ?")?.exists([&digest])? {
            blobs.remove(&digest);
            cleaned.blobs += 1;
        }
    }
    Ok(SliceDone { cleaned, next: None })
}

pub(crate) fn free_pages(database: &Connection) -> Result<SliceDone, rusqlite::Error> {
    let free = || database.pragma_query_value(None, "freelist_count", |row| row.get::<_, i64>(0));
    let before = free()?;
    if before == 0 {
        return Ok(SliceDone::default());
    }
    // Each row that it answers is a page: who does not ask for them all gives back one.
    let mut statement = database.prepare_cached(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    let mut given_back = statement.query([])?;
    while given_back.next()?.is_some() {}
    let left = free()?;
    Ok(SliceDone { next: (0 < left && left < before).then_some(Slice::FreePages), ..SliceDone::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{open_for_writing, path_in};
    use crate::model::Durability;

    #[test]
    fn a_slice_gives_back_its_pages_and_lets_go_of_the_database() {
        let folder = tempfile::tempdir().unwrap();
        let database = open_for_writing(folder.path(), Durability::Process, false).unwrap().connection;
        database
            .execute_batch(
                "CREATE TABLE much (data); INSERT INTO much VALUES (zeroblob(4000000)); DROP TABLE much",
            )
            .unwrap();
        let free = || -> i64 { database.query_row("PRAGMA freelist_count", [], |row| row.get(0)).unwrap() };
        let before = free();
        assert!(before > 2 * PAGES);
        assert!(free_pages(&database).unwrap().next.is_some());
        assert_eq!(free(), before - PAGES);
        let other = Connection::open(path_in(folder.path())).unwrap();
        other.busy_timeout(std::time::Duration::ZERO).unwrap();
        other.execute_batch("BEGIN IMMEDIATE; COMMIT").unwrap();
    }
}
