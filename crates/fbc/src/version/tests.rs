use super::*;

fn strict_error(text: &str) -> String {
    Version::parse_strict(text).expect_err(text).to_string()
}

#[test]
fn strict_versions_print_as_they_were_written() {
    for text in ["1.2.3", "0.0.0", "1.2.3-rc.1+b.5", "1.2.3--", "1.2.3-0a", "1.2.3+b-1.01", "18446744073709551615.0.0"]
    {
        assert_eq!(Version::parse_strict(text).expect(text).to_string(), text);
    }
}

#[test]
fn strict_errors_name_the_offending_part() {
    for (text, message) in [
        ("", "Version string empty"),
        ("1", "No Major.Minor.Patch elements found"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("v1.2.3", r#"Invalid character(s) found in major number "v1""#),
        (" 1.2.3", r#"Invalid character(s) found in major number " 1""#),
        ("+1.2.3", r#"Invalid character(s) found in major number "+1""#),
        ("1.b.3", r#"Invalid character(s) found in minor number "b""#),
        ("1.2.3 ", r#"Invalid character(s) found in patch number "3 ""#),
        ("1.2.3.4", r#"Invalid character(s) found in patch number "3.4""#),
        ("01.2.3", r#"Major number must not contain leading zeroes "01""#),
        ("1.02.3", r#"Minor number must not contain leading zeroes "02""#),
        ("1.2.03", r#"Patch number must not contain leading zeroes "03""#),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3-a..b", "Prerelease is empty"),
        ("1.2.3-+b", "Prerelease is empty"),
        ("1.2.3-01", r#"Numeric PreRelease version must not contain leading zeroes "01""#),
        ("1.2.3-é", r#"Invalid character(s) found in prerelease "é""#),
        ("1.2.3-a_b", r#"Invalid character(s) found in prerelease "a_b""#),
        ("1.2.3+", "Build meta data is empty"),
        ("1.2.3+a+b", r#"Invalid character(s) found in build meta data "a+b""#),
        ("18446744073709551616.0.0", r#"strconv.ParseUint: parsing "18446744073709551616": value out of range"#),
        ("1.2.3-18446744073709551616", r#"strconv.ParseUint: parsing "18446744073709551616": value out of range"#),
        ("1..3", r#"strconv.ParseUint: parsing "": invalid syntax"#),
        (".1.2", r#"strconv.ParseUint: parsing "": invalid syntax"#),
        ("1.2.", r#"strconv.ParseUint: parsing "": invalid syntax"#),
    ] {
        assert_eq!(strict_error(text), message, "{text:?}");
    }
}

#[test]
fn tolerant_parsing_completes_and_normalises() {
    for (text, expected) in [
        ("v1.2", "1.2.0"),
        ("1", "1.0.0"),
        ("01.02.03", "1.2.3"),
        ("v01", "1.0.0"),
        ("1.2.03-rc", "1.2.3-rc"),
        (" v1.2.3 ", "1.2.3"),
        ("00", "0.0.0"),
        ("1.2.-3", "1.2.0-3"),
    ] {
        assert_eq!(Version::parse_tolerant(text).expect(text).to_string(), expected);
    }
}

#[test]
fn tolerant_parsing_has_limits() {
    for text in ["1.2-rc1", "V1.2.3", "vv1.2.3", "1.2.3.4", "", "v", "1..3"] {
        Version::parse_tolerant(text).expect_err(text);
    }
    assert_eq!(
        Version::parse_tolerant("1.2-rc1").unwrap_err().to_string(),
        "Short version cannot contain PreRelease/Build meta data"
    );
}

#[test]
fn precedence_follows_numbers_then_prerelease_identifiers() {
    let ascending: Vec<_> = "0.9.10 1.0.0-1 1.0.0-2 1.0.0-10 1.0.0-A 1.0.0-a 1.0.0-alpha \
             1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0 1.0.1 \
             1.10.0 2.0.0"
        .split(' ')
        .map(|text| Version::parse_strict(text).expect(text))
        .collect();
    for (i, a) in ascending.iter().enumerate() {
        for (j, b) in ascending.iter().enumerate() {
            assert_eq!(a.cmp_precedence(b), i.cmp(&j), "{a} against {b}");
        }
    }
}

#[test]
fn build_metadata_affects_equality_and_not_precedence() {
    let [a, b] = ["1.0.0+a", "1.0.0+b"].map(|text| Version::parse_strict(text).expect(text));
    assert_ne!(a, b);
    assert_eq!(a.cmp_precedence(&b), Ordering::Equal);
}

#[test]
fn there_is_no_version_between_a_version_and_its_successor() {
    let successor = |text: &str| Version::parse_strict(text).unwrap().successor();
    assert_eq!(successor("1.2.3-a+b").unwrap().to_string(), "1.2.3-a.0");
    assert_eq!(successor("1.2.3").unwrap().to_string(), "1.2.4-0");
    assert_eq!(successor(&format!("1.2.{}", u64::MAX)).unwrap().to_string(), "1.3.0-0");
    assert_eq!(successor(&format!("{0}.{0}.{0}", u64::MAX)), None);
}
