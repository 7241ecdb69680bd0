//! A profile on disk, which one browser at a time may use.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// In the folder itself: that holds wherever the folder is mounted, and under whatever name.
const LOCK: &str = ".greenroom-lock";

/// What Chromium leaves when it is killed, and what would make the next one believe that it still runs.
const LEFT_BEHIND: [&str; 3] = ["SingletonLock", "SingletonCookie", "SingletonSocket"];

/// How long a browser that is being ended may take to let go of its profile.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);

const POLL: Duration = Duration::from_millis(50);

#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error(
        "the browser profile {} is in use by {}. Close that one first, or give this one a profile of its own: \
         ISOLATED=true, another USER_DATA_DIR, or another DATA_DIR",
        path.display(),
        user
    )]
    InUse { path: PathBuf, user: User },
    #[error(
        "the browser profile {} cannot be used. Make the folder writable, or choose another with USER_DATA_DIR or \
         DATA_DIR",
        path.display()
    )]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Who has a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// Another Greenroom, and its process if it said so.
    Greenroom(Option<u32>),
    /// A browser that no living Greenroom looks after.
    Browser(u32),
}

impl std::fmt::Display for User {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Greenroom(Some(pid)) if *pid == std::process::id() => {
                write!(to, "another browser of this Greenroom")
            }
            Self::Greenroom(Some(pid)) => write!(to, "another Greenroom (process {pid})"),
            Self::Greenroom(None) => write!(to, "another Greenroom"),
            Self::Browser(pid) => write!(to, "another browser (process {pid})"),
        }
    }
}

/// The right to use a profile, until it is dropped.
#[derive(Debug)]
pub(super) struct ProfileLock {
    _file: File,
}

/// Takes the profile, making the folder if there is none. Waits a moment for a user who is just leaving.
pub(super) async fn take(path: &Path) -> Result<ProfileLock, ProfileError> {
    let until = Instant::now() + RELEASE_LIMIT;
    loop {
        match try_take(path) {
            Err(ProfileError::InUse { .. }) if Instant::now() < until => sleep(POLL).await,
            outcome => return outcome,
        }
    }
}

fn try_take(path: &Path) -> Result<ProfileLock, ProfileError> {
    let unusable = |source| ProfileError::Folder { path: path.to_owned(), source };
    // Cookies are nobody else's business.
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
    let lock = path.join(LOCK);
    let mut file =
        File::options().create(true).read(true).write(true).truncate(false).open(lock).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let _ = file.read_to_string(&mut text);
            let user = User::Greenroom(text.trim().parse().ok());
            return Err(ProfileError::InUse { path: path.to_owned(), user });
        }
        Err(TryLockError::Error(source)) => return Err(unusable(source)),
    }
    // The lock goes with its Greenroom; a browser may outlive one that was killed, for a moment.
    if let Some(pid) = browser_in(path) {
        return Err(ProfileError::InUse { path: path.to_owned(), user: User::Browser(pid) });
    }
    write_pid(&mut file).map_err(unusable)?;
    for name in LEFT_BEHIND {
        match std::fs::remove_file(path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unusable(error)),
            _ => {}
        }
    }
    Ok(ProfileLock { _file: file })
}

/// For the error of whoever comes next.
fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "{}", std::process::id())
}

/// A process that was started with this profile: `--user-data-dir=PATH`, or Firefox's `-profile PATH`.
fn browser_in(path: &Path) -> Option<u32> {
    let mut argument = OsString::from("--user-data-dir=");
    argument.push(path);
    let uses_it = |pid: &u32| {
        let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let arguments: Vec<&[u8]> = command_line.split(|byte| *byte == 0).collect();
        let is_firefoxs =
            |pair: &[&[u8]]| pair[0] == b"-profile".as_slice() && pair[1] == path.as_os_str().as_bytes();
        arguments.contains(&argument.as_bytes()) || arguments.windows(2).any(is_firefoxs)
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(uses_it)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::{ProfileError, User, take, try_take};

    #[test]
    fn a_profile_has_one_user_at_a_time_and_the_error_says_what_to_do() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("pool").join("0");
        let lock = try_take(&path).expect("it is free");
        assert_eq!(path.metadata().expect("it was made").permissions().mode() & 0o777, 0o700);
        let error = try_take(&path).expect_err("it is taken");
        let expected = User::Greenroom(Some(std::process::id()));
        assert!(matches!(&error, ProfileError::InUse { user, .. } if *user == expected), "{error:?}");
        let shown = error.to_string();
        for part in
            ["in use by another browser of this Greenroom", "ISOLATED=true", "USER_DATA_DIR", "DATA_DIR"]
        {
            assert!(shown.contains(part), "{part:?} is not in {shown:?}");
        }
        drop(lock);
        try_take(&path).expect("it is free again");
        assert_eq!(User::Greenroom(Some(1)).to_string(), "another Greenroom (process 1)");
    }

    #[test]
    fn what_a_killed_browser_left_is_removed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        symlink("somewhere-12345", folder.path().join("SingletonLock")).expect("the folder is new");
        std::fs::write(folder.path().join("SingletonCookie"), "").expect("the folder is new");
        std::fs::write(folder.path().join("Cookies"), "").expect("the folder is new");
        let _lock = try_take(folder.path()).expect("it is free");
        assert!(folder.path().join("SingletonLock").symlink_metadata().is_err());
        assert!(!folder.path().join("SingletonCookie").exists());
        assert!(folder.path().join("Cookies").exists());
    }

    #[test]
    fn a_browser_that_outlived_its_greenroom_is_seen() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let argument = format!("--user-data-dir={}", folder.path().display());
        let mut browser = std::process::Command::new("sh")
            .args(["-c", "read _", "sh", &argument])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("every system the tests run on has sh");
        // The system lets us go on a moment before a new program's arguments can be read.
        while std::fs::read(format!("/proc/{}/cmdline", browser.id())).is_ok_and(|line| line.is_empty()) {
            std::thread::yield_now();
        }
        let error = try_take(folder.path()).expect_err("it is taken");
        let expected = User::Browser(browser.id());
        assert!(matches!(&error, ProfileError::InUse { user, .. } if *user == expected), "{error:?}");
        drop(browser.stdin.take());
        browser.wait().expect("it is our child");
        try_take(folder.path()).expect("it is free now");
    }

    #[tokio::test]
    async fn who_is_just_leaving_is_waited_for() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let lock = try_take(folder.path()).expect("it is free");
        let (taken, ()) = tokio::join!(take(folder.path()), async {
            tokio::task::yield_now().await;
            drop(lock);
        });
        taken.expect("it was given back in time");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("file");
        std::fs::write(&file, "").expect("the folder is new");
        let error = try_take(&file.join("profile")).expect_err("below a file there is no folder");
        assert!(matches!(error, ProfileError::Folder { .. }), "{error:?}");
    }
}
