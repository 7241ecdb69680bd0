//! Which path leads where.

use std::io;

use super::fields::Fields;
use super::{State, html, pages, slow};
use crate::http1::{Reply, Request, Response};
use crate::lock::lock;

pub(super) fn handle(state: &State, request: &Request, reply: &mut Reply<'_>) -> io::Result<()> {
    *lock(&state.hits).entry(request.path().to_owned()).or_default() += 1;
    if request.path() == "/slow-resource/image" {
        return slow::image(state, request, reply);
    }
    reply.send(respond(state, request))
}

fn respond(state: &State, request: &Request) -> Response {
    let path = request.path();
    match request.method.as_str() {
        "GET" | "HEAD" => get(state, request).unwrap_or_else(|| pages::not_found(path)),
        "POST" => post(state, request).unwrap_or_else(|| match get(state, request) {
            Some(_) => pages::not_allowed(path),
            None => pages::not_found(path),
        }),
        _ => pages::not_allowed(path),
    }
}

fn post(state: &State, request: &Request) -> Option<Response> {
    match request.path() {
        "/form" => Some(pages::forms::sent(request)),
        "/upload" => Some(pages::forms::uploaded(request)),
        "/login" => Some(state.accounts.log_in(request)),
        _ => None,
    }
}

fn get(state: &State, request: &Request) -> Option<Response> {
    let path = request.path();
    if let Some(fixed) = pages::fixed::find(path) {
        return Some(html::respond(200, fixed.title, fixed.body));
    }
    let query = || Fields::from_urlencoded(request.query());
    let response = match path {
        "/" => pages::index(),
        "/style.css" => Response::new(200).body("text/css; charset=utf-8", html::STYLE),
        "/healthz" => Response::new(200).body("text/plain; charset=utf-8", "ok\n"),
        "/cookies" => pages::requests::cookies(request),
        "/echo-headers" => pages::requests::headers(request),
        "/redirect" => pages::requests::redirect(query().get("to").unwrap_or("/")),
        "/download/report.csv" => pages::report(),
        "/slow" => slow::page(state, request),
        "/slow-resource" => slow::page_with_image(request),
        "/items" => match query().get("n").and_then(|n| n.parse().ok()) {
            Some(items) => html::respond_with(200, pages::items::list_of(items)),
            None => html::respond_with(200, state.items.get_or_init(pages::items::list).as_str()),
        },
        "/big-text" => pages::big_text(query().number("kb", 100)),
        "/login" => state.accounts.form(),
        "/private" => state.accounts.private(request),
        _ => {
            let (folder, name) = path.rsplit_once('/')?;
            return match folder {
                "/items" => pages::items::one(name.parse().ok()?),
                "/status" => pages::requests::status(name.parse().ok()?),
                _ => None,
            };
        }
    };
    Some(response)
}
