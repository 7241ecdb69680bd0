//! The accessibility tree of a page, as `@playwright/mcp` writes it.
//!
//! ```text
//! - list "Items" [ref=e6]:                       role, name, attributes
//!   - listitem [ref=e7]: One                     text of its own
//!   - link "Next: two" [ref=e8] [cursor=pointer]:
//!     - /url: https://example.com/?page=2        a property of the link
//!     - text: Next                               text between elements
//! ```
//!
//! It looks like YAML, and a YAML parser would read it as such, but it is stricter: an element a line, two spaces a
//! level, and one way to write each thing. So it is read and written here by its own rules, and comes out as it
//! went in.

use serde_json::{Map, Value};

mod changes;
mod parse;
mod query;
mod scalar;
mod write;

pub use changes::{Changes, changes};
pub use parse::ParseError;
pub use query::{QueryError, Queryable};

/// Elements nested deeper than this are refused. No page that people read comes near it.
pub const MAX_DEPTH: usize = 500;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub roots: Vec<Node>,
}

/// An element, or a piece of text between elements (role `text`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub role: String,
    pub name: Option<String>,
    /// What tools take to mean this element.
    pub reference: Option<String>,
    /// As written, in order, without the reference: `[checked]`, `[level=2]`.
    pub attributes: Vec<(String, Option<String>)>,
    pub url: Option<String>,
    /// What else stands as `/name: value`, such as a placeholder.
    pub properties: Vec<(String, String)>,
    pub text: Option<String>,
    pub children: Vec<Node>,
}

impl Snapshot {
    /// The tree as JSON: `[{role, name?, ref?, attributes?, url?, properties?, text?, children?}]`. What an element
    /// has not is absent.
    pub fn to_json(&self) -> Value {
        self.roots.iter().map(Node::to_json).collect()
    }

    /// All elements one after the other, each with its `depth` and, as `parent`, the reference of the nearest element
    /// around it that has one.
    pub fn flat(&self) -> Value {
        self.walk().map(|place| place.to_flat()).collect()
    }

    /// Every element before those inside it.
    fn walk(&self) -> Walk<'_> {
        Walk { open: vec![(self.roots.iter(), None)] }
    }
}

impl Node {
    fn to_json(&self) -> Value {
        let mut fields = self.fields();
        if !self.children.is_empty() {
            fields.insert("children".to_owned(), self.children.iter().map(Self::to_json).collect());
        }
        Value::Object(fields)
    }

    /// Everything but the children.
    fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
        put("role", self.role.as_str().into());
        for (key, value) in [("name", &self.name), ("ref", &self.reference)] {
            if let Some(value) = value {
                put(key, value.as_str().into());
            }
        }
        if !self.attributes.is_empty() {
            let attributes = self.attributes.iter();
            put(
                "attributes",
                attributes.map(|(name, value)| (name.as_str(), attribute(value.as_deref()))).collect(),
            );
        }
        if let Some(url) = &self.url {
            put("url", url.as_str().into());
        }
        if !self.properties.is_empty() {
            let properties = self.properties.iter();
            put("properties", properties.map(|(name, value)| (name.as_str(), value.as_str())).collect());
        }
        if let Some(text) = &self.text {
            put("text", text.as_str().into());
        }
        fields
    }
}

/// One that is only named is true, and a number is one.
fn attribute(value: Option<&str>) -> Value {
    match value {
        None => Value::Bool(true),
        Some(value) => value.parse::<i64>().map_or_else(|_| value.into(), Value::from),
    }
}

/// An element and where it stands.
struct Place<'a> {
    node: &'a Node,
    depth: usize,
    /// The reference of the nearest element around it that has one.
    parent: Option<&'a str>,
}

impl Place<'_> {
    fn to_flat(&self) -> Value {
        let mut fields = self.node.fields();
        fields.insert("depth".to_owned(), self.depth.into());
        if let Some(parent) = self.parent {
            fields.insert("parent".to_owned(), parent.into());
        }
        Value::Object(fields)
    }
}

struct Walk<'a> {
    /// What is left at each level, and the reference around it.
    open: Vec<(std::slice::Iter<'a, Node>, Option<&'a str>)>,
}

impl<'a> Iterator for Walk<'a> {
    type Item = Place<'a>;

    fn next(&mut self) -> Option<Place<'a>> {
        loop {
            let depth = self.open.len().checked_sub(1)?;
            let (level, parent) = &mut self.open[depth];
            let parent = *parent;
            match level.next() {
                None => {
                    self.open.pop();
                }
                Some(node) => {
                    if !node.children.is_empty() {
                        self.open.push((node.children.iter(), node.reference.as_deref().or(parent)));
                    }
                    return Some(Place { node, depth, parent });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
