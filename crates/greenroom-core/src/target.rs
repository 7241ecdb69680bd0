//! Which browser a call asks for.

use serde_json::Value;

/// The parameters that Greenroom adds to the tools, under the names they have beside a tool's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    pub session: String,
    pub pool: String,
    pub instance: String,
    pub reply: String,
}

impl Parameters {
    pub const SESSION: &str = "sessionId";
    pub const POOL: &str = "browser_pool";
    pub const INSTANCE: &str = "browser_instance";
    pub const REPLY: &str = "reply";

    /// A name that the tool uses itself gets a prefix.
    pub fn beside(is_taken: impl Fn(&str) -> bool) -> Self {
        let free = |name: &str| if is_taken(name) { format!("greenroom_{name}") } else { name.to_owned() };
        Self {
            session: free(Self::SESSION),
            pool: free(Self::POOL),
            instance: free(Self::INSTANCE),
            reply: free(Self::REPLY),
        }
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self::beside(|_| false)
    }
}

/// What calls can say about where they want to run, and what happens to those that say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// `sessionId` means something.
    pub sessions: SessionMode,
    /// `browser_pool` and `browser_instance` mean something.
    pub pools: bool,
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
    pub const POOLS: Self = Self { sessions: SessionMode::Off, pools: true };

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
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no pool `{name}`. The pools are: {}.", valid.join(", "))]
pub struct UnknownPool {
    pub name: String,
    pub valid: Vec<String>,
}

/// Decides where a call runs. `pools` are the names that there are, the default first; `implied` is the session of a
/// call that names none.
pub fn resolve<'a>(
    address: &Address,
    modes: Modes,
    implied: Option<&SessionName>,
    pools: impl Iterator<Item = &'a str> + Clone,
) -> Result<Target, AddressError> {
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

    use super::{Address, AddressError, Modes, Parameters, SessionMode, SessionName, Target, resolve};

    const POOLS: [&str; 2] = ["MAIN", "OTHER"];

    fn target(modes: Modes, address: &Value) -> Result<Target, AddressError> {
        let part = |name: &str| address.get(name).cloned();
        let address = Address {
            session: part("sessionId"),
            pool: part("browser_pool"),
            instance: part("browser_instance"),
        };
        resolve(&address, modes, None, POOLS.into_iter())
    }

    fn lease(pool: &str, instance: Option<&str>) -> Result<Target, AddressError> {
        Ok(Target::Lease { pool: pool.to_owned(), instance: instance.map(str::to_owned) })
    }

    fn session(name: &str, pool: Option<&str>) -> Result<Target, AddressError> {
        Ok(Target::Session { name: SessionName::new(name).unwrap(), pool: pool.map(str::to_owned) })
    }

    fn modes(sessions: SessionMode) -> Modes {
        Modes { sessions, pools: true }
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
        let always = Modes { sessions: SessionMode::Always, pools: false };
        assert_eq!(target(always, &json!({ "sessionId": "" })), session("default", None));
        assert_eq!(target(always, &json!({ "sessionId": "x", "browser_pool": "?" })), session("x", None));
        let implied = SessionName::new("mine").unwrap();
        let found = resolve(&Address::default(), always, Some(&implied), POOLS.into_iter());
        assert_eq!(found, session("mine", None));
        let required = Modes { sessions: SessionMode::Required, pools: false };
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
            resolve(address, modes(SessionMode::Optional), Some(&implied), POOLS.into_iter())
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

    #[test]
    fn a_name_that_is_taken_gets_a_prefix() {
        let beside = Parameters::beside(|name| name == "browser_pool" || name == "sessionId");
        assert_eq!(beside.pool, "greenroom_browser_pool");
        assert_eq!(beside.session, "greenroom_sessionId");
        assert_eq!(beside.instance, "browser_instance");
    }
}
