use super::*;
use crate::json::Raw;

const LIMITS: YamlLimits = YamlLimits { depth: 20, nodes: 1000, bytes: 10_000 };

fn shown(text: impl AsRef<[u8]>) -> String {
    let mut out = b"before ".to_vec();
    match to_json(text.as_ref(), &LIMITS, &mut out) {
        Ok(()) => String::from_utf8(out.split_off(7)).unwrap(),
        Err(error) => {
            assert_eq!(out, b"before ");
            format!("{}:{}: {error}", error.line + 1, error.column + 1)
        }
    }
}

#[test]
fn utf_16_is_read_in_either_order() {
    let wide = |order: fn(u16) -> [u8; 2]| "\u{feff}a: é\n".encode_utf16().flat_map(order).collect::<Vec<u8>>();
    assert_eq!(shown(wide(u16::to_le_bytes)), "{\"a\":\"é\"}");
    assert_eq!(shown(wide(u16::to_be_bytes)), "{\"a\":\"é\"}");
}

#[test]
fn keys_are_sorted_and_the_last_duplicate_wins() {
    assert_eq!(shown("b: 1\na: {z: [], x: {}}\nB: 2\nb: 3\n"), r#"{"B":2,"a":{"x":{},"z":[]},"b":3}"#);
    assert_eq!(shown("a b: 1\na: 2\n\"a\\n\": 3\n"), r#"{"a":2,"a\n":3,"a b":1}"#);
    assert_eq!(shown("1: a\n'1': b\nyes: c\n2.50: d"), r#"{"1":"b","2.5":"d","true":"c"}"#);
}

#[test]
fn an_empty_document_is_null() {
    for text in ["", "\n", "# nothing", "---", "---\n# x\n", "~"] {
        assert_eq!(shown(text), "null", "{text:?}");
    }
}

#[test]
fn a_missing_final_line_break_is_added() {
    assert_eq!(shown("a: |\n  x"), r#"{"a":"x\n"}"#);
    assert_eq!(shown("- &x |\n  x"), r#"["x\n"]"#);
    assert_eq!(shown("a: b\nc: [d"), "2:6: did not find expected ',' or ']'");
}

#[test]
fn strings_have_five_styles() {
    assert_eq!(
        shown("- plain\n  text\n- 'it''s'\n- \"a\\tb\\\n   c\"\n- |\n  x\n   y\n- >-\n  f\n  g\n- ! '7'\n- '7'\n"),
        r#"["plain text","it's","a\tbc","x\n y\n","f g",7,"7"]"#
    );
    assert_eq!(shown(r#"[it\'s, "it\'s \\\' \"", 'it\', "\'"]"#), r#"["it\\'s","it's \\' \"","it\\","'"]"#);
    assert_eq!(shown(r#"["\'", "\'\'", "\z"]"#), "1:17: found unknown escape character");
    let many = format!("[{}]", vec![r#""\'""#; 400].join(","));
    assert_eq!(shown(&many), many.replace('\\', ""));
    assert_eq!(
        shown(format!(r#"[{many}, 'C:\', &a "\'", it\'s]"#)),
        format!(r#"[{},"C:\\","'","it\\'s"]"#, many.replace('\\', ""))
    );
}

#[test]
fn aliases_repeat_a_node() {
    assert_eq!(
        shown("a: &x {q: &y [1], p: 2}\nb: *x\nc: [*y, &z s, *z]\n*z : 1"),
        r#"{"a":{"p":2,"q":[1]},"b":{"p":2,"q":[1]},"c":[[1],"s","s"],"s":1}"#
    );
    assert_eq!(shown("a: &x 1\nb: &x 2\nc: *x"), r#"{"a":1,"b":2,"c":2}"#);
    assert_eq!(shown("&f 1e6 : *f"), r#"{"1e+06":1000000}"#);
    assert_eq!(shown("a: *x"), "1:4: unknown anchor 'x' referenced");
    assert_eq!(shown("a: &x [1, *x]"), "1:11: anchor 'x' value contains itself");
    assert_eq!(shown("a: &x {<<: *x}"), "1:12: anchor 'x' value contains itself");
    assert_eq!(shown("a: &x [1]\n*x : 1"), "2:1: invalid map key: a mapping or sequence");
}

#[test]
fn later_keys_override_a_merge_and_a_merge_overrides_earlier_keys() {
    assert_eq!(shown("a: &a {x: 1, w: [2]}\nm:\n  <<: *a\n  w: o\n"), r#"{"a":{"w":[2],"x":1},"m":{"w":"o","x":1}}"#);
    assert_eq!(shown("<<: [{a: 1, b: 1}, {b: 2, c: 2}]\nc: 3"), r#"{"a":1,"b":1,"c":3}"#);
    assert_eq!(shown("a: 0\n<<: {a: 1, b: \"\\n\"}\n"), r#"{"a":1,"b":"\n"}"#);
    assert_eq!(shown("'<<': 1"), r#"{"<<":1}"#);
    assert_eq!(shown("<<: {}\na: 1\n<<: []"), r#"{"a":1}"#);
    for bad in ["<<: 1", "<<: ", "<<: [1]", "<<: [[]]"] {
        assert!(shown(bad).ends_with("map merge requires map or sequence of maps as the value"), "{bad}");
    }
}

#[test]
fn only_scalars_other_than_null_are_keys() {
    assert_eq!(shown("a: 1\n~: 1"), "2:1: unsupported map key: null");
    assert_eq!(shown("a: 1\n? [a]\n: 1"), "2:3: invalid map key: a mapping or sequence");
    assert_eq!(shown("? {a: b}\n: 1"), "1:3: invalid map key: a mapping or sequence");
    assert_eq!(shown(".inf: 1"), r#"{".inf":1}"#);
    assert_eq!(shown("a: .inf"), "1:4: json: unsupported value: +Inf");
}

#[test]
fn content_after_the_document_is_rejected() {
    assert_eq!(shown("a: 1\n...\n# fine\n"), r#"{"a":1}"#);
    assert_eq!(shown("a: 1\n...\nb: 2\n"), "3:1: there is text after the end of the document");
    assert_eq!(shown("a: 1\n--- \nb: 2\n"), "2:1: there is text after the end of the document");
    assert_eq!(shown("{a: 1}\n{b: 2}\n"), "2:1: there is text after the end of the document");
    assert_eq!(shown("%YAML 1.2\n---\na: 1"), "1:1: found incompatible YAML document");
    assert_eq!(shown("%YAML 1.1\n---\na: 1"), r#"{"a":1}"#);
}

#[test]
fn errors_have_a_line_and_a_column_in_characters() {
    assert_eq!(shown("é: ü\r\nä: [é\r\nb: c"), "3:2: did not find expected ',' or ']'");
    assert_eq!(shown("a:\n\tb: 1"), "2:1: found character that cannot start any token");
    assert_eq!(shown(b"a: \xff"), "1:4: invalid leading UTF-8 octet");
    assert_eq!(shown("a: b\nc: \x7f"), "2:4: control characters are not allowed");
    assert_eq!(shown(r#"a: [\/, '\/', &x "\\/", "\/"]"#), "1:26: found unknown escape character");
}

#[test]
fn alias_bombs_are_rejected() {
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..9 {
        bomb += &format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(","));
    }
    assert_eq!(shown(bomb), "4:10: document contains excessive aliasing");
    assert_eq!(shown("[".repeat(5000)), "1:21: document is nested more than 20 levels deep");
    assert_eq!(shown("- ".repeat(5000)), "1:41: document is nested more than 20 levels deep");
    assert_eq!(
        shown("a: &a [[[[[[[[[[[1]]]]]]]]]]]\nb: [[[[[[[[[*a]]]]]]]]]"),
        "2:13: document is nested more than 20 levels deep"
    );
    assert_eq!(shown(format!("[{}]", "a,".repeat(1000))), "1:2000: document has more than 1000 values");
    assert_eq!(shown("x".repeat(10_001)), "1:1: document is larger than 10000 bytes");
    assert_eq!(
        shown(format!("{}{}{}", "&a [".repeat(15), "x".repeat(2000), "]".repeat(15))),
        "1:2065: document contains excessive anchors"
    );
}

proptest::proptest! {
    #[test]
    fn parsing_arbitrary_bytes_does_not_panic(
        text in proptest::collection::vec(proptest::sample::select(b"ab: -?[]{},&*!|>'\"%#\n\r\t01.~<_\\\xc3\xa9\xff" as &[u8]), 0..40)
    ) {
        let mut out = Vec::new();
        if to_json(&text, &LIMITS, &mut out).is_ok() {
            let text = String::from_utf8(out).unwrap();
            Raw::parse(&text, LIMITS.depth).unwrap();
        }
    }
}
