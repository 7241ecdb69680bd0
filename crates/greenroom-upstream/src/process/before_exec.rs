//! What a child does to itself between fork and exec. The only unsafe code of the project is here.

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use tokio::process::Command;

/// The kernel kills the child when the thread that started it ends. The spawning thread ends with the process,
/// so this is the first of two nets: it holds even when nobody is left to clean up.
#[expect(
    unsafe_code,
    reason = "pre_exec runs in the forked child, and so has to be promised what it does there"
)]
pub(super) fn die_with_us(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. This is one system call; it takes no
    // lock and allocates nothing.
    unsafe {
        command.pre_exec(|| set_pdeathsig(Signal::SIGKILL).map_err(std::io::Error::from));
    }
}
