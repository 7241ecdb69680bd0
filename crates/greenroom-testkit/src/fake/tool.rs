//! What a tool is: how it is listed and how it is run.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::args::Args;
use super::protocol::Fake;
use super::reply::Reply;
use super::turn::{Call, Outcome};

pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) params: &'static [Param],
    pub(super) hints: Hints,
    pub(super) run: fn(&Arc<Fake>, &Args) -> Result<Outcome, Reply>,
}

pub(super) struct Param {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) description: &'static str,
    pub(super) required: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Hints {
    ReadOnly,
    Changes,
    Destroys,
}

impl Tool {
    pub(super) fn listing(&self) -> Value {
        let mut properties = Map::new();
        for Param { name, kind, description, .. } in self.params {
            properties.insert((*name).to_owned(), json!({ "type": kind, "description": description }));
        }
        let required: Vec<_> = self.params.iter().filter(|param| param.required).map(|p| p.name).collect();
        // A tool without parameters takes anything it is given: `structured` gives it back.
        let mut schema = json!({ "type": "object", "properties": properties });
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": schema,
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.hints == Hints::ReadOnly,
                "destructiveHint": self.hints == Hints::Destroys,
                "openWorldHint": false,
            },
        })
    }
}

pub(super) const fn needed(name: &'static str, kind: &'static str, description: &'static str) -> Param {
    Param { name, kind, description, required: true }
}

pub(super) const fn optional(name: &'static str, kind: &'static str, description: &'static str) -> Param {
    Param { name, kind, description, required: false }
}

/// The answer is there.
pub(super) fn now(reply: Reply) -> Result<Outcome, Reply> {
    Ok(Outcome::Now(reply))
}

/// The answer takes its time, or other messages come before it.
pub(super) fn later(work: impl FnOnce(&Call) -> Reply + Send + 'static) -> Result<Outcome, Reply> {
    Ok(Outcome::Later(Box::new(work)))
}
