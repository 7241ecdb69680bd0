//! The table of all keys: the one place where a key's name, kind, default and meaning are written down.

use super::value::Kind;

/// Which TOML table a key belongs to, and which heading of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The process and its HTTP listener: `[server]`.
    Server,
    /// The browser and the MCP server that drives it: `[defaults]`.
    Browser,
}

impl Group {
    pub fn table(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Browser => "defaults",
        }
    }
}

/// Who may set a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Any source.
    Anyone,
    /// Not a file that merely lies in the working directory: the key names a program, a script or another
    /// process's environment, and a cloned repository must not run code.
    Operator,
}

#[derive(Debug)]
pub struct Key {
    /// As in `PW_MCP_PROXY_<NAME>`; lower case in TOML.
    pub name: &'static str,
    pub group: Group,
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

    /// The closest known name, if one is close enough to be what was meant.
    pub fn nearest(name: &str) -> Option<&'static str> {
        KEYS.iter()
            .map(|key| (strsim::jaro_winkler(name, key.name), key.name))
            .filter(|(likeness, _)| *likeness > 0.82)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, name)| name)
    }
}

const fn server(name: &'static str, kind: Kind, default: Option<&'static str>, meaning: &'static str) -> Key {
    Key { name, group: Group::Server, kind, default, trust: Trust::Anyone, meaning }
}

const fn browser(
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    meaning: &'static str,
) -> Key {
    Key { name, group: Group::Browser, kind, default, trust: Trust::Anyone, meaning }
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
    server(
        "DATA_DIR",
        Kind::Path,
        None,
        "Folder for everything Greenroom keeps. Not set: `$XDG_DATA_HOME/greenroom`, else `~/.local/share/greenroom`.",
    ),
    server(
        "PUBLIC_URL",
        Kind::Url,
        None,
        "The address people use when Greenroom stands behind a reverse proxy; its Host and Origin are then accepted too.",
    ),
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
    browser(
        "DRIVER",
        Kind::Choice(&["playwright", "custom"]),
        Some("playwright"),
        "Which browser MCP server is driven: the pinned `@playwright/mcp`, or any other by UPSTREAM_COMMAND or UPSTREAM_URL.",
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
    browser(
        "NO_SANDBOX",
        Kind::Bool,
        None,
        "Turn Chromium's own sandbox off. Not set: off only when running as root, since Chromium refuses to start \
         with it there.",
    ),
    browser(
        "VIEWPORT_SIZE",
        Kind::Size,
        None,
        "Size of a page in pixels, such as `1280x720`. Not set: the browser's default.",
    ),
    browser(
        "CAPS",
        Kind::ChoiceList(&["vision", "pdf", "devtools", "network", "storage", "testing", "config"]),
        None,
        "Further groups of the upstream's tools, separated by commas.",
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
    browser(
        "ALLOW_UNSAFE_CODE",
        Kind::Bool,
        Some("false"),
        "Offer `browser_run_code_unsafe`, which runs code inside the upstream's own process.",
    ),
];
