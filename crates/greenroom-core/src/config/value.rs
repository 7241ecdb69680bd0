//! What kinds of values there are, and how each is read.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::settings::Raw;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Port,
    Count {
        min: u64,
        max: u64,
    },
    Millis,
    /// Where 0 would make no sense.
    MillisFrom(u64),
    Text,
    Path,
    Url,
    Size,
    Choice(&'static [&'static str]),
    ChoiceList(&'static [&'static str]),
    /// A command line.
    Words,
    /// `NAME=value` pairs.
    Pairs,
    /// Names, separated by commas.
    Names,
    /// Origins, separated by semicolons or commas.
    Origins,
    /// Paths, separated by commas.
    Paths,
    /// The address of a proxy.
    Proxy,
    /// Addresses, each with a command behind `|` or not.
    Addresses,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Bool(bool),
    Number(u64),
    Duration(Duration),
    Text(String),
    Path(PathBuf),
    Size { width: u32, height: u32 },
    List(Vec<String>),
    Pairs(Vec<(String, String)>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Duration(value) => write!(f, "{}", value.as_millis()),
            Self::Text(value) => f.write_str(value),
            Self::Path(value) => write!(f, "{}", value.display()),
            Self::Size { width, height } => write!(f, "{width}x{height}"),
            Self::List(items) => f.write_str(&items.join(",")),
            // The values may be secrets, and `config show` is pasted into bug reports.
            Self::Pairs(pairs) => {
                let names: Vec<_> = pairs.iter().map(|(name, _)| format!("{name}=…")).collect();
                f.write_str(&names.join(","))
            }
        }
    }
}

/// Why a raw value is none of its kind: what is wrong with it, and what would be right.
pub(super) struct Rejected {
    pub(super) problem: String,
    pub(super) remedy: String,
}

fn rejected<T>(problem: impl Into<String>, remedy: impl Into<String>) -> Result<T, Rejected> {
    Err(Rejected { problem: problem.into(), remedy: remedy.into() })
}

impl Kind {
    pub(super) fn read(self, raw: &Raw) -> Result<Value, Rejected> {
        match (self, raw) {
            (Self::Words, Raw::List(words)) => non_empty_words(words.clone()),
            (Self::ChoiceList(choices), Raw::List(items)) => choice_list(items.clone(), choices),
            (Self::Pairs, Raw::Pairs(pairs)) => Ok(Value::Pairs(pairs.clone())),
            (Self::Names | Self::Paths, Raw::List(items)) => names(items.iter()),
            (Self::Origins, Raw::List(items)) => origins(items.iter()),
            (Self::Addresses, Raw::List(items)) => addresses(items.clone()),
            (_, Raw::List(_)) => rejected("a list cannot stand here", "Give a single value."),
            (_, Raw::Pairs(_)) => rejected("a table cannot stand here", "Give a single value."),
            (kind, Raw::Text(text)) => kind.read_text(text.trim()),
        }
    }

    fn read_text(self, text: &str) -> Result<Value, Rejected> {
        match self {
            Self::Bool => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Ok(Value::Bool(true)),
                "false" | "0" | "no" | "off" => Ok(Value::Bool(false)),
                _ => rejected(format!("`{text}` is neither true nor false"), "Give `true` or `false`."),
            },
            Self::Port => match text.parse::<u16>() {
                Ok(port) => Ok(Value::Number(u64::from(port))),
                Err(_) => rejected(format!("`{text}` is not a port"), "Give a number from 0 to 65535."),
            },
            Self::Count { min, max } => match text.parse::<u64>() {
                Ok(count) if (min..=max).contains(&count) => Ok(Value::Number(count)),
                _ => rejected(
                    format!("`{text}` is not a number from {min} to {max}"),
                    format!("Give a whole number from {min} to {max}."),
                ),
            },
            Self::MillisFrom(least) if text.parse::<u64>().is_ok_and(|millis| millis < least) => {
                rejected(format!("`{text}` is too short"), format!("Give {least} milliseconds or more."))
            }
            Self::Millis | Self::MillisFrom(_) => match text.parse::<u64>() {
                Ok(millis) => Ok(Value::Duration(Duration::from_millis(millis))),
                Err(_) => rejected(
                    format!("`{text}` is not a number of milliseconds"),
                    "Give a whole number of milliseconds, such as `30000` for half a minute.",
                ),
            },
            Self::Text if text.is_empty() => rejected("it is empty", "Give a value or remove the key."),
            Self::Text => Ok(Value::Text(text.to_owned())),
            Self::Path if text.is_empty() => rejected("it is empty", "Give a path or remove the key."),
            Self::Path => Ok(Value::Path(PathBuf::from(text))),
            Self::Url => {
                let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
                match rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default()) {
                    Some(authority) if !authority.is_empty() && !authority.contains(char::is_whitespace) => {
                        Ok(Value::Text(text.to_owned()))
                    }
                    _ => rejected(
                        format!("`{text}` is not an http address"),
                        "Give an address that begins with `http://` or `https://` and names a host.",
                    ),
                }
            }
            Self::Size => {
                let side =
                    |side: &str| side.trim().parse::<u32>().ok().filter(|side| (1..=16384).contains(side));
                match text.split_once(['x', 'X', ',']).map(|(w, h)| (side(w), side(h))) {
                    Some((Some(width), Some(height))) => Ok(Value::Size { width, height }),
                    _ => rejected(
                        format!("`{text}` is not a size"),
                        "Give width and height in pixels, such as `1280x720`.",
                    ),
                }
            }
            Self::Choice(choices) => one_of(text, choices).map(Value::Text),
            Self::ChoiceList(choices) => {
                choice_list(text.split(',').map(str::trim).map(str::to_owned).collect(), choices)
            }
            Self::Names | Self::Paths => names(text.split(',')),
            Self::Origins => origins(text.split([';', ','])),
            Self::Addresses => addresses(split_addresses(text)),
            Self::Proxy => {
                let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
                if ["http", "https", "socks4", "socks5"].contains(&scheme) && !rest.is_empty() {
                    Ok(Value::Text(text.to_owned()))
                } else {
                    rejected(
                        format!("`{text}` is not the address of a proxy"),
                        "Give an address such as `http://proxy:3128` or `socks5://proxy:1080`.",
                    )
                }
            }
            Self::Words => match shell_words::split(text) {
                Ok(words) => non_empty_words(words),
                Err(_) => rejected("a quote is not closed", "Close it, or give the words as a list in TOML."),
            },
            Self::Pairs => text
                .split(',')
                .filter(|pair| !pair.trim().is_empty())
                .map(|pair| match pair.split_once('=') {
                    Some((name, value)) if !name.trim().is_empty() => {
                        Ok((name.trim().to_owned(), value.to_owned()))
                    }
                    _ => rejected(
                        format!("`{}` is not `NAME=value`", pair.trim()),
                        "Give `NAME=value,OTHER=value`.",
                    ),
                })
                .collect::<Result<_, _>>()
                .map(Value::Pairs),
        }
    }
}

fn one_of(text: &str, choices: &[&str]) -> Result<String, Rejected> {
    let lower = text.to_ascii_lowercase();
    if choices.contains(&lower.as_str()) {
        Ok(lower)
    } else {
        rejected(
            format!("`{text}` is not one of its values"),
            format!("Give one of: {}.", choices.join(", ")),
        )
    }
}

fn choice_list(items: Vec<String>, choices: &'static [&'static str]) -> Result<Value, Rejected> {
    items
        .into_iter()
        .filter(|item| !item.is_empty())
        .map(|item| one_of(&item, choices))
        .collect::<Result<_, _>>()
        .map(Value::List)
}

fn names(items: impl Iterator<Item = impl AsRef<str>>) -> Result<Value, Rejected> {
    let items: Vec<_> =
        items.map(|item| item.as_ref().trim().to_owned()).filter(|item| !item.is_empty()).collect();
    if items.is_empty() {
        rejected("it is empty", "Give a value or remove the key.")
    } else {
        Ok(Value::List(items))
    }
}

fn origins(items: impl Iterator<Item = impl AsRef<str>>) -> Result<Value, Rejected> {
    let value = names(items)?;
    if let Value::List(items) = &value
        && let Some(item) = items.iter().find(|item| !is_origin(item))
    {
        return rejected(
            format!("`{item}` is not an origin"),
            "Give scheme, host and port, such as `https://example.com:8080`, or `http://localhost:*` for any port.",
        );
    }
    Ok(value)
}

/// Commands have commas and spaces of their own, so an address ends where the next begins.
fn split_addresses(text: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for part in text.split([',', '\n']) {
        let is_address =
            ["http://", "https://", "ws://", "wss://"].iter().any(|scheme| part.trim().starts_with(scheme));
        match items.last_mut() {
            Some(last) if !is_address => {
                last.push(',');
                last.push_str(part);
            }
            _ => items.push(part.to_owned()),
        }
    }
    items.iter().map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}

fn addresses(items: Vec<String>) -> Result<Value, Rejected> {
    for item in &items {
        let remedy = "Give addresses such as `http://127.0.0.1:9222`, or `http://127.0.0.1:9222|chrome --remote-debugging-port={port}`.";
        if let Err(problem) = super::browsers::read(item) {
            return rejected(problem, remedy);
        }
    }
    if items.is_empty() {
        rejected("it is empty", "Give a value or remove the key.")
    } else {
        Ok(Value::List(items))
    }
}

/// `scheme://host[:port|:*]`, and nothing behind it.
fn is_origin(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, host)| {
        !scheme.is_empty() && !host.is_empty() && !host.contains(['/', '?', '#', ' '])
    })
}

fn non_empty_words(words: Vec<String>) -> Result<Value, Rejected> {
    if words.first().is_none_or(String::is_empty) {
        rejected("it names no program", "Give a program and its arguments.")
    } else {
        Ok(Value::List(words))
    }
}
