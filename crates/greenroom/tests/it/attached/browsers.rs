//! A Chromium with a debugging port, as a person would start it.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use greenroom_testkit::{McpHttp, process_alive, wait_until};
use serde_json::Value;

use crate::rig::{greenroom, shared_data_dir};

const PATIENCE: Duration = Duration::from_secs(60);

const OPTIONS: [&str; 6] = [
    "--headless",
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
];

pub(crate) struct Chromium {
    program: PathBuf,
    profile: tempfile::TempDir,
    port: u16,
    child: Option<Child>,
    /// Processes that somebody else has started for us.
    adopted: Vec<u32>,
}

impl Chromium {
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Self { program: program(), profile, port: 0, child: None, adopted: Vec::new() };
        browser.launch();
        let file = browser.profile.path().join("DevToolsActivePort");
        let read = || std::fs::read_to_string(&file).ok()?.lines().next()?.parse().ok();
        wait_until("the browser to name its port", PATIENCE, || read().is_some());
        browser.port = read().unwrap();
        browser.wait_until_up();
        browser
    }

    /// After `stop`, at the same address.
    pub(crate) fn start_again(&mut self) {
        self.launch();
        self.wait_until_up();
    }

    fn arguments(&self, port: &str) -> Vec<String> {
        let mut arguments: Vec<_> = OPTIONS.iter().map(|option| (*option).to_owned()).collect();
        arguments.push(format!("--remote-debugging-port={port}"));
        arguments.push(format!("--user-data-dir={}", self.profile.path().display()));
        arguments.push("about:blank".to_owned());
        arguments
    }

    /// A group of its own: the program may be a script that stands in front of the browser.
    fn launch(&mut self) {
        let mut command = Command::new(&self.program);
        command.args(self.arguments(&self.port.to_string())).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
    }

    /// How somebody else would start it.
    pub(crate) fn command_line(&self, port: &str) -> String {
        format!("{} {}", self.program.display(), self.arguments(port).join(" "))
    }

    fn wait_until_up(&self) {
        wait_until("the browser to answer", PATIENCE, || self.get("/json/version").is_some());
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn get(&self, path: &str) -> Option<Value> {
        let mut client = McpHttp::connect(&format!("{}/", self.url())).with_timeout(PATIENCE);
        let (_, _, body) = client.try_raw("GET", path, &[], b"").ok()?;
        serde_json::from_slice(&body).ok()
    }

    /// The addresses of its pages, as the browser itself says.
    pub(crate) fn pages(&self) -> Vec<String> {
        let list = self.get("/json/list").expect("the browser answers");
        let pages = list.as_array().unwrap().iter().filter(|target| target["type"] == "page");
        pages.map(|page| page["url"].as_str().unwrap().to_owned()).collect()
    }

    /// Its address for WebSockets.
    pub(crate) fn socket(&self) -> String {
        let version = self.get("/json/version").expect("the browser answers");
        version["webSocketDebuggerUrl"].as_str().unwrap().to_owned()
    }

    /// Every process that has our profile, which we end from now on.
    pub(crate) fn adopt(&mut self) -> Vec<u32> {
        let ours = format!("--user-data-dir={}", self.profile.path().display());
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        self.adopted = pids
            .filter(|pid| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                line.split(|byte| *byte == 0).any(|word| word == ours.as_bytes())
            })
            .collect();
        assert!(!self.adopted.is_empty(), "somebody has started it");
        self.adopted.clone()
    }

    pub(crate) fn stop(&mut self) {
        for pid in self.adopted.drain(..) {
            greenroom_testkit::send_signal(pid, "KILL");
            wait_until("the browser to be gone", PATIENCE, || !process_alive(pid));
        }
        let Some(mut child) = self.child.take() else { return };
        let group = format!("-{}", child.id());
        let killed =
            Command::new("sh").args(["-c", "kill -s KILL -- \"$1\"", "sh", &group]).status().unwrap();
        assert!(killed.success());
        child.wait().unwrap();
        wait_until("its port to be free", PATIENCE, || self.get("/json/version").is_none());
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The browser that Greenroom has found or fetched.
fn program() -> PathBuf {
    let folder = tempfile::tempdir().unwrap();
    let mut install = greenroom(folder.path());
    install.env("GREENROOM_DATA_DIR", shared_data_dir()).env("GREENROOM_DRIVER", "chrome-devtools");
    let installed = install.arg("install").output().unwrap();
    let shown = String::from_utf8_lossy(&installed.stdout).into_owned();
    let path = shown.lines().find_map(|line| line.trim().strip_prefix("chromium "));
    path.unwrap_or_else(|| panic!("{shown}")).trim().into()
}
