//! Files that an agent gives to a page.
//!
//! A session's server reads from the session's own folder and nowhere else. Where sessions may read from further
//! folders, what they name there is copied into their own first.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::session_files::UPLOADS;

/// Copies the files that an argument names, and names the copies instead. What is not there, or not in a folder that may
/// be read from, is left for the server to refuse.
pub(crate) async fn bring(
    arguments: &mut Map<String, Value>,
    name: &str,
    folder: &Path,
    readable: &[PathBuf],
) {
    let Some(Value::Array(paths)) = arguments.get_mut(name) else { return };
    for path in paths {
        let Value::String(text) = &*path else { continue };
        let (wanted, folder, readable) = (PathBuf::from(text), folder.to_owned(), readable.to_vec());
        let copied = tokio::task::spawn_blocking(move || copy(&wanted, &folder, &readable)).await;
        match copied {
            Ok(Ok(Some(copy))) => *path = Value::String(copy.to_string_lossy().into_owned()),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => tracing::warn!(%error, path = text, "a file could not be copied for a session"),
            Err(error) => tracing::warn!(%error, "a file could not be copied for a session"),
        }
    }
}

/// The copy; `None` where there is nothing to copy.
fn copy(wanted: &Path, folder: &Path, readable: &[PathBuf]) -> io::Result<Option<PathBuf>> {
    // What the session has itself comes first.
    if folder.join(wanted).exists() && !wanted.is_absolute() {
        return Ok(None);
    }
    for root in readable {
        // Links are followed before anybody looks where the file is.
        let (Ok(root), Ok(file)) = (root.canonicalize(), root.join(wanted).canonicalize()) else { continue };
        let (true, true, Some(name)) = (file.starts_with(&root), file.is_file(), wanted.file_name()) else {
            continue;
        };
        if folder.canonicalize().is_ok_and(|folder| file.starts_with(folder)) {
            return Ok(None);
        }
        let uploads = folder.join(UPLOADS);
        std::fs::create_dir_all(&uploads)?;
        // The page sees the name, so the copy keeps it.
        let mut number = 0;
        let place = loop {
            let place = uploads.join(format!("{number}"));
            match std::fs::create_dir(&place) {
                Ok(()) => break place,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        };
        let copy = place.join(name);
        std::fs::copy(&file, &copy)?;
        return Ok(Some(copy));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::bring;

    #[tokio::test]
    async fn files_of_readable_folders_are_copied_and_others_are_left_alone() {
        let place = tempfile::tempdir().expect("a folder");
        let path = |name: &str| place.path().join(name);
        let (work, session) = (path("work"), path("session"));
        for (folder, name) in [(&work, "a.txt"), (&session, "own.txt"), (&place.path().to_owned(), "secret")]
        {
            std::fs::create_dir_all(folder).expect("it can be made");
            std::fs::write(folder.join(name), name).expect("it can be written");
        }
        std::os::unix::fs::symlink(path("secret"), work.join("link")).expect("a link");
        let given = json!({ "paths": [
            work.join("a.txt"), "a.txt", "own.txt", work.join("link"), path("secret"), "../secret", "missing", 7
        ] });
        let serde_json::Value::Object(mut arguments) = given.clone() else { unreachable!() };
        bring(&mut arguments, "paths", &session, &[work]).await;
        let copies = [session.join(".uploads/0/a.txt"), session.join(".uploads/1/a.txt")];
        let mut expected = given["paths"].clone();
        (expected[0], expected[1]) = (json!(copies[0]), json!(copies[1]));
        assert_eq!(arguments["paths"], expected);
        assert_eq!(std::fs::read_to_string(&copies[1]).ok().as_deref(), Some("a.txt"));
        assert!(
            crate::session_files::list(&session).iter().all(|file| file.name == "own.txt"),
            "no file of its own"
        );
    }
}
