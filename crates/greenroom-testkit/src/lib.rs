//! What Greenroom's tests and benchmarks stand on.
//!
//! * [`fake`]: an MCP server, built as the binary `fake-upstream`, that misbehaves on request. It stands in
//!   for a browser server wherever a test needs a fault at a chosen moment.
//! * [`Site`]: a small web site, also built as the binary `test-site`, for a real browser to visit.
//! * [`McpStdio`] and [`McpHttp`]: plain clients that show the messages as they are on the wire, so that a
//!   test sees what an agent would see and not what a library made of it.
//! * [`EventSource`]: a reader of server-sent events.
//! * [`Wire`]: a connection that can be cut and mended.
//! * [`processes`]: what the kernel says about a process, to check that nothing is left behind.
//!
//! Everything here uses threads and the standard library only: a kit that shared its machinery with the
//! gateway would share its mistakes too.

pub mod fake;
pub mod processes;

mod cargo_bin;
mod fake_http;
mod http1;
mod latch;
mod lock;
mod mcp_http;
mod mcp_stdio;
mod site;
mod wait;
mod wire;

pub use cargo_bin::{cargo_bin, fake_upstream};
pub use fake_http::FakeHttp;
pub use http1::Headers;
pub use mcp_http::{EventSource, McpHttp, McpHttpStream, OpenCall, ServerEvent};
pub use mcp_stdio::McpStdio;
pub use processes::{
    Holdings, children_of, fd_count, process_alive, pss_kb, rss_kb, send_signal, thread_count,
};
pub use site::Site;
pub use wait::wait_until;
pub use wire::Wire;
