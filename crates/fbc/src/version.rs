//! Semantic versions of bundles: parsing, order, formatting.
//!
//! Messages are those of the reference tool. They contain the offending part, and scripts match them.

use std::cmp::Ordering;
use std::fmt;

use crate::quote::quote;

/// A semantic version, `major.minor.patch[-prerelease][+build]`.
///
/// Equality and hashing are those of the text, including build metadata: `1.0.0+a` and `1.0.0+b` differ.
/// [`Version::cmp_precedence`] decides which of two versions is newer; because the two disagree, there is no `Ord`.
///
/// Displaying a version and parsing it strictly are inverse operations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    major: u64,
    minor: u64,
    patch: u64,
    /// Valid identifiers joined by dots; empty if there are none.
    prerelease: Box<str>,
    /// Likewise.
    build: Box<str>,
}

/// The reason why a version is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The text is empty.
    #[error("Version string empty")]
    Empty,
    /// There are fewer than three dot-separated numbers.
    #[error("No Major.Minor.Patch elements found")]
    TooFewNumbers,
    /// One of the three numbers contains characters other than digits.
    #[error("Invalid character(s) found in {} number {}", number.lower_case(), quote(text))]
    NumberCharacters { number: Number, text: Box<str> },
    /// One of the three numbers has a leading zero.
    #[error("{number} number must not contain leading zeroes {}", quote(text))]
    NumberLeadingZero { number: Number, text: Box<str> },
    /// A number is missing between dots.
    #[error("strconv.ParseUint: parsing \"\": invalid syntax")]
    NumberMissing,
    /// A number needs more than 64 bits.
    #[error("strconv.ParseUint: parsing {}: value out of range", quote(.0))]
    NumberTooLarge(Box<str>),
    /// A pre-release identifier is empty.
    #[error("Prerelease is empty")]
    PrereleaseEmpty,
    /// A numeric pre-release identifier has a leading zero.
    #[error("Numeric PreRelease version must not contain leading zeroes {}", quote(.0))]
    PrereleaseLeadingZero(Box<str>),
    /// A pre-release identifier contains characters other than ASCII letters, digits and `-`.
    #[error("Invalid character(s) found in prerelease {}", quote(.0))]
    PrereleaseCharacters(Box<str>),
    /// A build metadata identifier is empty.
    #[error("Build meta data is empty")]
    BuildEmpty,
    /// A build metadata identifier contains characters other than ASCII letters, digits and `-`.
    #[error("Invalid character(s) found in build meta data {}", quote(.0))]
    BuildCharacters(Box<str>),
    /// A tolerantly parsed version of one or two numbers has a suffix.
    #[error("Short version cannot contain PreRelease/Build meta data")]
    ShortWithSuffix,
}

/// One of the three numbers of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// The first number.
    Major,
    /// The second number.
    Minor,
    /// The third number.
    Patch,
}

impl Version {
    /// Parses a complete version, as bundles must declare it.
    pub fn parse_strict(text: &str) -> Result<Version, VersionError> {
        if text.is_empty() {
            return Err(VersionError::Empty);
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(VersionError::TooFewNumbers);
        };
        let major = parse_number(Number::Major, major)?;
        let minor = parse_number(Number::Minor, minor)?;

        let (rest, build) = cut(rest, '+');
        let (patch, prerelease) = cut(rest, '-');
        let patch = parse_number(Number::Patch, patch)?;
        for identifier in prerelease.iter().flat_map(|text| text.split('.')) {
            check_prerelease_identifier(identifier)?;
        }
        for identifier in build.iter().flat_map(|text| text.split('.')) {
            if identifier.is_empty() {
                return Err(VersionError::BuildEmpty);
            }
            if !is_identifier(identifier) {
                return Err(VersionError::BuildCharacters(identifier.into()));
            }
        }
        Ok(Version {
            major,
            minor,
            patch,
            prerelease: prerelease.unwrap_or_default().into(),
            build: build.unwrap_or_default().into(),
        })
    }

    /// Parses a version as found in manifests: `v1.2`, ` 1.2.3 ` and `01.02.03` are accepted.
    ///
    /// Surrounding whitespace, one leading `v` and leading zeros of the three numbers are dropped; one or two numbers
    /// are padded with zeros. The result must then be a complete version.
    pub fn parse_tolerant(text: &str) -> Result<Version, VersionError> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);

        let mut complete = String::with_capacity(text.len() + 4);
        let mut parts = 0;
        for part in text.splitn(3, '.') {
            if parts > 0 {
                complete.push('.');
            }
            parts += 1;
            // A single character is not trimmed, so that `1..3` stays an error.
            let significant = if part.len() > 1 { part.trim_start_matches('0') } else { part };
            if part.len() > 1 && !significant.starts_with(|c: char| c.is_ascii_digit()) {
                complete.push('0');
            }
            complete.push_str(significant);
        }
        if parts < 3 {
            let last = text.rsplit('.').next().unwrap_or_default();
            if last.contains(['+', '-']) {
                return Err(VersionError::ShortWithSuffix);
            }
            complete.push_str(if parts == 1 { ".0.0" } else { ".0" });
        }
        Version::parse_strict(&complete)
    }

    /// Returns the first number.
    pub fn major(&self) -> u64 {
        self.major
    }

    /// Returns the second number.
    pub fn minor(&self) -> u64 {
        self.minor
    }

    /// Returns the third number.
    pub fn patch(&self) -> u64 {
        self.patch
    }

    /// Returns the pre-release identifiers, joined by dots; empty if there are none.
    pub fn prerelease(&self) -> &str {
        &self.prerelease
    }

    /// Returns the build metadata, joined by dots; empty if there is none.
    pub fn build(&self) -> &str {
        &self.build
    }

    /// Compares by precedence, ignoring build metadata.
    pub fn cmp_precedence(&self, other: &Version) -> Ordering {
        let numbers = |version: &Version| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => cmp_identifiers(&self.prerelease, &other.prerelease),
            }
        })
    }

    /// Returns the lowest version.
    pub(crate) fn least() -> Version {
        Version::with_prerelease(0, 0, 0, "0")
    }

    /// Returns the direct successor, with no version in between.
    ///
    /// `None` for the highest version.
    pub(crate) fn successor(&self) -> Option<Version> {
        if !self.prerelease.is_empty() {
            let prerelease = format!("{}.0", self.prerelease);
            return Some(Version::with_prerelease(self.major, self.minor, self.patch, &prerelease));
        }
        let (major, minor, patch) = if let Some(patch) = self.patch.checked_add(1) {
            (self.major, self.minor, patch)
        } else if let Some(minor) = self.minor.checked_add(1) {
            (self.major, minor, 0)
        } else {
            (self.major.checked_add(1)?, 0, 0)
        };
        Some(Version::with_prerelease(major, minor, patch, "0"))
    }

    fn with_prerelease(major: u64, minor: u64, patch: u64, prerelease: &str) -> Version {
        Version { major, minor, patch, prerelease: prerelease.into(), build: "".into() }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build)?;
        }
        Ok(())
    }
}

impl Number {
    fn lower_case(self) -> &'static str {
        match self {
            Number::Major => "major",
            Number::Minor => "minor",
            Number::Patch => "patch",
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Number::Major => "Major",
            Number::Minor => "Minor",
            Number::Patch => "Patch",
        })
    }
}

/// Checks one identifier of a pre-release or of a release.
pub(crate) fn check_prerelease_identifier(identifier: &str) -> Result<(), VersionError> {
    if identifier.is_empty() {
        return Err(VersionError::PrereleaseEmpty);
    }
    if is_digits(identifier) {
        if has_leading_zero(identifier) {
            return Err(VersionError::PrereleaseLeadingZero(identifier.into()));
        }
        return parse_digits(identifier).map(|_| ());
    }
    if is_identifier(identifier) { Ok(()) } else { Err(VersionError::PrereleaseCharacters(identifier.into())) }
}

/// Compares two non-empty lists of valid pre-release identifiers joined by dots.
pub(crate) fn cmp_identifiers(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) => match (is_digits(a), is_digits(b)) {
                // Without leading zeros, the longer number is larger.
                (true, true) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (false, false) => a.cmp(b),
            },
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// Splits `text` at the first `separator`, if there is one.
fn cut(text: &str, separator: char) -> (&str, Option<&str>) {
    match text.split_once(separator) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn parse_number(number: Number, text: &str) -> Result<u64, VersionError> {
    if !is_digits(text) {
        return Err(VersionError::NumberCharacters { number, text: text.into() });
    }
    if has_leading_zero(text) {
        return Err(VersionError::NumberLeadingZero { number, text: text.into() });
    }
    parse_digits(text)
}

/// Parses a text of digits only, possibly empty.
fn parse_digits(digits: &str) -> Result<u64, VersionError> {
    if digits.is_empty() {
        return Err(VersionError::NumberMissing);
    }
    digits.parse().map_err(|_| VersionError::NumberTooLarge(digits.into()))
}

/// Returns whether `text` contains only digits, which includes the empty text.
fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn has_leading_zero(digits: &str) -> bool {
    digits.len() > 1 && digits.starts_with('0')
}

fn is_identifier(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests;
