//! What is written down comes back.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use greenroom_core::ids::{Digest, RefId};
use greenroom_store::{
    Begun, BlobRef, Call, CallStatus, ConsoleEntry, Cursor, Finished, Found, Level, Location, NewCall,
    Reader, SessionState, StoreError, vacuum,
};
use tempfile::tempdir;

use crate::{answer, at, call, found, made, open, session};

#[tokio::test]
async fn every_field_of_a_call_comes_back() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    store.session_began(session("life-1", "shop"));
    let parent = RefId::new_v4();
    let new = NewCall { parent: Some(parent), ..call(Some("life-1")) };
    let blob = BlobRef { digest: Digest::of(b"png"), mime_type: "image/png".into(), size: 3 };
    let snapshot = "- button \"Buy\" [ref=e1]\n".repeat(100);
    let console = vec![
        ConsoleEntry {
            level: Level::Error,
            message: "boom \u{1F4A5}".into(),
            at: Some(at(2)),
            location: Some(Location { url: "http://a/b.js".into(), line: Some(3), column: None }),
        },
        ConsoleEntry { level: Level::Debug, message: String::new(), at: None, location: None },
    ];
    let finished = Finished {
        status: CallStatus::Error,
        result: Some(Bytes::from_static(b"{\"a\":  1}\0\xff")),
        snapshot: Some(snapshot.as_str().into()),
        console: console.clone(),
        error: Some("it broke".into()),
        failure: Some("timeout".to_owned()),
        at: at(5),
        took: Duration::from_micros(4_000_001),
        waited: Duration::from_micros(7),
        pool: Some("DEFAULT".into()),
        instance: Some("2".into()),
        url: Some("http://a/".into()),
        title: Some("A".into()),
        blobs: vec![blob.clone(), blob.clone()],
        ..answer(new.ref_id, "")
    };
    let pending = Call {
        ref_id: new.ref_id,
        owner: "ann".into(),
        session: Some("life-1".into()),
        session_name: Some("shop".into()),
        parent: Some(parent),
        tool: new.tool.clone(),
        params: new.params.clone(),
        at: new.at,
        status: CallStatus::Pending,
        answered: None,
        took: None,
        waited: None,
        pool: None,
        instance: None,
        url: None,
        title: None,
        error: None,
        failure: None,
        result_bytes: 0,
        snapshot: None,
        snapshot_bytes: 0,
        console_count: 0,
        console_errors: 0,
        blobs: Vec::new(),
    };
    let ref_id = new.ref_id;
    let read = async || store.read(move |reader| reader.call(Some("ann"), ref_id)).await.unwrap();

    assert_eq!(store.begin(new).await.unwrap(), Begun::New);
    assert_eq!(read().await, Found::Here(pending.clone()));
    store.finish(finished.clone()).await.unwrap();
    let whole = Call {
        status: CallStatus::Error,
        answered: Some(at(5)),
        took: Some(finished.took),
        waited: Some(finished.waited),
        pool: finished.pool.clone(),
        instance: finished.instance.clone(),
        url: finished.url.clone(),
        title: finished.title.clone(),
        error: finished.error.clone(),
        failure: finished.failure.clone(),
        result_bytes: 11,
        snapshot: Some(Digest::of(snapshot.as_bytes())),
        snapshot_bytes: snapshot.len() as u64,
        console_count: 2,
        console_errors: 1,
        blobs: vec![blob.clone(), blob],
        ..pending
    };
    assert_eq!(read().await, Found::Here(whole));

    store.close().await;
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.result(ref_id).unwrap(), finished.result);
    assert_eq!(reader.snapshot(ref_id).unwrap().unwrap(), snapshot);
    assert_eq!(reader.console(ref_id).unwrap(), console);
    assert_eq!(reader.check().unwrap(), Vec::<String>::new());
    let life = &reader.sessions(Some("ann"), "shop").unwrap()[0];
    assert_eq!((life.created, life.last_activity, life.state), (at(0), at(5), SessionState::Active));
    assert_eq!((life.run.as_str(), life.metadata.as_str()), ("run", r#"{"pool":"DEFAULT"}"#));
    assert_eq!(reader.sessions(Some("bob"), "shop").unwrap(), []);
    let stats = reader.stats().unwrap();
    assert_eq!((stats.calls, stats.sessions, stats.contents), (1, 1, 1));
    assert_eq!((stats.oldest, stats.newest), (Some(at(1)), Some(at(1))));
}

#[tokio::test]
async fn contents_of_any_size_come_back_and_nothing_is_not_the_same_as_empty() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    for size in [0, 1, 511, 512, 513, 5_000, 70_000, 3_000_000] {
        let new = call(None);
        let ref_id = new.ref_id;
        store.begin(new).await.unwrap();
        let text = "é".repeat(size);
        let finished = Finished { snapshot: Some(text.as_str().into()), ..answer(ref_id, &text) };
        store.finish(finished).await.unwrap();
        let (result, snapshot, found) = store
            .read(move |reader| {
                Ok((reader.result(ref_id)?, reader.snapshot(ref_id)?, reader.call(None, ref_id)?))
            })
            .await
            .unwrap();
        assert_eq!(result.unwrap(), text.as_bytes());
        let Found::Here(found) = found else { panic!("it is there") };
        assert_eq!(found.snapshot, Some(Digest::of(text.as_bytes())));
        assert_eq!(found.snapshot_bytes, text.len() as u64);
        assert_eq!(snapshot.unwrap(), text);
    }
    let new = call(None);
    let ref_id = new.ref_id;
    store.begin(new).await.unwrap();
    store.finish(Finished { result: None, ..answer(ref_id, "") }).await.unwrap();
    let read = store.read(move |reader| Ok((reader.result(ref_id)?, reader.snapshot(ref_id)?)));
    assert_eq!(read.await.unwrap(), (None, None));
}

#[tokio::test]
async fn the_same_content_is_kept_once() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let page = "a".repeat(10_000);
    for _ in 0..10 {
        made(&store, call(None), &page).await;
    }
    let stats = store.read(Reader::stats).await.unwrap();
    assert_eq!((stats.calls, stats.contents, stats.content_bytes), (10, 1, 10_000));
}

#[tokio::test]
async fn a_call_is_its_owners_and_is_made_once() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let new = call(None);
    let ref_id = made(&store, new.clone(), "first").await;
    assert_eq!(store.begin(new).await.unwrap(), Begun::Known);
    assert!(matches!(store.finish(answer(ref_id, "second")).await, Err(StoreError::Write(_))));
    assert_eq!(store.read(move |reader| reader.result(ref_id)).await.unwrap().unwrap(), "first");

    assert_eq!(found(&store, Some("ann"), ref_id).await, Found::Here(()));
    assert_eq!(found(&store, None, ref_id).await, Found::Here(()));
    assert_eq!(found(&store, Some("bob"), ref_id).await, Found::Unknown);
    assert_eq!(found(&store, None, RefId::new_v4()).await, Found::Unknown);
}

#[tokio::test]
async fn an_answer_to_a_call_that_is_not_on_record_is_an_error() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let error = store.finish(answer(RefId::new_v4(), "x")).await.unwrap_err();
    assert!(error.to_string().contains("not on record"), "{error}");
    assert_eq!(store.health(), Default::default());
}

#[tokio::test]
async fn a_cursor_survives_and_moves() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let ref_id = made(&store, call(None), "text").await;
    assert_eq!(store.read(move |reader| reader.cursor(ref_id)).await.unwrap(), None);
    for position in [3, u64::from(u32::MAX) + 1] {
        let cursor = Cursor { position, hash: Digest::of(b"text"), read: at(9) };
        store.set_cursor(ref_id, cursor).await.unwrap();
    }
    store.close().await;

    let cursor = open(folder.path()).read(move |reader| reader.cursor(ref_id)).await.unwrap().unwrap();
    assert_eq!(cursor, Cursor { position: 1 << 32, hash: Digest::of(b"text"), read: at(9) });
}

/// A lock that another holds makes everything queue up, so that it is written as one group.
#[tokio::test]
async fn of_a_group_only_the_command_that_cannot_be_written_fails() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let other = rusqlite::Connection::open(folder.path().join("greenroom.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begins: Vec<_> = (0..100).map(|_| call(None)).collect();
    let ids: Vec<_> = begins.iter().map(|call| call.ref_id).collect();
    let nobodys = Cursor { position: 0, hash: Digest::of(b""), read: at(0) };
    let writes = async {
        let before = join_all(begins[..50].iter().cloned().map(|call| store.begin(call)));
        let bad = store.set_cursor(RefId::new_v4(), nobodys);
        let after = join_all(begins[50..].iter().cloned().map(|call| store.begin(call)));
        tokio::join!(before, bad, after)
    };
    let release = async {
        tokio::task::yield_now().await;
        other.execute_batch("COMMIT").unwrap();
    };
    let ((before, bad, after), ()) = tokio::join!(writes, release);
    assert!(matches!(bad, Err(StoreError::Write(_))));
    for begun in before.into_iter().chain(after) {
        assert_eq!(begun.unwrap(), Begun::New);
    }
    for id in ids {
        assert_eq!(found(&store, None, id).await, Found::Here(()));
    }
    assert_eq!(store.health(), Default::default());
}

#[tokio::test]
async fn after_closing_nothing_is_written_and_all_that_was_queued_is() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    store.session_began(session("life-1", "shop"));
    store.session_ended("life-1", SessionState::Error);
    store.close().await;
    store.close().await;
    assert!(!folder.path().join("greenroom.db-wal").exists());
    assert!(matches!(store.begin(call(None)).await, Err(StoreError::Write(_))));
    store.session_ended("life-1", SessionState::Closed);
    let state = Reader::open(folder.path()).unwrap().sessions(None, "life-1").unwrap()[0].state;
    assert_eq!(state, SessionState::Error);
}

#[tokio::test]
async fn a_call_is_written_also_where_its_session_is_not() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let ref_id = made(&store, call(Some("never-begun")), "x").await;
    let Found::Here(call) = store.read(move |reader| reader.call(None, ref_id)).await.unwrap() else {
        panic!("it is there")
    };
    assert_eq!(call.session.as_deref(), Some("never-begun"));
}

#[tokio::test]
async fn the_files_are_for_nobody_else() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    let store = open(&data);
    made(&store, call(None), "x").await;
    let mode = |name: &str| data.join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("greenroom.db"), 0o600);
    assert_eq!(mode("greenroom.db-wal"), 0o600);
    assert_eq!(mode("blobs"), 0o700);
    assert_eq!(mode("."), 0o700);
}

#[tokio::test]
async fn people_can_look_in_and_make_it_small_beside_a_running_server() {
    let folder = tempdir().unwrap();
    assert!(Reader::open(folder.path()).is_err_and(|error| error.to_string().contains("no history yet")));
    assert!(vacuum(folder.path()).is_err());
    let store = open(folder.path());
    made(&store, call(None), &"x".repeat(1000)).await;
    assert_eq!(vacuum(folder.path()).unwrap().calls, 1);
    made(&store, call(None), "y").await;
    let people = rusqlite::Connection::open(folder.path().join("greenroom.db")).unwrap();
    let results = people
        .prepare("SELECT result FROM calls WHERE status = 'success'")
        .unwrap()
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap()
        .collect::<Result<Vec<_>, _>>()
        .unwrap();
    assert_eq!(results, ["y".to_owned(), "x".repeat(1000)]);
}

#[tokio::test]
async fn reading_that_nobody_waits_for_any_more_still_takes_its_turn() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let is_over = Arc::new(AtomicBool::new(false));
    let mut ends = Vec::new();
    for _ in 0..4 {
        let (began, has_begun) = tokio::sync::oneshot::channel();
        let (end, may_end) = std::sync::mpsc::channel::<()>();
        ends.push(end);
        let store = store.clone();
        let reading = tokio::spawn(async move {
            store
                .read(move |_| {
                    began.send(()).unwrap();
                    let _ = may_end.recv();
                    Ok(())
                })
                .await
        });
        has_begun.await.unwrap();
        reading.abort();
        assert!(reading.await.unwrap_err().is_cancelled());
    }
    let fifth = tokio::spawn({
        let (store, is_over) = (store.clone(), Arc::clone(&is_over));
        async move { store.read(move |_| Ok(is_over.load(Ordering::SeqCst))).await.unwrap() }
    });
    // Long enough for it to begin, if it could.
    for _ in 0..100 {
        tokio::task::spawn_blocking(|| ()).await.unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    drop(ends);
    assert!(fifth.await.unwrap(), "more were reading at once than may");
}

#[tokio::test]
async fn of_a_page_that_says_too_much_the_end_is_kept() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    for (said, left_out) in [(10_000, 0), (10_003, 3)] {
        let entry = |number: usize| ConsoleEntry {
            level: Level::Error,
            message: number.to_string(),
            at: None,
            location: None,
        };
        let new = call(None);
        let ref_id = new.ref_id;
        store.begin(new).await.unwrap();
        let console = (0..said).map(entry).collect();
        store.finish(Finished { console, ..answer(ref_id, "x") }).await.unwrap();
        let mut kept = store.read(move |reader| reader.console(ref_id)).await.unwrap();
        if left_out > 0 {
            let note = kept.remove(0);
            assert_eq!(note.level, Level::Warn);
            assert_eq!(note.message, "3 earlier entries were left out");
        }
        assert_eq!(kept, (left_out..said).map(entry).collect::<Vec<_>>());
    }
}
