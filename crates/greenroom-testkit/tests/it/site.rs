//! The test site, over a plain connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use greenroom_testkit::{Headers, McpHttp, Site};

use crate::start::SOON;

/// The HTTP client inside the MCP client is good for any site.
struct Visitor(McpHttp);

impl Visitor {
    fn of(site: &Site) -> Self {
        Self(McpHttp::connect(&site.url("/")))
    }

    fn get(&mut self, path: &str) -> (u16, Headers, String) {
        self.send("GET", path, &[], b"")
    }

    fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (u16, Headers, String) {
        let (status, headers, body) = self.0.raw(method, path, headers, body);
        (status, headers, String::from_utf8_lossy(&body).into_owned())
    }
}

#[test]
fn every_page_that_the_index_leads_to_is_there() {
    let site = Site::start();
    let mut visitor = Visitor::of(&site);
    let (status, _, index) = visitor.get("/");
    assert_eq!(status, 200);
    let paths: Vec<_> = index
        .split("<li><a href=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap_or_default())
        .filter(|path| !path.starts_with("/slow") || *path == "/slow-resource")
        .collect();
    assert!(paths.len() > 20, "{paths:?}");
    for path in paths {
        let (status, _, page) = visitor.get(path);
        let expected = match path {
            "/status/404" => 404,
            "/private" | "/redirect?to=/static-text" => 302,
            _ => 200,
        };
        assert_eq!(status, expected, "{path}");
        let is_page = page.starts_with("<!doctype html>\n<html lang=\"en\">") && page.contains("<title>");
        assert!(is_page || matches!(path, "/healthz" | "/private"), "{path}: {page}");
    }
    assert_eq!(site.hits("/form"), 1);
    assert_eq!(site.hits("/redirect"), 1);
    assert_eq!(site.hits("/never"), 0);
}

#[test]
fn the_parts_that_other_pages_need_are_there() {
    let site = Site::start();
    let mut visitor = Visitor::of(&site);
    for path in ["/style.css", "/popup/child", "/iframe/inner", "/items/1", "/items/5000"] {
        assert_eq!(visitor.get(path).0, 200, "{path}");
    }
    for path in ["/items/0", "/items/5001", "/no-such-page", "/status/abc"] {
        let (status, _, page) = visitor.get(path);
        assert_eq!(status, 404, "{path}");
        assert!(page.contains("Page not found"));
    }
    assert_eq!(visitor.send("POST", "/links", &[], b"").0, 405);
    let (status, headers, body) = visitor.send("HEAD", "/links", &[], b"");
    assert_eq!((status, body.as_str()), (200, ""));
    assert_ne!(headers.get("Content-Length"), Some("0"));
}

#[test]
fn a_form_is_answered_with_what_was_sent_or_with_an_alert() {
    let site = Site::start();
    let mut visitor = Visitor::of(&site);
    let kind = ("Content-Type", "application/x-www-form-urlencoded");
    let good = b"name=Ada+%3CL%3E&email=ada%40example.com&colour=green";
    let (status, _, page) = visitor.send("POST", "/form", &[kind], good);
    assert_eq!(status, 200);
    assert!(page.contains("<dt>name</dt><dd>Ada &lt;L&gt;</dd>"), "{page}");
    assert!(page.contains("<dt>email</dt><dd>ada@example.com</dd>"), "{page}");
    let (status, _, page) = visitor.send("POST", "/form", &[kind], b"name=Ada&email=nowhere");
    assert_eq!(status, 422);
    assert!(page.contains("role=\"alert\""));
}

#[test]
fn an_upload_is_answered_with_name_and_size() {
    let site = Site::start();
    let body = b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"cat.png\"\r\n\
        Content-Type: image/png\r\n\r\n12345\r\n--B--\r\n";
    let kind = ("Content-Type", "multipart/form-data; boundary=B");
    let (status, _, page) = Visitor::of(&site).send("POST", "/upload", &[kind], body);
    assert_eq!(status, 200);
    assert!(page.contains("<strong>cat.png</strong>: 5 bytes"), "{page}");
}

#[test]
fn only_those_who_log_in_see_the_private_page() {
    let site = Site::start();
    let mut visitor = Visitor::of(&site);
    let (status, headers, _) = visitor.get("/private");
    assert_eq!((status, headers.get("Location")), (302, Some("/login")));
    let (status, _, page) = visitor.send("POST", "/login", &[], b"user=Ada&password=wrong");
    assert_eq!(status, 401);
    assert!(page.contains("role=\"alert\""));
    let (status, headers, _) = visitor.send("POST", "/login", &[], b"user=Ada&password=open-sesame");
    assert_eq!((status, headers.get("Location")), (303, Some("/private")));
    let cookie = headers.get("Set-Cookie").expect("a session");
    assert!(cookie.contains("HttpOnly"));
    let cookie = cookie.split(';').next().expect("a name and a value");
    let (status, _, page) = visitor.send("GET", "/private", &[("Cookie", cookie)], b"");
    assert_eq!(status, 200);
    assert!(page.contains("Signed in as <strong>Ada</strong>"));
}

#[test]
fn requests_are_shown_and_redirected() {
    let site = Site::start();
    let mut visitor = Visitor::of(&site);
    let (_, headers, page) = visitor.send("GET", "/cookies", &[("Cookie", "a=1; b=2")], b"");
    assert_eq!(headers.all("Set-Cookie").count(), 2);
    assert!(page.contains("<dt>b</dt><dd>2</dd>"));
    let (_, _, page) = visitor.send("GET", "/echo-headers", &[("X-Test", "<here>")], b"");
    assert!(page.contains("X-Test: &lt;here&gt;"), "{page}");
    let (status, headers, _) = visitor.get("/redirect?to=%2Fitems%2F7");
    assert_eq!((status, headers.get("Location")), (302, Some("/items/7")));
    assert_eq!(visitor.get("/status/503").0, 503);
    assert_eq!(visitor.get("/status/204").0, 204);
    let (_, headers, report) = visitor.get("/download/report.csv");
    assert!(headers.get("Content-Disposition").is_some_and(|value| value.starts_with("attachment")));
    assert!(report.starts_with("month,visitors,sales\n"));
}

#[test]
fn large_pages_have_the_size_they_promise() {
    let site = Site::start();
    let mut visitor = Visitor::of(&site);
    let (_, _, items) = visitor.get("/items");
    assert_eq!(items.matches("<button").count(), 5000);
    assert_eq!(items.matches("<h2>").count(), 5000);
    let (_, _, few) = visitor.get("/items?n=3");
    assert_eq!((few.matches("<h2>").count(), few.contains("<p>3 items.</p>")), (3, true));
    let (small, large) = (visitor.get("/big-text?kb=1").2.len(), visitor.get("/big-text?kb=301").2.len());
    assert_eq!(large - small, 300 * 1024);
}

#[test]
fn a_slow_page_withholds_its_headers() {
    let site = Site::start();
    let started = Instant::now();
    assert_eq!(Visitor::of(&site).get("/slow?ms=80").0, 200);
    assert!(started.elapsed() >= Duration::from_millis(80));
}

#[test]
fn a_slow_image_starts_at_once_and_ends_when_the_site_stops() {
    let site = Site::start();
    let mut connection = TcpStream::connect(("127.0.0.1", site.port())).unwrap();
    connection.set_read_timeout(Some(SOON)).unwrap();
    connection.write_all(b"GET /slow-resource/image HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut start = [0; 15];
    connection.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 200 OK");
    let stopped = Instant::now();
    drop(site);
    // What is left may come or be cut off; either way it does not take the ten seconds.
    let _ = connection.read_to_end(&mut Vec::new());
    assert!(stopped.elapsed() < Duration::from_secs(3));
}

#[test]
fn several_requests_share_a_connection() {
    let site = Site::start();
    let mut connection = TcpStream::connect(("127.0.0.1", site.port())).unwrap();
    let twice = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2);
    let last = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    connection.write_all((twice + last).as_bytes()).unwrap();
    let mut answers = String::new();
    connection.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 3);
    assert_eq!(answers.matches("\r\n\r\nok\n").count(), 3);
    assert_eq!(site.hits("/healthz"), 3);
}

#[test]
fn a_site_that_was_dropped_does_not_answer() {
    let site = Site::start();
    let url = site.url("/");
    drop(site);
    assert!(McpHttp::connect(&url).try_raw("GET", "/", &[], b"").is_err());
}
