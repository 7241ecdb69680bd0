//! What is said about a run of `preview`.

mod verdict;

use std::fmt;

use anyhow::Result;
use serde::Serialize;

use super::flatness;
use super::frames::{self, Company};
use super::page::Page;
use super::work::{self, Scene};
use super::{input, slowdown};
use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::promise::Judged;
use crate::samples::{Spread, Summary, median};
use crate::sessions::tree::Work;

/// What the parts gave.
pub(super) struct Measured {
    pub(super) frames: Result<Vec<frames::Lane>>,
    pub(super) flatness: Result<flatness::Figures>,
    pub(super) work: Result<Vec<work::Lane>>,
    pub(super) slowdown: Result<Vec<slowdown::Lane>>,
    pub(super) input: Result<Vec<input::Lane>>,
}

#[derive(Serialize)]
pub(super) struct Report {
    machine: Machine,
    frames: Outcome<Vec<Shown>>,
    flatness: Outcome<flatness::Figures>,
    work: Outcome<Vec<Cost>>,
    slowdown: Outcome<Vec<Slowdown>>,
    input: Outcome<Vec<Reaction>>,
    verdict: Vec<Judged>,
}

/// What each viewer got.
#[derive(Serialize)]
struct Shown {
    live: usize,
    stalled: usize,
    slowest_per_second: f64,
    /// The median of viewers and rounds.
    frames_per_second: f64,
    age: Spread,
    bytes_per_frame: f64,
}

/// Seconds of processor time in each second, by round.
#[derive(Serialize)]
struct Cost {
    #[serde(flatten)]
    scene: Scene,
    /// Medians of the rounds.
    total: f64,
    greenroom: f64,
    node: f64,
    browser: f64,
    by_round: Vec<Work>,
}

/// Calls on one page, by what they are.
#[derive(Serialize)]
struct Slowdown {
    page: Page,
    frames_per_second: f64,
    navigate: Sides,
    snapshot: Sides,
    click: Sides,
}

#[derive(Serialize)]
struct Sides {
    direct: Summary,
    unwatched: Summary,
    watched: Summary,
    /// Watched over unwatched: of all calls, and the median of the rounds, whose blocks are next to one another.
    times: f64,
    times_by_round: f64,
}

/// From a click that was sent up.
#[derive(Serialize)]
struct Reaction {
    page: Page,
    reached: Spread,
    done: Spread,
    told: Spread,
    shown: Spread,
}

impl Report {
    pub(super) fn new(machine: Machine, measured: Measured) -> Self {
        let frames = Outcome::of(measured.frames, |lanes| lanes.iter().map(Shown::new).collect());
        let flatness = Outcome::new(measured.flatness);
        let work = Outcome::of(measured.work, |lanes| lanes.iter().map(Cost::new).collect());
        let slowdown = Outcome::of(measured.slowdown, |lanes| lanes.iter().map(Slowdown::new).collect());
        let input = Outcome::of(measured.input, |lanes| lanes.iter().map(Reaction::new).collect());
        let mut verdict = vec![
            verdict::of_frames(frames.ran().map_or(&[], Vec::as_slice)),
            verdict::of_flatness(flatness.ran()),
            verdict::of_work(work.ran().map_or(&[], Vec::as_slice)),
        ];
        verdict.extend(verdict::of_slowdown(slowdown.ran().map_or(&[], Vec::as_slice)));
        verdict.push(verdict::of_input(input.ran().map_or(&[], Vec::as_slice)));
        Self { machine, frames, flatness, work, slowdown, input, verdict }
    }

    pub(super) fn all_ran(&self) -> bool {
        self.frames.ran().is_some()
            && self.flatness.ran().is_some()
            && self.work.ran().is_some()
            && self.slowdown.ran().is_some()
            && self.input.ran().is_some()
    }
}

impl Shown {
    fn new(lane: &frames::Lane) -> Option<Self> {
        let Company { live, stalled } = lane.company;
        Some(Self {
            live,
            stalled,
            slowest_per_second: lane.rates.iter().copied().min_by(f64::total_cmp)?,
            frames_per_second: median(&lane.rates)?,
            age: Spread::of(&lane.ages)?,
            bytes_per_frame: lane.bytes as f64 / lane.ages.len() as f64,
        })
    }
}

impl Cost {
    fn new(lane: &work::Lane) -> Option<Self> {
        let middle = |part: fn(&Work) -> f64| median(&lane.work.iter().map(part).collect::<Vec<_>>());
        Some(Self {
            scene: lane.scene,
            total: middle(Work::total)?,
            greenroom: middle(|work| work.greenroom)?,
            node: middle(|work| work.node)?,
            browser: middle(|work| work.browser)?,
            by_round: lane.work.clone(),
        })
    }
}

impl Slowdown {
    fn new(lane: &slowdown::Lane) -> Option<Self> {
        let sides = |calls: fn(&slowdown::Calls) -> Option<Summary>| {
            let (unwatched, watched) = (calls(&lane.unwatched)?, calls(&lane.watched)?);
            let rounds = watched.p50_ms_by_round.iter().zip(&unwatched.p50_ms_by_round);
            let times_by_round =
                median(&rounds.map(|(watched, unwatched)| watched / unwatched).collect::<Vec<_>>())?;
            let times = watched.p50_ms / unwatched.p50_ms;
            Some(Sides { direct: calls(&lane.direct)?, unwatched, watched, times, times_by_round })
        };
        Some(Self {
            page: lane.page,
            frames_per_second: median(&lane.frames_per_second)?,
            navigate: sides(|calls| calls.navigate.summary())?,
            snapshot: sides(|calls| calls.snapshot.summary())?,
            click: sides(|calls| calls.click.summary())?,
        })
    }

    fn calls(&self) -> [(&'static str, &Sides); 3] {
        [("navigate", &self.navigate), ("snapshot", &self.snapshot), ("click", &self.click)]
    }
}

impl Reaction {
    fn new(lane: &input::Lane) -> Option<Self> {
        Some(Self {
            page: lane.page,
            reached: Spread::of(&lane.reached)?,
            done: Spread::of(&lane.done)?,
            told: Spread::of(&lane.told)?,
            shown: Spread::of(&lane.shown)?,
        })
    }
}

impl Page {
    fn name(self) -> &'static str {
        match self {
            Self::Still => "page at rest",
            Self::Moving => "moving page",
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}", self.machine)?;
        writeln!(f, "Frames of a moving page, 15 in a second at most, and their age on arrival, ms:")?;
        let columns = ["frames/s", "slowest", "age p50", "age p95", "KB each"];
        writeln!(f, "{:32} {}", "", columns.map(|name| format!("{name:>9}")).join(" "))?;
        write_lines(&self.frames, f)?;

        writeln!(f, "\nMemory with one who watches and one who does not read, MB:")?;
        match &self.flatness {
            Outcome::Ran(figures) => write_flatness(figures, f)?,
            Outcome::NotRun { reason } => writeln!(f, "not run: {reason}")?,
        }

        writeln!(f, "\nProcessor time, ms in each second:")?;
        let columns = ["total", "greenroom", "node", "browser"];
        writeln!(f, "{:32} {}", "", columns.map(|name| format!("{name:>9}")).join(" "))?;
        write_lines(&self.work, f)?;

        writeln!(f, "\nAn agent's calls while one person watches, p50 in ms:")?;
        let columns = ["direct", "unwatched", "watched", "times", "by round"];
        writeln!(f, "{:32} {}", "", columns.map(|name| format!("{name:>9}")).join(" "))?;
        write_lines(&self.slowdown, f)?;

        writeln!(f, "\nFrom a person's click, ms:")?;
        write_lines(&self.input, f)?;
        writeln!(f)?;
        self.verdict.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

fn write_lines<T: fmt::Display>(outcome: &Outcome<Vec<T>>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match outcome {
        Outcome::Ran(lines) => lines.iter().try_for_each(|line| writeln!(f, "{line}")),
        Outcome::NotRun { reason } => writeln!(f, "not run: {reason}"),
    }
}

fn write_flatness(figures: &flatness::Figures, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let flatness::Figures { frames, seconds, .. } = figures;
    let (each, pace) = (figures.bytes_per_frame() / 1e3, *frames as f64 / seconds);
    writeln!(f, "{frames} frames of {each:.1} KB, {pace:.1} in a second")?;
    for reading in figures.landmarks().iter().flatten() {
        let flatness::Reading { frames, greenroom_mb, node_mb } = reading;
        writeln!(f, "after {frames:>6} frames: greenroom {greenroom_mb:>6.1}, node {node_mb:>6.1}")?;
    }
    Ok(())
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { live, stalled, slowest_per_second, frames_per_second, age, bytes_per_frame } = self;
        let company = match (live + stalled, stalled) {
            (1, 0) => "1 viewer".to_owned(),
            (all, 0) => format!("{all} viewers"),
            (all, stalled) => format!("{all} viewers, {stalled} of them stalled"),
        };
        write!(f, "{company:32} {frames_per_second:>9.1} {slowest_per_second:>9.1} ")?;
        write!(f, "{:>9.1} {:>9.1} {:>9.1}", age.p50_ms, age.p95_ms, bytes_per_frame / 1e3)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scene: Scene { page, viewers, was_watched }, total, greenroom, node, browser, .. } = self;
        let by = match (viewers, was_watched) {
            (0, false) => "not watched yet".to_owned(),
            (0, true) => "not watched".to_owned(),
            (1, _) => "1 viewer".to_owned(),
            (viewers, _) => format!("{viewers} viewers"),
        };
        let parts = [total, greenroom, node, browser].map(|share| format!("{:>9.0}", share * 1e3));
        write!(f, "{:32} {}", format!("{}, {by}", page.name()), parts.join(" "))
    }
}

impl fmt::Display for Slowdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (call, Sides { direct, unwatched, watched, times, times_by_round }) in self.calls() {
            let name = format!("{}, {call}", self.page.name());
            let sides = [direct, unwatched, watched].map(|side| format!("{:>9.1}", side.p50_ms));
            writeln!(f, "{name:32} {} {times:>9.2} {times_by_round:>9.2}", sides.join(" "))?;
        }
        write!(f, "{:32} {:.1} frames/s meanwhile", "", self.frames_per_second)
    }
}

impl fmt::Display for Reaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = [
            ("the page has it", self.reached),
            ("it is done", self.done),
            ("the state has the title", self.told),
            ("a frame shows it", self.shown),
        ];
        for (at, (step, Spread { count, p50_ms, p95_ms })) in steps.into_iter().enumerate() {
            let name = format!("{}, {step}", self.page.name());
            let end = if at + 1 < steps.len() { "\n" } else { "" };
            write!(f, "{name:40} p50 {p50_ms:>6.1}, p95 {p95_ms:>6.1} of {count} clicks{end}")?;
        }
        Ok(())
    }
}
