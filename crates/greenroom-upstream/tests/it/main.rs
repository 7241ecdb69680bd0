//! Upstreams from the outside: the raw client on a scripted wire, over stdio and over HTTP; the installer on
//! machines made of stub programs; and the facts about the pinned browser server that the code relies on.

#![expect(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

mod browser_options;
mod devtools_contract;
mod host_contract;
mod http;
mod install;
mod instance;
mod live_contract;
mod room;
mod scripted_http;
mod stdio;
mod support;
mod wire;
mod wsl;
