//! Times and dates in UTC, as `jiff` computes them.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::rfc2822::{DateTimeParser, DateTimePrinter};
use jiff::tz::{Offset, TimeZone};

pub use jiff::civil::Date;

/// Formats seconds since 1970 as in RFC 3339: `1970-01-01T00:00:00Z`. The first and the last time are those of the years
/// -9999 and 9999.
pub fn rfc3339(seconds: i64) -> String {
    timestamp(seconds).to_string()
}

/// Formats seconds since 1970 for HTTP: `Sun, 06 Nov 1994 08:49:37 GMT`. Times before the year 0 are that of 1970.
pub fn http_date(seconds: i64) -> String {
    let printer = DateTimePrinter::new();
    let date = |time: &Timestamp| printer.timestamp_to_rfc9110_string(time);
    date(&timestamp(seconds)).or_else(|_| date(&Timestamp::UNIX_EPOCH)).unwrap_or_default()
}

/// Parses a time of HTTP to seconds since 1970.
pub fn parse_http_date(text: &str) -> Option<i64> {
    let seconds = DateTimeParser::new().parse_timestamp(text).ok()?.as_second();
    // HTTP has one form, mail has several.
    (http_date(seconds) == text).then_some(seconds)
}

/// Returns the seconds since 1970 at a date and time.
pub fn seconds(time: DateTime) -> Option<i64> {
    Offset::UTC.to_timestamp(time).ok().map(Timestamp::as_second)
}

/// Returns the current time in seconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// Returns the current date.
pub fn today() -> Date {
    timestamp(now()).to_zoned(TimeZone::UTC).date()
}

fn timestamp(seconds: i64) -> Timestamp {
    let last = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_second(seconds).unwrap_or(last)
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
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
        for seconds in [i64::MIN, i64::MAX] {
            rfc3339(seconds);
            http_date(seconds);
        }
    }

    #[test]
    fn times_of_http_are_formatted_and_parsed_back() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(parse_http_date("Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800));
        for wrong in [
            "",
            "x",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sun, 06 Nov 99999999 1:1:1 GMT",
        ] {
            assert_eq!(parse_http_date(wrong), None, "{wrong}");
        }
    }
}
