//! Version ranges, as in `skipRange` and `versionRange`.
//!
//! The language is that of the library that all catalog tools share. Published catalogs depend on its quirks, so they
//! are reproduced: a space means "and", ` || ` means "or", a word of one character is dropped, and any term with an `x`
//! goes through wildcard rewriting. [`VersionRange::surprises`] reports where a range was accepted by accident.
//!
//! Parsing and matching take time linear in the text and do not recurse.

use std::borrow::Cow;
use std::fmt;

use crate::quote::quote;
use crate::version::{Version, VersionError};

#[cfg(test)]
mod tests;
mod wildcard;

/// A set of versions defined by comparisons.
#[derive(Clone, Debug)]
pub struct VersionRange {
    text: Box<str>,
    /// A version matches if all comparisons of any alternative hold.
    alternatives: Vec<Vec<Comparison>>,
    surprises: Vec<Surprise>,
}

/// The reason why a range is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// The text starts with `||`.
    #[error("First element in range is '||'")]
    LeadingOr,
    /// The text ends with `||`, or contains no term.
    #[error("Last element in range is '||'")]
    TrailingOr,
    /// A term has no digit and so no version.
    #[error("Could not get version from string: {}", quote(.0))]
    NoVersion(Box<str>),
    /// A term starts with an unknown operator.
    #[error(
        "Could not parse Range {}: Could not parse comparator {} in {}",
        quote(term), quote(operator), quote(&format!("{operator}{version}"))
    )]
    Operator {
        /// The complete term.
        term: Box<str>,
        /// The text before the version.
        operator: Box<str>,
        /// The text in place of the version.
        version: Box<str>,
    },
    /// The version of a term is incomplete or invalid.
    #[error(
        "Could not parse Range {}: Could not parse version {} in {}: {error}",
        quote(term), quote(version), quote(&format!("{operator}{version}"))
    )]
    Version {
        /// The complete term.
        term: Box<str>,
        /// The operator before the version.
        operator: Box<str>,
        /// The text in place of the version.
        version: Box<str>,
        /// The parse error.
        error: VersionError,
    },
}

/// A part of a range that is accepted but probably unintended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Surprise {
    /// There is nothing between two `||`. Such an alternative matches nothing here; older tools crash on it.
    EmptyAlternative,
    /// A word of one character is dropped, as in `! 1.0.0` or `>=1.0.0 - <=2.0.0`.
    DroppedWord(char),
    /// A wildcard is excluded, as in `!=1.2.x`, which no version satisfies.
    ExcludedWildcard(Box<str>),
    /// Three-part wildcards end at the next minor version: `1.x.x` does not contain 1.1.0.
    DoubleWildcard(Box<str>),
    /// The operator of a term with a wildcard is unknown and dropped, as in `^1.2.x`, which means exactly 1.2.0.
    DroppedOperator(Box<str>),
}

#[derive(Clone, Debug)]
struct Comparison {
    operator: Operator,
    version: Version,
}

#[derive(Clone, Copy, Debug)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl VersionRange {
    /// Parses a range.
    pub fn parse(text: &str) -> Result<VersionRange, RangeError> {
        let mut surprises = Vec::new();
        let words = words(text, &mut surprises);
        let alternatives = split_alternatives(&words, &mut surprises)?;

        // All wildcards are rewritten before the first term is parsed, so that the first of several errors is the same
        // as in older tools.
        let mut rewritten = Vec::with_capacity(alternatives.len());
        for alternative in alternatives {
            let mut terms = Vec::with_capacity(alternative.len());
            for word in alternative {
                if word.contains('x') {
                    wildcard::rewrite(word, &mut terms, &mut surprises)?;
                } else {
                    terms.push(Cow::Borrowed(&**word));
                }
            }
            rewritten.push(terms);
        }
        let alternatives = rewritten
            .iter()
            .map(|terms| terms.iter().map(|term| Comparison::parse(term)).collect())
            .collect::<Result<_, _>>()?;
        Ok(VersionRange { text: text.into(), alternatives, surprises })
    }

    /// Returns whether the range contains `version`.
    ///
    /// Pre-releases are versions like any other: `>=1.0.0 <2.0.0` contains 2.0.0-rc.1.
    pub fn contains(&self, version: &Version) -> bool {
        self.alternatives
            .iter()
            .any(|alternative| !alternative.is_empty() && alternative.iter().all(|term| term.holds(version)))
    }

    /// Returns the versions that the range compares with, in source order.
    ///
    /// Of the versions strictly between two neighbors of this set, the range contains either all or none, so a sorted
    /// list can be matched without testing each version.
    pub fn boundaries(&self) -> impl Iterator<Item = &Version> {
        self.alternatives.iter().flatten().map(|term| &term.version)
    }

    /// Returns whether the range contains no version at all, as with `1.0.0 2.0.0`.
    pub fn never_matches(&self) -> bool {
        self.alternatives.iter().all(|alternative| least_match(alternative).is_none())
    }

    /// Returns what was accepted by accident, for warnings.
    pub fn surprises(&self) -> &[Surprise] {
        &self.surprises
    }

    /// Returns the source text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Surprise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Surprise::EmptyAlternative => f.write_str("nothing between two '||'; older tools crash on this range"),
            Surprise::DroppedWord(word) => {
                write!(f, "{} on its own is ignored", quote(word.encode_utf8(&mut [0; 4])))
            }
            Surprise::ExcludedWildcard(term) => {
                write!(f, "{} matches no version", quote(term))
            }
            Surprise::DoubleWildcard(term) => {
                write!(f, "{} stops at the next minor version", quote(term))
            }
            Surprise::DroppedOperator(term) => {
                write!(f, "the operator of {} is ignored", quote(term))
            }
        }
    }
}

impl Comparison {
    fn parse(term: &str) -> Result<Comparison, RangeError> {
        let (operator_text, version_text) = split_term(term)?;
        let operator = match operator_text {
            "" | "=" | "==" => Operator::Equal,
            "!" | "!=" => Operator::NotEqual,
            ">" => Operator::Greater,
            ">=" => Operator::GreaterOrEqual,
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            _ => {
                return Err(RangeError::Operator {
                    term: term.into(),
                    operator: operator_text.into(),
                    version: version_text.into(),
                });
            }
        };
        match Version::parse_strict(version_text) {
            Ok(version) => Ok(Comparison { operator, version }),
            Err(error) => Err(RangeError::Version {
                term: term.into(),
                operator: operator_text.into(),
                version: version_text.into(),
                error,
            }),
        }
    }

    fn holds(&self, version: &Version) -> bool {
        let order = version.cmp_precedence(&self.version);
        match self.operator {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
        }
    }
}

/// Splits a range at spaces, except those that follow an operator.
///
/// Words of one byte are dropped. Spaces inside a word are removed, so that `>= 1.0.0` is one word.
fn words<'a>(text: &'a str, surprises: &mut Vec<Surprise>) -> Vec<Cow<'a, str>> {
    let mut words = Vec::new();
    let mut add = |word: &'a str| match word.as_bytes() {
        [] => {}
        // A single byte of valid text between spaces is an ASCII character.
        [byte] => surprises.push(Surprise::DroppedWord(char::from(*byte))),
        _ if word.contains(' ') => words.push(Cow::Owned(word.replace(' ', ""))),
        _ => words.push(Cow::Borrowed(word)),
    };
    let mut start = 0;
    let mut last = b' ';
    for (i, byte) in text.bytes().enumerate() {
        if byte != b' ' {
            last = byte;
        } else if !matches!(last, b'>' | b'<' | b'=') {
            add(&text[start..i]);
            start = i + 1;
        }
    }
    add(&text[start..]);
    words
}

fn split_alternatives<'w, 'a>(
    words: &'w [Cow<'a, str>],
    surprises: &mut Vec<Surprise>,
) -> Result<Vec<&'w [Cow<'a, str>]>, RangeError> {
    if words.first().is_some_and(|word| word == "||") {
        return Err(RangeError::LeadingOr);
    }
    // Without any word there is one, empty alternative.
    let alternatives: Vec<_> = words.split(|word| word == "||").collect();
    if alternatives.last().is_none_or(|alternative| alternative.is_empty()) {
        return Err(RangeError::TrailingOr);
    }
    for alternative in &alternatives {
        if alternative.is_empty() {
            surprises.push(Surprise::EmptyAlternative);
        }
    }
    Ok(alternatives)
}

/// Splits a term into its operator and version.
fn split_term(term: &str) -> Result<(&str, &str), RangeError> {
    // Digits of other scripts count here and are rejected with their version.
    match term.find(char::is_numeric) {
        // Spaces are removed already, but tabs and line breaks after an operator are not.
        Some(start) => Ok((term[..start].trim(), &term[start..])),
        None => Err(RangeError::NoVersion(term.into())),
    }
}

/// Returns the lowest version that satisfies all of `alternative`, if any.
fn least_match(alternative: &[Comparison]) -> Option<Version> {
    if alternative.is_empty() {
        return None;
    }
    let mut least = Version::least();
    let mut excluded = Vec::new();
    for Comparison { operator, version } in alternative {
        let bound = match operator {
            Operator::Equal | Operator::GreaterOrEqual => version.clone(),
            Operator::Greater => version.successor()?,
            Operator::NotEqual => {
                excluded.push(version);
                continue;
            }
            Operator::Less | Operator::LessOrEqual => continue,
        };
        if bound.cmp_precedence(&least).is_gt() {
            least = bound;
        }
    }
    excluded.sort_unstable_by(|a, b| a.cmp_precedence(b));
    for version in excluded {
        if version.cmp_precedence(&least).is_eq() {
            least = least.successor()?;
        }
    }
    // Only upper bounds remain: if the lowest candidate exceeds one, so does every other.
    alternative.iter().all(|term| term.holds(&least)).then_some(least)
}
