//! Version ranges, versions and releases: the first line is a range, further lines are versions.

use fbc::range::VersionRange;
use fbc::release::Release;
use fbc::version::Version;

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let versions: Vec<Version> = rest.split('\n').take(4).filter_map(version).collect();
    if let Ok(release) = Release::parse(first) {
        assert_eq!(release.is_none(), first.is_empty());
    }
    version(first);
    for a in &versions {
        for b in &versions {
            assert_eq!(a.cmp_precedence(b), b.cmp_precedence(a).reverse());
        }
    }
    match VersionRange::parse(first) {
        Ok(range) => {
            assert_eq!(range.as_str(), first);
            for surprise in range.surprises() {
                assert!(!surprise.to_string().is_empty());
            }
            for version in &versions {
                assert!(
                    !(range.contains(version) && range.never_matches()),
                    "{version} is in a range that never matches"
                );
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Parses a version strictly and tolerantly.
fn version(text: &str) -> Option<Version> {
    let tolerant = Version::parse_tolerant(text);
    match Version::parse_strict(text) {
        Ok(version) => {
            assert_eq!(version.to_string(), text);
            assert_eq!(tolerant.as_ref(), Ok(&version));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let version = tolerant.map_err(|error| assert!(!error.to_string().is_empty())).ok()?;
    assert_eq!(Version::parse_strict(&version.to_string()).as_ref(), Ok(&version), "a printed version is parsed");
    Some(version)
}
