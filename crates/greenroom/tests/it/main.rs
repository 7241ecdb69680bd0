//! Greenroom from the outside: the real binary, over every way in.

#![expect(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

mod attached;
mod bridge;
mod browser;
mod browser_pools;
mod browser_sessions_http;
mod calls_http;
mod cli;
mod devtools;
mod history;
mod history_cli;
mod http;
mod live_http;
mod pass_through;
mod pools;
mod rig;
mod sessions;
mod stdio;
mod supervision;
mod tools_page;
mod ui;
mod web_page;
