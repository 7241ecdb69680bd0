//! The figures for a reader.

use std::fmt::{self, Formatter, Write};

use super::{Latency, Outcome, Report};
use crate::samples::Summary;

const NAME_WIDTH: usize = 36;

pub(super) fn write(report: &Report, f: &mut Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n{}", report.machine)?;
    let groups = ["small call, ms", "100 KB result, ms", "1 MB result, ms"];
    write!(f, "{:NAME_WIDTH$}", "")?;
    for group in groups {
        write!(f, " |{group:^24}")?;
    }
    writeln!(f, " | {:>12} | {:>13}", format!("{} in flight", report.in_flight), "memory, MB")?;
    write!(f, "{:NAME_WIDTH$}", "route")?;
    for _ in groups {
        write!(f, " |{:>7} {:>7} {:>8}", "p50", "p99", "+direct")?;
    }
    writeln!(f, " | {:>12} | {:>6} {:>6}", "calls/s", "idle", "after")?;
    writeln!(f, "{}", "-".repeat(NAME_WIDTH + 3 * 26 + 31))?;
    for route in &report.routes {
        write!(f, "{:NAME_WIDTH$}", route.name)?;
        match &route.outcome {
            Outcome::Ran(figures) => {
                for latency in [&figures.small, &figures.kb_100, &figures.mb_1] {
                    write_latency(latency, f)?;
                }
                let (idle, loaded) = (figures.idle_rss_mb, figures.loaded_rss_mb);
                writeln!(f, " | {:>12.0} | {idle:>6.1} {loaded:>6.1}", figures.calls_per_second)?;
            }
            Outcome::NotRun { reason } => writeln!(f, " | not run: {reason}")?,
        }
    }

    writeln!(f, "\nFrom start to the answer of `initialize` over stdio:")?;
    write_startup("direct", report.startup.direct.as_ref(), f)?;
    write_startup("greenroom", report.startup.greenroom.as_ref(), f)
}

fn write_latency(latency: &Latency, f: &mut Formatter<'_>) -> fmt::Result {
    let Summary { p50_ms, p99_ms, .. } = &latency.summary;
    write!(f, " |{p50_ms:>7.3} {p99_ms:>7.3} ")?;
    match latency.over_direct_ms {
        Some(over) => write!(f, "{over:>+8.3}"),
        None => write!(f, "{:>8}", ""),
    }
}

fn write_startup(name: &str, summary: Option<&Summary>, f: &mut impl Write) -> fmt::Result {
    match summary {
        Some(Summary { calls, p50_ms, p99_ms, .. }) => {
            writeln!(f, "  {name:10} p50 {p50_ms:.1} ms, p99 {p99_ms:.1} ms, of {calls} starts")
        }
        None => writeln!(f, "  {name:10} no figures"),
    }
}
