//! A TOML file: the same keys in lower case, in the tables `[server]`, `[defaults]`, `[pools.NAME]` and
//! `[pools.NAME.instances.0]`.

use toml::Value as Toml;

use super::browsers;
use super::env::unknown;
use super::keys::{Key, Level};
use super::mistake::Mistake;
use super::settings::{Entry, Layer, Raw, Scope, Source, is_pool_name, place};

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
        if table == "browsers" {
            browsers::read_tables(&mut layer, content);
            continue;
        }
        let Toml::Table(content) = content else {
            layer.mistakes.push(Mistake::new(
                place(&table, &layer.source),
                "keys stand inside of tables",
                "The tables are `[server]`, `[defaults]`, `[pools.NAME]` and `[[browsers]]`.",
            ));
            continue;
        };
        match table.as_str() {
            "server" | "defaults" => read_keys(&mut layer, &Scope::Global, &table, content),
            "pools" => {
                for (name, content) in content {
                    read_pool(&mut layer, &name, content);
                }
            }
            _ => layer.mistakes.push(Mistake::new(
                place(&table, &layer.source),
                "there is no such table",
                "The tables are `[server]`, `[defaults]`, `[pools.NAME]` and `[[browsers]]`; keys stand inside of them.",
            )),
        }
    }
    layer
}

fn read_pool(layer: &mut Layer, name: &str, content: Toml) {
    let table = format!("pools.{name}");
    let here = place(&table, &layer.source);
    let Toml::Table(mut content) = content else {
        let remedy = format!("Write `[{table}]` on a line of its own and its keys below.");
        return layer.mistakes.push(Mistake::new(here, "it is a table", remedy));
    };
    if !is_pool_name(name) {
        let problem =
            format!("`{name}` cannot be a pool's name: capital letters, digits and single underscores can");
        let remedy =
            format!("Write `[pools.{}]`, or another name.", name.to_ascii_uppercase().replace('-', "_"));
        return layer.mistakes.push(Mistake::new(here, problem, remedy));
    }
    // A number, or the tables of single instances with the number among them.
    if let Some(Toml::Table(instances)) = content.get_mut("instances") {
        let instances = std::mem::take(instances);
        content.remove("instances");
        for (id, keys) in instances {
            let table = format!("{table}.instances.{id}");
            match (id.parse::<u32>(), keys) {
                (Ok(id), Toml::Table(keys)) => {
                    read_keys(layer, &Scope::Instance(name.to_owned(), id), &table, keys);
                }
                (Err(_), count) if id == "count" => {
                    read_key(layer, &Scope::Pool(name.to_owned()), table, "instances", count);
                }
                _ => layer.mistakes.push(Mistake::new(
                    place(&table, &layer.source),
                    "`instances` holds `count` and one table for each instance that differs, named by its number",
                    format!("Write `[pools.{name}.instances.0]`, say, and its keys below."),
                )),
            }
        }
    }
    read_keys(layer, &Scope::Pool(name.to_owned()), &table, content);
}

fn read_keys(layer: &mut Layer, scope: &Scope, table: &str, content: toml::Table) {
    for (name, value) in content {
        read_key(layer, scope, format!("{table}.{name}"), &name, value);
    }
}

fn read_key(layer: &mut Layer, scope: &Scope, written: String, name: &str, value: Toml) {
    let here = place(&written, &layer.source);
    let Some(key) = Key::find(&name.to_ascii_uppercase()) else {
        layer.mistakes.push(unknown(here, &name.to_ascii_uppercase(), str::to_ascii_lowercase));
        return;
    };
    let table = written.split('.').next().unwrap_or_default();
    if *scope == Scope::Global && key.levels.contains(&Level::Global) && key.group.table() != table {
        layer.mistakes.push(Mistake::new(
            here,
            format!("`{name}` does not belong into `[{table}]`"),
            format!("Move it into `[{}]`.", key.group.table()),
        ));
        return;
    }
    match raw(value) {
        Some(raw) => layer.entries.push(Entry { scope: scope.clone(), key, written, raw }),
        None => layer.mistakes.push(Mistake::new(
            here,
            "its value is neither text, a number, true or false, a list of texts nor a table of texts",
            "Write it the way the environment variable would be written, in quotes.",
        )),
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
