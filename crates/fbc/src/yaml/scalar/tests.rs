use super::*;

fn shown(text: &str) -> String {
    let mut out = Vec::new();
    match write_json(&resolve(text), &mut out) {
        Ok(()) => String::from_utf8(out).unwrap(),
        Err(fault) => fault.to_string(),
    }
}

fn all(texts: &[&str]) -> String {
    texts.iter().map(|text| shown(text)).collect::<Vec<_>>().join(" ")
}

#[test]
fn booleans_and_nulls_have_many_spellings() {
    assert_eq!(all(&["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True"]), "true ".repeat(10).trim());
    assert_eq!(all(&["n", "N", "no", "No", "NO", "off", "Off", "OFF", "False"]), "false ".repeat(9).trim());
    assert_eq!(all(&["", "~", "null", "Null", "NULL"]), "null ".repeat(5).trim());
    assert_eq!(all(&["yEs", "nULL", "tRUE", "oN", "nil"]), r#""yEs" "nULL" "tRUE" "oN" "nil""#);
}

#[test]
fn integers_have_four_bases() {
    assert_eq!(all(&["12", "+5", "-5", "1_000", "0", "00", "-0"]), "12 5 -5 1000 0 0 0");
    assert_eq!(
        all(&["010", "0o17", "0O17", "0x1F", "0X1f", "-0x10", "0b11", "-0b1", "0b-1"]),
        "8 15 15 31 31 -16 3 -1 -1"
    );
    assert_eq!(
        all(&["9223372036854775807", "9223372036854775808", "-9223372036854775808"]),
        "9223372036854775807 9223372036854775808 -9223372036854775808"
    );
    assert_eq!(
        all(&["18446744073709551616", "+9223372036854775808", "0123456789"]),
        "18446744073709552000 9223372036854776000 123456789"
    );
    assert_eq!(
        all(&["0x", "0xg", "0b2", "1_a", "--1", "+-1", "0b", "-"]),
        r#""0x" "0xg" "0b2" "1_a" "--1" "+-1" "0b" "-""#
    );
}

#[test]
fn floats_are_decimal() {
    assert_eq!(
        all(&["1.5", ".5", "1.", "1e3", "1.0e+2", "-0.0", "+.5", "685_230.15", ".5_0", "1E+3"]),
        "1.5 0.5 1 1000 100 -0 0.5 685230.15 0.5 1000"
    );
    assert_eq!(
        all(&["1e400", "1.2.3", ".", "1e", "._5", ".5_", "e3", "1.5.", "0x1p3"]),
        r#""1e400" "1.2.3" "." "1e" "._5" ".5_" "e3" "1.5." "0x1p3""#
    );
    assert_eq!(shown("-.INF"), "json: unsupported value: -Inf");
    assert_eq!(shown(".NaN"), "json: unsupported value: NaN");
}

#[test]
fn dates_and_base_60_are_strings_that_need_quotes() {
    for text in [
        "2021-01-01",
        "2021-1-2",
        "2021-01-01T10:00:00Z",
        "2001-12-14t21:59:43.10-05:00",
        "2021-1-2 3:4:5",
        "2021-1-2   3:4:5,25",
        "2020-02-29",
        "1:30",
        "12:30:45",
        "190:20:30.5",
        "-1_0:00",
    ] {
        assert_eq!(shown(text), format!("{text:?}"));
        assert!(!reads_as_string(text), "{text}");
    }
    for text in [
        "2021-13-01",
        "2021-02-29",
        "2021-01-01T10:00:00",
        "2021-01-01 24:00:00",
        "20210-1-1",
        "1:60",
        "1:",
        "1:2:a",
        "2021-01-01T1:1:1+5:00",
    ] {
        assert_eq!(shown(text), format!("{text:?}"));
        assert!(reads_as_string(text), "{text}");
    }
}

#[test]
fn text_of_other_types_is_not_parsed_as_string() {
    for text in ["", "~", "yes", "Null", "1.0", "0x1F", "1_000", ".inf", "+1", "-0", "1.", "017"] {
        assert!(!reads_as_string(text), "{text}");
    }
    for text in ["=", "<<", "1.0.0", "v1", "yess", "-", "...", "1a", "noon", "0.1.2-x"] {
        assert!(reads_as_string(text), "{text}");
    }
}

#[test]
fn explicit_tags_take_precedence() {
    let tag = |tag: &str, text: &str| match tagged(&format!("tag:yaml.org,2002:{tag}"), text) {
        Ok(value) => format!("{value:?}"),
        Err(fault) => fault.to_string(),
    };
    assert_eq!(tag("str", "123"), r#"Str("123")"#);
    assert_eq!(tag("int", "0x10"), "Int(16)");
    assert_eq!(tag("int", "a"), "cannot decode !!str `a` as a !!int");
    assert_eq!(tag("float", "3"), "Float(3.0)");
    assert_eq!(tag("float", "x"), "cannot decode !!str `x` as a !!float");
    assert_eq!(tag("null", "~"), "Null");
    assert_eq!(tag("timestamp", "2001-12-14"), r#"Timestamp("2001-12-14")"#);
    assert_eq!(tag("binary", "aGVs\nbG8="), r#"Str("hello")"#);
    assert_eq!(tag("binary", "/+7/"), r#"Str("���")"#);
    assert_eq!(tag("binary", "aGVsbG8"), "!!binary value contains invalid base64 data");
    assert_eq!(tag("binary", "a==="), "!!binary value contains invalid base64 data");
    assert_eq!(tagged("!custom", "7").unwrap(), ScalarValue::Str("7".into()));
}

#[test]
fn keys_are_the_text_of_their_value() {
    let keys = ["n", "5", "0x10", "1.5", "1e6", "2001-12-14", "18446744073709551615", "a"];
    assert_eq!(
        keys.map(|text| key(resolve(text)).unwrap().into_owned()),
        ["false", "5", "16", "1.5", "1e+06", "2001-12-14", "18446744073709551615", "a"]
    );
    assert_eq!(key(ScalarValue::Null).unwrap_err().to_string(), "unsupported map key: null");
}
