//! Putting the difference of two pages into words.

use std::fmt::Write as _;

use similar::{Algorithm, DiffTag, capture_diff_slices};

use super::super::{scalar, write};
use super::Changes;
use super::page::{Inside, Page, shortened};

/// Of more elements that went from one place, the last are only counted.
const MOST_NAMED: usize = 5;

pub(super) fn tell(old: &Page<'_>, new: &Page<'_>) -> Changes {
    let mut telling = Telling { old, new, told: Changes::default(), under: None, pairs: vec![(None, None)] };
    while let Some((was, is)) = telling.pairs.pop() {
        let first = telling.pairs.len();
        telling.look_into(was, is);
        telling.pairs[first..].reverse();
    }
    telling.told.text.pop();
    telling.told
}

struct Telling<'a> {
    old: &'a Page<'a>,
    new: &'a Page<'a>,
    told: Changes,
    /// The element that the last lines stand under; the inner None is the page.
    under: Option<Option<usize>>,
    /// What is the same element in the old and in the new page and has still to be looked into, the next one last.
    /// None is the page.
    pairs: Vec<(Option<usize>, Option<usize>)>,
}

impl<'a> Telling<'a> {
    fn look_into(&mut self, was: Option<usize>, is: Option<usize>) {
        let (old, new) = (self.old, self.new);
        if old.children(was).is_empty() && new.children(is).is_empty() {
            return;
        }
        let (before, after) = (old.inside(was), new.inside(is));
        let plain = compare_plain(old, &before, new, &after);
        let gone = before.iter().zip(&plain.has_stayed).filter(|(inside, has_stayed)| {
            let has_gone = |reference| !new.by_reference.contains_key(reference);
            old.reference(**inside).map_or(!**has_stayed, has_gone)
        });
        let gone: Vec<_> = gone.map(|(inside, _)| *inside).collect();
        self.tell_gone(&gone, is);

        let mut stayed = Vec::new();
        for (&inside, plain_before) in after.iter().zip(plain.before) {
            let Some(reference) = new.reference(inside) else {
                match (plain_before, inside) {
                    (None, _) => self.tell_added(inside, is),
                    (Some(Inside::Element(was)), Inside::Element(at)) => {
                        self.pairs.push((Some(was), Some(at)));
                    }
                    (Some(_), _) => {}
                }
                continue;
            };
            match (old.by_reference.get(reference), inside) {
                (Some(&at_before), Inside::Element(at)) => {
                    if old.elements[at_before].parent == was {
                        stayed.push((at_before, reference));
                        self.tell_changed(at_before, at, is);
                    } else {
                        self.tell_moved(at, is);
                    }
                    self.pairs.push((Some(at_before), Some(at)));
                }
                _ => self.tell_added(inside, is),
            }
        }
        self.tell_order(&stayed, is);
    }

    /// Says where the next lines belong, unless the last ones were there too.
    fn stand_under(&mut self, at: Option<usize>) {
        let under = self.new.nearest_with_reference(at);
        if self.under == Some(under) {
            return;
        }
        self.under = Some(under);
        let text = &mut self.told.text;
        text.push_str("@ ");
        match under {
            None => text.push_str("page"),
            Some(at) => {
                let element = &self.new.elements[at];
                element.push_title(text);
                push_reference(text, element.reference());
            }
        }
        text.push('\n');
    }

    fn tell_gone(&mut self, gone: &[Inside<'_>], under: Option<usize>) {
        let named = if gone.len() > MOST_NAMED { MOST_NAMED - 1 } else { gone.len() };
        for (nth, &inside) in gone.iter().enumerate() {
            let more_inside = self.count_gone_inside(inside);
            self.told.removed += 1 + more_inside;
            if nth >= named {
                continue;
            }
            self.stand_under(under);
            self.push_gone(inside);
            if more_inside > 0 {
                let _ = write!(self.told.text, " (and {more_inside} more inside)");
            }
            self.told.text.push('\n');
        }
        if let Some(&last) = gone[named..].last() {
            self.push_gone(last);
            let between = gone.len() - named - 1;
            let _ = writeln!(self.told.text, " (and {between} more in between)");
        }
    }

    fn push_gone(&mut self, inside: Inside<'_>) {
        let text = &mut self.told.text;
        text.push('-');
        let own_text = match inside {
            Inside::Text(own_text) => {
                text.push_str(" text");
                Some(own_text)
            }
            Inside::Element(at) => {
                let element = &self.old.elements[at];
                push_reference(text, element.reference());
                text.push(' ');
                element.push_title(text);
                element.text
            }
        };
        if let Some(own_text) = own_text {
            text.push_str(": ");
            scalar::push_value(text, &shortened(own_text));
        }
    }

    /// How many elements inside one that went are nowhere else in the new page either.
    fn count_gone_inside(&self, inside: Inside<'_>) -> usize {
        let Inside::Element(at) = inside else { return 0 };
        let mut count = 0;
        let mut todo = vec![at];
        while let Some(at) = todo.pop() {
            for &child in &self.old.elements[at].children {
                let reference = self.old.elements[child].reference();
                if reference.is_none_or(|reference| !self.new.by_reference.contains_key(reference)) {
                    count += 1;
                    todo.push(child);
                }
            }
        }
        count
    }

    /// Something new, with everything in it. What was elsewhere before is only named, and looked into later.
    fn tell_added(&mut self, inside: Inside<'_>, under: Option<usize>) {
        self.stand_under(under);
        let top = match inside {
            Inside::Element(at) => at,
            Inside::Text(_) => {
                self.told.added += 1;
                let written = self.new.written(inside);
                let _ = writeln!(self.told.text, "+ {written}");
                return;
            }
        };
        let mut todo = vec![(top, 0)];
        while let Some((at, depth)) = todo.pop() {
            let element = &self.new.elements[at];
            let before = element.reference().and_then(|reference| self.old.by_reference.get(reference));
            if let Some(&before) = before {
                self.push_known(at, depth);
                self.pairs.push((Some(before), Some(at)));
                continue;
            }
            self.told.added += 1;
            self.push_element('+', at, depth, true);
            todo.extend(element.children.iter().rev().map(|child| (*child, depth + 1)));
        }
    }

    fn tell_moved(&mut self, at: usize, under: Option<usize>) {
        self.stand_under(under);
        self.told.changed += 1;
        self.push_known(at, 0);
    }

    fn tell_changed(&mut self, before: usize, at: usize, under: Option<usize>) {
        let (old, new) = (&self.old.elements[before], &self.new.elements[at]);
        // Text that has become one child among others is told as such.
        let is_only_text = old.children.is_empty() && new.children.is_empty();
        if new.is_like(old) && (!is_only_text || new.text == old.text) {
            return;
        }
        self.stand_under(under);
        self.told.changed += 1;
        self.push_element('~', at, 0, !new.has_properties_of(old.node));
    }

    fn tell_order(&mut self, stayed: &[(usize, &str)], under: Option<usize>) {
        if stayed.is_sorted() {
            return;
        }
        self.stand_under(under);
        self.told.changed += 1;
        self.told.text.push_str("~ order:");
        for (_, reference) in stayed {
            let _ = write!(self.told.text, " {reference}");
        }
        self.told.text.push('\n');
    }

    /// An element that was somewhere else before. What is inside is known.
    fn push_known(&mut self, at: usize, depth: usize) {
        self.push_element('+', at, depth, true);
        if !self.new.elements[at].children.is_empty() {
            let _ = writeln!(self.told.text, "+ {:1$}- …", "", (depth + 1) * 2);
        }
    }

    /// An element without its children.
    fn push_element(&mut self, mark: char, at: usize, depth: usize, with_properties: bool) {
        let element = &self.new.elements[at];
        let text = &mut self.told.text;
        let _ = write!(text, "{mark} {:1$}", "", depth * 2);
        element.push_line(text);
        text.push('\n');
        if with_properties {
            let mut properties = String::new();
            write::push_properties(&mut properties, element.node, depth + 1);
            for line in properties.lines() {
                let _ = writeln!(text, "{mark} {line}");
            }
        }
    }
}

fn push_reference(text: &mut String, reference: Option<&str>) {
    if let Some(reference) = reference {
        let _ = write!(text, " [ref={reference}]");
    }
}

/// What became of the things without a reference inside one element.
struct PlainComparison<'a> {
    /// For each thing in the old element, whether it is in the new one as well.
    has_stayed: Vec<bool>,
    /// For each thing in the new element what it was in the old one.
    before: Vec<Option<Inside<'a>>>,
}

fn compare_plain<'a>(
    old: &Page<'a>,
    before: &[Inside<'a>],
    new: &Page<'_>,
    after: &[Inside<'_>],
) -> PlainComparison<'a> {
    let mut compared =
        PlainComparison { has_stayed: vec![false; before.len()], before: vec![None; after.len()] };
    let (old_plain, new_plain) = (plain_of(old, before), plain_of(new, after));
    let mut stays = |was: usize, is: usize| {
        compared.has_stayed[was] = true;
        compared.before[is] = Some(before[was]);
    };
    let pairs = || old_plain.iter().copied().zip(new_plain.iter().copied());
    // Nearly always nothing has changed here.
    if old_plain.len() == new_plain.len() && pairs().all(|(was, is)| new.is_same(after[is], old, before[was]))
    {
        pairs().for_each(|(was, is)| stays(was, is));
        return compared;
    }
    let old_written: Vec<_> = old_plain.iter().map(|&nth| old.written(before[nth])).collect();
    let new_written: Vec<_> = new_plain.iter().map(|&nth| new.written(after[nth])).collect();
    for change in capture_diff_slices(Algorithm::Myers, &old_written, &new_written) {
        let (tag, old_range, new_range) = change.as_tag_tuple();
        if tag == DiffTag::Equal {
            old_range.zip(new_range).for_each(|(was, is)| stays(old_plain[was], new_plain[is]));
        }
    }
    compared
}

/// The places of what has no reference.
fn plain_of(page: &Page<'_>, inside: &[Inside<'_>]) -> Vec<usize> {
    (0..inside.len()).filter(|&nth| page.reference(inside[nth]).is_none()).collect()
}
