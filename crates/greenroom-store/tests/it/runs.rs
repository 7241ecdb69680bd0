//! What other lives of the process left, and what they are doing now.

use futures::future::join_all;
use greenroom_store::{CallStatus, Found, NewSession, Reader, SessionState, Store};
use tempfile::tempdir;

use crate::{answer, call, config, made, session};

#[tokio::test]
async fn what_a_dead_run_left_is_ended_and_a_live_one_is_left_alone() {
    let folder = tempdir().unwrap();
    let mut left = Vec::new();
    let mut stores = Vec::new();
    for run in ["dead", "alive"] {
        let store = Store::open(config(folder.path(), run), |_| true).unwrap();
        store.session_began(session(&format!("{run}-session"), run));
        let new = call(Some(&format!("{run}-session")));
        left.push(new.ref_id);
        store.begin(new).await.unwrap();
        stores.push(store);
    }
    let store = Store::open(config(folder.path(), "new"), |run| run == "alive").unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    let state = |name: &str| reader.sessions(None, name).unwrap()[0].state;
    assert_eq!((state("dead"), state("alive")), (SessionState::Closed, SessionState::Active));
    let of = |index: usize| match reader.call(None, left[index]).unwrap() {
        Found::Here(call) => call,
        other => panic!("{other:?}"),
    };
    assert_eq!((of(0).status, of(1).status), (CallStatus::Error, CallStatus::Pending));
    assert!(of(0).error.unwrap().contains("ended before the call was answered"));
    // It is answered now, for whoever comes late.
    assert!(store.finish(answer(left[0], "late")).await.is_err());
    stores[1].finish(answer(left[1], "in time")).await.unwrap();
    assert_eq!(of(1).status, CallStatus::Success);
    assert_eq!(reader.check().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_run_is_not_asked_whether_it_is_alive_itself() {
    let folder = tempdir().unwrap();
    let store = Store::open(config(folder.path(), "run"), |_| false).unwrap();
    store.session_began(session("life", "shop"));
    store.close().await;
    drop(Store::open(config(folder.path(), "run"), |_| false).unwrap());
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.sessions(None, "shop").unwrap()[0].state, SessionState::Active);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_write_to_one_folder_at_the_same_time() {
    let folder = tempdir().unwrap();
    let stores: Vec<_> = std::thread::scope(|scope| {
        let opening: Vec<_> = ["one", "two"]
            .map(|run| scope.spawn(|| Store::open(config(folder.path(), run), |_| true).unwrap()))
            .into();
        opening.into_iter().map(|store| store.join().unwrap()).collect()
    });
    let writes = stores.iter().enumerate().flat_map(|(number, store)| {
        (0..8).map(move |task| {
            let store = store.clone();
            tokio::spawn(async move {
                let id = format!("{number}-{task}");
                store.session_began(NewSession { owner: "ann".into(), ..session(&id, "both") });
                let mut ids = Vec::new();
                for _ in 0..25 {
                    ids.push(made(&store, call(Some(&id)), &"the same ".repeat(200)).await);
                }
                ids
            })
        })
    });
    let ids: Vec<_> = join_all(writes).await.into_iter().flat_map(Result::unwrap).collect();
    let reader = Reader::open(folder.path()).unwrap();
    for id in ids {
        assert_eq!(reader.result(id).unwrap().unwrap(), "the same ".repeat(200));
    }
    let stats = reader.stats().unwrap();
    assert_eq!((stats.calls, stats.sessions, stats.contents), (400, 16, 1));
    assert_eq!(reader.check().unwrap(), Vec::<String>::new());
    assert!(stores.iter().all(|store| store.health() == Default::default()));
}
