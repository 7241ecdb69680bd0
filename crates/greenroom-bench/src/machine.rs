//! Where and when the figures were taken.

use std::fmt;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;

use serde::Serialize;

use crate::binaries::Binaries;
use crate::peers;

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) date: String,
    pub(crate) cores: usize,
    pub(crate) cpu: String,
    pub(crate) kernel: String,
    /// Load averages over one minute: what else the machine was doing when the run began, and at its end.
    pub(crate) load_before: f64,
    pub(crate) load_after: f64,
    /// Programs and their versions.
    pub(crate) versions: Vec<(String, String)>,
}

impl Machine {
    /// This machine, before the run.
    pub(crate) async fn look(binaries: &Binaries, with_peers: bool) -> Self {
        let greenroom = binaries.greenroom.to_string_lossy();
        let mut versions = vec![
            ("greenroom".to_owned(), output(&greenroom, &["--version"])),
            ("commit".to_owned(), output("git", &["describe", "--always", "--dirty"])),
        ];
        if with_peers {
            versions.extend(
                peers::runtimes().await.into_iter().map(|(name, version)| (name.to_owned(), version)),
            );
        }
        Self {
            date: output("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
            cores: thread::available_parallelism().map_or(0, usize::from),
            cpu: cpu(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            load_before: load(),
            load_after: 0.0,
            versions,
        }
    }

    /// Whether others had work for it when the run began.
    fn was_busy(&self) -> bool {
        self.load_before > 0.5
    }

    pub(crate) fn look_again(&mut self) {
        self.load_after = load();
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, {} cores ({}), Linux {}", self.date, self.cores, self.cpu, self.kernel)?;
        writeln!(f, "load average {:.2} before, {:.2} after", self.load_before, self.load_after)?;
        if self.was_busy() {
            writeln!(
                f,
                "The machine was busy with something else: the medians are worth more than the 99th percentiles."
            )?;
        }
        let versions: Vec<_> =
            self.versions.iter().map(|(name, version)| format!("{name}: {version}")).collect();
        writeln!(f, "{}", versions.join(", "))
    }
}

fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or_default()
}

fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| "unknown".to_owned(), |(_, model)| model.trim().to_owned())
}

/// What a program prints, or that it could not be asked.
fn output(program: &str, args: &[&str]) -> String {
    match Command::new(program).args(args).stdin(Stdio::null()).stderr(Stdio::null()).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}
