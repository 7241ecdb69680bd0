//! A TOML file: the same keys in lower case, in the tables `[server]` and `[defaults]`.

use toml::Value as Toml;

use super::env::unknown;
use super::keys::{Group, Key};
use super::mistake::Mistake;
use super::settings::{Entry, Layer, Raw, Source, place};

pub fn file_layer(source: Source, text: &str) -> Layer {
    let mut layer = Layer::new(source);
    let tables = match text.parse::<toml::Table>() {
        Ok(tables) => tables,
        Err(error) => {
            let problem = format!("it is not valid TOML: {}", error.message());
            let line =
                error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            layer.mistakes.push(Mistake::new(
                format!("line {line} of {}", layer.source),
                problem,
                "Correct that line; `docs/configuration.md` shows an example.",
            ));
            return layer;
        }
    };
    for (table, content) in tables {
        let group = [Group::Server, Group::Browser].into_iter().find(|group| group.table() == table);
        match (group, content) {
            (Some(group), Toml::Table(content)) => read_table(&mut layer, group, content),
            (Some(_), _) => layer.mistakes.push(Mistake::new(
                place(&table, &layer.source),
                "it is a table",
                format!("Write `[{table}]` on a line of its own and its keys below."),
            )),
            (None, _) => layer.mistakes.push(Mistake::new(
                place(&table, &layer.source),
                "there is no such table",
                "The tables are `[server]` and `[defaults]`; keys stand inside of them.",
            )),
        }
    }
    layer
}

fn read_table(layer: &mut Layer, group: Group, content: toml::Table) {
    for (name, value) in content {
        let written = format!("{}.{name}", group.table());
        let place = place(&written, &layer.source);
        let Some(key) = Key::find(&name.to_ascii_uppercase()) else {
            layer.mistakes.push(unknown(place, &name.to_ascii_uppercase(), str::to_ascii_lowercase));
            continue;
        };
        if key.group != group {
            let table = key.group.table();
            layer.mistakes.push(Mistake::new(
                place,
                format!("`{name}` does not belong into `[{}]`", group.table()),
                format!("Move it into `[{table}]`."),
            ));
            continue;
        }
        match raw(value) {
            Some(raw) => layer.entries.push(Entry { key, written, raw }),
            None => layer.mistakes.push(Mistake::new(
                place,
                "its value is neither text, a number, true or false, a list of texts nor a table of texts",
                "Write it the way the environment variable would be written, in quotes.",
            )),
        }
    }
}

fn raw(value: Toml) -> Option<Raw> {
    match value {
        Toml::Array(items) => items.into_iter().map(text).collect::<Option<_>>().map(Raw::List),
        Toml::Table(pairs) => pairs
            .into_iter()
            .map(|(name, value)| text(value).map(|value| (name, value)))
            .collect::<Option<_>>()
            .map(Raw::Pairs),
        other => text(other).map(Raw::Text),
    }
}

fn text(value: Toml) -> Option<String> {
    match value {
        Toml::String(text) => Some(text),
        Toml::Integer(number) => Some(number.to_string()),
        Toml::Boolean(truth) => Some(truth.to_string()),
        _ => None,
    }
}
