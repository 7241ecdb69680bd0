//! Dying without a word on the protocol.

use std::io::{self, Write};

use super::options::Options;

/// The crash that the flags describe.
pub(super) fn scripted(options: &Options) -> ! {
    crash(options.exit_code.unwrap_or(1), options.stderr.as_deref())
}

/// Prints the last words, if any, and is gone.
#[expect(clippy::disallowed_methods, reason = "a crash is meant to skip everything that would clean up")]
pub(super) fn crash(code: i32, last_words: Option<&str>) -> ! {
    if let Some(words) = last_words {
        // Whether anyone hears them or not, the process ends.
        let _ = writeln!(io::stderr().lock(), "{words}");
    }
    std::process::exit(code)
}
