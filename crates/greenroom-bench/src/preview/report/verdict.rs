//! The promises about watching, judged.

use super::super::frames::{Company, ONE_OF_TEN_STALLED, TEN};
use super::{Cost, Page, Reaction, Scene, Shown, Slowdown, flatness};
use crate::promise::Judged;
use crate::samples::median;

/// Of the rate without a stalled viewer.
const KEPT: f64 = 0.9;
/// What is left of a heap that is used and freed again, by experience. Frames that are kept would be far beyond it: of
/// 5,000 each has some ten KB.
const NOISE_MB: f64 = 10.0;
/// Processor time of the same page differs by this much from one time to the next.
const NOISE_TIMES: f64 = 1.1;
const SLOWER: f64 = 1.1;
const DONE_MS: f64 = 50.0;

pub(super) fn of_frames(shown: &[Shown]) -> Judged {
    let rate = |company: Company| {
        let is_it = |shown: &&Shown| (shown.live, shown.stalled) == (company.live, company.stalled);
        shown.iter().find(is_it).map(|shown| shown.frames_per_second)
    };
    let promise = format!("beside a stalled viewer the others keep {KEPT} of their rate");
    let kept = rate(ONE_OF_TEN_STALLED).zip(rate(TEN)).map(|(with, without)| with / without);
    Judged::new(promise, kept, |kept| (kept >= KEPT, format!("{kept:.2}")))
}

pub(super) fn of_flatness(figures: Option<&flatness::Figures>) -> Judged {
    let frames = figures.map_or(0, |figures| figures.frames);
    let promise = format!("over the second half of {frames} frames memory grows by at most {NOISE_MB} MB");
    let growth = figures.and_then(flatness::Figures::growth_mb);
    let kept = figures.map_or(0.0, |figures| figures.bytes as f64 / 2e6);
    Judged::new(promise, growth, |growth| {
        (growth <= NOISE_MB, format!("{growth:+.2} MB, where keeping them would be {kept:.0}"))
    })
}

/// Round by round: the same page of the same session, a moment later.
pub(super) fn of_work(costs: &[Cost]) -> Judged {
    let unwatched = |was_watched| {
        let is_it = |cost: &&Cost| {
            let Scene { page, viewers, was_watched: was } = cost.scene;
            page == Page::Moving && viewers == 0 && was == was_watched
        };
        costs.iter().find(is_it).map_or(&[][..], |cost| &cost.by_round)
    };
    let rounds = unwatched(true).iter().zip(unwatched(false));
    let times: Vec<_> = rounds.map(|(after, before)| after.total() / before.total()).collect();
    let promise = format!(
        "a moving page that is not watched any more takes at most {NOISE_TIMES} times the processor time of before"
    );
    Judged::new(promise, median(&times), |times| (times <= NOISE_TIMES, format!("{times:.2} times")))
}

/// On a page at rest. A moving page's figures are for the reader.
pub(super) fn of_slowdown(pages: &[Slowdown]) -> Vec<Judged> {
    let at_rest = pages.iter().find(|slowdown| slowdown.page == Page::Still).map(Slowdown::calls);
    ["navigate", "snapshot", "click"]
        .into_iter()
        .enumerate()
        .map(|(at, call)| {
            let times = at_rest.map(|calls| calls[at].1.times_by_round);
            let promise =
                format!("on a page at rest, {call} takes at most {SLOWER} times as long while watched");
            Judged::new(promise, times, |times| (times <= SLOWER, format!("{times:.3} times")))
        })
        .collect()
}

pub(super) fn of_input(reactions: &[Reaction]) -> Judged {
    let at_rest = reactions.iter().find(|reaction| reaction.page == Page::Still);
    let promise = format!("a person's click is done within {DONE_MS} ms, p50");
    Judged::new(promise, at_rest.map(|reaction| reaction.done.p50_ms), |ms| {
        (ms <= DONE_MS, format!("{ms:.1} ms"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::Sides;
    use super::*;
    use crate::samples::{Spread, Summary};
    use crate::sessions::tree::Work;

    fn word(judged: &Judged) -> String {
        judged.to_string()[..4].to_owned()
    }

    fn spread(p50_ms: f64) -> Spread {
        Spread { count: 1, p50_ms, p95_ms: p50_ms }
    }

    #[test]
    fn a_stalled_viewer_may_cost_the_others_a_tenth() {
        let shown = |Company { live, stalled }, frames_per_second| Shown {
            live,
            stalled,
            slowest_per_second: 0.0,
            frames_per_second,
            age: spread(1.0),
            bytes_per_frame: 1.0,
        };
        let judge = |rate| word(&of_frames(&[shown(TEN, 10.0), shown(ONE_OF_TEN_STALLED, rate)]));
        assert_eq!([judge(9.0), judge(8.9)], ["PASS", "MISS"]);
        assert_eq!(word(&of_frames(&[shown(TEN, 10.0)])), "----");
    }

    #[test]
    fn memory_may_not_grow_with_the_frames() {
        let judge = |end| {
            let readings = [(0, 1.0), (50, 20.0), (100, end)]
                .map(|(frames, greenroom_mb)| flatness::Reading { frames, greenroom_mb, node_mb: 0.0 });
            let figures =
                flatness::Figures { frames: 100, bytes: 100, seconds: 1.0, readings: readings.into() };
            word(&of_flatness(Some(&figures)))
        };
        assert_eq!([judge(30.0), judge(30.1), judge(5.0)], ["PASS", "MISS", "PASS"]);
        assert_eq!(word(&of_flatness(None)), "----");
    }

    #[test]
    fn a_page_is_compared_with_itself_before_it_was_watched() {
        let cost = |viewers, was_watched, by_round: &[f64]| Cost {
            scene: Scene { page: Page::Moving, viewers, was_watched },
            total: 0.0,
            greenroom: 0.0,
            node: 0.0,
            browser: 0.0,
            by_round: by_round.iter().map(|browser| Work { browser: *browser, ..Work::default() }).collect(),
        };
        let judge = |after: [f64; 3]| {
            let before = [0.1, 0.2, 0.4];
            word(&of_work(&[cost(0, false, &before), cost(1, false, &[9.0; 3]), cost(0, true, &after)]))
        };
        assert_eq!([judge([0.1, 0.2, 4.0]), judge([0.1, 0.3, 4.0])], ["PASS", "MISS"]);
        assert_eq!(word(&of_work(&[cost(0, false, &[0.1])])), "----");
    }

    #[test]
    fn calls_are_judged_on_the_page_at_rest() {
        let summary = || Summary { calls: 1, p50_ms: 1.0, p99_ms: 1.0, p50_ms_by_round: Vec::new() };
        let sides = |times_by_round| {
            let [direct, unwatched, watched] = [summary(), summary(), summary()];
            Sides { direct, unwatched, watched, times: 1.0, times_by_round }
        };
        let slowdown = |page, times: [f64; 3]| Slowdown {
            page,
            frames_per_second: 1.0,
            navigate: sides(times[0]),
            snapshot: sides(times[1]),
            click: sides(times[2]),
        };
        let pages = [slowdown(Page::Still, [1.1, 1.11, 0.9]), slowdown(Page::Moving, [2.0; 3])];
        let words: Vec<_> = of_slowdown(&pages).iter().map(word).collect();
        assert_eq!(words, ["PASS", "MISS", "PASS"]);
        let words: Vec<_> = of_slowdown(&pages[1..]).iter().map(word).collect();
        assert_eq!(words, ["----"; 3]);
    }

    #[test]
    fn a_click_has_its_time() {
        let reaction = |page, ms| Reaction {
            page,
            reached: spread(1.0),
            done: spread(ms),
            told: spread(1.0),
            shown: spread(1.0),
        };
        let judge = |ms| word(&of_input(&[reaction(Page::Still, ms), reaction(Page::Moving, 99.0)]));
        assert_eq!([judge(50.0), judge(50.1)], ["PASS", "MISS"]);
    }
}
