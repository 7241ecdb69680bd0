use std::path::PathBuf;
use std::time::Duration;

use rstest::rstest;

use super::{Browser, Config, Driver, Layer, Source, Transport, environment_layer, file_layer, load};

fn env(pairs: &[(&str, &str)]) -> Layer {
    environment_layer(
        Source::Environment,
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())),
    )
}

fn dot_env(pairs: &[(&str, &str)]) -> Layer {
    let source = Source::DotEnv { path: PathBuf::from(".env") };
    environment_layer(source, pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())))
}

fn file(trusted: bool, text: &str) -> Layer {
    file_layer(Source::File { path: PathBuf::from("greenroom.toml"), trusted }, text)
}

fn mistakes(layers: Vec<Layer>) -> Vec<String> {
    match load(layers) {
        Ok(config) => panic!("expected mistakes, got {config:?}"),
        Err(mistakes) => mistakes.iter().map(ToString::to_string).collect(),
    }
}

fn loaded(layers: Vec<Layer>) -> Config {
    load(layers).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn upstream(config: &Config) -> &super::UpstreamConfig {
    &config.pools[0].instances[0].upstream
}

fn browser(config: &Config) -> &super::BrowserConfig {
    match &upstream(config).driver {
        Driver::Playwright(browser) => browser,
        other => panic!("expected Playwright's browser, got {other:?}"),
    }
}

#[test]
fn nothing_set_gives_the_documented_defaults() {
    let config = loaded(vec![]);
    assert_eq!((config.http.host.as_str(), config.http.port), ("127.0.0.1", 34501));
    assert_eq!(upstream(&config).call_timeout, Some(Duration::from_secs(300)));
    assert_eq!(upstream(&config).max_message_bytes, 64 * 1024 * 1024);
    assert_eq!(browser(&config).timeout_action, Duration::from_secs(30));
    assert!(browser(&config).headless);
    assert_eq!(browser(&config).browser, Browser::Chromium);
}

#[test]
fn later_layers_win_and_the_source_of_each_value_is_known() {
    let config = loaded(vec![
        file(true, "[server]\nhttp_port = 1\n[defaults]\nheadless = false\nbrowser = \"chrome\""),
        dot_env(&[("PW_MCP_PROXY_HTTP_PORT", "2"), ("GREENROOM_BROWSER", "msedge")]),
        env(&[("GREENROOM_HTTP_PORT", "3")]),
        Layer::command_line([("HTTP_PORT", "--port", "4".to_owned())]),
    ]);
    assert_eq!(config.http.port, 4);
    assert_eq!(browser(&config).browser, Browser::Edge);
    assert!(!browser(&config).headless);
    let source = |name: &str| config.settings.view(None, None).get(name).source.to_string();
    assert_eq!(source("HTTP_PORT"), "command line");
    assert_eq!(source("BROWSER"), ".env");
    assert_eq!(source("HEADLESS"), "greenroom.toml");
    assert_eq!(source("TIMEOUT"), "built-in");
}

#[test]
fn both_prefixes_mean_the_same_and_may_not_contradict() {
    let same = [("PW_MCP_PROXY_TIMEOUT", "5"), ("GREENROOM_TIMEOUT", "5")];
    assert_eq!(browser(&loaded(vec![env(&same)])).timeout_action, Duration::from_millis(5));
    let different = [("PW_MCP_PROXY_TIMEOUT", "5"), ("GREENROOM_TIMEOUT", "6")];
    insta::assert_snapshot!(mistakes(vec![env(&different)]).join("\n"), @"GREENROOM_TIMEOUT and PW_MCP_PROXY_TIMEOUT: they mean the same and are set to different values. Remove one of them.");
}

#[test]
fn variables_of_other_programs_are_passed_over() {
    loaded(vec![env(&[("PATH", "/bin"), ("PW_MCP_PROX", "x"), ("DEBUG", "1")])]);
}

#[test]
fn all_mistakes_are_reported_at_once_with_their_remedy() {
    let layers = vec![
        file(false, "[server]\nhttp_prot = 1\n[defaults]\nheadless = 3\nlog = \"info\"\n[pool]\nx = 1"),
        env(&[
            ("PW_MCP_PROXY_HTTP_PORT", "99999"),
            ("PW_MCP_PROXY_BROWSR", "chrome"),
            ("PW_MCP_PROXY_TIMEOUT", "soon"),
            ("PW_MCP_PROXY_HTTP_HOST", "0.0.0.0"),
            ("PW_MCP_PROXY_CAPS", "vision,telepathy"),
            ("GREENROOM_VIEWPORT_SIZE", "wide"),
            ("PW_MCP_PROXY__MAIN_INSTANCS", "3"),
            ("GREENROOM_XYZ", "1"),
        ]),
    ];
    insta::assert_snapshot!(mistakes(layers).join("\n"));
}

#[test]
fn a_file_that_merely_lies_around_cannot_name_a_program() {
    let hostile =
        "[defaults]\nexecutable_path = \"./evil\"\nenv = { NODE_OPTIONS = \"--require ./evil.js\" }";
    assert_eq!(mistakes(vec![file(false, hostile)]).len(), 2);
    assert_eq!(mistakes(vec![dot_env(&[("GREENROOM_EXECUTABLE_PATH", "./evil")])]).len(), 1);
    let config = loaded(vec![file(true, hostile)]);
    assert_eq!(browser(&config).executable_path, Some(PathBuf::from("./evil")));
    assert_eq!(upstream(&config).env, [("NODE_OPTIONS".to_owned(), "--require ./evil.js".to_owned())]);
}

#[test]
fn a_custom_upstream_is_a_command_or_an_address_but_not_both() {
    let custom = |pairs: &[(&str, &str)]| {
        let mut all = vec![("GREENROOM_DRIVER", "custom")];
        all.extend_from_slice(pairs);
        load(vec![env(&all)])
    };
    let config = custom(&[("GREENROOM_UPSTREAM_COMMAND", "npx server 'two words'")]).unwrap();
    let Driver::Custom(found) = upstream(&config).driver.clone() else { panic!("a custom driver") };
    let Transport::Stdio { program, args } = found.transport else { panic!("a command") };
    assert_eq!((program.as_str(), args), ("npx", vec!["server".to_owned(), "two words".to_owned()]));
    custom(&[("GREENROOM_UPSTREAM_URL", "http://localhost:9/mcp")]).unwrap();
    custom(&[]).unwrap_err();
    custom(&[("GREENROOM_UPSTREAM_URL", "http://x/"), ("GREENROOM_UPSTREAM_COMMAND", "x")]).unwrap_err();
    custom(&[("GREENROOM_UPSTREAM_COMMAND", "  ")]).unwrap_err();
    load(vec![env(&[("GREENROOM_UPSTREAM_COMMAND", "x")])]).unwrap_err();
}

#[test]
fn a_command_can_be_a_list_in_a_file() {
    let text = "[defaults]\ndriver = \"custom\"\nupstream_command = [\"node\", \"a b.js\"]";
    let Driver::Custom(found) = upstream(&loaded(vec![file(true, text)])).driver.clone() else {
        panic!("custom")
    };
    assert!(matches!(found.transport, Transport::Stdio { args, .. } if args == ["a b.js"]));
}

#[rstest]
#[case("127.0.0.1", true)]
#[case("127.9.9.9", true)]
#[case("::1", true)]
#[case("[::1]", true)]
#[case("localhost", true)]
#[case("LocalHost", true)]
#[case("0.0.0.0", false)]
#[case("::", false)]
#[case("192.168.1.4", false)]
#[case("example.com", false)]
fn only_loopback_may_be_listened_on(#[case] host: &str, #[case] accepted: bool) {
    assert_eq!(load(vec![env(&[("GREENROOM_HTTP_HOST", host)])]).is_ok(), accepted);
}

#[test]
fn zero_means_no_deadline() {
    let config = loaded(vec![env(&[("GREENROOM_CALL_TIMEOUT", "0"), ("GREENROOM_MCP_SESSION_IDLE", "0")])]);
    assert_eq!((upstream(&config).call_timeout, config.http.mcp_session_idle), (None, None));
}

#[test]
fn broken_toml_names_its_line() {
    let found = mistakes(vec![file(true, "[server]\nhttp_port = 1\nhttp_host = \n")]);
    assert!(found[0].starts_with("line 3 of greenroom.toml:"), "{found:?}");
}

#[test]
fn values_of_environment_pairs_are_not_shown() {
    let config = loaded(vec![env(&[("GREENROOM_ENV", "TOKEN=hunter2")])]);
    let shown = config.settings.view(None, None).get("ENV").value.as_ref().unwrap().to_string();
    assert_eq!(shown, "TOKEN=…");
}
