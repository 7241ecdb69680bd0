//! What is asked of the record, and what is wrong with it.

use std::time::SystemTime;

use greenroom_core::ids::RefId;
use serde::Deserialize;

use super::{ReadFailure, parse_ref};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentArguments {
    #[serde(default)]
    pub ref_id: Option<String>,
    #[serde(default, rename = "sessionId")]
    pub session: Option<String>,
    #[serde(default)]
    pub part: Option<Part>,
    #[serde(default)]
    pub search_for: Option<String>,
    #[serde(default)]
    pub before_lines: Option<i64>,
    #[serde(default)]
    pub after_lines: Option<i64>,
    #[serde(default)]
    pub reset_cursor: Option<bool>,
    #[serde(default)]
    pub since: Option<String>,
    #[serde(default)]
    pub offset: Option<i64>,
    #[serde(default)]
    pub limit: Option<i64>,
    #[serde(default)]
    pub query: Option<String>,
    #[serde(default)]
    pub flatten: Option<bool>,
    #[serde(default)]
    pub format: Option<Format>,
}

/// Which content of a call.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    Snapshot,
    Result,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    #[default]
    Yaml,
    Json,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsoleArguments {
    pub ref_id: String,
    #[serde(default)]
    pub level: Option<String>,
    #[serde(default)]
    pub offset: Option<i64>,
    #[serde(default)]
    pub limit: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListArguments {
    #[serde(default, rename = "sessionId")]
    pub session: Option<String>,
    #[serde(default)]
    pub tool: Option<String>,
    #[serde(default)]
    pub status: Option<String>,
    /// Stands somewhere in the call. Not for agents.
    #[serde(skip)]
    pub text: Option<String>,
    #[serde(default)]
    pub since: Option<String>,
    #[serde(default)]
    pub until: Option<String>,
    #[serde(default)]
    pub before: Option<String>,
    #[serde(default)]
    pub limit: Option<i64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlobArguments {
    pub(crate) uri: String,
}

/// The arguments of `get_content`, looked at together.
pub(super) struct Wanted {
    pub(super) ref_id: Option<String>,
    pub(super) session: Option<String>,
    pub(super) part: Option<Part>,
    pub(super) how: How,
    pub(super) offset: Option<usize>,
    pub(super) limit: Option<usize>,
    pub(super) format: Format,
    pub(super) is_format_given: bool,
}

pub(super) enum How {
    Plain { reset: bool },
    Page,
    Search { needle: String, before: usize, after: usize },
    Since(RefId),
    Query { expression: String, flatten: bool },
}

impl Wanted {
    pub(super) fn check(arguments: ContentArguments) -> Result<Self, ReadFailure> {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (needle, since, query) =
            (given(arguments.search_for), given(arguments.since), given(arguments.query));
        let wrong = |message: &str| Err(ReadFailure::Wrong(message.to_owned()));
        if [needle.is_some(), since.is_some(), query.is_some()].into_iter().filter(|is| *is).count() > 1 {
            return wrong("`search_for`, `since` and `query` are three ways to read: give one of them.");
        }
        let before = number("before_lines", arguments.before_lines, 0)?;
        let after = number("after_lines", arguments.after_lines, 0)?;
        if needle.is_none() && (before.is_some_and(|lines| lines > 0) || after.is_some_and(|lines| lines > 0))
        {
            return wrong("`before_lines` and `after_lines` go with `search_for`.");
        }
        if query.is_none() && arguments.flatten == Some(true) {
            return wrong("`flatten` goes with `query`.");
        }
        if (needle.is_some() || since.is_some()) && arguments.format == Some(Format::Json) {
            return wrong(
                "`format` json is for the whole tree or a `query`; searches and changes are lines of text.",
            );
        }
        let offset = number("offset", arguments.offset, 0)?;
        let limit = number("limit", arguments.limit, 1)?;
        let how = match (needle, since, query) {
            (Some(needle), ..) => {
                How::Search { needle, before: before.unwrap_or(0), after: after.unwrap_or(0) }
            }
            (_, Some(since), _) => How::Since(parse_ref(&since)?),
            (_, _, Some(expression)) => {
                How::Query { expression, flatten: arguments.flatten.unwrap_or(false) }
            }
            _ if offset.is_some() || limit.is_some() => How::Page,
            _ => How::Plain { reset: arguments.reset_cursor.unwrap_or(false) },
        };
        Ok(Self {
            ref_id: given(arguments.ref_id),
            session: given(arguments.session),
            part: arguments.part,
            how,
            offset,
            limit,
            is_format_given: arguments.format.is_some(),
            format: arguments.format.unwrap_or_default(),
        })
    }
}

pub(super) fn number(name: &str, given: Option<i64>, least: i64) -> Result<Option<usize>, ReadFailure> {
    match given {
        None => Ok(None),
        Some(number) if number < least => {
            Err(ReadFailure::Wrong(format!("`{name}` has to be {least} or more, and it is {number}.")))
        }
        Some(number) => Ok(Some(usize::try_from(number).unwrap_or(usize::MAX))),
    }
}

pub(super) fn moment(name: &str, text: &str) -> Result<SystemTime, ReadFailure> {
    let parsed = text.parse::<jiff::Timestamp>().ok();
    parsed.map(SystemTime::from).ok_or_else(|| {
        ReadFailure::Wrong(format!(
            "`{name}` is a moment such as 2026-11-15T08:30:00Z, and `{text}` is none."
        ))
    })
}
