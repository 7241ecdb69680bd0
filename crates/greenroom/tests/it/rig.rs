//! Starting Greenroom for a test.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use greenroom_testkit::{McpHttp, McpStdio, children_of, fake_upstream, wait_until};

/// A command that knows nothing of this machine's configuration.
pub(crate) fn greenroom(data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenroom"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let ours = ["GREENROOM_", "PW_MCP_PROXY_", "PLAYWRIGHT_", "XDG_"];
        if ours.iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    // Neither a .env nor a greenroom.toml lies there, and no configuration of the person who runs the tests.
    command.current_dir(data_dir).env("XDG_CONFIG_HOME", data_dir).env("GREENROOM_DATA_DIR", data_dir);
    command
}

/// Adds the fake upstream with these flags.
pub(crate) fn with_fake(mut command: Command, flags: &str) -> Command {
    command.env("GREENROOM_DRIVER", "custom");
    command.env("GREENROOM_UPSTREAM_COMMAND", format!("{} {flags}", fake_upstream().display()));
    command
}

/// Where the real browser server is installed, once for all tests of this target folder.
pub(crate) fn shared_data_dir() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let folder = target.join("test-data");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A data folder of its own, with the browser server of the shared one in it.
pub(crate) fn data_dir() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let shared = shared_data_dir();
    // Installed by the first test that needs it.
    let install =
        greenroom(folder.path()).env("GREENROOM_DATA_DIR", &shared).arg("install").output().unwrap();
    assert!(install.status.success(), "{}", String::from_utf8_lossy(&install.stderr));
    std::os::unix::fs::symlink(shared.join("upstream"), folder.path().join("upstream")).unwrap();
    folder
}

/// A data folder of its own, with the servers of both drivers in it.
pub(crate) fn data_dir_for_both() -> tempfile::TempDir {
    let folder = data_dir();
    let mut install = greenroom(folder.path());
    install.env("GREENROOM_DATA_DIR", shared_data_dir()).env("GREENROOM_DRIVER", "chrome-devtools");
    let installed = install.arg("install").output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    folder
}

/// Chromium's first process below a process.
pub(crate) fn browser_of(greenroom: u32) -> u32 {
    let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_browser =
        |pid: &u32| name(pid).contains("--remote-debugging-pipe") && !name(pid).contains("--type=");
    // Its launcher looks the same and stands above it.
    children_of(greenroom).into_iter().rfind(is_browser).expect("a browser runs")
}

/// `greenroom mcp` with the fake upstream.
pub(crate) struct StdioRig {
    pub(crate) client: McpStdio,
    _folder: tempfile::TempDir,
}

pub(crate) fn stdio(flags: &str) -> StdioRig {
    stdio_with(flags, &[])
}

pub(crate) fn stdio_with(flags: &str, variables: &[(&str, &str)]) -> StdioRig {
    let folder = tempfile::tempdir().unwrap();
    let mut command = with_fake(greenroom(folder.path()), flags);
    command.arg("mcp").envs(variables.iter().copied());
    StdioRig { client: McpStdio::spawn(command).with_timeout(Duration::from_secs(60)), _folder: folder }
}

/// A running `greenroom serve`; asked to stop when dropped, and waited for.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    log: Arc<Mutex<String>>,
    _folder: Option<tempfile::TempDir>,
}

impl Server {
    pub(crate) fn start(mut command: Command, folder: Option<tempfile::TempDir>) -> Self {
        command.args(["serve", "--port", "0"]);
        Self::begin(command, folder)
    }

    /// On the port that the command's environment says.
    pub(crate) fn start_as_configured(mut command: Command) -> Self {
        command.arg("serve");
        Self::begin(command, None)
    }

    fn begin(mut command: Command, folder: Option<tempfile::TempDir>) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let mut stderr = child.stderr.take().unwrap();
        let sink = Arc::clone(&log);
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = stderr.read(&mut chunk) {
                sink.lock().unwrap().push_str(&String::from_utf8_lossy(&chunk[..count]));
            }
        });
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("greenroom listening on ").map(|url| format!("{url}/mcp"));
        let Some(url) = url else {
            let _ = child.wait();
            panic!("no ready line, but {line:?}; the log was:\n{}", log.lock().unwrap());
        };
        Self { child, url, log, _folder: folder }
    }

    /// With the fake upstream.
    pub(crate) fn fake(flags: &str, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = with_fake(greenroom(folder.path()), flags);
        command.envs(variables.iter().copied());
        Self::start(command, Some(folder))
    }

    pub(crate) fn client(&self) -> McpHttp {
        McpHttp::connect(&self.url).with_timeout(Duration::from_secs(60))
    }

    /// The command line's way to this server: `restart`, `status` and the like.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Output {
        let folder = tempfile::tempdir().unwrap();
        self.asking(folder.path(), arguments).output().unwrap()
    }

    pub(crate) fn asking(&self, folder: &Path, arguments: &[&str]) -> Command {
        let port = self.url.rsplit(':').next().unwrap().trim_end_matches("/mcp");
        let mut command = greenroom(folder);
        command.args(arguments).args(["--port", port]);
        command
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        greenroom_testkit::send_signal(self.child.id(), "TERM");
        let child = &mut self.child;
        wait_until("greenroom stops after SIGTERM", Duration::from_secs(20), || {
            child.try_wait().unwrap().is_some()
        });
    }
}

/// At most so many tests with a browser at once: the machine has few cores, and a starved browser tells us nothing.
pub(crate) struct BrowserPermit(());

static BROWSERS: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());
const MOST_BROWSERS: usize = 2;

pub(crate) fn browser_permit() -> BrowserPermit {
    let (count, changed) = &BROWSERS;
    let mut count = changed.wait_while(count.lock().unwrap(), |count| *count >= MOST_BROWSERS).unwrap();
    *count += 1;
    BrowserPermit(())
}

impl Drop for BrowserPermit {
    fn drop(&mut self) {
        *BROWSERS.0.lock().unwrap() -= 1;
        BROWSERS.1.notify_all();
    }
}
