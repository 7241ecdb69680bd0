//! The store as the engine and the command line use it.

#![expect(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

mod blobs;
mod failing;
mod filters;
mod killed;
mod records;
mod retention;
mod runs;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use greenroom_core::ids::RefId;
use greenroom_store::{
    CallStatus, Durability, Finished, Found, NewCall, NewSession, Retention, Store, StoreConfig,
};

fn config(folder: &Path, run: &str) -> StoreConfig {
    StoreConfig {
        folder: folder.to_owned(),
        run: run.to_owned(),
        durability: Durability::Process,
        retention: Retention::default(),
    }
}

fn open(folder: &Path) -> Store {
    Store::open(config(folder, "run"), |_| true).unwrap()
}

fn open_with(folder: &Path, retention: Retention) -> Store {
    Store::open(StoreConfig { retention, ..config(folder, "run") }, |_| true).unwrap()
}

/// Seconds after some day, since the database knows no finer time than microseconds.
fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

fn session(id: &str, name: &str) -> NewSession {
    NewSession {
        id: id.to_owned(),
        owner: "ann".to_owned(),
        name: name.to_owned(),
        at: at(0),
        metadata: r#"{"pool":"DEFAULT"}"#.to_owned(),
    }
}

fn call(session: Option<&str>) -> NewCall {
    NewCall {
        ref_id: RefId::new_v4(),
        owner: "ann".to_owned(),
        session: session.map(str::to_owned),
        parent: None,
        tool: "browser_click".to_owned(),
        params: r#"{"ref":"e1"}"#.to_owned(),
        at: at(1),
    }
}

fn answer(ref_id: RefId, result: &str) -> Finished {
    Finished {
        ref_id,
        status: CallStatus::Success,
        result: Some(Bytes::copy_from_slice(result.as_bytes())),
        snapshot: None,
        console: Vec::new(),
        error: None,
        failure: None,
        at: at(2),
        took: Duration::from_millis(30),
        waited: Duration::from_millis(10),
        pool: None,
        instance: None,
        url: None,
        title: None,
        blobs: Vec::new(),
    }
}

/// A call that was made and answered.
async fn made(store: &Store, call: NewCall, result: &str) -> RefId {
    let ref_id = call.ref_id;
    store.begin(call).await.unwrap();
    store.finish(answer(ref_id, result)).await.unwrap();
    ref_id
}

async fn found(store: &Store, owner: Option<&'static str>, ref_id: RefId) -> Found<()> {
    match store.read(move |reader| reader.call(owner, ref_id)).await.unwrap() {
        Found::Here(_) => Found::Here(()),
        Found::Expired => Found::Expired,
        Found::Unknown => Found::Unknown,
    }
}

/// This test binary again, for one test that is told by the environment that it is a child.
fn child(test: &str, folder: &Path) -> Command {
    let mut command = Command::new("sh");
    // A file that would become too long is an error then, not a signal.
    command.args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads", "1"]).env(CHILD, folder);
    command
}

const CHILD: &str = "GREENROOM_STORE_TEST_CHILD";
