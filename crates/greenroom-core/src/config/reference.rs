//! The reference of all keys, as the docs show it.

use std::fmt::Write;

use super::keys::{Group, KEYS, Trust};
use super::value::Kind;

/// One table a group, in Markdown.
pub fn reference_markdown() -> String {
    let mut out = String::new();
    for (group, title) in [(Group::Server, "Server"), (Group::Browser, "Browser")] {
        let _ = write!(out, "### {title}: `[{}]`\n\n", group.table());
        out.push_str("| Key | Value | Default | Meaning |\n|---|---|---|---|\n");
        for key in KEYS.iter().filter(|key| key.group == group) {
            let note = match key.trust {
                Trust::Anyone => "",
                Trust::Operator => " *Not read from files in the working directory.*",
            };
            let default = key.default.map_or_else(|| "not set".to_owned(), |text| format!("`{text}`"));
            let _ =
                writeln!(out, "| `{}` | {} | {default} | {}{note} |", key.name, kind(key.kind), key.meaning);
        }
        out.push('\n');
    }
    out
}

fn kind(kind: Kind) -> String {
    match kind {
        Kind::Bool => "`true` or `false`".to_owned(),
        Kind::Port => "port".to_owned(),
        Kind::Count { min, max } => format!("{min} to {max}"),
        Kind::Millis => "milliseconds".to_owned(),
        Kind::MillisFrom(least) => format!("milliseconds, from {least}"),
        Kind::Text => "text".to_owned(),
        Kind::Path => "path".to_owned(),
        Kind::Url => "http address".to_owned(),
        Kind::Size => "`WIDTHxHEIGHT`".to_owned(),
        Kind::Choice(choices) => quoted(choices),
        Kind::ChoiceList(choices) => format!("list of {}", quoted(choices)),
        Kind::Words => "command line".to_owned(),
        Kind::Pairs => "`NAME=value,…`".to_owned(),
    }
}

fn quoted(choices: &[&str]) -> String {
    choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", ")
}
