//! What the server is told on its command line, made of the configuration alone: nothing here looks at the machine.

use std::path::{Path, PathBuf};

use greenroom_core::config::{BrowserConfig, Profile};
use serde_json::{Map, Value};

use super::Endpoint;
use crate::driver::SeatOptions;

/// Keeps Chromium from looking for the outside on its own account.
const QUIET: [&str; 4] =
    ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];

/// The server keeps to itself, and its tools work on a selected page rather than ask for a number each time.
pub(super) fn common() -> Vec<String> {
    ["--no-usage-statistics", "--no-performance-crux", "--no-page-id-routing"].map(str::to_owned).to_vec()
}

pub(super) fn launch(
    config: &BrowserConfig,
    executable: Option<&Path>,
    profile: Option<&Path>,
    is_root: bool,
) -> Vec<String> {
    let mut options = vec![format!("--headless={}", config.headless)];
    if let Some(executable) = executable {
        options.push(format!("--executablePath={}", executable.display()));
    }
    options.push(match profile {
        Some(profile) => format!("--userDataDir={}", profile.display()),
        None => "--isolated".to_owned(),
    });
    if let Some((width, height)) = config.viewport {
        options.push(format!("--viewport={width}x{height}"));
    }
    if config.ignore_https_errors {
        options.push("--acceptInsecureCerts".to_owned());
    }
    let mut chromium: Vec<String> = QUIET.map(str::to_owned).to_vec();
    // Root cannot have a sandbox.
    if config.no_sandbox.unwrap_or(is_root) {
        chromium.push("--no-sandbox".to_owned());
    }
    if let Some(user_agent) = &config.user_agent {
        chromium.push(format!("--user-agent={user_agent}"));
    }
    if let Some(server) = &config.proxy_server {
        options.push(format!("--proxyServer={server}"));
        // Chromium spares loopback addresses unless it is told not to; Playwright tells it, so we do.
        let mut bypass = vec!["<-loopback>"];
        bypass.extend(config.proxy_bypass.iter().flat_map(|hosts| hosts.split(',')).map(str::trim));
        chromium.push(format!("--proxy-bypass-list={}", bypass.join(";")));
    }
    options.extend(chromium.into_iter().map(|argument| format!("--chromeArg={argument}")));
    options
}

pub(super) fn attach(endpoint: &Endpoint) -> Vec<String> {
    match endpoint {
        Endpoint::Url(url) => vec![format!("--browserUrl={url}")],
        Endpoint::WebSocket { url, headers } => {
            let mut options = vec![format!("--wsEndpoint={url}")];
            if !headers.is_empty() {
                let headers: Map<String, Value> =
                    headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
                options.push(format!("--wsHeaders={}", Value::Object(headers)));
            }
            options
        }
    }
}

/// The folders that tools may read from and write to, beside the temporary one.
pub(super) fn folders(folders: impl Iterator<Item = PathBuf>) -> impl Iterator<Item = String> {
    folders.map(|folder| format!("--workspace={}", folder.display()))
}

/// What a session wants different. It never has a profile that is kept.
pub(super) fn seat(config: &mut BrowserConfig, seat: &SeatOptions) -> Result<(), String> {
    for (name, is_wanted) in
        [("a device", seat.device.is_some()), ("a storage state", seat.storage_state.is_some())]
    {
        if is_wanted {
            return Err(format!(
                "DRIVER=chrome-devtools cannot begin with {name}. Leave it out, or use a pool with DRIVER=playwright"
            ));
        }
    }
    config.profile = Profile::Isolated;
    config.viewport = seat.viewport.or(config.viewport);
    config.user_agent = seat.user_agent.clone().or(config.user_agent.take());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use greenroom_core::config::{BrowserConfig, Driver, Profile, load};

    use super::{Endpoint, SeatOptions, attach, launch, seat};

    fn config() -> BrowserConfig {
        let loaded = load(Vec::new()).expect("the defaults are a configuration");
        let Driver::Playwright(default) = &loaded.pools[0].instances[0].upstream.driver else {
            panic!("not the default driver")
        };
        BrowserConfig::clone(default)
    }

    const QUIET: [&str; 4] = [
        "--chromeArg=--disable-background-networking",
        "--chromeArg=--disable-component-update",
        "--chromeArg=--disable-sync",
        "--chromeArg=--no-first-run",
    ];

    #[test]
    fn a_plain_browser_is_headless_isolated_and_quiet() {
        let told = launch(&config(), Some(Path::new("/bin/browser")), None, false);
        let mut expected = vec!["--headless=true", "--executablePath=/bin/browser", "--isolated"];
        expected.extend(QUIET);
        assert_eq!(told, expected);
    }

    #[test]
    fn everything_that_is_configured_is_told() {
        let config = BrowserConfig {
            headless: false,
            viewport: Some((800, 600)),
            ignore_https_errors: true,
            user_agent: Some("my agent".to_owned()),
            proxy_server: Some("http://proxy:3128".to_owned()),
            proxy_bypass: Some("a.example, b.example".to_owned()),
            ..config()
        };
        let told = launch(&config, None, Some(Path::new("/profile")), true);
        let mut expected = vec![
            "--headless=false",
            "--userDataDir=/profile",
            "--viewport=800x600",
            "--acceptInsecureCerts",
            "--proxyServer=http://proxy:3128",
        ];
        expected.extend(QUIET);
        expected.extend([
            "--chromeArg=--no-sandbox",
            "--chromeArg=--user-agent=my agent",
            "--chromeArg=--proxy-bypass-list=<-loopback>;a.example;b.example",
        ]);
        assert_eq!(told, expected);
        let sandboxed = BrowserConfig { no_sandbox: Some(false), ..config };
        assert!(!launch(&sandboxed, None, None, true).contains(&"--chromeArg=--no-sandbox".to_owned()));
    }

    #[test]
    fn a_browser_that_runs_is_named_by_its_address_and_headers_are_json() {
        let url = Endpoint::Url("http://127.0.0.1:9222".to_owned());
        assert_eq!(attach(&url), ["--browserUrl=http://127.0.0.1:9222"]);
        let headers = vec![("Authorization".to_owned(), "Bearer \"x\"".to_owned())];
        let socket = Endpoint::WebSocket { url: "ws://h/x".to_owned(), headers };
        let expected = ["--wsEndpoint=ws://h/x", r#"--wsHeaders={"Authorization":"Bearer \"x\""}"#];
        assert_eq!(attach(&socket), expected);
    }

    #[test]
    fn a_session_is_isolated_and_what_it_cannot_have_is_refused() {
        let mut kept = BrowserConfig { profile: Profile::Kept, viewport: Some((1, 1)), ..config() };
        let wishes = SeatOptions { viewport: Some((800, 600)), ..SeatOptions::default() };
        seat(&mut kept, &wishes).expect("it can have that");
        assert_eq!((&kept.profile, kept.viewport), (&Profile::Isolated, Some((800, 600))));
        let device = SeatOptions { device: Some("Pixel 7".to_owned()), ..SeatOptions::default() };
        let error = seat(&mut kept, &device).expect_err("there is no such option");
        assert!(error.contains("a device") && error.contains("DRIVER=playwright"), "{error}");
    }
}
