//! Where configuration lies on this machine.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use greenroom_core::config::{self, Config, Layer, Source};

use crate::cli::Cli;
use crate::exit::Exit;

/// Reads every source and lays them over one another: command line > environment > `.env` > file > built-in.
pub(crate) fn load(cli: &Cli) -> Result<Config> {
    let mut layers = Vec::new();
    match &cli.common.config {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("the configuration file {} cannot be read", path.display()))
                .context(Exit::Usage)?;
            layers.push(config::file_layer(Source::File { path: path.clone(), trusted: true }, &text));
        }
        None => {
            let own = config_folder().map(|folder| folder.join("greenroom.toml"));
            if let Some(path) = own {
                layers.extend(optional_file(&path, true)?);
            }
            layers.extend(optional_file(Path::new("greenroom.toml"), false)?);
        }
    }
    layers.extend(dot_env(Path::new(".env"))?);
    // What is not text is shown as well as it can be; as a value of ours it is a mistake and is reported as one.
    let environment = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
    layers.push(config::environment_layer(Source::Environment, environment));
    layers.push(cli.layer());
    config::load(layers).map_err(|mistakes| anyhow::Error::new(mistakes).context(Exit::Usage))
}

/// `None` when there is none. One that is there and cannot be read is a mistake: it was put there for a reason.
fn optional_file(path: &Path, trusted: bool) -> Result<Option<Layer>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(config::file_layer(Source::File { path: path.to_owned(), trusted }, &text))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error)
            .with_context(|| format!("the configuration file {} cannot be read", path.display()))
            .context(Exit::Usage),
    }
}

fn dot_env(path: &Path) -> Result<Option<Layer>> {
    let Ok(lines) = dotenvy::from_path_iter(path) else { return Ok(None) };
    let mut variables = Vec::new();
    for line in lines {
        match line {
            Ok(variable) => variables.push(variable),
            // The file usually belongs to somebody's project; only lines that are meant for us are our business.
            Err(dotenvy::Error::LineParse(line, _)) if config::is_ours(line.trim_start()) => {
                let problem =
                    format!("the line `{line}` of {} cannot be read; write NAME=value", path.display());
                return Err(anyhow::anyhow!(problem).context(Exit::Usage));
            }
            Err(_) => {}
        }
    }
    Ok(Some(config::environment_layer(Source::DotEnv { path: path.to_owned() }, variables)))
}

fn config_folder() -> Option<PathBuf> {
    let xdg = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    xdg.or_else(|| std::env::home_dir().map(|home| home.join(".config")))
        .map(|folder| folder.join("greenroom"))
}

/// The configured data folder, else the one of the platform's convention; absolute in any case.
pub(crate) fn data_dir(config: &Config) -> Result<PathBuf> {
    let xdg = || std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::home_dir().map(|home| home.join(".local/share"));
    let chosen = match &config.data_dir {
        Some(path) => path.clone(),
        None => xdg()
            .or_else(home)
            .map(|folder| folder.join("greenroom"))
            .context("no home folder is known; give a data folder with `--data-dir`")
            .context(Exit::Usage)?,
    };
    std::path::absolute(&chosen)
        .with_context(|| format!("the data folder {} is not a usable path", chosen.display()))
        .context(Exit::Usage)
}

/// Makes the data folder, for its owner only: cookies and the way into browsers lie in it. One that is there already is
/// left as it is, and one that cannot be made is reported by whoever needs it first.
pub(crate) fn make_data_dir(path: &Path) {
    if let Err(error) = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path) {
        tracing::debug!(%error, folder = %path.display(), "could not be made");
    }
}
