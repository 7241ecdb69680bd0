//! Variables, from the process environment or a `.env` file:
//!
//! ```text
//! PW_MCP_PROXY_<KEY>                    for everything
//! PW_MCP_PROXY__<POOL>_<KEY>            for one pool
//! PW_MCP_PROXY__<POOL>__<ID>_<KEY>      for one instance
//! ```
//!
//! The prefix `GREENROOM_` means the same.

use std::collections::BTreeMap;

use super::keys::Key;
use super::mistake::Mistake;
use super::settings::{Entry, Layer, Raw, Scope, Source, is_pool_name, place};

const PREFIXES: [&str; 2] = ["PW_MCP_PROXY_", "GREENROOM_"];

/// Names from before there were pools, which nobody reads.
const FORMER: [&str; 5] = [
    "PLAYWRIGHT_HEADLESS",
    "PLAYWRIGHT_BROWSER",
    "PLAYWRIGHT_WSL_WINDOWS",
    "PLAYWRIGHT_TIMEOUT",
    "PLAYWRIGHT_ISOLATED",
];

/// Whether a variable is meant for Greenroom at all.
pub fn is_ours(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Reads variables; those that are not ours are passed over.
pub fn environment_layer(source: Source, variables: impl IntoIterator<Item = (String, String)>) -> Layer {
    let mut layer = Layer::new(source);
    // Sorted, so that the list of mistakes is the same on every run.
    let mut ours = BTreeMap::new();
    for (name, value) in variables {
        if is_ours(&name) {
            ours.insert(name, value);
        } else if FORMER.contains(&name.as_str()) {
            let key = name.trim_start_matches("PLAYWRIGHT_");
            layer
                .notes
                .push(format!("{name} is not read; its name is PW_MCP_PROXY_{key} now (docs/migration.md)"));
        }
    }
    let mut seen: BTreeMap<(Scope, &'static str), (String, String)> = BTreeMap::new();
    for (variable, value) in ours {
        let (scope, key) = match read_name(&variable, &layer.source) {
            Ok(found) => found,
            Err(mistake) => {
                layer.mistakes.push(mistake);
                continue;
            }
        };
        if let Some((other, other_value)) = seen.get(&(scope.clone(), key.name)) {
            if *other_value != value {
                layer.mistakes.push(Mistake::new(
                    format!("{other} and {variable}"),
                    "they mean the same and are set to different values",
                    "Remove one of them.",
                ));
            }
            continue;
        }
        seen.insert((scope.clone(), key.name), (variable.clone(), value.clone()));
        layer.entries.push(Entry { scope, key, written: variable, raw: Raw::Text(value) });
    }
    layer
}

/// What a variable of ours is about.
fn read_name(variable: &str, source: &Source) -> Result<(Scope, &'static Key), Mistake> {
    let place = || place(variable, source);
    let name = PREFIXES
        .iter()
        .find_map(|prefix| variable.strip_prefix(prefix))
        .expect("only variables with our prefix are looked at");
    let prefix = variable.strip_suffix(name).unwrap_or_default();
    let Some(scoped) = name.strip_prefix('_') else {
        let key = Key::find(name);
        return match key {
            Some(key) => Ok((Scope::Global, key)),
            None => Err(unknown(place(), name, |near| format!("{prefix}{near}"))),
        };
    };
    let Some((owner, key)) = Key::at_the_end_of(scoped) else {
        return Err(unknown_of_a_pool(place(), &format!("{prefix}_"), scoped));
    };
    let shape = format!(
        "The shapes are {prefix}_<POOL>_{key} for a pool and {prefix}_<POOL>__<ID>_{key} for one of its instances.",
        key = key.name
    );
    let (pool, id) = match owner.rsplit_once("__") {
        Some((pool, id)) => (pool, Some(id)),
        None => (owner, None),
    };
    if !is_pool_name(pool) {
        let problem =
            format!("`{pool}` cannot be a pool's name: capital letters, digits and single underscores can");
        return Err(Mistake::new(place(), problem, shape));
    }
    match id.map(str::parse::<u32>) {
        None => Ok((Scope::Pool(pool.to_owned()), key)),
        Some(Ok(id)) => Ok((Scope::Instance(pool.to_owned(), id), key)),
        Some(Err(_)) => {
            let problem = format!("`{}` is not the number of an instance", id.unwrap_or_default());
            Err(Mistake::new(place(), problem, shape))
        }
    }
}

pub(super) fn unknown(place: String, name: &str, spell: impl Fn(&str) -> String) -> Mistake {
    let remedy = match Key::nearest(name) {
        Some(near) => format!("Did you mean `{}`?", spell(near)),
        None => "docs/configuration.md lists all keys.".to_owned(),
    };
    Mistake::new(place, "there is no such key", remedy)
}

/// Where the pool's name ends is not known, so every underscore is tried.
fn unknown_of_a_pool(place: String, prefix: &str, scoped: &str) -> Mistake {
    let nearest = scoped
        .match_indices('_')
        .filter_map(|(at, _)| Key::likeness(&scoped[at + 1..]).map(|(likeness, near)| (likeness, at, near)))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let remedy = match nearest {
        Some((_, at, near)) => format!("Did you mean `{prefix}{}_{near}`?", &scoped[..at]),
        None => "docs/configuration.md lists all keys.".to_owned(),
    };
    Mistake::new(place, "it ends with no key", remedy)
}
