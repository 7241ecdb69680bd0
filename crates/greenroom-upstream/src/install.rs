//! Getting what a browser needs onto the machine: the pinned server through npm, and a browser.
//!
//! Installing is idempotent and safe to run twice at once: a file lock is held, what is there is looked at again
//! under the lock, and a folder appears under its final name only when it is complete.

mod browser;
mod machine;
mod packages;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use greenroom_core::config::BrowserConfig;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Command;

pub use machine::{Interop, Machine};
pub use packages::LOCK_FILE;

/// What the driver starts from.
#[derive(Clone, Debug)]
pub struct Installed {
    pub node: PathBuf,
    pub host_script: PathBuf,
    /// None where it is found by Windows.
    pub browser: Option<PathBuf>,
}

/// What a machine has. Errors say what to do.
pub struct Survey {
    pub node: Result<(PathBuf, String), InstallError>,
    pub npm: Option<PathBuf>,
    pub server: Option<PathBuf>,
    pub browser: Result<Option<(PathBuf, String)>, InstallError>,
}

/// What happens during an installation, for whoever shows it.
#[derive(Clone, Debug)]
pub enum Step {
    /// Another process is installing; we wait for it.
    Waiting,
    Begun(String),
    /// A line that a tool printed meanwhile.
    Output(String),
    Done,
}

/// Can be cloned: one attempt may have been waited for by many.
#[derive(Clone, Debug, thiserror::Error)]
pub enum InstallError {
    #[error(
        "Node.js was not found. Install version 20 or newer, for example with `apt-get install nodejs npm`, and \
         make sure that `node` is on the PATH"
    )]
    NodeMissing,
    #[error(
        "Node.js {found} is too old: version 20 or newer is needed. Update it; `node --version` shows what runs"
    )]
    NodeTooOld { found: String },
    #[error("WSL_WINDOWS is for the Windows Node run from WSL, and this is not WSL. Remove the setting")]
    NotWsl,
    #[error(
        "node.exe was found neither on the PATH nor in C:\\Program Files\\nodejs. Install Node.js 20 or newer on Windows, \
         for example with `winget.exe install OpenJS.NodeJS.LTS`, or remove WSL_WINDOWS to use the Node of this Linux"
    )]
    WindowsNodeMissing,
    #[error("npm was not found, and it is needed to fetch the browser server. Run `apt-get install npm`")]
    NpmMissing,
    #[error("{what} is not installed, and `--no-install` forbids installing it. Run `greenroom install`")]
    Forbidden { what: String },
    #[error("`{command}` failed; run it by hand to see why{}", detail(output))]
    CommandFailed { command: String, output: Vec<String> },
    #[error(
        "no {browser} was found on this machine, and none could be installed. {}{}",
        advice,
        detail(output)
    )]
    NoBrowser { browser: String, advice: String, output: Vec<String> },
    #[error("EXECUTABLE_PATH names {}, and there is no program there. Correct it, or remove it to have a browser found", path.display())]
    NoSuchExecutable { path: PathBuf },
    #[error("{} cannot be written. Make it writable, or choose another folder with `--data-dir`", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: Arc<std::io::Error>,
    },
}

fn detail(output: &[String]) -> String {
    if output.is_empty() { String::new() } else { format!("; it printed:\n{}", output.join("\n")) }
}

fn folder(path: &Path) -> impl FnOnce(std::io::Error) -> InstallError + use<> {
    let path = path.to_owned();
    move |source| InstallError::Folder { path, source: Arc::new(source) }
}

const SERVER: &str = "the browser server (@playwright/mcp)";

type Report = Arc<dyn Fn(Step) + Send + Sync>;

/// What of a configuration decides which browser it takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wanted {
    browser: &'static str,
    headless: bool,
    executable: Option<PathBuf>,
    is_on_windows: bool,
}

impl Wanted {
    fn of(config: &BrowserConfig) -> Self {
        Self {
            browser: config.browser.name(),
            headless: config.headless,
            executable: config.executable_path.clone(),
            is_on_windows: config.wsl_windows,
        }
    }
}

type Attempt = BoxFuture<'static, Result<Installed, InstallError>>;

/// How far one kind of browser is.
enum Progress {
    /// Those who wait hold the attempt; when the last one stops waiting, it ends.
    Underway(WeakShared<Attempt>),
    /// What the first success found. A browser that vanishes later shows when it is launched.
    Found(Installed),
}

/// Installs into one data folder.
#[derive(Clone)]
pub struct Installer {
    data_dir: PathBuf,
    machine: Machine,
    may_install: bool,
    report: Report,
    progress: Arc<Mutex<HashMap<Wanted, Progress>>>,
}

impl Installer {
    pub fn new(
        data_dir: PathBuf,
        machine: Machine,
        may_install: bool,
        report: impl Fn(Step) + Send + Sync + 'static,
    ) -> Self {
        Self { data_dir, machine, may_install, report: Arc::new(report), progress: Arc::default() }
    }

    /// Finds everything that is needed, and installs what is missing. Those who want the same at the same time share one
    /// attempt and its outcome; whoever comes after a failure tries again.
    pub async fn ensure(&self, browser: &BrowserConfig) -> Result<Installed, InstallError> {
        let wanted = Wanted::of(browser);
        let attempt = match self.join(&wanted, browser) {
            Ok(installed) => return Ok(installed),
            Err(attempt) => attempt,
        };
        let outcome = attempt.await;
        if let Ok(installed) = &outcome {
            self.progress().insert(wanted, Progress::Found(installed.clone()));
        }
        outcome
    }

    /// What was found before, or else the attempt to wait for.
    fn join(&self, wanted: &Wanted, browser: &BrowserConfig) -> Result<Installed, Shared<Attempt>> {
        let mut progress = self.progress();
        match progress.get(wanted) {
            Some(Progress::Found(installed)) => return Ok(installed.clone()),
            Some(Progress::Underway(attempt)) => {
                // One that is over has failed, or it would have been found.
                if let Some(attempt) = attempt.upgrade().filter(|attempt| attempt.peek().is_none()) {
                    return Err(attempt);
                }
            }
            None => {}
        }
        let (installer, browser) = (self.clone(), browser.clone());
        let attempt = async move { installer.find_or_install(&browser).await }.boxed().shared();
        let weak = attempt.downgrade().expect("it has not been polled");
        progress.insert(wanted.clone(), Progress::Underway(weak));
        Err(attempt)
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, HashMap<Wanted, Progress>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn find_or_install(&self, browser: &BrowserConfig) -> Result<Installed, InstallError> {
        if browser.wsl_windows {
            return self.find_or_install_for_windows().await;
        }
        let node = self.machine.program("node").ok_or(InstallError::NodeMissing)?;
        let packages = packages::folder(&self.data_dir);
        let found = browser::find(&self.machine, browser)?;
        // The usual case: everything is there, and no lock is needed to see that.
        if let (Some(browser), true) = (&found, packages::is_complete(&packages)) {
            let host_script = packages::host_script(&packages)?;
            return Ok(Installed { node, host_script, browser: Some(browser.clone()) });
        }
        if !packages::is_complete(&packages) {
            self.permit(SERVER)?;
        }
        if found.is_none() {
            self.permit(&format!("a browser ({})", browser.browser.name()))?;
        }
        let _lock = self.lock().await?;
        self.install_packages(&node, &packages).await?;
        let browser = match browser::find(&self.machine, browser)? {
            Some(path) => path,
            None => browser::install(self, browser, &node, &packages).await?,
        };
        let host_script = packages::host_script(&packages)?;
        Ok(Installed { node, host_script, browser: Some(browser) })
    }

    /// Windows has the Node and the browser. The packages are plain scripts, so the npm of this Linux may fetch them.
    async fn find_or_install_for_windows(&self) -> Result<Installed, InstallError> {
        if self.machine.windows.is_none() {
            return Err(InstallError::NotWsl);
        }
        let node = self.machine.windows_program("node.exe", "Program Files/nodejs");
        let node = node.ok_or(InstallError::WindowsNodeMissing)?;
        let packages = packages::folder(&self.data_dir);
        if !packages::is_complete(&packages) {
            self.permit(SERVER)?;
            let npms_node = self.machine.program("node").ok_or(InstallError::NodeMissing)?;
            let _lock = self.lock().await?;
            self.install_packages(&npms_node, &packages).await?;
        }
        let host_script = packages::host_script(&packages)?;
        Ok(Installed { node, host_script, browser: None })
    }

    /// Needs the lock.
    async fn install_packages(&self, node: &Path, packages: &Path) -> Result<(), InstallError> {
        if !packages::is_complete(packages) {
            self.node_version(node).await?;
            packages::install(self, packages).await?;
        }
        Ok(())
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What is there, without changing anything.
    pub async fn survey(&self, browser: &BrowserConfig) -> Survey {
        let node = match self.machine.program("node") {
            Some(path) => self.node_version(&path).await.map(|version| (path, version)),
            None => Err(InstallError::NodeMissing),
        };
        let packages = packages::folder(&self.data_dir);
        let browser = match browser::find(&self.machine, browser) {
            Ok(Some(path)) => {
                let output = self.machine.command(&path).arg("--version").output().await;
                let version = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
                Ok(Some((path, version.unwrap_or_else(|error| format!("does not start: {error}")))))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        Survey {
            node,
            npm: self.machine.program("npm"),
            server: packages::is_complete(&packages).then_some(packages),
            browser,
        }
    }

    fn permit(&self, what: &str) -> Result<(), InstallError> {
        if self.may_install { Ok(()) } else { Err(InstallError::Forbidden { what: what.to_owned() }) }
    }

    async fn lock(&self) -> Result<File, InstallError> {
        std::fs::create_dir_all(&self.data_dir).map_err(folder(&self.data_dir))?;
        let path = self.data_dir.join("install.lock");
        let file = File::options().create(true).append(true).open(&path).map_err(folder(&path))?;
        if file.try_lock().is_ok() {
            return Ok(file);
        }
        (self.report)(Step::Waiting);
        let locked = tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await;
        locked.expect("locking does not panic").map_err(folder(&path))
    }

    /// The version, if it is new enough.
    async fn node_version(&self, node: &Path) -> Result<String, InstallError> {
        let output = self.machine.command(node).arg("--version").output().await;
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        let found = text.map_err(|_| InstallError::NodeMissing)?;
        let major =
            found.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_some_and(|major| major >= 20) {
            Ok(found)
        } else {
            Err(InstallError::NodeTooOld { found })
        }
    }

    /// Runs a tool, showing what it prints; gives back its last lines when it fails.
    async fn run(&self, begun: &str, mut command: Command) -> Result<(), Vec<String>> {
        (self.report)(Step::Begun(begun.to_owned()));
        let outcome = self.run_quietly(&mut command).await;
        (self.report)(Step::Done);
        outcome
    }

    async fn run_quietly(&self, command: &mut Command) -> Result<(), Vec<String>> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| vec![error.to_string()])?;
        let stdout = child.stdout.take().expect("it is piped");
        let stderr = child.stderr.take().expect("it is piped");
        let (out, err, status) = tokio::join!(self.pass_on(stdout), self.pass_on(stderr), child.wait());
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => Err(if err.is_empty() { out } else { err }),
            Err(error) => Err(vec![error.to_string()]),
        }
    }

    async fn pass_on(&self, stream: impl AsyncRead + Unpin) -> Vec<String> {
        let mut lines = BufReader::new(stream).lines();
        let mut last = Vec::new();
        while let Ok(Some(line)) = lines.next_line().await {
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                continue;
            }
            (self.report)(Step::Output(line.clone()));
            if last.len() == 8 {
                last.remove(0);
            }
            last.push(line);
        }
        last
    }
}
