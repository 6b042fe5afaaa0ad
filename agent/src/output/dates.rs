//! Whether times are printed with their dates.

use mcpwarden_policy::Timestamp;

/// The dates of printed lines: a line without one is of the day that is known, and from the first of another day on each line has
/// its date.
#[derive(Clone, Debug)]
pub struct Dates {
    day: Option<String>,
    needed: bool,
}

impl Dates {
    /// Lines are of this day (UTC), unless they have a date.
    pub fn of(now: Timestamp) -> Self {
        Self { day: Some(day(now)), needed: false }
    }

    /// Lines are of the day of the first one, unless they have a date.
    pub fn of_first() -> Self {
        Self { day: None, needed: false }
    }

    /// Whether the next line, which is of this time, has a date.
    pub fn are_needed(&mut self, time: Timestamp) -> bool {
        if !self.needed {
            let day = day(time);
            self.needed = *self.day.get_or_insert_with(|| day.clone()) != day;
        }
        self.needed
    }
}

fn day(time: Timestamp) -> String {
    let text = time.to_string();
    text.get(..10).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The day that is known, the times of lines in hours since 1970, and which have dates.
    #[test]
    fn dates_are_printed_from_the_first_other_day_on() {
        const HOUR: u64 = 3_600_000_000_000;
        for (name, known, hours, expected) in [
            ("nothing", Some(100), &[][..], &[][..]),
            ("today", Some(100), &[96, 100, 119], &[false, false, false]),
            ("yesterday", Some(100), &[95], &[true]),
            ("yesterday and today", Some(100), &[95, 96, 100], &[true, true, true]),
            ("past midnight", Some(100), &[119, 120, 121], &[false, true, true]),
            ("a year ago", Some(9_000), &[240, 241], &[true, true]),
            ("tomorrow, by a clock that is wrong", Some(100), &[130, 100], &[true, true]),
            ("one day of a recording", None, &[48, 49, 71], &[false, false, false]),
            ("days of a recording", None, &[48, 71, 72, 73], &[false, false, true, true]),
            ("the first second", None, &[0], &[false]),
        ] {
            let mut dates = known.map_or_else(Dates::of_first, |hour: u64| Dates::of(Timestamp(hour * HOUR)));
            let found: Vec<bool> =
                hours.iter().map(|hour| dates.are_needed(Timestamp(hour * HOUR))).collect();
            assert_eq!(found, expected, "{name}");
        }
    }
}
