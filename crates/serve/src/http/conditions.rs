//! Conditional requests.

use std::time::{Duration, SystemTime};

use fbc::spelling::calendar;
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
    let time = |name| header(name).and_then(calendar::parse_http_date).and_then(|time| u64::try_from(time).ok());
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

/// Formats a time for HTTP: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn format_time(time: SystemTime) -> String {
    calendar::http_date(i64::try_from(whole_seconds(time)).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

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
