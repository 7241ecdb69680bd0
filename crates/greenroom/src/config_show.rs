//! `greenroom config show`: what is in effect, and where it comes from.

use std::collections::BTreeMap;

use greenroom_core::config::{Config, PoolConfig, Scope, Setting, Start, View};
use serde_json::{Value, json};

use crate::table::Table;

/// Tables for people.
pub(crate) fn table(config: &Config) -> String {
    let mut table = Table::new(["KEY", "VALUE", "SOURCE"]);
    for setting in config.settings.global() {
        table.row([setting.key.name.to_owned(), value(setting), setting.source.to_string()]);
    }
    let mut out = table.indented("");
    for pool in config.pools.iter().filter(|pool| !pool.is_implicit) {
        out.push('\n');
        out.push_str(&pool_tables(config, pool));
    }
    for note in config.settings.notes() {
        out.push_str(&format!("\nnote: {note}\n"));
    }
    out
}

/// What differs between instances most, and below it everything that was said for the pool.
fn pool_tables(config: &Config, pool: &PoolConfig) -> String {
    let default = if pool.is_default { " (default)" } else { "" };
    let start = match pool.start {
        Start::Eager => "eager",
        Start::Lazy => "lazy",
    };
    let mut out = format!("POOL {}{default}: instances: {}, start: {start}", pool.name, pool.instances.len());
    if !pool.description.is_empty() {
        out.push_str(&format!(" ({})", pool.description));
    }
    out.push('\n');
    let mut table = Table::new(["INSTANCE", "BROWSER", "HEADLESS", "TIMEOUT", "SOURCE"]);
    for instance in &pool.instances {
        let view = config.settings.view(Some(&pool.name), Some(instance.id));
        let name = match &instance.alias {
            Some(alias) => format!("{} ({alias})", instance.id),
            None => instance.id.to_string(),
        };
        let [browser, headless, timeout] = COMPARED.map(|key| value(view.get(key)));
        table.row([name, browser, headless, timeout, levels(&view)]);
    }
    out.push_str(&table.indented("  "));
    let mut said = Table::new(["KEY", "VALUE", "FOR", "SOURCE"]);
    for (scope, setting) in config.settings.of_pool(&pool.name) {
        let whom = match scope {
            Scope::Instance(_, id) => format!("instance {id}"),
            _ => "pool".to_owned(),
        };
        said.row([setting.key.name.to_owned(), value(setting), whom, setting.source.to_string()]);
    }
    out.push('\n');
    out.push_str(&said.indented("  "));
    out
}

const COMPARED: [&str; 3] = ["BROWSER", "HEADLESS", "TIMEOUT"];

/// Which level each of the compared values comes from: `browser=instance, rest=global`.
fn levels(view: &View<'_>) -> String {
    let mut by_level: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for key in COMPARED {
        by_level.entry(view.get(key).level).or_default().push(key.to_ascii_lowercase());
    }
    if let [(level, _)] = by_level.iter().collect::<Vec<_>>().as_slice() {
        return format!("all={}", level.name());
    }
    // The nearest first; the last group is the rest if it is more than one.
    let groups = by_level.iter().rev().enumerate().map(|(index, (level, keys))| {
        let is_rest = index + 1 == by_level.len() && keys.len() > 1;
        let keys = if is_rest { "rest".to_owned() } else { keys.join("/") };
        format!("{keys}={}", level.name())
    });
    groups.collect::<Vec<_>>().join(", ")
}

fn value(setting: &Setting) -> String {
    setting.value.as_ref().map_or_else(|| "(not set)".to_owned(), ToString::to_string)
}

/// The same for programs.
pub(crate) fn json(config: &Config) -> String {
    let shown = |setting: &Setting| {
        json!({
            "value": setting.value.as_ref().map(ToString::to_string),
            "source": setting.source.to_string(),
            "level": setting.level.name(),
        })
    };
    let global = config.settings.global().map(|setting| (setting.key.name.to_owned(), shown(setting)));
    let mut out: serde_json::Map<String, Value> = global.collect();
    let pools = config.pools.iter().map(|pool| {
        let instances = pool.instances.iter().map(|instance| {
            let view = config.settings.view(Some(&pool.name), Some(instance.id));
            let keys = config.settings.global().map(|global| global.key.name);
            let effective = keys.map(|key| (key.to_owned(), shown(view.get(key))));
            let settings: serde_json::Map<String, Value> = effective.collect();
            json!({ "id": instance.id, "alias": instance.alias, "settings": settings })
        });
        json!({
            "name": pool.name,
            "description": pool.description,
            "is_default": pool.is_default,
            "is_implicit": pool.is_implicit,
            "instances": instances.collect::<Vec<_>>(),
        })
    });
    out.insert("pools".to_owned(), pools.collect());
    format!("{:#}\n", Value::Object(out))
}
