//! Greenroom's memory: every call with its answer, for as long as retention lets it stay.
//!
//! ```text
//!   Store ──queue──► one writer thread ──one commit for many──► greenroom.db ◄── Readers, beside it
//!     └── put_blob ──► blobs/sha256/ab/…
//! ```
//!
//! What was awaited is committed. Two Greenrooms may use one folder. A disk that is full or gone costs records, never
//! calls: writes fail, are counted, and work again when the disk does.

mod blobs;
mod clean;
mod database;
mod model;
mod reader;
mod records;
mod store;
mod words;
mod writer;

pub use greenroom_core::console::{ConsoleEntry, Level, Location};
pub use model::{
    Begun, BlobRef, Call, CallStatus, Cleaned, Cursor, Durability, Filter, Finished, Found, NewCall,
    NewSession, Retention, SessionRow, SessionState, Stats, StoreConfig, StoreError, StoreHealth,
};
pub use reader::Reader;
pub use store::{Store, vacuum};
