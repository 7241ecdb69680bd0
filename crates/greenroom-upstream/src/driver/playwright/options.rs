//! What the host is told, made of the configuration alone: nothing here looks at the machine.

use std::time::Duration;

use greenroom_core::config::{Browser, BrowserConfig};
use serde_json::{Value, json};

/// Keeps Chromium from looking for the outside on its own account.
const QUIET: [&str; 4] =
    ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];

/// Old files are removed from the output folder beyond this.
const OUTPUT_LIMIT_BYTES: u64 = 256 * 1024 * 1024;

/// Where things are, as Node sees them, and who runs the browser.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// The browser's program; none leaves the search to Playwright.
    pub(super) executable: Option<String>,
    pub(super) output_dir: String,
    /// The folder of a profile that is kept.
    pub(super) profile: Option<String>,
    pub(super) storage_state: Option<String>,
    pub(super) init_scripts: Vec<String>,
    /// The address of the folder that files may be read from.
    pub(super) root: String,
    pub(super) is_root: bool,
}

/// The host's first request: how to launch a browser, and each connection's configuration.
pub(super) fn start_request(config: &BrowserConfig, places: &Places) -> Value {
    let kind = match config.browser {
        Browser::Firefox => "firefox",
        Browser::Webkit => "webkit",
        Browser::Chromium | Browser::Chrome | Browser::Edge => "chromium",
    };
    json!({
        "launch": { "type": kind, "options": launch_options(config, places) },
        "mcp": mcp_config(config, places),
    })
}

fn launch_options(config: &BrowserConfig, places: &Places) -> Value {
    let mut options = json!({ "headless": config.headless });
    if let Some(executable) = &places.executable {
        options["executablePath"] = executable.as_str().into();
    } else if matches!(config.browser, Browser::Chrome | Browser::Edge) {
        // Playwright's word for a browser that the system brought along. The others are its own.
        options["channel"] = config.browser.name().into();
    }
    if config.browser.is_chromium() {
        // Root cannot have a sandbox.
        options["chromiumSandbox"] = (!config.no_sandbox.unwrap_or(places.is_root)).into();
        options["args"] = json!(QUIET);
    }
    options
}

/// Never with `isolated`: beside a context of ours every call would fail.
fn mcp_config(config: &BrowserConfig, places: &Places) -> Value {
    let mut capabilities = vec!["core"];
    capabilities.extend(config.caps.iter().map(String::as_str));
    let mut mcp = json!({
        "capabilities": capabilities,
        "outputDir": places.output_dir,
        "outputMaxSize": OUTPUT_LIMIT_BYTES,
        "imageResponses": config.image_responses.name(),
        // Our working directory is not the agent's: a relative path would mislead it.
        "filePaths": "absolute",
        "timeouts": {
            "action": millis(config.timeout_action),
            "navigation": millis(config.timeout_navigation),
            "settle": millis(config.timeout_settle),
            // Greenroom decides when a browser goes.
            "idle": 0,
        },
        // Pages must not be able to add tools.
        "webmcp": false,
    });
    for (name, origins) in
        [("allowedOrigins", &config.allowed_origins), ("blockedOrigins", &config.blocked_origins)]
    {
        if !origins.is_empty() {
            mcp["network"][name] = json!(origins);
        }
    }
    if !places.init_scripts.is_empty() {
        mcp["browser"]["initScript"] = json!(places.init_scripts);
    }
    mcp
}

/// What a context is opened with.
pub(super) fn context_options(config: &BrowserConfig, places: &Places) -> Value {
    let mut options = json!({ "ignoreHTTPSErrors": config.ignore_https_errors });
    if let Some(device) = &config.device {
        options["device"] = device.as_str().into();
    }
    if let Some((width, height)) = config.viewport {
        options["viewport"] = json!({ "width": width, "height": height });
    } else if !config.headless && config.device.is_none() {
        // A window that a person sees decides the page's size itself.
        options["viewport"] = Value::Null;
    }
    if let Some(user_agent) = &config.user_agent {
        options["userAgent"] = user_agent.as_str().into();
    }
    if let Some(server) = &config.proxy_server {
        options["proxy"]["server"] = server.as_str().into();
        if let Some(bypass) = &config.proxy_bypass {
            options["proxy"]["bypass"] = bypass.as_str().into();
        }
    }
    if let Some(profile) = &places.profile {
        options["userDataDir"] = profile.as_str().into();
    } else if let Some(state) = &places.storage_state {
        // A profile brings its own.
        options["storageState"] = state.as_str().into();
    }
    options
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use greenroom_core::config::{Browser, BrowserConfig, Driver, ImageResponses, load};
    use serde_json::{Value, json};

    use super::{Places, context_options, start_request};

    fn config(browser: Browser, headless: bool) -> BrowserConfig {
        let loaded = load(Vec::new()).expect("the defaults are a configuration");
        let Driver::Playwright(default) = &loaded.pools[0].instances[0].upstream.driver else {
            panic!("not the default driver")
        };
        BrowserConfig { browser, headless, ..BrowserConfig::clone(default) }
    }

    fn places() -> Places {
        Places {
            executable: Some("/bin/browser".to_owned()),
            output_dir: "/out".to_owned(),
            ..Places::default()
        }
    }

    fn launch(config: &BrowserConfig, places: &Places) -> Value {
        start_request(config, places)["launch"].clone()
    }

    const QUIET: [&str; 4] =
        ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];

    #[test]
    fn each_browser_is_launched_by_its_program_with_what_its_kind_takes() {
        for headless in [true, false] {
            for browser in [Browser::Chromium, Browser::Chrome, Browser::Edge] {
                let options = json!({
                    "headless": headless, "executablePath": "/bin/browser", "chromiumSandbox": true, "args": QUIET,
                });
                let expected = json!({ "type": "chromium", "options": options });
                assert_eq!(launch(&config(browser, headless), &places()), expected);
            }
            for browser in [Browser::Firefox, Browser::Webkit] {
                let options = json!({ "headless": headless, "executablePath": "/bin/browser" });
                let expected = json!({ "type": browser.name(), "options": options });
                assert_eq!(launch(&config(browser, headless), &places()), expected);
            }
        }
    }

    #[test]
    fn without_a_program_chrome_and_edge_are_named_by_channel_and_the_others_are_playwrights_own() {
        let places = Places { executable: None, ..places() };
        for (browser, channel) in [
            (Browser::Chromium, Value::Null),
            (Browser::Chrome, json!("chrome")),
            (Browser::Edge, json!("msedge")),
            (Browser::Firefox, Value::Null),
            (Browser::Webkit, Value::Null),
        ] {
            let launch = launch(&config(browser, true), &places);
            assert_eq!(launch["options"]["channel"], channel);
            assert_eq!(launch["options"]["executablePath"], Value::Null);
        }
    }

    #[test]
    fn the_sandbox_is_off_for_root_unless_it_is_configured() {
        let root = Places { is_root: true, ..places() };
        for (no_sandbox, places, expected) in [
            (None, places(), true),
            (None, root.clone(), false),
            (Some(true), places(), false),
            (Some(false), root, true),
        ] {
            let config = BrowserConfig { no_sandbox, ..config(Browser::Chromium, true) };
            assert_eq!(launch(&config, &places)["options"]["chromiumSandbox"], expected);
        }
    }

    #[test]
    fn the_connections_are_configured_without_a_word_about_isolation() {
        let mut config = config(Browser::Chromium, true);
        let plain = start_request(&config, &places())["mcp"].clone();
        assert_eq!(plain["imageResponses"], "allow");
        assert_eq!((&plain["network"], &plain["browser"]), (&Value::Null, &Value::Null));
        config.caps = vec!["pdf".to_owned()];
        config.image_responses = ImageResponses::Omit;
        config.allowed_origins = vec!["https://a.example".to_owned()];
        config.blocked_origins = vec!["https://b.example".to_owned()];
        let places = Places { init_scripts: vec!["/one.js".to_owned()], ..places() };
        let mcp = start_request(&config, &places)["mcp"].clone();
        assert_eq!(mcp["capabilities"], json!(["core", "pdf"]));
        assert_eq!(mcp["outputDir"], "/out");
        assert_eq!(mcp["imageResponses"], "omit");
        let network =
            json!({ "allowedOrigins": ["https://a.example"], "blockedOrigins": ["https://b.example"] });
        assert_eq!(mcp["network"], network);
        assert_eq!(mcp["browser"], json!({ "initScript": ["/one.js"] }));
        assert!(!mcp.to_string().contains("isolated"));
    }

    #[test]
    fn a_window_decides_the_size_of_its_page_unless_a_size_or_a_device_is_given() {
        let viewport = |config: &BrowserConfig| context_options(config, &places()).get("viewport").cloned();
        let (hidden, shown) = (config(Browser::Chromium, true), config(Browser::Chromium, false));
        assert_eq!(viewport(&hidden), None);
        assert_eq!(viewport(&shown), Some(Value::Null));
        let device = BrowserConfig { device: Some("Pixel 7".to_owned()), ..shown.clone() };
        assert_eq!(viewport(&device), None);
        let sized = BrowserConfig { viewport: Some((800, 600)), ..device };
        assert_eq!(viewport(&sized), Some(json!({ "width": 800, "height": 600 })));
    }

    #[test]
    fn a_context_is_opened_with_everything_that_is_configured() {
        let mut config = config(Browser::Chromium, true);
        assert_eq!(context_options(&config, &places()), json!({ "ignoreHTTPSErrors": false }));
        config.device = Some("Pixel 7".to_owned());
        config.user_agent = Some("mine".to_owned());
        config.proxy_server = Some("http://proxy.example:3128".to_owned());
        config.ignore_https_errors = true;
        let isolated = Places { storage_state: Some("/state.json".to_owned()), ..places() };
        let mut expected = json!({
            "ignoreHTTPSErrors": true,
            "device": "Pixel 7",
            "userAgent": "mine",
            "proxy": { "server": "http://proxy.example:3128" },
            "storageState": "/state.json",
        });
        assert_eq!(context_options(&config, &isolated), expected);

        config.proxy_bypass = Some("localhost".to_owned());
        expected["proxy"]["bypass"] = "localhost".into();
        expected["userDataDir"] = "/profile".into();
        expected.as_object_mut().expect("it is one").remove("storageState");
        let kept = Places { profile: Some("/profile".to_owned()), ..isolated };
        assert_eq!(context_options(&config, &kept), expected);
    }
}
