//! The tools that agents see: those of the upstreams, with Greenroom's parameters added, and Greenroom's own.
//!
//! ```text
//!   upstream ──tools/list──► book ──┐
//!   upstream ──tools/list──► book ──┼──► one list: hidden ones left out, parameters added, own tools appended
//!                        (disk) ────┘
//! ```
//!
//! Upstreams that are configured alike share a book. A book is kept on disk where its content is known by its name:
//! that makes the difference between answering `tools/list` at once and starting a server just to ask it.

mod union;

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use greenroom_core::config::{PoolConfig, Reply, ToolFilter, UpstreamConfig};
use greenroom_core::target::{BrowserMode, Modes, Parameters, SessionMode};
use greenroom_upstream::rpc::CallError;
use greenroom_upstream::{Driver, Upstream};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::own::OwnTool;

/// How long an upstream may take to list its tools.
const LIST_LIMIT: Duration = Duration::from_secs(30);

/// A tool as an upstream lists it.
pub(crate) struct UpstreamTool {
    name: String,
    raw: Box<RawValue>,
    parameters: HashSet<String>,
    /// Whether the schema says that there are no other parameters.
    is_closed: bool,
}

impl UpstreamTool {
    fn read(raw: Box<RawValue>) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Shape {
            name: String,
            #[serde(default)]
            input_schema: Schema,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Schema {
            #[serde(default)]
            properties: Map<String, Value>,
            #[serde(default)]
            additional_properties: Value,
        }
        let shape: Shape = serde_json::from_str(raw.get())
            .inspect_err(
                |error| tracing::warn!(%error, "the upstream lists a tool that cannot be read; left out"),
            )
            .ok()?;
        Some(Self {
            name: shape.name,
            is_closed: shape.input_schema.additional_properties == Value::Bool(false),
            parameters: shape.input_schema.properties.into_iter().map(|(name, _)| name).collect(),
            raw,
        })
    }

    /// Removes what the schema does not name. Upstreams read some arguments that they do not list, and those
    /// change their output behind everybody's back.
    pub(crate) fn strip(&self, arguments: &mut Map<String, Value>) {
        if self.is_closed {
            arguments.retain(|name, _| self.parameters.contains(name));
        }
    }
}

/// What upstreams of one kind list.
pub(crate) struct ToolBook {
    current: watch::Sender<Option<Arc<Vec<UpstreamTool>>>>,
    driver: Arc<dyn Driver>,
    file: Option<PathBuf>,
    books: Weak<ToolBooks>,
}

impl ToolBook {
    pub(crate) fn driver(&self) -> &dyn Driver {
        self.driver.as_ref()
    }

    pub(crate) fn is_known(&self) -> bool {
        self.current.borrow().is_some()
    }

    /// Waits until somebody has listed the tools.
    pub(crate) async fn known(&self) {
        // The sender is in `self`, so it does not close.
        let _ = self.current.subscribe().wait_for(Option::is_some).await;
    }

    /// Does something with one of the tools.
    pub(crate) fn with<T>(&self, name: &str, look: impl FnOnce(&UpstreamTool) -> T) -> Option<T> {
        self.current.borrow().as_ref()?.iter().find(|tool| tool.name == name).map(look)
    }

    fn names(&self) -> Vec<String> {
        self.current.borrow().iter().flat_map(|list| list.iter().map(|tool| tool.name.clone())).collect()
    }

    /// Asks an upstream for its list.
    pub(crate) async fn fetch(&self, upstream: &Upstream) {
        match timeout(LIST_LIMIT, upstream.list_tools()).await {
            Ok(Ok(raw)) => self.update(raw),
            Ok(Err(CallError::Ended(_))) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the upstream did not list its tools");
                // One that does not list its tools has none.
                if !self.is_known() {
                    self.update(Vec::new());
                }
            }
            Err(_) => tracing::warn!(limit = ?LIST_LIMIT, "the upstream did not list its tools in time"),
        }
    }

    /// Takes a list that was just fetched. The common list is composed anew only if it is another one.
    fn update(&self, raw: Vec<Box<RawValue>>) {
        let kept = self.file.as_ref().and_then(|_| serde_json::to_vec(&raw).ok());
        let list = read(raw, self.driver.as_ref());
        let is_same = |known: &Arc<Vec<UpstreamTool>>| {
            known.len() == list.len() && known.iter().zip(&list).all(|(a, b)| a.raw.get() == b.raw.get())
        };
        if self.current.borrow().as_ref().is_some_and(is_same) {
            return;
        }
        if let (Some(file), Some(bytes)) = (&self.file, kept)
            && let Err(error) = write_whole(file, &bytes)
        {
            tracing::debug!(%error, file = %file.display(), "the tool list could not be kept");
        }
        let list = Some(Arc::new(list));
        match self.books.upgrade() {
            Some(books) => books.publish(|| self.current.send_replace(list)),
            None => drop(self.current.send_replace(list)),
        }
    }
}

fn read(raw: Vec<Box<RawValue>>, driver: &dyn Driver) -> Vec<UpstreamTool> {
    raw.into_iter().filter_map(UpstreamTool::read).filter(|tool| driver.offers(&tool.name)).collect()
}

/// What is added to the upstreams' tools.
pub(crate) struct Additions {
    pub(crate) modes: Modes,
    /// The pools by name and description, the default first.
    pub(crate) pools: Vec<(String, String)>,
    pub(crate) own: Vec<OwnTool>,
    /// How calls are answered where they do not say, if they can say.
    pub(crate) reply: Option<Reply>,
}

impl Additions {
    /// Adds the parameters that mean something to a tool's schema.
    pub(crate) fn add_to(&self, schema: &mut Value, parameters: &Parameters) {
        if !schema.is_object() {
            *schema = json!({ "type": "object" });
        }
        let own = schema["properties"].as_object().cloned().unwrap_or_default();
        let mut properties = Map::new();
        if self.modes.has_sessions() {
            properties.insert(parameters.session.clone(), session_parameter(self.modes.sessions));
        }
        properties.extend(own);
        if self.modes.pools {
            properties.insert(parameters.pool.clone(), pool_parameter(&self.pools));
            properties.insert(parameters.instance.clone(), instance_parameter());
        }
        if self.modes.has_browsers() {
            properties.insert(parameters.index.clone(), index_parameter(self.modes.browsers));
            properties.insert(parameters.browser.clone(), browser_parameter());
        }
        if let Some(default) = self.reply {
            properties.insert(parameters.reply.clone(), reply_parameter(default));
        }
        schema["properties"] = properties.into();
        if self.modes.has_only_sessions() {
            let mut required = vec![Value::String(parameters.session.clone())];
            required.extend(schema["required"].as_array().cloned().unwrap_or_default());
            schema["required"] = required.into();
        }
    }

    fn adds(&self) -> bool {
        self.modes.has_sessions() || self.modes.pools || self.modes.has_browsers()
    }
}

/// All books, and the list that they add up to.
pub(crate) struct ToolBooks {
    cache_dir: PathBuf,
    additions: Additions,
    known: Mutex<Known>,
    composed: watch::Sender<Option<Arc<ToolList>>>,
}

#[derive(Default)]
struct Known {
    by_key: HashMap<String, Arc<ToolBook>>,
    /// In the order of the pools; what is shown of each.
    shown: Vec<(String, Arc<ToolBook>, ToolFilter)>,
}

impl ToolBooks {
    pub(crate) fn new(cache_dir: &Path, additions: Additions) -> Arc<Self> {
        Arc::new(Self {
            cache_dir: cache_dir.to_owned(),
            additions,
            known: Mutex::default(),
            composed: watch::channel(None).0,
        })
    }

    /// The book of upstreams like this one.
    pub(crate) fn of(
        self: &Arc<Self>,
        driver: &Arc<dyn Driver>,
        upstream: &UpstreamConfig,
        pool: &PoolConfig,
    ) -> Arc<ToolBook> {
        let key = match driver.tool_list_name() {
            Some(name) => format!("{name} {}", upstream.allow_unsafe_code),
            None => format!("{:?} {:?}", upstream.driver, upstream.env),
        };
        self.book(key, driver, &pool.name, &pool.tools)
    }

    /// The book of an attached browser, shown under this name.
    pub(crate) fn of_browser(
        self: &Arc<Self>,
        driver: &Arc<dyn Driver>,
        address: &str,
        place: &str,
        filter: &ToolFilter,
    ) -> Arc<ToolBook> {
        let key = driver.tool_list_name().unwrap_or_else(|| address.to_owned());
        self.book(key, driver, place, filter)
    }

    /// A place is there no more.
    pub(crate) fn forget(&self, place: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.shown.retain(|(name, ..)| name != place);
        self.compose(&known);
    }

    fn book(
        self: &Arc<Self>,
        key: String,
        driver: &Arc<dyn Driver>,
        place: &str,
        filter: &ToolFilter,
    ) -> Arc<ToolBook> {
        let name = driver.tool_list_name();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let book = known.by_key.entry(key).or_insert_with(|| {
            let file = name.map(|name| self.cache_dir.join(format!("tools-{name}.json")));
            let kept = file.as_deref().and_then(|file| std::fs::read(file).ok());
            let raw = kept.and_then(|bytes| serde_json::from_slice::<Vec<Box<RawValue>>>(&bytes).ok());
            let list = raw.map(|raw| Arc::new(read(raw, driver.as_ref())));
            let (current, driver) = (watch::channel(list).0, Arc::clone(driver));
            Arc::new(ToolBook { current, driver, file, books: Arc::downgrade(self) })
        });
        let book = Arc::clone(book);
        let is_shown = |(name, shown, _): &(String, Arc<ToolBook>, ToolFilter)| {
            name == place && Arc::ptr_eq(shown, &book)
        };
        if !known.shown.iter().any(is_shown) {
            known.shown.push((place.to_owned(), Arc::clone(&book), filter.clone()));
        }
        if book.is_known() {
            self.compose(&known);
        }
        book
    }

    /// Which pools have a tool, and what a tool of a pool might have been meant.
    pub(crate) fn look_up(&self, pool: &str, tool: &str) -> Lookup {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let has =
            |book: &ToolBook, filter: &ToolFilter| filter.shows(tool) && book.with(tool, |_| ()).is_some();
        let of_pool = known.shown.iter().filter(|(name, ..)| name == pool);
        if of_pool.clone().any(|(_, book, filter)| !book.is_known() || has(book, filter)) {
            return Lookup::Known;
        }
        let others = known.shown.iter().filter(|(_, book, filter)| has(book, filter));
        let elsewhere: Vec<_> = others.map(|(name, ..)| name.clone()).collect();
        let names = of_pool.flat_map(|(_, book, filter)| {
            book.names().into_iter().filter(|name| filter.shows(name)).collect::<Vec<_>>()
        });
        Lookup::Unknown { elsewhere, nearest: nearest(tool, names) }
    }

    /// Whether a tool of an upstream has a parameter of its own by this name.
    pub(crate) fn takes(&self, tool: &str, parameter: &str) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let takes = |tool: &UpstreamTool| tool.parameters.contains(parameter);
        known.shown.iter().any(|(_, book, _)| book.with(tool, takes).unwrap_or(false))
    }

    /// What kind of tool a name stands for. `None` when nobody lists it, or nobody has yet.
    pub(crate) fn kind(&self, name: &str) -> Option<Kind> {
        let listed =
            self.composed.borrow().as_ref().and_then(|list| list.find(name).map(|tool| tool.kind.clone()));
        listed.or_else(|| {
            let own = self.additions.own.iter().find(|own| own.name() == name);
            own.map(|own| Kind::Own(*own))
        })
    }

    pub(crate) fn current(&self) -> Option<Arc<ToolList>> {
        self.composed.borrow().clone()
    }

    /// The list with every book in it that is known now. A book is known a moment before it is in the list.
    pub(crate) fn settled(&self) -> Option<Arc<ToolList>> {
        drop(self.known.lock());
        self.current()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Arc<ToolList>>> {
        self.composed.subscribe()
    }

    /// The list of nothing but Greenroom's own tools.
    pub(crate) fn without_upstreams(&self) -> Arc<ToolList> {
        Arc::new(ToolList::new(&[], &self.additions))
    }

    /// Changes a book and the list with it.
    fn publish<T>(&self, change: impl FnOnce() -> T) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        change();
        self.compose(&known);
    }

    /// Makes the common list from what is known. Subscribers hear of it only if it is another one. Under the lock, so
    /// that an older list does not replace a newer one.
    fn compose(&self, known: &Known) {
        let lists: Vec<_> = known
            .shown
            .iter()
            .filter_map(|(place, book, filter)| {
                Some((place.as_str(), book.current.borrow().clone()?, filter))
            })
            .collect();
        let list = Arc::new(ToolList::new(&lists, &self.additions));
        self.composed.send_if_modified(|current| {
            let differs = current.as_ref().is_none_or(|current| current.hash() != list.hash());
            if differs {
                *current = Some(list);
            }
            differs
        });
    }
}

/// Whether a pool has a tool.
pub(crate) enum Lookup {
    /// It has, or nobody knows yet.
    Known,
    Unknown {
        elsewhere: Vec<String>,
        nearest: Option<String>,
    },
}

fn nearest(name: &str, known: impl Iterator<Item = String>) -> Option<String> {
    known
        .map(|known| (strsim::jaro_winkler(name, &known), known))
        .filter(|(likeness, _)| *likeness > 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// A tool as agents see it.
pub struct ToolEntry {
    pub name: String,
    pub raw: Box<RawValue>,
    /// As the upstream wrote it; none of Greenroom's own.
    pub plain: Option<Box<RawValue>>,
    pub(crate) kind: Kind,
}

#[derive(Clone)]
pub(crate) enum Kind {
    Own(OwnTool),
    /// An upstream's, with these parameters added where calls can be addressed.
    Proxied(Option<Arc<Parameters>>),
}

/// A tool as some places have it.
struct Variant<'a> {
    tool: &'a UpstreamTool,
    places: Vec<&'a str>,
}

pub struct ToolList {
    entries: Vec<ToolEntry>,
    hash: u64,
}

impl ToolList {
    fn new(lists: &[(&str, Arc<Vec<UpstreamTool>>, &ToolFilter)], additions: &Additions) -> Self {
        let mut order: Vec<Vec<Variant<'_>>> = Vec::new();
        let mut names: HashMap<&str, usize> = HashMap::new();
        for (place, list, filter) in lists {
            for tool in list.iter().filter(|tool| filter.shows(&tool.name)) {
                let number = *names.entry(&tool.name).or_insert(order.len());
                if number == order.len() {
                    order.push(Vec::new());
                }
                let known = order[number].iter_mut().find(|known| known.tool.raw.get() == tool.raw.get());
                match known {
                    Some(known) => known.places.push(place),
                    None => order[number].push(Variant { tool, places: vec![place] }),
                }
            }
        }
        let mut names: HashSet<String> = names.into_keys().map(str::to_owned).collect();
        let mut entries: Vec<ToolEntry> = order
            .iter()
            .map(|variants| match variants.as_slice() {
                [only] => proxied(only.tool, additions),
                several => proxied(&union::of(several), additions),
            })
            .collect();
        for &own in &additions.own {
            if names.insert(own.name().to_owned()) {
                let raw = own.describe(additions);
                entries.push(ToolEntry {
                    name: own.name().to_owned(),
                    raw,
                    plain: None,
                    kind: Kind::Own(own),
                });
            } else {
                tracing::warn!(
                    tool = own.name(),
                    "an upstream has a tool of that name, and it takes precedence"
                );
            }
        }
        let mut hasher = DefaultHasher::new();
        for entry in &entries {
            entry.raw.get().hash(&mut hasher);
        }
        Self { entries, hash: hasher.finish() }
    }

    pub fn iter(&self) -> impl Iterator<Item = &ToolEntry> {
        self.entries.iter()
    }

    pub fn find(&self, name: &str) -> Option<&ToolEntry> {
        self.entries.iter().find(|tool| tool.name == name)
    }

    /// Differs when, and only when, the lists do.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

fn proxied(tool: &UpstreamTool, additions: &Additions) -> ToolEntry {
    let parameters =
        additions.adds().then(|| Arc::new(Parameters::beside(|name| tool.parameters.contains(name))));
    let raw = match &parameters {
        Some(parameters) => {
            let mut described: Value = serde_json::from_str(tool.raw.get()).expect("it was read before");
            additions.add_to(&mut described["inputSchema"], parameters);
            serde_json::value::to_raw_value(&described).expect("JSON stays JSON")
        }
        None => tool.raw.clone(),
    };
    ToolEntry { name: tool.name.clone(), raw, plain: Some(tool.raw.clone()), kind: Kind::Proxied(parameters) }
}

/// The schema of `sessionId`.
fn session_parameter(mode: SessionMode) -> Value {
    let description = match mode {
        SessionMode::Required => "Session ID for isolation",
        SessionMode::Optional => {
            "Any text that names a browser session of your own: an isolated browser that stays yours. Give the same one with \
             every call of one task. Not given: the next free browser of the pool."
        }
        _ => {
            "Any text that names your browser session, such as the name of your task. Give the same one with every call of one \
             task; a new name gets a fresh, isolated browser."
        }
    };
    json!({ "type": "string", "description": description })
}

/// The schema of `browser_pool`.
fn pool_parameter(pools: &[(String, String)]) -> Value {
    let names: Vec<_> = pools.iter().map(|(name, _)| name).collect();
    let described = pools.iter().filter(|(_, text)| !text.is_empty());
    let described: Vec<_> = described.map(|(name, text)| format!("{name}: {text}")).collect();
    let mut description = format!("Pool of browsers to use. Default: {}.", names[0]);
    if !described.is_empty() {
        description.push_str(&format!(" {}.", described.join("; ")));
    }
    json!({ "type": "string", "enum": names, "description": description })
}

/// The schema of `browser_instance`.
fn instance_parameter() -> Value {
    json!({
        "type": "string",
        "description": "Number or alias of one browser in the pool, to come back to the same page. Not given: the next \
                        that is free, so calls may land on different browsers.",
    })
}

/// The schema of `browserIndex`.
fn index_parameter(mode: BrowserMode) -> Value {
    let description = match mode {
        BrowserMode::Only => {
            "Index of the browser to use (1-based). REQUIRED when several browsers are attached, and not to be given when there is \
             only one. list_browsers shows them."
        }
        _ => {
            "Index (1-based) of an attached browser to use, as list_browsers shows it. Not given: none of them."
        }
    };
    json!({ "type": "integer", "minimum": 1, "description": description })
}

/// The schema of `browser`.
fn browser_parameter() -> Value {
    json!({ "type": "string", "description": "Name of an attached browser, instead of browserIndex." })
}

/// The schema of `reply`. It stands on every tool, so it is short.
fn reply_parameter(default: Reply) -> Value {
    let description =
        format!("How much to return; diff: what changed on the page. Default: {}.", default.name());
    json!({ "type": "string", "enum": Reply::NAMES, "description": description })
}

/// Under a temporary name first: another process may be reading.
fn write_whole(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let temporary = file.with_extension(format!("{}.tmp", std::process::id()));
    std::fs::write(&temporary, bytes)?;
    std::fs::rename(&temporary, file)
}
