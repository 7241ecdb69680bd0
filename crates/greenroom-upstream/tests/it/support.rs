//! What the modules share: launching the fake server, waiting, and reading results.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use greenroom_core::config::{
    BrowserConfig, CustomConfig, Driver as DriverConfig, Transport, UpstreamConfig, load,
};
use greenroom_core::supervision::Supervision;
use greenroom_testkit::{fake_upstream, process_alive};
use greenroom_upstream::driver::CustomDriver;
use greenroom_upstream::rpc::CallError;
use greenroom_upstream::run_folder::{self, Run};
use greenroom_upstream::{Driver, LaunchError, Upstream};
use serde_json::{Value, json};

pub(crate) const MIB: usize = 1024 * 1024;

/// Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(90);

/// Awaits what must come.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("waited {PATIENCE:?} in vain for: {what}"),
    }
}

/// Polls a condition until it holds, letting the runtime go on meanwhile.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "waited {PATIENCE:?} in vain for: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Asks again and again until there is an answer.
pub(crate) async fn repeat_until<T, F>(what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(what, asking).await
}

/// Calls a tool without arguments until its text is as expected.
pub(crate) async fn call_until(upstream: &Upstream, tool: &str, is_expected: impl Fn(&str) -> bool) {
    let what = format!("the expected answer of {tool}");
    repeat_until(&what, async || is_expected(&call_text(upstream, tool, json!({})).await).then_some(()))
        .await;
}

pub(crate) async fn gone(pid: u32) {
    eventually(&format!("process {pid} to go"), || !process_alive(pid)).await;
}

/// One run for all tests of this process. What an earlier one left, because it was killed, is swept.
pub(crate) fn run() -> Arc<Run> {
    static RUN: OnceLock<Arc<Run>> = OnceLock::new();
    let run = RUN.get_or_init(|| {
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
        run_folder::sweep(folder);
        Arc::new(Run::begin(folder, None).expect("the target folder can be written"))
    });
    Arc::clone(run)
}

/// The settings of an upstream, to be changed by the test that minds.
pub(crate) fn settings() -> UpstreamConfig {
    UpstreamConfig {
        driver: DriverConfig::Custom(CustomConfig { transport: Transport::Http { url: String::new() } }),
        env: Vec::new(),
        call_timeout: None,
        start_timeout: PATIENCE,
        supervision: Supervision::default(),
        max_message_bytes: 64 * MIB,
        allow_unsafe_code: false,
    }
}

/// A browser as it is when nothing is configured.
pub(crate) fn browser_config() -> BrowserConfig {
    let config = load(Vec::new()).expect("the defaults are a configuration");
    match &config.pools[0].instances[0].upstream.driver {
        DriverConfig::Playwright(browser) => BrowserConfig::clone(browser),
        _ => panic!("the default driver is Playwright"),
    }
}

pub(crate) fn stdio_driver(program: &str, args: &[&str], settings: &UpstreamConfig) -> CustomDriver {
    let args = args.iter().map(|&arg| arg.to_owned()).collect();
    let transport = Transport::Stdio { program: program.to_owned(), args };
    CustomDriver::new(&CustomConfig { transport }, settings, run())
}

/// The fake server behind pipes.
pub(crate) fn fake_driver(flags: &[&str], settings: &UpstreamConfig) -> CustomDriver {
    let program = fake_upstream();
    stdio_driver(program.to_str().expect("the target folder has a plain name"), flags, settings)
}

pub(crate) fn http_driver(url: &str, settings: &UpstreamConfig) -> CustomDriver {
    let transport = Transport::Http { url: url.to_owned() };
    CustomDriver::new(&CustomConfig { transport }, settings, run())
}

pub(crate) async fn launch(driver: &dyn Driver) -> Upstream {
    match soon("the launch", driver.launch()).await {
        Ok(upstream) => upstream,
        Err(error) => panic!("the launch failed: {}", chain(&error)),
    }
}

pub(crate) async fn launch_error(driver: &dyn Driver) -> LaunchError {
    match soon("the launch to fail", driver.launch()).await {
        Ok(_) => panic!("the launch worked"),
        Err(error) => error,
    }
}

/// Calls a tool and waits for what comes of it.
pub(crate) async fn call(upstream: &Upstream, tool: &str, arguments: Value) -> Result<Bytes, CallError> {
    let pending = upstream.call(tool, &arguments, None)?;
    soon(tool, pending).await
}

/// The first text of a tool's result.
pub(crate) async fn call_text(upstream: &Upstream, tool: &str, arguments: Value) -> String {
    match call(upstream, tool, arguments).await {
        Ok(result) => text_of(&result),
        Err(error) => panic!("{tool} failed: {}", chain(&error)),
    }
}

pub(crate) fn text_of(result: &[u8]) -> String {
    let value: Value = serde_json::from_slice(result).expect("a result is JSON");
    value["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {value}")).to_owned()
}

pub(crate) async fn call_pid(upstream: &Upstream, tool: &str) -> u32 {
    call_text(upstream, tool, json!({})).await.parse().expect("the tool answers with a process id")
}

/// An error with all its causes, as a person would see it.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let _ = write!(text, ": {deeper}");
        cause = deeper.source();
    }
    text
}

/// The bytes of a tool's result as the fake server prints them, read without any code of ours in between.
pub(crate) fn printed_by_the_fake(tool: &str, arguments: &Value) -> String {
    let mut child = Command::new(fake_upstream())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the fake server was just built");
    let params = json!({ "name": tool, "arguments": arguments });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let mut stdin = child.stdin.take().expect("it is piped");
    writeln!(stdin, "{request}").expect("the fake server reads");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("the fake server prints text");
    drop(stdin);
    child.wait().expect("it ends with its input");
    let result = line.trim_end().strip_prefix("{\"result\":").and_then(|rest| {
        // The SDK's order, which the fake follows: the result first, then the rest of the envelope.
        rest.strip_suffix(",\"jsonrpc\":\"2.0\",\"id\":1}")
    });
    result.unwrap_or_else(|| panic!("not an answer: {line}")).to_owned()
}

/// How many processes have this among their arguments. Tests choose words that nobody else uses.
pub(crate) fn processes_with_argument(word: &str) -> usize {
    let has_word = |pid: u32| {
        let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command_line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    };
    std::fs::read_dir("/proc")
        .expect("/proc is there")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| has_word(pid))
        .count()
}

/// Written by another process: were the file open for writing in this one, a child that another test starts at
/// that moment would hold it open too, and it could not be run ("Text file busy").
pub(crate) fn write_program(path: &std::path::Path, text: &str) {
    let mut shell = Command::new("/bin/sh")
        .args(["-c", "cat > \"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("every system the tests run on has sh");
    shell.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("the shell reads");
    assert!(shell.wait().expect("it is our child").success(), "{} cannot be written", path.display());
}
