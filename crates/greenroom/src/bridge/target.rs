//! The server on the other side, and the ways to it.

use std::path::PathBuf;
use std::str::FromStr;

use greenroom_api::local::{self, ConnectError, Hello};
use greenroom_api::mcp::lines::{LineReader, Writer};

use super::http::Address;

/// The largest answer that is passed on. The server has a limit of its own, and it is not larger than this.
pub(super) const LONGEST_ANSWER: usize = 1100 * 1024 * 1024;

/// A server that can be connected to, again and again.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Socket(PathBuf),
    Http(Address),
}

/// One connection to it.
pub(crate) struct Link {
    pub(super) lines: LineReader,
    pub(super) writer: Writer,
    /// The longest line that the server takes.
    pub(super) max_line: usize,
}

impl Target {
    /// `max_line`: the longest line for a server that does not say its own limit.
    pub(crate) async fn connect(&self, hello: &Hello, max_line: usize) -> Result<Link, ConnectError> {
        match self {
            Self::Socket(path) => {
                let connection = local::connect(path, hello).await?;
                Ok(Link {
                    lines: connection.lines.with_limit(LONGEST_ANSWER),
                    writer: Box::pin(connection.writer),
                    max_line: connection.max_line,
                })
            }
            Self::Http(address) => address.connect(hello, max_line).await,
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("no path stands behind `unix:`".to_owned()),
            Some(path) => Ok(Self::Socket(PathBuf::from(path))),
            None => Address::parse(text).map(Self::Http).ok_or_else(|| {
                "give `unix:PATH`, the socket in the server's data folder, or `http://HOST:PORT`".to_owned()
            }),
        }
    }
}
