//! What changed between two snapshots of one page, for somebody who has seen the first.
//!
//! ```text
//! @ list "Items" [ref=e6]                          where: the nearest element around it with a reference
//! + - listitem [ref=e99]: New                      came, with everything inside
//! ~ - textbox "Name" [ref=e4]: Bob                 is now like this
//! - [ref=e5] button "Old" (and 3 more inside)      went
//! + - group [ref=e8]                               was elsewhere before
//! +   - …                                          with the same inside
//! ~ order: e9 e7 e8                                the elements that stayed now follow each other like this
//! ```
//!
//! Elements are matched by their reference, which Playwright gives to one element for as long as it keeps role and
//! name. What has no reference, mostly text, is matched within the element around it, in order.

use page::{Element, Page};

use super::Snapshot;
use crate::text;

mod page;
mod telling;

/// Pages that share fewer than one in so many elements are not compared any further.
const ONE_IN: usize = 5;

/// What changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Empty when nothing did.
    pub text: String,
    /// Elements and pieces of text, those inside others included.
    pub added: usize,
    pub changed: usize,
    pub removed: usize,
    /// The two have so little in common that `text` is the whole new snapshot.
    pub is_new_page: bool,
}

/// What changed from one snapshot to the next. Where they cannot be read as such it is told line by line.
///
/// That an element is no longer the active one is not told, since another one is or none; nor is a change of the mouse
/// pointer alone.
pub fn changes(old: &str, new: &str) -> Changes {
    if old == new {
        return Changes::default();
    }
    let (Ok(old_tree), Ok(new_tree)) = (Snapshot::parse(old), Snapshot::parse(new)) else {
        return line_by_line(old, new);
    };
    let (old_page, new_page) = (Page::of(&old_tree), Page::of(&new_tree));
    if is_another(&old_page, &new_page) {
        return Changes {
            text: new.to_owned(),
            added: new_page.elements.len(),
            removed: old_page.elements.len(),
            changed: 0,
            is_new_page: true,
        };
    }
    let mut told = telling::tell(&old_page, &new_page);
    let touched = told.added + told.changed + told.removed;
    if told.text.len() > new.len() && touched * 2 > new_page.elements.len() {
        told.text = new.to_owned();
        told.is_new_page = true;
    }
    told
}

fn line_by_line(old: &str, new: &str) -> Changes {
    let text = text::changes(old, new, None);
    let count = |mark: &str| text.lines().filter(|line| line.starts_with(mark)).count();
    Changes { added: count("+ "), removed: count("- "), text, ..Changes::default() }
}

/// Whether too few elements are still what they were for the difference to say anything. Elements without name and
/// text are alike on all pages, and count only where there are no others.
fn is_another(old: &Page<'_>, new: &Page<'_>) -> bool {
    let counts = |counted: fn(&Element<'_>) -> bool| {
        let all = |page: &Page<'_>| page.elements.iter().filter(|element| counted(element)).count();
        let kept = new.elements.iter().filter(|element| {
            counted(element)
                && element.reference().and_then(|reference| old.by_reference.get(reference)).is_some_and(
                    |&at| {
                        let before = &old.elements[at];
                        before.node.role == element.node.role
                            && before.node.name == element.node.name
                            && (element.node.name.is_some() || before.text == element.text)
                    },
                )
        });
        (kept.count(), all(old).min(all(new)))
    };
    let (mut kept, mut comparable) =
        counts(|it| it.reference().is_some() && (it.node.name.is_some() || it.text.is_some()));
    if comparable == 0 {
        (kept, comparable) = counts(|it| it.reference().is_some());
    }
    kept * ONE_IN < comparable.max(1)
}
