//! `greenroom status`, `restart` and `scale`: ask a running server, over its own HTTP.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use greenroom_core::config::HttpConfig;
use greenroom_core::percent::escape;
use serde_json::{Value, json};

use crate::local_client::Server;
use crate::table::Table;

/// How often `status --watch` looks again.
const WATCH_EVERY: Duration = Duration::from_secs(1);

pub(crate) fn status(http: &HttpConfig, pool: Option<&str>, watch: bool, as_json: bool) -> Result<ExitCode> {
    let server = Server::new(http);
    let path =
        pool.map_or_else(|| "/api/pools".to_owned(), |pool| format!("/api/pools/{}", escape(pool, b"")));
    let mut stdout = std::io::stdout();
    if as_json {
        let shown = format!("{:#}\n", server.get(&path)?);
        return written(stdout.write_all(shown.as_bytes()));
    }
    loop {
        let report = shown(&server.get(&path)?);
        // A screen is drawn anew, a file or a pipe gets one table after another.
        let clear = if watch && stdout.is_terminal() { "\x1b[2J\x1b[H" } else { "" };
        let outcome = stdout.write_all(format!("{clear}{report}").as_bytes()).and_then(|()| stdout.flush());
        if !watch || outcome.is_err() {
            return written(outcome);
        }
        std::thread::sleep(WATCH_EVERY);
    }
}

pub(crate) fn restart(http: &HttpConfig, pool: Option<&str>, instance: Option<&str>) -> Result<ExitCode> {
    let server = Server::new(http);
    let pools = match pool {
        Some(pool) => vec![pool.to_owned()],
        None => {
            let report = server.get("/api/pools")?;
            let names = report["pools"].as_array().into_iter().flatten();
            names.filter_map(|pool| pool["name"].as_str()).map(str::to_owned).collect()
        }
    };
    let mut shown = String::new();
    for pool in pools {
        let path = match instance {
            Some(instance) => {
                format!("/api/pools/{}/instances/{}/restart", escape(&pool, b""), escape(instance, b""))
            }
            None => format!("/api/pools/{}/restart", escape(&pool, b"")),
        };
        let answer = server.post(&path, None)?;
        let instances = match answer["instances"].as_array() {
            Some(ids) => ids.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
            None => instance.unwrap_or_default().to_owned(),
        };
        shown.push_str(&format!("{pool}: being started anew: {instances}\n"));
    }
    written(std::io::stdout().write_all(shown.as_bytes()))
}

pub(crate) fn scale(http: &HttpConfig, pool: &str, instances: u32) -> Result<ExitCode> {
    let body = json!({ "instances": instances });
    let answer = Server::new(http).post(&format!("/api/pools/{}/scale", escape(pool, b"")), Some(&body))?;
    let list = |name: &str| {
        let ids: Vec<_> = answer[name].as_array().into_iter().flatten().map(ToString::to_string).collect();
        if ids.is_empty() { String::new() } else { format!("; {name}: {}", ids.join(", ")) }
    };
    let noun = if instances == 1 { "instance" } else { "instances" };
    let shown = format!("{pool} has {instances} {noun} now{}{}\n", list("added"), list("draining"));
    written(std::io::stdout().write_all(shown.as_bytes()))
}

/// A reader that has gone away is no error.
pub(crate) fn written(outcome: std::io::Result<()>) -> Result<ExitCode> {
    match outcome {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("stdout cannot be written")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The report as a table for each pool.
fn shown(report: &Value) -> String {
    let mut out = String::new();
    for pool in report["pools"].as_array().into_iter().flatten() {
        let text = |name: &str| pool[name].as_str().unwrap_or_default();
        let number = |name: &str| pool[name].as_u64().unwrap_or_default();
        out.push_str(text("name"));
        if pool["is_default"] == Value::Bool(true) {
            out.push_str(" (default)");
        }
        if !text("description").is_empty() {
            out.push_str(&format!(": {}", text("description")));
        }
        if number("total_instances") == 0 {
            out.push_str(&format!("\n  sessions: {}\n\n", number("sessions")));
            continue;
        }
        out.push_str(&format!(
            "\n  {} of {} healthy, {} in use, {} free, calls waiting: {}, sessions: {}\n",
            number("healthy_instances"),
            number("total_instances"),
            number("leased_instances"),
            number("available_instances"),
            number("waiting_calls"),
            number("sessions"),
        ));
        let mut table = Table::new(["ID", "ALIAS", "STATUS", "BROWSER", "PID", "IN USE", "LAST CHECK"]);
        let mut errors = String::new();
        for instance in pool["instances"].as_array().into_iter().flatten() {
            table.row(row(instance));
            if let Some(error) = instance["health_check"]["error"].as_str() {
                let id = instance["id"].as_str().unwrap_or_default();
                // What a program printed on top of it is in the JSON.
                let error = error.lines().next().unwrap_or_default();
                errors.push_str(&format!("  {id}: {error}\n"));
            }
        }
        out.push_str(&table.indented("  "));
        out.push_str(&errors);
        out.push('\n');
    }
    let history = &report["history"];
    if history["state"] == "failing" {
        let (lost, why) = (&history["lost"], history["error"].as_str().unwrap_or_default());
        out.push_str(&format!("Calls are not written down now ({lost} so far): {why}\n"));
    }
    out
}

fn row(instance: &Value) -> [String; 7] {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let kind = match instance["headless"].as_bool() {
        Some(true) => " (headless)",
        Some(false) => " (headed)",
        None => "",
    };
    let check = &instance["health_check"];
    let last = match (check["last_check"].as_str(), check["responsive"] == Value::Bool(true)) {
        (None, _) => "-".to_owned(),
        (Some(at), true) => format!("{at} ok"),
        (Some(at), false) => format!("{at} no answer"),
    };
    [
        text(&instance["id"]),
        text(&instance["alias"]),
        text(&instance["status"]),
        format!("{}{kind}", text(&instance["browser"])),
        instance["process_id"].as_u64().map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        instance["lease_duration_ms"].as_u64().map_or_else(|| "-".to_owned(), span),
        last,
    ]
}

fn span(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis} ms"),
        1000..60_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_report_is_a_readable_table() {
        let check = |error: Option<&str>| json!({ "last_check": "2026-01-02T10:15:31.456Z", "responsive": error.is_none(), "error": error });
        let report = json!({ "pools": [{
            "name": "MAIN", "description": "General use", "is_default": true, "total_instances": 2,
            "healthy_instances": 1, "leased_instances": 1, "available_instances": 0, "waiting_calls": 3, "sessions": 2,
            "instances": [
                { "id": "0", "alias": null, "status": "healthy", "leased": true, "lease_duration_ms": 61_500,
                  "browser": "chromium", "headless": true, "process_id": 12345, "health_check": check(None) },
                { "id": "1", "alias": "debug", "status": "failed", "leased": false, "lease_duration_ms": null,
                  "browser": "firefox", "headless": false, "process_id": null,
                  "health_check": check(Some("it exited with code 1")) },
            ],
        }] });
        assert_eq!(
            super::shown(&report),
            "MAIN (default): General use\n  1 of 2 healthy, 1 in use, 0 free, calls waiting: 3, sessions: 2\n  \
             ID  ALIAS  STATUS   BROWSER              PID    IN USE        LAST CHECK\n  \
             0   -      healthy  chromium (headless)  12345  1 min 1 s     2026-01-02T10:15:31.456Z ok\n  \
             1   debug  failed   firefox (headed)     -      -             2026-01-02T10:15:31.456Z no answer\n  \
             1: it exited with code 1\n\n"
                .replace("1 min 1 s     ", "1 min 1 s  ")
                .replace("IN USE        ", "IN USE     ")
                .replace("-      -             ", "-      -          ")
        );
    }
}
