//! Blobs: files by what is in them.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use greenroom_core::ids::Digest;
use greenroom_store::{BlobRef, Finished, Found, Reader, Retention, Store, StoreError};
use tempfile::tempdir;

use crate::{answer, call, open, open_with};

const HOURS: Duration = Duration::from_secs(2 * 60 * 60);

async fn put(store: &Store, text: &'static str) -> BlobRef {
    store.put_blob(Bytes::from_static(text.as_bytes()), "text/plain").await.unwrap()
}

/// A call that brings the blob along.
async fn bring(store: &Store, blob: &BlobRef) {
    let new = call(None);
    let ref_id = new.ref_id;
    store.begin(new).await.unwrap();
    store.finish(Finished { blobs: vec![blob.clone()], ..answer(ref_id, "") }).await.unwrap();
}

fn state(folder: &Path, blob: &BlobRef) -> Found<()> {
    match Reader::open(folder).unwrap().blob(Some("ann"), blob.digest).unwrap() {
        Found::Here(_) => Found::Here(()),
        Found::Expired => Found::Expired,
        Found::Unknown => Found::Unknown,
    }
}

#[tokio::test]
async fn a_blob_is_read_by_those_whose_calls_brought_it() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let blob = put(&store, "picture").await;
    assert_eq!(blob, BlobRef { digest: Digest::of(b"picture"), mime_type: "text/plain".into(), size: 7 });
    assert_eq!(state(folder.path(), &blob), Found::Unknown);
    bring(&store, &blob).await;

    let reader = Reader::open(folder.path()).unwrap();
    let Found::Here((found, path)) = reader.blob(Some("ann"), blob.digest).unwrap() else {
        panic!("it is there")
    };
    assert_eq!((found, fs::read(&path).unwrap().as_slice()), (blob.clone(), b"picture".as_slice()));
    let name = blob.digest.to_string();
    assert_eq!(path, folder.path().join("blobs/sha256").join(&name[..2]).join(&name));
    assert_eq!(reader.blob(Some("bob"), blob.digest).unwrap(), Found::Unknown);
    assert_eq!(reader.blob(None, Digest::of(b"other")).unwrap(), Found::Unknown);

    fs::remove_file(path).unwrap();
    assert_eq!(state(folder.path(), &blob), Found::Expired);
    // Brought again, it is there again.
    put(&store, "picture").await;
    assert_eq!(state(folder.path(), &blob), Found::Here(()));
}

#[tokio::test]
async fn the_same_blob_is_written_once() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let blob = put(&store, "picture").await;
    bring(&store, &blob).await;
    let Found::Here((_, path)) = store.read(move |reader| reader.blob(None, blob.digest)).await.unwrap()
    else {
        panic!("it is there")
    };
    let first = path.metadata().unwrap().modified().unwrap();
    for _ in 0..3 {
        put(&store, "picture").await;
    }
    assert_eq!(path.metadata().unwrap().modified().unwrap(), first);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    let stats = store.read(Reader::stats).await.unwrap();
    assert_eq!((stats.blobs, stats.blob_bytes), (1, 7));
}

#[tokio::test]
async fn a_blob_that_is_too_large_is_refused() {
    let folder = tempdir().unwrap();
    let store = open_with(folder.path(), Retention { blob_bytes: Some(4), ..Retention::default() });
    put(&store, "four").await;
    let refused = store.put_blob(Bytes::from_static(b"five!"), "text/plain").await;
    assert!(matches!(refused, Err(StoreError::TooLarge { size: 5, most: 4 })));
}

#[tokio::test]
async fn blobs_go_when_they_are_old() {
    let folder = tempdir().unwrap();
    let retention = Retention { blob_age: Some(HOURS), ..Retention::default() };
    let store = open_with(folder.path(), retention);
    let blob = put(&store, "picture").await;
    bring(&store, &blob).await;
    assert_eq!(store.clean(SystemTime::now()).await.unwrap().blobs, 0);
    assert_eq!(store.clean(SystemTime::now() + 2 * HOURS).await.unwrap().blobs, 1);
    assert_eq!(state(folder.path(), &blob), Found::Expired);
}

#[tokio::test]
async fn the_oldest_blobs_go_when_there_are_too_many() {
    let folder = tempdir().unwrap();
    let store = open_with(folder.path(), Retention { blob_bytes: Some(10), ..Retention::default() });
    let (first, second, third) =
        (put(&store, "1111").await, put(&store, "2222").await, put(&store, "3333").await);
    for blob in [&first, &second, &third] {
        bring(&store, blob).await;
    }
    assert_eq!(store.clean(SystemTime::now()).await.unwrap().blobs, 1);
    assert_eq!(state(folder.path(), &first), Found::Expired);
    assert_eq!(state(folder.path(), &second), Found::Here(()));
    assert_eq!(state(folder.path(), &third), Found::Here(()));
}

#[tokio::test]
async fn what_belongs_to_nothing_goes_after_an_hour() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let kept = put(&store, "kept").await;
    bring(&store, &kept).await;
    let unused = put(&store, "unused").await;
    let beside = |blob: &BlobRef, name: &str| {
        let digest = blob.digest.to_string();
        folder.path().join("blobs/sha256").join(&digest[..2]).join(name)
    };
    let unused_file = beside(&unused, &unused.digest.to_string());
    let temporary = beside(&kept, "left.tmp");
    let nobodys = BlobRef { digest: Digest::of(b"stray"), ..kept.clone() };
    let stray = beside(&nobodys, &nobodys.digest.to_string());
    fs::create_dir_all(stray.parent().unwrap()).unwrap();
    File::create(&temporary).unwrap();
    File::create(&stray).unwrap();

    assert_eq!(store.clean(SystemTime::now()).await.unwrap().blobs, 0);
    assert!(unused_file.exists() && temporary.exists() && stray.exists());
    assert_eq!(store.clean(SystemTime::now() + HOURS).await.unwrap().blobs, 2);
    assert!(!unused_file.exists() && !temporary.exists() && !stray.exists());
    assert_eq!(state(folder.path(), &kept), Found::Here(()));
}
