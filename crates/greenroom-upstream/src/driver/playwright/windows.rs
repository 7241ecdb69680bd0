//! The Windows Node run from WSL, for browsers on the Windows desktop.
//!
//! What is started from here is a relay: the program itself runs on the other side, under another number, with paths
//! of its own and only those variables that `WSLENV` names.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::process::Command;

use crate::install::{Interop, Machine};

/// How long `taskkill.exe` may take. Starting a Windows program from WSL is slow at times.
const KILL_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum WindowsError {
    #[error(
        "`wslpath` was not found, which every WSL brings along. Put it back on the PATH, or remove WSL_WINDOWS"
    )]
    NoWslpath,
    #[error(
        "Windows has no name for {}{}. Choose a folder that Windows can reach, for example below /mnt/c, or remove \
         WSL_WINDOWS",
        path.display(),
        said(output)
    )]
    Path { path: PathBuf, output: String },
}

fn said(output: &str) -> String {
    if output.is_empty() { String::new() } else { format!(" (`wslpath` said: {output})") }
}

/// The way to the other side.
pub(super) struct Windows {
    machine: Machine,
    interop: Interop,
    wslpath: PathBuf,
}

impl Windows {
    /// `None` where this is not WSL.
    pub(super) fn beside(machine: &Machine) -> Result<Option<Self>, WindowsError> {
        let Some(interop) = machine.windows.clone() else { return Ok(None) };
        let wslpath = machine.program("wslpath").ok_or(WindowsError::NoWslpath)?;
        Ok(Some(Self { machine: machine.clone(), interop, wslpath }))
    }

    /// What Windows calls this path, which has to be there.
    pub(super) async fn path(&self, path: &Path) -> Result<String, WindowsError> {
        let asked = self.machine.command(&self.wslpath).arg("-w").arg(path).output().await;
        let unknown = |output: String| WindowsError::Path { path: path.to_owned(), output };
        let answer = asked.map_err(|error| unknown(error.to_string()))?;
        let text = String::from_utf8_lossy(&answer.stdout).trim_end().to_owned();
        if answer.status.success() && !text.is_empty() {
            Ok(text)
        } else {
            Err(unknown(String::from_utf8_lossy(&answer.stderr).trim().to_owned()))
        }
    }

    /// `WSLENV` for a program that is to see these variables, and still those that it names already.
    pub(super) fn wslenv(&self, env: &[(String, String)]) -> String {
        let configured = env.iter().find(|(name, _)| name == "WSLENV").map(|(_, value)| value);
        let mut names = configured.unwrap_or(&self.interop.wslenv).clone();
        for (name, _) in env.iter().filter(|(name, _)| name != "WSLENV") {
            let is_named = names.split(':').any(|entry| entry.split('/').next() == Some(name));
            if !is_named {
                let separator = if names.is_empty() { "" } else { ":" };
                // `w`: only on the way from here to Windows.
                names.push_str(&format!("{separator}{name}/w"));
            }
        }
        names
    }

    /// What ends the tree on the other side, of which only the relay can be seen from here.
    pub(super) fn killer(&self) -> Killer {
        let taskkill = self.machine.windows_program("taskkill.exe", "Windows/System32");
        Killer { command: taskkill.map(|path| self.machine.command(&path)), pid: Arc::default() }
    }
}

pub(super) struct Killer {
    command: Option<Command>,
    /// The process as Windows numbers it; unknown until it has started.
    pub(super) pid: Arc<OnceLock<u32>>,
}

impl Killer {
    /// Called when the relay has gone. One that exited has seen the end of its program; one that was killed has not,
    /// and its program's number is still the program's.
    pub(super) async fn finish(self, relay: Option<ExitStatus>) {
        let has_ended = relay.is_some_and(|status| status.code().is_some());
        let (Some(pid), false) = (self.pid.get(), has_ended) else { return };
        let Some(mut command) = self.command else {
            tracing::warn!(pid, "taskkill.exe was not found; a browser may be left on the Windows side");
            return;
        };
        command.args(["/PID", &pid.to_string(), "/T", "/F"]).kill_on_drop(true);
        match tokio::time::timeout(KILL_LIMIT, command.output()).await {
            Ok(Ok(_)) => tracing::debug!(pid, "ended what was left on the Windows side"),
            Ok(Err(error)) => tracing::warn!(pid, %error, "taskkill.exe could not be run"),
            Err(_) => tracing::warn!(pid, "taskkill.exe did not end"),
        }
    }
}

/// The address of a Windows path: `C:\a b` is `file:///C:/a%20b`, `\\host\share` is `file://host/share`.
pub(super) fn file_uri(path: &str) -> String {
    let forward = path.replace('\\', "/");
    let (start, rest) = match forward.strip_prefix("//") {
        Some(rest) => ("file://", rest),
        None => ("file:///", forward.as_str()),
    };
    // The name of WSL's own share has a dollar in it, and a drive a colon.
    format!("{start}{}", greenroom_core::percent::escape(rest, b"/$:"))
}

#[cfg(test)]
mod tests {
    use super::{Windows, file_uri};
    use crate::install::{Interop, Machine};

    #[test]
    fn windows_paths_become_addresses() {
        assert_eq!(file_uri(r"C:\Users\a b\ü"), "file:///C:/Users/a%20b/%C3%BC");
        assert_eq!(file_uri(r"\\wsl$\Debian\srv\x"), "file://wsl$/Debian/srv/x");
        assert_eq!(file_uri(r"\\wsl.localhost\Debian\x#y"), "file://wsl.localhost/Debian/x%23y");
    }

    #[test]
    fn variables_are_added_to_those_that_cross_over_already() {
        let wslenv = |existing: &str, names: &[(&str, &str)]| {
            let interop = Interop { drive: "/mnt/c".into(), wslenv: existing.to_owned() };
            let machine = Machine {
                path: "".into(),
                playwright_cache: None,
                is_root: false,
                is_debian: false,
                windows: Some(interop.clone()),
            };
            let env: Vec<_> =
                names.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Windows { machine, interop, wslpath: "wslpath".into() }.wslenv(&env)
        };
        assert_eq!(wslenv("", &[]), "");
        assert_eq!(wslenv("", &[("A", "1"), ("B", "2")]), "A/w:B/w");
        assert_eq!(wslenv("GOPATH/l:A/p", &[("A", "1"), ("B", "2")]), "GOPATH/l:A/p:B/w");
        assert_eq!(wslenv("LOST", &[("B", "2"), ("WSLENV", "OWN/u")]), "OWN/u:B/w");
    }
}
