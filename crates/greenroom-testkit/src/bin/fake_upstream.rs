//! The fake MCP server as a program; all of it is in the library, see `greenroom_testkit::fake`.

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    greenroom_testkit::fake::run(env::args().skip(1))
}
