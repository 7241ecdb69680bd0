//! Crashing on some starts and not on others.
//!
//! A process remembers nothing of its predecessors, so the count of starts is kept in a file.

use std::fs;

use super::options::Options;

/// Whether this start is one that the flags want to fail. Counts the start where they count.
pub(super) fn should_crash(options: &Options) -> bool {
    let Some((crashes, file)) = &options.crash_first else { return options.crash_on_start };
    // A missing file, or one that a test made empty, means that nothing has been started yet.
    let before: u64 = fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    fs::write(file, format!("{}\n", before + 1)).expect("the test names a file that can be written");
    options.crash_on_start || before < *crashes
}
