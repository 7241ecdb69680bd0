//! A raw MCP client.
//!
//! One [`Peer`] is one connection. It numbers requests, keeps those that wait in a map, and hands each answer to
//! whoever asked, as the bytes that came. How messages travel is the transport's business: it gives the peer an
//! [`Outgoing`] to send through and feeds it what arrives.
//!
//! ```text
//!   request ──► Peer ──► Outgoing ──► pipe / tunnel / POST
//!   answer  ◄── Peer ◄── reader loop ◄─────────┘
//! ```
//!
//! The reader never waits for a consumer: answers go through one-shot channels and progress through bounded ones
//! that drop what does not fit. So one caller who is slow, or gone, cannot hold up another.

mod http;
mod line;
mod message;
mod peer;
mod sse;

pub use http::connect_http;
pub use line::connect_lines;
pub use peer::{CallError, Ended, Notice, Outgoing, Peer, Pending, Progress, ServerInfo, WeakPeer};
pub use sse::{Event, EventReader};
