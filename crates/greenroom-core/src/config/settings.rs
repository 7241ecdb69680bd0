//! Layers of raw values, and the table of settings that they add up to.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::keys::{KEYS, Key, Trust};
use super::mistake::Mistake;
use super::value::Value;

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
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: &'static Key,
    /// The name as the person wrote it: a variable, a TOML path, a flag.
    pub(super) written: String,
    pub(super) raw: Raw,
}

impl Layer {
    pub(super) fn new(source: Source) -> Self {
        Self { source, entries: Vec::new(), mistakes: Vec::new() }
    }

    /// The command line: pairs of (key name, flag as written) and values that clap has already found.
    ///
    /// # Panics
    /// When a key is not in the table, which is a mistake in the program and not in its configuration.
    pub fn command_line(flags: impl IntoIterator<Item = (&'static str, &'static str, String)>) -> Self {
        let mut layer = Self::new(Source::CommandLine);
        for (name, flag, value) in flags {
            let key = Key::find(name).expect("flags name keys of the table");
            layer.entries.push(Entry { key, written: flag.to_owned(), raw: Raw::Text(value) });
        }
        layer
    }
}

/// One key's effective value and where it came from.
#[derive(Clone, Debug)]
pub struct Setting {
    pub key: &'static Key,
    pub value: Option<Value>,
    pub source: Source,
    /// How the value was named where it was written; the key itself for built-in values.
    pub written: String,
}

/// The effective value of every key.
#[derive(Clone, Debug)]
pub struct Settings(BTreeMap<&'static str, Setting>);

impl Settings {
    /// Lays the layers over one another, lowest first.
    pub(super) fn merge(layers: Vec<Layer>) -> (Self, Vec<Mistake>) {
        let mut mistakes = Vec::new();
        let mut settings: BTreeMap<_, _> = KEYS.iter().map(|key| (key.name, built_in(key))).collect();
        for layer in layers {
            mistakes.extend(layer.mistakes);
            for entry in layer.entries {
                let place = place(&entry.written, &layer.source);
                if entry.key.trust == Trust::Operator && !layer.source.is_trusted() {
                    mistakes.push(Mistake::new(
                        place,
                        format!(
                            "{} decides what runs on this machine, and a file that merely lies in the working \
                             directory may not",
                            entry.key.name
                        ),
                        "Set it in the environment, in your own configuration folder, or in a file given with \
                         `--config`.",
                    ));
                    continue;
                }
                match entry.key.kind.read(&entry.raw) {
                    Ok(value) => {
                        let setting = Setting {
                            key: entry.key,
                            value: Some(value),
                            source: layer.source.clone(),
                            written: entry.written,
                        };
                        settings.insert(entry.key.name, setting);
                    }
                    Err(rejected) => mistakes.push(Mistake::new(place, rejected.problem, rejected.remedy)),
                }
            }
        }
        (Self(settings), mistakes)
    }

    /// In the order of the key table.
    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        KEYS.iter().map(|key| self.get(key.name))
    }

    pub(super) fn get(&self, name: &str) -> &Setting {
        self.0.get(name).expect("settings hold every key of the table")
    }
}

fn built_in(key: &'static Key) -> Setting {
    let value = key.default.map(|text| {
        let raw = Raw::Text(text.to_owned());
        key.kind.read(&raw).ok().expect("defaults in the table are of their kind")
    });
    Setting { key, value, source: Source::BuiltIn, written: key.name.to_owned() }
}

pub(super) fn place(written: &str, source: &Source) -> String {
    match source {
        Source::Environment | Source::CommandLine | Source::BuiltIn => written.to_owned(),
        Source::File { path, .. } | Source::DotEnv { path } => format!("{written} in {}", path.display()),
    }
}
