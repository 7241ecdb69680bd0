//! The engine: takes calls, finds them a browser, and answers.
//!
//! A call is a task that the engine owns. Whoever asked only awaits it: they may cancel, or go away, and the task
//! still brings the browser to a state in which the next call works before it lets go of it.
//!
//! ```text
//!   call ──► known tool? ──► its turn ──► a live upstream ──► upstream call ──► answer
//! ```

mod call;
mod engine;
mod tools;

pub use call::{CallFailure, CallHandle, CallRequest};
pub use engine::{Engine, EngineConfig, Place};
pub use greenroom_upstream::instance::{State as InstanceState, Status, Unavailable};
pub use greenroom_upstream::rpc::{CallError, Progress};
pub use tools::{ToolEntry, ToolList};
