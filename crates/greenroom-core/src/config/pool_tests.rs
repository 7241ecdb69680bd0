//! Pools: every example and every error of the specification, and what follows from its rules.

use std::path::PathBuf;
use std::time::Duration;

use rstest::rstest;

use super::{
    Browser, BrowserConfig, Config, Driver, InstanceConfig, Layer, PoolConfig, Profile, Source, Start,
    environment_layer, file_layer, load,
};

/// Lines of `NAME=value`, as a shell or a `.env` file would have them.
fn env(text: &str) -> Layer {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let pairs = lines.filter(|line| !line.is_empty()).map(|line| {
        let (name, value) = line.split_once('=').expect("NAME=value");
        (name.to_owned(), value.trim_matches('"').to_owned())
    });
    environment_layer(Source::Environment, pairs)
}

fn toml(text: &str) -> Layer {
    file_layer(Source::File { path: PathBuf::from("greenroom.toml"), trusted: true }, text)
}

fn loaded(layers: Vec<Layer>) -> Config {
    load(layers).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn mistakes(layers: Vec<Layer>) -> String {
    match load(layers) {
        Ok(config) => panic!("expected mistakes, got {config:?}"),
        Err(mistakes) => mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    }
}

fn browser(instance: &InstanceConfig) -> &BrowserConfig {
    match &instance.upstream.driver {
        Driver::Playwright(browser) => browser,
        other => panic!("expected Playwright's browser, got {other:?}"),
    }
}

/// Browser, headless and timeout of each instance.
fn summary(pool: &PoolConfig) -> Vec<(Browser, bool, u128)> {
    let of = |instance: &InstanceConfig| {
        let browser = browser(instance);
        (browser.browser, browser.headless, browser.timeout_action.as_millis())
    };
    pool.instances.iter().map(of).collect()
}

fn pool<'a>(config: &'a Config, name: &str) -> &'a PoolConfig {
    config.pools.iter().find(|pool| pool.name == name).expect("the pool is configured")
}

#[test]
fn example_1_global_defaults_with_a_single_pool() {
    let config = loaded(vec![env("
        PW_MCP_PROXY_HEADLESS=true
        PW_MCP_PROXY_BROWSER=chromium
        PW_MCP_PROXY_TIMEOUT=30000
        PW_MCP_PROXY__DEFAULT_INSTANCES=3
        PW_MCP_PROXY__DEFAULT_IS_DEFAULT=true
    ")]);
    let [pool] = config.pools.as_slice() else { panic!("one pool") };
    assert!(pool.is_default && !pool.is_implicit);
    assert_eq!(pool.lease_timeout, Some(Duration::from_secs(60)));
    assert_eq!(pool.start, Start::Eager);
    assert_eq!(summary(pool), [(Browser::Chromium, true, 30000); 3]);
    assert!(pool.instances.iter().all(|instance| browser(instance).profile == Profile::Kept));
}

#[test]
fn example_2_global_defaults_with_pool_overrides() {
    let config = loaded(vec![env("
        PW_MCP_PROXY_HEADLESS=true
        PW_MCP_PROXY_BROWSER=chromium
        PW_MCP_PROXY__SESSIONLESS_INSTANCES=5
        PW_MCP_PROXY__SESSIONLESS_IS_DEFAULT=true
        PW_MCP_PROXY__ISOLATED_INSTANCES=2
        PW_MCP_PROXY__ISOLATED_HEADLESS=false
        PW_MCP_PROXY__ISOLATED_BROWSER=firefox
        PW_MCP_PROXY__ISOLATED_ISOLATED=true
    ")]);
    let names: Vec<_> = config.pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["SESSIONLESS", "ISOLATED"], "the default pool comes first");
    assert_eq!(summary(&config.pools[0]), [(Browser::Chromium, true, 30000); 5]);
    assert_eq!(summary(&config.pools[1]), [(Browser::Firefox, false, 30000); 2]);
    assert_eq!(browser(&config.pools[1].instances[1]).profile, Profile::Isolated);
    assert!(!config.pools[1].is_default);
}

const EXAMPLE_3: &str = "
    PW_MCP_PROXY_HEADLESS=true
    PW_MCP_PROXY_BROWSER=chromium
    PW_MCP_PROXY_TIMEOUT=30000
    PW_MCP_PROXY__BROWSERS_INSTANCES=3
    PW_MCP_PROXY__BROWSERS_IS_DEFAULT=true
    PW_MCP_PROXY__BROWSERS__0_BROWSER=msedge
    PW_MCP_PROXY__BROWSERS__0_ALIAS=edge_main
    PW_MCP_PROXY__BROWSERS__1_BROWSER=firefox
    PW_MCP_PROXY__BROWSERS__1_ALIAS=firefox_debug
    PW_MCP_PROXY__BROWSERS__1_HEADLESS=false
";

#[test]
fn example_3_all_three_levels() {
    let config = loaded(vec![env(EXAMPLE_3)]);
    let pool = &config.pools[0];
    assert_eq!(
        summary(pool),
        [(Browser::Edge, true, 30000), (Browser::Firefox, false, 30000), (Browser::Chromium, true, 30000)]
    );
    let aliases: Vec<_> = pool.instances.iter().map(|instance| instance.alias.as_deref()).collect();
    assert_eq!(aliases, [Some("edge_main"), Some("firefox_debug"), None]);
    let level = |id, key| config.settings.view(Some("BROWSERS"), Some(id)).get(key).level.name();
    assert_eq!(
        [level(0, "BROWSER"), level(0, "HEADLESS"), level(0, "TIMEOUT")],
        ["instance", "global", "global"]
    );
    assert_eq!(
        [level(1, "BROWSER"), level(1, "HEADLESS"), level(1, "TIMEOUT")],
        ["instance", "instance", "global"]
    );
    assert_eq!(
        [level(2, "BROWSER"), level(2, "HEADLESS"), level(2, "TIMEOUT")],
        ["global", "global", "global"]
    );
}

#[test]
fn example_4_windows_browsers_from_wsl() {
    let config = loaded(vec![env("
        PW_MCP_PROXY_WSL_WINDOWS=true
        PW_MCP_PROXY_BROWSER=msedge
        PW_MCP_PROXY_HEADLESS=false
        PW_MCP_PROXY__WINDOWS_INSTANCES=2
        PW_MCP_PROXY__WINDOWS_IS_DEFAULT=true
    ")]);
    assert_eq!(summary(&config.pools[0]), [(Browser::Edge, false, 30000); 2]);
    assert!(config.pools[0].instances.iter().all(|instance| browser(instance).wsl_windows));
}

#[test]
fn example_5_pools_that_share_global_defaults() {
    let config = loaded(vec![env(r#"
        PW_MCP_PROXY_HEADLESS=true
        PW_MCP_PROXY_TIMEOUT=60000
        PW_MCP_PROXY__CHROMIUM_INSTANCES=5
        PW_MCP_PROXY__CHROMIUM_IS_DEFAULT=true
        PW_MCP_PROXY__CHROMIUM_BROWSER=chromium
        PW_MCP_PROXY__CHROMIUM_DESCRIPTION="General-purpose web scraping and navigation"
        PW_MCP_PROXY__FIREFOX_INSTANCES=3
        PW_MCP_PROXY__FIREFOX_BROWSER=firefox
        PW_MCP_PROXY__FIREFOX_DESCRIPTION="Cross-browser compatibility testing"
        PW_MCP_PROXY__WEBKIT_INSTANCES=2
        PW_MCP_PROXY__WEBKIT_BROWSER=webkit
        PW_MCP_PROXY__WEBKIT_DESCRIPTION="Mobile Safari and WebKit-specific testing"
    "#)]);
    let described: Vec<_> =
        config.pools.iter().map(|pool| (pool.name.as_str(), pool.description.as_str())).collect();
    assert_eq!(
        described,
        [
            ("CHROMIUM", "General-purpose web scraping and navigation"),
            ("FIREFOX", "Cross-browser compatibility testing"),
            ("WEBKIT", "Mobile Safari and WebKit-specific testing"),
        ]
    );
    assert_eq!(summary(&config.pools[0]), [(Browser::Chromium, true, 60000); 5]);
    assert_eq!(summary(&config.pools[1]), [(Browser::Firefox, true, 60000); 3]);
    assert_eq!(summary(&config.pools[2]), [(Browser::Webkit, true, 60000); 2]);
}

#[rstest]
#[case::all_global(
    "PW_MCP_PROXY_HEADLESS=false\nPW_MCP_PROXY_BROWSER=firefox\nPW_MCP_PROXY_WSL_WINDOWS=true
     PW_MCP_PROXY__DEFAULT_INSTANCES=1\nPW_MCP_PROXY__DEFAULT_IS_DEFAULT=true"
)]
#[case::in_the_pool(
    "PW_MCP_PROXY__DEFAULT_INSTANCES=1\nPW_MCP_PROXY__DEFAULT_IS_DEFAULT=true
     PW_MCP_PROXY__DEFAULT_HEADLESS=false\nPW_MCP_PROXY__DEFAULT_BROWSER=firefox
     PW_MCP_PROXY__DEFAULT_WSL_WINDOWS=true"
)]
fn both_ways_to_migrate_mean_the_same(#[case] text: &str) {
    let config = loaded(vec![env(text)]);
    assert_eq!(summary(&config.pools[0]), [(Browser::Firefox, false, 30000)]);
    assert!(browser(&config.pools[0].instances[0]).wsl_windows);
}

#[test]
fn former_names_are_not_read_and_said_to_be_so() {
    let config = loaded(vec![env("PLAYWRIGHT_HEADLESS=false\nPLAYWRIGHT_BROWSERS_PATH=x")]);
    assert!(browser(&config.pools[0].instances[0]).headless);
    assert_eq!(
        config.settings.notes(),
        ["PLAYWRIGHT_HEADLESS is not read; its name is PW_MCP_PROXY_HEADLESS now (docs/migration.md)"]
    );
}

#[test]
fn every_startup_error_is_reported_in_its_words_and_all_at_once() {
    insta::assert_snapshot!(mistakes(vec![env("
        PW_MCP_PROXY_INSTANCES=2
        PW_MCP_PROXY_IS_DEFAULT=true
        PW_MCP_PROXY_ALIAS=x
        PW_MCP_PROXY__NOCOUNT_BROWSER=firefox
        PW_MCP_PROXY__A_INSTANCES=3
        PW_MCP_PROXY__A_IS_DEFAULT=true
        PW_MCP_PROXY__A__5_BROWSER=firefox
        PW_MCP_PROXY__A__0_ALIAS=same
        PW_MCP_PROXY__A__1_ALIAS=same
        PW_MCP_PROXY__A__2_ALIAS=123
        PW_MCP_PROXY__A__2_INSTANCES=4
        PW_MCP_PROXY__A__2_IS_DEFAULT=true
        PW_MCP_PROXY__A_ALIAS=whole
        PW_MCP_PROXY__A_HTTP_PORT=1
        PW_MCP_PROXY__B_INSTANCES=many
        PW_MCP_PROXY__B_IS_DEFAULT=true
        PW_MCP_PROXY__B_BROWSR=firefox
        PW_MCP_PROXY__B__X_BROWSER=firefox
        PW_MCP_PROXY__B__BROWSER=firefox
        PW_MCP_PROXY__c_BROWSER=firefox
        PW_MCP_PROXY__QQQQ=1
    ")]));
}

#[test]
fn no_default_pool_is_an_error_even_with_one_pool() {
    assert_eq!(
        mistakes(vec![env("PW_MCP_PROXY__A_INSTANCES=1")]),
        "IS_DEFAULT: No default pool defined. Set one pool's IS_DEFAULT=true, such as \
         PW_MCP_PROXY__A_IS_DEFAULT=true."
    );
}

#[test]
fn a_file_says_the_same_as_variables() {
    let config = loaded(vec![toml(
        "[defaults]\nheadless = true\ntimeout = 30000\n\
         [pools.BROWSERS]\ninstances.count = 3\nis_default = true\n\
         [pools.BROWSERS.instances.0]\nbrowser = \"msedge\"\nalias = \"edge_main\"\n\
         [pools.BROWSERS.instances.1]\nbrowser = \"firefox\"\nalias = \"firefox_debug\"\nheadless = false\n",
    )]);
    assert_eq!(summary(&config.pools[0]), summary(&loaded(vec![env(EXAMPLE_3)]).pools[0]));
    let short =
        loaded(vec![toml("[pools.A]\ninstances = 2\nis_default = true\ncaps = [\"tracing\", \"devtools\"]")]);
    assert_eq!(short.pools[0].instances.len(), 2);
    assert_eq!(browser(&short.pools[0].instances[0]).caps, ["devtools"]);
}

#[test]
fn mistakes_in_a_file_name_their_place() {
    insta::assert_snapshot!(mistakes(vec![toml(
        "[server]\ninstances = 1\n[defaults]\nlease_timeout = \"long\"\n[pools.small]\ninstances = 1\n\
         [pools.A]\ninstances.x.browser = \"chrome\"\nhttp_port = 3\nfoo = 1\n[pools.A.instances.0]\nis_default = true\n",
    )]));
}

#[test]
fn the_nearer_level_wins_whatever_its_source() {
    let config = loaded(vec![
        toml("[pools.A]\ninstances = 1\nis_default = true\nbrowser = \"firefox\""),
        env("PW_MCP_PROXY_BROWSER=webkit\nGREENROOM__A_TIMEOUT=7"),
    ]);
    assert_eq!(summary(&config.pools[0]), [(Browser::Firefox, true, 7)]);
}

#[test]
fn pool_names_may_contain_underscores_and_look_like_keys() {
    let config = loaded(vec![env("
        PW_MCP_PROXY__MY_TIMEOUT_POOL_INSTANCES=1
        PW_MCP_PROXY__MY_TIMEOUT_POOL_IS_DEFAULT=true
        PW_MCP_PROXY__MY_TIMEOUT_POOL_TIMEOUT_ACTION=5
        PW_MCP_PROXY__MY_TIMEOUT_POOL__0_TIMEOUT_NAVIGATION=6
        PW_MCP_PROXY__HEADLESS_INSTANCES=1
        PW_MCP_PROXY__HEADLESS_HEADLESS=false
    ")]);
    let first = browser(&pool(&config, "MY_TIMEOUT_POOL").instances[0]);
    assert_eq!((first.timeout_action.as_millis(), first.timeout_navigation.as_millis()), (5, 6));
    assert!(!browser(&pool(&config, "HEADLESS").instances[0]).headless);
}

#[test]
fn both_prefixes_may_not_contradict_within_a_pool_either() {
    let text = "PW_MCP_PROXY__A_INSTANCES=1\nGREENROOM__A_INSTANCES=2\nGREENROOM__A_IS_DEFAULT=true";
    assert!(mistakes(vec![env(text)]).contains("set to different values"));
}

#[test]
fn without_pools_there_is_one_that_takes_the_global_keys() {
    let config = loaded(vec![env("PW_MCP_PROXY_BROWSER=chrome\nPW_MCP_PROXY_MAX_QUEUE=3")]);
    let [pool] = config.pools.as_slice() else { panic!("one pool") };
    assert_eq!((pool.name.as_str(), pool.is_default, pool.is_implicit), ("DEFAULT", true, true));
    assert_eq!((pool.start, pool.max_queue, pool.lease_timeout), (Start::Lazy, 3, None));
    assert_eq!(browser(&pool.instances[0]).browser, Browser::Chrome);
    assert_eq!(browser(&pool.instances[0]).profile, Profile::Isolated);
}

#[rstest]
#[case("PW_MCP_PROXY__P_ISOLATED=true", Profile::Isolated)]
#[case("PW_MCP_PROXY__P__1_ISOLATED=true", Profile::Isolated)]
#[case("PW_MCP_PROXY_ISOLATED=true\nPW_MCP_PROXY__P__1_ISOLATED=false", Profile::Kept)]
#[case("PW_MCP_PROXY_USER_DATA_DIR=/u", Profile::At(PathBuf::from("/u/P/1")))]
#[case("PW_MCP_PROXY__P_USER_DATA_DIR=/u", Profile::At(PathBuf::from("/u/1")))]
#[case("PW_MCP_PROXY__P__1_USER_DATA_DIR=/u", Profile::At(PathBuf::from("/u")))]
fn every_instance_has_a_profile_of_its_own(#[case] text: &str, #[case] profile: Profile) {
    let text = format!("PW_MCP_PROXY__P_INSTANCES=2\nPW_MCP_PROXY__P_IS_DEFAULT=true\n{text}");
    assert_eq!(browser(&loaded(vec![env(&text)]).pools[0].instances[1]).profile, profile);
}

#[test]
fn an_only_browser_keeps_a_profile_when_it_is_told_where() {
    let config = loaded(vec![env("PW_MCP_PROXY_USER_DATA_DIR=/u")]);
    assert_eq!(browser(&config.pools[0].instances[0]).profile, Profile::At(PathBuf::from("/u")));
}

#[test]
fn keys_that_need_others_say_so_once() {
    let text = "PW_MCP_PROXY__P_INSTANCES=3\nPW_MCP_PROXY__P_IS_DEFAULT=true
        PW_MCP_PROXY__P_STORAGE_STATE=/s.json\nPW_MCP_PROXY__P_PROXY_BYPASS=localhost";
    insta::assert_snapshot!(mistakes(vec![env(text)]));
}

#[rstest]
#[case("ALLOWED_ORIGINS=example.com", "is not an origin")]
#[case("BLOCKED_ORIGINS=https://a.example/path", "is not an origin")]
#[case("PROXY_SERVER=ftp://x", "is not the address of a proxy")]
#[case("IMAGE_RESPONSES=some", "is not one of its values")]
#[case("TOOLS=,", "it is empty")]
fn values_of_the_wrong_kind_are_mistakes(#[case] text: &str, #[case] problem: &str) {
    let found = mistakes(vec![env(&format!("PW_MCP_PROXY_{text}"))]);
    assert!(found.contains(problem), "{found}");
}

#[test]
fn what_playwright_mcp_users_set_arrives() {
    let config = loaded(vec![env("
        PW_MCP_PROXY_DEVICE=iPhone 15
        PW_MCP_PROXY_USER_AGENT=me/1
        PW_MCP_PROXY_STORAGE_STATE=/s.json
        PW_MCP_PROXY_ALLOWED_ORIGINS=https://a.example;http://localhost:*
        PW_MCP_PROXY_BLOCKED_ORIGINS=https://b.example,https://c.example
        PW_MCP_PROXY_PROXY_SERVER=socks5://p:1
        PW_MCP_PROXY_PROXY_BYPASS=localhost
        PW_MCP_PROXY_IMAGE_RESPONSES=omit
        PW_MCP_PROXY_INIT_SCRIPT=a.js, b.js
        PW_MCP_PROXY_TOOLS=browser_*
        PW_MCP_PROXY_HIDE_TOOLS=browser_evaluate,browser_*file*
    ")]);
    let pool = &config.pools[0];
    let set = browser(&pool.instances[0]);
    assert_eq!((set.device.as_deref(), set.user_agent.as_deref()), (Some("iPhone 15"), Some("me/1")));
    assert_eq!(set.allowed_origins, ["https://a.example", "http://localhost:*"]);
    assert_eq!(set.blocked_origins, ["https://b.example", "https://c.example"]);
    assert_eq!(
        (set.proxy_server.as_deref(), set.proxy_bypass.as_deref()),
        (Some("socks5://p:1"), Some("localhost"))
    );
    assert_eq!(set.image_responses.name(), "omit");
    assert_eq!(set.init_scripts, [PathBuf::from("a.js"), PathBuf::from("b.js")]);
    let shown = |tool| pool.tools.shows(tool);
    assert!(shown("browser_navigate") && !shown("browser_evaluate") && !shown("navigate"));
    assert!(!shown("browser_file_upload") && !shown("browser_upload_file"));
}

#[test]
fn instances_beyond_the_configured_ones_follow_the_pool() {
    let config = loaded(vec![env(EXAMPLE_3)]);
    let further = config.pools[0].instance(7).unwrap();
    assert_eq!((further.id, further.alias.as_deref()), (7, None));
    assert_eq!(browser(&further).browser, Browser::Chromium);
    assert_eq!(config.pools[0].instance(0).unwrap().alias.as_deref(), Some("edge_main"));
}

#[test]
fn chrome_devtools_is_a_driver_of_a_pool_and_takes_what_it_can_do() {
    let config = loaded(vec![env(
        "PW_MCP_PROXY_CAPS=pdf\nPW_MCP_PROXY_TIMEOUT=1000\nPW_MCP_PROXY__A_INSTANCES=1\nPW_MCP_PROXY__A_IS_DEFAULT=true
        PW_MCP_PROXY__DEV_INSTANCES=2\nPW_MCP_PROXY__DEV_DRIVER=chrome-devtools\nPW_MCP_PROXY__DEV_BROWSER=chrome
        PW_MCP_PROXY__DEV_VIEWPORT_SIZE=800x600\nPW_MCP_PROXY__DEV_USER_AGENT=mine",
    )]);
    assert_eq!(browser(&pool(&config, "A").instances[0]).caps, ["pdf"]);
    let driver = &pool(&config, "DEV").instances[1].upstream.driver;
    // What stands farther away than the driver is for the other pools.
    let Driver::ChromeDevtools(browser) = driver else { panic!("expected chrome-devtools, got {driver:?}") };
    assert_eq!((browser.browser, browser.viewport), (Browser::Chrome, Some((800, 600))));
    assert!(driver.has_pages());
}

#[test]
fn what_chrome_devtools_cannot_do_is_a_mistake_where_it_is_meant_for_it() {
    let shown = mistakes(vec![env(
        "PW_MCP_PROXY_BLOCKED_ORIGINS=https://x.example\nPW_MCP_PROXY_DEVICE=Pixel 7
        PW_MCP_PROXY__DEV_INSTANCES=1\nPW_MCP_PROXY__DEV_IS_DEFAULT=true\nPW_MCP_PROXY__DEV_DRIVER=chrome-devtools
        PW_MCP_PROXY__DEV_BROWSER=firefox\nPW_MCP_PROXY__DEV_CAPS=pdf\nPW_MCP_PROXY__DEV__0_INIT_SCRIPT=/x.js",
    )]);
    insta::assert_snapshot!(shown);
    let everywhere = mistakes(vec![env("PW_MCP_PROXY_DRIVER=chrome-devtools\nPW_MCP_PROXY_DEVICE=Pixel 7")]);
    assert!(everywhere.contains("DEVICE") && everywhere.contains("DRIVER=playwright"), "{everywhere}");
}
