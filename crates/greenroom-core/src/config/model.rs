//! The typed configuration that the rest of the program reads.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::browsers;
use super::mistake::Mistake;
use super::pools::{self, PoolConfig, Reply, ToolFilter};
use super::settings::{Settings, Source, View, place};
use super::value::Value;
use crate::attach::AttachedConfig;
use crate::supervision::Supervision;

#[derive(Clone, Debug)]
pub struct Config {
    pub http: HttpConfig,
    pub data_dir: Option<PathBuf>,
    pub log: String,
    pub log_format: LogFormat,
    pub addressing: Addressing,
    pub drain_timeout: Duration,
    /// Calls without a session get one that belongs to their connection.
    pub session_per_connection: bool,
    /// `None`: any number.
    pub max_sessions_per_caller: Option<usize>,
    /// `None`: those started over REST never expire.
    pub rest_session_idle: Option<Duration>,
    pub session_files_grace: Duration,
    /// `None`: nothing is written down.
    pub history: Option<HistoryConfig>,
    /// Browsers that somebody else has started.
    pub browsers: Vec<AttachedConfig>,
    pub connect: ConnectPolicy,
    pub browser_limits: BrowserLimits,
    /// At least one; the default pool first.
    pub pools: Vec<PoolConfig>,
    /// Every value with its source, for `config show`.
    pub settings: Arc<Settings>,
}

/// Which parameters are added to the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    Auto,
    Session,
    Pool,
    Browser,
}

/// Which browsers agents may attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectPolicy {
    Nobody,
    /// Those on this machine.
    #[default]
    Loopback,
    Anybody,
}

/// What holds for calls to attached browsers.
#[derive(Clone, Debug, Default)]
pub struct BrowserLimits {
    /// `None`: a call may take as long as it takes.
    pub call_timeout: Option<Duration>,
    /// Bytes of text in one reply at most; 0 for any number.
    pub reply_budget: usize,
    /// How calls are answered that do not say.
    pub reply: Reply,
    /// Which of their tools there are.
    pub tools: ToolFilter,
    /// When they are looked at, and when they count as gone. They are never restarted.
    pub supervision: Supervision,
}

/// What is written down of calls, and for how long. `None`: forever, or without bound.
#[derive(Clone, Copy, Debug)]
pub struct HistoryConfig {
    /// A loss of power loses nothing either.
    pub survives_power_loss: bool,
    pub retention: Option<Duration>,
    pub max_database_bytes: Option<u64>,
    /// Larger results are files of their own.
    pub blob_threshold: usize,
    pub blob_ttl: Option<Duration>,
    pub blob_max_bytes: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct HttpConfig {
    pub host: String,
    pub port: u16,
    pub public_url: Option<String>,
    pub max_request_bytes: usize,
    /// `None`: MCP sessions never expire.
    pub mcp_session_idle: Option<Duration>,
    /// Whose web pages may ask, beside our own.
    pub web_origins: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Debug)]
pub struct UpstreamConfig {
    pub driver: Driver,
    pub env: Vec<(String, String)>,
    /// `None`: a call may take as long as it takes.
    pub call_timeout: Option<Duration>,
    pub start_timeout: Duration,
    pub supervision: Supervision,
    pub max_message_bytes: usize,
    pub allow_unsafe_code: bool,
}

#[derive(Clone, Debug)]
pub enum Driver {
    Playwright(Box<BrowserConfig>),
    ChromeDevtools(Box<BrowserConfig>),
    Custom(CustomConfig),
}

impl Driver {
    /// The browser that it launches, where Greenroom knows.
    pub fn browser(&self) -> Option<&BrowserConfig> {
        match self {
            Self::Playwright(browser) | Self::ChromeDevtools(browser) => Some(browser),
            Self::Custom(_) => None,
        }
    }

    /// Whether it is known to show pages, so that each agent wants one of its own.
    pub fn has_pages(&self) -> bool {
        self.browser().is_some()
    }
}

#[derive(Clone, Debug)]
pub struct CustomConfig {
    pub transport: Transport,
}

#[derive(Clone, Debug)]
pub enum Transport {
    Stdio { program: String, args: Vec<String> },
    Http { url: String },
}

#[derive(Clone, Debug)]
pub struct BrowserConfig {
    pub browser: Browser,
    pub headless: bool,
    pub executable_path: Option<PathBuf>,
    /// `None`: whoever launches the browser decides, since it depends on who is running.
    pub no_sandbox: Option<bool>,
    pub viewport: Option<(u32, u32)>,
    pub caps: Vec<String>,
    pub timeout_action: Duration,
    pub timeout_navigation: Duration,
    pub timeout_settle: Duration,
    pub ignore_https_errors: bool,
    pub output_dir: Option<PathBuf>,
    pub profile: Profile,
    /// A name from Playwright's list of devices.
    pub device: Option<String>,
    pub user_agent: Option<String>,
    /// Cookies and local storage that an isolated browser begins with.
    pub storage_state: Option<PathBuf>,
    pub allowed_origins: Vec<String>,
    pub blocked_origins: Vec<String>,
    pub proxy_server: Option<String>,
    pub proxy_bypass: Option<String>,
    pub image_responses: ImageResponses,
    /// Scripts that run in every page before its own.
    pub init_scripts: Vec<PathBuf>,
    /// Run the Windows Node from WSL.
    pub wsl_windows: bool,
}

/// Where a browser keeps cookies, storage and the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Profile {
    /// In memory; gone with the browser.
    Isolated,
    /// In the data folder, in a folder of the instance's own.
    Kept,
    At(PathBuf),
}

/// Whether images reach the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageResponses {
    Allow,
    Omit,
    Only,
}

impl ImageResponses {
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Omit => "omit",
            Self::Only => "only",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Browser {
    Chromium,
    Chrome,
    Edge,
    Firefox,
    Webkit,
}

impl Browser {
    pub fn name(self) -> &'static str {
        match self {
            Self::Chromium => "chromium",
            Self::Chrome => "chrome",
            Self::Edge => "msedge",
            Self::Firefox => "firefox",
            Self::Webkit => "webkit",
        }
    }

    fn named(name: &str) -> Self {
        [Self::Chromium, Self::Chrome, Self::Edge, Self::Firefox, Self::Webkit]
            .into_iter()
            .find(|browser| browser.name() == name)
            .expect("BROWSER is one of its choices")
    }

    /// Whether it is Chromium or built from it.
    pub fn is_chromium(self) -> bool {
        matches!(self, Self::Chromium | Self::Chrome | Self::Edge)
    }
}

impl Config {
    /// Every call goes to a browser that somebody else has started.
    pub fn has_only_browsers(&self) -> bool {
        match self.addressing {
            Addressing::Browser => true,
            Addressing::Auto => !self.browsers.is_empty() && self.pools.iter().all(|pool| pool.is_implicit),
            Addressing::Session | Addressing::Pool => false,
        }
    }

    /// Reads the settings into types and checks what only shows when keys are seen together. Where a key has a
    /// mistake of its own its default stands in, so that the checks can go on.
    pub(super) fn build(settings: Settings, mistakes: &mut Vec<Mistake>) -> Self {
        let settings = Arc::new(settings);
        let read = Reader::new(settings.view(None, None));
        let http = HttpConfig {
            host: read.text("HTTP_HOST"),
            port: u16::try_from(read.number("HTTP_PORT")).expect("HTTP_PORT is a port"),
            public_url: read.optional_text("PUBLIC_URL"),
            max_request_bytes: read.mebibytes("MAX_REQUEST_MB"),
            mcp_session_idle: read.optional_duration("MCP_SESSION_IDLE"),
            web_origins: read.list("CORS_ORIGINS").unwrap_or_default(),
        };
        if !is_loopback(&http.host) {
            mistakes.push(Mistake::new(
                read.place("HTTP_HOST"),
                format!(
                    "`{}` can be reached from other machines, and anyone who reaches Greenroom can drive its \
                     browsers",
                    http.host
                ),
                "Listen on `127.0.0.1`, `::1` or `localhost`; put a reverse proxy that authenticates in front \
                 for anything else.",
            ));
        }
        let log_format = match read.text("LOG_FORMAT").as_str() {
            "json" => LogFormat::Json,
            _ => LogFormat::Text,
        };
        let addressing = match read.text("ADDRESSING").as_str() {
            "pool" => Addressing::Pool,
            "session" => Addressing::Session,
            "browser" => Addressing::Browser,
            _ => Addressing::Auto,
        };
        let (data_dir, log) = (read.path("DATA_DIR"), read.text("LOG"));
        let drain_timeout = read.duration("DRAIN_TIMEOUT");
        let session_per_connection = read.text("IMPLICIT_SESSION") == "connection";
        let max_sessions_per_caller =
            usize::try_from(read.number("MAX_SESSIONS_PER_CALLER")).ok().filter(|most| *most > 0);
        let rest_session_idle = read.optional_duration("REST_SESSION_IDLE_TIMEOUT");
        let session_files_grace = read.duration("SESSION_FILES_GRACE");
        let history = read.bool("HISTORY").then(|| HistoryConfig {
            survives_power_loss: read.text("HISTORY_DURABILITY") == "power",
            retention: read.bound("RETENTION_DAYS").map(|days| Duration::from_secs(days * 24 * 60 * 60)),
            max_database_bytes: read.bound("MAX_DATABASE_MB").map(|size| size * 1024 * 1024),
            blob_threshold: usize::try_from(read.number("BLOB_THRESHOLD_KB")).unwrap_or(usize::MAX) * 1024,
            blob_ttl: read.bound("BLOB_TTL_HOURS").map(|hours| Duration::from_secs(hours * 60 * 60)),
            blob_max_bytes: read.bound("BLOB_MAX_MB").map(|size| size * 1024 * 1024),
        });
        let browsers = browsers::build(&settings, &read, mistakes);
        let connect = match read.text("CONNECT_BROWSERS").as_str() {
            "none" => ConnectPolicy::Nobody,
            "any" => ConnectPolicy::Anybody,
            _ => ConnectPolicy::Loopback,
        };
        let browser_limits = BrowserLimits {
            call_timeout: read.optional_duration("CALL_TIMEOUT"),
            reply_budget: usize::try_from(read.number("REPLY_BUDGET")).unwrap_or(usize::MAX),
            reply: Reply::named(&read.text("REPLY")).unwrap_or_default(),
            tools: ToolFilter::read(&read),
            supervision: read.supervision(),
        };
        let pools = pools::build(&settings, mistakes);
        Self {
            http,
            data_dir,
            log,
            log_format,
            addressing,
            drain_timeout,
            session_per_connection,
            max_sessions_per_caller,
            rest_session_idle,
            session_files_grace,
            history,
            browsers,
            connect,
            browser_limits,
            pools,
            settings,
        }
    }
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Keys that only Playwright can honour.
const NOT_DEVTOOLS: [&str; 12] = [
    "CAPS",
    "TIMEOUT",
    "TIMEOUT_ACTION",
    "TIMEOUT_NAVIGATION",
    "TIMEOUT_SETTLE",
    "STORAGE_STATE",
    "DEVICE",
    "ALLOWED_ORIGINS",
    "BLOCKED_ORIGINS",
    "IMAGE_RESPONSES",
    "INIT_SCRIPT",
    "WSL_WINDOWS",
];

/// Those that keep pages from something.
const GUARDS: [&str; 2] = ["ALLOWED_ORIGINS", "BLOCKED_ORIGINS"];

/// Typed access to settings whose kinds the key table fixes.
pub(super) struct Reader<'a> {
    pub(super) view: View<'a>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(view: View<'a>) -> Self {
        Self { view }
    }

    fn value(&self, name: &str) -> Option<&'a Value> {
        self.view.get(name).value.as_ref()
    }

    pub(super) fn place(&self, name: &str) -> String {
        let setting = self.view.get(name);
        place(&setting.written, &setting.source)
    }

    /// Whether somebody has said so.
    pub(super) fn is_written(&self, name: &str) -> bool {
        self.view.get(name).source != Source::BuiltIn
    }

    fn supervision(&self) -> Supervision {
        Supervision {
            check_interval: self.duration("HEALTH_CHECK_INTERVAL"),
            check_timeout: self.duration("HEALTH_CHECK_TIMEOUT"),
            check_failures: self.count("HEALTH_CHECK_FAILURES"),
            restart_max: self.count("RESTART_MAX"),
            restart_window: self.duration("RESTART_WINDOW"),
            ..Supervision::default()
        }
    }

    /// `profile` is where the browser keeps what it knows.
    pub(super) fn upstream(&self, profile: Profile, mistakes: &mut Vec<Mistake>) -> UpstreamConfig {
        UpstreamConfig {
            driver: self.driver(profile, mistakes),
            env: self.pairs("ENV"),
            call_timeout: self.optional_duration("CALL_TIMEOUT"),
            start_timeout: self.duration("START_TIMEOUT"),
            supervision: self.supervision(),
            max_message_bytes: self.mebibytes("MAX_MESSAGE_MB"),
            allow_unsafe_code: self.bool("ALLOW_UNSAFE_CODE"),
        }
    }

    pub(super) fn optional_text(&self, name: &str) -> Option<String> {
        match self.value(name)? {
            Value::Text(text) => Some(text.clone()),
            other => unreachable!("{name} is text, not {other:?}"),
        }
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.optional_text(name).expect("the key has a default")
    }

    pub(super) fn optional_bool(&self, name: &str) -> Option<bool> {
        match self.value(name)? {
            Value::Bool(truth) => Some(*truth),
            other => unreachable!("{name} is a truth value, not {other:?}"),
        }
    }

    pub(super) fn bool(&self, name: &str) -> bool {
        self.optional_bool(name).expect("the key has a default")
    }

    pub(super) fn number(&self, name: &str) -> u64 {
        match self.value(name) {
            Some(Value::Number(number)) => *number,
            other => unreachable!("{name} is a number with a default, not {other:?}"),
        }
    }

    /// For keys where 0 means "none".
    fn bound(&self, name: &str) -> Option<u64> {
        Some(self.number(name)).filter(|bound| *bound > 0)
    }

    pub(super) fn count(&self, name: &str) -> u32 {
        u32::try_from(self.number(name)).expect("its largest value fits")
    }

    fn mebibytes(&self, name: &str) -> usize {
        usize::try_from(self.number(name)).expect("its largest value fits") * 1024 * 1024
    }

    fn set_duration(&self, name: &str) -> Option<Duration> {
        match self.value(name)? {
            Value::Duration(duration) => Some(*duration),
            other => unreachable!("{name} is a duration, not {other:?}"),
        }
    }

    pub(super) fn duration(&self, name: &str) -> Duration {
        self.set_duration(name).expect("the key has a default")
    }

    /// For keys where 0 means "none".
    pub(super) fn optional_duration(&self, name: &str) -> Option<Duration> {
        Some(self.duration(name)).filter(|duration| !duration.is_zero())
    }

    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        match self.value(name)? {
            Value::Path(path) => Some(path.clone()),
            other => unreachable!("{name} is a path, not {other:?}"),
        }
    }

    pub(super) fn list(&self, name: &str) -> Option<Vec<String>> {
        match self.value(name)? {
            Value::List(items) => Some(items.clone()),
            other => unreachable!("{name} is a list, not {other:?}"),
        }
    }

    fn pairs(&self, name: &str) -> Vec<(String, String)> {
        match self.value(name) {
            None => Vec::new(),
            Some(Value::Pairs(pairs)) => pairs.clone(),
            Some(other) => unreachable!("{name} is pairs, not {other:?}"),
        }
    }

    fn viewport(&self) -> Option<(u32, u32)> {
        match self.value("VIEWPORT_SIZE")? {
            Value::Size { width, height } => Some((*width, *height)),
            other => unreachable!("VIEWPORT_SIZE is a size, not {other:?}"),
        }
    }

    fn driver(&self, profile: Profile, mistakes: &mut Vec<Mistake>) -> Driver {
        let command = self.list("UPSTREAM_COMMAND");
        let url = self.optional_text("UPSTREAM_URL");
        let driver = self.text("DRIVER");
        if driver != "custom" {
            for (name, set) in [("UPSTREAM_COMMAND", command.is_some()), ("UPSTREAM_URL", url.is_some())] {
                if set {
                    mistakes.push(Mistake::new(
                        self.place(name),
                        format!("it is only used with DRIVER=custom, and the driver is `{driver}`"),
                        "Set DRIVER=custom, or remove it.",
                    ));
                }
            }
        }
        match (driver.as_str(), command, url) {
            ("playwright", ..) => Driver::Playwright(Box::new(self.browser(profile, mistakes))),
            ("chrome-devtools", ..) => {
                self.check_devtools(mistakes);
                Driver::ChromeDevtools(Box::new(self.browser(profile, mistakes)))
            }
            (_, Some(mut words), None) => {
                let program = words.remove(0);
                Driver::Custom(CustomConfig { transport: Transport::Stdio { program, args: words } })
            }
            (_, None, Some(url)) => Driver::Custom(CustomConfig { transport: Transport::Http { url } }),
            (_, command, _) => {
                let (problem, remedy) = if command.is_some() {
                    ("both UPSTREAM_COMMAND and UPSTREAM_URL are set", "Remove one of them.")
                } else {
                    (
                        "DRIVER=custom needs to know which server to drive",
                        "Set UPSTREAM_COMMAND (a program that speaks MCP over stdio) or UPSTREAM_URL.",
                    )
                };
                mistakes.push(Mistake::new(self.place("DRIVER"), problem, remedy));
                Driver::Playwright(Box::new(self.browser(profile, mistakes)))
            }
        }
    }

    /// What `chrome-devtools-mcp` cannot do is said, not left out.
    fn check_devtools(&self, mistakes: &mut Vec<Mistake>) {
        let driver = self.view.get("DRIVER");
        for name in NOT_DEVTOOLS {
            let setting = self.view.get(name);
            // A value from farther away is for the pools of the other driver. A guard is for everybody.
            let is_meant = setting.level >= driver.level || GUARDS.contains(&name);
            if self.is_written(name) && is_meant {
                mistakes.push(Mistake::new(
                    self.place(name),
                    "there is nothing like it with DRIVER=chrome-devtools",
                    "Remove it, or set DRIVER=playwright.",
                ));
            }
        }
        let browser = Browser::named(&self.text("BROWSER"));
        if !browser.is_chromium() {
            mistakes.push(Mistake::new(
                self.place("BROWSER"),
                format!("DRIVER=chrome-devtools cannot drive {}", browser.name()),
                "Set BROWSER=chromium, chrome or msedge beside it, or DRIVER=playwright.",
            ));
        }
    }

    fn browser(&self, profile: Profile, mistakes: &mut Vec<Mistake>) -> BrowserConfig {
        let is_for_playwright = self.text("DRIVER") != "chrome-devtools";
        if is_for_playwright && self.is_written("STORAGE_STATE") && profile != Profile::Isolated {
            mistakes.push(Mistake::new(
                self.place("STORAGE_STATE"),
                "a browser that keeps its profile cannot begin with another state",
                "Set ISOLATED=true beside it, or remove it.",
            ));
        }
        if self.is_written("PROXY_BYPASS") && !self.is_written("PROXY_SERVER") {
            mistakes.push(Mistake::new(
                self.place("PROXY_BYPASS"),
                "there is no proxy to be bypassed",
                "Set PROXY_SERVER, or remove it.",
            ));
        }
        let timeout = self.duration("TIMEOUT");
        BrowserConfig {
            browser: Browser::named(&self.text("BROWSER")),
            headless: self.bool("HEADLESS"),
            executable_path: self.path("EXECUTABLE_PATH"),
            no_sandbox: self.optional_bool("NO_SANDBOX"),
            viewport: self.viewport(),
            caps: self.caps(),
            timeout_action: self.set_duration("TIMEOUT_ACTION").unwrap_or(timeout),
            timeout_navigation: self.set_duration("TIMEOUT_NAVIGATION").unwrap_or(timeout),
            timeout_settle: self.duration("TIMEOUT_SETTLE"),
            ignore_https_errors: self.bool("IGNORE_HTTPS_ERRORS"),
            output_dir: self.path("OUTPUT_DIR"),
            profile,
            device: self.optional_text("DEVICE"),
            user_agent: self.optional_text("USER_AGENT"),
            storage_state: self.path("STORAGE_STATE"),
            allowed_origins: self.list("ALLOWED_ORIGINS").unwrap_or_default(),
            blocked_origins: self.list("BLOCKED_ORIGINS").unwrap_or_default(),
            proxy_server: self.optional_text("PROXY_SERVER"),
            proxy_bypass: self.optional_text("PROXY_BYPASS"),
            image_responses: match self.text("IMAGE_RESPONSES").as_str() {
                "omit" => ImageResponses::Omit,
                "only" => ImageResponses::Only,
                _ => ImageResponses::Allow,
            },
            init_scripts: self
                .list("INIT_SCRIPT")
                .unwrap_or_default()
                .into_iter()
                .map(PathBuf::from)
                .collect(),
            wsl_windows: self.bool("WSL_WINDOWS"),
        }
    }

    /// The groups of tools, under the names that the upstream knows, each once.
    fn caps(&self) -> Vec<String> {
        let mut caps = Vec::new();
        for cap in self.list("CAPS").unwrap_or_default() {
            let cap = if cap == "tracing" { "devtools".to_owned() } else { cap };
            if !caps.contains(&cap) {
                caps.push(cap);
            }
        }
        caps
    }
}
