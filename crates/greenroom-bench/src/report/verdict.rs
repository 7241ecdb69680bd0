//! The figures against what Greenroom promises.

use std::collections::HashSet;
use std::fmt;

use serde::Serialize;

use super::{RouteFigures, RouteReport};
use crate::measure::IN_FLIGHT;
use crate::promise::Judged;
use crate::routes::{GREENROOM_HTTP, GREENROOM_HTTP_STATELESS, GREENROOM_STDIO};

const STDIO_SMALL_MS: f64 = 0.3;
const HTTP_SMALL_MS: f64 = 1.5;
const MEGABYTE_MS: f64 = 10.0;
const TIMES_BEST_PEER: f64 = 3.0;
const IDLE_MB: f64 = 30.0;
/// With fewer peers than this there is no best one to speak of.
const PEERS_NEEDED: usize = 2;

#[derive(Serialize)]
pub(super) struct Verdict {
    lines: Vec<Judged>,
    /// Why nothing is said about peers, where nothing is.
    no_comparison: Option<String>,
}

impl Verdict {
    pub(super) fn new(routes: &[RouteReport]) -> Self {
        let mut lines = Vec::new();
        let stdio = Route::find(routes, GREENROOM_STDIO);
        let http = [GREENROOM_HTTP, GREENROOM_HTTP_STATELESS].map(|name| Route::find(routes, name));
        lines.push(stdio.small(STDIO_SMALL_MS));
        lines.extend(http.iter().map(|route| route.small(HTTP_SMALL_MS)));
        lines.push(stdio.megabyte());
        lines.extend(http.iter().map(Route::megabyte));
        lines.push(stdio.idle());
        lines.push(http[0].idle());
        let no_comparison = match best_peer(routes) {
            Ok(best) => {
                lines.extend(http.iter().map(|route| route.flood(&best)));
                None
            }
            Err(reason) => Some(reason),
        };
        Self { lines, no_comparison }
    }
}

struct BestPeer<'a> {
    name: &'a str,
    calls_per_second: f64,
}

fn best_peer(routes: &[RouteReport]) -> Result<BestPeer<'_>, String> {
    let ran = || routes.iter().filter_map(|route| Some((route, route.package.as_ref()?, route.figures()?)));
    // One program run in two ways is one peer.
    let peers = ran().map(|(_, package, _)| package).collect::<HashSet<_>>().len();
    ran()
        .map(|(route, _, figures)| BestPeer { name: &route.name, calls_per_second: figures.calls_per_second })
        .max_by(|a, b| a.calls_per_second.total_cmp(&b.calls_per_second))
        .filter(|_| peers >= PEERS_NEEDED)
        .ok_or_else(|| {
            format!("No comparison with peers is claimed: {peers} ran, and it takes {PEERS_NEEDED}.")
        })
}

/// A route of ours, with its figures if it ran.
struct Route<'a> {
    name: &'static str,
    figures: Option<&'a RouteFigures>,
}

impl<'a> Route<'a> {
    fn find(routes: &'a [RouteReport], name: &'static str) -> Self {
        let route = routes.iter().find(|route| route.name == name);
        Self { name, figures: route.and_then(RouteReport::figures) }
    }

    fn small(&self, limit: f64) -> Judged {
        let promise = format!("{}: a small call takes at most {limit} ms more than direct", self.name);
        let over = self.figures.and_then(|figures| figures.small.over_direct_ms);
        Judged::new(promise, over, |over| (over <= limit, format!("{over:+.3} ms")))
    }

    fn megabyte(&self) -> Judged {
        let promise = format!("{}: a result of 1 MB takes at most {MEGABYTE_MS} ms more", self.name);
        let over = self.figures.and_then(|figures| figures.mb_1.over_direct_ms);
        Judged::new(promise, over, |over| (over <= MEGABYTE_MS, format!("{over:+.3} ms")))
    }

    fn idle(&self) -> Judged {
        let promise = format!("{}: under {IDLE_MB} MB when idle", self.name);
        let idle = self.figures.map(|figures| figures.idle_rss_mb);
        Judged::new(promise, idle, |idle| (idle < IDLE_MB, format!("{idle:.1} MB")))
    }

    fn flood(&self, best: &BestPeer<'_>) -> Judged {
        let promise = format!(
            "{}: {IN_FLIGHT} in flight at {TIMES_BEST_PEER} times the best peer's rate or more",
            self.name
        );
        Judged::new(promise, self.figures.map(|figures| figures.calls_per_second), |rate| {
            let times = rate / best.calls_per_second;
            let figures =
                format!("{rate:.0}/s, {times:.1} times {:.0}/s of {}", best.calls_per_second, best.name);
            (times >= TIMES_BEST_PEER, figures)
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        if let Some(reason) = &self.no_comparison {
            writeln!(f, "----  {reason}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Outcome;
    use super::*;
    use crate::measure::Figures;
    use crate::routes::Kind;

    fn peer(package: &str, name: &str, calls_per_second: f64) -> RouteReport {
        let mut figures = Figures::default();
        for samples in [&mut figures.small, &mut figures.kb_100, &mut figures.mb_1] {
            samples.add_round(vec![Duration::from_millis(1)]);
        }
        let mut figures = RouteFigures::new(&figures).unwrap();
        figures.calls_per_second = calls_per_second;
        RouteReport {
            name: name.to_owned(),
            kind: Kind::Peer,
            package: Some(package.to_owned()),
            outcome: Outcome::Ran(Box::new(figures)),
        }
    }

    #[test]
    fn the_best_peer_is_the_one_with_the_highest_rate() {
        let routes = [peer("a", "a, slow", 1.0), peer("a", "a, fast", 9.0), peer("b", "b", 5.0)];
        assert_eq!(best_peer(&routes).ok().unwrap().name, "a, fast");
    }

    #[test]
    fn without_two_peers_nothing_is_claimed_about_them() {
        assert!(Verdict::new(&[]).no_comparison.is_some_and(|reason| reason.contains("is claimed: 0 ran")));
        let one_in_two_ways = [peer("a", "a, slow", 1.0), peer("a", "a, fast", 9.0)];
        assert!(best_peer(&one_in_two_ways).err().unwrap().contains("1 ran"));
        let mut second_fails = [peer("a", "a", 1.0), peer("b", "b", 1.0)];
        second_fails[1].outcome = Outcome::NotRun { reason: String::new() };
        assert!(best_peer(&second_fails).is_err());
    }
}
