//! The reference of all keys, as the docs show it.

use std::fmt::Write;

use super::keys::{Group, KEYS, Trust};
use super::value::Kind;

const SECTIONS: [(Group, &str, &str); 3] = [
    (Group::Server, "Server", "Keys of the process: `PW_MCP_PROXY_<KEY>`, or in the TOML table `[server]`."),
    (
        Group::Pool,
        "Pools",
        "Keys of a pool as a whole: `PW_MCP_PROXY__<POOL>_<KEY>`, or in `[pools.NAME]`. Those that can be set globally \
         stand in `[defaults]` then.",
    ),
    (
        Group::Browser,
        "Browsers",
        "Keys of each browser and the server that drives it: for all of them, for a pool or for one instance.",
    ),
];

/// One table a group, in Markdown.
pub fn reference_markdown() -> String {
    let mut out = String::new();
    for (group, title, about) in SECTIONS {
        let _ = write!(out, "### {title}\n\n{about}\n\n");
        out.push_str("| Key | Value | Default | Meaning |\n|---|---|---|---|\n");
        for key in KEYS.iter().filter(|key| key.group == group) {
            let mut notes = String::new();
            if key.trust == Trust::Operator {
                notes.push_str(" *Not read from files in the working directory.*");
            }
            if group == Group::Pool {
                let levels: Vec<_> = key.levels.iter().map(|level| level.name()).collect();
                let _ = write!(notes, " *Level: {}.*", levels.join(", "));
            }
            let default = key.default.map_or_else(|| "not set".to_owned(), |text| format!("`{text}`"));
            // In a table this ends a cell, also between backquotes.
            let meaning = key.meaning.replace('|', "\\|");
            let _ = writeln!(out, "| `{}` | {} | {default} | {meaning}{notes} |", key.name, kind(key.kind));
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
        Kind::Names => "names".to_owned(),
        Kind::Origins => "origins".to_owned(),
        Kind::Paths => "paths".to_owned(),
        Kind::Proxy => "proxy address".to_owned(),
        Kind::Addresses => "addresses".to_owned(),
    }
}

fn quoted(choices: &[&str]) -> String {
    choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", ")
}
