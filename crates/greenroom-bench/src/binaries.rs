//! The programs that are measured, built as they are shipped.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

pub(crate) struct Binaries {
    pub(crate) greenroom: PathBuf,
    pub(crate) fake_upstream: PathBuf,
    /// Cargo's target folder, for what is worth keeping between runs.
    pub(crate) target: PathBuf,
}

impl Binaries {
    /// Builds them in release, whatever this program was built in, beside the running executable.
    pub(crate) fn build() -> Result<Self> {
        let running = env::current_exe().context("a running program knows its own path")?;
        let target = running
            .ancestors()
            .skip(1)
            .find(|folder| folder.join("deps").is_dir())
            .and_then(Path::parent)
            .with_context(|| format!("{} is not inside a cargo target folder", running.display()))?
            .to_owned();
        let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(cargo);
        // What `cargo run` says about this package is not for the build of others: some build scripts would take it
        // for a change, and be built anew each time.
        let about_us = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(about_us)) {
            command.env_remove(name);
        }
        let status = command
            .args(["build", "--release", "-p", "greenroom", "-p", "greenroom-testkit", "--bins"])
            .arg("--target-dir")
            .arg(&target)
            .current_dir(workspace_root()?)
            .stdin(Stdio::null())
            .status()
            .context("cargo could not be started")?;
        ensure!(status.success(), "cargo could not build what is to be measured ({status})");
        let bin = |name: &str| target.join("release").join(format!("{name}{}", env::consts::EXE_SUFFIX));
        Ok(Self { greenroom: bin("greenroom"), fake_upstream: bin("fake-upstream"), target })
    }
}

fn workspace_root() -> Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("this package has left its workspace")
}
