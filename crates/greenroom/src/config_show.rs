//! `greenroom config check` and `config show`.

use std::fmt::Write;

use greenroom_core::config::Config;
use serde_json::json;

/// A table for people.
pub(crate) fn table(config: &Config) -> String {
    let rows: Vec<[String; 3]> = config
        .settings
        .iter()
        .map(|setting| {
            let value = setting.value.as_ref().map_or_else(|| "(not set)".to_owned(), ToString::to_string);
            [setting.key.name.to_owned(), value, setting.source.to_string()]
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (name, value) = (width(0), width(1));
    let mut out = format!("{:name$}  {:value$}  SOURCE\n", "KEY", "VALUE");
    for [key, shown, source] in &rows {
        let _ = writeln!(out, "{key:name$}  {shown:value$}  {source}");
    }
    out
}

/// The same for programs.
pub(crate) fn json(config: &Config) -> String {
    let settings: serde_json::Map<_, _> = config
        .settings
        .iter()
        .map(|setting| {
            let value = setting.value.as_ref().map(ToString::to_string);
            (setting.key.name.to_owned(), json!({ "value": value, "source": setting.source.to_string() }))
        })
        .collect();
    format!("{:#}\n", serde_json::Value::Object(settings))
}
