//! Finding a browser, and fetching one where there is none.

use std::path::{Path, PathBuf};

use greenroom_core::config::{Browser, BrowserConfig};

use super::machine::Machine;
use super::{InstallError, Installer};

/// A place to look in, in the order of preference.
enum Candidate {
    /// A program on the PATH.
    Program(&'static str),
    /// In Playwright's cache: folders that begin with the first, and the program's name inside.
    Cached(&'static str, &'static [&'static str]),
}

use Candidate::{Cached, Program};

const HEADLESS_SHELL: Candidate =
    Cached("chromium_headless_shell-", &["headless_shell", "chrome-headless-shell"]);
const CACHED_CHROMIUM: Candidate = Cached("chromium-", &["chrome"]);

/// The headless shell comes first for headless use: it needs half the memory.
fn candidates(config: &BrowserConfig) -> Vec<Candidate> {
    let chromium = [Program("chromium"), Program("chromium-browser")];
    let chrome = [Program("google-chrome"), Program("google-chrome-stable")];
    match config.browser {
        Browser::Chromium if config.headless => {
            [Program("chromium-headless-shell"), Program("chrome-headless-shell")]
                .into_iter()
                .chain(chromium)
                .chain(chrome)
                .chain([HEADLESS_SHELL, CACHED_CHROMIUM])
                .collect()
        }
        Browser::Chromium => chromium.into_iter().chain(chrome).chain([CACHED_CHROMIUM]).collect(),
        Browser::Chrome => chrome.into_iter().collect(),
        Browser::Edge => vec![Program("microsoft-edge"), Program("microsoft-edge-stable")],
        Browser::Firefox => vec![Cached("firefox-", &["firefox"])],
        Browser::Webkit => vec![Cached("webkit-", &["pw_run.sh"])],
    }
}

/// The configured browser, else the first that is found.
pub(super) fn find(machine: &Machine, config: &BrowserConfig) -> Result<Option<PathBuf>, InstallError> {
    if let Some(path) = &config.executable_path {
        let by_name = path.to_str().filter(|name| !name.contains('/')).and_then(|name| machine.program(name));
        let found = by_name.or_else(|| path.is_file().then(|| path.clone()));
        return found.map(Some).ok_or_else(|| InstallError::NoSuchExecutable { path: path.clone() });
    }
    Ok(candidates(config).into_iter().find_map(|candidate| match candidate {
        Program(name) => machine.program(name),
        Cached(prefix, programs) => find_cached(machine.playwright_cache.as_deref()?, prefix, programs),
    }))
}

/// The newest build of that kind: `chromium-1200/chrome-linux64/chrome` and its like.
fn find_cached(cache: &Path, prefix: &str, programs: &[&str]) -> Option<PathBuf> {
    let build = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix(prefix)?.parse::<u64>().ok()
    };
    let mut builds: Vec<_> =
        entries(cache).into_iter().filter_map(|path| Some((build(&path)?, path))).collect();
    builds.sort_by_key(|(build, _)| std::cmp::Reverse(*build));
    builds.into_iter().find_map(|(_, folder)| {
        let inside = std::iter::once(folder.clone()).chain(entries(&folder));
        inside
            .flat_map(|folder| programs.iter().map(move |name| folder.join(name)))
            .find(|path| path.is_file())
    })
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

pub(super) async fn install(
    installer: &Installer,
    config: &BrowserConfig,
    node: &Path,
    packages: &Path,
) -> Result<PathBuf, InstallError> {
    let machine = &installer.machine;
    let mut output = Vec::new();
    let name = config.browser.name();

    let mut command = machine.command(node);
    command.arg(packages.join("node_modules/playwright/cli.js")).arg("install").arg(name);
    if config.browser == Browser::Chromium && config.headless {
        command.arg("--only-shell");
    }
    // The default is half a minute for each of several mirrors.
    command.env("PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT", "10000");
    match installer.run(&format!("fetching {name} with Playwright"), command).await {
        Ok(()) => {
            if let Some(path) = find(machine, config)? {
                return Ok(path);
            }
        }
        Err(lines) => output = lines,
    }

    if let (Some(package), true, true) = (debian_package(config), machine.is_debian, machine.is_root)
        && let Some(apt) = machine.program("apt-get")
    {
        let mut update = machine.command(&apt);
        update.arg("update");
        // A stale list may still do.
        let _ = installer.run("reading Debian's package lists", update).await;
        let mut install = machine.command(&apt);
        install.args(["install", "-y", "--no-install-recommends", package]);
        install.env("DEBIAN_FRONTEND", "noninteractive");
        match installer.run(&format!("installing Debian's {package}"), install).await {
            Ok(()) => {
                if let Some(path) = find(machine, config)? {
                    return Ok(path);
                }
            }
            Err(lines) => output = lines,
        }
    }
    let advice = advice(config, packages);
    Err(InstallError::NoBrowser { browser: name.to_owned(), advice, output })
}

fn debian_package(config: &BrowserConfig) -> Option<&'static str> {
    match config.browser {
        Browser::Chromium if config.headless => Some("chromium-headless-shell"),
        Browser::Chromium => Some("chromium"),
        _ => None,
    }
}

fn advice(config: &BrowserConfig, packages: &Path) -> String {
    let playwright = format!(
        "`node {}/node_modules/playwright/cli.js install {}`",
        packages.display(),
        config.browser.name()
    );
    match debian_package(config) {
        Some(package) => format!(
            "Run `sudo apt-get install {package}` on Debian, or {playwright}, or set EXECUTABLE_PATH to a browser \
             that you have"
        ),
        None => format!("Run {playwright}, or set EXECUTABLE_PATH to a browser that you have"),
    }
}
