//! The pages.

pub(super) mod fixed;
pub(super) mod forms;
pub(super) mod items;
pub(super) mod requests;

use super::html;
use crate::http1::Response;

/// More than this is a mistake in a test.
const MOST_KB: u64 = 64 * 1024;

/// Pages that are made for each request, for the index; the others are in [`fixed::PAGES`].
const MADE: [(&str, &str); 11] = [
    ("/cookies", "Cookies"),
    ("/slow", "Slow page (10 seconds)"),
    ("/slow-resource", "Slow image (10 seconds)"),
    ("/items", "Items"),
    ("/redirect?to=/static-text", "Redirect"),
    ("/status/404", "Status 404"),
    ("/login", "Log in"),
    ("/private", "Private page"),
    ("/big-text?kb=100", "Big text"),
    ("/echo-headers", "Request headers"),
    ("/healthz", "Health"),
];

pub(super) fn index() -> Response {
    let links: String = fixed::PAGES
        .iter()
        .filter(|page| page.is_listed)
        .map(|page| (page.path, page.title))
        .chain(MADE)
        .map(|(path, title)| format!("<li><a href=\"{path}\">{title}</a></li>\n"))
        .collect();
    html::respond(200, "Test site", &format!("<p>Every page shows one thing.</p>\n<ul>\n{links}</ul>"))
}

pub(super) fn not_found(path: &str) -> Response {
    let path = html::escape(path);
    html::respond(404, "Page not found", &format!("<p>There is nothing at <code>{path}</code>.</p>"))
}

pub(super) fn not_allowed(path: &str) -> Response {
    let path = html::escape(path);
    html::respond(
        405,
        "Method not allowed",
        &format!("<p><code>{path}</code> does not take that method.</p>"),
    )
    .header("Allow", "GET, HEAD")
}

pub(super) fn report() -> Response {
    let mut report = "month,visitors,sales\n".to_owned();
    for month in 1..=12 {
        report.push_str(&format!("2025-{month:02},{},{}\n", 1000 + month * 37, 200 + month * 11));
    }
    Response::new(200)
        .header("Content-Disposition", "attachment; filename=\"report.csv\"")
        .body("text/csv; charset=utf-8", report)
}

/// Paragraphs of one kilobyte each, markup included.
pub(super) fn big_text(kb: u64) -> Response {
    let kb = kb.min(MOST_KB);
    let mut body = String::new();
    for number in 1..=kb {
        let start = format!("<p>Paragraph {number}.");
        let filler = " The quick brown fox jumps over the lazy dog.".chars().cycle();
        let room = 1024 - start.len() - "</p>\n".len();
        body.push_str(&start);
        body.extend(filler.take(room));
        body.push_str("</p>\n");
    }
    html::respond(200, "Big text", &body)
}
