//! Getting what a browser needs onto the machine: the pinned servers through npm, each when it is needed, and a browser.
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
pub(crate) use packages::DEVTOOLS_LOCK_FILE;
pub use packages::LOCK_FILE;
use packages::{DEVTOOLS, PLAYWRIGHT, Package};

/// What the driver starts from.
#[derive(Clone, Debug)]
pub struct Installed {
    pub node: PathBuf,
    /// What Node runs: our host around the server, or the server's own program.
    pub script: PathBuf,
    /// Where the server's packages are.
    pub packages: PathBuf,
    /// None where it is found by Windows, or where somebody else starts it.
    pub browser: Option<PathBuf>,
}

/// The servers that are installed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Server {
    Playwright,
    Devtools,
}

impl Server {
    /// The name of its package.
    pub fn name(self) -> &'static str {
        match self {
            Self::Playwright => "@playwright/mcp",
            Self::Devtools => "chrome-devtools-mcp",
        }
    }

    fn package(self) -> Package {
        match self {
            Self::Playwright => PLAYWRIGHT,
            Self::Devtools => DEVTOOLS,
        }
    }

    /// The oldest Node that it runs on, as major and minor version.
    fn oldest_node(self) -> (u32, u32) {
        match self {
            Self::Playwright => (20, 0),
            Self::Devtools => (20, 19),
        }
    }
}

/// A server, and the browser that it launches; none where it attaches to one that runs.
#[derive(Clone, Debug)]
pub struct Need {
    pub server: Server,
    pub browser: Option<BrowserConfig>,
}

impl Need {
    pub fn playwright(browser: BrowserConfig) -> Self {
        Self { server: Server::Playwright, browser: Some(browser) }
    }

    pub fn devtools(browser: BrowserConfig) -> Self {
        Self { server: Server::Devtools, browser: Some(browser) }
    }

    /// The server alone, for browsers that somebody else has started.
    pub fn to_attach(server: Server) -> Self {
        Self { server, browser: None }
    }

    /// Whether both come to the same installation.
    pub fn is_like(&self, other: &Self) -> bool {
        Wanted::of(self) == Wanted::of(other)
    }
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
        "Node.js {found} is too old: version {needed} or newer is needed. Update it; `node --version` shows what runs"
    )]
    NodeTooOld { found: String, needed: String },
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

type Report = Arc<dyn Fn(Step) + Send + Sync>;

/// What of a need decides what is looked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wanted {
    server: Server,
    browser: Option<WantedBrowser>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WantedBrowser {
    name: &'static str,
    headless: bool,
    executable: Option<PathBuf>,
    is_on_windows: bool,
}

impl Wanted {
    fn of(need: &Need) -> Self {
        let browser = need.browser.as_ref().map(|config| WantedBrowser {
            name: config.browser.name(),
            headless: config.headless,
            executable: config.executable_path.clone(),
            is_on_windows: config.wsl_windows,
        });
        Self { server: need.server, browser }
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
    pub async fn ensure(&self, need: &Need) -> Result<Installed, InstallError> {
        let wanted = Wanted::of(need);
        let attempt = match self.join(&wanted, need) {
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
    fn join(&self, wanted: &Wanted, need: &Need) -> Result<Installed, Shared<Attempt>> {
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
        let (installer, need) = (self.clone(), need.clone());
        let attempt = async move { installer.find_or_install(&need).await }.boxed().shared();
        let weak = attempt.downgrade().expect("it has not been polled");
        progress.insert(wanted.clone(), Progress::Underway(weak));
        Err(attempt)
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, HashMap<Wanted, Progress>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn find_or_install(&self, need: &Need) -> Result<Installed, InstallError> {
        if need.server == Server::Playwright
            && need.browser.as_ref().is_some_and(|browser| browser.wsl_windows)
        {
            return self.find_or_install_for_windows().await;
        }
        let node = self.machine.program("node").ok_or(InstallError::NodeMissing)?;
        let packages = need.server.package().folder(&self.data_dir);
        let find = || match &need.browser {
            Some(browser) => Ok::<_, InstallError>(browser::find(&self.machine, browser)?.map(Some)),
            None => Ok(Some(None)),
        };
        let (found, is_complete) = (find()?, need.server.package().is_complete(&packages));
        // The usual case: everything is there, and no lock is needed to see that.
        if let (Some(browser), true) = (&found, is_complete) {
            return Self::installed(need.server, node, packages, browser.clone());
        }
        if !is_complete {
            self.permit(need.server.package().title)?;
        }
        if let (Some(browser), None) = (&need.browser, &found) {
            self.permit(&format!("a browser ({})", browser.browser.name()))?;
        }
        let _lock = self.lock().await?;
        self.install_packages(need.server, &node, &packages).await?;
        let browser = match (find()?, &need.browser) {
            (Some(found), _) => found,
            (None, Some(browser)) => {
                // It is Playwright that knows where to fetch one.
                let playwright = PLAYWRIGHT.folder(&self.data_dir);
                self.install_packages(Server::Playwright, &node, &playwright).await?;
                Some(browser::install(self, browser, &node, &playwright).await?)
            }
            (None, None) => None,
        };
        Self::installed(need.server, node, packages, browser)
    }

    fn installed(
        server: Server,
        node: PathBuf,
        packages: PathBuf,
        browser: Option<PathBuf>,
    ) -> Result<Installed, InstallError> {
        let script = match server {
            Server::Playwright => packages::host_script(&packages)?,
            Server::Devtools => packages::devtools_script(&packages),
        };
        Ok(Installed { node, script, packages, browser })
    }

    /// Windows has the Node and the browser. The packages are plain scripts, so the npm of this Linux may fetch them.
    async fn find_or_install_for_windows(&self) -> Result<Installed, InstallError> {
        if self.machine.windows.is_none() {
            return Err(InstallError::NotWsl);
        }
        let node = self.machine.windows_program("node.exe", "Program Files/nodejs");
        let node = node.ok_or(InstallError::WindowsNodeMissing)?;
        let packages = PLAYWRIGHT.folder(&self.data_dir);
        if !PLAYWRIGHT.is_complete(&packages) {
            self.permit(PLAYWRIGHT.title)?;
            let npms_node = self.machine.program("node").ok_or(InstallError::NodeMissing)?;
            let _lock = self.lock().await?;
            self.install_packages(Server::Playwright, &npms_node, &packages).await?;
        }
        Self::installed(Server::Playwright, node, packages, None)
    }

    /// Needs the lock.
    async fn install_packages(
        &self,
        server: Server,
        node: &Path,
        packages: &Path,
    ) -> Result<(), InstallError> {
        let package = server.package();
        if !package.is_complete(packages) {
            self.node_version(node, server).await?;
            package.install(self, packages).await?;
        }
        Ok(())
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What is there, without changing anything.
    pub async fn survey(&self, need: &Need) -> Survey {
        let node = match self.machine.program("node") {
            Some(path) => self.node_version(&path, need.server).await.map(|version| (path, version)),
            None => Err(InstallError::NodeMissing),
        };
        let packages = need.server.package().folder(&self.data_dir);
        let found = match &need.browser {
            Some(browser) => browser::find(&self.machine, browser),
            None => Ok(None),
        };
        let browser = match found {
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
            server: need.server.package().is_complete(&packages).then_some(packages),
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
    async fn node_version(&self, node: &Path, server: Server) -> Result<String, InstallError> {
        let output = self.machine.command(node).arg("--version").output().await;
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        let found = text.map_err(|_| InstallError::NodeMissing)?;
        let mut numbers = found.trim_start_matches('v').split('.').map(|part| part.parse::<u32>().ok());
        let version = (numbers.next().flatten(), numbers.next().flatten());
        let oldest @ (major, minor) = server.oldest_node();
        if version.0.is_some_and(|found| (found, version.1.unwrap_or(0)) >= oldest) {
            return Ok(found);
        }
        let needed = if minor == 0 { major.to_string() } else { format!("{major}.{minor}") };
        Err(InstallError::NodeTooOld { found, needed })
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
