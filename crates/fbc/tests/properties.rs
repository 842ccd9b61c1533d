//! Properties of versions, ranges, pull specs and ignore patterns that hold for any input.

use std::cmp::Ordering;

use fbc::indexignore::IndexIgnore;
use fbc::pull_spec;
use fbc::range::VersionRange;
use fbc::release::Release;
use fbc::version::Version;
use proptest::prelude::*;

/// Versions from a small alphabet, so that similar and equal ones are common.
///
/// None contains an `x`, which would start a wildcard in a range.
fn version_text() -> impl Strategy<Value = String> {
    "[0-2]\\.[0-2]\\.[0-2](-(0|1|10|a|A|-|b1|z)(\\.(0|1|a|z))?)?(\\+(01|a)(\\.b)?)?"
}

fn version() -> impl Strategy<Value = Version> {
    version_text().prop_map(|text| Version::parse_strict(&text).expect("generated as valid"))
}

/// A comparison: its operator and its version.
fn comparison() -> impl Strategy<Value = (&'static str, Version)> {
    let operator = prop::sample::select(vec!["", "=", "==", "!", "!=", "<", "<=", ">", ">="]);
    (operator, version())
}

/// Compares by the rules of precedence, applied to the text.
fn model_order(a: &Version, b: &Version) -> Ordering {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Identifier {
        Number(u64),
        Text(String),
    }
    // A release follows its pre-releases, and false is less than true.
    fn key(version: &Version) -> ([u64; 3], bool, Vec<Identifier>) {
        let text = version.to_string();
        let text = text.split('+').next().unwrap_or_default();
        let (numbers, prerelease) = text.split_once('-').unwrap_or((text, ""));
        let mut numbers = numbers.split('.').map(|number| number.parse().expect("a number"));
        let numbers = std::array::from_fn(|_| numbers.next().expect("three numbers"));
        let identifiers = prerelease
            .split('.')
            .filter(|identifier| !identifier.is_empty())
            .map(|identifier| match identifier.parse() {
                Ok(number) => Identifier::Number(number),
                Err(_) => Identifier::Text(identifier.to_owned()),
            })
            .collect();
        (numbers, prerelease.is_empty(), identifiers)
    }
    key(a).cmp(&key(b))
}

/// Matches a pattern of letters, `?` and `*` by exhaustive search.
fn model_glob(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|taken| model_glob(rest, &name[taken..])),
        (Some((b'?', rest)), Some((_, name))) => model_glob(rest, name),
        (Some((byte, rest)), Some((first, name))) => byte == first && model_glob(rest, name),
        _ => false,
    }
}

proptest! {
    #[test]
    fn parsers_do_not_panic(text in "\\PC*|[0-9x.<>=!| +-]*") {
        let _ = Version::parse_strict(&text).map_err(|error| error.to_string());
        let _ = Version::parse_tolerant(&text).map_err(|error| error.to_string());
        let _ = Release::parse(&text).map_err(|error| error.to_string());
        let _ = pull_spec::check(&text).map_err(|error| error.to_string());
        match VersionRange::parse(&text) {
            Ok(range) => {
                range.never_matches();
                range.surprises().iter().for_each(|surprise| drop(surprise.to_string()));
            }
            Err(error) => drop(error.to_string()),
        }
    }

    #[test]
    fn a_version_prints_as_it_was_written(text in version_text()) {
        prop_assert_eq!(Version::parse_strict(&text).unwrap().to_string(), text);
    }

    #[test]
    fn a_strictly_parsed_version_prints_as_it_was_written(text in "[0-9a.+-]{0,12}") {
        if let Ok(version) = Version::parse_strict(&text) {
            prop_assert_eq!(version.to_string(), text);
        }
    }

    #[test]
    fn tolerant_parsing_agrees_with_strict_parsing(text in "[0-9a.+-]{0,12}") {
        if let Ok(version) = Version::parse_strict(&text) {
            prop_assert_eq!(Version::parse_tolerant(&text), Ok(version.clone()));
            prop_assert_eq!(Version::parse_tolerant(&format!(" v{text}\n")), Ok(version));
        }
    }

    #[test]
    fn precedence_follows_the_rules(a in version(), b in version()) {
        prop_assert_eq!(a.cmp_precedence(&b), model_order(&a, &b));
        prop_assert_eq!(a.cmp_precedence(&b), b.cmp_precedence(&a).reverse());
    }

    #[test]
    fn precedence_is_transitive(mut versions in prop::array::uniform3(version())) {
        versions.sort_by(|a, b| a.cmp_precedence(b));
        prop_assert!(versions[0].cmp_precedence(&versions[2]).is_le());
    }

    #[test]
    fn releases_order_as_prereleases_do(
        a in "(0|1|10|a|A|-)(\\.(0|1|a))?",
        b in "(0|1|10|a|A|-)(\\.(0|1|a))?",
    ) {
        let version = |release| Version::parse_strict(&format!("1.0.0-{release}")).unwrap();
        prop_assert_eq!(
            Release::parse(&a).unwrap().cmp(&Release::parse(&b).unwrap()),
            version(&a).cmp_precedence(&version(&b))
        );
    }

    #[test]
    fn a_range_contains_the_versions_of_its_comparisons(
        alternatives in prop::collection::vec(prop::collection::vec(comparison(), 1..4), 1..4),
        version in version(),
    ) {
        let text = alternatives
            .iter()
            .map(|terms| {
                let terms: Vec<_> = terms.iter().map(|(op, v)| format!("{op}{v}")).collect();
                terms.join(" ")
            })
            .collect::<Vec<_>>()
            .join(" || ");
        let expected = alternatives.iter().any(|terms| {
            terms.iter().all(|(operator, bound)| {
                let order = model_order(&version, bound);
                match *operator {
                    "" | "=" | "==" => order == Ordering::Equal,
                    "!" | "!=" => order != Ordering::Equal,
                    "<" => order == Ordering::Less,
                    "<=" => order != Ordering::Greater,
                    ">" => order == Ordering::Greater,
                    _ => order != Ordering::Less,
                }
            })
        });
        let range = VersionRange::parse(&text).unwrap();
        prop_assert_eq!(range.contains(&version), expected, "{} in {}", version, text);
        prop_assert!(!(expected && range.never_matches()), "{} is not empty", text);
        prop_assert_eq!(range.as_str(), text);
        prop_assert!(range.surprises().is_empty());
    }

    #[test]
    fn a_glob_matches_like_an_exhaustive_search(
        pattern in "[ab*?]{1,8}",
        name in "[ab]{0,8}",
    ) {
        let mut ignore = IndexIgnore::default();
        ignore.add::<&str>(&[], pattern.as_bytes());
        prop_assert_eq!(
            ignore.is_ignored(&[&name]),
            model_glob(pattern.as_bytes(), name.as_bytes())
        );
    }

    #[test]
    fn the_matcher_of_ignore_files_does_not_panic(
        text in prop::collection::vec(any::<u8>(), 0..40),
        marks in "[a!/*?\\[\\]^\\\\\n -]{0,20}",
        path in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..4), 0..4),
    ) {
        let mut ignore = IndexIgnore::default();
        ignore.add::<&str>(&[], &text);
        ignore.add::<&str>(&[], marks.as_bytes());
        ignore.add(&path[..path.len() / 2], marks.as_bytes());
        ignore.is_ignored(&path);
    }
}
