//! What an agent sees of a reply, and finds in it.

use anyhow::{Context, Result};
use serde_json::Value;

/// The text of a reply.
pub(super) fn text(reply: &Value) -> String {
    let blocks = reply["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// Everything that reaches the agent, as it is written.
pub(super) fn weight(reply: &Value) -> usize {
    reply["content"].to_string().len()
}

pub(super) fn ref_id(reply: &Value) -> Result<String> {
    let id = reply["_meta"]["greenroom/refId"].as_str();
    id.map(str::to_owned).with_context(|| format!("a reply without a ref id: {reply}"))
}

/// The element whose line has these words, by the reference that stands in that line.
pub(super) fn reference<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    shown(text).filter(|line| line.contains(words)).find_map(|line| {
        let (_, after) = line.split_once("[ref=")?;
        after.split_once(']').map(|(reference, _)| reference)
    })
}

/// Whether the words stand anywhere but in what went.
pub(super) fn is_there(text: &str, words: &str) -> bool {
    shown(text).any(|line| line.contains(words))
}

/// The number that stands as the text of an element of this role.
pub(super) fn number(text: &str, role: &str) -> Option<u32> {
    let mark = format!("- {role} [ref=");
    let line = shown(text).filter(|line| line.contains(&mark)).last()?;
    let (_, value) = line.rsplit_once("]: ")?;
    value.trim().trim_matches('"').parse().ok()
}

/// The lines without those that say what is gone.
fn shown(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with("- [ref="))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PAGE: &str = "### Changes (1 added, 1 changed, 1 removed)\n@ main [ref=e2]\n\
        - [ref=e9] button \"Send\"\n+ - button \"Send\" [active] [ref=e12] [cursor=pointer]\n~ - status [ref=e7]: \"12\"\n\
        37:   - link \"Item 7: red lamp\" [ref=f1e3] [cursor=pointer]:";

    #[test]
    fn references_are_taken_from_lines_of_what_is_there() {
        assert_eq!(reference(PAGE, "button \"Send\""), Some("e12"));
        assert_eq!(reference(PAGE, "link \"Item 7:"), Some("f1e3"));
        assert_eq!(reference(PAGE, "button \"Cancel\""), None);
        assert_eq!(reference("- text: Send", "Send"), None);
        assert!(is_there(PAGE, "Item 7") && !is_there("- [ref=e9] button \"Send\"", "Send"));
    }

    #[test]
    fn a_number_is_the_last_that_was_shown() {
        assert_eq!(number(PAGE, "status"), Some(12));
        assert_eq!(number("- status [ref=e7]: \"1\"\n~ - status [ref=e7]: \"29\"", "status"), Some(29));
        assert_eq!(number("- status [ref=e7]: soon", "status"), None);
    }

    #[test]
    fn all_content_counts() {
        let reply =
            json!({ "content": [{ "type": "text", "text": "é\n" }], "_meta": { "greenroom/refId": "x" } });
        assert_eq!(weight(&reply), "[{\"text\":\"é\\n\",\"type\":\"text\"}]".len());
        assert_eq!((text(&reply).as_str(), ref_id(&reply).ok().as_deref()), ("é\n", Some("x")));
        assert!(ref_id(&json!({})).is_err());
    }
}
