//! Range requests.

use hyper::HeaderMap;
use hyper::header;

/// A request with more ranges than this, after adjacent ones are joined, gets the whole content.
const MAX_PARTS: usize = 16;
/// A longer list of ranges is not parsed.
const MAX_RANGES: usize = 256;

/// The requested part of a content.
#[derive(Debug, PartialEq, Eq)]
pub enum ContentRange {
    /// The whole content: no range, an unsupported one, or too many.
    Whole,
    /// Start and exclusive end; sorted and disjoint.
    Parts(Vec<(u64, u64)>),
    /// No range overlaps the content.
    Outside,
}

/// Parses the ranges of a request for content of `length` bytes.
pub fn of(headers: &HeaderMap, length: u64) -> ContentRange {
    let value = headers.get(header::RANGE).and_then(|value| value.to_str().ok()).and_then(|v| v.strip_prefix("bytes="));
    let Some(value) = value else { return ContentRange::Whole };
    let mut parts = Vec::new();
    let mut any = false;
    for (i, one) in value.split(',').map(str::trim).filter(|one| !one.is_empty()).enumerate() {
        if i == MAX_RANGES {
            return ContentRange::Whole;
        }
        any = true;
        match part(one, length) {
            None => return ContentRange::Whole,
            Some(None) => {}
            Some(Some(part)) => parts.push(part),
        }
    }
    if parts.is_empty() {
        return if any { ContentRange::Outside } else { ContentRange::Whole };
    }
    parts.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, end) in parts {
        match joined.last_mut() {
            Some((_, before)) if start <= *before => *before = end.max(*before),
            _ => joined.push((start, end)),
        }
    }
    if joined.len() > MAX_PARTS { ContentRange::Whole } else { ContentRange::Parts(joined) }
}

/// Parses one range: `None` if it is malformed, `Some(None)` if it is outside of the content.
fn part(text: &str, length: u64) -> Option<Option<(u64, u64)>> {
    let (first, last) = text.split_once('-')?;
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first > last => None,
        (Some(first), last) if first >= length && (last.is_some() || text.ends_with('-')) => Some(None),
        (Some(first), Some(last)) => Some(Some((first, last.saturating_add(1).min(length)))),
        (Some(first), None) if text.ends_with('-') => Some(Some((first, length))),
        (None, Some(0)) if first.is_empty() => Some(None),
        (None, Some(_)) if first.is_empty() && length == 0 => Some(None),
        (None, Some(suffix)) if first.is_empty() => Some(Some((length.saturating_sub(suffix), length))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn ranges_are_clipped_to_the_content() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RANGE, HeaderValue::from_str(text).unwrap());
            of(&headers, 10)
        };
        let parts = |parts: &[(u64, u64)]| ContentRange::Parts(parts.to_vec());
        assert_eq!(of("bytes=0-0"), parts(&[(0, 1)]));
        assert_eq!(of("bytes=5-"), parts(&[(5, 10)]));
        assert_eq!(of("bytes=-3"), parts(&[(7, 10)]));
        assert_eq!(of("bytes=-30"), parts(&[(0, 10)]));
        assert_eq!(of("bytes=3-18446744073709551615"), parts(&[(3, 10)]));
        assert_eq!(of("bytes=6-7, 1-2"), parts(&[(1, 3), (6, 8)]));
        assert_eq!(of("bytes=1-4,3-5,6-6,9-"), parts(&[(1, 7), (9, 10)]), "adjacent ranges are joined");
        assert_eq!(of("bytes=1-2,50-60"), parts(&[(1, 3)]), "ranges outside the content are omitted");
        assert_eq!(of("bytes=10-"), ContentRange::Outside);
        assert_eq!(of("bytes=10-12,-0"), ContentRange::Outside);
        for whole in [
            "bytes=5-3",
            "bytes=-",
            "bytes=",
            "lines=1-2",
            "bytes=a-b",
            "bytes=1-2,x",
            "bytes=+1-2",
            "bytes=3-99999999999999999999",
        ] {
            assert_eq!(of(whole), ContentRange::Whole, "{whole}");
        }
        let many = |count: u64, step: u64| {
            let list: Vec<String> = (0..count).map(|i| format!("{}-{}", i * step, i * step)).collect();
            let mut headers = HeaderMap::new();
            headers.insert(header::RANGE, HeaderValue::from_str(&format!("bytes={}", list.join(","))).unwrap());
            super::of(&headers, 10_000)
        };
        assert!(matches!(many(16, 2), ContentRange::Parts(parts) if parts.len() == 16));
        assert_eq!(many(17, 2), ContentRange::Whole, "too many ranges give the whole content");
        assert_eq!(many(200, 1), parts(&[(0, 200)]));
        assert_eq!(many(257, 1), ContentRange::Whole);
    }
}
