//! An MCP server that stands in for a browser server and fails when told to.
//!
//! It speaks the protocol's revisions up to 2025-11-25 over stdio, or over Streamable HTTP with `--http`. Its
//! tools cover what a gateway must carry unharmed (odd content, large results, progress) and what it must
//! survive (crashes, silence, malformed lines). Faults that no tool can cause, because they come before or
//! between calls, are scripted by flags; see [`USAGE`].
//!
//! How a message travels: a transport (`stdio`, `http`) parses it and hands it to `Fake::receive`,
//! which either has the answer at once or returns work to be done later. The stdio transport answers the
//! first kind on its reading thread, which makes the fake quick enough to measure a gateway against, and
//! gives the second kind a thread.

mod args;
mod asking;
mod base64;
mod catalog;
mod child;
mod crash;
mod envelope;
mod http;
mod ledger;
mod options;
mod outlet;
mod peer;
mod protocol;
mod reply;
mod signals;
mod starts;
mod stdio;
mod tool;
mod tools;
mod turn;

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use options::Options;
use protocol::Fake;

pub use options::USAGE;

/// Runs the server until its client is done with it: the whole of `fake-upstream`.
///
/// Faults may also come from the environment variable `FAKE_UPSTREAM_FAULTS`, for where the command line is
/// not the test's to choose.
pub fn run(args: impl Iterator<Item = String>) -> ExitCode {
    let inherited = env::var(options::FAULTS_VARIABLE).unwrap_or_default();
    let words = inherited.split_ascii_whitespace().map(str::to_owned).chain(args);
    let options = match Options::parse(words) {
        Ok(options) => options,
        Err(complaint) => {
            // With stderr gone there is no one to complain to.
            let _ = writeln!(io::stderr().lock(), "fake-upstream: {complaint}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if options.just_sleep {
        child::sleep();
        return ExitCode::SUCCESS;
    }
    if options.ignore_sigterm {
        signals::ignore_sigterm();
    }
    if starts::should_crash(&options) {
        crash::scripted(&options);
    }
    let child = options.spawn_child.then(child::spawn);
    let over_http = options.http;
    let fake = Arc::new(Fake::new(options, child));
    let outcome = if over_http { http::serve(&fake) } else { stdio::serve(&fake) };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr().lock(), "fake-upstream: {error}");
            ExitCode::FAILURE
        }
    }
}
