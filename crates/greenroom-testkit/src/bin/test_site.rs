//! Serves the test site in the foreground, for a browser to look at by hand: `test-site [--port PORT]`.

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;

use greenroom_testkit::Site;

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            // With stderr gone there is no one to complain to.
            let _ = writeln!(io::stderr().lock(), "test-site: {complaint}");
            ExitCode::from(2)
        }
    }
}

fn serve() -> Result<(), String> {
    let port = parse_port(env::args().skip(1))?;
    let site = Site::start_on(port).map_err(|error| format!("port {port}: {error}"))?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "test site on {}", site.url(""))
        .and_then(|()| stdout.flush())
        .map_err(|error| error.to_string())?;
    drop(stdout);
    loop {
        thread::park();
    }
}

fn parse_port(mut args: impl Iterator<Item = String>) -> Result<u16, String> {
    match (args.next().as_deref(), args.next(), args.next()) {
        (None, ..) => Ok(0),
        (Some("--port"), Some(port), None) => port.parse().map_err(|_| format!("not a port: {port}")),
        _ => Err("usage: test-site [--port PORT]".to_owned()),
    }
}
