//! The table of all keys: the one place where a key's name, kind, default and meaning are written down.

use super::value::Kind;

/// What a key is about: a heading of the reference, and at the top level a TOML table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The process and its HTTP listener: `[server]`.
    Server,
    /// The browser and the MCP server that drives it: `[defaults]`.
    Browser,
    /// A pool as a whole: `[defaults]`, too.
    Pool,
}

impl Group {
    pub fn table(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Browser | Self::Pool => "defaults",
        }
    }
}

/// How far a value reaches. The nearer level wins: instance, then pool, then global.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Global,
    Pool,
    Instance,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Pool => "pool",
            Self::Instance => "instance",
        }
    }
}

/// Who may set a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Any source.
    Anyone,
    /// Not a file that merely lies in the working directory: the key names a program, a script or another process's
    /// environment, takes a guard away, or sends what agents do elsewhere. A cloned repository must not.
    Operator,
}

#[derive(Debug)]
pub struct Key {
    /// As in `PW_MCP_PROXY_<NAME>`; lower case in TOML.
    pub name: &'static str,
    pub group: Group,
    /// Where it can be set.
    pub levels: &'static [Level],
    pub kind: Kind,
    /// Written the way a person would write it; `None` when "not set" is a meaning of its own.
    pub default: Option<&'static str>,
    pub trust: Trust,
    pub meaning: &'static str,
}

impl Key {
    pub fn find(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// The longest key that a name ends with, and what stands before it and its underscore. Pool names may
    /// contain underscores, and so do keys.
    pub(super) fn at_the_end_of(name: &str) -> Option<(&str, &'static Self)> {
        KEYS.iter()
            .filter_map(|key| {
                let before = name.strip_suffix(key.name)?.strip_suffix('_')?;
                (!before.is_empty()).then_some((before, key))
            })
            .max_by_key(|(_, key)| key.name.len())
    }

    /// The closest known name, if one is close enough to be what was meant.
    pub fn nearest(name: &str) -> Option<&'static str> {
        Self::likeness(name).map(|(_, name)| name)
    }

    pub(super) fn likeness(name: &str) -> Option<(f64, &'static str)> {
        KEYS.iter()
            .map(|key| (strsim::jaro_winkler(name, key.name), key.name))
            .filter(|(likeness, _)| *likeness > 0.82)
            .max_by(|a, b| a.0.total_cmp(&b.0))
    }
}

const EVERYWHERE: &[Level] = &[Level::Global, Level::Pool, Level::Instance];

const fn key(
    group: Group,
    levels: &'static [Level],
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    meaning: &'static str,
) -> Key {
    Key { name, group, levels, kind, default, trust: Trust::Anyone, meaning }
}

const fn server(name: &'static str, kind: Kind, default: Option<&'static str>, meaning: &'static str) -> Key {
    key(Group::Server, &[Level::Global], name, kind, default, meaning)
}

const fn browser(
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    meaning: &'static str,
) -> Key {
    key(Group::Browser, EVERYWHERE, name, kind, default, meaning)
}

/// A key of the pool as a whole that can have a global default.
const fn pool(name: &'static str, kind: Kind, default: Option<&'static str>, meaning: &'static str) -> Key {
    key(Group::Pool, &[Level::Global, Level::Pool], name, kind, default, meaning)
}

const fn operator(mut key: Key) -> Key {
    key.trust = Trust::Operator;
    key
}

pub static KEYS: &[Key] = &[
    server(
        "HTTP_HOST",
        Kind::Text,
        Some("127.0.0.1"),
        "Address that `serve` listens on. Only loopback addresses are accepted for now.",
    ),
    server("HTTP_PORT", Kind::Port, Some("34501"), "Port that `serve` listens on; 0 takes any free one."),
    // The server that is run lies in it.
    operator(server(
        "DATA_DIR",
        Kind::Path,
        None,
        "Folder for everything Greenroom keeps. Not set: `$XDG_DATA_HOME/greenroom`, else `~/.local/share/greenroom`.",
    )),
    // Whose web pages are let in is not for a repository to say.
    operator(server(
        "PUBLIC_URL",
        Kind::Url,
        None,
        "The address people use when Greenroom stands behind a reverse proxy; its Host and Origin are then accepted too.",
    )),
    operator(server(
        "CORS_ORIGINS",
        Kind::Origins,
        None,
        "Other origins whose web pages may use the API and show a preview, such as `https://chat.example.com`. Greenroom's \
         own pages need no mention.",
    )),
    server(
        "MAX_REQUEST_MB",
        Kind::Count { min: 1, max: 1024 },
        Some("16"),
        "Largest request accepted, in MiB.",
    ),
    server(
        "MCP_SESSION_IDLE",
        Kind::Millis,
        Some("3600000"),
        "How long an MCP connection of the older protocol era (with `Mcp-Session-Id`) may be silent before it is \
         forgotten. Browsers are not tied to it. A call in flight counts as activity. 0 = never.",
    ),
    server(
        "LOG",
        Kind::Text,
        Some("info"),
        "What is logged, to stderr: `error`, `warn`, `info`, `debug`, `trace`, or a filter such as \
         `info,greenroom_upstream=debug`.",
    ),
    server(
        "LOG_FORMAT",
        Kind::Choice(&["text", "json"]),
        Some("text"),
        "`text` for people, `json` for machines (one object a line).",
    ),
    server(
        "ADDRESSING",
        Kind::Choice(&["auto", "session", "pool", "browser"]),
        Some("auto"),
        "Which parameters are added to the tools. `auto`: those that can mean something, so `sessionId`, \
         `browser_pool` and `browser_instance` once a pool is configured, `browserIndex` and `browser` once a browser is attached. \
         `session`: only `sessionId`, and every call has to give it. `pool`, `browser`: only the two of that kind.",
    ),
    server(
        "IMPLICIT_SESSION",
        Kind::Choice(&["none", "connection"]),
        Some("none"),
        "What a call without `sessionId` gets. `none`: the session `default`, or a lease once a pool is configured. \
         `connection`: a session of its MCP connection's own, so that each agent process has a browser without asking.",
    ),
    server(
        "MAX_SESSIONS_PER_CALLER",
        Kind::Count { min: 0, max: 100_000 },
        Some("0"),
        "How many sessions one caller may have at once. 0 = any number.",
    ),
    server(
        "REST_SESSION_IDLE_TIMEOUT",
        Kind::Millis,
        Some("1800000"),
        "How long a session that was started over REST may be without a call or a person's input before it ends. 0 = for ever.",
    ),
    server(
        "SESSION_FILES_GRACE",
        Kind::Millis,
        Some("3600000"),
        "How long the files of a session stay on disk after it has ended.",
    ),
    server(
        "DRAIN_TIMEOUT",
        Kind::Millis,
        Some("5000"),
        "How long calls in flight have to finish when Greenroom is asked to stop.",
    ),
    // A start command may stand behind an address, and whoever sets them sends what agents do elsewhere.
    operator(server(
        "BROWSER_URLS",
        Kind::Addresses,
        None,
        "Browsers to attach, by the address of their debugging port, such as `http://127.0.0.1:9222`, separated by commas. \
         `|` and a command behind an address say how to start that browser; `{port}` and `{url}` in it are filled in. On the \
         command line `--browserUrl`, once for each. `[[browsers]]` in a file has names and more.",
    )),
    operator(server(
        "WS_ENDPOINTS",
        Kind::Addresses,
        None,
        "Browsers to attach, by WebSocket address, written like BROWSER_URLS. On the command line `--wsEndpoint`.",
    )),
    operator(server(
        "CONNECT_BROWSERS",
        Kind::Choice(&["none", "loopback", "any"]),
        Some("loopback"),
        "Which further browsers agents may attach while Greenroom runs, where any are attached at all: none, those on this machine, \
         or any.",
    )),
    server(
        "HISTORY",
        Kind::Bool,
        Some("true"),
        "Whether calls are written down, so that they can be looked up and read in pieces later.",
    ),
    server(
        "HISTORY_DURABILITY",
        Kind::Choice(&["process", "power"]),
        Some("process"),
        "What history survives. `process`: whatever is killed, nothing is lost. `power`: a loss of power neither; every call \
         then waits for the disk.",
    ),
    server(
        "RETENTION_DAYS",
        Kind::Count { min: 0, max: 36_500 },
        Some("30"),
        "How long calls stay on record. 0 = for ever.",
    ),
    server(
        "MAX_DATABASE_MB",
        Kind::Count { min: 0, max: 10_000_000 },
        Some("1024"),
        "How large the record may become, in MiB; the oldest calls go first. 0 = without bound.",
    ),
    server(
        "BLOB_THRESHOLD_KB",
        Kind::Count { min: 1, max: 1_000_000 },
        Some("256"),
        "Results larger than this, in KiB, are kept as files beside the record. Images and PDFs always are.",
    ),
    server(
        "BLOB_TTL_HOURS",
        Kind::Count { min: 0, max: 1_000_000 },
        Some("168"),
        "How long such files stay. 0 = as long as their calls.",
    ),
    server(
        "BLOB_MAX_MB",
        Kind::Count { min: 0, max: 10_000_000 },
        Some("1024"),
        "How much room such files may take in all, in MiB; the oldest go first, and one that is larger by itself is not kept. \
         0 = without bound.",
    ),
    key(
        Group::Pool,
        &[Level::Pool],
        "INSTANCES",
        Kind::Count { min: 1, max: 1000 },
        None,
        "Number of instances. Every pool has to say it. In TOML `instances = 3`, or `instances.count = 3` where \
         instances have tables of their own.",
    ),
    key(
        Group::Pool,
        &[Level::Pool],
        "IS_DEFAULT",
        Kind::Bool,
        Some("false"),
        "Marks the pool that takes calls which name none. Exactly one pool has to be it.",
    ),
    key(
        Group::Pool,
        EVERYWHERE,
        "DESCRIPTION",
        Kind::Text,
        None,
        "What the pool is for, in words; agents read it. For an instance it is only a note.",
    ),
    key(
        Group::Pool,
        &[Level::Instance],
        "ALIAS",
        Kind::Text,
        None,
        "A name for one instance beside its number. Not a number itself, and each only once in a pool.",
    ),
    pool(
        "START",
        Kind::Choice(&["eager", "lazy"]),
        None,
        "`eager`: browsers are started with Greenroom. `lazy`: by the first call that needs one. Not set: eager for \
         pools that are configured, lazy where there is none.",
    ),
    pool(
        "LEASE_TIMEOUT",
        Kind::Millis,
        Some("60000"),
        "How long a call may wait for a browser before it is refused. 0 = as long as CALL_TIMEOUT allows, which is also the \
         default where no pool is configured.",
    ),
    pool(
        "MAX_QUEUE",
        Kind::Count { min: 1, max: 1_000_000 },
        Some("100"),
        "How many calls may wait at once; further ones are refused at once.",
    ),
    pool(
        "SESSION_ISOLATION",
        Kind::Choice(&["context", "process"]),
        None,
        "Where sessions live. `context`: an isolated browser context each, in browsers that several share. `process`: a \
         server process and browser each. Not set: `context` where the driver can, else `process`.",
    ),
    pool(
        "SESSIONS_PER_HOST",
        Kind::Count { min: 1, max: 1000 },
        Some("24"),
        "How many sessions share one browser before another is started.",
    ),
    pool(
        "WARM_SESSIONS",
        Kind::Count { min: 0, max: 100 },
        Some("1"),
        "How many sessions are kept ready in advance, from the first session on, so that a new one need not wait.",
    ),
    pool(
        "MAX_SESSIONS",
        Kind::Count { min: 0, max: 100_000 },
        Some("0"),
        "How many sessions the pool may have at once. 0 = any number.",
    ),
    pool(
        "SESSION_IDLE_TIMEOUT",
        Kind::Millis,
        Some("300000"),
        "How long a session may be without a call before it ends. 0 = for ever.",
    ),
    pool(
        "REPLY",
        Kind::Choice(&["full", "ref", "diff"]),
        Some("full"),
        "How much of an answer is returned. `full`: all of it. `ref`: a ref id to read it by. `diff`: what has changed on the \
         page since the session's last snapshot. One call, or one session, can choose another.",
    ),
    pool(
        "REPLY_BUDGET",
        Kind::Count { min: 0, max: 1_000_000_000 },
        Some("32768"),
        "How many bytes of text a reply has at most; the rest can be read by its ref id. 0 = any number.",
    ),
    pool(
        "TOOLS",
        Kind::Names,
        None,
        "The only tools of the upstream that agents see, separated by commas; `*` stands for any letters. Not set: all.",
    ),
    pool(
        "HIDE_TOOLS",
        Kind::Names,
        None,
        "Tools of the upstream that agents do not see, written like TOOLS.",
    ),
    browser(
        "DRIVER",
        Kind::Choice(&["playwright", "chrome-devtools", "custom"]),
        Some("playwright"),
        "Which browser MCP server is driven: the pinned `@playwright/mcp`, the pinned `chrome-devtools-mcp`, which works with \
         Chromium and its kin and has tools for performance, network and memory, or any other by UPSTREAM_COMMAND or \
         UPSTREAM_URL.",
    ),
    operator(browser(
        "UPSTREAM_COMMAND",
        Kind::Words,
        None,
        "Command line of a custom MCP server that speaks stdio. Split into words as a shell would, but run without one. \
         Needs DRIVER=custom.",
    )),
    operator(browser(
        "UPSTREAM_URL",
        Kind::Url,
        None,
        "Address of a custom MCP server that speaks Streamable HTTP. Needs DRIVER=custom.",
    )),
    operator(browser(
        "ENV",
        Kind::Pairs,
        None,
        "Environment variables for the upstream process: `NAME=value`, several separated by commas; a table in TOML.",
    )),
    browser(
        "BROWSER",
        Kind::Choice(&["chromium", "chrome", "msedge", "firefox", "webkit"]),
        Some("chromium"),
        "Browser type.",
    ),
    browser("HEADLESS", Kind::Bool, Some("true"), "Run browsers headless."),
    operator(browser(
        "EXECUTABLE_PATH",
        Kind::Path,
        None,
        "The browser's program. Not set: one that is found on this machine, else one that is installed.",
    )),
    operator(browser(
        "NO_SANDBOX",
        Kind::Bool,
        None,
        "Turn Chromium's own sandbox off. Not set: off only when running as root, since Chromium refuses to start \
         with it there.",
    )),
    browser(
        "VIEWPORT_SIZE",
        Kind::Size,
        None,
        "Size of a page in pixels, such as `1280x720`. Not set: the browser's default.",
    ),
    browser(
        "CAPS",
        Kind::ChoiceList(&[
            "vision", "pdf", "devtools", "network", "storage", "testing", "config", "tracing",
        ]),
        None,
        "Further groups of the upstream's tools, separated by commas. `tracing` is another name for `devtools`.",
    ),
    browser(
        "TIMEOUT",
        Kind::Millis,
        Some("30000"),
        "Playwright's default timeout for actions and navigation.",
    ),
    browser("TIMEOUT_ACTION", Kind::Millis, None, "Timeout for one action. Not set: TIMEOUT."),
    browser("TIMEOUT_NAVIGATION", Kind::Millis, None, "Timeout for one navigation. Not set: TIMEOUT."),
    browser(
        "TIMEOUT_SETTLE",
        Kind::Millis,
        Some("500"),
        "How long an action waits for what it set off (navigations, requests) to settle.",
    ),
    browser(
        "ISOLATED",
        Kind::Bool,
        Some("false"),
        "Keep cookies, storage and the rest in memory only. `false`: in a profile of the instance's own, which stays. \
         Where no pool is configured the default is `true`.",
    ),
    operator(browser(
        "USER_DATA_DIR",
        Kind::Path,
        None,
        "Where profiles are kept. Set for an instance it is that instance's profile; set for a pool, each instance has \
         a folder of its own under it, and set globally each pool has. Not set: `profiles/POOL/ID` in the data folder.",
    )),
    browser(
        "STORAGE_STATE",
        Kind::Path,
        None,
        "File with cookies and local storage that the browser begins with, as Playwright writes it. Needs ISOLATED=true.",
    ),
    browser(
        "DEVICE",
        Kind::Text,
        None,
        "Device to imitate, by its name in Playwright's list, such as `iPhone 15`. VIEWPORT_SIZE and USER_AGENT win \
         over it.",
    ),
    browser("USER_AGENT", Kind::Text, None, "What the browser says it is."),
    browser(
        "ALLOWED_ORIGINS",
        Kind::Origins,
        None,
        "The only origins that pages may ask for, separated by `;` or `,`. Redirects are not covered: no boundary against \
         a hostile page.",
    ),
    browser(
        "BLOCKED_ORIGINS",
        Kind::Origins,
        None,
        "Origins that pages may not ask for, written like ALLOWED_ORIGINS; they win over it.",
    ),
    operator(browser(
        "PROXY_SERVER",
        Kind::Proxy,
        None,
        "Proxy for everything the browser asks for, such as `http://proxy:3128` or `socks5://proxy:1080`.",
    )),
    operator(browser(
        "PROXY_BYPASS",
        Kind::Text,
        None,
        "Hosts that are asked directly, separated by commas. Needs PROXY_SERVER.",
    )),
    browser(
        "IMAGE_RESPONSES",
        Kind::Choice(&["allow", "omit", "only"]),
        Some("allow"),
        "Whether images reach the agent: with the text, not at all, or without the text.",
    ),
    operator(browser(
        "INIT_SCRIPT",
        Kind::Paths,
        None,
        "JavaScript files that run in every page before its own scripts, separated by commas.",
    )),
    browser(
        "WSL_WINDOWS",
        Kind::Bool,
        Some("false"),
        "On WSL, run the Windows Node and so a Windows browser.",
    ),
    browser("IGNORE_HTTPS_ERRORS", Kind::Bool, Some("false"), "Accept invalid TLS certificates."),
    browser(
        "OUTPUT_DIR",
        Kind::Path,
        None,
        "Where screenshots, downloads and other files without a name of their own are written. Not set: a folder in \
         the data folder.",
    ),
    browser(
        "CALL_TIMEOUT",
        Kind::Millis,
        Some("300000"),
        "Deadline for one call, waiting for its turn included. When the browser has not answered by then, its context \
         is closed so that the next call works. 0 = none.",
    ),
    browser(
        "START_TIMEOUT",
        Kind::MillisFrom(100),
        Some("30000"),
        "How long an upstream may take from its start until it has answered `initialize`.",
    ),
    browser(
        "HEALTH_CHECK_INTERVAL",
        Kind::MillisFrom(100),
        Some("20000"),
        "How often an upstream is asked whether it is well: a ping, and a round trip to the browser.",
    ),
    browser(
        "HEALTH_CHECK_TIMEOUT",
        Kind::MillisFrom(100),
        Some("5000"),
        "How long it may take to answer a check.",
    ),
    browser(
        "HEALTH_CHECK_FAILURES",
        Kind::Count { min: 1, max: 1000 },
        Some("3"),
        "Checks missed in a row after which it is restarted. A call in flight is not cut off by that; new calls wait \
         from the first miss on.",
    ),
    browser(
        "RESTART_MAX",
        Kind::Count { min: 0, max: 1000 },
        Some("3"),
        "Restarts within RESTART_WINDOW, after pauses of 1, 2, 4 … seconds; then the upstream is given up until a \
         person restarts it.",
    ),
    browser("RESTART_WINDOW", Kind::Millis, Some("300000"), "The time in which restarts are counted."),
    browser(
        "MAX_MESSAGE_MB",
        Kind::Count { min: 1, max: 1024 },
        Some("64"),
        "Largest message accepted from an upstream, in MiB. A larger one fails its call.",
    ),
    operator(browser(
        "ALLOW_UNSAFE_CODE",
        Kind::Bool,
        Some("false"),
        "Offer `browser_run_code_unsafe`, which runs code inside the upstream's own process.",
    )),
];
