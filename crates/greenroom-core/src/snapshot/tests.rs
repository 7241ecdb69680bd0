//! The snapshots under `fixtures` are what `@playwright/mcp` 0.0.83 wrote about real pages in a real Chromium.

use rstest::rstest;

use super::*;

mod changes;
mod random;

/// A snapshot as it was recorded.
fn recorded(name: &str) -> String {
    let path = format!("{}/src/snapshot/fixtures/{name}.yml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

#[rstest]
#[case("boxes")]
#[case("deep")]
#[case("dialog")]
#[case("form")]
#[case("frames")]
#[case("lists")]
#[case("many")]
#[case("names")]
#[case("steps/4")]
#[case("svg")]
#[case("table")]
fn a_real_snapshot_comes_out_as_it_went_in(#[case] name: &str) {
    let text = recorded(name);
    let written = Snapshot::parse(&text).unwrap().to_yaml();
    for (line, (written, expected)) in written.lines().zip(text.lines()).enumerate() {
        assert_eq!(written, expected, "line {line}");
    }
    assert_eq!(written, text);
}

/// What a snapshot looks like where every part of it is used.
const EXAMPLE: &str = r#"- generic [active] [ref=e1]:
  - heading "Title" [level=1] [ref=e2]
  - link "More \"info\"" [ref=e3] [cursor=pointer]:
    - /url: https://example.com/?a=b
  - textbox "Name" [ref=e4]:
    - /placeholder: "first: last"
    - text: Bob
  - 'button "odd: it''s" [disabled] [ref=e5]'
  - list [ref=e6]:
    - listitem [ref=e7]: "1"
    - separator
    - group:
      - checkbox [checked=mixed] [ref=e8]
- text: "- end""#;

#[test]
fn a_snapshot_as_json() {
    let snapshot = Snapshot::parse(EXAMPLE).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&snapshot.to_json()).unwrap());
    assert_eq!(snapshot.to_yaml(), EXAMPLE);
}

#[test]
fn a_flat_snapshot_says_where_each_element_is() {
    let flat = Snapshot::parse(EXAMPLE).unwrap().flat();
    let lines: Vec<String> = flat.as_array().unwrap().iter().map(Value::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn an_empty_page_has_an_empty_snapshot() {
    assert_eq!(Snapshot::parse(""), Ok(Snapshot::default()));
    assert_eq!(Snapshot::default().to_yaml(), "");
    assert_eq!(Snapshot::parse("- button\n"), Snapshot::parse("- button"));
}

/// Playwright writes half of an emoji, where a page has cut a name, as JSON does.
#[test]
fn half_a_character_is_replaced() {
    let name = |text: &str| Snapshot::parse(text).unwrap().roots[0].name.clone().unwrap();
    assert_eq!(name(r#"- button "cut \ud83d""#), "cut \u{fffd}");
    assert_eq!(name(r#"- button "\ud83d\ude00 \u00e4""#), "😀 ä");
    assert_eq!(name(r#"- button "\ud83d\u0041""#), "\u{fffd}A");
}

#[test]
fn what_is_no_snapshot_is_refused_with_its_line() {
    let refused = [
        "nothing here",
        "- list:\n - odd",
        "- list:\n    - far",
        "- list\n  - child of none",
        "- list: text\n  - child",
        "- list:\n  - /url: x\n    - child",
        "- /url: x",
        "- list:\n  - /url",
        "- button \"open",
        "- button \"bad \\q\"",
        "- button [open",
        "- button odd",
        "- 'button",
        "- 'button: x'",
        "- text: \"open",
        "- text: \"a\" b",
        "- : x",
        "- ",
        "-",
    ];
    let said = refused.map(|text| format!("{text:?}\n    {}", Snapshot::parse(text).unwrap_err()));
    insta::assert_snapshot!(said.join("\n"));
}

/// Nested as deep as that, each inside the one before.
fn nested(depth: usize) -> String {
    let mut text = String::new();
    for level in 0..depth {
        text.push_str(&" ".repeat(level * 2));
        text.push_str("- group [ref=e1]:\n");
    }
    text
}

#[test]
fn a_tree_may_be_deep_but_not_without_end() {
    // No more stack than a worker has.
    let small = std::thread::Builder::new().stack_size(2 << 20);
    let done = small.spawn(|| {
        let snapshot = Snapshot::parse(&nested(MAX_DEPTH)).unwrap();
        assert_eq!(snapshot.flat().as_array().unwrap().len(), MAX_DEPTH);
        assert!(snapshot.to_json().to_string().len() > MAX_DEPTH);
        assert!(snapshot.to_yaml().starts_with("- group [ref=e1]:\n  - group"));
        assert_eq!(snapshot, snapshot.clone());
        assert!(format!("{snapshot:?}").len() > MAX_DEPTH);
        let queryable = Queryable::new(&snapshot);
        assert!(queryable.query("to_string([@, @])", false).is_ok());
        assert!(queryable.query("@", false).unwrap().to_string().len() > MAX_DEPTH);
        assert!(!changes("- button [ref=e2]", &nested(MAX_DEPTH)).text.is_empty());
    });
    done.unwrap().join().unwrap();

    let error = Snapshot::parse(&nested(2_000)).unwrap_err();
    assert_eq!(error.to_string(), "line 500 of the snapshot: expected at most 500 levels");
    let deepest = format!("{}- a", " ".repeat(200_000));
    assert!(Snapshot::parse(&deepest).is_err());
}

mod querying {
    use super::*;

    fn ask(expression: &str, flatten: bool) -> String {
        let queryable = Queryable::new(&Snapshot::parse(EXAMPLE).unwrap());
        queryable
            .query(expression, flatten)
            .map_or_else(|error| error.to_string(), |answer| answer.to_string())
    }

    #[rstest]
    #[case("[?role=='button'].{name: name, ref: ref}", r#"[{"name":"odd: it's","ref":"e5"}]"#)]
    #[case("[?role=='heading' && attributes.level==`1`].ref", r#"["e2"]"#)]
    #[case("[?attributes.disabled].ref | [0]", r#""e5""#)]
    #[case("[?contains(name, 'info')].url", r#"["https://example.com/?a=b"]"#)]
    #[case("[?starts_with(text, 'B')].parent", r#"["e4"]"#)]
    #[case("[?parent=='e6'].role", r#"["listitem","separator","group","checkbox"]"#)]
    #[case("length(@)", "12")]
    #[case("max_by(@, &depth).role", r#""checkbox""#)]
    #[case("[?properties.placeholder].ref", r#"["e4"]"#)]
    #[case("join(', ', [?ref].ref)", r#""e1, e2, e3, e4, e5, e6, e7, e8""#)]
    #[case("nothing", "null")]
    fn the_list_of_elements_can_be_asked(#[case] expression: &str, #[case] answer: &str) {
        assert_eq!(ask(expression, true), answer);
    }

    #[rstest]
    #[case("[0].children[?role=='list'].children[].ref", r#"["e7"]"#)]
    #[case("[].children[].name", r#"["Title","More \"info\"","Name","odd: it's"]"#)]
    #[case("[1]", r#"{"role":"text","text":"- end"}"#)]
    fn the_tree_can_be_asked(#[case] expression: &str, #[case] answer: &str) {
        assert_eq!(ask(expression, false), answer);
    }

    #[test]
    fn a_query_that_has_no_answer_says_why() {
        let doublings = format!("@{}", "|[@,@][]".repeat(9));
        let expressions = [
            "[?role=='button'",
            "",
            "[?role==button'].x",
            "abs(@)",
            "unknown(@)",
            "contains(@)",
            "join(to_string(@), map(&to_string(@), [*].[role, ref][]))[0][",
            &doublings,
            &"!".repeat(201),
            &"x".repeat(10_001),
        ];
        let said: Vec<String> = expressions.iter().map(|expression| ask(expression, true)).collect();
        insta::assert_snapshot!(said.join("\n\n"));
    }

    #[rstest]
    #[case("(")]
    #[case("[")]
    #[case("{a:")]
    #[case("!")]
    #[case("a.")]
    #[case("[?")]
    #[case("abs(")]
    #[case("&")]
    #[case("a||")]
    #[case("[*].")]
    #[case("@|")]
    #[case("`[")]
    #[case("a[]")]
    #[case("a[?b]")]
    #[case("a&&")]
    #[case("[a,")]
    fn a_nested_query_needs_no_more_stack_than_there_is(#[case] piece: &'static str) {
        let small = std::thread::Builder::new().stack_size(2 << 20);
        let asked = small.spawn(move || {
            for times in [50, 66, 100, 190, 200, 5_000] {
                let open = piece.repeat(times);
                for close in ["", ")", "]", "}"] {
                    ask(&format!("{open}a{}", close.repeat(times)), true);
                }
            }
        });
        asked.unwrap().join().unwrap();
    }

    #[test]
    fn an_answer_that_repeats_what_is_shared_is_bounded() {
        let text = "- list:\n".to_owned() + &"  - listitem [ref=e1]: x\n".repeat(20_000);
        let queryable = Queryable::new(&Snapshot::parse(&text).unwrap());
        let answer = queryable.query("[@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@,@]", true);
        assert_eq!(answer, Err(QueryError::TooMuch));
        assert!(queryable.query("join(to_string(@), [].role)", true).is_err());
    }

    #[test]
    fn it_can_be_shared_between_threads() {
        fn is_shared<T: Send + Sync + 'static>() {}
        is_shared::<Queryable>();
    }
}
