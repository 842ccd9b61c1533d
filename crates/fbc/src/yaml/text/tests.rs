use super::*;

fn written(text: &str) -> String {
    let mut out = b"key: ".to_vec();
    write(text, style(text), TextContext { line: 0, indent: 2, fold: true }, &mut out);
    String::from_utf8(out.split_off(5)).unwrap()
}

#[test]
fn strings_are_plain_if_they_parse_as_the_same() {
    for text in [
        "hello",
        "it's",
        "say \"hi\"",
        "a:b",
        "a#b",
        "x:y",
        "=",
        "<<",
        "1.0.0",
        "a, b",
        "-a",
        "?a",
        ":a",
        "é ✓",
        "a\\b",
        "http://x/?y=z&a",
        "..",
        "--",
        "a\u{a0}b",
    ] {
        assert_eq!(written(text), text);
    }
}

#[test]
fn text_that_would_parse_as_another_type_is_in_double_quotes() {
    for text in ["yes", "No", "~", "12", "1.5", "0x1F", "2020-01-01", "1:30", ".inf", "null", "+1", "1."] {
        assert_eq!(written(text), format!("\"{text}\""));
    }
}

#[test]
fn text_that_cannot_be_plain_is_in_single_quotes() {
    for text in [
        " a", "a ", "a: b", "a:", "a #b", "#b", "- a", "-", "? a", "?", "!a", "&a", "*a", "|", ">", "%a", "@a", "`a",
        "[a]", "{a}", ",a", "]", "}", "...", "---", "---a", ":", ": a", "\"a",
    ] {
        assert_eq!(written(text), format!("'{text}'"));
    }
    assert_eq!(written("'a: b's"), "'''a: b''s'");
}

#[test]
fn special_characters_are_escaped() {
    assert_eq!(written("a\tb\"\\\x01\x7f\0\x1b"), r#""a\tb\"\\\x01\x7F\0\e""#);
    assert_eq!(written("🚀 go \u{85}\u{2028}\u{2029}é\u{fffe}"), r#""\U0001F680 go \N\L\Pé\uFFFE""#);
    assert_eq!(written("\u{feff}a é\n"), r#""\uFEFF\x61\x20\xE9\n""#);
    assert_eq!(written("a\u{feff}b"), r#""a\uFEFFb""#);
    assert_eq!(written("a\r\nb"), r#""a\r\nb""#);
    assert_eq!(written("line1 \nline2\n"), r#""line1 \nline2\n""#);
    assert_eq!(written("line1\nline2 "), r#""line1\nline2 ""#);
}

#[test]
fn several_lines_are_a_block() {
    assert_eq!(written("a\nb\n"), "|\n  a\n  b\n");
    assert_eq!(written("a\nb"), "|-\n  a\n  b\n");
    assert_eq!(written("a\n\nb\n\n\n"), "|+\n  a\n\n  b\n\n\n");
    assert_eq!(written("  a\nb: c #d\n"), "|2\n    a\n  b: c #d\n");
    assert_eq!(written("\n"), "|2+\n\n");
    assert_eq!(written("\na"), "|2-\n\n  a\n");
}

#[test]
fn lines_break_at_the_first_lone_space_past_the_width() {
    let words = "word ".repeat(40);
    insta::assert_snapshot!(written(words.trim_end()), @"
        word word word word word word word word word word word word word word word word
          word word word word word word word word word word word word word word word word
          word word word word word word word word
        ");
    insta::assert_snapshot!(written(&words), @"
        'word word word word word word word word word word word word word word word word
          word word word word word word word word word word word word word word word word
          word word word word word word word word '
        ");
    insta::assert_snapshot!(written(&"ä'ö: ".repeat(32)), @"
        'ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö:
          ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: ä''ö:
          ä''ö: ä''ö: ä''ö: ä''ö: ä''ö: '
        ");
    insta::assert_snapshot!(written(&"ä\tö  🚀 ".repeat(12)), @r#"
        "ä\tö  \U0001F680 ä\tö  \U0001F680 ä\tö  \U0001F680 ä\tö  \U0001F680 ä\tö  \U0001F680
          ä\tö  \U0001F680 ä\tö  \U0001F680 ä\tö  \U0001F680 ä\tö  \U0001F680 ä\tö  \U0001F680
          ä\tö  \U0001F680 ä\tö  \U0001F680 "
        "#);
    let long = "x".repeat(100);
    assert_eq!(written(&format!("{long} {long}  b c")), format!("{long}\n  {long}  b\n  c"));
    assert_eq!(written(&format!("\t{long}  b c")), format!("\"\\t{long}\n  \\ b c\""));
}

#[test]
fn long_or_broken_keys_are_not_simple() {
    assert!(is_simple_key(&"é".repeat(64)) && is_simple_key(""));
    assert!(!is_simple_key(&"é".repeat(65)) && !is_simple_key("a\nb") && !is_simple_key("a\u{2028}b"));
}
