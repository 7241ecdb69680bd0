//! The web page and its files, and what pages of other origins may do.

use greenroom_testkit::Headers;
use serde_json::Value;

use crate::rig::Server;

fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> (u16, Headers, Vec<u8>) {
    server.client().raw("GET", path, headers, b"")
}

#[test]
fn every_view_is_the_same_document_with_its_policy() {
    let server = Server::fake("", &[]);
    let (_, _, document) = get(&server, "/", &[]);
    for path in ["/", "/sessions/a%2Fb", "/calls/0c9d7f6e-5a4b-4c3d-9e2f-1a0b9c8d7e6f", "/history"] {
        let (status, headers, body) = get(&server, path, &[]);
        assert_eq!(status, 200, "{path}");
        assert_eq!(body, document, "{path}");
        for (name, value) in [
            ("Content-Type", "text/html; charset=utf-8"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-cache"),
            (
                "Content-Security-Policy",
                "default-src 'self'; img-src 'self' blob: data:; style-src 'self' 'unsafe-inline'; \
                 connect-src 'self' ws: wss:; frame-ancestors 'none'; base-uri 'none'",
            ),
        ] {
            assert_eq!(headers.get(name), Some(value), "{path}: {name}");
        }
    }
    let (status, _, body) = server.client().raw("POST", "/", &[], b"");
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, body["error"].as_str()), (405, Some("method_not_allowed")));
}

#[test]
fn a_file_is_sent_again_only_when_it_has_changed() {
    let server = Server::fake("", &[]);
    let (status, headers, body) = get(&server, "/ui/app.js", &[]);
    assert_eq!((status, headers.get("Content-Type")), (200, Some("text/javascript; charset=utf-8")));
    assert_eq!(headers.get("Cache-Control"), Some("no-cache"));
    assert_eq!(headers.get("X-Content-Type-Options"), Some("nosniff"));
    assert!(!body.is_empty());
    let tag = headers.get("ETag").unwrap().to_owned();
    let (status, headers, body) = get(&server, "/ui/app.js", &[("If-None-Match", &tag)]);
    assert_eq!((status, headers.get("ETag"), body.len()), (304, Some(tag.as_str()), 0));
    for path in ["/ui/nothing.js", "/ui/", "/ui/%2e%2e/Cargo.toml", "/ui/tsconfig.json", "/ui/index.html"] {
        assert_eq!(get(&server, path, &[]).0, 404, "{path}");
    }
}

#[test]
fn pages_of_other_origins_may_ask_once_they_are_named() {
    const CHAT: &str = "https://chat.example.com";
    let server = Server::fake("", &[("GREENROOM_CORS_ORIGINS", CHAT)]);
    let from = |origin: &'static str| ("Origin", origin);
    for path in ["/api/browser-sessions", "/ui/app.js", "/api/pools"] {
        let (status, headers, _) = get(&server, path, &[from(CHAT)]);
        assert_eq!((status, headers.get("Access-Control-Allow-Origin")), (200, Some(CHAT)), "{path}");
        assert!(headers.all("Vary").any(|value| value.eq_ignore_ascii_case("origin")), "{path}");
        let (status, headers, _) = get(&server, path, &[from("https://evil.example.com")]);
        assert_eq!((status, headers.get("Access-Control-Allow-Origin")), (403, None), "{path}");
        let (status, headers, _) = get(&server, path, &[]);
        assert_eq!((status, headers.get("Access-Control-Allow-Origin")), (200, None), "{path}");
    }
    let ask = |origin| {
        let headers = [
            from(origin),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "content-type"),
        ];
        server.client().raw("OPTIONS", "/api/browser-sessions", &headers, b"")
    };
    let (status, headers, _) = ask(CHAT);
    assert_eq!((status, headers.get("Access-Control-Allow-Origin")), (204, Some(CHAT)));
    for (name, words) in [
        ("Access-Control-Allow-Methods", ["GET", "POST", "DELETE"]),
        ("Access-Control-Allow-Headers", ["authorization", "content-type", "last-event-id"]),
    ] {
        let listed: Vec<_> = headers.get(name).unwrap().split(',').map(str::trim).collect();
        assert_eq!(listed, words, "{name}");
    }
    assert_eq!(ask("https://evil.example.com").0, 403);
    // An error can be read, too.
    let (status, headers, _) = get(&server, "/api/browser-sessions/nobody", &[from(CHAT)]);
    assert_eq!((status, headers.get("Access-Control-Allow-Origin")), (404, Some(CHAT)));
}
