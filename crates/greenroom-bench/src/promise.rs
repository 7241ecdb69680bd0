//! A figure against what Greenroom promises.

use std::fmt;

use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct Judged {
    judgement: Judgement,
    promise: String,
    figures: String,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Judgement {
    Pass,
    Miss,
    NoFigure,
}

impl Judged {
    /// `judge` says whether the figure keeps the promise, and how to write it. Without a figure nothing is said.
    pub(crate) fn new(promise: String, figure: Option<f64>, judge: impl Fn(f64) -> (bool, String)) -> Self {
        match figure.map(judge) {
            Some((true, figures)) => Self { judgement: Judgement::Pass, promise, figures },
            Some((false, figures)) => Self { judgement: Judgement::Miss, promise, figures },
            None => {
                Self { judgement: Judgement::NoFigure, promise, figures: "the route did not run".to_owned() }
            }
        }
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { judgement, promise, figures } = self;
        let word = match judgement {
            Judgement::Pass => "PASS",
            Judgement::Miss => "MISS",
            Judgement::NoFigure => "----",
        };
        write!(f, "{word}  {promise}: {figures}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_at_its_limit_passes_and_one_that_is_missing_is_not_judged() {
        let judge =
            |figure| Judged::new(String::new(), figure, |figure| (figure <= 1.0, String::new())).judgement;
        assert_eq!(judge(Some(1.0)), Judgement::Pass);
        assert_eq!(judge(Some(1.1)), Judgement::Miss);
        assert_eq!(judge(None), Judgement::NoFigure);
    }
}
