//! `@playwright/mcp`, inside our host.

mod options;
mod results;
pub(super) mod shared;
mod windows;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use greenroom_core::config::{BrowserConfig, Profile, UpstreamConfig};
use greenroom_core::percent::escape;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::process::Command;

use super::profile::{self, ProfileLock};
use super::reading::{ReadLog, Reading};
use super::{Behind, Driver, LaunchError, Overlap, Upstream};
use crate::host::{Host, HostError, SCRIPTS, Wire};
use crate::install::{InstallError, Installed, Installer, Need};
use crate::process::Epilogue;
use crate::run_folder::Run;
use options::Places;
use shared::SharedHost;
use windows::{Killer, Windows};

pub use windows::WindowsError;

/// Runs code inside the upstream's own process.
const UNSAFE_TOOL: &str = "browser_run_code_unsafe";

pub struct PlaywrightDriver {
    browser: BrowserConfig,
    env: Vec<(String, String)>,
    start_timeout: Duration,
    message_limit: usize,
    allow_unsafe_code: bool,
    setup: PlaywrightSetup,
}

/// What the driver needs from its surroundings.
pub struct PlaywrightSetup {
    pub run: Arc<Run>,
    pub installer: Installer,
    /// Where files without a name of their own go, unless configured.
    pub output_dir: PathBuf,
    /// What relative file names are relative to, and what files may be read from.
    pub workspace: PathBuf,
    /// Where the profile is kept, if it is and no other place is configured.
    pub profile_dir: PathBuf,
    /// Whether a browser is brought up with the server, rather than by the first call.
    pub warm: bool,
}

impl PlaywrightDriver {
    pub fn new(browser: BrowserConfig, upstream: &UpstreamConfig, setup: PlaywrightSetup) -> Self {
        Self {
            browser,
            env: upstream.env.clone(),
            start_timeout: upstream.start_timeout,
            message_limit: upstream.max_message_bytes,
            allow_unsafe_code: upstream.allow_unsafe_code,
            setup,
        }
    }

    /// Where this path leads: what is relative is so to the workspace.
    fn absolute(&self, path: &Path) -> PathBuf {
        self.setup.workspace.join(path)
    }

    fn output_dir(&self) -> PathBuf {
        self.absolute(self.browser.output_dir.as_deref().unwrap_or(&self.setup.output_dir))
    }

    /// The folder of a profile that is kept.
    fn profile_dir(&self) -> Option<PathBuf> {
        match &self.browser.profile {
            Profile::Isolated => None,
            Profile::Kept => Some(self.absolute(&self.setup.profile_dir)),
            Profile::At(path) => Some(self.absolute(path)),
        }
    }

    /// The file that an isolated browser begins with. One that cannot be read would fail every call.
    async fn storage_state(&self) -> Result<Option<PathBuf>, LaunchError> {
        let Some(path) = &self.browser.storage_state else { return Ok(None) };
        let path = self.absolute(path);
        if self.browser.profile != Profile::Isolated {
            tracing::warn!(path = %path.display(), "STORAGE_STATE is for isolated browsers; the profile brings its own");
            return Ok(None);
        }
        match tokio::fs::read(&path).await {
            Ok(text) => match serde_json::from_slice::<Map<_, _>>(&text) {
                Ok(_) => Ok(Some(path)),
                Err(source) => Err(LaunchError::StorageState { path, source }),
            },
            Err(source) => Err(LaunchError::File { key: "STORAGE_STATE", path, source }),
        }
    }

    async fn init_scripts(&self) -> Result<Vec<PathBuf>, LaunchError> {
        let mut scripts = Vec::new();
        for path in &self.browser.init_scripts {
            let path = self.absolute(path);
            if let Err(source) = tokio::fs::read(&path).await {
                return Err(LaunchError::File { key: "INIT_SCRIPT", path, source });
            }
            scripts.push(path);
        }
        Ok(scripts)
    }

    /// A host with one connection.
    async fn launch_host(&self) -> Result<Upstream, LaunchError> {
        // From here on until the browser has gone.
        let lock = match self.profile_dir() {
            Some(path) => Some(profile::take(&path).await?),
            None => None,
        };
        self.within_limit(lock, async |host, _, places| self.connect(host, &places).await).await
    }

    /// A host without a connection, for as many as will come.
    async fn launch_shared_host(&self) -> Result<SharedHost, LaunchError> {
        self.within_limit(None, async |host, side, places| {
            let (browser, message_limit) = (self.browser.clone(), self.message_limit);
            Ok(SharedHost::new(host, browser, side, places, message_limit, self.start_timeout))
        })
        .await
    }

    /// Starts a host and prepares it, in the time that there is for both.
    async fn within_limit<T>(
        &self,
        lock: Option<ProfileLock>,
        prepare: impl AsyncFnOnce(Host, Side, Places) -> Result<T, LaunchError>,
    ) -> Result<T, LaunchError> {
        let installed = self.setup.installer.ensure(&Need::playwright(self.browser.clone())).await?;
        let side = self.side()?;
        let places = self.places(&installed, &side).await?;
        let mut command = Command::new(&installed.node);
        command
            .arg(side.path(&installed.script).await?)
            .current_dir(&self.setup.workspace)
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        let (mut wire, mut killer) = (Wire::Socket, None);
        if let Side::Windows(windows) = &side {
            command.env("WSLENV", windows.wslenv(&self.env));
            wire = Wire::Pipes;
            killer = Some(windows.killer());
        }
        let number = killer.as_ref().map(|killer| Arc::clone(&killer.pid)).unwrap_or_default();
        let host = Host::spawn_with(command, wire, &self.setup.run, Some(farewell(lock, killer))).await?;
        let watch = host.watch();
        let prepared = async {
            let started = host.start(options::start_request(&self.browser, &places)).await?;
            let _ = number.set(started.pid);
            prepare(host, side, places).await
        };
        match tokio::time::timeout(self.start_timeout, prepared).await {
            Ok(prepared) => prepared,
            Err(_) => Err(LaunchError::TooSlow {
                what: "the browser host (node)".to_owned(),
                task: "get ready",
                limit: self.start_timeout,
                last_output: watch.last_output(),
            }),
        }
    }

    fn side(&self) -> Result<Side, LaunchError> {
        if !self.browser.wsl_windows {
            return Ok(Side::Here);
        }
        let windows = Windows::beside(self.setup.installer.machine())?.ok_or(InstallError::NotWsl)?;
        Ok(Side::Windows(windows))
    }

    /// Looks for everything that is configured, and makes the folders.
    async fn places(&self, installed: &Installed, side: &Side) -> Result<Places, LaunchError> {
        let output_dir = self.output_dir();
        tokio::fs::create_dir_all(&output_dir)
            .await
            .map_err(|source| LaunchError::Folder { path: output_dir.clone(), source })?;
        let mut init_scripts = Vec::new();
        for script in self.init_scripts().await? {
            init_scripts.push(side.path(&script).await?);
        }
        let executable = match side {
            Side::Here => installed.browser.clone(),
            // Nobody looked for one: what is not configured is found over there.
            Side::Windows(_) => self.browser.executable_path.clone(),
        };
        let machine = self.setup.installer.machine();
        Ok(Places {
            executable: side.optional_path(executable.as_deref()).await?,
            output_dir: side.path(&output_dir).await?,
            profile: side.optional_path(self.profile_dir().as_deref()).await?,
            storage_state: side.optional_path(self.storage_state().await?.as_deref()).await?,
            init_scripts,
            root: match side {
                Side::Here => file_uri(&self.setup.workspace),
                Side::Windows(windows) => windows::file_uri(&windows.path(&self.setup.workspace).await?),
            },
            is_root: machine.is_root && matches!(side, Side::Here),
        })
    }

    /// From a host that runs to a connection that can be used.
    async fn connect(&self, host: Host, places: &Places) -> Result<Upstream, LaunchError> {
        let options = options::context_options(&self.browser, places);
        let roots = vec![places.root.clone()];
        let (context, peer) =
            host.open(options, json!({}), roots, self.message_limit).await.map_err(refused_options)?;
        let info = peer.initialize().await?;
        if self.setup.warm {
            host.warm(context).await?;
        }
        // Windows has names of its own for it.
        let folder = (!self.browser.wsl_windows).then(|| self.output_dir());
        Ok(Upstream { peer, info, behind: Behind::Host { host, context }, folder })
    }
}

/// Opening needs no browser: what fails it is what was asked for.
fn refused_options(error: HostError) -> LaunchError {
    match error {
        HostError::Refused(why) => LaunchError::Options(why),
        error => error.into(),
    }
}

/// Where Node runs, and so what paths look like to it.
enum Side {
    Here,
    Windows(Windows),
}

impl Side {
    async fn path(&self, path: &Path) -> Result<String, WindowsError> {
        match self {
            // One that is not Unicode cannot be said in a message to Node.
            Self::Here => Ok(path.to_string_lossy().into_owned()),
            // A configured program may have been named as Windows does.
            Self::Windows(_) if !path.is_absolute() => Ok(path.to_string_lossy().into_owned()),
            Self::Windows(windows) => windows.path(path).await,
        }
    }

    async fn optional_path(&self, path: Option<&Path>) -> Result<Option<String>, WindowsError> {
        match path {
            Some(path) => self.path(path).await.map(Some),
            None => Ok(None),
        }
    }
}

/// When the host and its browser have gone: what is left on the other side goes too, and then the profile is given back,
/// so that whoever waits for the end finds it free.
fn farewell(lock: Option<ProfileLock>, killer: Option<Killer>) -> Epilogue {
    Box::new(move |status| {
        async move {
            if let Some(killer) = killer {
                killer.finish(status).await;
            }
            drop(lock);
        }
        .boxed()
    })
}

impl Driver for PlaywrightDriver {
    fn name(&self) -> &str {
        "playwright"
    }

    fn launch(&self) -> BoxFuture<'_, Result<Upstream, LaunchError>> {
        self.launch_host().boxed()
    }

    fn launch_shared(&self) -> Option<BoxFuture<'_, Result<SharedHost, LaunchError>>> {
        Some(self.launch_shared_host().boxed())
    }

    fn overlap(&self) -> Overlap {
        Overlap::InTurn
    }

    fn tool_list_name(&self) -> Option<String> {
        // The list depends on the pinned version, on the capabilities and on how our script asks for it.
        let mut hash = Sha256::new();
        hash.update(crate::install::LOCK_FILE);
        for (_, text) in SCRIPTS {
            hash.update(text);
        }
        hash.update(self.browser.caps.join(","));
        let digest = hash.finalize();
        Some(digest[..8].iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn offers(&self, tool: &str) -> bool {
        self.allow_unsafe_code || tool != UNSAFE_TOOL
    }

    fn tools_in_server(&self) -> &'static [&'static str] {
        &[UNSAFE_TOOL]
    }

    fn takes_files(&self, tool: &str) -> Option<&'static str> {
        ["browser_file_upload", "browser_drop"].contains(&tool).then_some("paths")
    }

    fn read(&self, text: &str) -> Option<Reading> {
        Some(results::read(text))
    }

    fn reads(&self) -> bool {
        true
    }

    fn read_log(&self) -> ReadLog {
        results::read_log
    }

    fn screenshot_call(&self) -> Option<(&'static str, Value)> {
        Some(("browser_take_screenshot", json!({ "type": "jpeg", "scale": "css" })))
    }

    fn asks_for_part(&self, tool: &str, arguments: &Map<String, Value>) -> bool {
        tool == "browser_snapshot"
            && ["target", "ref", "depth"]
                .iter()
                .any(|name| arguments.get(*name).is_some_and(|part| !part.is_null()))
    }
}

fn file_uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    format!("file://{}", escape(path.as_os_str().as_bytes(), b"/"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn paths_become_uris_that_come_back_as_the_same_path() {
        assert_eq!(super::file_uri(Path::new("/a b/ü#?%")), "file:///a%20b/%C3%BC%23%3F%25");
    }
}
