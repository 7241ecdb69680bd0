//! The examples of the specification, as `greenroom config` shows them.

use crate::rig::greenroom;

/// Runs `greenroom config COMMAND` with lines of `NAME=value`; exit code, stdout, stderr.
fn config(command: &str, variables: &str) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let lines = variables.lines().map(str::trim).filter(|line| !line.is_empty());
    let pairs = lines.map(|line| line.split_once('=').expect("NAME=value"));
    let output = greenroom(folder.path()).args(["config", command]).envs(pairs).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// The rows of a pool's table: instance, browser, headless, timeout, source.
fn rows(variables: &str, pool: &str) -> Vec<[String; 5]> {
    let (code, shown, complaints) = config("show", variables);
    assert_eq!(code, 0, "{complaints}");
    let (_, table) = shown.split_once(&format!("POOL {pool}")).unwrap_or_else(|| panic!("{pool} in {shown}"));
    let lines = table.lines().skip(1).take_while(|line| !line.is_empty());
    let cells = |line: &str| -> [String; 5] {
        let cells: Vec<_> =
            line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect();
        cells.try_into().unwrap_or_else(|cells| panic!("five cells, not {cells:?}"))
    };
    let mut rows: Vec<_> = lines.map(cells).collect();
    assert_eq!(
        rows.remove(0).map(|cell| cell.to_ascii_lowercase()),
        ["instance", "browser", "headless", "timeout", "source"]
    );
    rows
}

fn row(text: &str) -> [String; 5] {
    let cells: Vec<_> = text.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    cells.try_into().expect("a row of five")
}

#[test]
fn example_1_is_three_headless_chromiums() {
    let variables = "
        PW_MCP_PROXY_HEADLESS=true
        PW_MCP_PROXY_BROWSER=chromium
        PW_MCP_PROXY_TIMEOUT=30000
        PW_MCP_PROXY__DEFAULT_INSTANCES=3
        PW_MCP_PROXY__DEFAULT_IS_DEFAULT=true";
    let expected = ["0", "1", "2"].map(|id| row(&format!("| {id} | chromium | true | 30000 | all=global |")));
    assert_eq!(rows(variables, "DEFAULT (default): instances: 3"), expected);
}

#[test]
fn example_2_is_five_headless_chromiums_and_two_headed_firefoxes() {
    let variables = "
        PW_MCP_PROXY_HEADLESS=true
        PW_MCP_PROXY_BROWSER=chromium
        PW_MCP_PROXY__SESSIONLESS_INSTANCES=5
        PW_MCP_PROXY__SESSIONLESS_IS_DEFAULT=true
        PW_MCP_PROXY__ISOLATED_INSTANCES=2
        PW_MCP_PROXY__ISOLATED_HEADLESS=false
        PW_MCP_PROXY__ISOLATED_BROWSER=firefox
        PW_MCP_PROXY__ISOLATED_ISOLATED=true";
    let shown = rows(variables, "SESSIONLESS (default): instances: 5");
    assert_eq!(shown.len(), 5);
    assert!(shown.iter().all(|row| row[1..4] == ["chromium", "true", "30000"]), "{shown:?}");
    let shown = rows(variables, "ISOLATED: instances: 2");
    assert_eq!(shown.len(), 2);
    for row in shown {
        assert_eq!(row[1..4], ["firefox", "false", "30000"]);
        assert_eq!(row[4], "browser/headless=pool, timeout=global");
    }
    let (_, shown, _) = config("show", variables);
    let said = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.starts_with(&["ISOLATED", "true", "pool"])
    };
    assert!(shown.lines().any(said), "{shown}");
}

#[test]
fn example_3_is_the_table_of_the_specification() {
    let variables = "
        PW_MCP_PROXY_HEADLESS=true
        PW_MCP_PROXY_BROWSER=chromium
        PW_MCP_PROXY_TIMEOUT=30000
        PW_MCP_PROXY__BROWSERS_INSTANCES=3
        PW_MCP_PROXY__BROWSERS_IS_DEFAULT=true
        PW_MCP_PROXY__BROWSERS__0_BROWSER=msedge
        PW_MCP_PROXY__BROWSERS__0_ALIAS=edge_main
        PW_MCP_PROXY__BROWSERS__1_BROWSER=firefox
        PW_MCP_PROXY__BROWSERS__1_ALIAS=firefox_debug
        PW_MCP_PROXY__BROWSERS__1_HEADLESS=false";
    let expected = [
        row("| 0 (edge_main) | msedge | true | 30000 | browser=instance, rest=global |"),
        row("| 1 (firefox_debug) | firefox | false | 30000 | browser/headless=instance, timeout=global |"),
        row("| 2 | chromium | true | 30000 | all=global |"),
    ];
    assert_eq!(rows(variables, "BROWSERS (default): instances: 3"), expected);
}

#[test]
fn example_4_is_two_headed_edges_on_windows() {
    let variables = "
        PW_MCP_PROXY_WSL_WINDOWS=true
        PW_MCP_PROXY_BROWSER=msedge
        PW_MCP_PROXY_HEADLESS=false
        PW_MCP_PROXY__WINDOWS_INSTANCES=2
        PW_MCP_PROXY__WINDOWS_IS_DEFAULT=true";
    let shown = rows(variables, "WINDOWS (default): instances: 2");
    assert_eq!(shown.len(), 2);
    for row in shown {
        assert_eq!(row[1..], ["msedge", "false", "30000", "all=global"]);
    }
    let (_, shown, _) = config("show", variables);
    let line = shown.lines().find(|line| line.starts_with("WSL_WINDOWS ")).expect("a line for it");
    assert!(line.contains("true") && line.contains("environment"), "{line}");
}

#[test]
fn example_5_is_three_pools_with_what_they_are_for() {
    let variables = "
        PW_MCP_PROXY_HEADLESS=true
        PW_MCP_PROXY_TIMEOUT=60000
        PW_MCP_PROXY__CHROMIUM_INSTANCES=5
        PW_MCP_PROXY__CHROMIUM_IS_DEFAULT=true
        PW_MCP_PROXY__CHROMIUM_BROWSER=chromium
        PW_MCP_PROXY__CHROMIUM_DESCRIPTION=General-purpose web scraping and navigation
        PW_MCP_PROXY__FIREFOX_INSTANCES=3
        PW_MCP_PROXY__FIREFOX_BROWSER=firefox
        PW_MCP_PROXY__FIREFOX_DESCRIPTION=Cross-browser compatibility testing
        PW_MCP_PROXY__WEBKIT_INSTANCES=2
        PW_MCP_PROXY__WEBKIT_BROWSER=webkit
        PW_MCP_PROXY__WEBKIT_DESCRIPTION=Mobile Safari and WebKit-specific testing";
    for (pool, browser, count) in [
        (
            "CHROMIUM (default): instances: 5, start: eager (General-purpose web scraping and navigation)",
            "chromium",
            5,
        ),
        ("FIREFOX: instances: 3, start: eager (Cross-browser compatibility testing)", "firefox", 3),
        ("WEBKIT: instances: 2, start: eager (Mobile Safari and WebKit-specific testing)", "webkit", 2),
    ] {
        let shown = rows(variables, pool);
        assert_eq!(shown.len(), count);
        for row in shown {
            assert_eq!(row[1..], [browser, "true", "60000", "browser=pool, rest=global"], "{pool}");
        }
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let variables = "
        PW_MCP_PROXY_INSTANCES=3
        PW_MCP_PROXY__A_INSTANCES=2
        PW_MCP_PROXY__A_IS_DEFAULT=true
        PW_MCP_PROXY__A__5_BROWSER=firefox
        PW_MCP_PROXY__A__0_ALIAS=same
        PW_MCP_PROXY__A__1_ALIAS=same
        PW_MCP_PROXY__B_IS_DEFAULT=true
        PW_MCP_PROXY__C_INSTANCES=1
        PW_MCP_PROXY__C__0_ALIAS=7
        PW_MCP_PROXY__C_HEADLES=true";
    let (code, shown, complaints) = config("check", variables);
    assert_eq!((code, shown.as_str()), (2, ""), "{complaints}");
    for said in [
        "INSTANCES defined globally",
        "Invalid instance ID in override",
        "Duplicate alias in pool",
        "Multiple default pools defined",
        "Pool missing INSTANCES configuration",
        "`7` looks like an instance ID",
        "PW_MCP_PROXY__C_HEADLESS",
    ] {
        assert!(complaints.contains(said), "{said} in {complaints}");
    }
    let (code, _, complaints) = config("check", "PW_MCP_PROXY__A_INSTANCES=1");
    assert!(code == 2 && complaints.contains("No default pool defined"), "{complaints}");
    let (code, shown, _) = config("check", "PW_MCP_PROXY__A_INSTANCES=1\nGREENROOM__A_IS_DEFAULT=true");
    assert_eq!((code, shown.as_str()), (0, "The configuration is right.\n"));
}

#[test]
fn a_former_name_is_noted_and_not_read() {
    let (code, shown, _) = config("show", "PLAYWRIGHT_BROWSER=firefox\nPLAYWRIGHT_HEADLESS=false");
    assert_eq!(code, 0);
    for (former, now) in
        [("PLAYWRIGHT_BROWSER", "PW_MCP_PROXY_BROWSER"), ("PLAYWRIGHT_HEADLESS", "PW_MCP_PROXY_HEADLESS")]
    {
        let note = format!("note: {former} is not read; its name is {now} now");
        assert!(shown.contains(&note), "{note} in {shown}");
    }
    let line = shown.lines().find(|line| line.starts_with("BROWSER ")).unwrap();
    assert!(!line.contains("firefox"), "{line}");
    let server = crate::rig::Server::fake("", &[("PLAYWRIGHT_BROWSER", "firefox")]);
    let noted = || server.log().contains("PLAYWRIGHT_BROWSER is not read");
    greenroom_testkit::wait_until("the log to say so too", super::LIMIT, noted);
}
