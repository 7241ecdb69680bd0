//! What is too old or too much goes, and nothing else.

use std::time::Duration;

use greenroom_core::ids::{Digest, RefId};
use greenroom_store::{
    Begun, Cleaned, ConsoleEntry, Cursor, Filter, Finished, Found, Level, NewCall, Reader, Retention,
    SessionState, Store, StoreHealth, vacuum,
};
use tempfile::tempdir;

use crate::{answer, at, call, found, made, open, open_with, session};

const DAY: u64 = 24 * 60 * 60;

#[tokio::test]
async fn old_calls_go_with_all_that_belongs_to_them() {
    let folder = tempdir().unwrap();
    let store =
        open_with(folder.path(), Retention { age: Some(Duration::from_secs(DAY)), ..Retention::default() });
    for (id, name) in [("old", "old"), ("both", "both"), ("alive", "alive")] {
        store.session_began(session(id, name));
    }
    store.session_ended("old", SessionState::Closed);
    store.session_ended("both", SessionState::Closed);
    let shared = "both have this ".repeat(100);
    let only_old = "only the old one has this ".repeat(100);
    let new = call(Some("old"));
    let old = new.ref_id;
    store.begin(new).await.unwrap();
    let console = vec![ConsoleEntry { level: Level::Warn, message: "hm".into(), at: None, location: None }];
    let snapshot = Some(only_old.as_str().into());
    store.finish(Finished { console, snapshot, ..answer(old, &shared) }).await.unwrap();
    store.set_cursor(old, Cursor { position: 1, hash: Digest::of(b""), read: at(1) }).await.unwrap();
    let old_too = made(&store, call(Some("both")), &shared).await;
    let waiting = call(None);
    let in_flight = waiting.ref_id;
    store.begin(waiting).await.unwrap();
    let young = made(&store, NewCall { at: at(2 * DAY), ..call(Some("both")) }, &shared).await;

    assert_eq!(store.clean(at(10)).await.unwrap(), Cleaned::default());
    let cleaned = store.clean(at(2 * DAY)).await.unwrap();
    assert_eq!(cleaned, Cleaned { calls: 2, contents: 1, blobs: 0 });
    assert_eq!(found(&store, Some("ann"), old).await, Found::Expired);
    assert_eq!(found(&store, None, old_too).await, Found::Expired);
    assert_eq!(found(&store, Some("bob"), old).await, Found::Unknown);
    assert_eq!(found(&store, None, in_flight).await, Found::Here(()));
    assert_eq!(found(&store, None, young).await, Found::Here(()));
    assert_eq!(store.begin(NewCall { ref_id: old, ..call(None) }).await.unwrap(), Begun::Known);

    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.result(young).unwrap().unwrap(), shared);
    assert_eq!((reader.result(old).unwrap(), reader.cursor(old).unwrap()), (None, None));
    assert_eq!(reader.console(old).unwrap(), []);
    let lives = ["old", "both", "alive"].map(|name| reader.sessions(None, name).unwrap().len());
    assert_eq!(lives, [0, 1, 1]);
    let after = Filter { after: Some(old), limit: 10, ..Filter::default() };
    let left: Vec<_> = reader.calls(&after).unwrap().into_iter().map(|call| call.ref_id).collect();
    assert_eq!(left, [in_flight, young]);
    assert_eq!(reader.check().unwrap(), Vec::<String>::new());

    // What was in flight can still be answered.
    store.finish(answer(in_flight, "at last")).await.unwrap();
}

async fn fill(store: &Store, calls: usize) -> Vec<RefId> {
    let mut ids = Vec::new();
    for number in 0..calls {
        ids.push(made(store, call(None), &number.to_string().repeat(8_000)).await);
    }
    ids
}

#[tokio::test]
async fn the_oldest_calls_go_when_the_database_is_too_big_and_the_file_shrinks() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let ids = fill(&store, 400).await;
    store.close().await;
    let size = || folder.path().join("greenroom.db").metadata().unwrap().len();
    assert!(size() > 4_000_000);

    let most = 2_000_000;
    let store = open_with(folder.path(), Retention { database_bytes: Some(most), ..Retention::default() });
    let cleaned = store.clean(at(10)).await.unwrap();
    assert!(cleaned.calls > 100 && cleaned.contents == cleaned.calls, "{cleaned:?}");
    assert_eq!(found(&store, None, ids[0]).await, Found::Expired);
    assert_eq!(found(&store, None, *ids.last().unwrap()).await, Found::Here(()));
    assert_eq!(store.clean(at(10)).await.unwrap(), Cleaned::default());
    store.close().await;
    assert!(size() <= most * 9 / 10, "{}", size());
    assert!(size() > most / 2, "{}", size());
    assert_eq!(Reader::open(folder.path()).unwrap().check().unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vacuum_beside_a_running_server_costs_no_records() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    fill(&store, 5).await;
    let people = rusqlite::Connection::open(folder.path().join("greenroom.db")).unwrap();
    people
        .execute_batch(
            "CREATE TABLE much (data); INSERT INTO much VALUES (zeroblob(20000000)); DROP TABLE much",
        )
        .unwrap();
    drop(people);
    let before = store.read(Reader::stats).await.unwrap().database_bytes;
    let path = folder.path().to_owned();
    let vacuuming = tokio::task::spawn_blocking(move || vacuum(&path).unwrap());
    let mut calls = 5;
    while !vacuuming.is_finished() {
        made(&store, call(None), "x").await;
        calls += 1;
    }
    assert!(vacuuming.await.unwrap().database_bytes < before / 10);
    assert_eq!(store.read(Reader::stats).await.unwrap().calls, calls);
    assert_eq!(store.health(), StoreHealth::default());
    assert_eq!(Reader::open(folder.path()).unwrap().check().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn without_bounds_everything_stays() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    fill(&store, 5).await;
    assert_eq!(store.clean(at(1000 * DAY)).await.unwrap(), Cleaned::default());
    assert_eq!(store.read(Reader::stats).await.unwrap().calls, 5);
}
