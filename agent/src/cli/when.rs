//! Points in time as people write them, for all commands: `2h`, `2026-01-31`, `2026-01-31T10:00:00+01:00`.

use std::{str::FromStr, time::Duration};

use mcpwarden_policy::{Timestamp, config::Period};
use serde_json::Value;

use crate::host::clock::Clock;

/// A time, or how long ago that was. Dates are midnight in UTC, as are times without an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When(pub Timestamp);

impl FromStr for When {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(Period(ago)) = text.parse() {
            return Ok(Self(Clock::new().now().before(ago)));
        }
        absolute(text)
            .map(Self)
            .ok_or("expected how long ago (7d, 12h), a date (2026-01-31) or a time (2026-01-31T10:00:00Z)")
    }
}

fn absolute(text: &str) -> Option<Timestamp> {
    if text.len() == "2026-01-31".len() {
        return utc(&format!("{text}T00:00:00Z"));
    }
    if text.ends_with(['Z', 'z']) {
        return utc(text);
    }
    let (time, offset) = text.split_at_checked(text.len().checked_sub("+01:00".len())?)?;
    let Some(digits) = offset.strip_prefix(['+', '-']) else { return utc(&format!("{text}Z")) };
    let (hours, minutes) = digits.split_once(':')?;
    let number = |digits: &str| {
        (digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| digits.parse().ok())?
    };
    let (hours, minutes): (u64, u64) = (number(hours)?, number(minutes)?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let ahead = Duration::from_secs(hours * 3_600 + minutes * 60);
    let time = utc(&format!("{time}Z"))?;
    Some(if offset.starts_with('+') { time.before(ahead) } else { time.after(ahead) })
}

fn utc(text: &str) -> Option<Timestamp> {
    serde_json::from_value(Value::from(text.replace('z', "Z").replace(['t', ' '], "T"))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written, and the same in RFC 3339.
    #[test]
    fn absolute_times_are_parsed() {
        for (text, expected) in [
            ("2026-01-31", Some("2026-01-31T00:00:00Z")),
            ("2026-01-31T10:00:00Z", Some("2026-01-31T10:00:00Z")),
            ("2026-01-31t10:00:00z", Some("2026-01-31T10:00:00Z")),
            ("2026-01-31 10:00:00", Some("2026-01-31T10:00:00Z")),
            ("2026-01-31T10:00:00.123456789Z", Some("2026-01-31T10:00:00.123456789Z")),
            ("2026-01-31T10:00:00+01:00", Some("2026-01-31T09:00:00Z")),
            ("2026-01-31T10:00:00.5-05:30", Some("2026-01-31T15:30:00.5Z")),
            ("2026-02-30", None),
            ("2026-01-31T10:00:00+1:00", None),
            ("2026-01-31T10:00:00+24:00", None),
            ("2026-01-31T25:00:00Z", None),
            ("yesterday", None),
            ("10", None),
            ("ä-01-31T1", None),
            ("äääää", None),
            ("", None),
        ] {
            let expected = expected.map(|text| serde_json::from_value(Value::from(text)).unwrap());
            assert_eq!(absolute(text), expected, "{text}");
            assert_eq!(text.parse::<When>().is_ok(), expected.is_some(), "{text}");
        }
    }

    #[test]
    fn relative_times_are_parsed() {
        let Timestamp(now) = Clock::new().now();
        for (text, ago) in [("90s", 90), ("2h", 7_200), ("7d", 604_800)] {
            let When(found) = text.parse().unwrap();
            let exact = Timestamp(now).before(Duration::from_secs(ago));
            assert!(found >= exact && found.nanos_since(exact) < 60_000_000_000, "{text}");
        }
    }
}
