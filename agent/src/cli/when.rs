//! Points in time as people write them, for all commands: `2h`, `2026-01-31`, `2026-01-31T10:00:00+01:00`.

use std::str::FromStr;

use mcpwarden_policy::{
    Timestamp,
    config::{Moment, Period},
};

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
        let moment: Result<Moment, _> = text.parse();
        moment.map(|Moment(time)| Self(time)).map_err(
            |_| "expected how long ago (7d, 12h), a date (2026-01-31) or a time (2026-01-31T10:00:00Z)",
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn relative_and_absolute_times_are_parsed() {
        let time = "2026-01-31T09:00:00Z".parse::<Moment>().unwrap().0;
        assert_eq!("2026-01-31T10:00:00+01:00".parse(), Ok(When(time)));
        assert!("yesterday".parse::<When>().is_err());
        let Timestamp(now) = Clock::new().now();
        for (text, ago) in [("90s", 90), ("2h", 7_200), ("7d", 604_800)] {
            let When(found) = text.parse().unwrap();
            let exact = Timestamp(now).before(Duration::from_secs(ago));
            assert!(found >= exact && found.nanos_since(exact) < 60_000_000_000, "{text}");
        }
    }
}
