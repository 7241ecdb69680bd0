//! The folder of blobs: one file each, named by the SHA-256 of what is in it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use greenroom_core::ids::Digest;

use crate::database::make_private_folder;
use crate::model::Durability;

/// A file that is older and belongs to nothing will not belong to anything any more.
pub(crate) const GRACE: Duration = Duration::from_secs(60 * 60);

const TEMPORARY: &str = ".tmp";

pub(crate) struct Blobs {
    root: PathBuf,
}

impl Blobs {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self { root: folder.join("blobs").join("sha256") }
    }

    pub(crate) fn make(&self) -> io::Result<()> {
        make_private_folder(&self.root)
    }

    pub(crate) fn path(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        self.root.join(&name[..2]).join(name)
    }

    /// Whether all of it is there.
    pub(crate) fn has(&self, digest: &Digest, size: u64) -> bool {
        fs::metadata(self.path(digest)).is_ok_and(|file| file.is_file() && file.len() == size)
    }

    /// Writes the file under another name first, so that nobody ever sees half of it.
    pub(crate) fn write(&self, digest: &Digest, bytes: &[u8], durability: Durability) -> io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let path = self.path(digest);
        let folder = path.parent().unwrap_or(&self.root);
        make_private_folder(folder)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!("{digest}.{}-{number}{TEMPORARY}", std::process::id()));
        let written = (|| {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
            file.write_all(bytes)?;
            if durability == Durability::Power {
                file.sync_all()?;
            }
            fs::rename(&temporary, &path)?;
            if durability == Durability::Power {
                File::open(folder)?.sync_all()?;
            }
            Ok(())
        })();
        if written.is_err() {
            // It is full, perhaps. What cannot be removed now is found by the next cleaning.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Removes the file, if it is there.
    pub(crate) fn remove(&self, digest: &str) {
        let Ok(digest) = digest.parse() else { return };
        let path = self.path(&digest);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "a blob cannot be removed");
            }
            _ => {}
        }
    }

    /// Removes temporary files that were left behind, and finds the blobs that `is_known` does not know.
    pub(crate) fn strays(&self, now: SystemTime, is_known: impl Fn(&Digest) -> bool) -> Vec<Digest> {
        let mut strays = Vec::new();
        let folders = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let files = folders.filter_map(|folder| fs::read_dir(folder.path()).ok()).flatten().flatten();
        for file in files {
            let name = file.file_name();
            let Some(name) = name.to_str() else { continue };
            let is_old = || {
                let made = file.metadata().and_then(|file| file.modified()).ok();
                made.and_then(|made| now.duration_since(made).ok()).is_some_and(|age| age > GRACE)
            };
            if name.ends_with(TEMPORARY) {
                if is_old() {
                    // Another Greenroom may have been faster.
                    let _ = fs::remove_file(file.path());
                }
            } else if let Ok(digest) = name.parse::<Digest>()
                && !is_known(&digest)
                && is_old()
            {
                strays.push(digest);
            }
        }
        strays
    }
}
