//! Pools and their instances: from settings to the configuration of each, and what must hold among them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::keys::Level;
use super::mistake::{Mistake, Mistakes};
use super::model::{Profile, Reader, UpstreamConfig};
use super::settings::{Scope, Settings};

/// The pool that there is when nobody has configured one.
const IMPLICIT: &str = "DEFAULT";

#[derive(Clone, Debug)]
pub struct PoolConfig {
    pub name: String,
    pub description: String,
    pub is_default: bool,
    /// Nobody has configured it.
    pub is_implicit: bool,
    pub start: Start,
    /// `None`: as long as the call may take.
    pub lease_timeout: Option<Duration>,
    pub max_queue: usize,
    /// `None`: a call may take as long as it takes. Instances may differ.
    pub call_timeout: Option<Duration>,
    pub tools: ToolFilter,
    pub sessions: SessionConfig,
    pub reply: Reply,
    /// Bytes of text in one reply at most; 0 for any number.
    pub reply_budget: usize,
    pub instances: Vec<InstanceConfig>,
    settings: Arc<Settings>,
}

#[derive(Clone, Debug)]
pub struct InstanceConfig {
    pub id: u32,
    pub alias: Option<String>,
    pub upstream: UpstreamConfig,
}

/// How sessions of a pool live. They use its configuration, but none of its instances.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// `None`: what the driver can do best.
    pub isolation: Option<Isolation>,
    pub per_host: usize,
    pub warm: usize,
    /// `None`: any number.
    pub max: Option<usize>,
    /// `None`: for ever.
    pub idle: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// One browser context in a process that several share.
    Context,
    /// A process of its own.
    Process,
}

/// How much of an answer is returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reply {
    #[default]
    Full,
    /// A ref id to read it by.
    Ref,
    /// What has changed since the session's last snapshot.
    Diff,
}

impl Reply {
    pub const NAMES: [&str; 3] = ["full", "ref", "diff"];

    pub fn named(name: &str) -> Option<Self> {
        match name {
            "full" => Some(Self::Full),
            "ref" => Some(Self::Ref),
            "diff" => Some(Self::Diff),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Ref => "ref",
            Self::Diff => "diff",
        }
    }
}

/// When the browsers of a pool are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Eager,
    Lazy,
}

/// Which of the upstream's tools agents see.
#[derive(Clone, Debug, Default)]
pub struct ToolFilter {
    only: Option<Vec<String>>,
    hidden: Vec<String>,
}

impl ToolFilter {
    pub(super) fn read(read: &Reader<'_>) -> Self {
        Self { only: read.list("TOOLS"), hidden: read.list("HIDE_TOOLS").unwrap_or_default() }
    }

    pub fn shows(&self, tool: &str) -> bool {
        let is_among = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, tool));
        self.only.as_deref().is_none_or(is_among) && !is_among(&self.hidden)
    }

    /// Hides one more.
    pub fn hide(&mut self, tool: &str) {
        self.hidden.push(tool.to_owned());
    }
}

/// `*` stands for any number of any letters.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            text.char_indices().map(|(at, _)| &text[at..]).chain([""]).any(|text| matches(rest, text))
        }),
    }
}

impl PoolConfig {
    /// The configuration of an instance, also of one beyond those that were configured.
    pub fn instance(&self, id: u32) -> Result<InstanceConfig, Mistakes> {
        let mut mistakes = Vec::new();
        let instance = instance(&self.settings, &self.name, self.is_implicit, id, &mut mistakes);
        if mistakes.is_empty() { Ok(instance) } else { Err(Mistakes(mistakes)) }
    }
}

/// All pools, the default first and the others by name.
pub(super) fn build(settings: &Arc<Settings>, mistakes: &mut Vec<Mistake>) -> Vec<PoolConfig> {
    let names = settings.pools();
    if names.is_empty() {
        return vec![pool(settings, IMPLICIT, 1, true, mistakes)];
    }
    let mut pools = Vec::new();
    for name in names {
        let read = Reader::new(settings.view(Some(name), None));
        let scope = Scope::Pool(name.to_owned());
        let written = read.is_written("INSTANCES");
        if !written && !settings.was_refused(&scope, "INSTANCES") {
            mistakes.push(Mistake::new(
                format!("pool {name}"),
                "Pool missing INSTANCES configuration",
                format!("Add PW_MCP_PROXY__{name}_INSTANCES, or correct the pool's name."),
            ));
        }
        let count = if written { read.count("INSTANCES") } else { 0 };
        for id in settings.instances(name).into_iter().filter(|id| written && *id >= count) {
            let last = count.saturating_sub(1);
            mistakes.push(Mistake::new(
                format!("instance {id} of pool {name}"),
                format!("Invalid instance ID in override: the pool has INSTANCES={count}"),
                format!("Use an ID from 0 to {last}, or increase INSTANCES."),
            ));
        }
        pools.push(pool(settings, name, count, false, mistakes));
    }
    check_default(settings, &pools, mistakes);
    pools.sort_by_key(|pool| !pool.is_default);
    pools
}

fn check_default(settings: &Settings, pools: &[PoolConfig], mistakes: &mut Vec<Mistake>) {
    let defaults: Vec<_> =
        pools.iter().filter(|pool| pool.is_default).map(|pool| pool.name.as_str()).collect();
    let refused =
        pools.iter().any(|pool| settings.was_refused(&Scope::Pool(pool.name.clone()), "IS_DEFAULT"));
    match defaults.as_slice() {
        [_] => {}
        [] if refused => {}
        [] => mistakes.push(Mistake::new(
            "IS_DEFAULT",
            "No default pool defined",
            format!(
                "Set one pool's IS_DEFAULT=true, such as PW_MCP_PROXY__{}_IS_DEFAULT=true.",
                pools[0].name
            ),
        )),
        several => mistakes.push(Mistake::new(
            "IS_DEFAULT",
            format!("Multiple default pools defined: {}", several.join(", ")),
            "Set exactly one pool as default.",
        )),
    }
}

fn pool(
    settings: &Arc<Settings>,
    name: &str,
    count: u32,
    is_implicit: bool,
    mistakes: &mut Vec<Mistake>,
) -> PoolConfig {
    let read = Reader::new(settings.view(Some(name), None));
    let instances: Vec<_> =
        (0..count).map(|id| instance(settings, name, is_implicit, id, mistakes)).collect();
    check_aliases(name, &instances, mistakes);
    let start = match read.optional_text("START").as_deref() {
        Some("eager") => Start::Eager,
        Some(_) => Start::Lazy,
        None if is_implicit => Start::Lazy,
        None => Start::Eager,
    };
    PoolConfig {
        name: name.to_owned(),
        description: read.optional_text("DESCRIPTION").unwrap_or_default(),
        is_default: is_implicit || read.bool("IS_DEFAULT"),
        is_implicit,
        start,
        // Nobody has asked for a pool, so nobody expects to be turned away by one: the first start may take its time.
        lease_timeout: (!is_implicit || read.is_written("LEASE_TIMEOUT"))
            .then(|| read.optional_duration("LEASE_TIMEOUT"))
            .flatten(),
        max_queue: size(read.number("MAX_QUEUE")),
        call_timeout: read.optional_duration("CALL_TIMEOUT"),
        tools: ToolFilter::read(&read),
        sessions: SessionConfig {
            isolation: read.optional_text("SESSION_ISOLATION").map(|word| match word.as_str() {
                "process" => Isolation::Process,
                _ => Isolation::Context,
            }),
            per_host: size(read.number("SESSIONS_PER_HOST")),
            warm: size(read.number("WARM_SESSIONS")),
            max: Some(size(read.number("MAX_SESSIONS"))).filter(|most| *most > 0),
            idle: read.optional_duration("SESSION_IDLE_TIMEOUT"),
        },
        reply: Reply::named(&read.text("REPLY")).unwrap_or_default(),
        reply_budget: size(read.number("REPLY_BUDGET")),
        instances,
        settings: Arc::clone(settings),
    }
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn check_aliases(pool: &str, instances: &[InstanceConfig], mistakes: &mut Vec<Mistake>) {
    let mut owners: HashMap<&str, u32> = HashMap::new();
    for instance in instances {
        let Some(alias) = instance.alias.as_deref() else { continue };
        let place = format!("ALIAS of instance {} of pool {pool}", instance.id);
        if alias.bytes().all(|byte| byte.is_ascii_digit()) {
            mistakes.push(Mistake::new(
                place,
                format!("`{alias}` looks like an instance ID"),
                "Use an alias that is not a number.",
            ));
        } else if let Some(other) = owners.insert(alias, instance.id) {
            mistakes.push(Mistake::new(
                place,
                format!("Duplicate alias in pool: `{alias}` is instance {other} already"),
                "Use unique aliases per pool.",
            ));
        }
    }
}

fn instance(
    settings: &Settings,
    pool: &str,
    is_implicit: bool,
    id: u32,
    mistakes: &mut Vec<Mistake>,
) -> InstanceConfig {
    let read = Reader::new(settings.view(Some(pool), Some(id)));
    let profile = profile(&read, pool, is_implicit, id);
    InstanceConfig { id, alias: read.optional_text("ALIAS"), upstream: read.upstream(profile, mistakes) }
}

fn profile(read: &Reader<'_>, pool: &str, is_implicit: bool, id: u32) -> Profile {
    let folder = read.path("USER_DATA_DIR");
    let isolated =
        if is_implicit && !read.is_written("ISOLATED") { folder.is_none() } else { read.bool("ISOLATED") };
    match folder {
        _ if isolated => Profile::Isolated,
        None => Profile::Kept,
        Some(folder) => Profile::At(match read.view.get("USER_DATA_DIR").level {
            Level::Instance => folder,
            // There is one browser, so it is that one's.
            Level::Global if is_implicit => folder,
            Level::Pool => folder.join(id.to_string()),
            Level::Global => folder.join(pool).join(id.to_string()),
        }),
    }
}
