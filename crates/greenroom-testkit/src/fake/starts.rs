//! Failing on some starts and not on others.
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

/// Whether this process is to leave `initialize` without an answer. Of several that are started at once, one is.
pub(super) fn should_hang(options: &Options) -> bool {
    let is_first = |file| fs::OpenOptions::new().write(true).create_new(true).open(file).is_ok();
    options.hang_on_initialize || options.hang_once.as_ref().is_some_and(is_first)
}
