//! Times as people write and read them.

use std::time::{Duration, SystemTime};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

/// How long ago, or when.
pub(crate) fn since(text: &str) -> Result<SystemTime, String> {
    since_at(text, &Zoned::now()).ok_or_else(|| {
        "write how long ago, as in 10m, 2h or 3d, or a time such as 2026-11-15T08:00:00Z or 2026-11-15"
            .to_owned()
    })
}

fn since_at(text: &str, now: &Zoned) -> Option<SystemTime> {
    let text = text.trim();
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Some(moment.into());
    }
    if let Ok(moment) = text.parse::<DateTime>() {
        return moment.to_zoned(now.time_zone().clone()).ok().map(|moment| moment.timestamp().into());
    }
    let span = text.parse::<Span>().ok()?;
    now.checked_sub(span.abs()).ok().map(|moment| moment.timestamp().into())
}

fn zoned(at: SystemTime) -> Option<Zoned> {
    Timestamp::try_from(at).ok().map(|at| at.to_zoned(TimeZone::system()))
}

fn formatted(at: SystemTime, format: &str) -> String {
    zoned(at).map_or_else(String::new, |at| at.strftime(format).to_string())
}

/// Where the reader lives.
pub(crate) fn local(at: SystemTime) -> String {
    formatted(at, "%Y-%m-%d %H:%M:%S")
}

/// The same with everything that is known.
pub(crate) fn exactly(at: SystemTime) -> String {
    formatted(at, "%Y-%m-%d %H:%M:%S%.3f %:z")
}

pub(crate) fn date(at: SystemTime) -> String {
    formatted(at, "%Y-%m-%d")
}

/// The time of day, and the day where it is not today.
pub(crate) fn short(at: SystemTime, today: &str) -> String {
    if date(at) == today { formatted(at, "%H:%M:%S") } else { local(at) }
}

/// For machines.
pub(crate) fn utc(at: SystemTime) -> String {
    Timestamp::try_from(at).map_or_else(|_| String::new(), |at| format!("{at:.3}"))
}

/// Year, month, day, hour, minute and second, where the reader lives.
pub(crate) fn parts(at: SystemTime) -> Option<(u16, [u8; 5])> {
    let at = zoned(at)?;
    let rest = [at.month(), at.day(), at.hour(), at.minute(), at.second()];
    let [month, day, hour, minute, second] = rest.map(|part| u8::try_from(part).unwrap_or_default());
    Some((u16::try_from(at.year()).ok()?, [month, day, hour, minute, second]))
}

pub(crate) fn span(took: Duration) -> String {
    let (seconds, millis) = (took.as_secs(), took.as_secs_f64() * 1000.0);
    match seconds {
        0 if millis < 10.0 => format!("{millis:.1} ms"),
        0 => format!("{millis:.0} ms"),
        1..60 => format!("{:.1} s", took.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use jiff::{Timestamp, Zoned};

    use super::{since_at, span};

    #[test]
    fn a_time_is_a_moment_or_how_long_ago() {
        let now: Zoned = "2026-11-15T12:00:00+01:00[Europe/Berlin]".parse().unwrap();
        for (text, moment) in [
            ("2026-11-15T08:00:00Z", "2026-11-15T08:00:00Z"),
            ("2026-11-15T08:00:00+02:00", "2026-11-15T06:00:00Z"),
            ("2026-11-15T08:00", "2026-11-15T07:00:00Z"),
            ("2026-11-15", "2026-11-14T23:00:00Z"),
            ("10m", "2026-11-15T10:50:00Z"),
            ("2h", "2026-11-15T09:00:00Z"),
            ("2h30m", "2026-11-15T08:30:00Z"),
            ("1d", "2026-11-14T11:00:00Z"),
            ("30s", "2026-11-15T10:59:30Z"),
        ] {
            let moment = SystemTime::from(moment.parse::<Timestamp>().unwrap());
            assert_eq!(since_at(text, &now), Some(moment), "{text}");
        }
        for text in ["", "yesterday", "2", "2x", "2026-13-01"] {
            assert_eq!(since_at(text, &now), None, "{text}");
        }
    }

    #[test]
    fn spans_are_readable() {
        for (millis, shown) in
            [(3, "3.0 ms"), (312, "312 ms"), (1250, "1.2 s"), (61_500, "1 min 1 s"), (7_260_000, "2 h 1 min")]
        {
            assert_eq!(span(Duration::from_millis(millis)), shown);
        }
    }
}
