use std::collections::HashMap;
use std::fmt::Write as _;

use proptest::prelude::*;
use rstest::rstest;

use super::super::*;
use super::random::snapshots;
use super::recorded;

/// Typing into a field, into one with a placeholder, adding an item, deleting one, and turning the list round.
#[test]
fn what_happens_on_a_real_page_is_told() {
    let mut story = String::new();
    for step in 1..6 {
        let (old, new) = (recorded(&format!("steps/{step}")), recorded(&format!("steps/{}", step + 1)));
        let told = changes(&old, &new);
        assert!(!told.is_new_page);
        let Changes { text, added, changed, removed, .. } = told;
        writeln!(story, "=== added {added}, changed {changed}, removed {removed}\n{text}").unwrap();
    }
    insta::assert_snapshot!(story);
}

#[test]
fn nothing_changed_is_nothing_told() {
    let page = recorded("form");
    assert_eq!(changes(&page, &page), Changes::default());
    assert_eq!(changes("", ""), Changes::default());
}

#[rstest]
#[case("form", "table")]
#[case("lists", "many")]
fn another_page_is_given_whole(#[case] old: &str, #[case] new: &str) {
    let (old, new) = (recorded(old), recorded(new));
    let told = changes(&old, &new);
    assert!(told.is_new_page);
    assert_eq!(told.text, new);
}

/// Where references begin again with every page, they say nothing about what is the same.
#[test]
fn another_page_with_the_same_references_is_given_whole() {
    let page = |names: [&str; 4]| {
        let mut page = "- generic [ref=e1]:".to_owned();
        for (number, name) in names.iter().enumerate() {
            write!(page, "\n  - link \"{name}\" [ref=e{}]", number + 2).unwrap();
        }
        page
    };
    let told = changes(&page(["Home", "Shop", "Cart", "Help"]), &page(["Name", "Mail", "Pay", "Send"]));
    assert!(told.is_new_page);
    let told = changes(&page(["Home", "Shop", "Cart", "Help"]), &page(["Home", "Shop", "Cart (1)", "Help"]));
    assert_eq!(told.text, "@ generic [ref=e1]\n~ - link \"Cart (1)\" [ref=e4]");
    assert_eq!((told.added, told.changed, told.removed), (0, 1, 0));
}

#[test]
fn an_empty_page_before_or_after_is_another_page() {
    assert!(changes("", "- button [ref=e1]").is_new_page);
    let left = changes("- button [ref=e1]", "");
    assert!(left.is_new_page && left.text.is_empty() && left.removed == 1);
}

/// The old page, and what it became, as far as the following tests look at it.
fn told(old: &str, new: &str) -> String {
    let around = |inside: &str| format!("- main \"Page\" [ref=e1]:\n  - heading \"Top\" [ref=e2]\n{inside}");
    changes(&around(old), &around(new)).text
}

#[test]
fn what_is_added_comes_with_all_inside_and_what_moved_is_named() {
    let old = "  - list \"Left\" [ref=e3]:\n    - listitem [ref=e4]:\n      - button \"A\" [ref=e5]\n    - listitem [ref=e6]: B\n  - list \"Right\" [ref=e7]:\n    - listitem [ref=e8]: C";
    let new = "  - list \"Left\" [ref=e3]:\n    - listitem [ref=e6]: B\n  - list \"Right\" [ref=e7]:\n    - listitem [ref=e8]: C\n    - listitem [ref=e4]:\n      - button \"A\" [ref=e5]\n  - region \"New\" [ref=e9]:\n    - text: hello\n    - link \"x\" [ref=e10]:\n      - /url: /x\n    - separator";
    insta::assert_snapshot!(told(old, new), @r#"
    @ main "Page" [ref=e1]
    + - region "New" [ref=e9]
    +   - text: hello
    +   - link "x" [ref=e10]
    +     - /url: /x
    +   - separator
    @ list "Right" [ref=e7]
    + - listitem [ref=e4]
    +   - …
    "#);
}

#[test]
fn what_was_wrapped_is_not_repeated() {
    let items = |depth: usize| {
        (10..20).fold(String::new(), |items, number| {
            format!("{items}{:depth$}- listitem [ref=e{number}]: item {number}\n", "")
        })
    };
    let old = format!("  - list [ref=e3]:\n{}", items(4));
    let new = format!("  - region \"Box\" [ref=e4]:\n    - list [ref=e3]:\n{}", items(6));
    insta::assert_snapshot!(told(&old, &new), @r#"
    @ main "Page" [ref=e1]
    + - region "Box" [ref=e4]
    +   - list [ref=e3]
    +     - …
    "#);
}

#[test]
fn many_that_went_are_counted() {
    let items = |numbers: std::ops::Range<usize>| {
        numbers.fold("  - list [ref=e3]:\n".to_owned(), |items, number| {
            format!("{items}    - listitem [ref=e{number}]:\n      - text: item\n      - button \"Del {number}\" [ref=f{number}]\n")
        })
    };
    insta::assert_snapshot!(told(&items(10..50), &items(40..50)), @r#"
    @ list [ref=e3]
    - [ref=e10] listitem (and 2 more inside)
    - [ref=e11] listitem (and 2 more inside)
    - [ref=e12] listitem (and 2 more inside)
    - [ref=e13] listitem (and 2 more inside)
    - [ref=e39] listitem (and 25 more in between)
    "#);
    insta::assert_snapshot!(told(&items(10..13), &items(12..13)), @r#"
    @ list [ref=e3]
    - [ref=e10] listitem (and 2 more inside)
    - [ref=e11] listitem (and 2 more inside)
    "#);
}

#[test]
fn text_is_told_under_the_element_around_it() {
    let old = "  - paragraph [ref=e3]:\n    - text: You have\n    - strong [ref=e4]: \"3\"\n    - text: items\n  - generic [ref=e5]: One";
    let new = "  - paragraph [ref=e3]:\n    - text: You had\n    - strong [ref=e4]: \"4\"\n    - text: items\n  - generic [ref=e5]:\n    - text: One\n    - button \"More\" [ref=e6]";
    insta::assert_snapshot!(told(old, new), @r#"
    @ paragraph [ref=e3]
    - text: You have
    + - text: You had
    ~ - strong [ref=e4]: "4"
    @ generic [ref=e5]
    + - button "More" [ref=e6]
    "#);
}

#[rstest]
#[case::lost("  - button [active] [ref=e3]", "  - button [ref=e3]", "")]
#[case::got(
    "  - button [ref=e3]",
    "  - button [active] [ref=e3]",
    "@ main \"Page\" [ref=e1]\n~ - button [active] [ref=e3]"
)]
#[case::pointer("  - button [ref=e3]", "  - button [ref=e3] [cursor=pointer]", "")]
#[case::other(
    "  - button [ref=e3]",
    "  - button [disabled] [ref=e3]",
    "@ main \"Page\" [ref=e1]\n~ - button [disabled] [ref=e3]"
)]
#[case::role("  - button [ref=e3]", "  - link [ref=e3]", "@ main \"Page\" [ref=e1]\n~ - link [ref=e3]")]
#[case::address(
    "  - link [ref=e3]:\n    - /url: /a",
    "  - link [ref=e3]:\n    - /url: /b",
    "@ main \"Page\" [ref=e1]\n~ - link [ref=e3]\n~   - /url: /b"
)]
fn an_element_that_changed_is_told_once(#[case] old: &str, #[case] new: &str, #[case] expected: &str) {
    assert_eq!(told(old, new), expected);
}

#[test]
fn what_is_no_snapshot_is_compared_line_by_line() {
    let told = changes("one\ntwo", "one\nthree");
    assert_eq!(told.text, "@@ line 1 @@\n- two\n+ three");
    assert_eq!((told.added, told.removed, told.is_new_page), (1, 1, false));
}

/// What the line of each element says, without what is not worth telling.
fn lines(snapshot: &Snapshot) -> HashMap<&str, Node> {
    let mut lines = HashMap::new();
    for place in snapshot.walk() {
        if let Some(reference) = &place.node.reference {
            let mut own = Node { children: Vec::new(), ..place.node.clone() };
            own.attributes.retain(|(name, _)| name != "active" && name != "cursor");
            lines.insert(reference.as_str(), own);
        }
    }
    lines
}

/// A page and what became of it: elements went, came, changed, moved.
fn edited() -> impl Strategy<Value = (Snapshot, Snapshot)> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0..6u8), 1..6);
    (snapshots(), snapshots(), edits).prop_map(|(mut old, other, edits)| {
        number(&mut old, "e");
        let mut new = old.clone();
        let mut spare: Vec<Node> = other.roots;
        for (nth, (at, edit)) in edits.into_iter().enumerate() {
            apply(&mut new.roots, at, edit, nth, &mut spare);
        }
        (old, new)
    })
}

/// Every element gets a reference of its own where it had one at all.
fn number(snapshot: &mut Snapshot, prefix: &str) {
    let mut next = 0;
    let mut todo: Vec<&mut Node> = snapshot.roots.iter_mut().collect();
    while let Some(node) = todo.pop() {
        if let Some(reference) = &mut node.reference {
            next += 1;
            *reference = format!("{prefix}{next}");
        }
        todo.extend(&mut node.children);
    }
}

fn apply(siblings: &mut Vec<Node>, at: prop::sample::Index, edit: u8, nth: usize, spare: &mut Vec<Node>) {
    if siblings.is_empty() {
        return;
    }
    let chosen = at.index(siblings.len());
    if !siblings[chosen].children.is_empty() && at.index(3) > 0 {
        return apply(&mut siblings[chosen].children, at, edit, nth, spare);
    }
    match edit {
        0 => spare.push(siblings.remove(chosen)),
        1 => siblings[chosen].attributes.insert(0, ("selected".to_owned(), None)),
        2 => siblings.reverse(),
        3 => siblings[chosen].name = Some(format!("renamed {nth}")),
        _ => {
            if let Some(mut node) = spare.pop() {
                node.reference = node.reference.filter(|reference| edit == 4 && reference.starts_with('e'));
                if edit == 5 {
                    node.reference = Some(format!("n{nth}"));
                }
                siblings.insert(chosen, node);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn every_element_that_is_new_or_other_than_before_is_named((old, new) in edited()) {
        let (old_text, new_text) = (old.to_yaml(), new.to_yaml());
        let told = changes(&old_text, &new_text);
        let (old, new) = (Snapshot::parse(&old_text).unwrap(), Snapshot::parse(&new_text).unwrap());
        let before = lines(&old);
        for (reference, line) in lines(&new) {
            let is_told = told.text.contains(&format!("[ref={reference}]"));
            let is_same = before.get(reference).is_some_and(|before| *before == line);
            prop_assert!(is_told || is_same, "{reference} is missing in\n{}\n--- old\n{old_text}\n--- new\n{new_text}", told.text);
        }
        let after = lines(&new);
        let gone = before.keys().filter(|reference| !after.contains_key(*reference)).count();
        prop_assert!(told.removed >= gone);
        prop_assert!(!told.is_new_page || told.text == new_text);
    }

    /// Any two pages, with references that mean other elements in each.
    #[test]
    fn any_two_pages_can_be_compared(old in snapshots(), new in snapshots()) {
        let (old_text, new_text) = (old.to_yaml(), new.to_yaml());
        let told = changes(&old_text, &new_text);
        let before = lines(&old);
        for (reference, _) in lines(&new).iter().filter(|(reference, _)| !before.contains_key(*reference)) {
            let named = format!("[ref={reference}]");
            prop_assert!(told.text.contains(&named), "{named} is missing in\n{}", told.text);
        }
    }
}
