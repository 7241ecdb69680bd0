//! The frame around every page.

use crate::http1::Response;

pub(super) const STYLE: &str = include_str!("pages/style.css");

/// A whole page. `body` is markup; the title is plain text.
pub(super) fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - Test site</title>
<link rel="stylesheet" href="/style.css">
<link rel="icon" href="data:,">
</head>
<body>
<header><nav aria-label="Site"><a href="/">All pages</a></nav></header>
<main>
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"#
    )
}

pub(super) fn respond(status: u16, title: &str, body: &str) -> Response {
    respond_with(status, page(title, body))
}

pub(super) fn respond_with(status: u16, page: impl Into<Vec<u8>>) -> Response {
    Response::new(status).header("Cache-Control", "no-store").body("text/html; charset=utf-8", page)
}

/// Makes text safe inside an element and inside a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Names and values as a description list.
pub(super) fn list_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let rows: String = pairs
        .into_iter()
        .map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value)))
        .collect();
    if rows.is_empty() { "<p>Nothing.</p>\n".to_owned() } else { format!("<dl>\n{rows}</dl>\n") }
}
