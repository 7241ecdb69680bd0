//! Greenroom's memory.

mod model;
mod reader;
mod store;

pub use model::{
    Begun, BlobRef, Call, CallStatus, Cleaned, ConsoleEntry, Cursor, Durability, Filter, Finished, Found,
    Level, Location, NewCall, NewSession, Retention, SessionRow, SessionState, Stats, StoreConfig,
    StoreError, StoreHealth,
};
pub use reader::Reader;
pub use store::{Store, vacuum};
