//! Configuration: from what a person wrote, in whatever place, to one typed [`Config`].
//!
//! ```text
//! command line ─┐
//! environment  ─┤
//! .env         ─┼─► layers of (name, raw value, source) ─► one key table ─► Settings ─► Config
//! TOML files   ─┤                                          (keys.rs)
//! built-in     ─┘
//! ```
//!
//! Every key stands once in [`keys::KEYS`] with its kind, default and meaning; parsing, "did you mean", `config
//! show` and the reference in the docs are all read from that table, so they cannot disagree. Nothing stops at
//! the first mistake: a person gets the whole list at once.

mod browsers;
mod env;
mod file;
pub mod keys;
mod mistake;
mod model;
mod pools;
mod reference;
mod settings;
mod value;
mod wishes;

pub use env::{environment_layer, is_ours};
pub use file::file_layer;
pub use mistake::{Mistake, Mistakes};
pub use model::{
    Addressing, Browser, BrowserConfig, BrowserLimits, Config, ConnectPolicy, CustomConfig, Driver,
    HistoryConfig, HttpConfig, ImageResponses, LogFormat, Profile, Transport, UpstreamConfig,
};
pub use pools::{InstanceConfig, Isolation, PoolConfig, Reply, SessionConfig, Start, ToolFilter};
pub use reference::reference_markdown;
pub use settings::{Layer, Raw, Scope, Setting, Settings, Source, View};
pub use value::Value;
pub use wishes::Wishes;

/// Turns layers, lowest precedence first, into the configuration, or into every mistake found in them.
pub fn load(layers: Vec<Layer>) -> Result<Config, Mistakes> {
    let (settings, mut mistakes) = Settings::merge(layers);
    let config = Config::build(settings, &mut mistakes);
    // What several instances share is looked at once for each of them.
    let mut seen = std::collections::HashSet::new();
    mistakes.retain(|mistake| seen.insert(mistake.to_string()));
    if mistakes.is_empty() { Ok(config) } else { Err(Mistakes(mistakes)) }
}

#[cfg(test)]
mod pool_tests;
#[cfg(test)]
mod tests;
