//! Greenroom's memory.

mod model;

pub use model::{
    Begun, BlobRef, Call, CallStatus, ConsoleEntry, Cursor, Durability, Filter, Finished, Found, Level,
    Location, NewCall, NewSession, Retention, SessionState, Stats, StoreConfig, StoreError, StoreHealth,
};
