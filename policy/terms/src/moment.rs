//! Points in time as people write them: `2026-01-31`, `2026-01-31T10:00:00+01:00`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::Timestamp;

/// A point in time that is written as a date or a time (RFC 3339). Dates are midnight in UTC, as are times without an
/// offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub Timestamp);

impl FromStr for Moment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        absolute(text).map(Self).ok_or("expected a date (2026-01-31) or a time (2026-01-31T10:00:00Z)")
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

crate::as_text!(Moment, "moment", "string");

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
    let text = text.replace('z', "Z").replace(['t', ' '], "T");
    serde_json::from_value(serde_json::Value::from(text)).ok()
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
            let expected =
                expected.map(|text| serde_json::from_value(serde_json::Value::from(text)).unwrap());
            assert_eq!(text.parse().ok().map(|Moment(time)| time), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}|[0-9]{4}-[0-9]{2}-[0-9]{2}([T t][0-9:.Z+-]{0,20})?") {
            if let Ok(Moment(time)) = text.parse() {
                proptest::prop_assert_eq!(Moment(time).to_string().parse(), Ok(Moment(time)));
            }
        }

        #[test]
        fn every_time_round_trips(nanos in 0..=u64::MAX) {
            let moment = Moment(Timestamp(nanos));
            proptest::prop_assert_eq!(moment.to_string().parse(), Ok(moment));
        }
    }
}
