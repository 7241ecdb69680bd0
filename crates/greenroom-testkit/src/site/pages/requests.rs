//! Pages about the request itself.

use super::super::fields::Fields;
use super::super::html::{escape, list_pairs, respond};
use crate::http1::{Request, Response, reason};

/// Sets one cookie that scripts see and one that they do not, and shows what the browser sent.
pub(in crate::site) fn cookies(request: &Request) -> Response {
    let received = Fields::from_cookies(request.headers.get("Cookie").unwrap_or_default());
    let body = format!(
        "<h2>Sent by the browser</h2>\n{}\
         <h2>Seen by scripts</h2>\n<p><output id=\"seen\"></output></p>\n\
         <p><a href=\"/cookies\">Load again</a></p>\n\
         <script>document.getElementById('seen').textContent = document.cookie;</script>",
        list_pairs(received.iter())
    );
    respond(200, "Cookies", &body)
        .header("Set-Cookie", "visible=from-the-site; Path=/; SameSite=Lax")
        .header("Set-Cookie", "hidden=not-for-scripts; Path=/; HttpOnly; SameSite=Lax")
}

pub(in crate::site) fn headers(request: &Request) -> Response {
    let lines: String =
        request.headers.iter().map(|(name, value)| escape(&format!("{name}: {value}\n"))).collect();
    respond(200, "Request headers", &format!("<pre id=\"headers\">{lines}</pre>"))
}

pub(in crate::site) fn redirect(to: &str) -> Response {
    let link = escape(to);
    respond(302, "Moved", &format!("<p>Go to <a href=\"{link}\">{link}</a>.</p>")).header("Location", to)
}

/// Any status that can end an exchange. `None` for a number that is none.
pub(in crate::site) fn status(code: u16) -> Option<Response> {
    (200..600).contains(&code).then(|| {
        let title = format!("Status {code}");
        respond(code, &title, &format!("<p>{}: this is what was asked for.</p>", reason(code)))
    })
}
