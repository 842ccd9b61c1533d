use super::*;
use crate::yaml::{YamlLimits, to_json};
use proptest::prelude::*;

fn written(json: &str) -> String {
    let mut out = Vec::new();
    write_document(Raw::parse(json, 100).unwrap(), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_stream_of_objects_is_read_back() {
    let all = [serde_json::json!({"kind": "A", "text": "---\n"}), serde_json::json!({"kind": "B", "list": []})];
    let stream = objects(&all);
    insta::assert_snapshot!(stream, @"
    ---
    kind: A
    text: |
      ---
    ---
    kind: B
    list: []
    ");
    let read = crate::stream::documents(stream.as_bytes(), &crate::Limits::default()).unwrap();
    let read: Vec<Value> = read.iter().map(|text| serde_json::from_str(text.raw().text()).unwrap()).collect();
    assert_eq!(read, all);
}

#[test]
fn collections_are_blocks() {
    insta::assert_snapshot!(written(r#"{"a":[1,[2,[3]],{"b":[{"c":1,"d":2},{"e":3}]}],"el":[],"eo":{},"o":{"x":{"w":null}},"z":[[],{}]}"#), @"
        a:
        - 1
        - - 2
          - - 3
        - b:
          - c: 1
            d: 2
          - e: 3
        el: []
        eo: {}
        o:
          x:
            w: null
        z:
        - []
        - {}
        ");
}

#[test]
fn a_document_may_be_any_value() {
    assert_eq!(written("[1,[true]]"), "- 1\n- - true\n");
    assert_eq!(written(r#" "a\nb" "#), "|-\n  a\n  b\n");
    assert_eq!((written("[]"), written("{}"), written("null")), ("[]\n".into(), "{}\n".into(), "null\n".into()));
}

#[test]
fn keys_are_sorted_in_natural_order() {
    let keys = [
        "a10", "a9", "a1", "A1", "b", "B", "10", "9", "1.5", "_x", "-x", "é", "z", "aa", "a-b", "a.b", "a_b", "a b",
        "", "ä", "~", "null", "true", "a01",
    ];
    let json = format!("{{{}}}", keys.map(|key| format!("{key:?}:1")).join(","));
    let order = written(&json)
        .lines()
        .map(|line| line.trim_end_matches(": 1").trim_matches('"').to_owned())
        .collect::<Vec<_>>();
    assert_eq!(
        order,
        [
            "", "-x", "_x", "~", "1.5", "9", "10", "A1", "B", "a b", "a-b", "a.b", "a_b", "a1", "a01", "a9", "a10",
            "aa", "b", "null", "true", "z", "ä", "é"
        ]
    );
}

#[test]
fn the_last_duplicate_key_wins_and_lines_stay_complete() {
    insta::assert_snapshot!(written(r#"[{"b":{"d":[1],"c":"x\ny"},"a":1,"b":{"f":"x\ny\n\n","e":[]}}]"#), @"
        - a: 1
          b:
            e: []
            f: |+
              x
              y

        ");
    // No order satisfies these, yet each appears once.
    assert_eq!(written(r#"{"2":1,"10":1,"1a":1,"2":2}"#).lines().count(), 3);
}

#[test]
fn long_or_multi_line_keys_are_on_separate_lines() {
    let long = "k".repeat(129);
    let json = format!(r#"{{"a\nb":{{"c":1,"d":2}},"m\nn":[1],"n\u2028":"v","{long}":"{} y"}}"#, "x".repeat(80));
    insta::assert_snapshot!(written(&json), @r#"
        ? |-
          a
          b
        : c: 1
          d: 2
        ? kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk
        : xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
          y
        ? |-
          m
          n
        : - 1
        ? "n\L"
        : v
        "#);
}

#[test]
fn a_key_that_would_merge_is_quoted() {
    assert_eq!(written(r#"{"<<":{"a":"<<"}}"#), "\"<<\":\n  a: <<\n");
}

#[test]
fn white_space_and_escapes_in_the_source_do_not_matter() {
    assert_eq!(written("{ \"b\" : [ 1 , \"\\u0079\" ] ,\n\t\"a\" : -0 }"), "a: 0\nb:\n- 1\n- \"y\"\n");
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let text = prop_oneof![
        "[a-z:# \n'\"-]{0,12}",
        "(a |b: |'|\"|\\\\|é |\t|  |\n|- |#|1|\u{85}|\u{2028}|🚀 |yes|~|\u{feff}|\u{7f}|\r){0,60}",
        ".{0,6}",
    ];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        // A negative zero loses its sign.
        any::<f64>().prop_map(|number| (number + 0.0).into()),
        text.clone().prop_map(Into::into),
    ];
    leaf.prop_recursive(6, 40, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            proptest::collection::vec((text.clone(), inner), 0..5)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_written_document_parses_as_the_same(value in json()) {
        let text = value.to_string();
        let yaml = written(&text);
        let mut read = Vec::new();
        to_json(yaml.as_bytes(), &YamlLimits { depth: 50, nodes: 10_000, bytes: 1 << 20 }, &mut read)
            .map_err(|error| TestCaseError::fail(format!("{error} in\n{yaml}")))?;
        let mut canonical = Vec::new();
        crate::json::write_canonical(Raw::parse(&text, 50).unwrap(), crate::json::JsonLayout::Compact, &mut canonical);
        let canonical = String::from_utf8(canonical).unwrap();
        prop_assert_eq!(String::from_utf8(read).unwrap(), canonical, "{}", yaml);
    }
}
