//! Minimum and maximum versions of a request, in full or short form: `1`, `1.2`, `v1.2.3`.

use std::cmp::Ordering;

use fbc::version::Version;

/// One end of a version range.
#[derive(Debug, Clone)]
pub struct Bound {
    text: String,
    version: Version,
    /// The number of components given, out of major, minor and patch.
    parts: usize,
}

/// The text of a bound is not a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a version such as 1, 1.2 or 1.2.3")]
pub struct InvalidBound(String);

impl Bound {
    /// Parses a version with at least one component.
    ///
    /// # Errors
    /// Fails if the text is not a version.
    pub fn parse(text: &str) -> Result<Bound, InvalidBound> {
        let wrong = || InvalidBound(text.to_owned());
        let plain = text.strip_prefix('v').unwrap_or(text);
        let end = plain.find(['-', '+']).unwrap_or(plain.len());
        let (numbers, rest) = plain.split_at(end);
        let parts = numbers.split('.').count();
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if parts > 3 || !numbers.split('.').all(digits) {
            return Err(wrong());
        }
        let number = |part: &str| part.parse::<u64>().map_err(|_| wrong());
        let mut whole = numbers.split('.').map(number).collect::<Result<Vec<u64>, InvalidBound>>()?;
        whole.resize(3, 0);
        let spelled = format!("{}.{}.{}{rest}", whole[0], whole[1], whole[2]);
        let version = Version::parse_strict(&spelled).map_err(|_| wrong())?;
        Ok(Bound { text: text.to_owned(), version, parts })
    }

    /// Returns the original text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether a version is at most this one; `1.2` covers all of 1.2.x.
    fn allows_up_to(&self, version: &Version) -> bool {
        match self.parts {
            1 => version.major() <= self.version.major(),
            2 => (version.major(), version.minor()) <= (self.version.major(), self.version.minor()),
            _ => version.cmp_precedence(&self.version) != Ordering::Greater,
        }
    }
}

/// A version range; a missing bound leaves it open.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    /// The minimum version.
    pub min: Option<Bound>,
    /// The maximum version.
    pub max: Option<Bound>,
}

impl Bounds {
    /// Returns whether both bounds are missing.
    pub fn is_open(&self) -> bool {
        self.min.is_none() && self.max.is_none()
    }

    /// Returns the only version in the range, if both bounds are equal.
    pub fn exact(&self) -> Option<&Version> {
        let (min, max) = (self.min.as_ref()?, self.max.as_ref()?);
        let same = min.parts == 3 && max.parts == 3 && min.version.cmp_precedence(&max.version) == Ordering::Equal;
        same.then_some(&min.version)
    }

    /// Returns whether a version is in the range. Pre-releases compare by precedence like other versions, so
    /// `26.0.8-opr.1` is above `26.0.0`. Build metadata is ignored.
    pub fn contains(&self, version: &Version) -> bool {
        let above = self.min.as_ref().is_none_or(|min| version.cmp_precedence(&min.version) != Ordering::Less);
        above && self.max.as_ref().is_none_or(|max| max.allows_up_to(version))
    }

    /// Returns whether the existing tool would exclude a version in this range: a pre-release, unless a bound is one.
    pub fn excluded_by_existing_tool(&self, version: &Version) -> bool {
        let ends = self.min.iter().chain(&self.max);
        !version.prerelease().is_empty() && ends.into_iter().all(|end| end.version.prerelease().is_empty())
    }
}

impl std::fmt::Display for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.min, &self.max) {
            (Some(min), Some(max)) => write!(f, "{} to {}", min.text, max.text),
            (Some(min), None) => write!(f, "{} and above", min.text),
            (None, Some(max)) => write!(f, "up to {}", max.text),
            (None, None) => f.write_str("any version"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(min: &str, max: &str, version: &str) -> bool {
        let bound = |text: &str| (!text.is_empty()).then(|| Bound::parse(text).unwrap());
        Bounds { min: bound(min), max: bound(max) }.contains(&Version::parse_strict(version).unwrap())
    }

    #[test]
    fn versions_may_be_abbreviated() {
        for text in ["1", "1.2", "v1.2.3", "1.2.3-rc.1+b", "1-beta"] {
            assert!(Bound::parse(text).is_ok(), "{text}");
        }
        for text in ["", "v", "1.2.3.4", "1.x", "latest", "1..2", "-1", "1.2.3-"] {
            assert!(Bound::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_abbreviated_maximum_includes_all_its_versions_and_pre_releases_compare_by_precedence() {
        assert!(contains("", "1.2", "1.2.9") && !contains("", "1.2", "1.3.0"));
        assert!(contains("", "1", "1.9.9") && !contains("", "1", "2.0.0"));
        assert!(contains("1.2", "", "1.2.0") && !contains("1.2", "", "1.1.9"));
        assert!(contains("26.0.0", "", "26.0.8-opr.1") && !contains("26.0.0", "", "26.0.0-opr.1"));
        assert!(contains("1.0.0+a", "1.0.0", "1.0.0+b"));
    }
}
