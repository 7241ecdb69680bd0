//! From text to tree, line by line.

use super::{MAX_DEPTH, Node, Snapshot, scalar};

/// A line that is not of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the snapshot: expected {expected}")]
pub struct ParseError {
    /// Counted from 0.
    pub line: usize,
    pub expected: &'static str,
}

/// An element whose children may still come.
struct Open {
    node: Node,
    takes_children: bool,
}

impl Snapshot {
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut tree = Tree::default();
        for (number, line) in text.split('\n').enumerate() {
            let line = line.strip_suffix('\r').unwrap_or(line);
            if !line.is_empty() {
                tree.read(line).map_err(|expected| ParseError { line: number, expected })?;
            }
        }
        tree.close(0);
        Ok(Self { roots: tree.roots })
    }
}

/// The tree as far as it has been read: the elements around the current line are open, outermost first.
#[derive(Default)]
struct Tree {
    roots: Vec<Node>,
    open: Vec<Open>,
}

impl Tree {
    fn read(&mut self, line: &str) -> Result<(), &'static str> {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        if !indent.is_multiple_of(2) {
            return Err("two spaces for each level");
        }
        let content = content.strip_prefix("- ").ok_or("`- ` before an element")?;
        let depth = indent / 2;
        if depth >= MAX_DEPTH {
            return Err("at most 500 levels");
        }
        if depth > self.open.len() {
            return Err("an element one level above this one");
        }
        self.close(depth);
        let parent = self.open.last_mut();
        if parent.as_ref().is_some_and(|parent| !parent.takes_children) {
            return Err("`:` at the end of the line of the element around this one");
        }
        if let Some(property) = content.strip_prefix('/') {
            let parent = parent.ok_or("an element that the property belongs to")?;
            return set_property(&mut parent.node, property);
        }
        let open = element(content)?;
        self.open.push(open);
        Ok(())
    }

    /// What is open at this depth and below is complete.
    fn close(&mut self, depth: usize) {
        while self.open.len() > depth {
            let Some(Open { node, .. }) = self.open.pop() else { return };
            match self.open.last_mut() {
                Some(parent) => parent.node.children.push(node),
                None => self.roots.push(node),
            }
        }
    }
}

fn set_property(node: &mut Node, property: &str) -> Result<(), &'static str> {
    let (name, written) = property.split_once(": ").ok_or("`: ` and a value behind the property's name")?;
    let value = value(written)?;
    if name == "url" && node.url.is_none() {
        node.url = Some(value);
    } else {
        node.properties.push((name.to_owned(), value));
    }
    Ok(())
}

fn value(written: &str) -> Result<String, &'static str> {
    if !written.starts_with('"') {
        return Ok(written.to_owned());
    }
    match scalar::double_quoted(written) {
        Some((value, "")) => Ok(value),
        _ => Err("a value whose closing quote ends the line"),
    }
}

fn element(content: &str) -> Result<Open, &'static str> {
    let (mut node, rest) = if content.starts_with('\'') {
        let (written, rest) = scalar::single_quoted(content).ok_or("a closing quote")?;
        match key(&written)? {
            (node, "") => (node, rest),
            _ => return Err("nothing but role, name and attributes in quotes"),
        }
    } else {
        key(content)?
    };
    let takes_children = match rest {
        "" => false,
        ":" => true,
        _ => {
            let written =
                rest.strip_prefix(": ").ok_or("a name in double quotes, `[attribute]`, `:` or the end")?;
            node.text = Some(value(written)?);
            false
        }
    };
    Ok(Open { node, takes_children })
}

/// Role, name and attributes. Returns what follows them.
fn key(written: &str) -> Result<(Node, &str), &'static str> {
    let end = written.find([' ', ':']).unwrap_or(written.len());
    let (role, mut rest) = written.split_at(end);
    if role.is_empty() {
        return Err("a role");
    }
    let mut node = Node { role: role.to_owned(), ..Node::default() };
    if let Some(quoted) = rest.strip_prefix(' ').filter(|rest| rest.starts_with('"')) {
        let (name, after) = scalar::double_quoted(quoted).ok_or("a name that ends with a quote")?;
        node.name = Some(name);
        rest = after;
    }
    while let Some(attribute) = rest.strip_prefix(" [") {
        let (attribute, after) = attribute.split_once(']').ok_or("`]` behind an attribute")?;
        rest = after;
        match attribute.split_once('=') {
            Some(("ref", reference)) if node.reference.is_none() => {
                node.reference = Some(reference.to_owned());
            }
            Some((name, value)) => node.attributes.push((name.to_owned(), Some(value.to_owned()))),
            None => node.attributes.push((attribute.to_owned(), None)),
        }
    }
    Ok((node, rest))
}
