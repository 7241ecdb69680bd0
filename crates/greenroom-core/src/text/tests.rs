use proptest::prelude::*;
use rstest::rstest;

use super::*;

#[rstest]
#[case::all_fits("ab\ncd\n", 6, "ab\ncd\n")]
#[case::no_limit("ab\ncd\n", 0, "ab\ncd\n")]
#[case::after_a_line("ab\ncd\n", 5, "ab\n")]
#[case::exactly_a_line("ab\ncd\n", 3, "ab\n")]
#[case::inside_the_first_line("abcdef\ng", 4, "abcd")]
#[case::not_inside_a_character("aäää", 4, "aä")]
#[case::not_even_one_character("👍\n", 3, "")]
#[case::nothing("", 3, "")]
fn a_text_is_cut_after_a_line(#[case] text: &str, #[case] budget: usize, #[case] kept: &str) {
    assert_eq!(&text[..cut(text, budget)], kept);
}

#[rstest]
#[case("", 0)]
#[case("a", 1)]
#[case("a\n", 1)]
#[case("a\n\n", 2)]
#[case("a\nb", 2)]
fn the_last_line_counts_with_or_without_its_end(#[case] text: &str, #[case] lines: usize) {
    assert_eq!(line_count(text), lines);
}

#[rstest]
#[case(0, None, "a\nb\nc")]
#[case(1, Some(1), "b\n")]
#[case(1, Some(9), "b\nc")]
#[case(2, None, "c")]
#[case(1, Some(0), "")]
#[case(0, Some(usize::MAX), "a\nb\nc")]
fn a_page_is_some_of_the_lines(#[case] offset: usize, #[case] limit: Option<usize>, #[case] expected: &str) {
    assert_eq!(page("a\nb\nc", offset, limit), Ok(expected));
}

#[test]
fn a_page_past_the_end_says_how_many_lines_there_are() {
    assert_eq!(page("", 0, None), Ok(""));
    assert_eq!(page("a\nb\n", 2, None), Err(PastTheEnd { offset: 2, lines: 2 }));
    let error = page("a\nb\nc", usize::MAX - 1, Some(5)).unwrap_err();
    insta::assert_snapshot!(error, @"offset 18446744073709551614 is past the end: there are 3 lines, and the first has the number 0; ask for a smaller offset");
}

#[test]
fn a_search_shows_the_lines_around_and_what_is_left_out() {
    let text = "zero\nOne x\ntwo\nthree\nfour\nfive X x\nsix X\nseven\neight";
    let found = search(text, "x", 1, 1);
    insta::assert_snapshot!(found.text, @r"
    0- zero
    1: One x
    2- two
    --
    4- four
    5: five X x
    6: six X
    7- seven
    ");
    assert_eq!(found.count, 3);
    let shown = [(0, false), (1, true), (2, false), (4, false), (5, true), (6, true), (7, false)];
    assert_eq!(found.lines, shown);
}

#[test]
fn groups_that_touch_are_one() {
    assert_eq!(search("x\na\nb\nx", "x", 1, 1).text, "0: x\n1- a\n2- b\n3: x");
    assert_eq!(search("x\na\nx", "X", 5, 5).text, "0: x\n1- a\n2: x");
}

#[rstest]
#[case("Straße\nÄRGER", "ärger", vec![1])]
#[case("ΟΔΟΣ\nx", "οδοσ", vec![0])]
#[case("a\nb", "a\nb", vec![])]
#[case("a\nb", "", vec![0, 1])]
#[case("", "a", vec![])]
fn capitals_do_not_matter(#[case] text: &str, #[case] needle: &str, #[case] lines: Vec<usize>) {
    let found = search(text, needle, 0, 0);
    assert_eq!(found.lines.iter().map(|(line, _)| *line).collect::<Vec<_>>(), lines);
    assert_eq!(found.count, lines.len());
}

#[test]
fn changes_are_told_by_line_and_place() {
    assert_eq!(changes("a\nb\n", "a\nb", None), "");
    insta::assert_snapshot!(changes("a\nb\nc\nd\ne", "a\nB\nc\nd\ne\nf", None), @r"
    @@ line 1 @@
    - b
    + B
    @@ line 5 @@
    + f
    ");
    insta::assert_snapshot!(changes("", "x", None), @r"
    @@ line 0 @@
    + x
    ");
}

proptest! {
    #[test]
    fn pages_put_together_are_the_text(text in "[a-cé\n]{0,40}", limit in 1usize..5) {
        let mut joined = String::new();
        let lines = line_count(&text);
        for offset in (0..lines).step_by(limit) {
            joined.push_str(page(&text, offset, Some(limit)).unwrap());
        }
        prop_assert_eq!(joined, text.as_str());
        prop_assert!(page(&text, lines.max(1), None).is_err());
    }

    #[test]
    fn a_cut_is_within_its_budget_and_ends_a_line_if_one_ends(text in "[a-cé\n]{0,40}", budget in 1usize..50) {
        let end = cut(&text, budget);
        prop_assert!(end <= budget && text.is_char_boundary(end));
        let kept = &text[..end];
        let has_whole_line = text.as_bytes()[..budget.min(text.len())].contains(&b'\n');
        prop_assert!(end == text.len() || kept.ends_with('\n') || !has_whole_line);
    }

    #[test]
    fn a_search_finds_exactly_the_lines_that_contain_the_word(text in "[abÄäİ\n]{0,60}", needle in "[abÄä]{1,2}", around in 0usize..3) {
        let found = search(&text, &needle, around, around);
        let folded = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<String>();
        let expected: Vec<usize> = text.lines().enumerate()
            .filter(|(_, line)| folded(line).contains(&folded(&needle))).map(|(number, _)| number).collect();
        let matched: Vec<usize> = found.lines.iter().filter(|(_, is_match)| *is_match).map(|(line, _)| *line).collect();
        prop_assert_eq!(&matched, &expected);
        prop_assert_eq!(found.count, expected.len());
        let near = (0..line_count(&text)).filter(|line| expected.iter().any(|hit| hit.abs_diff(*line) <= around));
        prop_assert!(found.lines.iter().map(|(line, _)| *line).eq(near));
    }

    #[test]
    fn changes_make_the_new_text_of_the_old_one(old in "([a-c]\n){0,12}", new in "([a-c]\n){0,12}") {
        let told = changes(&old, &new, None);
        prop_assert_eq!(told.is_empty(), old == new);
        let count = |mark| told.lines().filter(|line| line.starts_with(mark)).count();
        prop_assert_eq!(line_count(&old) - count("- ") + count("+ "), line_count(&new));
    }
}

#[test]
fn the_beginning_of_a_text_ends_between_letters_and_says_that_it_is_one() {
    assert_eq!(beginning("short".to_owned(), 5), "short");
    assert_eq!(beginning("öäü".to_owned(), 3), "ö…");
}
