//! A snapshot laid out for comparing.

use std::collections::HashMap;

use super::super::{Node, Snapshot, scalar, write};

/// Names and texts are shortened to so many characters where they only say which element is meant.
const SHORT: usize = 60;

/// An element, and where it is in its page.
pub(super) struct Element<'a> {
    pub(super) node: &'a Node,
    pub(super) parent: Option<usize>,
    pub(super) children: Vec<usize>,
    /// All that is inside, where that is only text.
    pub(super) text: Option<&'a str>,
}

impl<'a> Element<'a> {
    pub(super) fn reference(&self) -> Option<&'a str> {
        self.node.reference.as_deref()
    }

    /// Like in the other snapshot, but for what is inside and for what is not worth telling. The outermost element is
    /// active whenever no other is.
    pub(super) fn is_like(&self, old: &Element<'_>) -> bool {
        let (new, old) = (self.node, old.node);
        let is_active = |node: &Node| node.attributes.iter().any(|(name, _)| name == "active");
        new.role == old.role
            && new.name == old.name
            && self.has_properties_of(old)
            && told_attributes(new).eq(told_attributes(old))
            && (!is_active(new) || is_active(old) || self.parent.is_none())
    }

    pub(super) fn has_properties_of(&self, old: &Node) -> bool {
        self.node.url == old.url && self.node.properties == old.properties
    }

    /// Role, name, attributes and text, on one line.
    pub(super) fn push_line(&self, out: &mut String) {
        out.push_str("- ");
        scalar::push_key(out, &write::key(self.node));
        if let Some(text) = self.text {
            out.push_str(": ");
            scalar::push_value(out, text);
        }
    }

    /// Everything but what is inside, to compare by.
    fn written(&self) -> String {
        let mut written = String::new();
        self.push_line(&mut written);
        write::push_properties(&mut written, self.node, 0);
        written
    }

    /// Enough to know which element is meant.
    pub(super) fn push_title(&self, out: &mut String) {
        out.push_str(&self.node.role);
        if let Some(name) = &self.node.name {
            out.push(' ');
            scalar::push_json(out, &shortened(name));
        }
    }
}

fn told_attributes(node: &Node) -> impl Iterator<Item = &(String, Option<String>)> {
    node.attributes.iter().filter(|(name, _)| name != "active" && name != "cursor")
}

pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHORT) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// What an element consists of.
#[derive(Clone, Copy)]
pub(super) enum Inside<'a> {
    Element(usize),
    /// Its only text.
    Text(&'a str),
}

/// All elements of a snapshot, each before those inside it.
pub(super) struct Page<'a> {
    pub(super) elements: Vec<Element<'a>>,
    pub(super) by_reference: HashMap<&'a str, usize>,
    roots: Vec<usize>,
}

impl<'a> Page<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let mut page = Self { elements: Vec::new(), by_reference: HashMap::new(), roots: Vec::new() };
        // The elements around the current one, outermost first.
        let mut around: Vec<usize> = Vec::new();
        for place in snapshot.walk() {
            around.truncate(place.depth);
            let (at, parent) = (page.elements.len(), around.last().copied());
            match parent {
                Some(parent) if page.elements[parent].text.is_some() => continue,
                Some(parent) => page.elements[parent].children.push(at),
                None => page.roots.push(at),
            }
            around.push(at);
            if let Some(reference) = &place.node.reference {
                page.by_reference.entry(reference).or_insert(at);
            }
            let text = all_text(place.node);
            page.elements.push(Element { node: place.node, parent, children: Vec::new(), text });
        }
        page
    }

    /// The children of an element, or of the page.
    pub(super) fn children(&self, at: Option<usize>) -> &[usize] {
        at.map_or(&self.roots, |at| &self.elements[at].children)
    }

    pub(super) fn inside(&self, at: Option<usize>) -> Vec<Inside<'a>> {
        let text = at.and_then(|at| self.elements[at].text).map(Inside::Text);
        text.into_iter().chain(self.children(at).iter().copied().map(Inside::Element)).collect()
    }

    pub(super) fn reference(&self, inside: Inside<'_>) -> Option<&'a str> {
        match inside {
            Inside::Element(at) => self.elements[at].reference(),
            Inside::Text(_) => None,
        }
    }

    /// Whether two things without reference are surely the same, but for what is inside. A quick look only: text may
    /// also be the same in another form.
    pub(super) fn is_same(&self, inside: Inside<'_>, old: &Page<'_>, before: Inside<'_>) -> bool {
        match (inside, before) {
            (Inside::Text(text), Inside::Text(before)) => text == before,
            (Inside::Element(at), Inside::Element(before)) => {
                let (new, old) = (&self.elements[at], &old.elements[before]);
                new.text == old.text
                    && new.node.role == old.node.role
                    && new.node.name == old.node.name
                    && new.node.attributes == old.node.attributes
                    && new.has_properties_of(old.node)
            }
            _ => false,
        }
    }

    /// To compare by where there is no reference.
    pub(super) fn written(&self, inside: Inside<'_>) -> String {
        match inside {
            Inside::Element(at) => self.elements[at].written(),
            Inside::Text(text) => {
                let mut written = "- text: ".to_owned();
                scalar::push_value(&mut written, text);
                written
            }
        }
    }

    /// The nearest element with a reference, from this one outwards.
    pub(super) fn nearest_with_reference(&self, at: Option<usize>) -> Option<usize> {
        let mut at = at;
        while let Some(here) = at {
            if self.elements[here].reference().is_some() {
                return at;
            }
            at = self.elements[here].parent;
        }
        None
    }
}

/// A field with a placeholder has its text as a child, all others have it behind the colon. It means the same.
fn all_text(node: &Node) -> Option<&str> {
    match node.children.as_slice() {
        [] => node.text.as_deref(),
        [only] if is_plain_text(only) => only.text.as_deref(),
        _ => None,
    }
}

fn is_plain_text(node: &Node) -> bool {
    let Node { role, name, reference, attributes, url, properties, text: _, children } = node;
    role == "text"
        && (name, reference, url) == (&None, &None, &None)
        && (attributes.is_empty() && properties.is_empty() && children.is_empty())
}
