//! What comes back after a form was sent.

use super::super::fields::Fields;
use super::super::html::{escape, list_pairs, respond};
use super::super::multipart;
use crate::http1::{Request, Response};

pub(in crate::site) fn sent(request: &Request) -> Response {
    let form = Fields::from_urlencoded(&String::from_utf8_lossy(&request.body));
    if !form.get("email").is_some_and(|email| email.contains('@')) {
        let body =
            "<p role=\"alert\">The e-mail address needs an @.</p>\n<p><a href=\"/form\">Try again</a></p>";
        return respond(422, "Form not accepted", body);
    }
    respond(200, "Form received", &format!("<p role=\"status\">Thank you.</p>\n{}", list_pairs(form.iter())))
}

pub(in crate::site) fn uploaded(request: &Request) -> Response {
    let content_type = request.headers.get("Content-Type").unwrap_or_default();
    let files = multipart::files(content_type, &request.body).unwrap_or_default();
    // A form without a chosen file sends one without a name.
    let rows: String = files
        .iter()
        .filter(|file| !file.name.is_empty())
        .map(|file| {
            let (name, kind) = (escape(&file.name), escape(&file.content_type));
            format!("<li><strong>{name}</strong>: {} bytes, {kind}</li>\n", file.size)
        })
        .collect();
    if rows.is_empty() {
        let body = "<p role=\"alert\">No file came.</p>\n<p><a href=\"/upload\">Try again</a></p>";
        return respond(422, "Upload not accepted", body);
    }
    respond(200, "Upload received", &format!("<ul>\n{rows}</ul>"))
}
