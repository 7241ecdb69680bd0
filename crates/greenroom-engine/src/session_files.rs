//! The folders that sessions write to.
//!
//! A folder's name is minted and says which run it belongs to; nothing that a caller chose becomes part of a path.
//! When a session has ended its files stay for a while, also across a restart.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use greenroom_upstream::run_folder;

/// Within a session's folder: copies of files from elsewhere, for pages. The session has not written them.
pub(crate) const UPLOADS: &str = ".uploads";

pub(crate) struct SessionFolders {
    data_dir: PathBuf,
    run: String,
    grace: Duration,
    minted: AtomicU64,
    /// Folders of sessions that have ended, and when they go.
    ended: Mutex<Vec<(Instant, PathBuf)>>,
}

/// The folder of one session. Dropping it ends it, also when the session never came to be.
pub(crate) struct SessionFolder {
    folders: Arc<SessionFolders>,
    path: PathBuf,
}

impl SessionFolder {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SessionFolder {
    fn drop(&mut self) {
        self.folders.end(std::mem::take(&mut self.path));
    }
}

/// A file that a session has written.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SessionFile {
    /// Relative to the session's folder, with slashes.
    pub name: String,
    pub size: u64,
    pub modified: String,
    pub mime_type: &'static str,
}

impl SessionFolders {
    pub(crate) fn new(data_dir: &Path, run: &str, grace: Duration) -> Self {
        let folders = Self {
            data_dir: data_dir.to_owned(),
            run: run.to_owned(),
            grace,
            minted: AtomicU64::new(0),
            ended: Mutex::default(),
        };
        folders.sweep_others();
        folders
    }

    fn root(&self) -> PathBuf {
        self.data_dir.join("sessions")
    }

    pub(crate) fn mint(self: &Arc<Self>) -> io::Result<SessionFolder> {
        let number = self.minted.fetch_add(1, Ordering::Relaxed);
        let path = self.root().join(format!("{}.{number}", self.run));
        std::fs::create_dir_all(&path)?;
        Ok(SessionFolder { folders: Arc::clone(self), path })
    }

    /// A session has ended: an empty folder goes at once, any other after the grace time.
    fn end(&self, folder: PathBuf) {
        if std::fs::remove_dir(&folder).is_ok() {
            return;
        }
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now() + self.grace, folder));
        self.sweep();
    }

    /// Removes what has had its time.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let due: Vec<_> = {
            let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let (due, later) = std::mem::take(&mut *ended).into_iter().partition(|(when, _)| *when <= now);
            *ended = later;
            due
        };
        for (_, folder) in due {
            remove(&folder);
        }
    }

    /// Folders of runs that are over go when nobody has written to them for the grace time.
    fn sweep_others(&self) {
        for entry in std::fs::read_dir(self.root()).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let run = name.rsplit_once('.').map_or(name.as_str(), |(run, _)| run);
            let age =
                entry.metadata().and_then(|data| data.modified()).ok().and_then(|then| then.elapsed().ok());
            if !run_folder::is_there(&self.data_dir, run) && age.is_none_or(|age| age >= self.grace) {
                remove(&entry.path());
            }
        }
    }
}

fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, folder = %folder.display(), "a session's files could not be removed");
    }
}

/// Every file in a folder, by name. Links are not followed.
pub(crate) fn list(folder: &Path) -> Vec<SessionFile> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(current) = folders.pop() {
        for entry in std::fs::read_dir(&current).into_iter().flatten().flatten() {
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            if kind.is_dir() {
                if path != folder.join(UPLOADS) {
                    folders.push(path);
                }
            } else if let (true, Ok(data), Ok(name)) =
                (kind.is_file(), entry.metadata(), path.strip_prefix(folder))
            {
                files.push(SessionFile {
                    name: name.to_string_lossy().into_owned(),
                    size: data.len(),
                    modified: crate::status::timestamp(data.modified().unwrap_or(SystemTime::UNIX_EPOCH)),
                    mime_type: mime_type(name),
                });
            }
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

/// The content of a file that [`list`] names. Nothing else can be read: the name is compared, not joined.
pub(crate) fn read(folder: &Path, name: &str) -> Option<(SessionFile, Vec<u8>)> {
    let file = list(folder).into_iter().find(|file| file.name == name)?;
    let bytes = std::fs::read(folder.join(&file.name)).ok()?;
    Some((file, bytes))
}

fn mime_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()).unwrap_or_default() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "json" => "application/json",
        "yml" | "yaml" => "application/yaml",
        "md" => "text/markdown",
        "html" | "htm" => "text/html",
        "csv" => "text/csv",
        "txt" | "log" => "text/plain",
        "js" => "text/javascript",
        "webm" => "video/webm",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{SessionFolders, list, read};

    fn write(path: &std::path::Path, text: &str) {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        std::fs::write(path, text).expect("it can be written");
    }

    #[test]
    fn files_are_listed_and_only_those_can_be_read() {
        let data = tempfile::tempdir().expect("a folder");
        let folders = Arc::new(SessionFolders::new(data.path(), "run", Duration::from_secs(60)));
        let (mine, other) = (folders.mint().expect("mine"), folders.mint().expect("other"));
        let (mine, other) = (mine.path(), other.path());
        write(&mine.join("shots/page.png"), "png");
        write(&other.join("secret.txt"), "secret");
        std::os::unix::fs::symlink(other.join("secret.txt"), mine.join("link.txt")).expect("a link");
        let names: Vec<_> = list(mine).into_iter().map(|file| (file.name, file.mime_type)).collect();
        assert_eq!(names, [("shots/page.png".to_owned(), "image/png")]);
        assert!(read(mine, "shots/page.png").is_some());
        let other = other.file_name().expect("a name").to_string_lossy().into_owned();
        for name in [format!("../{other}/secret.txt"), "link.txt".to_owned(), "/etc/passwd".to_owned()] {
            assert!(read(mine, &name).is_none(), "{name}");
        }
    }

    #[test]
    fn files_go_after_their_time_and_those_of_other_runs_too() {
        let data = tempfile::tempdir().expect("a folder");
        write(&data.path().join("sessions/dead.0/a.txt"), "a");
        write(&data.path().join("sessions/alive.0/a.txt"), "a");
        std::fs::create_dir_all(data.path().join("run/alive")).expect("a run");
        let folders = Arc::new(SessionFolders::new(data.path(), "us", Duration::ZERO));
        assert!(!data.path().join("sessions/dead.0").exists());
        assert!(data.path().join("sessions/alive.0").exists());
        let ours = folders.mint().expect("ours");
        let path = ours.path().to_owned();
        write(&path.join("a.txt"), "a");
        drop(ours);
        assert!(!path.exists());
    }
}
