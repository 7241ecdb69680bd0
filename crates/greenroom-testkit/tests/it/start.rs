//! Starting the fake server on stdio.

use std::process::Command;
use std::time::Duration;

use greenroom_testkit::{McpStdio, fake_upstream};

/// Long enough for a machine that does other things too; no passing test waits for it.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// Long enough to see that something does not come.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(150);

pub(crate) fn fake(flags: &[&str]) -> McpStdio {
    let mut command = Command::new(fake_upstream());
    command.args(flags);
    McpStdio::spawn(command)
}

pub(crate) fn initialized(flags: &[&str]) -> McpStdio {
    let mut fake = fake(flags);
    fake.initialize();
    fake
}
