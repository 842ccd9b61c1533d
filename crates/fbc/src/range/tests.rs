//! Tests of what ranges contain, reject and accept by accident.

use super::*;

fn range(text: &str) -> VersionRange {
    VersionRange::parse(text).expect(text)
}

fn error(text: &str) -> String {
    VersionRange::parse(text).expect_err(text).to_string()
}

#[track_caller]
fn check(text: &str, inside: &[&str], outside: &[&str]) {
    let range = range(text);
    for (versions, expected) in [(inside, true), (outside, false)] {
        for version in versions {
            let parsed = Version::parse_strict(version).expect(version);
            assert_eq!(range.contains(&parsed), expected, "{version} in {text:?}");
        }
    }
}

#[test]
fn wildcards_cover_one_minor_or_major_version() {
    check("1.2.x", &["1.2.0", "1.2.9", "1.3.0-rc1"], &["1.2.0-rc1", "1.3.0", "1.1.9"]);
    check("1.x", &["1.0.0", "1.9.9"], &["0.9.9", "2.0.0"]);
    check(">1.2.x", &["1.3.0"], &["1.2.9"]);
    check("<=1.2.x", &["1.2.9", "0.1.0"], &["1.3.0"]);
}

#[test]
fn a_double_wildcard_covers_one_minor_version_only() {
    check("1.x.x", &["1.0.0", "1.0.9"], &["1.1.0"]);
    check(">1.x.x", &["1.1.0"], &["1.0.9"]);
    check("<=1.x.x", &["1.0.9"], &["1.1.0"]);
    assert_eq!(range("1.x.x").surprises(), [Surprise::DoubleWildcard("1.x.x".into())]);
    assert_eq!(range(">=1.x.x").surprises(), []);
}

#[test]
fn an_excluded_wildcard_matches_nothing() {
    for text in ["!=1.2.x", "!1.2.x"] {
        check(text, &[], &["1.1.0", "1.2.0", "1.3.0"]);
        assert!(range(text).never_matches());
        assert_eq!(range(text).surprises(), [Surprise::ExcludedWildcard(text.into())]);
    }
}

#[test]
fn words_of_one_character_are_ignored() {
    check("! 1.0.0", &["1.0.0"], &["1.0.1"]);
    check(">=1.0.0 5 <2.0.0", &["1.0.0", "1.9.0"], &["2.0.0", "5.0.0"]);
    check("1.0.0 >", &["1.0.0"], &["1.0.1"]);
    check(">=1.0.0 - <=2.0.0", &["1.0.0", "2.0.0"], &["2.0.1"]);
    check("1.0.0 - 2.0.0", &[], &["1.0.0", "1.5.0", "2.0.0"]);
    assert_eq!(range("! 1.0.0").surprises(), [Surprise::DroppedWord('!')]);
}

#[test]
fn an_empty_alternative_matches_nothing() {
    check("1.0.0 || || 2.0.0", &["1.0.0", "2.0.0"], &["1.5.0"]);
    assert_eq!(range("1.0.0 || || 2.0.0").surprises(), [Surprise::EmptyAlternative]);
}

#[test]
fn an_x_that_is_no_wildcard_is_rejected_where_a_next_version_is_needed() {
    for text in ["1.0.0-fox", "<=1.0.0-fox", "1.2.3-rc.x"] {
        assert_eq!(error(text), r#"Could not get version from string: "<""#);
    }
    assert_eq!(error(">1.0.0-fox"), r#"Could not get version from string: ">=""#);
    check(">=1.0.0-fox", &["1.0.0-fox", "1.0.0-g"], &["1.0.0-f"]);
    check("<1.0.0-fox", &["1.0.0-f"], &["1.0.0-fox"]);
    check(">=1.2.x-rc1", &["1.2.0-rc1"], &["1.2.0-rc0"]);
    check(">=1.x.3", &["1.0.3"], &["1.0.2"]);
}

#[test]
fn an_unknown_operator_before_a_wildcard_is_ignored() {
    check("^1.2.x", &["1.2.0"], &["1.2.1"]);
    check("x1.2.3", &["1.2.3"], &["1.2.4"]);
    error("٣x1.2.3");
    assert_eq!(range("^1.2.x").surprises(), [Surprise::DroppedOperator("^1.2.x".into())]);
}

#[test]
fn a_text_without_terms_is_rejected() {
    for text in ["", " ", "5", "x", "*", ">", "1.0.0 ||"] {
        assert_eq!(error(text), "Last element in range is '||'", "{text:?}");
    }
    assert_eq!(error("|| 1.0.0"), "First element in range is '||'");
}

#[test]
fn other_dialects_are_rejected() {
    for text in [
        ">=1",
        "1.0",
        ">=1.0",
        "<1.0.0||>2.0.0",
        "<1.0.0 ||>2.0.0",
        ">=1.0.0, <2.0.0",
        ">=v1.0.0",
        "^1.0.0",
        "~1.0.0",
        "1.*",
        "1.2.X",
        "(1.0.0)",
        ">=1.0.0\t<2.0.0",
        "=>1.0.0",
        "===1.0.0",
        "x.x.x",
        "1.2.3.x",
    ] {
        error(text);
    }
}

#[test]
fn errors_name_the_term() {
    assert_eq!(error("^1.0.0"), r#"Could not parse Range "^1.0.0": Could not parse comparator "^" in "^1.0.0""#);
    assert_eq!(
        error(">=1.0"),
        r#"Could not parse Range ">=1.0": Could not parse version "1.0" in ">=1.0": No Major.Minor.Patch elements found"#
    );
    assert_eq!(error("foo"), r#"Could not get version from string: "foo""#);
}

#[test]
fn prereleases_are_versions_like_any_other() {
    check(">=1.0.0 <2.0.0", &["2.0.0-0", "2.0.0-rc1"], &["1.0.0-rc1", "2.0.0"]);
    check(">=0.0.0-0", &["0.0.0-0", "0.0.0", "9.9.9"], &[]);
    check("<0.0.0", &["0.0.0-rc1"], &["0.0.0"]);
}

#[test]
fn build_metadata_is_ignored() {
    check("1.0.0", &["1.0.0+b"], &[]);
    check(">=1.2.3+b", &["1.2.3", "1.2.3+a"], &["1.2.2"]);
}

#[test]
fn and_binds_tighter_than_or() {
    check(">1.0.0 <2.0.0 || >=3.0.0 !4.2.1", &["1.5.0", "3.0.0", "4.2.0"], &["1.0.0", "2.0.0", "4.2.1"]);
}

#[test]
fn white_space_after_an_operator_is_accepted() {
    check(">= 1.0.0", &["1.0.0"], &["0.9.0"]);
    check("> =1.0.0", &["1.0.0"], &["0.9.0"]);
    check(">=\t1.0.0", &["1.0.0"], &["0.9.0"]);
}

#[test]
fn wildcard_numbers_beyond_63_bits_are_rejected() {
    error("9223372036854775807.x");
    error("9223372036854775808.x");
    check("9223372036854775806.x", &["9223372036854775806.1.0"], &["1.0.0"]);
}

#[test]
fn ranges_without_any_version_are_recognised() {
    for text in [
        "1.0.0 - 2.0.0",
        ">2.0.0 <1.0.0",
        "<0.0.0-0",
        ">1.0.0 <1.0.1-0",
        "1.0.0 !1.0.0",
        ">=1.0.0-a <=1.0.0-a.0 !=1.0.0-a.0 !=1.0.0-a",
        "!1.x || 1.0.0 2.0.0",
    ] {
        assert!(range(text).never_matches(), "{text}");
    }
    for text in ["1.0.0", "<0.0.0", ">1.0.0 <1.0.1", "!1.0.0", "!1.x || 2.0.0"] {
        assert!(!range(text).never_matches(), "{text}");
    }
}

#[test]
fn boundaries_are_the_versions_in_comparisons() {
    let boundaries = |text| range(text).boundaries().map(Version::to_string).collect::<Vec<_>>();
    assert_eq!(boundaries(">=1.0.0 !1.5.0 <2.0.0 || 3.0.0"), ["1.0.0", "1.5.0", "2.0.0", "3.0.0"]);
    assert_eq!(boundaries("1.2.x"), ["1.2.0", "1.3.0"]);
}
