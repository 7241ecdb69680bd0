//! The little of HTTP/1.1 that the fake server, the test site and the HTTP client share.
//!
//! Written out by hand and not taken from a crate, so that tests decide every byte: headers that come late,
//! bodies that stop half-way, streams that stay open.

mod body;
mod headers;
mod reply;
mod request;
mod response;
mod server;

pub use headers::Headers;

pub(crate) use body::{BodyReader, Framing};
pub(crate) use headers::read_line;
pub(crate) use reply::{ChunkedWriter, Reply};
pub(crate) use request::Request;
pub(crate) use response::{Response, reason};
pub(crate) use server::Server;
