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
    /// The Windows beside it, where this is WSL.
    pub windows: Option<Interop>,
}

/// What WSL shows of Windows.
#[derive(Clone, Debug)]
pub struct Interop {
    /// Where drive C is mounted.
    pub drive: PathBuf,
    /// The names of the variables that Windows programs get to see, as `WSLENV` has them.
    pub wslenv: String,
}

impl Interop {
    fn of_this_machine() -> Option<Self> {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        kernel.to_lowercase().contains("microsoft").then(|| Self {
            drive: PathBuf::from("/mnt/c"),
            wslenv: std::env::var("WSLENV").unwrap_or_default(),
        })
    }
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
            windows: Interop::of_this_machine(),
        }
    }

    /// Where a program is, by its name or path.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        which::which_in(name, Some(&self.path), "/").ok()
    }

    /// A Windows program: on the PATH, unless that is kept free of them, or in its usual place on drive C.
    pub(crate) fn windows_program(&self, name: &str, usual_folder: &str) -> Option<PathBuf> {
        let usual = || self.windows.as_ref().map(|windows| windows.drive.join(usual_folder).join(name));
        self.program(name).or_else(|| usual().filter(|path| path.is_file()))
    }

    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("PATH", &self.path);
        command
    }
}
