//! Releases: rebuilds of one version, distinguished by a second version.

use std::cmp::Ordering;
use std::fmt;

use crate::quote::quote;
use crate::version::{Version, VersionError, check_prerelease_identifier, cmp_identifiers};

/// The maximum length of a release in the cluster's own schema, in bytes.
const MAX_LENGTH: usize = 20;

/// The release of a bundle: dot-separated identifiers as in a pre-release.
///
/// Releases are ordered like pre-releases, `1 < 2 < 10 < alpha < beta.1`. Bundles without a release come first, which
/// is also the order of `Option<Release>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Release(Box<str>);

/// The reason why a release is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// The text is too long.
    #[error("invalid release {}: exceeds maximum length of {MAX_LENGTH} characters", quote(.0))]
    TooLong(Box<str>),
    /// Some identifiers are invalid; each is listed with its zero-based index.
    #[error("invalid release {}: {}", quote(text), one_per_line(segments))]
    Segments {
        /// The source text.
        text: Box<str>,
        /// The indices of the invalid identifiers with their errors. Never empty.
        segments: Vec<(usize, VersionError)>,
    },
}

impl Release {
    /// Parses a release; an empty text yields `None`.
    pub fn parse(text: &str) -> Result<Option<Release>, ReleaseError> {
        if text.is_empty() {
            return Ok(None);
        }
        if text.len() > MAX_LENGTH {
            return Err(ReleaseError::TooLong(text.into()));
        }
        let segments: Vec<_> = text
            .split('.')
            .enumerate()
            .filter_map(|(i, segment)| Some((i, check_prerelease_identifier(segment).err()?)))
            .collect();
        if segments.is_empty() {
            Ok(Some(Release(text.into())))
        } else {
            Err(ReleaseError::Segments { text: text.into(), segments })
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Ord for Release {
    fn cmp(&self, other: &Release) -> Ordering {
        cmp_identifiers(&self.0, &other.0)
    }
}

impl PartialOrd for Release {
    fn partial_cmp(&self, other: &Release) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares two bundles by the precedence of their versions, then by their releases.
pub fn cmp_version_release(
    (version_a, release_a): (&Version, Option<&Release>),
    (version_b, release_b): (&Version, Option<&Release>),
) -> Ordering {
    version_a.cmp_precedence(version_b).then_with(|| release_a.cmp(&release_b))
}

fn one_per_line(segments: &[(usize, VersionError)]) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        for (i, (position, error)) in segments.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}segment {position}: {error}")?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(text: &str) -> Option<Release> {
        Release::parse(text).expect(text)
    }

    #[test]
    fn empty_means_none() {
        assert_eq!(release(""), None);
    }

    #[test]
    fn errors_name_the_release_and_its_bad_segments() {
        for (text, message) in [
            (
                "a123456789.1234567890",
                "invalid release \"a123456789.1234567890\": exceeds maximum length of 20 characters",
            ),
            (
                "01",
                "invalid release \"01\": segment 0: Numeric PreRelease version must not contain \
                 leading zeroes \"01\"",
            ),
            ("1.", "invalid release \"1.\": segment 1: Prerelease is empty"),
            (
                "a+b.1.",
                "invalid release \"a+b.1.\": segment 0: Invalid character(s) found in prerelease \
                 \"a+b\"\nsegment 2: Prerelease is empty",
            ),
        ] {
            assert_eq!(Release::parse(text).expect_err(text).to_string(), message);
        }
    }

    #[test]
    fn releases_order_as_prereleases_with_none_first() {
        let ascending = ["", "1", "1.0", "2", "10", "A", "alpha", "beta.1"].map(release);
        assert!(ascending.is_sorted());
        assert!(ascending.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn the_version_decides_before_the_release() {
        let [old, new] = ["1.0.0", "1.0.1"].map(|text| Version::parse_strict(text).unwrap());
        let two = release("2");
        assert_eq!(cmp_version_release((&old, two.as_ref()), (&new, None)), Ordering::Less);
        assert_eq!(cmp_version_release((&old, two.as_ref()), (&old, None)), Ordering::Greater);
    }
}
