//! Everything below the engine: live connections to browser MCP servers, and the processes behind them.
//!
//! - [`rpc`] speaks MCP as a client, raw: result bytes are handed up exactly as they came.
//! - [`process`] starts children, keeps the end of what they print, and ends them.
//! - [`host`] is the tunnel into our Node script around `@playwright/mcp`.
//! - [`driver`] knows how to launch each kind of server and gives all of them one face, [`Upstream`].
//! - [`install`] fetches the pinned server and finds or fetches a browser.
//!
//! Nothing here knows of pools, sessions or HTTP servers of ours.

pub mod driver;
pub mod host;
pub mod install;
pub mod process;
pub mod rpc;

pub use driver::{Driver, LaunchError, Upstream};
