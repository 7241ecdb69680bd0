//! Exit codes, and the last words of a process that failed.

use std::fmt;
use std::process::ExitCode;

/// Why the process ends with something else than 0. Attached to an error as its outermost context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Usage,
    Install,
    Listen,
    Connect,
    Interrupted,
}

impl Exit {
    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage => 2,
            Self::Install => 3,
            Self::Listen | Self::Connect => 4,
            Self::Interrupted => 130,
        })
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Usage => "greenroom cannot start",
            Self::Install => "greenroom cannot install what it needs",
            Self::Listen => "greenroom cannot listen",
            Self::Connect => "greenroom cannot use the server it was told to",
            Self::Interrupted => "interrupted",
        })
    }
}

impl std::error::Error for Exit {}

/// Tells a person, and gives the code.
#[expect(clippy::print_stderr, reason = "the process ends here, and logging may not have begun")]
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let exit = error.downcast_ref::<Exit>().copied();
    let mut causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    // An error that shows its source's message as its own would say it twice.
    causes.dedup();
    eprintln!("error: {}", causes.join(": "));
    exit.map_or(ExitCode::FAILURE, Exit::code)
}
