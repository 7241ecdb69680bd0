//! The machine as the installer sees it, so that a test can show it another one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tokio::process::Command;

#[derive(Clone, Debug)]
pub struct Machine {
    /// Where programs are looked for.
    pub path: OsString,
    /// Where Playwright keeps the browsers it fetched.
    pub playwright_cache: Option<PathBuf>,
    pub is_root: bool,
    pub is_debian: bool,
}

impl Machine {
    /// This machine, with the variables of this process's environment.
    pub fn this() -> Self {
        let cache =
            std::env::var_os("PLAYWRIGHT_BROWSERS_PATH").filter(|path| path != "0").map(PathBuf::from);
        let home = || std::env::home_dir().map(|home| home.join(".cache/ms-playwright"));
        let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        let is_debian = release.lines().any(|line| {
            let id = line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE="));
            id.is_some_and(|id| id.trim_matches('"').split(' ').any(|word| word == "debian"))
        });
        Self {
            path: std::env::var_os("PATH").unwrap_or_default(),
            playwright_cache: cache.or_else(home),
            is_root: nix::unistd::geteuid().is_root(),
            is_debian,
        }
    }

    /// Where a program is, by its name or path.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        which::which_in(name, Some(&self.path), "/").ok()
    }

    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("PATH", &self.path);
        command
    }
}
