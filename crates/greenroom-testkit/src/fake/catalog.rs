//! The list of tools, which may grow while the server runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::tool::Tool;
use super::tools;
use crate::lock::lock;

pub(super) struct Catalog {
    built_in: HashMap<&'static str, &'static Tool>,
    /// Tools that do nothing of their own: the dummies of `--extra-tools` and those that were added since.
    more: Mutex<More>,
    /// Whether `echo` is listed with one more parameter.
    is_loud: bool,
}

#[derive(Default)]
struct More {
    names: Vec<String>,
    added: usize,
    /// The result of `tools/list`, until it changes.
    listing: Option<Arc<str>>,
}

pub(super) enum Found {
    BuiltIn(&'static Tool),
    Listed,
}

impl Catalog {
    pub(super) fn new(extra: u64, is_loud: bool) -> Self {
        let names = (1..=extra).map(|number| format!("extra_{number}")).collect();
        Self {
            built_in: tools::all().map(|tool| (tool.name, tool)).collect(),
            more: Mutex::new(More { names, ..More::default() }),
            is_loud,
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<Found> {
        if let Some(tool) = self.built_in.get(name) {
            return Some(Found::BuiltIn(tool));
        }
        lock(&self.more).names.iter().any(|known| known == name).then_some(Found::Listed)
    }

    /// Adds a tool and returns its name.
    pub(super) fn add(&self) -> String {
        let mut more = lock(&self.more);
        more.added += 1;
        let name = format!("added_{}", more.added);
        more.names.push(name.clone());
        more.listing = None;
        name
    }

    /// The result of `tools/list`, as JSON text.
    pub(super) fn listing(&self) -> Arc<str> {
        let mut more = lock(&self.more);
        if let Some(listing) = &more.listing {
            return Arc::clone(listing);
        }
        let mut tools: Vec<Value> =
            tools::all().map(Tool::listing).chain(more.names.iter().map(|name| dummy(name))).collect();
        if self.is_loud
            && let Some(echo) = tools.iter_mut().find(|tool| tool["name"] == "echo")
        {
            echo["description"] = "Answers loudly.".into();
            echo["inputSchema"]["properties"]["volume"] = json!({ "type": "integer" });
        }
        let listing = Arc::from(json!({ "tools": tools }).to_string());
        more.listing = Some(Arc::clone(&listing));
        listing
    }
}

fn dummy(name: &str) -> Value {
    let title = name.replace('_', " ");
    json!({
        "name": name,
        "title": title,
        "description": format!("Does nothing but say that {title} was called, and with what."),
        "inputSchema": {
            "type": "object",
            "properties": {
                "element": { "type": "string", "description": "What the element is, in plain words" },
                "ref": { "type": "string", "description": "The element's reference in the last snapshot" },
            },
        },
        "annotations": { "title": title, "readOnlyHint": false, "destructiveHint": false },
    })
}
