//! The list of tools: fetched from the upstream, kept, and compared when it is fetched again.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use greenroom_upstream::Driver;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::watch;

pub struct ToolEntry {
    pub name: String,
    /// The tool as the upstream wrote it.
    pub raw: Box<RawValue>,
    /// The names of its parameters, where the schema says that there are no others.
    closed_parameters: Option<HashSet<String>>,
}

impl ToolEntry {
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
        let closed = shape.input_schema.additional_properties == Value::Bool(false);
        let names = shape.input_schema.properties.into_iter().map(|(name, _)| name);
        Some(Self { name: shape.name, closed_parameters: closed.then(|| names.collect()), raw })
    }

    /// Removes what the schema does not name. Upstreams read some arguments that they do not list, and those
    /// change their output behind everybody's back.
    pub(crate) fn strip(&self, arguments: &mut Map<String, Value>) {
        if let Some(known) = &self.closed_parameters {
            arguments.retain(|name, _| known.contains(name));
        }
    }
}

pub struct ToolList {
    entries: Vec<ToolEntry>,
    hash: u64,
}

impl ToolList {
    pub(crate) fn new(raw: Vec<Box<RawValue>>, driver: &dyn Driver) -> Self {
        let entries: Vec<_> =
            raw.into_iter().filter_map(ToolEntry::read).filter(|tool| driver.offers(&tool.name)).collect();
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

    pub(crate) fn nearest(&self, name: &str) -> Option<&str> {
        self.entries
            .iter()
            .map(|tool| (strsim::jaro_winkler(name, &tool.name), tool.name.as_str()))
            .filter(|(likeness, _)| *likeness > 0.85)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, name)| name)
    }
}

/// The list that is known now, and a place on disk for it where the driver can name it.
///
/// The place makes the difference between answering `tools/list` at once and starting a server just to ask it.
pub(crate) struct ToolBook {
    current: watch::Sender<Option<Arc<ToolList>>>,
    file: Option<PathBuf>,
}

impl ToolBook {
    pub(crate) fn open(cache_dir: &Path, driver: &dyn Driver) -> Self {
        let file = driver.tool_list_name().map(|name| cache_dir.join(format!("tools-{name}.json")));
        let kept = file.as_deref().and_then(|file| std::fs::read(file).ok());
        let raw = kept.and_then(|bytes| serde_json::from_slice::<Vec<Box<RawValue>>>(&bytes).ok());
        let list = raw.map(|raw| Arc::new(ToolList::new(raw, driver)));
        Self { current: watch::channel(list).0, file }
    }

    pub(crate) fn current(&self) -> Option<Arc<ToolList>> {
        self.current.borrow().clone()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Arc<ToolList>>> {
        self.current.subscribe()
    }

    /// Takes a list that was just fetched. Subscribers hear of it only if it is another one.
    pub(crate) fn update(&self, raw: Vec<Box<RawValue>>, driver: &dyn Driver) {
        let kept = self.file.as_ref().and_then(|_| serde_json::to_vec(&raw).ok());
        let list = Arc::new(ToolList::new(raw, driver));
        let changed = self.current.send_if_modified(|current| {
            let differs = current.as_ref().is_none_or(|current| current.hash() != list.hash());
            if differs {
                *current = Some(list);
            }
            differs
        });
        if let (true, Some(file), Some(bytes)) = (changed, &self.file, kept)
            && let Err(error) = write_whole(file, &bytes)
        {
            tracing::debug!(%error, file = %file.display(), "the tool list could not be kept");
        }
    }
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
