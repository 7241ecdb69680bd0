//! Who is logged in.
//!
//! Anyone may log in who knows the one password. The cookie is kept from scripts, as a real one would be, so
//! a test can tell whether a browser carries it from page to page.

use std::sync::Mutex;

use super::fields::Fields;
use super::html;
use crate::http1::{Request, Response};
use crate::lock::lock;

const PASSWORD: &str = "open-sesame";
const COOKIE: &str = "session";

/// The names of those who logged in; a session's token is its place in the list.
#[derive(Default)]
pub(super) struct Accounts(Mutex<Vec<String>>);

impl Accounts {
    pub(super) fn form(&self) -> Response {
        html::respond(200, "Log in", &login_form(""))
    }

    pub(super) fn log_in(&self, request: &Request) -> Response {
        let form = Fields::from_urlencoded(&String::from_utf8_lossy(&request.body));
        let user = form.get("user").unwrap_or_default().trim();
        if user.is_empty() || form.get("password") != Some(PASSWORD) {
            let alert = "<p role=\"alert\">The name is missing or the password is wrong.</p>";
            return html::respond(401, "Log in", &login_form(alert));
        }
        let mut names = lock(&self.0);
        names.push(user.to_owned());
        let cookie = format!("{COOKIE}=s{}; Path=/; HttpOnly; SameSite=Lax", names.len() - 1);
        Response::new(303).header("Location", "/private").header("Set-Cookie", cookie)
    }

    /// For those who are logged in; everyone else is sent to do so.
    pub(super) fn private(&self, request: &Request) -> Response {
        match self.name_of(request) {
            Some(name) => {
                let name = html::escape(&name);
                html::respond(200, "Private page", &format!("<p>Signed in as <strong>{name}</strong>.</p>"))
            }
            None => Response::new(302).header("Location", "/login"),
        }
    }

    fn name_of(&self, request: &Request) -> Option<String> {
        let cookies = Fields::from_cookies(request.headers.get("Cookie")?);
        let place: usize = cookies.get(COOKIE)?.strip_prefix('s')?.parse().ok()?;
        lock(&self.0).get(place).cloned()
    }
}

fn login_form(alert: &str) -> String {
    format!(
        r#"{alert}
<form method="post" action="/login">
<p><label for="user">Name</label> <input id="user" name="user" autocomplete="username" required></p>
<p><label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required></p>
<p><button type="submit">Log in</button></p>
</form>
<p>The password is <code>{PASSWORD}</code>.</p>"#
    )
}
