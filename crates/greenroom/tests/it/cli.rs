//! The command line: messages, exit codes, and a reference that cannot drift.

use std::path::Path;
use std::process::Output;

use crate::rig::{greenroom, with_fake};

fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    greenroom(folder.path()).args(arguments).envs(variables.iter().copied()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_bad_configuration_exits_2_with_every_mistake() {
    let variables =
        [("PW_MCP_PROXY_HTTP_PORT", "x"), ("GREENROOM_HEADLES", "true"), ("GREENROOM_TIMEOUT", "-1")];
    for arguments in [&["config", "check"][..], &["serve"], &["mcp"], &["install"]] {
        let output = run(arguments, &variables);
        let shown = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{shown}");
        for word in ["3 mistakes", "PW_MCP_PROXY_HTTP_PORT", "`GREENROOM_HEADLESS`?", "GREENROOM_TIMEOUT"] {
            assert!(shown.contains(word), "{word} in {shown}");
        }
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn the_effective_configuration_names_the_source_of_each_value() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("greenroom.toml"), "[defaults]\nheadless = false\n").unwrap();
    std::fs::write(folder.path().join(".env"), "PW_MCP_PROXY_TIMEOUT=7000\nOTHER=1\n").unwrap();
    let output = greenroom(folder.path())
        .args(["config", "show", "--log", "warn"])
        .env("GREENROOM_BROWSER", "chrome")
        .output()
        .unwrap();
    let shown = text(&output.stdout);
    let line =
        |key: &str| shown.lines().find(|line| line.starts_with(&format!("{key} "))).unwrap().to_owned();
    assert!(line("HEADLESS").contains("false") && line("HEADLESS").contains("greenroom.toml"), "{shown}");
    assert!(line("TIMEOUT").contains("7000") && line("TIMEOUT").contains(".env"), "{shown}");
    assert!(line("BROWSER").contains("chrome") && line("BROWSER").contains("environment"), "{shown}");
    assert!(line("LOG").contains("warn") && line("LOG").contains("command line"), "{shown}");
    assert!(line("HTTP_PORT").contains("34501") && line("HTTP_PORT").contains("built-in"), "{shown}");
    let json = run(&["config", "show", "--json"], &[]);
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["HTTP_PORT"]["value"], "34501");
}

#[test]
fn a_configuration_file_that_is_not_there_is_named() {
    let output = run(&["config", "check", "--config", "missing.toml"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("missing.toml"));
}

#[test]
fn configuration_that_cannot_be_read_is_a_mistake_and_not_ignored() {
    let check = |prepare: &dyn Fn(&Path)| {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        let output = greenroom(folder.path()).args(["config", "check"]).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (code, shown) =
        check(&|folder| std::fs::write(folder.join("greenroom.toml"), b"# caf\xe9\n").unwrap());
    assert!(code == Some(2) && shown.contains("greenroom.toml"), "{shown}");
    let (code, shown) = check(&|folder| std::fs::create_dir(folder.join("greenroom.toml")).unwrap());
    assert!(code == Some(2) && shown.contains("greenroom.toml"), "{shown}");
    let (code, shown) =
        check(&|folder| std::fs::write(folder.join(".env"), "GREENROOM_LOG=\"debug\n").unwrap());
    assert!(code == Some(2) && shown.contains("GREENROOM_LOG"), "{shown}");
    let (code, _) = check(&|folder| std::fs::write(folder.join(".env"), "SOMEBODY_ELSES=\"open\n").unwrap());
    assert_eq!(code, Some(0));
    for (name, value) in [
        ("GREENROOM_LOG", "a=b=c"),
        ("GREENROOM_HEALTH_CHECK_TIMEOUT", "0"),
        ("GREENROOM_START_TIMEOUT", "0"),
    ] {
        let output = run(&["config", "check"], &[(name, value)]);
        assert_eq!(output.status.code(), Some(2), "{name}={value}");
    }
}

#[test]
fn a_taken_port_exits_4_and_says_what_to_do() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let folder = tempfile::tempdir().unwrap();
    let output = with_fake(greenroom(folder.path()), "").args(["serve", "--port", &port]).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains("--port"), "{}", text(&output.stderr));
}

#[test]
fn a_missing_server_with_no_install_exits_3_and_names_the_command() {
    let output = run(&["serve", "--port", "0", "--no-install"], &[]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("greenroom install"), "{}", text(&output.stderr));
}

#[test]
fn no_node_exits_3_and_names_the_command() {
    let output = run(&["install"], &[("PATH", "/nowhere")]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("apt-get install nodejs"), "{}", text(&output.stderr));
}

#[test]
fn the_version_and_the_exit_codes_are_told() {
    assert!(text(&run(&["--version"], &[]).stdout).starts_with("greenroom "));
    assert!(text(&run(&["--help"], &[]).stdout).contains("Exit codes"));
}

/// Replaces what stands between the two markers when `UPDATE_DOCS` is set; otherwise it must be what the code says.
#[test]
fn the_reference_of_keys_in_the_docs_is_what_the_code_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- keys: begin -->\n", "<!-- keys: end -->");
    let (before, rest) = page.split_once(begin).expect("the page has a place for the reference");
    let (_, after) = rest.split_once(end).expect("the place has an end");
    let reference = greenroom_core::config::reference_markdown();
    let fresh = format!("{before}{begin}{reference}{end}{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    } else {
        assert!(
            page == fresh,
            "docs/configuration.md is behind; run UPDATE_DOCS=1 cargo test -p greenroom reference"
        );
    }
}
