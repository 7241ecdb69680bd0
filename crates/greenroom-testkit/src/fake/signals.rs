//! Turning a deaf ear to SIGTERM.
//!
//! The standard library cannot change what a signal does, and one call does not justify a crate.
#![expect(unsafe_code, reason = "signal(2) has no safe wrapper in the standard library")]

const SIGTERM: i32 = 15;
const SIG_IGN: usize = 1;

unsafe extern "C" {
    fn signal(signum: i32, handler: usize) -> usize;
}

/// From here on SIGTERM does nothing, to this process and to the ones it starts: they inherit it.
pub(super) fn ignore_sigterm() {
    // SAFETY: ignoring a signal installs no handler, so no code of ours ever runs inside one.
    unsafe {
        signal(SIGTERM, SIG_IGN);
    }
}
