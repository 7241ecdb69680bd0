//! Ctrl-C and SIGTERM.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGXFSZ, which has this number on every Linux but MIPS.
const FILE_TOO_LARGE: std::ffi::c_int = 25;

pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Self> {
        // A file that may not become longer is an error like a full disk, and no reason to die. Once a signal is
        // listened to, it does nothing else, whether or not anybody hears it.
        drop(signal(SignalKind::from_raw(FILE_TOO_LARGE))?);
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Returns at the next one, with its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
