//! The web page: one document for every view, and the files that it consists of, all inside the binary.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rust_embed::{Embed, EmbeddedFile};

use super::blobs::is_known;
use super::not_found;
use super::openapi::Api;

/// The files as they were at build time. What only helps those who write them stays outside.
#[derive(Embed)]
#[folder = "ui"]
#[exclude = "*.d.ts"]
#[exclude = "*tsconfig.json"]
#[exclude = "*.md"]
struct Files;

/// Nothing but our own files, pictures that came over a connection, and connections to this server or another Greenroom.
const POLICY: &str = "default-src 'self'; img-src 'self' blob: data:; style-src 'self' 'unsafe-inline'; \
                      connect-src 'self' ws: wss:; frame-ancestors 'none'; base-uri 'none'";

/// The page finds out by its address which view it is to show.
pub(super) fn routes(router: Router<Api>) -> Router<Api> {
    let view = |headers: HeaderMap| page("index.html", headers);
    router
        .route("/", get(view))
        .route("/sessions/{id}", get(view))
        .route("/calls/{ref_id}", get(view))
        .route("/history", get(view))
        .route("/demo", get(|headers: HeaderMap| page("demo.html", headers)))
        .route("/ui/{*path}", get(asset))
}

async fn page(name: &str, headers: HeaderMap) -> Response {
    let Some(file) = Files::get(name) else { return not_found().await };
    let mut response = answer(name, file, &headers);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

async fn asset(path: Result<Path<String>, PathRejection>, headers: HeaderMap) -> Response {
    let Ok(Path(path)) = path else { return not_found().await };
    // Documents have addresses of their own, where they come with their policy.
    match Files::get(&path).filter(|_| !path.ends_with(".html")) {
        Some(file) => answer(&path, file, &headers),
        None => not_found().await,
    }
}

/// A browser asks every time and mostly hears that nothing has changed, so a new server is never seen with an old page.
fn answer(name: &str, file: EmbeddedFile, asked: &HeaderMap) -> Response {
    let digest: String = file.metadata.sha256_hash()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{digest}\"");
    let mut response = if is_known(asked, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let bytes = match file.data {
            std::borrow::Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            std::borrow::Cow::Owned(bytes) => Bytes::from(bytes),
        };
        Body::from(bytes).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type(name)));
    headers.insert(ETAG, HeaderValue::from_str(&tag).expect("it is hexadecimal"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("json" | "map") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::{Files, content_type};

    #[test]
    fn every_file_has_a_type_and_none_is_for_those_who_write_them() {
        assert!(Files::get("index.html").is_some());
        for name in Files::iter() {
            assert_ne!(content_type(&name), "application/octet-stream", "{name}");
            assert!(!name.ends_with(".d.ts") && !name.ends_with("tsconfig.json"), "{name}");
        }
    }
}
