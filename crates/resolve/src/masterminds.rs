//! Version ranges as the second generation of cluster software reads them: `~1.2`, `^1`, `1.2.x`, `>=1, <2 || 3`.
//!
//! Pre-releases match only ranges that name one: `>=1.0.0` does not contain 1.1.0-rc1, `>=1.0.0-0` does.

use std::cmp::Ordering;

use fbc::version::Version;

/// The maximum length of a range in a ClusterExtension.
const MAX_LENGTH: usize = 64;

/// A set of versions.
#[derive(Debug, Clone)]
pub struct MastermindsRange {
    text: String,
    /// Any of these must hold, and all comparisons in it.
    alternatives: Vec<Vec<Comparison>>,
}

#[derive(Debug, Clone)]
struct Comparison {
    operator: Operator,
    version: Version,
    /// How many of the three numbers are written.
    numbers: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Tilde,
    Caret,
}

/// Longest first, so that a prefix does not match instead.
const OPERATORS: [(&str, Operator); 12] = [
    ("!=", Operator::NotEqual),
    (">=", Operator::GreaterOrEqual),
    ("=>", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    ("=<", Operator::LessOrEqual),
    ("~>", Operator::Tilde),
    ("=", Operator::Equal),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("~", Operator::Tilde),
    ("^", Operator::Caret),
    ("", Operator::Equal),
];

/// Why a text is not a range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MastermindsError {
    /// It has this many characters.
    #[error("a range has at most {MAX_LENGTH} characters, and this has {0}")]
    TooLong(usize),
    /// It has a hyphen between two versions, which only some readers accept.
    #[error("invalid version expression: clusters refuse {text}, write '>={from}, <={to}'")]
    Hyphen {
        /// The range.
        text: String,
        /// The first version.
        from: String,
        /// The last version.
        to: String,
    },
    /// It violates the syntax.
    #[error("improper constraint: {0}")]
    Syntax(String),
}

impl MastermindsRange {
    /// Parses a range.
    ///
    /// # Errors
    /// Fails with the part that cannot be parsed.
    pub fn parse(text: &str) -> Result<MastermindsRange, MastermindsError> {
        if text.len() > MAX_LENGTH {
            return Err(MastermindsError::TooLong(text.len()));
        }
        let mut alternatives = Vec::new();
        for alternative in text.split("||") {
            let mut comparisons = Vec::new();
            let words: Vec<&str> = alternative.split([',', ' ']).filter(|word| !word.is_empty()).collect();
            let mut at = 0;
            while let Some(word) = words.get(at) {
                // API servers reject what the library behind them parses. A lone operator belongs to the next word.
                if words.get(at + 1) == Some(&"-") {
                    let end = words.get(at + 2).ok_or_else(|| wrong(text))?;
                    return Err(MastermindsError::Hyphen {
                        text: text.to_owned(),
                        from: (*word).to_owned(),
                        to: (*end).to_owned(),
                    });
                } else if OPERATORS.iter().any(|(operator, _)| operator == word) {
                    let version = words.get(at + 1).ok_or_else(|| wrong(text))?;
                    comparisons.push(Comparison::parse(&format!("{word}{version}")).ok_or_else(|| wrong(text))?);
                    at += 2;
                } else {
                    comparisons.push(Comparison::parse(word).ok_or_else(|| wrong(text))?);
                    at += 1;
                }
            }
            if comparisons.is_empty() {
                return Err(wrong(text));
            }
            alternatives.push(comparisons);
        }
        Ok(MastermindsRange { text: text.to_owned(), alternatives })
    }

    /// Returns whether the range contains `version`.
    pub fn contains(&self, version: &Version) -> bool {
        self.alternatives.iter().any(|alternative| {
            let pre_releases = alternative.iter().any(|it| !it.version.prerelease().is_empty());
            (pre_releases || version.prerelease().is_empty()) && alternative.iter().all(|it| it.holds(version))
        })
    }

    /// Returns the range as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

fn wrong(text: &str) -> MastermindsError {
    MastermindsError::Syntax(text.to_owned())
}

impl Comparison {
    fn parse(word: &str) -> Option<Comparison> {
        let (operator, rest) = OPERATORS.iter().find_map(|(text, it)| Some((*it, word.strip_prefix(text)?)))?;
        let rest = rest.strip_prefix('v').unwrap_or(rest);
        // Text after a dash or a plus is not a number, whatever it looks like.
        let end = rest.find(['-', '+']).unwrap_or(rest.len());
        let (core, tail) = rest.split_at(end);
        let parts: Vec<&str> = core.split('.').collect();
        if parts.len() > 3 {
            return None;
        }
        let wild = |part: &&str| matches!(*part, "x" | "X" | "*");
        let numbers = parts.iter().position(wild).unwrap_or(parts.len());
        let plain = |part: &&str| wild(part) || !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !parts.iter().all(plain) {
            return None;
        }
        let number = |place: usize| parts.get(place).filter(|_| place < numbers).copied().unwrap_or("0");
        let version = format!("{}.{}.{}{tail}", number(0), number(1), number(2));
        Some(Comparison { operator, version: Version::parse_tolerant(&version).ok()?, numbers })
    }

    fn holds(&self, version: &Version) -> bool {
        let own = &self.version;
        let order = version.cmp_precedence(own);
        let major = version.major().cmp(&own.major());
        let minor = version.minor().cmp(&own.minor());
        match (self.operator, self.numbers) {
            (Operator::Equal, 3) => order.is_eq(),
            (Operator::Equal | Operator::Tilde, _) => self.tilde(version),
            (Operator::NotEqual, 3) => order.is_ne(),
            (Operator::NotEqual, 2) => major.is_ne() || minor.is_ne(),
            (Operator::NotEqual, 1) => major.is_ne(),
            (Operator::NotEqual, _) => false,
            (Operator::Greater, 2) => major.then(minor).is_gt(),
            (Operator::Greater, 1) => major.is_gt(),
            (Operator::Greater, _) => order.is_gt(),
            (Operator::GreaterOrEqual, _) => order.is_ge(),
            (Operator::Less, _) => order.is_lt(),
            (Operator::LessOrEqual, 2) => major.then(minor).is_le(),
            (Operator::LessOrEqual, 1) => major.is_le(),
            (Operator::LessOrEqual, _) => order.is_le(),
            (Operator::Caret, _) => self.caret(version),
        }
    }

    fn tilde(&self, version: &Version) -> bool {
        let own = &self.version;
        if version.cmp_precedence(own) == Ordering::Less {
            return false;
        }
        match self.numbers {
            0 => true,
            1 => version.major() == own.major(),
            // Everything is near to zero.
            3 if (own.major(), own.minor(), own.patch()) == (0, 0, 0) && self.operator == Operator::Tilde => true,
            _ => (version.major(), version.minor()) == (own.major(), own.minor()),
        }
    }

    fn caret(&self, version: &Version) -> bool {
        let own = &self.version;
        if version.cmp_precedence(own) == Ordering::Less {
            return false;
        }
        if self.numbers == 0 {
            return true;
        }
        if own.major() > 0 || self.numbers == 1 || version.major() != own.major() {
            return version.major() == own.major();
        }
        if own.minor() > 0 || self.numbers == 2 {
            return version.minor() == own.minor();
        }
        (version.minor(), version.patch()) == (0, own.patch())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_contain_the_expected_versions() {
        for (range, inside, outside) in [
            ("1.2.3", "1.2.3 1.2.3+build", "1.2.4 1.2.3-rc1"),
            ("=1.2", "1.2.0 1.2.9", "1.3.0 1.1.9"),
            ("1.2.x", "1.2.0 1.2.9", "1.3.0"),
            ("1.X", "1.0.0 1.9.9", "2.0.0 0.9.0"),
            ("*", "0.0.1 9.9.9", "1.0.0-rc1"),
            ("!=1.2.3", "1.2.4", "1.2.3"),
            ("!=1.2.x", "1.3.0 2.2.0", "1.2.7"),
            (">1.2", "1.3.0 2.0.0", "1.2.9"),
            (">1", "2.0.0", "1.9.0"),
            (">=1.2", "1.2.0", "1.1.9"),
            ("<1.2", "1.1.9", "1.2.0"),
            ("<=1.2", "1.2.9", "1.3.0"),
            ("<=1", "1.9.9", "2.0.0"),
            ("~1.2.3", "1.2.3 1.2.9", "1.3.0 1.2.2"),
            ("~1.2", "1.2.0 1.2.9", "1.3.0"),
            ("~1", "1.0.0 1.9.0", "2.0.0"),
            ("~>1.2.3", "1.2.9", "1.3.0"),
            ("^1.2.3", "1.2.3 1.9.0", "2.0.0 1.2.2"),
            ("^1.2", "1.2.0 1.9.0", "2.0.0"),
            ("^0.2.3", "0.2.3 0.2.9", "0.3.0 0.2.2"),
            ("^0.0.3", "0.0.3", "0.0.4"),
            ("^0.0", "0.0.9", "0.1.0"),
            ("^0", "0.9.0", "1.0.0"),
            (">=1, <=2", "1.0.0 2.9.9", "3.0.0"),
            (">=1.0.0, <2.0.0", "1.5.0", "2.0.0"),
            (">= 1.0.0 < 2.0.0 || 3.x", "1.5.0 3.1.0", "2.0.0"),
            (">=1.0.0-0", "1.0.0-rc1 1.1.0-alpha", "0.9.0"),
            (">=1.0.0", "1.0.0", "1.1.0-rc1"),
            ("v1.2.3", "1.2.3", "1.2.4"),
        ] {
            let parsed = MastermindsRange::parse(range).unwrap_or_else(|error| panic!("{error}"));
            let has = |text: &str| parsed.contains(&Version::parse_strict(text).unwrap());
            inside.split(' ').for_each(|version| assert!(has(version), "{range} {version}"));
            outside.split(' ').for_each(|version| assert!(!has(version), "{range} not {version}"));
        }
        for text in ["", "||", "a", "1.2.3.4", ">=", "1 -", "1 - 2", "1..2", ">=1.0.0 ||", "~~1", "1.2-", "latest"] {
            assert!(MastermindsRange::parse(text).is_err(), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_parsed_or_rejected(text in "[0-9xX*.<>=!~^|, v+-]{0,20}") {
            if let Ok(range) = MastermindsRange::parse(&text) {
                range.contains(&Version::parse_strict("1.2.3-rc.1").unwrap());
            }
        }
    }
}
