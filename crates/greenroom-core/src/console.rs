//! What a page writes to its console.

use std::fmt;
use std::time::SystemTime;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    pub const ALL: [Self; 4] = [Self::Debug, Self::Info, Self::Warn, Self::Error];

    pub fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleEntry {
    pub level: Level,
    pub message: String,
    pub at: Option<SystemTime>,
    pub location: Option<Location>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub url: String,
    pub line: Option<u32>,
    pub column: Option<u32>,
}

/// One entry for a person or an agent to read.
impl fmt::Display for ConsoleEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.level.name().to_uppercase(), self.message)?;
        if let Some(Location { url, line, column }) = &self.location {
            write!(f, " @ {url}")?;
            for number in [line, column].into_iter().flatten() {
                write!(f, ":{number}")?;
            }
        }
        Ok(())
    }
}
