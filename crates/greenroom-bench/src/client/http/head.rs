//! The head of a response: the little of it that matters here.

use anyhow::{Context, Result};

use super::body::Framing;

#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) framing: Framing,
    pub(super) is_event_stream: bool,
    pub(super) keeps_connection: bool,
    pub(super) session: Option<String>,
}

impl Head {
    /// Reads everything up to the empty line.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).context("the response's head is not text")?;
        let mut lines = text.split("\r\n");
        let status: u16 = lines
            .next()
            .and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok())
            .with_context(|| format!("not a response of HTTP/1.1: {text:?}"))?;
        let bodiless = status == 204 || status == 304;
        let mut head = Self {
            status,
            framing: if bodiless { Framing::length(0) } else { Framing::ToClose },
            is_event_stream: false,
            keeps_connection: true,
            session: None,
        };
        for line in lines {
            let Some((name, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                head.framing = Framing::length(value.parse().context("Content-Length is not a number")?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") && value.eq_ignore_ascii_case("chunked")
            {
                head.framing = Framing::chunked();
            } else if name.eq_ignore_ascii_case("content-type") {
                head.is_event_stream = value.starts_with("text/event-stream");
            } else if name.eq_ignore_ascii_case("connection") {
                head.keeps_connection = !value.eq_ignore_ascii_case("close");
            } else if name.eq_ignore_ascii_case("mcp-session-id") {
                head.session = Some(value.to_owned());
            }
        }
        head.keeps_connection &= !matches!(head.framing, Framing::ToClose);
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_matters_in_whatever_case() {
        let head = Head::parse(
            b"HTTP/1.1 200 OK\r\nmcp-session-id: abc\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
              Transfer-Encoding: chunked\r\nConnection: keep-alive",
        )
        .unwrap();
        assert_eq!(head.status, 200);
        assert_eq!(head.session.as_deref(), Some("abc"));
        assert!(head.is_event_stream && head.keeps_connection);
        assert!(matches!(head.framing, Framing::Chunked(_)));
    }

    #[test]
    fn a_body_without_a_length_lasts_as_long_as_the_connection() {
        let head = Head::parse(b"HTTP/1.1 200 OK").unwrap();
        assert!(matches!(head.framing, Framing::ToClose) && !head.keeps_connection);
        assert!(
            !Head::parse(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close")
                .unwrap()
                .keeps_connection
        );
        assert!(Head::parse(b"SMTP").is_err());
    }
}
