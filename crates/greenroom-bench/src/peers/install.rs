//! Installing a peer from its registry, into a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::Command;
use tokio::time::timeout;

use super::{Package, Registry};

const LIMIT: Duration = Duration::from_secs(300);

impl Package {
    /// The program of this package, installed now if it was not before.
    pub(super) async fn install(&self, cache: &Path) -> Result<PathBuf> {
        let Self { registry, name, version } = self;
        let (prefix, program) = match registry {
            Registry::Npm => ("npm", Path::new("node_modules/.bin").join(name)),
            Registry::PyPi => ("pypi", Path::new("bin").join(name)),
        };
        let folder = cache.join(format!("{prefix}-{name}-{version}"));
        let program = folder.join(program);
        // Written last, so that an installation that was cut short is done again.
        let done = folder.join("installed");
        if done.exists() {
            return Ok(program);
        }
        fs::create_dir_all(&folder)?;
        match registry {
            Registry::Npm => {
                let mut npm = Command::new("npm");
                npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(&folder);
                run(npm.arg(format!("{name}@{version}"))).await?;
            }
            Registry::PyPi => {
                run(Command::new("python3").args(["-m", "venv"]).arg(&folder)).await?;
                let mut pip = Command::new(folder.join("bin/pip"));
                run(pip.args(["install", "--quiet"]).arg(format!("{name}=={version}"))).await?;
            }
        }
        fs::write(done, "")?;
        Ok(program)
    }
}

async fn run(command: &mut Command) -> Result<()> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(LIMIT, command.output())
        .await
        .with_context(|| format!("{program} took longer than {} s", LIMIT.as_secs()))?
        .with_context(|| format!("{program} cannot be started"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<_> = said.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
        bail!(
            "{program} failed ({}): {}",
            output.status,
            last.into_iter().rev().collect::<Vec<_>>().join(" | ")
        );
    }
    Ok(())
}
