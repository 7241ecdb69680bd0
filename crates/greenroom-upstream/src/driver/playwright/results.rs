//! What `@playwright/mcp`'s results say.

use crate::driver::Page;

const URL: &[u8] = b"- Page URL: ";
const TITLE: &[u8] = b"- Page Title: ";

/// The page that a result ends on. Looked for in the bytes as they are: results may be large, and most of the time
/// nobody asks.
pub(super) fn page(result: &[u8]) -> Option<Page> {
    let at = memchr::memmem::find(result, URL)?;
    let url = line(&result[at + URL.len()..])?;
    let rest = &result[at..];
    // The title stands on the next line, if there is one.
    let near = &rest[..rest.len().min(16 * 1024)];
    let title = memchr::memmem::find(near, TITLE).and_then(|at| line(&near[at + TITLE.len()..]));
    Some(Page { url, title: title.unwrap_or_default() })
}

/// Text inside a JSON string, up to the end of its line.
fn line(bytes: &[u8]) -> Option<String> {
    let mut end = 0;
    while end < bytes.len() {
        match bytes[end] {
            b'"' => break,
            b'\\' if bytes.get(end + 1) == Some(&b'n') => break,
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    let text = std::str::from_utf8(bytes.get(..end)?).ok()?;
    serde_json::from_str(&format!("\"{text}\"")).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Page, page};

    fn of(text: &str) -> Option<Page> {
        page(json!({ "content": [{ "type": "text", "text": text }] }).to_string().as_bytes())
    }

    #[test]
    fn url_and_title_are_found_as_they_are() {
        let found = of(
            "### Page\n- Page URL: https://x.example/?q=\"a\\b\"\n- Page Title: Ünïcode \"quoted\"\n### Snapshot",
        );
        let expected =
            Page { url: "https://x.example/?q=\"a\\b\"".into(), title: "Ünïcode \"quoted\"".into() };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn a_page_may_have_no_title_and_a_result_no_page() {
        assert_eq!(
            of("- Page URL: about:blank"),
            Some(Page { url: "about:blank".into(), title: String::new() })
        );
        assert_eq!(of("### Result\nnothing"), None);
        assert_eq!(page(b"- Page URL: cut off \\"), None);
    }
}
