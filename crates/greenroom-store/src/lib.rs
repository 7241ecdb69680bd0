//! Greenroom's memory.

mod model;
mod reader;
mod store;

pub use greenroom_core::console::{ConsoleEntry, Level, Location};
pub use model::{
    Begun, BlobRef, Call, CallStatus, Cleaned, Cursor, Durability, Filter, Finished, Found, NewCall,
    NewSession, Retention, SessionRow, SessionState, Stats, StoreConfig, StoreError, StoreHealth,
};
pub use reader::Reader;
pub use store::{Store, vacuum};
