//! What was awaited is there, whenever the process is killed.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures::future::join_all;
use greenroom_core::ids::RefId;
use greenroom_store::{Finished, Found, Reader, Store};
use tempfile::tempdir;

use crate::{CHILD, answer, call, child, config, session};

const ROUNDS: usize = 20;
const DONE: &str = "answered ";

/// Small, middle and large results, each to be worked out again from the id.
fn result_of(ref_id: RefId) -> String {
    let text = ref_id.to_string();
    let times = match text.as_bytes()[0] {
        b'0'..=b'9' => 1,
        b'a'..=b'e' => 50,
        _ => 3_000,
    };
    text.repeat(times)
}

#[test]
fn no_kill_loses_an_answer_that_was_awaited() {
    let folder = tempdir().unwrap();
    let mut answered = Vec::new();
    for round in 0..ROUNDS {
        let mut child = child("killed::a_process_that_writes_until_it_is_killed", folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        // Not always at the same point: after the first answers, in full work, around checkpoints.
        let mut until = 1 + round * round * 5;
        let mut line = String::new();
        while until > 0 && said.read_line(&mut line).unwrap() > 0 {
            until -= usize::from(line.contains(DONE));
            answered.extend(id_in(&line));
            line.clear();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // A last line may be cut in two.
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        answered.extend(rest.split_inclusive('\n').filter(|line| line.ends_with('\n')).filter_map(id_in));

        let store = Store::open(config(folder.path(), &format!("parent-{round}")), |_| false).unwrap();
        drop(store);
    }
    assert!(answered.len() > ROUNDS, "{}", answered.len());
    let reader = Reader::open(folder.path()).unwrap();
    for ref_id in answered {
        assert!(matches!(reader.call(Some("ann"), ref_id), Ok(Found::Here(_))), "{ref_id}");
        assert_eq!(reader.result(ref_id).unwrap().unwrap(), result_of(ref_id));
        assert_eq!(reader.snapshot(ref_id).unwrap().unwrap(), result_of(ref_id));
    }
    assert_eq!(reader.check().unwrap(), Vec::<String>::new());
}

fn id_in(line: &str) -> Option<RefId> {
    line.split_once(DONE)?.1.trim().parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_that_writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let run = RefId::new_v4().to_string();
    let store = Store::open(config(Path::new(&folder), &run), |_| false).unwrap();
    store.session_began(session(&run, "shop"));
    let writing = (0..16).map(|_| {
        let (store, run) = (store.clone(), run.clone());
        tokio::spawn(async move {
            // So that a child whose parent is gone does not go on for ever.
            for _ in 0..100_000 {
                let new = call(Some(&run));
                let ref_id = new.ref_id;
                store.begin(new).await.unwrap();
                let result = result_of(ref_id);
                let snapshot = Some(result.as_str().into());
                let took = Duration::from_millis(1);
                store.finish(Finished { snapshot, took, ..answer(ref_id, &result) }).await.unwrap();
                println!("{DONE}{ref_id}");
            }
        })
    });
    join_all(writing).await;
}
