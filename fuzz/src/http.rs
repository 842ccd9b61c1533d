//! Conditions and ranges of HTTP requests.

use std::time::{Duration, SystemTime};

use http::header::{
    HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, RANGE,
};
use serve::http::conditions::{Verdict, check, format_time};
use serve::http::range::{ContentRange, of};

const NAMES: [HeaderName; 5] = [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, RANGE];
const TAG: &str = "tag";

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let Some((numbers, lines)) = bytes.split_first_chunk::<8>() else { return };
    let number = u64::from_le_bytes(*numbers);
    // The time has an HTTP date, and a file can have the length.
    let (time, length) = (SystemTime::UNIX_EPOCH + Duration::from_secs(number % 250_000_000_000), number >> 1);
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n').take(8) {
        let Some((which, value)) = line.split_first() else { continue };
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(NAMES[usize::from(*which) % NAMES.len()].clone(), value);
        }
    }
    check(&headers, TAG, time);
    check_ranges(of(&headers, length), length);
    // A client that has the content gets `304`, with either condition.
    for (name, value) in [(IF_NONE_MATCH, format!("\"{TAG}\"")), (IF_MODIFIED_SINCE, format_time(time))] {
        let condition = HeaderMap::from_iter([(name, value.parse().expect("a header"))]);
        assert_eq!(check(&condition, TAG, time), Verdict::NotModified, "{condition:?}");
    }
}

/// Checks that ranges are sorted, disjoint, not empty, within the content, and few.
fn check_ranges(range: ContentRange, length: u64) {
    let ContentRange::Parts(parts) = range else { return };
    assert!((1..=16).contains(&parts.len()), "{} parts", parts.len());
    assert!(parts.iter().all(|(start, end)| start < end && *end <= length), "{parts:?} of {length}");
    assert!(parts.windows(2).all(|pair| pair[0].1 < pair[1].0), "{parts:?}");
}
