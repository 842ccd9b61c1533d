//! The Gregorian calendar, in UTC and without leap seconds.
//!
//! Days are counted in eras of 400 years that start on the first of March, so that leap days come last.

use std::fmt;

/// The number of seconds in a day.
pub const DAY: i64 = 86_400;

/// The number of days from the start of era 0 to 1970-01-01.
const TO_1970: i64 = 719_468;
/// The number of days in an era.
const ERA: i64 = 146_097;

/// A calendar date, ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// The year.
    pub year: i64,
    /// The month, from 1 to 12.
    pub month: i64,
    /// The day of the month, from 1.
    pub day: i64,
}

impl Date {
    /// Returns a date, if the month exists and the day is at most the 31st.
    ///
    /// Certificates and other sources contain days that a month does not have; [`Date::exists`] detects them.
    pub fn new(year: i64, month: i64, day: i64) -> Option<Date> {
        let good = (1..=12).contains(&month) && (1..=31).contains(&day) && (-1_000_000..1_000_000).contains(&year);
        good.then_some(Date { year, month, day })
    }

    /// Returns the date `days` days after 1970-01-01.
    pub fn from_days(days: i64) -> Date {
        let shifted = days.saturating_add(TO_1970);
        let (era, of_era) = (shifted.div_euclid(ERA), shifted.rem_euclid(ERA));
        let years = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * years + years / 4 - years / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Date { year: years + era * 400 + i64::from(month <= 2), month, day }
    }

    /// Returns the number of days from 1970-01-01 to this date.
    pub fn days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let of_year = (153 * ((self.month + 9) % 12) + 2) / 5 + self.day - 1;
        era * ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - TO_1970
    }

    /// Returns whether the month has such a day.
    pub fn exists(self) -> bool {
        Date::from_days(self.days()) == self
    }
}

impl fmt::Display for Date {
    /// Formats the date as in RFC 3339.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// Splits seconds since 1970 into the date and hour, minute and second.
pub fn parts(seconds: i64) -> (Date, [i64; 3]) {
    let rest = seconds.rem_euclid(DAY);
    (Date::from_days(seconds.div_euclid(DAY)), [rest / 3_600, rest / 60 % 60, rest % 60])
}

/// Formats seconds since 1970 as in RFC 3339: `1970-01-01T00:00:00Z`.
pub fn rfc3339(seconds: i64) -> String {
    let (date, [hour, minute, second]) = parts(seconds);
    format!("{date}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns the current time in seconds since 1970.
pub fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_match_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }

    #[test]
    fn days_and_dates_convert_both_ways() {
        let mut before = Date::from_days(-200_001);
        for days in -200_000..200_000 {
            let date = Date::from_days(days);
            assert_eq!(date.days(), days);
            assert!(date.exists() && before < date, "{date}");
            before = date;
        }
        assert_eq!(Date::new(2000, 2, 29).map(Date::days), Some(11_016));
        assert_eq!(Date::new(2120, 1, 1).map(Date::days), Some(54_786));
        assert_eq!(Date::new(2024, 2, 29).map(Date::exists), Some(true));
        assert_eq!(Date::new(2023, 2, 29).map(Date::exists), Some(false));
    }

    #[test]
    fn invalid_months_and_out_of_range_times_are_rejected() {
        assert_eq!(Date::new(2020, 13, 1), None);
        assert_eq!(Date::new(2020, 1, 32), None);
        assert_eq!(Date::new(i64::MAX, 1, 1), None);
        for seconds in [i64::MIN, i64::MAX] {
            rfc3339(seconds);
        }
    }
}
