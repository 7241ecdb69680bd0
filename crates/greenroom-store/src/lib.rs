//! Greenroom's memory.

mod model;

pub use greenroom_core::console::{ConsoleEntry, Level, Location};
pub use model::{
    Begun, BlobRef, Call, CallStatus, Cursor, Durability, Filter, Finished, Found, NewCall, NewSession,
    Retention, SessionState, Stats, StoreConfig, StoreError, StoreHealth,
};
