//! From tree to text.

use super::{Node, Snapshot, scalar};

/// What Playwright writes behind the reference.
const BEHIND_REFERENCE: [&str; 2] = ["cursor", "box"];

impl Snapshot {
    /// The text as Playwright would write it. What [`Self::parse`] has read comes out as it was.
    pub fn to_yaml(&self) -> String {
        let mut out = String::new();
        for place in self.walk() {
            push_element(&mut out, place.node, place.depth);
        }
        out.pop();
        out
    }
}

/// An element without its children, with its properties.
pub(super) fn push_element(out: &mut String, node: &Node, depth: usize) {
    push_indent(out, depth);
    scalar::push_key(out, &key(node));
    let has_lines_inside = node.url.is_some() || !node.properties.is_empty() || !node.children.is_empty();
    match &node.text {
        Some(text) if !has_lines_inside => {
            out.push_str(": ");
            scalar::push_value(out, text);
            out.push('\n');
        }
        text => {
            out.push_str(if has_lines_inside { ":\n" } else { "\n" });
            push_properties(out, node, depth + 1);
            if let Some(text) = text {
                push_line(out, depth + 1, "text", text);
            }
        }
    }
}

pub(super) fn push_properties(out: &mut String, node: &Node, depth: usize) {
    if let Some(url) = &node.url {
        push_line(out, depth, "/url", url);
    }
    for (name, value) in &node.properties {
        push_line(out, depth, &format!("/{name}"), value);
    }
}

fn push_line(out: &mut String, depth: usize, key: &str, value: &str) {
    push_indent(out, depth);
    out.push_str(key);
    out.push_str(": ");
    scalar::push_value(out, value);
    out.push('\n');
}

fn push_indent(out: &mut String, depth: usize) {
    for _ in 0..depth {
        out.push_str("  ");
    }
    out.push_str("- ");
}

/// Role, name and attributes.
pub(super) fn key(node: &Node) -> String {
    let mut key = node.role.clone();
    if let Some(name) = &node.name {
        key.push(' ');
        scalar::push_json(&mut key, name);
    }
    let mut reference = node.reference.as_deref();
    for (name, value) in &node.attributes {
        if BEHIND_REFERENCE.contains(&name.as_str()) {
            push_reference(&mut key, reference.take());
        }
        key.push_str(" [");
        key.push_str(name);
        if let Some(value) = value {
            key.push('=');
            key.push_str(value);
        }
        key.push(']');
    }
    push_reference(&mut key, reference);
    key
}

fn push_reference(key: &mut String, reference: Option<&str>) {
    if let Some(reference) = reference {
        key.push_str(" [ref=");
        key.push_str(reference);
        key.push(']');
    }
}
