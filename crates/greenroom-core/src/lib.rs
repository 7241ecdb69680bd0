//! Greenroom's pure logic. Nothing here does I/O, spawns a task or reads a clock: what the outside says is
//! passed in, and what should happen is returned. That is what makes it cheap to test from every side.

pub mod attach;
pub mod config;
pub mod console;
mod id_scanner;
pub mod ids;
pub mod lease;
pub mod percent;
pub mod snapshot;
pub mod supervision;
pub mod target;
pub mod text;

pub use id_scanner::IdScanner;
