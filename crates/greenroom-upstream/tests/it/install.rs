//! The installer on machines whose every program is a stub of ours.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use greenroom_core::config::{Browser, BrowserConfig};
use greenroom_testkit::wait_until;
use greenroom_upstream::install::{
    InstallError, Installed, Installer, Interop, LOCK_FILE, Machine, Need, Server, Step,
};
use tempfile::TempDir;

use crate::support::{browser_config, chain, eventually, soon, write_program};

/// A machine in a folder: its programs, its Playwright cache, Greenroom's data, and a log of what was run.
struct Stage {
    folder: TempDir,
    is_root: bool,
    is_debian: bool,
    windows: Option<Interop>,
}

impl Stage {
    /// With nothing on it.
    fn bare() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let stage = Self { folder, is_root: true, is_debian: false, windows: None };
        for folder in ["bin", "cache"] {
            fs::create_dir(stage.path(folder)).expect("the folder is new");
        }
        stage
    }

    /// With Node and npm that work, and no browser.
    fn with_node() -> Self {
        let stage = Self::bare();
        stage.add_node("v20.1.0", "echo 'no route to the mirror' >&2; exit 1");
        stage.add_npm(NPM_WORKS);
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// Puts a program on the PATH. Its run is logged, with its arguments and where it ran.
    fn add_program(&self, name: &str, script: &str) -> PathBuf {
        let log = self.path("runs.log");
        let text = format!("#!/bin/sh\necho \"{name} $*\" >> '{}'\n{script}\n", log.display());
        let path = self.path("bin").join(name);
        write_program(&path, &text);
        path
    }

    /// `otherwise` is what it does with a script, and the only script it is given is Playwright's.
    fn add_node(&self, version: &str, otherwise: &str) {
        let script = format!("if [ \"$1\" = --version ]; then echo {version}; exit; fi\n{otherwise}");
        self.add_program("node", &script);
    }

    fn add_npm(&self, script: &str) {
        self.add_program("npm", script);
    }

    /// A build in Playwright's cache.
    fn add_cached(&self, program: &str) -> PathBuf {
        let path = self.path("cache").join(program);
        fs::create_dir_all(path.parent().expect("it is inside the cache")).expect("the cache can be written");
        write_program(&path, "#!/bin/sh\n");
        path
    }

    fn machine(&self) -> Machine {
        Machine {
            path: OsString::from(self.path("bin")),
            playwright_cache: Some(self.path("cache")),
            is_root: self.is_root,
            is_debian: self.is_debian,
            windows: self.windows.clone(),
        }
    }

    fn installer(&self) -> Installer {
        Installer::new(self.data(), self.machine(), true, |_| {})
    }

    async fn ensure(&self, browser: &BrowserConfig) -> Result<Installed, InstallError> {
        soon("the installation", self.installer().ensure(&Need::playwright(browser.clone()))).await
    }

    async fn browser(&self, browser: &BrowserConfig) -> PathBuf {
        self.ensure(browser).await.unwrap().browser.expect("it is on this machine")
    }

    /// What was run so far, a line each.
    fn runs(&self) -> Vec<String> {
        let log = fs::read_to_string(self.path("runs.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    fn runs_of(&self, program: &str) -> usize {
        self.runs().iter().filter(|run| run.split(' ').next() == Some(program)).count()
    }

    /// The folders of installed servers, finished or not.
    fn installed_folders(&self) -> Vec<String> {
        let entries = fs::read_dir(self.data().join("upstream")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

/// What `npm ci` leaves behind, as far as anyone looks. The PATH has nothing but stubs on it.
const NPM_WORKS: &str = "\
[ -f package.json ] && [ -f package-lock.json ] || exit 9
/bin/mkdir -p node_modules/@playwright/mcp
echo 'added 3 packages'
echo '{}' > node_modules/@playwright/mcp/package.json";

fn headless() -> BrowserConfig {
    BrowserConfig { headless: true, ..browser_config() }
}

fn headed() -> BrowserConfig {
    BrowserConfig { headless: false, ..headless() }
}

fn with_executable(path: impl Into<PathBuf>) -> BrowserConfig {
    BrowserConfig { executable_path: Some(path.into()), ..headless() }
}

// ---- installing ------------------------------------------------------------------------------------------------

#[tokio::test]
async fn two_installers_at_once_install_everything_once() {
    let mut stage = Stage::with_node();
    stage.is_debian = true;
    // npm takes until both have begun, or else one might be done before the other looks.
    let both = stage.path("both-have-begun");
    stage.add_npm(&format!("while [ ! -e '{}' ]; do /bin/sleep 0.01; done\n{NPM_WORKS}", both.display()));
    let shell = stage.path("bin").join("chromium-headless-shell");
    stage.add_program(
        "apt-get",
        &format!(
            "[ \"$1\" = update ] || {{ echo '#!/bin/sh' > '{0}'; /bin/chmod +x '{0}'; }}",
            shell.display()
        ),
    );

    let install = || {
        let (data, machine) = (stage.data(), stage.machine());
        let steps = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&steps);
        let installer = Installer::new(data, machine, true, move |step| noted.lock().unwrap().push(step));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(soon("the installation", installer.ensure(&Need::playwright(headless()))))
        });
        (thread, steps)
    };
    let installers = [install(), install()];
    let waits =
        |steps: &Mutex<Vec<Step>>| steps.lock().unwrap().iter().any(|step| matches!(step, Step::Waiting));
    let limit = std::time::Duration::from_secs(60);
    wait_until("one to wait for the other", limit, || installers.iter().any(|(_, steps)| waits(steps)));
    fs::write(&both, "").unwrap();

    for (thread, _) in installers {
        let installed = thread.join().unwrap().unwrap();
        assert_eq!(installed.browser.as_ref(), Some(&shell));
        assert_eq!(installed.node, stage.path("bin").join("node"));
        assert!(fs::read_to_string(&installed.script).unwrap().contains("createConnection"));
    }
    let runs = stage.runs();
    assert_eq!(stage.runs_of("npm"), 1, "{runs:?}");
    assert_eq!(stage.runs_of("apt-get"), 2, "an update and an installation: {runs:?}");
    assert!(runs.contains(&"npm ci --ignore-scripts --omit=dev --no-audit --no-fund".to_owned()), "{runs:?}");
    assert_eq!(stage.installed_folders().len(), 1);
}

#[tokio::test]
async fn what_is_installed_is_found_afterwards_without_running_anything() {
    let stage = Stage::with_node();
    let shell = stage.add_program("chromium-headless-shell", "");
    let first = stage.ensure(&headless()).await.unwrap();
    let runs = stage.runs();
    assert_eq!(stage.runs_of("npm"), 1, "{runs:?}");

    let steps = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&steps);
    let report = move |step| noted.lock().unwrap().push(format!("{step:?}"));
    // Installing is forbidden now: there is nothing to install.
    let installer = Installer::new(stage.data(), stage.machine(), false, report);
    let second = soon("the second look", installer.ensure(&Need::playwright(headless()))).await.unwrap();
    assert_eq!(
        (&second.node, &second.script, second.browser.as_ref()),
        (&first.node, &first.script, Some(&shell))
    );
    assert_eq!(stage.runs(), runs);
    assert_eq!(*steps.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn the_files_that_npm_installs_from_are_the_pinned_ones() {
    let stage = Stage::with_node();
    stage.add_program("chromium", "");
    let installed = stage.ensure(&headless()).await.unwrap();
    let packages = &installed.packages;
    assert_eq!(fs::read_to_string(packages.join("package-lock.json")).unwrap(), LOCK_FILE);
    assert!(packages.starts_with(stage.data()));
}

#[tokio::test]
async fn what_an_interrupted_installation_left_behind_is_cleared_away() {
    let stage = Stage::with_node();
    stage.add_program("chromium", "");
    let final_name = {
        // The name depends on the lock file: an installation elsewhere tells it.
        let elsewhere = Stage::with_node();
        elsewhere.add_program("chromium", "");
        elsewhere.ensure(&headless()).await.unwrap();
        elsewhere.installed_folders().remove(0)
    };
    let staging = stage.data().join("upstream").join(format!("{final_name}.incomplete"));
    fs::create_dir_all(staging.join("node_modules/half-a-package")).unwrap();

    let installed = stage.ensure(&headless()).await.unwrap();
    let packages = &installed.packages;
    assert!(!packages.join("node_modules/half-a-package").exists());
    assert_eq!(stage.installed_folders(), [final_name]);
}

#[tokio::test]
async fn an_installation_that_failed_is_done_again_by_the_next_one() {
    let stage = Stage::with_node();
    stage.add_program("chromium", "");
    stage.add_npm("/bin/mkdir -p node_modules/@playwright; exit 1");
    let installer = stage.installer();
    soon("the failure", installer.ensure(&Need::playwright(headless()))).await.unwrap_err();
    stage.add_npm(NPM_WORKS);
    // By the same installer: a failure is not kept.
    soon("the second try", installer.ensure(&Need::playwright(headless()))).await.unwrap();
    assert_eq!(stage.installed_folders().len(), 1);
}

#[tokio::test]
async fn those_who_want_the_same_at_once_share_one_attempt_and_its_failure() {
    let stage = Stage::with_node();
    stage.add_program("chromium", "");
    let installer = stage.installer();
    let firefox = Need::playwright(BrowserConfig { browser: Browser::Firefox, ..headless() });
    let all = (0..10).map(|_| installer.ensure(&firefox));
    let outcomes = soon("all of them", futures::future::join_all(all)).await;
    for outcome in outcomes {
        assert!(matches!(outcome, Err(InstallError::NoBrowser { .. })), "{outcome:?}");
    }
    let attempts = || stage.runs().iter().filter(|run| run.ends_with("install firefox")).count();
    assert_eq!(attempts(), 1, "{:?}", stage.runs());
    // A failure is not kept, and is nobody's who wants something else.
    soon("chromium", installer.ensure(&Need::playwright(headless()))).await.unwrap();
    soon("another try", installer.ensure(&firefox)).await.unwrap_err();
    assert_eq!(attempts(), 2, "{:?}", stage.runs());
}

#[tokio::test]
async fn each_kind_of_browser_is_found_for_itself() {
    let stage = Stage::with_node();
    let shell = stage.add_program("chromium-headless-shell", "");
    let chromium = stage.add_program("chromium", "");
    let chrome = stage.add_program("google-chrome", "");
    let own = stage.add_program("my-browser", "");
    let installer = stage.installer();
    for (config, expected) in [
        (headless(), &shell),
        (headed(), &chromium),
        (BrowserConfig { browser: Browser::Chrome, ..headless() }, &chrome),
        (with_executable(&own), &own),
        (headless(), &shell),
    ] {
        let installed =
            soon("the installation", installer.ensure(&Need::playwright(config.clone()))).await.unwrap();
        assert_eq!(installed.browser.as_ref(), Some(expected));
    }
    assert_eq!(stage.runs_of("npm"), 1, "{:?}", stage.runs());
}

#[tokio::test]
async fn an_attempt_that_nobody_waits_for_any_more_is_given_up() {
    let stage = Stage::with_node();
    stage.add_program("chromium", "");
    stage.add_npm("exec /bin/sleep 3600");
    let installer = stage.installer();
    let need = Need::playwright(headless());
    tokio::select! {
        outcome = installer.ensure(&need) => panic!("{outcome:?}"),
        () = eventually("npm to be run", || stage.runs_of("npm") == 1) => {}
    }
    // The lock is free, or this would wait for ever.
    stage.add_npm(NPM_WORKS);
    soon("the next attempt", installer.ensure(&need)).await.unwrap();
}

#[tokio::test]
async fn what_the_tools_print_is_reported_while_they_run() {
    let stage = Stage::with_node();
    stage.add_program("chromium", "");
    let steps = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&steps);
    let report = move |step| noted.lock().unwrap().push(format!("{step:?}"));
    let installer = Installer::new(stage.data(), stage.machine(), true, report);
    soon("the installation", installer.ensure(&Need::playwright(headless()))).await.unwrap();
    let expected = [
        "Begun(\"fetching the browser server (@playwright/mcp) with npm\")",
        "Output(\"added 3 packages\")",
        "Done",
    ];
    assert_eq!(*steps.lock().unwrap(), expected);
}

// ---- finding a browser -----------------------------------------------------------------------------------------

#[tokio::test]
async fn a_headless_browser_is_the_headless_shell_where_there_is_one() {
    let stage = Stage::with_node();
    let shell = stage.add_program("chromium-headless-shell", "");
    let chromium = stage.add_program("chromium", "");
    stage.add_program("google-chrome", "");
    assert_eq!(stage.browser(&headless()).await, shell);
    fs::remove_file(shell).unwrap();
    assert_eq!(stage.browser(&headless()).await, chromium);
}

#[tokio::test]
async fn a_browser_with_a_window_is_never_the_headless_shell() {
    let stage = Stage::with_node();
    stage.add_program("chromium-headless-shell", "");
    stage.add_cached("chromium_headless_shell-1200/chrome-linux/headless_shell");
    let cached = stage.add_cached("chromium-1200/chrome-linux/chrome");
    assert_eq!(stage.browser(&headed()).await, cached);
    let chromium = stage.add_program("chromium", "");
    assert_eq!(stage.browser(&headed()).await, chromium);
}

#[tokio::test]
async fn the_newest_build_in_playwrights_cache_is_taken() {
    let stage = Stage::with_node();
    stage.add_cached("chromium_headless_shell-999/chrome-linux/headless_shell");
    let newest = stage.add_cached("chromium_headless_shell-1201/chrome-linux/headless_shell");
    stage.add_cached("chromium_headless_shell-1200/chrome-linux/headless_shell");
    stage.add_cached("chromium-9999/chrome-linux/chrome");
    // A download that was interrupted has a folder and no program in it.
    fs::create_dir_all(stage.path("cache/chromium_headless_shell-1300/chrome-linux")).unwrap();
    stage.add_cached("chromium_headless_shell-latest/chrome-linux/headless_shell");
    assert_eq!(stage.browser(&headless()).await, newest);
}

#[tokio::test]
async fn both_layouts_of_playwrights_cache_are_known() {
    for program in [
        "chromium_headless_shell-1200/chrome-linux/headless_shell",
        "chromium_headless_shell-1200/chrome-headless-shell-linux64/chrome-headless-shell",
        "chromium-1200/chrome-linux64/chrome",
    ] {
        let stage = Stage::with_node();
        let cached = stage.add_cached(program);
        assert_eq!(stage.browser(&headless()).await, cached);
    }
}

#[tokio::test]
async fn each_kind_of_browser_is_looked_for_under_its_own_names() {
    let stage = Stage::with_node();
    stage.add_program("chromium", "");
    let chrome = stage.add_program("google-chrome-stable", "");
    let edge = stage.add_program("microsoft-edge", "");
    let firefox = stage.add_cached("firefox-1500/firefox/firefox");
    let webkit = stage.add_cached("webkit-2200/pw_run.sh");
    for (browser, program) in [
        (Browser::Chrome, chrome),
        (Browser::Edge, edge),
        (Browser::Firefox, firefox),
        (Browser::Webkit, webkit),
    ] {
        let config = BrowserConfig { browser, ..headless() };
        assert_eq!(stage.browser(&config).await, program);
    }
}

#[tokio::test]
async fn a_configured_executable_wins_over_everything_that_could_be_found() {
    let stage = Stage::with_node();
    stage.add_program("chromium-headless-shell", "");
    let own = stage.path("my-browser");
    write_program(&own, "#!/bin/sh\n");
    assert_eq!(stage.browser(&with_executable(&own)).await, own);
    let named = stage.add_program("brave", "");
    assert_eq!(stage.browser(&with_executable("brave")).await, named);
}

#[tokio::test]
async fn a_configured_executable_that_is_not_there_is_an_error_that_names_it() {
    let stage = Stage::with_node();
    stage.add_program("chromium", "");
    for wrong in ["/no/such/browser", "no-such-browser", "/"] {
        let error = stage.ensure(&with_executable(wrong)).await.unwrap_err();
        assert!(matches!(error, InstallError::NoSuchExecutable { .. }), "{error:?}");
        assert!(error.to_string().starts_with(&format!("EXECUTABLE_PATH names {wrong},")), "{error}");
    }
}

// ---- fetching a browser ----------------------------------------------------------------------------------------

/// What Playwright's `install` leaves behind, as far as anyone looks.
fn playwright_works(stage: &Stage) -> (PathBuf, String) {
    let program = stage.path("cache").join("chromium_headless_shell-1200/chrome-linux/headless_shell");
    let folder = program.parent().expect("it has one").display();
    let script = format!("/bin/mkdir -p '{folder}'; echo > '{}'", program.display());
    (program, script)
}

#[tokio::test]
async fn a_missing_browser_is_fetched_with_playwright() {
    let mut stage = Stage::with_node();
    stage.is_debian = true;
    stage.add_program("apt-get", "exit 1");
    let (program, script) = playwright_works(&stage);
    stage.add_node("v20.1.0", &script);
    let installed = stage.ensure(&headless()).await.unwrap();
    assert_eq!(installed.browser, Some(program));
    let cli = installed.packages.join("node_modules/playwright/cli.js");
    let run = format!("node {} install chromium --only-shell", cli.display());
    assert!(stage.runs().contains(&run), "{:?}", stage.runs());
    assert_eq!(stage.runs_of("apt-get"), 0, "{:?}", stage.runs());
}

#[tokio::test]
async fn debians_package_is_installed_where_playwright_cannot_fetch_one() {
    let mut stage = Stage::with_node();
    stage.is_debian = true;
    let chromium = stage.path("bin").join("chromium");
    // The list cannot be updated, and what is there will do.
    let script = format!(
        "[ \"$1\" = install ] || exit 100\necho '#!/bin/sh' > '{0}'; /bin/chmod +x '{0}'",
        chromium.display()
    );
    stage.add_program("apt-get", &script);
    assert_eq!(stage.browser(&headed()).await, chromium);
    let run = "apt-get install -y --no-install-recommends chromium".to_owned();
    assert!(stage.runs().contains(&run), "{:?}", stage.runs());
}

#[tokio::test]
async fn debians_package_manager_is_left_alone_by_those_who_may_not_use_it() {
    for (is_root, is_debian) in [(false, true), (true, false)] {
        let stage = Stage { is_root, is_debian, ..Stage::with_node() };
        stage.add_program("apt-get", "exit 0");
        let error = stage.ensure(&headless()).await.unwrap_err();
        assert!(matches!(error, InstallError::NoBrowser { .. }), "{error:?}");
        assert_eq!(stage.runs_of("apt-get"), 0);
    }
}

#[tokio::test]
async fn when_no_browser_can_be_had_the_error_gives_the_commands_and_what_was_tried() {
    let mut stage = Stage::with_node();
    stage.is_debian = true;
    stage.add_program("apt-get", "echo 'E: Unable to locate package' >&2; exit 100");
    let error = stage.ensure(&headless()).await.unwrap_err();
    let shown = error.to_string();
    let packages = stage.data().join("upstream").join(stage.installed_folders().remove(0));
    let playwright = format!("`node {}/node_modules/playwright/cli.js install chromium`", packages.display());
    for part in [
        "no chromium was found on this machine, and none could be installed",
        "`sudo apt-get install chromium-headless-shell`",
        &playwright,
        "EXECUTABLE_PATH",
        "E: Unable to locate package",
    ] {
        assert!(shown.contains(part), "{part:?} is not in {shown:?}");
    }
}

#[tokio::test]
async fn a_browser_that_only_playwright_has_is_not_looked_for_at_debian() {
    let mut stage = Stage::with_node();
    stage.is_debian = true;
    stage.add_program("apt-get", "exit 0");
    let error = stage.ensure(&BrowserConfig { browser: Browser::Firefox, ..headless() }).await.unwrap_err();
    let shown = error.to_string();
    assert!(shown.contains("install firefox`") && shown.contains("no route to the mirror"), "{shown}");
    assert!(!shown.contains("apt-get"), "{shown}");
    assert_eq!(stage.runs_of("apt-get"), 0);
}

// ---- what can go wrong -----------------------------------------------------------------------------------------

#[tokio::test]
async fn without_node_the_error_says_what_to_install() {
    let error = Stage::bare().ensure(&headless()).await.unwrap_err();
    assert!(matches!(error, InstallError::NodeMissing), "{error:?}");
    let shown = error.to_string();
    assert!(
        shown.contains("version 20 or newer") && shown.contains("`apt-get install nodejs npm`"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_node_that_is_too_old_is_named_before_anything_is_installed() {
    for (version, is_new_enough) in
        [("v16.0.0", false), ("v19.9.1", false), ("v20.0.0", true), ("v100.2.3", true), ("nonsense", false)]
    {
        let stage = Stage::with_node();
        stage.add_program("chromium", "");
        stage.add_node(version, "exit 1");
        let outcome = stage.ensure(&headless()).await;
        if is_new_enough {
            outcome.unwrap();
            continue;
        }
        let error = outcome.unwrap_err();
        assert!(matches!(&error, InstallError::NodeTooOld { found, .. } if found == version), "{error:?}");
        assert!(error.to_string().starts_with(&format!("Node.js {version} is too old")), "{error}");
        assert_eq!(stage.runs_of("npm"), 0);
    }
}

#[tokio::test]
async fn without_npm_the_error_says_what_to_install() {
    let stage = Stage::bare();
    stage.add_node("v20.1.0", "exit 1");
    let error = stage.ensure(&headless()).await.unwrap_err();
    assert!(matches!(error, InstallError::NpmMissing), "{error:?}");
    assert!(error.to_string().contains("`apt-get install npm`"), "{error}");
}

#[tokio::test]
async fn when_npm_fails_the_error_gives_its_output_and_the_command_to_run_by_hand() {
    let stage = Stage::with_node();
    stage.add_npm("echo 'npm error code ENOTFOUND' >&2; echo 'npm error network' >&2; exit 1");
    let error = stage.ensure(&headless()).await.unwrap_err();
    let InstallError::CommandFailed { command, output } = &error else { panic!("{error:?}") };
    assert_eq!(output, &["npm error code ENOTFOUND", "npm error network"]);
    let (folder, npm) = command.strip_prefix("cd ").unwrap().split_once(" && ").unwrap();
    assert_eq!(npm, "npm ci --ignore-scripts --omit=dev --no-audit --no-fund");
    // The command works as it stands: the folder is still there, with what npm needs in it.
    assert!(Path::new(folder).join("package-lock.json").is_file(), "{folder}");
    let shown = error.to_string();
    assert!(shown.contains(command.as_str()) && shown.contains("npm error code ENOTFOUND"), "{shown}");
}

#[tokio::test]
async fn where_installing_is_forbidden_the_error_says_what_is_missing() {
    let stage = Stage::with_node();
    let forbidden = || Installer::new(stage.data(), stage.machine(), false, |_| {});
    let error = soon("the refusal", forbidden().ensure(&Need::playwright(headless()))).await.unwrap_err();
    assert!(matches!(error, InstallError::Forbidden { .. }), "{error:?}");
    let shown = error.to_string();
    assert!(shown.contains("@playwright/mcp") && shown.contains("`greenroom install`"), "{shown}");

    let chromium = stage.add_program("chromium", "");
    stage.ensure(&headless()).await.unwrap();
    fs::remove_file(chromium).unwrap();
    let runs = stage.runs();
    let error = soon("the refusal", forbidden().ensure(&Need::playwright(headless()))).await.unwrap_err();
    assert!(error.to_string().starts_with("a browser (chromium) is not installed"), "{error}");
    assert_eq!(stage.runs(), runs);
}

#[tokio::test]
async fn a_data_folder_that_cannot_be_made_is_named_with_the_cause() {
    let stage = Stage::with_node();
    stage.add_program("chromium", "");
    // Below a file nobody can make a folder, not even root.
    fs::write(stage.path("a-file"), "").unwrap();
    let data = stage.path("a-file").join("data");
    let installer = Installer::new(data.clone(), stage.machine(), true, |_| {});
    let error = soon("the refusal", installer.ensure(&Need::playwright(headless()))).await.unwrap_err();
    assert!(matches!(&error, InstallError::Folder { path, .. } if path == &data), "{error:?}");
    assert!(error.to_string().contains("`--data-dir`"), "{error}");
    assert!(chain(&error).ends_with("Not a directory (os error 20)"), "{}", chain(&error));
}

// ---- for Windows -----------------------------------------------------------------------------------------------

fn on_windows() -> BrowserConfig {
    BrowserConfig { wsl_windows: true, ..headless() }
}

#[tokio::test]
async fn for_windows_only_the_packages_are_fetched_and_no_browser_is_looked_for() {
    let mut stage = Stage::with_node();
    stage.is_debian = true;
    stage.windows = Some(Interop { drive: stage.path("c"), wslenv: String::new() });
    stage.add_program("apt-get", "exit 1");
    stage.add_program("chromium", "");
    let node = stage.add_program("node.exe", "exit 1");
    let installed = stage.ensure(&on_windows()).await.unwrap();
    assert_eq!((installed.node, installed.browser), (node.clone(), None));
    assert!(installed.script.is_file());
    assert_eq!((stage.runs_of("npm"), stage.runs_of("apt-get")), (1, 0), "{:?}", stage.runs());

    // Off the PATH it is looked for where Windows puts it.
    fs::remove_file(node).unwrap();
    let usual = stage.path("c").join("Program Files/nodejs/node.exe");
    fs::create_dir_all(usual.parent().unwrap()).unwrap();
    write_program(&usual, "#!/bin/sh\n");
    assert_eq!(stage.ensure(&on_windows()).await.unwrap().node, usual);
}

#[tokio::test]
async fn without_a_windows_or_its_node_the_error_says_what_to_do() {
    let mut stage = Stage::with_node();
    let error = stage.ensure(&on_windows()).await.unwrap_err();
    assert!(matches!(error, InstallError::NotWsl), "{error:?}");
    assert!(error.to_string().contains("WSL_WINDOWS"), "{error}");
    stage.windows = Some(Interop { drive: stage.path("c"), wslenv: String::new() });
    let error = stage.ensure(&on_windows()).await.unwrap_err();
    assert!(matches!(error, InstallError::WindowsNodeMissing), "{error:?}");
    let shown = error.to_string();
    assert!(shown.contains(r"C:\Program Files\nodejs") && shown.contains("winget.exe install"), "{shown}");
    assert_eq!(stage.runs(), Vec::<String>::new());
}

// ---- the second server -----------------------------------------------------------------------------------------

const NPM_WORKS_FOR_DEVTOOLS: &str = "\
/bin/mkdir -p node_modules/chrome-devtools-mcp/build/src/bin
echo > node_modules/chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js";

#[tokio::test]
async fn each_server_is_fetched_only_when_it_is_needed() {
    let stage = Stage::with_node();
    stage.add_node("v20.19.0", "");
    let chromium = stage.add_program("chromium", "");
    stage.add_npm(NPM_WORKS_FOR_DEVTOOLS);
    let installer = stage.installer();
    let devtools = soon("the installation", installer.ensure(&Need::devtools(headless()))).await.unwrap();
    assert_eq!(devtools.browser, Some(chromium));
    assert!(devtools.script.is_file() && devtools.script.starts_with(&devtools.packages));
    // Without a browser it is the same server, and it is there.
    let alone = soon("the second look", installer.ensure(&Need::to_attach(Server::Devtools))).await.unwrap();
    assert_eq!((alone.script, alone.browser), (devtools.script, None));
    let folders = stage.installed_folders();
    assert!(matches!(&folders[..], [only] if only.starts_with("devtools-")), "{folders:?}");
    stage.add_npm(NPM_WORKS);
    stage.ensure(&headless()).await.unwrap();
    assert_eq!(stage.installed_folders().len(), 2);
}

#[tokio::test]
async fn the_second_server_needs_a_newer_node_and_a_browser_is_fetched_by_the_first() {
    let stage = Stage::with_node();
    stage.add_program("chromium", "");
    stage.add_npm(NPM_WORKS_FOR_DEVTOOLS);
    stage.add_node("v20.18.3", "");
    let error = soon("the refusal", stage.installer().ensure(&Need::devtools(headless()))).await.unwrap_err();
    assert!(error.to_string().contains("20.19 or newer"), "{error}");

    let stage = Stage::with_node();
    stage.add_node("v22.12.0", "");
    stage.add_npm(&format!("{NPM_WORKS}\n{NPM_WORKS_FOR_DEVTOOLS}"));
    let error = soon("the failure", stage.installer().ensure(&Need::devtools(headless()))).await.unwrap_err();
    assert!(matches!(error, InstallError::NoBrowser { .. }), "{error:?}");
    assert_eq!(stage.installed_folders().len(), 2);
}
