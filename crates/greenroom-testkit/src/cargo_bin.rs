//! Binaries of this workspace, built when a test first asks for them.
//!
//! Cargo hands a test the binaries of its own package only. The gateway's tests need the fake server of this
//! package, and the benchmarks need the gateway, so they are built on demand, into the target folder and the
//! profile the running test was built with.

use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};

use crate::lock::lock;

type Built = HashMap<(String, String), PathBuf>;

/// The path of the binary `bin` of the workspace's package `package`, built by the first call of a process.
///
/// # Panics
///
/// When cargo cannot build it, with what cargo said.
#[must_use]
pub fn cargo_bin(package: &str, bin: &str) -> PathBuf {
    static BUILT: OnceLock<Mutex<Built>> = OnceLock::new();
    // Held while building: a second test that wants the same binary waits for it instead of building it too.
    let mut built = lock(BUILT.get_or_init(Mutex::default));
    built.entry((package.to_owned(), bin.to_owned())).or_insert_with(|| build(package, bin)).clone()
}

/// The path of the fake MCP server, see [`crate::fake`].
#[must_use]
pub fn fake_upstream() -> PathBuf {
    cargo_bin("greenroom-testkit", "fake-upstream")
}

fn build(package: &str, bin: &str) -> PathBuf {
    let target = target_dir();
    let release = !cfg!(debug_assertions);
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    // What describes the package under test would be taken for a change by build scripts, and they would run anew.
    let about_us = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(about_us)) {
        command.env_remove(name);
    }
    command.args(["build", "--quiet", "--package", package, "--bin", bin, "--target-dir"]).arg(&target);
    if release {
        command.arg("--release");
    }
    let output = command
        .current_dir(workspace_root())
        .stdin(Stdio::null())
        .output()
        .expect("cargo is there, as it started this test");
    assert!(
        output.status.success(),
        "cargo could not build {bin} of {package} ({}):\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let profile = if release { "release" } else { "debug" };
    target.join(profile).join(format!("{bin}{}", env::consts::EXE_SUFFIX))
}

/// The folder above the profile's folder, which is the one with a `deps` folder in it.
fn target_dir() -> PathBuf {
    let running = env::current_exe().expect("a running test knows its own path");
    let profile = running
        .ancestors()
        .skip(1)
        .find(|folder| folder.join("deps").is_dir())
        .unwrap_or_else(|| panic!("{} is not inside a cargo target folder", running.display()));
    profile.parent().expect("a profile folder lies inside a target folder").to_owned()
}

fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this package lies two folders below the workspace root")
}
