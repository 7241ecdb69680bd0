//! The Windows Node run from WSL, with stubs for what Windows and WSL bring: a `node.exe` that is the Node of this
//! machine behind a relay, `wslpath` and `taskkill.exe`. What is `/a/b` here is `Z:\a\b` over there.

use std::fs;
use std::path::{Path, PathBuf};

use greenroom_core::config::{Browser, BrowserConfig, Profile, UpstreamConfig};
use greenroom_testkit::{children_of, process_alive};
use greenroom_upstream::driver::{PlaywrightDriver, PlaywrightSetup, WindowsError};
use greenroom_upstream::install::{Installer, Interop, Machine};
use greenroom_upstream::{LaunchError, Upstream};
use serde_json::{Value, json};

use crate::room::{Room, browser, browser_pid, browser_program, installed, said, test_data};
use crate::support::{gone, launch, launch_error, soon, write_program};

/// Passes frames on with the paths as this machine has them, and keeps what came.
const RELAY: &str = r#"
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const here = text => {
  if (text.startsWith('Z:\\'))
    return text.slice(2).replaceAll('\\', '/');
  return text.startsWith('file:///Z:/') ? 'file://' + text.slice('file:///Z:'.length) : text;
};
const [script, ...rest] = process.argv.slice(2);
const { FrameReader, encodeFrame } = require(here(script));
const child = spawn(process.execPath, [here(script), ...rest], { stdio: ['pipe', 'inherit', 'inherit'] });
const { pid } = child;
fs.writeFileSync(`${LOGS}/start.json`, JSON.stringify({ pid, argv: process.argv.slice(2), env: process.env }));
const reader = new FrameReader();
process.stdin.on('data', chunk => {
  for (const { kind, context, payload } of reader.push(chunk)) {
    fs.appendFileSync(`${LOGS}/frames`, payload + '\n');
    const message = JSON.parse(payload, (_, value) => typeof value === 'string' ? here(value) : value);
    child.stdin.write(encodeFrame(kind, context, message));
  }
});
process.stdin.on('end', () => child.stdin.end());
child.on('exit', code => process.exit(code ?? 1));
"#;

/// A room on a machine that looks like WSL.
struct Wsl {
    room: Room,
}

impl Wsl {
    async fn enter() -> Self {
        let wsl = Self { room: Room::enter().await };
        fs::create_dir(wsl.bin()).expect("the folder is new");
        let logs = wsl.room.folder.path().display();
        let node = installed().await.node;
        let relay = format!("#!{}\nconst LOGS = '{logs}';\n{RELAY}", node.display());
        write_program(&wsl.bin().join("node.exe"), &relay);
        let wslpath = "[ \"$1\" = -w ] && [ -e \"$2\" ] || { echo \"wslpath: $2: no such thing\" >&2; exit 1; }\n\
                       printf 'Z:%s\\n' \"$2\" | /usr/bin/tr / '\\\\'";
        write_program(&wsl.bin().join("wslpath"), &format!("#!/bin/sh\n{wslpath}\n"));
        let taskkill = format!("echo \"$*\" >> '{logs}/kills'\nkill -s KILL \"$2\"");
        write_program(&wsl.bin().join("taskkill.exe"), &format!("#!/bin/sh\n{taskkill}\n"));
        wsl
    }

    fn bin(&self) -> PathBuf {
        self.room.folder.path().join("bin")
    }

    fn driver(&self, config: BrowserConfig) -> PlaywrightDriver {
        let interop = Interop { drive: self.room.folder.path().join("c"), wslenv: "EXISTING/p".to_owned() };
        let machine = Machine {
            path: self.bin().into(),
            playwright_cache: None,
            is_root: true,
            is_debian: true,
            windows: Some(interop),
        };
        // Nothing may be installed: the packages are there, and a browser is not looked for.
        let installer = Installer::new(test_data(), machine, false, |_| {});
        let mut settings = self.room.settings();
        settings.env.push(("GREETING".to_owned(), "hello there".to_owned()));
        PlaywrightDriver::new(config, &settings, PlaywrightSetup { installer, ..self.room.setup() })
    }

    async fn launch(&self, config: BrowserConfig) -> Upstream {
        launch(&self.driver(config)).await
    }

    /// How `node.exe` was started, and the number of its process.
    fn start(&self) -> Value {
        let text = fs::read_to_string(self.room.folder.path().join("start.json")).expect("it was started");
        serde_json::from_str(&text).expect("it is JSON")
    }

    /// The messages that reached Windows.
    fn frames(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.room.folder.path().join("frames")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
    }

    fn frame(&self, op: &str) -> Value {
        self.frames().into_iter().find(|frame| frame["op"] == op).unwrap_or_else(|| panic!("no {op}"))
    }

    fn kills(&self) -> String {
        fs::read_to_string(self.room.folder.path().join("kills")).unwrap_or_default()
    }
}

fn over_there(path: &Path) -> String {
    format!("Z:{}", path.display()).replace('/', "\\")
}

fn on_windows() -> BrowserConfig {
    BrowserConfig { wsl_windows: true, ..browser() }
}

/// With a browser that the stub can start: this machine's own.
async fn with_program() -> BrowserConfig {
    BrowserConfig { executable_path: Some(browser_program().await), no_sandbox: Some(true), ..on_windows() }
}

#[tokio::test]
async fn the_tunnel_works_through_pipes_and_every_path_is_one_of_windows() {
    let wsl = Wsl::enter().await;
    let room = &wsl.room;
    let (script, state) = (room.workspace().join("init.js"), room.folder.path().join("state.json"));
    fs::write(&script, "window.greeting = 'hello'").unwrap();
    fs::write(&state, json!({ "cookies": [], "origins": [] }).to_string()).unwrap();
    let config = BrowserConfig {
        init_scripts: vec![script.clone()],
        storage_state: Some(state.clone()),
        ..with_program().await
    };
    let upstream = wsl.launch(config).await;
    assert_eq!(soon("the list", upstream.list_tools()).await.unwrap().len(), 25);
    room.navigate(&upstream, "/links").await.fine();
    let greeting = json!({ "function": "() => window.greeting" });
    let greeting = said(&upstream, "browser_evaluate", greeting).await.fine();
    assert_eq!(greeting.section("Result").trim_end(), "\"hello\"");

    let started = wsl.start();
    let host_script = installed().await.script;
    assert_eq!(started["argv"], json!([over_there(&host_script), "--pipes"]));
    assert_eq!(started["env"]["WSLENV"], "EXISTING/p:TMPDIR/w:GREETING/w");
    assert_eq!(started["env"]["GREETING"], "hello there");
    let start = wsl.frame("start");
    assert_eq!(start["mcp"]["outputDir"], over_there(&room.output()));
    assert_eq!(start["mcp"]["browser"]["initScript"], json!([over_there(&script)]));
    assert_eq!(start["launch"]["options"]["executablePath"], over_there(&browser_program().await));
    assert_eq!(wsl.frame("open")["options"]["storageState"], over_there(&state));
    let answers: Vec<_> =
        wsl.frames().iter().map(|frame| frame["result"]["roots"][0]["uri"].clone()).collect();
    let root = format!("file:///Z:{}", room.workspace().display());
    assert!(answers.contains(&json!(root)), "{answers:?}");
}

#[tokio::test]
async fn a_profile_is_named_as_windows_does_and_kept() {
    let wsl = Wsl::enter().await;
    let config = BrowserConfig { profile: Profile::Kept, ..with_program().await };
    for _ in 0..2 {
        let upstream = wsl.launch(config.clone()).await;
        wsl.room.navigate(&upstream, "/links").await.fine();
        soon("the end", upstream.close()).await;
    }
    assert_eq!(wsl.frame("open")["options"]["userDataDir"], over_there(&wsl.room.profile()));
    assert!(wsl.room.profile().join("Default").is_dir());
}

#[tokio::test]
async fn windows_finds_the_browser_and_root_here_is_nobody_there() {
    let wsl = Wsl::enter().await;
    for (browser, channel) in [
        (Browser::Chromium, Value::Null),
        (Browser::Chrome, json!("chrome")),
        (Browser::Edge, json!("msedge")),
    ] {
        let upstream = wsl.launch(BrowserConfig { browser, ..on_windows() }).await;
        let options = wsl.frame("start")["launch"]["options"].clone();
        assert_eq!((&options["channel"], &options["executablePath"]), (&channel, &Value::Null));
        assert_eq!(options["chromiumSandbox"], true);
        soon("the end", upstream.close()).await;
        fs::remove_file(wsl.room.folder.path().join("frames")).unwrap();
    }
    // A program may be named as Windows names it.
    let program = r"C:\Tools\browser.exe";
    let config = BrowserConfig { executable_path: Some(program.into()), ..on_windows() };
    let _upstream = wsl.launch(config).await;
    assert_eq!(wsl.frame("start")["launch"]["options"]["executablePath"], program);
}

#[tokio::test]
async fn a_relay_that_is_killed_takes_its_tree_along_and_one_that_exits_needs_no_help() {
    let wsl = Wsl::enter().await;
    for in_order in [true, false] {
        let upstream = wsl.launch(with_program().await).await;
        wsl.room.navigate(&upstream, "/links").await.fine();
        let relay = upstream.pid().unwrap();
        let node = u32::try_from(wsl.start()["pid"].as_u64().unwrap()).unwrap();
        assert!(process_alive(node) && browser_pid(relay).is_some());
        let family = children_of(relay);
        if in_order {
            soon("the end", upstream.close()).await;
            assert!(!process_alive(node));
            assert_eq!(wsl.kills(), "");
        } else {
            let ended = upstream.ended();
            drop(upstream);
            soon("the end", ended).await;
            let expected = format!("/PID {node} /T /F\n");
            crate::support::eventually("taskkill.exe to be run", || wsl.kills() == expected).await;
        }
        for pid in family {
            gone(pid).await;
        }
    }
}

#[tokio::test]
async fn what_windows_cannot_reach_or_wsl_does_not_have_is_said() {
    let wsl = Wsl::enter().await;
    let missing = BrowserConfig { executable_path: Some("/no/such/browser.exe".into()), ..on_windows() };
    let error = launch_error(&wsl.driver(missing)).await;
    assert!(matches!(error, LaunchError::Windows(WindowsError::Path { .. })), "{error:?}");
    let shown = error.to_string();
    assert!(shown.contains("/no/such/browser.exe (`wslpath` said: wslpath: "), "{shown}");
    assert!(error.needs_a_person());
    fs::remove_file(wsl.bin().join("wslpath")).unwrap();
    let error = launch_error(&wsl.driver(on_windows())).await;
    assert!(matches!(error, LaunchError::Windows(WindowsError::NoWslpath)), "{error:?}");
    fs::remove_file(wsl.bin().join("node.exe")).unwrap();
    let error = launch_error(&wsl.driver(on_windows())).await;
    assert!(matches!(error, LaunchError::Install(_)), "{error:?}");
}

#[tokio::test]
async fn elsewhere_than_on_wsl_it_is_refused() {
    let room = Room::enter().await;
    let machine = Machine { windows: None, ..Machine::this() };
    let installer = Installer::new(test_data(), machine, false, |_| {});
    let setup = PlaywrightSetup { installer, ..room.setup() };
    let settings: UpstreamConfig = room.settings();
    let error = launch_error(&PlaywrightDriver::new(on_windows(), &settings, setup)).await;
    assert!(error.to_string().contains("this is not WSL"), "{error}");
    assert!(error.needs_a_person());
}
