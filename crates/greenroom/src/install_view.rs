//! Showing an installation: a progress bar on a terminal, log lines elsewhere.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Duration;

use greenroom_upstream::install::Step;
use indicatif::{ProgressBar, ProgressStyle};

pub(crate) fn reporter() -> impl Fn(Step) + Send + Sync + 'static {
    let terminal = std::io::stderr().is_terminal();
    let bar = Mutex::new(None::<ProgressBar>);
    move |step| {
        if terminal {
            show(&mut bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner), step);
        } else {
            log(step);
        }
    }
}

fn log(step: Step) {
    match step {
        Step::Waiting => tracing::info!("another greenroom is installing; waiting for it"),
        Step::Begun(what) => tracing::info!("{what}"),
        Step::Output(line) => tracing::debug!("{line}"),
        Step::Done => {}
    }
}

fn show(bar: &mut Option<ProgressBar>, step: Step) {
    match step {
        Step::Waiting => *bar = Some(begin("another greenroom is installing; waiting for it".to_owned())),
        Step::Begun(what) => *bar = Some(begin(what)),
        Step::Output(line) => {
            if let Some(bar) = bar {
                // Playwright prints how far it is, as a percentage.
                if let Some(percent) = percentage(&line) {
                    bar.set_position(percent);
                } else {
                    bar.set_message(line);
                }
            }
        }
        Step::Done => {
            if let Some(bar) = bar.take() {
                bar.finish_and_clear();
            }
        }
    }
}

fn begin(what: String) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {prefix} {bar:24} {elapsed} {wide_msg}")
        .expect("the template is well formed");
    let bar = ProgressBar::new(100).with_style(style).with_prefix(what);
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

fn percentage(line: &str) -> Option<u64> {
    let (before, _) = line.split_once('%')?;
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|percent| *percent <= 100)
}

#[cfg(test)]
mod tests {
    #[test]
    fn reads_how_far_a_download_is() {
        assert_eq!(super::percentage("|■■■■        |  40% of 104 MiB"), Some(40));
        assert_eq!(super::percentage("Downloading chromium"), None);
    }
}
