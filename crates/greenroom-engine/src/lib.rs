//! The engine: takes calls, finds them a browser, and answers.
//!
//! A call is a task that the engine owns. Whoever asked only awaits it: they may cancel, or go away, and the task
//! still brings the browser to a state in which the next call works before it lets go of it.
//!
//! ```text
//!   call ──► pool ──► its turn: a lease ──► a live upstream ──► upstream call ──► answer
//! ```

mod arrival;
mod assembly;
mod browsers;
mod bulk;
mod call;
mod capture;
mod engine;
mod events;
mod fleet;
mod history;
mod live;
mod note;
mod own;
mod perform;
mod pool;
mod reading;
mod reply;
mod running;
mod service;
mod session_files;
mod sessions;
mod status;
mod tools;
mod uploads;

pub use arrival::Place;
pub use browsers::{AttachFactory, BrowserReport};
pub use call::{Bound, CallFailure, CallHandle, CallRequest, FailureKind, Origin, Outcome, Served};
pub use engine::{Engine, EngineConfig, file_uri};
pub use events::{CallEvent, Event, EventStream};
pub use fleet::Wishes;
pub use greenroom_store::{Call, CallStatus};
pub use greenroom_upstream::instance::Unavailable;
pub use greenroom_upstream::live::{
    Button, Dialog, ImageFormat, Input, Modifier, Scale, ScreenshotOptions, Tab,
};
pub use greenroom_upstream::rpc::{CallError, Progress};
pub use history::RESULT_FILE;
pub use live::cast::Picture;
pub use live::person::{Action, Badge, Person};
pub use live::viewer::{Sight, ViewOptions, Viewer};
pub use live::{Conversation, Pictures, SessionStatus, SessionView};
pub use pool::{DriverFactory, Scaled};
pub use reading::{
    Blob, ConsoleArguments, Content, ContentArguments, Desk, Format, ListArguments, Part, ReadFailure,
    describe, describe_briefly, parse_ref, result_text, status_word,
};
pub use service::{Opening, SessionRequest};
pub use session_files::SessionFile;
pub use sessions::{Caller, SessionReport};
pub use status::{Health, HealthCheck, HistoryReport, InstanceReport, PoolReport, StatusReport, Summary};
pub use tools::{ToolEntry, ToolList};
