//! Which browser a call asks for.

use std::sync::LazyLock;

use serde_json::Value;

/// The parameters that Greenroom adds to the tools, under the names they have beside a tool's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    pub session: String,
    pub pool: String,
    pub instance: String,
    pub reply: String,
    pub index: String,
    pub browser: String,
}

impl Parameters {
    pub const SESSION: &str = "sessionId";
    pub const POOL: &str = "browser_pool";
    pub const INSTANCE: &str = "browser_instance";
    pub const REPLY: &str = "reply";
    pub const INDEX: &str = "browserIndex";
    pub const BROWSER: &str = "browser";

    /// A name that the tool uses itself gets a prefix.
    pub fn beside(is_taken: impl Fn(&str) -> bool) -> Self {
        let free = |name: &str| if is_taken(name) { format!("greenroom_{name}") } else { name.to_owned() };
        Self {
            session: free(Self::SESSION),
            pool: free(Self::POOL),
            instance: free(Self::INSTANCE),
            reply: free(Self::REPLY),
            index: free(Self::INDEX),
            browser: free(Self::BROWSER),
        }
    }
}

/// What they are called where no tool uses such a name itself.
pub static PLAIN: LazyLock<Parameters> = LazyLock::new(|| Parameters::beside(|_| false));

/// What calls can say about where they want to run, and what happens to those that say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// `sessionId` means something.
    pub sessions: SessionMode,
    /// `browser_pool` and `browser_instance` mean something.
    pub pools: bool,
    /// `browserIndex` and `browser` mean something.
    pub browsers: BrowserMode,
}

/// What attached browsers are to calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrowserMode {
    /// There are none.
    #[default]
    Off,
    /// A call may name one; otherwise it gets what it would get without them.
    Beside,
    /// Every call goes to one: to the only one there is, or to the one that it has to name.
    Only,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionMode {
    /// There are none.
    Off,
    /// A call may name one; otherwise it gets a lease.
    Optional,
    /// Every call has one; those that name none share one.
    Always,
    /// Every call has to name one.
    Required,
}

impl Modes {
    pub const POOLS: Self = Self::new(SessionMode::Off, true);

    /// Without attached browsers.
    pub const fn new(sessions: SessionMode, pools: bool) -> Self {
        Self { sessions, pools, browsers: BrowserMode::Off }
    }

    pub fn has_browsers(self) -> bool {
        self.browsers != BrowserMode::Off
    }

    pub fn has_sessions(self) -> bool {
        self.sessions != SessionMode::Off
    }

    /// Every call is at a session, so nobody leases an instance.
    pub fn has_only_sessions(self) -> bool {
        matches!(self.sessions, SessionMode::Always | SessionMode::Required)
    }
}

/// What a call says about where it wants to run, as it was written.
#[derive(Clone, Debug, Default)]
pub struct Address {
    pub session: Option<Value>,
    pub pool: Option<Value>,
    pub instance: Option<Value>,
    pub index: Option<Value>,
    pub browser: Option<Value>,
}

/// An attached browser, as calls can name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownBrowser {
    /// From 1.
    pub index: usize,
    pub name: Option<String>,
    pub address: String,
}

impl std::fmt::Display for KnownBrowser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}] {}", self.index, self.address)?;
        match &self.name {
            Some(name) => write!(f, " (name: {name})"),
            None => Ok(()),
        }
    }
}

/// Where a call is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// On a leased instance.
    Lease {
        pool: String,
        /// The number or alias of one instance; otherwise any will do.
        instance: Option<String>,
    },
    Session {
        name: SessionName,
        /// Where it is to be made, if it is not there yet.
        pool: Option<String>,
    },
    /// On an attached browser, by its number.
    Browser(usize),
}

/// What a caller calls a session: any text that is not empty and not too long.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionName(String);

impl SessionName {
    /// Letters in the longest name.
    pub const LONGEST: usize = 256;
    const DEFAULT: &str = "default";

    pub fn new(name: impl Into<String>) -> Result<Self, AddressError> {
        let name = name.into();
        match name.chars().count() {
            0 => Err(AddressError::SessionMissing),
            1..=Self::LONGEST => Ok(Self(name)),
            letters => Err(AddressError::SessionTooLong { letters }),
        }
    }

    /// The session of those who name none.
    pub fn default_session() -> Self {
        Self(Self::DEFAULT.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for SessionName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("Invalid pool name in browser_pool: {0}")]
    InvalidPool(UnknownPool),
    #[error(transparent)]
    UnknownPool(#[from] UnknownPool),
    #[error("`{parameter}` has to be a text.")]
    NotText { parameter: &'static str },
    #[error(
        "`sessionId` is missing. Give any text that is yours alone, the same with every call of one task."
    )]
    SessionMissing,
    #[error("`sessionId` has {letters} letters, and {} is the most.", SessionName::LONGEST)]
    SessionTooLong { letters: usize },
    #[error(
        "`sessionId` and `browser_instance` contradict one another: a session has a browser of its own. Give one of them."
    )]
    SessionAndInstance,
    #[error(
        "{parameter} must NOT be specified: there is only one browser, and every call goes to it. {}",
        listed(browsers)
    )]
    OnlyOneBrowser { parameter: &'static str, browsers: Vec<KnownBrowser> },
    #[error("No browser is attached. Attach one with `connect_browser`, or ask whoever runs Greenroom to.")]
    NoBrowsers,
    #[error("browserIndex parameter is required when multiple browsers are connected. {}", listed(browsers))]
    BrowserMissing { browsers: Vec<KnownBrowser> },
    #[error("Invalid browserIndex: {given}. It is a whole number from 1 on. {}", listed(browsers))]
    BadIndex { given: String, browsers: Vec<KnownBrowser> },
    #[error("There is no browser {given}. {}", listed(browsers))]
    UnknownBrowser { given: String, browsers: Vec<KnownBrowser> },
    #[error("`browserIndex` and `browser` name different browsers. Give one of them. {}", listed(browsers))]
    TwoBrowsers { browsers: Vec<KnownBrowser> },
    #[error(
        "`{parameter}` and `{other}` contradict one another: an attached browser is in no session or pool. Give one of them."
    )]
    BrowserAndOther { parameter: &'static str, other: &'static str },
}

fn listed(browsers: &[KnownBrowser]) -> String {
    if browsers.is_empty() {
        return "No browser is attached.".to_owned();
    }
    let shown: Vec<_> = browsers.iter().map(ToString::to_string).collect();
    format!("The browsers are: {}.", shown.join(", "))
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no pool `{name}`. The pools are: {}.", valid.join(", "))]
pub struct UnknownPool {
    pub name: String,
    pub valid: Vec<String>,
}

/// Decides where a call runs. `pools` are the names that there are, the default first; `implied` is the session of a
/// call that names none; `browsers` are those that are attached.
pub fn resolve<'a>(
    address: &Address,
    modes: Modes,
    implied: Option<&SessionName>,
    pools: impl Iterator<Item = &'a str> + Clone,
    browsers: &[KnownBrowser],
) -> Result<Target, AddressError> {
    if let Some(index) = browser(address, modes.browsers, browsers)? {
        let others = [
            (Parameters::SESSION, &address.session),
            (Parameters::POOL, &address.pool),
            (Parameters::INSTANCE, &address.instance),
        ];
        let is_given = |value: &Option<Value>| {
            value.as_ref().is_some_and(|value| !value.is_null() && value.as_str() != Some(""))
        };
        if let Some((other, _)) = others.into_iter().find(|(_, value)| is_given(value)) {
            let parameter = if address.index.is_some() { Parameters::INDEX } else { Parameters::BROWSER };
            return Err(AddressError::BrowserAndOther { parameter, other });
        }
        return Ok(Target::Browser(index));
    }
    let pool = match text(address.pool.as_ref().filter(|_| modes.pools), Parameters::POOL)? {
        Some(name) if !pools.clone().any(|pool| pool == name) => {
            let valid = pools.map(str::to_owned).collect();
            return Err(AddressError::InvalidPool(UnknownPool { name, valid }));
        }
        named => named,
    };
    let instance = text(address.instance.as_ref().filter(|_| modes.pools), Parameters::INSTANCE)?;
    let session = match modes.sessions {
        SessionMode::Off => None,
        _ => session(address.session.as_ref())?,
    };
    // Beside pools, who names an instance wants that one and no session.
    let implied = implied.filter(|_| instance.is_none());
    let name = match (session, modes.sessions) {
        (Some(name), _) if instance.is_none() => name,
        (Some(_), _) => return Err(AddressError::SessionAndInstance),
        (None, SessionMode::Required) => return Err(AddressError::SessionMissing),
        (None, SessionMode::Always) => implied.cloned().unwrap_or_else(SessionName::default_session),
        (None, SessionMode::Optional) if let Some(implied) = implied => implied.clone(),
        (None, _) => {
            let default = || pools.clone().next().expect("there is at least one pool").to_owned();
            return Ok(Target::Lease { pool: pool.unwrap_or_else(default), instance });
        }
    };
    Ok(Target::Session { name, pool })
}

/// The attached browser that a call goes to, if it goes to one.
fn browser(
    address: &Address,
    mode: BrowserMode,
    browsers: &[KnownBrowser],
) -> Result<Option<usize>, AddressError> {
    if mode == BrowserMode::Off {
        return Ok(None);
    }
    let listed = || browsers.to_vec();
    let index = address.index.as_ref().filter(|value| !value.is_null());
    let name = match address.browser.as_ref() {
        Some(Value::String(name)) if name.is_empty() => None,
        Some(Value::String(name)) => Some(name.as_str()),
        None | Some(Value::Null) => None,
        Some(_) => return Err(AddressError::NotText { parameter: Parameters::BROWSER }),
    };
    if mode == BrowserMode::Only && browsers.len() == 1 {
        return match (index, name) {
            (None, None) => Ok(Some(browsers[0].index)),
            (Some(_), _) => {
                Err(AddressError::OnlyOneBrowser { parameter: Parameters::INDEX, browsers: listed() })
            }
            (None, Some(_)) => {
                Err(AddressError::OnlyOneBrowser { parameter: Parameters::BROWSER, browsers: listed() })
            }
        };
    }
    let by_index = match index {
        None => None,
        Some(value) => match value.as_u64().and_then(|number| usize::try_from(number).ok()) {
            Some(number) if number > 0 => match browsers.iter().find(|browser| browser.index == number) {
                Some(browser) => Some(browser.index),
                None => {
                    return Err(AddressError::UnknownBrowser {
                        given: number.to_string(),
                        browsers: listed(),
                    });
                }
            },
            _ => return Err(AddressError::BadIndex { given: value.to_string(), browsers: listed() }),
        },
    };
    let by_name = match name {
        None => None,
        Some(name) => match browsers.iter().find(|browser| browser.name.as_deref() == Some(name)) {
            Some(browser) => Some(browser.index),
            None => {
                return Err(AddressError::UnknownBrowser { given: format!("`{name}`"), browsers: listed() });
            }
        },
    };
    match (by_index, by_name) {
        (Some(index), Some(name)) if index != name => Err(AddressError::TwoBrowsers { browsers: listed() }),
        (None, None) if mode == BrowserMode::Only && browsers.is_empty() => Err(AddressError::NoBrowsers),
        (None, None) if mode == BrowserMode::Only => Err(AddressError::BrowserMissing { browsers: listed() }),
        (index, name) => Ok(index.or(name)),
    }
}

/// A session's name is taken as it is: spaces are part of it.
fn session(value: Option<&Value>) -> Result<Option<SessionName>, AddressError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) if name.is_empty() => Ok(None),
        Some(Value::String(name)) => SessionName::new(name.as_str()).map(Some),
        Some(Value::Number(number)) => SessionName::new(number.to_string()).map(Some),
        Some(_) => Err(AddressError::NotText { parameter: Parameters::SESSION }),
    }
}

/// Agents fill in what they need not: nothing and the empty text mean that they do not care. Numbers are what an
/// instance's name looks like.
fn text(value: Option<&Value>, parameter: &'static str) -> Result<Option<String>, AddressError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(AddressError::NotText { parameter }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        Address, AddressError, BrowserMode, KnownBrowser, Modes, Parameters, SessionMode, SessionName,
        Target, resolve,
    };

    const POOLS: [&str; 2] = ["MAIN", "OTHER"];

    fn target(modes: Modes, address: &Value) -> Result<Target, AddressError> {
        let part = |name: &str| address.get(name).cloned();
        let address = Address {
            session: part("sessionId"),
            pool: part("browser_pool"),
            instance: part("browser_instance"),
            index: part("browserIndex"),
            browser: part("browser"),
        };
        resolve(&address, modes, None, POOLS.into_iter(), &[])
    }

    fn lease(pool: &str, instance: Option<&str>) -> Result<Target, AddressError> {
        Ok(Target::Lease { pool: pool.to_owned(), instance: instance.map(str::to_owned) })
    }

    fn session(name: &str, pool: Option<&str>) -> Result<Target, AddressError> {
        Ok(Target::Session { name: SessionName::new(name).unwrap(), pool: pool.map(str::to_owned) })
    }

    fn modes(sessions: SessionMode) -> Modes {
        Modes::new(sessions, true)
    }

    #[test]
    fn who_names_no_pool_gets_the_default() {
        assert_eq!(target(Modes::POOLS, &json!({})), lease("MAIN", None));
        assert_eq!(
            target(Modes::POOLS, &json!({ "browser_pool": null, "browser_instance": "" })),
            lease("MAIN", None)
        );
        let address = json!({ "browser_pool": "OTHER", "browser_instance": "main_browser" });
        assert_eq!(target(Modes::POOLS, &address), lease("OTHER", Some("main_browser")));
        assert_eq!(
            target(Modes::POOLS, &json!({ "browser_pool": "", "browser_instance": 2 })),
            lease("MAIN", Some("2"))
        );
    }

    #[test]
    fn an_unknown_pool_is_an_error_that_lists_the_valid_ones() {
        assert_eq!(
            target(Modes::POOLS, &json!({ "browser_pool": "main" })).unwrap_err().to_string(),
            "Invalid pool name in browser_pool: there is no pool `main`. The pools are: MAIN, OTHER."
        );
        let error = target(Modes::POOLS, &json!({ "browser_pool": {} })).unwrap_err();
        assert_eq!(error.to_string(), "`browser_pool` has to be a text.");
    }

    #[test]
    fn a_session_comes_before_a_lease() {
        let optional = modes(SessionMode::Optional);
        assert_eq!(target(optional, &json!({ "sessionId": "a b" })), session("a b", None));
        let address = json!({ "sessionId": "a", "browser_pool": "OTHER" });
        assert_eq!(target(optional, &address), session("a", Some("OTHER")));
        assert_eq!(target(optional, &json!({})), lease("MAIN", None));
        let both = json!({ "sessionId": "a", "browser_instance": "0" });
        assert_eq!(target(optional, &both), Err(AddressError::SessionAndInstance));
        assert_eq!(target(Modes::POOLS, &json!({ "sessionId": "a" })), lease("MAIN", None), "not ours, then");
    }

    #[test]
    fn where_sessions_are_the_rule_there_is_one_for_those_who_name_none() {
        let always = Modes::new(SessionMode::Always, false);
        assert_eq!(target(always, &json!({ "sessionId": "" })), session("default", None));
        assert_eq!(target(always, &json!({ "sessionId": "x", "browser_pool": "?" })), session("x", None));
        let implied = SessionName::new("mine").unwrap();
        let found = resolve(&Address::default(), always, Some(&implied), POOLS.into_iter(), &[]);
        assert_eq!(found, session("mine", None));
        let required = Modes::new(SessionMode::Required, false);
        assert_eq!(target(required, &json!({})), Err(AddressError::SessionMissing));
    }

    #[test]
    fn a_connection_can_bring_its_session_beside_pools_too() {
        let implied = SessionName::new("mine").unwrap();
        let part = |instance: Option<&str>| Address {
            instance: instance.map(|name| json!(name)),
            ..Address::default()
        };
        let found = |address: &Address| {
            resolve(address, modes(SessionMode::Optional), Some(&implied), POOLS.into_iter(), &[])
        };
        assert_eq!(found(&part(None)), session("mine", None));
        assert_eq!(found(&part(Some("0"))), lease("MAIN", Some("0")));
    }

    #[test]
    fn a_name_may_be_anything_but_empty_or_endless() {
        assert!(SessionName::new("../../etc/passwd \u{1F98A}").is_ok());
        assert!(SessionName::new("ü".repeat(256)).is_ok());
        assert_eq!(SessionName::new("x".repeat(257)), Err(AddressError::SessionTooLong { letters: 257 }));
        let optional = modes(SessionMode::Optional);
        assert_eq!(target(optional, &json!({ "sessionId": 7 })), session("7", None));
        assert!(target(optional, &json!({ "sessionId": [] })).is_err());
    }

    fn attached(mode: BrowserMode, count: usize, address: &Value) -> Result<Target, AddressError> {
        let browsers: Vec<_> = (1..=count)
            .map(|index| KnownBrowser {
                index,
                name: (index == 2).then(|| "work".to_owned()),
                address: format!("http://127.0.0.1:{}", 9221 + index),
            })
            .collect();
        let part = |name: &str| address.get(name).cloned();
        let address = Address {
            session: part("sessionId"),
            index: part("browserIndex"),
            browser: part("browser"),
            ..Address::default()
        };
        let sessions = if mode == BrowserMode::Only { SessionMode::Off } else { SessionMode::Optional };
        let modes = Modes { sessions, pools: mode != BrowserMode::Only, browsers: mode };
        resolve(&address, modes, None, POOLS.into_iter(), &browsers)
    }

    #[test]
    fn one_browser_must_not_be_named_and_one_of_several_must() {
        let only = |count, address: Value| attached(BrowserMode::Only, count, &address);
        assert_eq!(only(0, json!({})), Err(AddressError::NoBrowsers));
        assert_eq!(only(1, json!({})), Ok(Target::Browser(1)));
        assert_eq!(
            only(1, json!({ "browserIndex": 1 })).unwrap_err().to_string(),
            "browserIndex must NOT be specified: there is only one browser, and every call goes to it. The browsers are: \
             [1] http://127.0.0.1:9222."
        );
        assert!(only(1, json!({ "browser": "work" })).is_err());
        assert_eq!(
            only(2, json!({})).unwrap_err().to_string(),
            "browserIndex parameter is required when multiple browsers are connected. The browsers are: [1] \
             http://127.0.0.1:9222, [2] http://127.0.0.1:9223 (name: work)."
        );
        assert_eq!(only(2, json!({ "browserIndex": 2 })), Ok(Target::Browser(2)));
        assert_eq!(only(2, json!({ "browser": "work" })), Ok(Target::Browser(2)));
        assert_eq!(only(2, json!({ "browser": "work", "browserIndex": 2 })), Ok(Target::Browser(2)));
        assert!(matches!(
            only(2, json!({ "browser": "work", "browserIndex": 1 })),
            Err(AddressError::TwoBrowsers { .. })
        ));
    }

    #[test]
    fn what_names_no_browser_is_an_error_that_lists_them() {
        for wrong in [
            json!({ "browserIndex": 0 }),
            json!({ "browserIndex": -1 }),
            json!({ "browserIndex": 99 }),
            json!({ "browserIndex": "1" }),
            json!({ "browserIndex": 1.5 }),
            json!({ "browser": "play" }),
        ] {
            for mode in [BrowserMode::Only, BrowserMode::Beside] {
                let message = attached(mode, 2, &wrong).unwrap_err().to_string();
                assert!(message.contains("[2] http://127.0.0.1:9223 (name: work)"), "{message}");
            }
        }
    }

    #[test]
    fn beside_pools_a_browser_may_be_named_and_nothing_else_with_it() {
        let beside = |address: Value| attached(BrowserMode::Beside, 1, &address);
        assert_eq!(beside(json!({})), lease("MAIN", None));
        assert_eq!(beside(json!({ "browserIndex": 1 })), Ok(Target::Browser(1)));
        assert_eq!(beside(json!({ "browserIndex": 1, "sessionId": "" })), Ok(Target::Browser(1)));
        let both = beside(json!({ "browserIndex": 1, "sessionId": "a" })).unwrap_err().to_string();
        assert!(both.starts_with("`browserIndex` and `sessionId` contradict one another"), "{both}");
    }

    #[test]
    fn a_name_that_is_taken_gets_a_prefix() {
        let beside = Parameters::beside(|name| name == "browser_pool" || name == "sessionId");
        assert_eq!(beside.pool, "greenroom_browser_pool");
        assert_eq!(beside.session, "greenroom_sessionId");
        assert_eq!(beside.instance, "browser_instance");
    }
}
