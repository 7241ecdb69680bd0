//! How things are spelled in the database.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::model::{CallStatus, ConsoleEntry, Location, SessionState};

/// Microseconds since 1970. The database knows no finer time.
pub(crate) fn micros(at: SystemTime) -> i64 {
    match at.duration_since(UNIX_EPOCH) {
        Ok(since) => duration_micros(since),
        Err(before) => -duration_micros(before.duration()),
    }
}

pub(crate) fn time(micros: i64) -> SystemTime {
    let distance = Duration::from_micros(micros.unsigned_abs());
    let time = if micros < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    time.unwrap_or(UNIX_EPOCH)
}

pub(crate) fn duration_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(micros.try_into().unwrap_or(0))
}

/// A count or size. No real one is too big.
pub(crate) fn number(count: u64) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

pub(crate) fn count(number: i64) -> u64 {
    number.try_into().unwrap_or(0)
}

pub(crate) fn size(bytes: &[u8]) -> i64 {
    bytes.len().try_into().unwrap_or(i64::MAX)
}

impl SessionState {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Closed => "closed",
            Self::Error => "error",
        }
    }

    pub(crate) fn from_word(word: &str) -> Self {
        match word {
            "active" => Self::Active,
            "error" => Self::Error,
            _ => Self::Closed,
        }
    }
}

impl CallStatus {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Error => "error",
        }
    }
}

/// A location as the column `location` has it.
pub(crate) fn location_json(location: &Location) -> serde_json::Value {
    serde_json::json!({
        "url": location.url,
        "lineNumber": location.line,
        "columnNumber": location.column,
    })
}

pub(crate) fn location(json: &str) -> Option<Location> {
    let json: serde_json::Value = serde_json::from_str(json).ok()?;
    let number = |key: &str| json[key].as_u64().and_then(|number| number.try_into().ok());
    Some(Location {
        url: json["url"].as_str()?.to_owned(),
        line: number("lineNumber"),
        column: number("columnNumber"),
    })
}

/// All entries of a call as the column `console_logs` has them.
pub(crate) fn console_json(entries: &[ConsoleEntry]) -> String {
    entries
        .iter()
        .map(|entry| {
            serde_json::json!({
                "level": entry.level.name(),
                "message": entry.message,
                "timestamp": entry.at.map(micros),
                "location": entry.location.as_ref().map(location_json),
            })
        })
        .collect::<serde_json::Value>()
        .to_string()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{duration, duration_micros, location, location_json, micros, time};
    use crate::model::Location;

    #[test]
    fn times_come_back_to_the_microsecond_also_those_before_1970() {
        let distance = Duration::from_micros(1_700_000_000_123_456);
        for at in [UNIX_EPOCH, UNIX_EPOCH + distance, UNIX_EPOCH - distance] {
            assert_eq!(time(micros(at)), at);
        }
        assert_eq!(duration(duration_micros(distance)), distance);
        assert_eq!(duration_micros(Duration::MAX), i64::MAX);
    }

    #[test]
    fn a_location_comes_back_with_what_was_known_of_it() {
        for (line, column) in [(Some(3), Some(4)), (Some(3), None), (None, None)] {
            let there = Location { url: "http://a/\"b".into(), line, column };
            assert_eq!(location(&location_json(&there).to_string()), Some(there));
        }
        assert_eq!(location("no json"), None);
    }
}
