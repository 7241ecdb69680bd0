//! Everything below the engine: live connections to browser MCP servers, and the processes behind them.
//!
//! - [`rpc`] speaks MCP as a client, raw: result bytes are handed up exactly as they came.
//! - [`process`] starts children, keeps the end of what they print, and ends them.
//! - [`host`] is the tunnel into our Node script around `@playwright/mcp`.
//! - [`driver`] knows how to launch each kind of server and gives all of them one face, [`Upstream`].
//! - [`live`] is what a browser in our host offers beside MCP: its pages' state, pictures and input.
//! - [`instance`] keeps one upstream alive: health, restarts, and when to give up.
//! - [`run_folder`] is how nothing stays behind, whatever kills us.
//! - [`install`] fetches the pinned server and finds or fetches a browser.
//!
//! Nothing here knows of pools, sessions or HTTP servers of ours.

mod clock;
pub mod driver;
pub mod host;
pub mod install;
pub mod instance;
pub mod live;
pub mod process;
pub mod rpc;
pub mod run_folder;

pub use driver::{Driver, LaunchError, Upstream};
pub use instance::Instance;
pub use run_folder::Run;
