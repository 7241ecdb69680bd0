//! Trees that no page has, but could have.

use proptest::prelude::*;

use super::super::*;

/// Text with what has a meaning in a snapshot.
fn tricky() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "a", "B", "1", ".", "e", "-", ":", ": ", " ", "#", " #", "\"", "'", "\\", "\n", "\t", "\r", "{", "}",
        "`", "[", "]", "&", "*", "!", "%", "@", "|", ">", "?", ",", "\u{a0}", "\u{85}", "\u{7f}", "\u{0}",
        "\u{feff}", "\u{2028}", "é", "👍", "[ref=e1]", "yes", "null", "true", "0x", "Infinity", "text",
        "/url",
    ]);
    prop::collection::vec(pieces, 1..6).prop_map(|pieces| pieces.concat())
}

fn leaf() -> impl Strategy<Value = Node> {
    let attributes = prop::sample::subsequence(
        vec![("checked", Some("mixed")), ("disabled", None), ("active", None), ("level", Some("2"))],
        0..4,
    );
    let behind = prop::sample::subsequence(vec![("cursor", Some("pointer")), ("box", Some("1,2,3,4"))], 0..2);
    let role = prop::sample::select(vec!["button", "generic", "list", "textbox"]);
    let reference = prop::option::of((1u32..400).prop_map(|number| format!("e{number}")));
    let url = prop::option::weighted(0.2, tricky());
    let placeholder = prop::option::weighted(0.2, tricky());
    (
        role,
        prop::option::of(tricky()),
        reference,
        (attributes, behind),
        (url, placeholder),
        prop::option::of(tricky()),
    )
        .prop_map(|(role, name, reference, (attributes, behind), (url, placeholder), text)| {
            let owned = |(name, value): (&str, Option<&str>)| (name.to_owned(), value.map(str::to_owned));
            let properties: Vec<_> =
                placeholder.into_iter().map(|value| ("placeholder".to_owned(), value)).collect();
            let has_properties = url.is_some() || !properties.is_empty();
            Node {
                role: role.to_owned(),
                name,
                reference,
                attributes: attributes.into_iter().chain(behind).map(owned).collect(),
                text: text.filter(|_| !has_properties),
                url,
                properties,
                children: Vec::new(),
            }
        })
}

fn plain_text() -> impl Strategy<Value = Node> {
    tricky().prop_map(|text| Node { role: "text".to_owned(), text: Some(text), ..Node::default() })
}

pub(super) fn snapshots() -> impl Strategy<Value = Snapshot> {
    let node = prop_oneof![3 => leaf(), 1 => plain_text()].prop_recursive(5, 40, 5, |inner| {
        (leaf(), prop::collection::vec(inner, 1..5)).prop_map(|(leaf, children)| Node {
            text: None,
            children,
            ..leaf
        })
    });
    prop::collection::vec(node, 0..4).prop_map(|roots| Snapshot { roots })
}

proptest! {
    #[test]
    fn a_tree_that_is_written_is_read_as_it_was(snapshot in snapshots()) {
        let text = snapshot.to_yaml();
        let read = Snapshot::parse(&text).unwrap();
        prop_assert_eq!(&read, &snapshot);
        prop_assert_eq!(read.to_yaml(), text);
    }

    #[test]
    fn reading_anything_does_not_panic(text in "[ \\-:'\"\\\\a\\[\\]=/\nxu0é]{0,60}") {
        let _ = Snapshot::parse(&text);
        let _ = changes(&text, "- button");
    }

    #[test]
    fn a_damaged_snapshot_does_not_panic(snapshot in snapshots(), at in any::<prop::sample::Index>(), put in "[ \\-:'\"\n\\\\é]{0,3}") {
        let text = snapshot.to_yaml();
        let mut at = at.index(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let damaged = format!("{}{put}{}", &text[..at], &text[at..]);
        let _ = Snapshot::parse(&damaged);
        let _ = changes(&text, &damaged);
    }
}
