//! Disks that are full, files that are damaged.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use greenroom_core::ids::RefId;
use greenroom_store::{
    Call, CallStatus, Filter, Found, Reader, SessionState, Store, StoreError, StoreHealth,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tempfile::tempdir;

use crate::{CHILD, answer, call, child, config, found, made, open, session};

/// In a process of its own, since its files may not grow for a while.
#[test]
fn a_full_disk_loses_records_and_nothing_else() {
    let folder = tempdir().unwrap();
    let output = child("failing::a_disk_that_fills_up", folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("the disk worked again"), "{said}");
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.check().unwrap(), Vec::<String>::new());
    assert_eq!(reader.stats().unwrap().calls, 5);
}

#[tokio::test]
async fn a_disk_that_fills_up() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let folder = Path::new(&folder);
    let store = open(folder);
    let before = made(&store, call(None), "before").await;
    let (unanswered, retried) = (call(None), call(None));
    let (unanswered_id, retried_id) = (unanswered.ref_id, retried.ref_id);
    store.begin(unanswered).await.unwrap();
    store.begin(retried).await.unwrap();

    let locks_before = locks_on_the_database(folder);

    let (soft, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, 1, hard).unwrap();
    store.session_began(session("life", "shop"));
    let lost = call(Some("life"));
    let lost_id = lost.ref_id;
    for _ in 0..3 {
        assert!(matches!(store.begin(lost.clone()).await, Err(StoreError::Write(_))));
    }
    for id in [unanswered_id, retried_id, lost_id] {
        assert!(matches!(store.finish(answer(id, "x")).await, Err(StoreError::Write(_))));
    }
    store.session_ended("life", SessionState::Closed);
    assert!(store.put_blob("blob".into(), "text/plain").await.is_err());
    let health = store.health();
    assert_eq!(health.lost, 6);
    assert!(health.failing.is_some());
    assert_eq!(found(&store, None, before).await, Found::Here(()), "reading goes on");

    setrlimit(Resource::RLIMIT_FSIZE, soft, hard).unwrap();
    store.finish(answer(retried_id, "again")).await.unwrap();
    let after = made(&store, call(None), "after").await;
    assert_eq!(store.health().failing, None);
    assert_eq!(store.health().lost, 6);
    assert!(store.finish(answer(lost_id, "x")).await.is_err(), "its beginning was lost");
    assert_eq!(found(&store, None, lost_id).await, Found::Unknown);
    for id in [before, retried_id, after] {
        assert_eq!(here(&store, id).await.status, CallStatus::Success);
    }
    // Nobody will answer it any more, so it does not wait for ever.
    let unanswered = here(&store, unanswered_id).await;
    assert_eq!(unanswered.status, CallStatus::Error);
    assert_eq!(unanswered.error.as_deref(), Some("The answer could not be written down"));
    assert!(store.finish(answer(unanswered_id, "late")).await.is_err());
    let pending = Filter { status: Some(CallStatus::Pending), limit: 10, ..Filter::default() };
    assert_eq!(store.read(move |reader| reader.calls(&pending)).await.unwrap(), []);
    // What is known of sessions is small, and comes late instead of never.
    let lives = store.read(|reader| reader.sessions(None, "shop")).await.unwrap();
    assert_eq!(lives[0].state, SessionState::Closed);
    // The file was opened anew meanwhile. That must not look to others as if it were open no more. Not every SQLite
    // has a second look before it removes the log, so the lock itself matters.
    assert_eq!(locks_on_the_database(folder), locks_before);
    let log = || fs::metadata(folder.join("greenroom.db-wal")).unwrap().ino();
    let log_before = log();
    assert_eq!(calls_seen_by_another_process(folder), 4);
    assert_eq!(log(), log_before, "the log that is written to is still the one that is read");
    made(&store, call(None), "later").await;
    assert_eq!(calls_seen_by_another_process(folder), 5);
    store.close().await;
    println!("the disk worked again");
}

#[test]
fn a_history_that_cannot_be_opened_at_first_begins_when_it_can() {
    let folder = tempdir().unwrap();
    let output = child("failing::a_disk_that_is_full_at_first", folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("both began"), "{said}");
}

#[tokio::test]
async fn a_disk_that_is_full_at_first() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let folder = Path::new(&folder);
    let (soft, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, 1, hard).unwrap();
    let store = open(folder);
    assert!(store.health().failing.unwrap().contains("greenroom.db"));
    assert!(matches!(store.begin(call(None)).await, Err(StoreError::Write(_))));
    assert!(matches!(store.read(Reader::stats).await, Err(StoreError::Read(_))));
    assert_eq!(store.health().lost, 1);
    setrlimit(Resource::RLIMIT_FSIZE, soft, hard).unwrap();
    let ref_id = made(&store, call(None), "x").await;
    assert_eq!(here(&store, ref_id).await.status, CallStatus::Success);
    assert_eq!(store.health(), StoreHealth { lost: 1, failing: None });

    // The next one finds a history that can be read, and what the first one left in it.
    let left = call(None);
    let left_id = left.ref_id;
    store.begin(left).await.unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, 1, hard).unwrap();
    let next = Store::open(config(folder, "next"), |_| false).unwrap();
    assert!(next.health().failing.is_some());
    assert_eq!(here(&next, left_id).await.status, CallStatus::Pending);
    setrlimit(Resource::RLIMIT_FSIZE, soft, hard).unwrap();
    next.settle(|_| false).await.unwrap();
    assert_eq!(here(&next, left_id).await.status, CallStatus::Error);
    assert_eq!(next.health(), StoreHealth::default());
    println!("both began");
}

async fn here(store: &Store, ref_id: RefId) -> Call {
    match store.read(move |reader| reader.call(None, ref_id)).await.unwrap() {
        Found::Here(call) => call,
        other => panic!("{other:?}"),
    }
}

/// The bytes of the file on which there are locks, as Linux tells.
fn locks_on_the_database(folder: &Path) -> Vec<String> {
    let number = fs::metadata(folder.join("greenroom.db")).unwrap().ino().to_string();
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let of_it = locks.lines().filter_map(|lock| lock.split_once(&format!(":{number} ")));
    of_it.map(|(_, bytes)| bytes.to_owned()).collect()
}

fn calls_seen_by_another_process(folder: &Path) -> i64 {
    let output = child("failing::a_process_that_comes_and_goes", folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let seen = said.split_once("calls: ").unwrap_or_else(|| panic!("{said}")).1;
    seen.split_whitespace().next().unwrap().parse().unwrap()
}

/// It may write, so it clears up when it takes itself for the last one that has the file open.
#[test]
fn a_process_that_comes_and_goes() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let people = rusqlite::Connection::open(Path::new(&folder).join("greenroom.db")).unwrap();
    let calls: i64 = people.query_row("SELECT count(*) FROM requests", [], |row| row.get(0)).unwrap();
    people.close().unwrap();
    println!("calls: {calls} ");
}

#[tokio::test]
async fn a_damaged_file_is_put_aside() {
    let folder = tempdir().unwrap();
    for number in 1..=2 {
        fs::write(folder.path().join("greenroom.db"), "no database at all ".repeat(100)).unwrap();
        let store = open(folder.path());
        made(&store, call(None), "x").await;
        store.close().await;
        let aside = folder.path().join(format!("greenroom.db.damaged-{number}"));
        assert!(fs::read_to_string(aside).unwrap().starts_with("no database"));
    }
    assert_eq!(Reader::open(folder.path()).unwrap().stats().unwrap().calls, 1);
}

#[tokio::test]
async fn damage_that_shows_later_is_put_aside_when_it_shows() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    for _ in 0..100 {
        made(&store, call(None), &RefId::new_v4().to_string().repeat(50)).await;
    }
    store.close().await;
    // Only what says which tables there are is left whole.
    let people = rusqlite::Connection::open(folder.path().join("greenroom.db")).unwrap();
    let root: i64 = people
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'requests'", [], |row| row.get(0))
        .unwrap();
    drop(people);
    let mut file = OpenOptions::new().write(true).open(folder.path().join("greenroom.db")).unwrap();
    file.seek(SeekFrom::Start((root as u64 - 1) * 4096)).unwrap();
    file.write_all(&[0x5a; 4096]).unwrap();
    drop(file);

    let store = open(folder.path());
    assert!(store.begin(call(None)).await.is_err());
    assert!(store.health().failing.is_some());
    let ref_id = made(&store, call(None), "x").await;
    assert_eq!(found(&store, None, ref_id).await, Found::Here(()));
    assert_eq!(store.health().failing, None);
    assert!(folder.path().join("greenroom.db.damaged-1").exists());
}

#[tokio::test]
async fn a_history_that_somebody_else_puts_aside_goes_on_in_its_place() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    made(&store, call(None), "before").await;
    for suffix in ["-wal", "-shm", ""] {
        let path = |name: &str| folder.path().join(format!("{name}{suffix}"));
        fs::rename(path("greenroom.db"), path("greenroom.db.damaged-1")).unwrap();
    }
    let other = Store::open(config(folder.path(), "other"), |_| true).unwrap();
    let by_other = made(&other, call(None), "x").await;
    let ref_id = made(&store, call(None), "x").await;
    let reader = Reader::open(folder.path()).unwrap();
    for id in [by_other, ref_id] {
        assert!(matches!(reader.call(None, id), Ok(Found::Here(_))));
    }
    assert_eq!(store.health(), StoreHealth::default());
    drop(reader);
    store.close().await;
    other.close().await;
    assert_eq!(Reader::open(folder.path()).unwrap().stats().unwrap().calls, 2);
}

#[tokio::test]
async fn a_history_of_a_newer_greenroom_is_left_alone() {
    let folder = tempdir().unwrap();
    open(folder.path()).close().await;
    let people = rusqlite::Connection::open(folder.path().join("greenroom.db")).unwrap();
    people.pragma_update(None, "user_version", 99).unwrap();
    drop(people);
    assert!(matches!(Store::open(config(folder.path(), "run"), |_| true), Err(StoreError::Newer)));
    assert!(matches!(Reader::open(folder.path()), Err(StoreError::Newer)));
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let opened = Store::open(config(&file.join("data"), "run"), |_| true);
    assert!(matches!(opened, Err(StoreError::Open { .. })));
    fs::create_dir(folder.path().join("greenroom.db")).unwrap();
    let opened = Store::open(config(folder.path(), "run"), |_| true);
    assert!(matches!(opened, Err(StoreError::Open { .. })));
}
