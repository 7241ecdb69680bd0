//! The parts put together: configure, build, announce, serve, wait, wind down.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use greenroom_api::http::serve_http;
use greenroom_api::local::{self, ConnectError, Hello, LocalService, LocalSocket, serve_local};
use greenroom_api::mcp::serve_stdio;
use greenroom_core::config::{Config, Driver as DriverConfig, Start};
use greenroom_core::target::SessionName;
use greenroom_engine::{AttachFactory, Bound, Caller, DriverFactory, Engine, EngineConfig, Origin};
use greenroom_upstream::driver::{
    CustomDriver, DevtoolsDriver, DevtoolsSetup, PlaywrightDriver, PlaywrightSetup,
};
use greenroom_upstream::install::{Installer, Machine, Need, Server};
use greenroom_upstream::run_folder::{self, Run, Swept};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::bridge::{self, Link, Target};
use crate::cli::{Cli, Command, ConfigCommand, DbCommand};
use crate::exit::Exit;
use crate::signals::Signals;
use crate::{config_files, config_show, doctor, history, install_view, logging, orphans, pools};

pub(crate) fn run(cli: &Cli) -> Result<ExitCode> {
    // The guard has one thing to do, and no configuration may keep it from doing so.
    if let Command::Guard { folder } = &cli.command {
        run_folder::guard(folder);
        return Ok(ExitCode::SUCCESS);
    }
    let config = config_files::load(cli)?;
    match &cli.command {
        Command::Config { command: ConfigCommand::Check } => {
            logging::filter(&config)?;
            say("The configuration is right.\n")
        }
        Command::Config { command: ConfigCommand::Show { json: false } } => say(&config_show::table(&config)),
        Command::Config { command: ConfigCommand::Show { json: true } } => say(&config_show::json(&config)),
        Command::Guard { .. } => unreachable!("it was served above"),
        Command::Doctor => start(&config)?.block_on(doctor::examine(&config)),
        Command::Status { pool, watch, json, .. } => {
            pools::status(&config.http, pool.as_deref(), *watch, *json)
        }
        Command::Restart { pool, instance, .. } => {
            pools::restart(&config.http, pool.as_deref(), instance.as_deref())
        }
        Command::Scale { pool, instances, .. } => pools::scale(&config.http, pool, *instances),
        Command::Calls(flags) => history::calls::list(&config, flags),
        Command::Show(flags) => history::show::show(&config, flags),
        Command::Export(flags) => history::export::export(&config, flags),
        Command::Db { command: DbCommand::Stats { json } } => history::db::stats(&config, *json),
        Command::Db { command: DbCommand::Vacuum } => history::db::vacuum(&config),
        Command::Db { command: DbCommand::Check } => history::db::check(&config),
        Command::Install => start(&config)?.block_on(install(&config)),
        Command::Serve { install, .. } => start(&config)?.block_on(serve(&config, !install.no_install)),
        Command::Mcp { install, standalone, connect, .. } => {
            let runtime = start(&config)?;
            let server = match (standalone, connect) {
                (true, _) => None,
                (false, Some(target)) => Some(runtime.block_on(find(&config, target))?),
                (false, None) => runtime.block_on(find_running(&config))?,
            };
            match server {
                Some(found) => runtime.block_on(bridge(found)),
                None => runtime.block_on(mcp(&config, !install.no_install)),
            }
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
    let needs = needs(config);
    if needs.is_empty() {
        return say("Nothing to install: DRIVER=custom brings its own server.\n");
    }
    let data_dir = config_files::data_dir(config)?;
    let installer = installer(&data_dir, true);
    let mut lines: Vec<String> = Vec::new();
    for need in needs {
        let installed = installer.ensure(&need).await.context(Exit::Install)?;
        let mut found = vec![("node", installed.node), ("server", installed.packages)];
        if let Some(browser) = &need.browser {
            let path = installed.browser.unwrap_or_else(|| PathBuf::from("found by Windows"));
            found.push((browser.browser.name(), path));
        }
        for (what, path) in found {
            let line = format!("  {what:<8} {}\n", path.display());
            // What browsers share is said once.
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    say(&format!("Everything is there.\n{}", lines.concat()))
}

/// Everything that some instance needs, each once.
fn needs(config: &Config) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    if !config.browsers.is_empty() {
        needs.push(Need::to_attach(Server::Devtools));
    }
    // Where every call goes to an attached browser, none is launched.
    if config.has_only_browsers() {
        return needs;
    }
    for instance in config.pools.iter().flat_map(|pool| &pool.instances) {
        let Some(need) = need(&instance.upstream.driver) else { continue };
        if !needs.iter().any(|known| known.is_like(&need)) {
            needs.push(need);
        }
    }
    needs
}

/// What has to be installed for a driver, if anything.
pub(crate) fn need(driver: &DriverConfig) -> Option<Need> {
    match driver {
        DriverConfig::Playwright(browser) => Some(Need::playwright(*browser.clone())),
        DriverConfig::ChromeDevtools(browser) => Some(Need::devtools(*browser.clone())),
        DriverConfig::Custom(_) => None,
    }
}

async fn serve(config: &Config, may_install: bool) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    let data_dir = config_files::data_dir(config)?;
    config_files::make_data_dir(&data_dir);
    let listener = listen(config).await.context(Exit::Listen)?;
    let address = listener.local_addr()?;

    let installer = installer(&data_dir, may_install);
    // Now rather than at the first call: whoever starts a server is there to read what is missing.
    tokio::select! {
        prepared = prepare(config, &installer) => prepared?,
        _ = signals.next() => return Err(Exit::Interrupted.into()),
    }
    let run = begin_run(&data_dir)?;
    let engine = engine(config, &data_dir, installer, &run, false)?;
    let working_dir = working_dir()?;
    let (shutdown, closing) = (CancellationToken::new(), CancellationToken::new());
    let local = listen_locally(&data_dir).map(|socket| {
        let service = LocalService {
            engine: engine.clone(),
            settings: Arc::clone(&config.settings),
            working_dir: working_dir.clone(),
            max_line: config.http.max_request_bytes,
            session_per_connection: config.session_per_connection,
        };
        tokio::spawn(serve_local(socket, service, closing.clone(), shutdown.clone()))
    });
    let server = tokio::spawn({
        let (engine, http, shutdown) = (engine.clone(), config.http.clone(), shutdown.clone());
        let session_per_connection = config.session_per_connection;
        async move { serve_http(listener, engine, &http, session_per_connection, shutdown).await }
    });
    say(&format!("greenroom listening on http://{}\n", display(&config.http.host, address)))?;
    tracing::info!(%address, data = %data_dir.display(), "ready");

    let signal = signals.next().await;
    tracing::info!(signal, "stopping; once more to stop at once");
    let wind_down = async {
        // Whoever comes now is better served by the next server.
        closing.cancel();
        engine.shutdown().await;
        shutdown.cancel();
        if let Some(local) = local {
            local.await.context("the local server panicked")?;
        }
        server.await.context("the HTTP server panicked")?.context("the HTTP server failed")?;
        run.end();
        Ok(())
    };
    tokio::select! {
        outcome = wind_down => outcome.map(|()| ExitCode::SUCCESS),
        _ = signals.next() => Err(Exit::Interrupted.into()),
    }
}

/// A server, the way to it, and what it was told about us.
type Found = (Target, Hello, Link);

/// The server that a person named. If it cannot be used, nothing else is.
async fn find(config: &Config, target: &Target) -> Result<Found> {
    let hello = hello(config)?;
    let link = target
        .connect(&hello, config.http.max_request_bytes)
        .await
        .map_err(anyhow::Error::new)
        .context(Exit::Connect)?;
    Ok((target.clone(), hello, link))
}

/// The server that runs in our data folder, if there is one that does what we were told to do.
async fn find_running(config: &Config) -> Result<Option<Found>> {
    let socket = local::socket_path(&config_files::data_dir(config)?);
    let (target, hello) = (Target::Socket(socket.clone()), hello(config)?);
    match target.connect(&hello, config.http.max_request_bytes).await {
        Ok(link) => {
            tracing::info!(socket = %socket.display(), "using the browsers of the running server");
            Ok(Some((target, hello, link)))
        }
        Err(ConnectError::NotThere(_)) => Ok(None),
        Err(ConnectError::Refused(why)) => {
            tracing::warn!("serving with browsers of its own: {why}");
            Ok(None)
        }
    }
}

fn hello(config: &Config) -> Result<Hello> {
    let folder = working_dir()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let connection = format!("{:x}-{:x}", now.as_nanos(), std::process::id());
    Ok(Hello::new(config.settings.wishes(&folder), &folder, connection))
}

async fn bridge((target, hello, link): Found) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    tokio::select! {
        outcome = bridge::run(target, hello, link) => outcome.context("standard input and output cannot be used")?,
        // There is nothing to wind down: the browsers are the server's.
        signal = signals.next() => tracing::info!(signal, "stopping"),
    }
    Ok(ExitCode::SUCCESS)
}

async fn mcp(config: &Config, may_install: bool) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    let data_dir = config_files::data_dir(config)?;
    config_files::make_data_dir(&data_dir);
    let installer = installer(&data_dir, may_install);
    // The client waits for our answer to `initialize`, and not for long. What goes wrong here is said by the first call
    // that needs a browser.
    for need in needs(config) {
        let installer = installer.clone();
        tokio::spawn(async move {
            if let Err(error) = installer.ensure(&need).await {
                tracing::error!("{:#}", anyhow::Error::new(error));
            }
        });
    }
    let run = begin_run(&data_dir)?;
    let engine = engine(config, &data_dir, installer, &run, true)?;
    let shutdown = CancellationToken::new();
    // There is one connection, so all it has to be is different from those of other processes.
    let session = match SessionName::new(format!("connection-{}", run.id())) {
        Ok(name) if config.session_per_connection => Bound::Implied(name),
        _ => Bound::Free,
    };
    let origin = Origin { caller: Caller::local(), session };
    let serving = serve_stdio(engine.clone(), origin, config.http.max_request_bytes, shutdown.clone());
    tokio::pin!(serving);
    tokio::select! {
        outcome = &mut serving => outcome.context("standard input and output cannot be used")?,
        signal = signals.next() => tracing::info!(signal, "stopping; once more to stop at once"),
    }
    let wind_down = async {
        engine.shutdown().await;
        shutdown.cancel();
        run.end();
    };
    tokio::select! {
        () = wind_down => Ok(ExitCode::SUCCESS),
        _ = signals.next() => Err(Exit::Interrupted.into()),
    }
}

fn installer(data_dir: &Path, may_install: bool) -> Installer {
    Installer::new(data_dir.to_owned(), Machine::this(), may_install, install_view::reporter())
}

/// Cleans up after runs that were killed, and begins this one.
fn begin_run(data_dir: &Path) -> Result<Arc<Run>> {
    let swept = run_folder::sweep(data_dir);
    if swept != Swept::default() {
        tracing::info!(
            runs = swept.runs,
            processes = swept.processes,
            "cleaned up after runs that were killed"
        );
    }
    orphans::reap_if_first();
    // Under the name it was started by: the file may have been replaced by a newer one meanwhile.
    let guard = std::env::current_exe().ok();
    let run = Run::begin(data_dir, guard)
        .with_context(|| format!("the data folder {} cannot be written", data_dir.display()))
        .context("make it writable, or choose another with `--data-dir`")?;
    Ok(Arc::new(run))
}

/// Installs what is missing. Where some browsers can be had and others cannot, the pools that can run do.
async fn prepare(config: &Config, installer: &Installer) -> Result<()> {
    let needs = needs(config);
    let mut missing = Vec::new();
    for need in &needs {
        if let Err(error) = installer.ensure(need).await {
            missing.push(anyhow::Error::new(error));
        }
    }
    if !needs.is_empty() && missing.len() == needs.len() {
        return Err(missing.remove(0).context(Exit::Install));
    }
    for error in missing {
        tracing::error!("{error:#}");
    }
    Ok(())
}

/// `is_local`: the one who calls is the one who started us, and their working directory is theirs to read.
fn engine(
    config: &Config,
    data_dir: &Path,
    installer: Installer,
    run: &Arc<Run>,
    is_local: bool,
) -> Result<Engine> {
    for note in config.settings.notes() {
        tracing::warn!("{note}");
    }
    let workspace = working_dir()?;
    let readable = if is_local { vec![workspace.clone()] } else { Vec::new() };
    let (run, data_dir) = (Arc::clone(run), data_dir.to_owned());
    let engine = EngineConfig {
        pools: config.pools.clone(),
        addressing: config.addressing,
        drain: config.drain_timeout,
        max_sessions_per_caller: config.max_sessions_per_caller,
        rest_session_idle: config.rest_session_idle,
        session_files_grace: config.session_files_grace,
        readable,
        data_dir: data_dir.clone(),
        run_id: run.id().to_owned(),
        history: config.history,
        browsers: config.browsers.clone(),
        connect: config.connect,
        attach: attach(config, &data_dir, &installer, &run, &workspace),
        browser_limits: config.browser_limits.clone(),
    };
    let drivers: DriverFactory = Arc::new(move |pool, instance| {
        let upstream = &instance.upstream;
        let id = instance.id.to_string();
        let output = data_dir.join("output");
        let output_dir = if pool.is_implicit { output } else { output.join(&pool.name).join(&id) };
        let profile_dir = data_dir.join("profiles").join(&pool.name).join(&id);
        let (run, installer, workspace) = (Arc::clone(&run), installer.clone(), workspace.clone());
        match &upstream.driver {
            DriverConfig::Playwright(browser) => {
                let warm = pool.start == Start::Eager;
                let setup = PlaywrightSetup { run, installer, output_dir, workspace, profile_dir, warm };
                Arc::new(PlaywrightDriver::new(*browser.clone(), upstream, setup))
            }
            DriverConfig::ChromeDevtools(browser) => {
                let setup = DevtoolsSetup { run, installer, output_dir, workspace, profile_dir };
                Arc::new(DevtoolsDriver::new(*browser.clone(), upstream, setup))
            }
            DriverConfig::Custom(custom) => Arc::new(CustomDriver::new(custom, upstream, run)),
        }
    });
    Ok(Engine::new(engine, &drivers))
}

/// How browsers are driven that somebody else has started.
fn attach(
    config: &Config,
    data_dir: &Path,
    installer: &Installer,
    run: &Arc<Run>,
    workspace: &Path,
) -> AttachFactory {
    // What holds for everything; there is always a pool, if only the one that nobody has configured.
    let upstream = config.pools[0].instances[0].upstream.clone();
    let (run, installer) = (Arc::clone(run), installer.clone());
    let (output_dir, workspace) = (data_dir.join("output"), workspace.to_owned());
    let profile_dir = data_dir.join("profiles");
    Arc::new(move |browser| {
        let setup = DevtoolsSetup {
            run: Arc::clone(&run),
            installer: installer.clone(),
            output_dir: output_dir.clone(),
            workspace: workspace.clone(),
            profile_dir: profile_dir.clone(),
        };
        Arc::new(DevtoolsDriver::attached(browser.endpoint.clone(), &upstream, setup))
    })
}

fn working_dir() -> Result<PathBuf> {
    std::env::current_dir().context("the working directory is not there any more")
}

/// The way in for other processes of the same user. Without it everything else works.
fn listen_locally(data_dir: &Path) -> Option<LocalSocket> {
    LocalSocket::bind(data_dir)
        .inspect_err(|error| tracing::warn!("`greenroom mcp` will not find this server: {error}"))
        .ok()
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
