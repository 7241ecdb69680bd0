//! What became of one part of a benchmark.

use anyhow::Result;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome<T> {
    Ran(T),
    NotRun { reason: String },
}

impl<T> Outcome<T> {
    pub(crate) fn new(outcome: Result<T>) -> Self {
        match outcome {
            Ok(figures) => Self::Ran(figures),
            Err(error) => Self::NotRun { reason: format!("{error:#}") },
        }
    }

    /// Figures of a part, which may have come to nothing.
    pub(crate) fn of<F>(outcome: Result<F>, figures: impl FnOnce(&F) -> Option<T>) -> Self {
        let nothing = || anyhow::anyhow!("no calls were made");
        Self::new(outcome.and_then(|measured| figures(&measured).ok_or_else(nothing)))
    }

    pub(crate) fn ran(&self) -> Option<&T> {
        match self {
            Self::Ran(figures) => Some(figures),
            Self::NotRun { .. } => None,
        }
    }
}
