//! The ways in. This crate decodes what arrives, hands it to the engine and encodes what comes back; it knows
//! MCP and HTTP, and nothing of browsers.

pub mod http;
pub mod local;
pub mod mcp;
