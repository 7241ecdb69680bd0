//! The parts put together: configure, build, announce, serve, wait, wind down.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use greenroom_api::http::serve_http;
use greenroom_api::mcp::serve_stdio;
use greenroom_core::config::{Config, Driver as DriverConfig};
use greenroom_engine::{Engine, EngineConfig};
use greenroom_upstream::Driver;
use greenroom_upstream::driver::{CustomDriver, PlaywrightDriver, PlaywrightSetup};
use greenroom_upstream::install::{Installer, Machine};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::{Cli, Command, ConfigCommand};
use crate::exit::Exit;
use crate::signals::Signals;
use crate::{config_files, config_show, install_view, logging};

pub(crate) fn run(cli: &Cli) -> Result<ExitCode> {
    let config = config_files::load(cli)?;
    match &cli.command {
        Command::Config { command: ConfigCommand::Check } => say("The configuration is right.\n"),
        Command::Config { command: ConfigCommand::Show { json: false } } => say(&config_show::table(&config)),
        Command::Config { command: ConfigCommand::Show { json: true } } => say(&config_show::json(&config)),
        Command::Install => start(&config)?.block_on(install(&config)),
        Command::Serve { install, .. } => start(&config)?.block_on(serve(&config, !install.no_install)),
        Command::Mcp { install, standalone: _ } => {
            start(&config)?.block_on(mcp(&config, !install.no_install))
        }
    }
}

fn start(config: &Config) -> Result<tokio::runtime::Runtime> {
    logging::start(config)?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime could be started")
}

/// Something for a person, on stdout. A reader that has gone away is no error.
fn say(text: &str) -> Result<ExitCode> {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    Ok(ExitCode::SUCCESS)
}

async fn install(config: &Config) -> Result<ExitCode> {
    let DriverConfig::Playwright(browser) = &config.upstream.driver else {
        return say("Nothing to install: DRIVER=custom brings its own server.\n");
    };
    let data_dir = config_files::data_dir(config)?;
    let installed = installer(&data_dir, true).ensure(browser).await.context(Exit::Install)?;
    say(&format!(
        "Everything is there.\n  node     {}\n  server   {}\n  browser  {}\n",
        installed.node.display(),
        installed.host_script.parent().unwrap_or(&data_dir).display(),
        installed.browser.display(),
    ))
}

async fn serve(config: &Config, may_install: bool) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    let data_dir = config_files::data_dir(config)?;
    let listener = listen(config).await.context(Exit::Listen)?;
    let address = listener.local_addr()?;

    let installer = installer(&data_dir, may_install);
    if let DriverConfig::Playwright(browser) = &config.upstream.driver {
        // Now rather than at the first call: whoever starts a server is there to read what is missing.
        tokio::select! {
            installed = installer.ensure(browser) => drop(installed.context(Exit::Install)?),
            _ = signals.next() => return Err(Exit::Interrupted.into()),
        }
    }
    let engine = engine(config, &data_dir, installer)?;
    let shutdown = CancellationToken::new();
    let server = tokio::spawn({
        let (engine, http, shutdown) = (engine.clone(), config.http.clone(), shutdown.clone());
        async move { serve_http(listener, engine, &http, shutdown).await }
    });
    say(&format!("greenroom listening on http://{}\n", display(&config.http.host, address)))?;
    tracing::info!(%address, data = %data_dir.display(), "ready");

    let signal = signals.next().await;
    tracing::info!(signal, "stopping; once more to stop at once");
    let wind_down = async {
        engine.shutdown().await;
        shutdown.cancel();
        server.await.context("the HTTP server panicked")?.context("the HTTP server failed")
    };
    tokio::select! {
        outcome = wind_down => outcome.map(|()| ExitCode::SUCCESS),
        _ = signals.next() => Err(Exit::Interrupted.into()),
    }
}

async fn mcp(config: &Config, may_install: bool) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    let data_dir = config_files::data_dir(config)?;
    let installer = installer(&data_dir, may_install);
    if let DriverConfig::Playwright(browser) = config.upstream.driver.clone() {
        let installer = installer.clone();
        // The client waits for our answer to `initialize`, and not for long. What goes wrong here is said by the
        // first call that needs a browser.
        tokio::spawn(async move {
            if let Err(error) = installer.ensure(&browser).await {
                tracing::error!("{:#}", anyhow::Error::new(error));
            }
        });
    }
    let engine = engine(config, &data_dir, installer)?;
    let shutdown = CancellationToken::new();
    let serving = serve_stdio(engine.clone(), config.http.max_request_bytes, shutdown.clone());
    tokio::pin!(serving);
    tokio::select! {
        outcome = &mut serving => outcome.context("standard input and output cannot be used")?,
        signal = signals.next() => tracing::info!(signal, "stopping; once more to stop at once"),
    }
    let wind_down = async {
        engine.shutdown().await;
        shutdown.cancel();
    };
    tokio::select! {
        () = wind_down => Ok(ExitCode::SUCCESS),
        _ = signals.next() => Err(Exit::Interrupted.into()),
    }
}

fn installer(data_dir: &Path, may_install: bool) -> Installer {
    Installer::new(data_dir.to_owned(), Machine::this(), may_install, install_view::reporter())
}

fn engine(config: &Config, data_dir: &Path, installer: Installer) -> Result<Engine> {
    let upstream = &config.upstream;
    let driver: Arc<dyn Driver> = match &upstream.driver {
        DriverConfig::Playwright(browser) => {
            let workspace = std::env::current_dir().context("the working directory is not there any more")?;
            let setup = PlaywrightSetup { installer, output_dir: data_dir.join("output"), workspace };
            Arc::new(PlaywrightDriver::new(browser.clone(), upstream, setup))
        }
        DriverConfig::Custom(custom) => Arc::new(CustomDriver::new(custom, upstream)),
    };
    let engine = EngineConfig { call_timeout: upstream.call_timeout, cache_dir: data_dir.join("cache") };
    Ok(Engine::new(driver, &engine))
}

async fn listen(config: &Config) -> Result<TcpListener> {
    let (host, port) = (config.http.host.trim_matches(['[', ']']), config.http.port);
    TcpListener::bind((host, port)).await.with_context(|| {
        format!("{host}:{port} is not free. Stop what listens there, or choose another port with `--port`")
    })
}

/// The address as a person would write it: under the name that was configured.
fn display(host: &str, address: SocketAddr) -> String {
    let port = address.port();
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
