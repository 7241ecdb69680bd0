//! Programs that are started for a person and then left alone.

use std::process::Stdio;

use tokio::process::Command;

/// Starts a program that outlives us, whatever becomes of us. It is run as it is, without a shell.
///
/// # Errors
/// When there is no such program, or it may not be run.
pub fn start_detached(words: &[String]) -> std::io::Result<u32> {
    let (program, arguments) =
        words.split_first().ok_or_else(|| std::io::Error::other("the command names no program"))?;
    let mut child = Command::new(program)
        .args(arguments)
        // What a terminal sends to us is not meant for it.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(false)
        .spawn()?;
    let pid = child.id().unwrap_or_default();
    // Somebody has to hear of its end, as long as we are there.
    tokio::spawn(async move {
        let ended = child.wait().await;
        tracing::debug!(pid, ?ended, "a browser that a start command started has gone");
    });
    Ok(pid)
}
