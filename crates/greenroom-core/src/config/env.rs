//! Variables, from the process environment or a `.env` file: `PW_MCP_PROXY_<KEY>`, or `GREENROOM_<KEY>`, which
//! means the same.

use std::collections::BTreeMap;

use super::keys::Key;
use super::mistake::Mistake;
use super::settings::{Entry, Layer, Raw, Source, place};

const PREFIXES: [&str; 2] = ["PW_MCP_PROXY_", "GREENROOM_"];

/// Whether a variable is meant for Greenroom at all.
pub fn is_ours(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Reads variables; those that are not ours are passed over.
pub fn environment_layer(source: Source, variables: impl IntoIterator<Item = (String, String)>) -> Layer {
    let mut layer = Layer::new(source);
    // Sorted, so that the list of mistakes is the same on every run.
    let mut seen: BTreeMap<&'static str, (String, String)> = BTreeMap::new();
    let ours: BTreeMap<String, String> = variables.into_iter().filter(|(name, _)| is_ours(name)).collect();
    for (variable, value) in ours {
        let place = place(&variable, &layer.source);
        let name = PREFIXES
            .iter()
            .find_map(|prefix| variable.strip_prefix(prefix))
            .expect("only variables with our prefix are looked at");
        if name.starts_with('_') {
            layer.mistakes.push(Mistake::new(
                place,
                "pools are not available in this version",
                "Remove the variable, or set the key for all browsers without the pool's name.",
            ));
            continue;
        }
        let Some(key) = Key::find(name) else {
            layer.mistakes.push(unknown(place, name, |near| {
                let prefix = variable.strip_suffix(name).unwrap_or_default();
                format!("{prefix}{near}")
            }));
            continue;
        };
        if let Some((other, other_value)) = seen.get(key.name) {
            if *other_value != value {
                layer.mistakes.push(Mistake::new(
                    format!("{other} and {variable}"),
                    "they mean the same and are set to different values",
                    "Remove one of them.",
                ));
            }
            continue;
        }
        seen.insert(key.name, (variable.clone(), value.clone()));
        layer.entries.push(Entry { key, written: variable, raw: Raw::Text(value) });
    }
    layer
}

pub(super) fn unknown(place: String, name: &str, spell: impl Fn(&str) -> String) -> Mistake {
    let remedy = match Key::nearest(name) {
        Some(near) => format!("Did you mean `{}`?", spell(near)),
        None => "`greenroom config show` lists all keys.".to_owned(),
    };
    Mistake::new(place, "there is no such key", remedy)
}
