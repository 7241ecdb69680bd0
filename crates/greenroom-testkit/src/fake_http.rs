//! A fake server that is already up, on HTTP, for tests that connect to one they did not start.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::cargo_bin::fake_upstream;

/// A running `fake-upstream --http`. Dropping it kills it.
pub struct FakeHttp {
    child: Child,
    url: String,
}

impl FakeHttp {
    /// Starts the fake server with `--http` and these flags, and waits until it listens.
    ///
    /// # Panics
    ///
    /// When it ends before it listens.
    #[must_use]
    pub fn start(flags: &[&str]) -> Self {
        let mut child = Command::new(fake_upstream())
            .arg("--http")
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the fake server was just built");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout was piped above");
        BufReader::new(stdout).read_line(&mut line).expect("the fake server prints text");
        let Some(url) = line.trim_end().strip_prefix("Listening on ") else {
            panic!("the fake server did not start to listen but said: {line:?}");
        };
        Self { url: url.to_owned(), child }
    }

    /// The URL of its MCP endpoint.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for FakeHttp {
    fn drop(&mut self) {
        // Both fail only where it has been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
