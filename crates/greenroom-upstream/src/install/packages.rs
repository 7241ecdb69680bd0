//! The pinned servers, fetched by npm from lock files that this binary carries.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use sha2::{Digest, Sha256};

use super::{InstallError, Installer, folder as folder_error};
use crate::host::SCRIPTS;

pub const LOCK_FILE: &str = include_str!("../../npm/package-lock.json");
pub(crate) const DEVTOOLS_LOCK_FILE: &str = include_str!("../../npm/devtools/package-lock.json");

/// A server of a fixed version, with everything that it needs.
pub(super) struct Package {
    /// What people call it.
    pub(super) title: &'static str,
    prefix: &'static str,
    manifest: &'static str,
    lock_file: &'static str,
    /// A file that every whole installation has.
    mark: &'static str,
}

pub(super) const PLAYWRIGHT: Package = Package {
    title: "the browser server (@playwright/mcp)",
    prefix: "playwright",
    manifest: include_str!("../../npm/package.json"),
    lock_file: LOCK_FILE,
    mark: "node_modules/@playwright/mcp/package.json",
};

pub(super) const DEVTOOLS: Package = Package {
    title: "the browser server (chrome-devtools-mcp)",
    prefix: "devtools",
    manifest: include_str!("../../npm/devtools/package.json"),
    lock_file: DEVTOOLS_LOCK_FILE,
    mark: "node_modules/chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js",
};

impl Package {
    /// One folder a lock file: another version of Greenroom may use another beside it.
    pub(super) fn folder(&self, data_dir: &Path) -> PathBuf {
        data_dir.join("upstream").join(format!("{}-{}", self.prefix, short_hash(self.lock_file)))
    }

    /// The folder is renamed into place when it is complete, so that it is there means that it is whole.
    pub(super) fn is_complete(&self, folder: &Path) -> bool {
        folder.join(self.mark).is_file()
    }

    pub(super) async fn install(&self, installer: &Installer, folder: &Path) -> Result<(), InstallError> {
        let npm = installer.machine.program("npm").ok_or(InstallError::NpmMissing)?;
        let staging = folder.with_extension("incomplete");
        // We hold the lock: what is left here is from an installation that was killed.
        match std::fs::remove_dir_all(&staging) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(folder_error(&staging)(error));
            }
            _ => {}
        }
        std::fs::create_dir_all(&staging).map_err(folder_error(&staging))?;
        for (name, text) in [("package.json", self.manifest), ("package-lock.json", self.lock_file)] {
            std::fs::write(staging.join(name), text).map_err(folder_error(&staging))?;
        }
        let arguments = ["ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund"];
        let mut command = installer.machine.command(&npm);
        command.args(arguments).current_dir(&staging);
        let begun = format!("fetching {} with npm", self.title);
        installer.run(&begun, command).await.map_err(|output| {
            let command = format!("cd {} && npm {}", staging.display(), arguments.join(" "));
            InstallError::CommandFailed { command, output }
        })?;
        std::fs::rename(&staging, folder).map_err(folder_error(folder))
    }
}

/// The program of `chrome-devtools-mcp`.
pub(super) fn devtools_script(folder: &Path) -> PathBuf {
    folder.join(DEVTOOLS.mark)
}

/// Where the host script is, after writing it if this Greenroom's is not there yet.
pub(super) fn host_script(folder: &Path) -> Result<PathBuf, InstallError> {
    static WRITTEN: AtomicU32 = AtomicU32::new(0);
    let texts: String = SCRIPTS.iter().flat_map(|(name, text)| [*name, *text]).collect();
    let place = folder.join(format!("greenroom-host-{}", short_hash(&texts)));
    if !place.is_dir() {
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let staging = folder.join(format!(".host-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&staging).map_err(folder_error(&staging))?;
        for (name, text) in SCRIPTS {
            std::fs::write(staging.join(name), text).map_err(folder_error(&staging))?;
        }
        if let Err(error) = std::fs::rename(&staging, &place) {
            let _ = std::fs::remove_dir_all(&staging);
            // Another one may have been quicker.
            if !place.is_dir() {
                return Err(folder_error(&place)(error));
            }
        }
    }
    Ok(place.join(SCRIPTS[0].0))
}

fn short_hash(text: &str) -> String {
    Sha256::digest(text)[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}
