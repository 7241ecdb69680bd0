//! The pinned server, fetched by npm from the lock file that this binary carries.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{InstallError, Installer, folder as folder_error};
use crate::host::SCRIPT;

const PACKAGE_FILE: &str = include_str!("../../npm/package.json");
pub const LOCK_FILE: &str = include_str!("../../npm/package-lock.json");

/// One folder a lock file: another version of Greenroom may use another beside it.
pub(super) fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("upstream").join(format!("playwright-{}", short_hash(LOCK_FILE)))
}

/// The folder is renamed into place when it is complete, so that it is there means that it is whole.
pub(super) fn is_complete(folder: &Path) -> bool {
    folder.join("node_modules/@playwright/mcp/package.json").is_file()
}

/// Where the host script is, after writing it if this Greenroom's is not there yet.
pub(super) fn host_script(folder: &Path) -> Result<PathBuf, InstallError> {
    let path = folder.join(format!("greenroom-host-{}.cjs", short_hash(SCRIPT)));
    if !path.is_file() {
        let temporary = folder.join(format!(".host-{}", std::process::id()));
        std::fs::write(&temporary, SCRIPT).map_err(folder_error(&temporary))?;
        std::fs::rename(&temporary, &path).map_err(folder_error(&path))?;
    }
    Ok(path)
}

pub(super) async fn install(installer: &Installer, folder: &Path) -> Result<(), InstallError> {
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
    for (name, text) in [("package.json", PACKAGE_FILE), ("package-lock.json", LOCK_FILE)] {
        std::fs::write(staging.join(name), text).map_err(folder_error(&staging))?;
    }
    let arguments = ["ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund"];
    let mut command = installer.machine.command(&npm);
    command.args(arguments).current_dir(&staging);
    installer.run("fetching the browser server with npm", command).await.map_err(|output| {
        let command = format!("cd {} && npm {}", staging.display(), arguments.join(" "));
        InstallError::CommandFailed { command, output }
    })?;
    std::fs::rename(&staging, folder).map_err(folder_error(folder))
}

fn short_hash(text: &str) -> String {
    Sha256::digest(text)[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}
