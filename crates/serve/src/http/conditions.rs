//! Conditional requests.

use std::time::{Duration, SystemTime};

use fbc::spelling::calendar::{self, Date};
use hyper::HeaderMap;
use hyper::header::{HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};

/// The outcome of the conditions of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The conditions hold: send the content.
    Send,
    /// The client has the current content.
    NotModified,
    /// A precondition failed.
    Failed,
}

/// Evaluates the conditions of a request for content with this tag and modification time.
pub fn check(headers: &HeaderMap, tag: &str, since: SystemTime) -> Verdict {
    let header = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let time = |name| header(name).and_then(parse_time);
    let since = whole_seconds(since);
    if let Some(wanted) = header(IF_MATCH) {
        if !matches(wanted, tag, false) {
            return Verdict::Failed;
        }
    } else if time(IF_UNMODIFIED_SINCE).is_some_and(|time| since > time) {
        return Verdict::Failed;
    }
    match header(IF_NONE_MATCH) {
        Some(known) if matches(known, tag, true) => Verdict::NotModified,
        Some(_) => Verdict::Send,
        None if time(IF_MODIFIED_SINCE).is_some_and(|time| since <= time) => Verdict::NotModified,
        None => Verdict::Send,
    }
}

/// Returns whether a list of entity tags contains `tag`.
pub(super) fn matches(list: &str, tag: &str, weakly: bool) -> bool {
    list.split(',').map(str::trim).any(|one| {
        let one = if weakly { one.strip_prefix("W/").unwrap_or(one) } else { one };
        one == "*" || one.strip_prefix('"').and_then(|one| one.strip_suffix('"')) == Some(tag)
    })
}

fn whole_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Formats a time for HTTP: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn format_time(time: SystemTime) -> String {
    let seconds = i64::try_from(whole_seconds(time)).unwrap_or(i64::MAX);
    let (date, [hour, minute, second]) = calendar::parts(seconds);
    let weekday = DAYS[date.days().rem_euclid(7) as usize];
    let month = MONTHS[(date.month - 1) as usize];
    format!("{weekday}, {:02} {month} {:04} {hour:02}:{minute:02}:{second:02} GMT", date.day, date.year)
}

/// Parses an HTTP time in the current format; seconds since 1970.
fn parse_time(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once(", ")?;
    let mut parts = rest.split(' ');
    let day: u32 = parts.next()?.parse().ok()?;
    let month = parts.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let year: i64 = parts.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut clock = parts.next()?.split(':').map(|part| part.parse::<u32>().ok().map(i64::from));
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if parts.next() != Some("GMT") || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let date = Date::new(year, month, day.into()).filter(|date| date.exists())?;
    u64::try_from(date.days() * calendar::DAY + hour * 3600 + minute * 60 + second).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_and_parsed_back() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(format_time(time), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(parse_time("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(parse_time("Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800));
        for wrong in
            ["", "x", "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49 GMT", "Sun, 06 Nov 99999999 1:1:1 GMT"]
        {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn tags_take_precedence_over_times() {
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let verdict = |name, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            check(&headers, "t", since)
        };
        assert_eq!(verdict(IF_NONE_MATCH, "\"x\", W/\"t\""), Verdict::NotModified);
        assert_eq!(verdict(IF_NONE_MATCH, "\"x\""), Verdict::Send);
        assert_eq!(verdict(IF_MATCH, "\"x\""), Verdict::Failed);
        assert_eq!(verdict(IF_MODIFIED_SINCE, "Sun, 06 Nov 1994 08:49:37 GMT"), Verdict::NotModified);
        assert_eq!(verdict(IF_UNMODIFIED_SINCE, "Sun, 06 Nov 1994 08:49:36 GMT"), Verdict::Failed);
        assert_eq!(verdict(IF_MODIFIED_SINCE, "garbage"), Verdict::Send);
    }
}
