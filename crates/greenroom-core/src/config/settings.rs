//! Layers of raw values, and the table of settings that they add up to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use super::keys::{KEYS, Key, Level, Trust};
use super::mistake::Mistake;
use super::value::Value;
use crate::attach::AttachedConfig;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    BuiltIn,
    /// A TOML file. `trusted` when the operator named it or it lies in their own configuration folder.
    File {
        path: PathBuf,
        trusted: bool,
    },
    /// A `.env` file in the working directory.
    DotEnv {
        path: PathBuf,
    },
    Environment,
    CommandLine,
}

impl Source {
    fn is_trusted(&self) -> bool {
        match self {
            Self::BuiltIn | Self::Environment | Self::CommandLine => true,
            Self::File { trusted, .. } => *trusted,
            Self::DotEnv { .. } => false,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in"),
            Self::File { path, .. } | Self::DotEnv { path } => write!(f, "{}", path.display()),
            Self::Environment => f.write_str("environment"),
            Self::CommandLine => f.write_str("command line"),
        }
    }
}

/// What a value is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Global,
    Pool(String),
    Instance(String, u32),
}

impl Scope {
    pub fn level(&self) -> Level {
        match self {
            Self::Global => Level::Global,
            Self::Pool(_) => Level::Pool,
            Self::Instance(..) => Level::Instance,
        }
    }

    fn pool(&self) -> Option<&str> {
        match self {
            Self::Global => None,
            Self::Pool(pool) | Self::Instance(pool, _) => Some(pool),
        }
    }
}

/// Capital letters, digits, and single underscores between them.
pub(super) fn is_pool_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        && !name.starts_with('_')
        && !name.ends_with('_')
        && !name.contains("__")
}

/// A value as it was written, before anyone knows what kind it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    Text(String),
    List(Vec<String>),
    Pairs(Vec<(String, String)>),
}

/// What one source says.
#[derive(Debug)]
pub struct Layer {
    pub(super) source: Source,
    pub(super) entries: Vec<Entry>,
    /// Mistakes of form, found before any key was looked at.
    pub(super) mistakes: Vec<Mistake>,
    /// What a person should know, though nothing is wrong.
    pub(super) notes: Vec<String>,
    /// Attached browsers, each with where it was written.
    pub(super) browsers: Vec<(String, AttachedConfig)>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) scope: Scope,
    pub(super) key: &'static Key,
    /// The name as the person wrote it: a variable, a TOML path, a flag.
    pub(super) written: String,
    pub(super) raw: Raw,
}

impl Layer {
    pub(super) fn new(source: Source) -> Self {
        Self { source, entries: Vec::new(), mistakes: Vec::new(), notes: Vec::new(), browsers: Vec::new() }
    }

    /// The command line: pairs of (key name, flag as written) and values that clap has already found.
    ///
    /// # Panics
    /// When a key is not in the table, which is a mistake in the program and not in its configuration.
    pub fn command_line(flags: impl IntoIterator<Item = (&'static str, &'static str, String)>) -> Self {
        let mut layer = Self::new(Source::CommandLine);
        for (name, flag, value) in flags {
            let key = Key::find(name).expect("flags name keys of the table");
            let raw = Raw::Text(value);
            layer.entries.push(Entry { scope: Scope::Global, key, written: flag.to_owned(), raw });
        }
        layer
    }
}

/// One key's value and where it came from.
#[derive(Clone, Debug)]
pub struct Setting {
    pub key: &'static Key,
    pub value: Option<Value>,
    pub source: Source,
    pub level: Level,
    /// How the value was named where it was written; the key itself for built-in values.
    pub written: String,
}

/// All values that were written, and the built-in ones below them.
#[derive(Debug)]
pub struct Settings {
    /// Every key of the table is in the global scope.
    scopes: BTreeMap<Scope, BTreeMap<&'static str, Setting>>,
    /// What was written and could not be taken.
    refused: BTreeSet<(Scope, &'static str)>,
    notes: Vec<String>,
    browsers: Vec<(String, AttachedConfig)>,
}

impl Settings {
    /// Lays the layers over one another, lowest first.
    pub(super) fn merge(layers: Vec<Layer>) -> (Self, Vec<Mistake>) {
        let mut mistakes = Vec::new();
        let built_in: BTreeMap<_, _> = KEYS.iter().map(|key| (key.name, built_in(key))).collect();
        let mut scopes = BTreeMap::from([(Scope::Global, built_in)]);
        let (mut refused, mut notes, mut browsers) = (BTreeSet::new(), Vec::new(), Vec::new());
        for layer in layers {
            if layer.source.is_trusted() {
                browsers.extend(layer.browsers);
            } else if let Some((written, _)) = layer.browsers.first() {
                mistakes.push(Mistake::new(
                    place(written, &layer.source),
                    "it decides what runs on this machine or where agents work, and a file that merely lies in the working \
                     directory may not",
                    "Write it in your own configuration folder, or in a file given with `--config`.",
                ));
            }
            mistakes.extend(layer.mistakes);
            notes.extend(layer.notes);
            for entry in layer.entries {
                let key = entry.key;
                match check(&entry, &layer.source) {
                    Ok(value) => {
                        let level = entry.scope.level();
                        let (value, source) = (Some(value), layer.source.clone());
                        let setting = Setting { key, value, source, level, written: entry.written };
                        scopes.entry(entry.scope).or_default().insert(key.name, setting);
                    }
                    Err(mistake) => {
                        mistakes.push(mistake);
                        refused.insert((entry.scope, key.name));
                    }
                }
            }
        }
        (Self { scopes, refused, notes, browsers }, mistakes)
    }

    /// The global value of every key, in the order of the key table. Keys that cannot be global are left out.
    pub fn global(&self) -> impl Iterator<Item = &Setting> {
        let keys = KEYS.iter().filter(|key| key.levels.contains(&Level::Global));
        keys.map(|key| self.view(None, None).get(key.name))
    }

    /// What was written for one pool and its instances.
    pub fn of_pool(&self, pool: &str) -> impl Iterator<Item = (&Scope, &Setting)> {
        let scopes = self.scopes.iter().filter(move |(scope, _)| scope.pool() == Some(pool));
        scopes.flat_map(|(scope, settings)| settings.values().map(move |setting| (scope, setting)))
    }

    /// Every value, written or built in, with what it is for.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Scope, &Setting)> {
        self.scopes
            .iter()
            .flat_map(|(scope, settings)| settings.values().map(move |setting| (scope, setting)))
    }

    /// Every pool that is mentioned.
    pub(super) fn pools(&self) -> BTreeSet<&str> {
        let refused = self.refused.iter().map(|(scope, _)| scope);
        self.scopes.keys().chain(refused).filter_map(Scope::pool).collect()
    }

    /// Every instance of a pool that has values of its own.
    pub(super) fn instances(&self, pool: &str) -> BTreeSet<u32> {
        let of_pool = |scope: &Scope| match scope {
            Scope::Instance(owner, id) if owner == pool => Some(*id),
            _ => None,
        };
        let refused = self.refused.iter().map(|(scope, _)| scope);
        self.scopes.keys().chain(refused).filter_map(of_pool).collect()
    }

    /// Whether a value was written that could not be taken.
    pub(super) fn was_refused(&self, scope: &Scope, name: &'static str) -> bool {
        self.refused.contains(&(scope.clone(), name))
    }

    /// Attached browsers of files, each with where it was written.
    pub(super) fn browsers(&self) -> &[(String, AttachedConfig)] {
        &self.browsers
    }

    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The values as one instance, one pool or nobody in particular sees them.
    pub fn view(&self, pool: Option<&str>, instance: Option<u32>) -> View<'_> {
        let mut scopes = Vec::new();
        if let Some(pool) = pool {
            let instance = instance.map(|id| Scope::Instance(pool.to_owned(), id));
            scopes.extend(instance.into_iter().chain([Scope::Pool(pool.to_owned())]));
        }
        scopes.push(Scope::Global);
        View { chain: scopes.iter().filter_map(|scope| self.scopes.get(scope)).collect() }
    }
}

/// Settings seen from one place: the nearest level that says something counts.
#[derive(Debug)]
pub struct View<'a> {
    chain: Vec<&'a BTreeMap<&'static str, Setting>>,
}

impl<'a> View<'a> {
    /// # Panics
    /// When there is no such key in the table.
    pub fn get(&self, name: &str) -> &'a Setting {
        self.chain
            .iter()
            .find_map(|settings| settings.get(name))
            .expect("settings hold every key of the table")
    }
}

fn check(entry: &Entry, source: &Source) -> Result<Value, Mistake> {
    let here = place(&entry.written, source);
    let key = entry.key;
    if !key.levels.contains(&entry.scope.level()) {
        let (problem, remedy) = wrong_level(key, &entry.scope);
        return Err(Mistake::new(here, problem, remedy));
    }
    if key.trust == Trust::Operator && !source.is_trusted() {
        return Err(Mistake::new(
            here,
            format!(
                "{} decides what runs on this machine or what guards it, and a file that merely lies in the working \
                 directory may not",
                key.name
            ),
            "Set it in the environment, in your own configuration folder, or in a file given with `--config`.",
        ));
    }
    key.kind.read(&entry.raw).map_err(|rejected| Mistake::new(here, rejected.problem, rejected.remedy))
}

fn wrong_level(key: &Key, scope: &Scope) -> (String, String) {
    let name = key.name;
    let pool = scope.pool().unwrap_or("<POOL>");
    let to_pool = format!("PW_MCP_PROXY__{pool}_{name}");
    let to_instance = format!("PW_MCP_PROXY__{pool}__<ID>_{name}");
    let (level, target) = if key.levels.contains(&Level::Pool) {
        ("pool", to_pool)
    } else if key.levels.contains(&Level::Instance) {
        ("instance", to_instance)
    } else {
        let problem = format!("{name} is a setting of the whole server, not of a pool");
        return (problem, format!("Set it once, as PW_MCP_PROXY_{name}."));
    };
    let problem = match scope {
        Scope::Global => format!("{name} defined globally"),
        Scope::Pool(_) => format!("{name} cannot be set for a whole pool"),
        Scope::Instance(..) => format!("{name} cannot be set for one instance"),
    };
    (problem, format!("Move it to the {level} level: {target}."))
}

fn built_in(key: &'static Key) -> Setting {
    let value = key.default.map(|text| {
        let raw = Raw::Text(text.to_owned());
        key.kind.read(&raw).ok().expect("defaults in the table are of their kind")
    });
    Setting { key, value, source: Source::BuiltIn, level: Level::Global, written: key.name.to_owned() }
}

pub(super) fn place(written: &str, source: &Source) -> String {
    match source {
        Source::Environment | Source::CommandLine | Source::BuiltIn => written.to_owned(),
        Source::File { path, .. } | Source::DotEnv { path } => format!("{written} in {}", path.display()),
    }
}
