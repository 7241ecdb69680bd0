//! `greenroom doctor`: what this machine has, what is wrong, and what to do about it.

use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use greenroom_core::config::{BrowserConfig, Config, Driver, HttpConfig, Transport};
use greenroom_upstream::install::{Installer, Machine, Need, Survey};
use greenroom_upstream::run_folder;

use crate::local_client::Server;
use crate::{config_files, run};

/// One thing that was looked at.
#[derive(PartialEq, Eq)]
struct Finding {
    subject: &'static str,
    found: String,
    /// What to do; nothing when it is well.
    remedy: Option<String>,
}

impl Finding {
    fn well(subject: &'static str, found: impl Into<String>) -> Self {
        Self { subject, found: found.into(), remedy: None }
    }

    fn ill(subject: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { subject, found: found.into(), remedy: Some(remedy.into()) }
    }
}

pub(crate) async fn examine(config: &Config) -> Result<ExitCode> {
    let data_dir = config_files::data_dir(config)?;
    let mut findings = Vec::new();
    for instance in config.pools.iter().flat_map(|pool| &pool.instances) {
        let driver = &instance.upstream.driver;
        let found = match (driver, run::need(driver)) {
            (Driver::Custom(custom), _) => vec![custom_server(&custom.transport)],
            (_, Some(need)) => installation(&data_dir, &need).await,
            (_, None) => Vec::new(),
        };
        // What instances share is said once.
        for finding in found {
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }
    findings.push(port(&config.http));
    findings.push(folder(&data_dir));
    findings.push(left_overs(&data_dir));

    let mut shown = String::new();
    for finding in &findings {
        let mark = if finding.remedy.is_some() { "!!" } else { "ok" };
        shown.push_str(&format!("{mark}  {:<12} {}\n", finding.subject, finding.found));
        if let Some(remedy) = &finding.remedy {
            shown.push_str(&format!("                 → {remedy}\n"));
        }
    }
    let ill = findings.iter().filter(|finding| finding.remedy.is_some()).count();
    shown.push_str(&match ill {
        0 => "Everything is well.\n".to_owned(),
        1 => "One thing needs you.\n".to_owned(),
        count => format!("{count} things need you.\n"),
    });
    let _ = std::io::Write::write_all(&mut std::io::stdout(), shown.as_bytes());
    Ok(if ill == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn installation(data_dir: &Path, need: &Need) -> Vec<Finding> {
    let installer = Installer::new(data_dir.to_owned(), Machine::this(), false, |_| {});
    let Survey { node, npm, server, browser: found } = installer.survey(need).await;
    let install = "Run `greenroom install`.";
    let node = match node {
        Ok((path, version)) => Finding::well("node", format!("{version} at {}", path.display())),
        Err(error) => Finding::ill("node", "not usable", error.to_string()),
    };
    let npm = match npm {
        Some(path) => Finding::well("npm", path.display().to_string()),
        None if server.is_some() => {
            Finding::well("npm", "not found, and not needed: the server is installed")
        }
        None => Finding::ill("npm", "not found", "Run `apt-get install npm`."),
    };
    let server = match server {
        Some(path) => Finding::well("server", path.display().to_string()),
        None => Finding::ill("server", format!("{} is not installed", need.server.name()), install),
    };
    let mut findings = vec![node, npm, server];
    if let Some(browser) = &need.browser {
        findings.push(match found {
            Ok(Some((path, version))) => Finding::well("browser", format!("{version} at {}", path.display())),
            Ok(None) => Finding::ill("browser", format!("no {} was found", browser.browser.name()), install),
            Err(error) => Finding::ill("browser", "not usable", error.to_string()),
        });
        findings.push(sandbox(browser));
    }
    findings
}

fn sandbox(browser: &BrowserConfig) -> Finding {
    let is_root = Machine::this().is_root;
    let read =
        |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    match browser.no_sandbox {
        Some(true) => Finding::well("sandbox", "off, because NO_SANDBOX says so"),
        None if is_root => Finding::well("sandbox", "off, because Chromium refuses to run with it as root"),
        Some(false) if is_root => Finding::ill(
            "sandbox",
            "NO_SANDBOX=false, but Chromium refuses to run as root with it",
            "Run as another user, or remove NO_SANDBOX.",
        ),
        _ if read("/proc/sys/kernel/unprivileged_userns_clone") == "0" => Finding::ill(
            "sandbox",
            "this system forbids what Chromium's sandbox needs",
            "Run `sysctl kernel.unprivileged_userns_clone=1` as root, or set NO_SANDBOX=true.",
        ),
        _ => Finding::well("sandbox", "on"),
    }
}

fn custom_server(transport: &Transport) -> Finding {
    match transport {
        Transport::Http { url } => Finding::well("server", format!("{url} (asked when it is needed)")),
        Transport::Stdio { program, .. } => match Machine::this().program(program) {
            Some(path) => Finding::well("server", path.display().to_string()),
            None => Finding::ill(
                "server",
                format!("the program `{program}` was not found"),
                "Install it, or correct UPSTREAM_COMMAND.",
            ),
        },
    }
}

fn port(http: &HttpConfig) -> Finding {
    let (host, port) = (&http.host, http.port);
    let address = (host.trim_matches(['[', ']']), port);
    if TcpListener::bind(address).is_ok() {
        return Finding::well("port", format!("{host}:{port} is free"));
    }
    let answer = Server::new(http).get("/healthz");
    if answer.is_ok_and(|answer| answer["status"] == "ok") {
        return Finding::well("port", format!("a greenroom is serving on {host}:{port}"));
    }
    Finding::ill(
        "port",
        format!("{host}:{port} is taken by another program"),
        "Stop that program, or choose another port with `--port` or HTTP_PORT.",
    )
}

fn folder(data_dir: &Path) -> Finding {
    let probe = data_dir.join(format!(".doctor-{}", std::process::id()));
    let write = std::fs::create_dir_all(data_dir)
        .and_then(|()| std::fs::write(&probe, ""))
        .and_then(|()| std::fs::remove_file(&probe));
    match write {
        Ok(()) => Finding::well("data folder", data_dir.display().to_string()),
        Err(error) => Finding::ill(
            "data folder",
            format!("{} cannot be written: {error}", data_dir.display()),
            "Make it writable, or choose another with `--data-dir`.",
        ),
    }
}

fn left_overs(data_dir: &Path) -> Finding {
    let left = run_folder::left_over(data_dir);
    if left.runs == 0 {
        return Finding::well("left-overs", "none");
    }
    Finding::ill(
        "left-overs",
        format!("runs that were killed: {}; their processes still alive: {}", left.runs, left.processes),
        "Start Greenroom: it cleans up after them.",
    )
}
