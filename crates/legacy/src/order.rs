//! The order of bundles by version.

use std::cmp::Ordering;

use fbc::version::Version;

use crate::error::Error;

/// The version of a bundle without one: below almost all others.
const NO_VERSION: &str = "0.0.0-z";

/// Parses the version of a bundle; a missing version sorts below all others.
pub(crate) fn version(name: &str, text: &str) -> Result<Version, Error> {
    let text = if text.is_empty() { NO_VERSION } else { text };
    Version::parse_strict(text)
        .map_err(|error| Error::Message(format!("error parsing bundle {name} version {text}: {error}")))
}

/// Compares versions, then their build metadata as if it were a pre-release; no build metadata is the lowest.
pub(crate) fn compare(a: &Version, b: &Version) -> Ordering {
    let build = |version: &Version| match version.build() {
        "" => None,
        build => Some(build.to_owned()),
    };
    a.cmp_precedence(b).then_with(|| match (build(a), build(b)) {
        (Some(a), Some(b)) => compare_builds(&a, &b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    })
}

fn compare_builds(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.split('.'), b.split('.'));
    loop {
        let (a, b) = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(a), Some(b)) => (a, b),
        };
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let order = match (number(a), number(b)) {
            (true, true) => {
                let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
                a.len().cmp(&b.len()).then_with(|| a.cmp(b))
            }
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => a.cmp(b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Compares optional versions; missing ones come first.
pub(crate) fn by_version(a: &str, b: &str) -> Ordering {
    let parse = |text: &str| Version::parse_strict(if text.is_empty() { NO_VERSION } else { text }).ok();
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => compare(&a, &b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}
