use super::*;
use crate::yaml::read::parse;
use proptest::prelude::*;

const LIMITS: YamlLimits = YamlLimits { depth: 1000, nodes: 10_000, bytes: 100_000 };

/// Reads text on the fast path and, if that works, checks that the parser agrees.
fn fast(text: &str) -> Option<String> {
    let mut out = Vec::new();
    read(text.as_bytes(), &LIMITS, &mut out)?;
    let mut expected = Vec::new();
    if let Err(fault) = parse(text.as_bytes(), &LIMITS, &mut expected) {
        panic!("refused by the parser: {}\n{text}", fault.fault);
    }
    assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&expected), "\n{text}");
    Some(String::from_utf8(out).unwrap())
}

#[test]
fn a_manifest_takes_the_fast_path() {
    let text = "\
---
# comment
apiVersion: v1 # version
kind: ConfigMap
metadata:
  name: 'it''s'
  labels: {}
  list:
  - one
  -
    two
  - - three
    - four: 4
      five: [a b, 'c', [ 1, {d: e}] ]
  -   six: \"a\\tb \\
        c

        d\"
  empty:
long: text that
  goes on

  and on http://x:80/#a
literal: |
  a
   b

  c
strip: |-

  a

keep: |+ # note
  a

folded: >
  a
  b

  c
   d
  e
'quoted key': \"x\"
é: \"\\u00e9\"
number: 012
";
    insta::assert_snapshot!(fast(text).unwrap(), @r#"{"apiVersion":"v1","folded":"a b\nc\n d\ne\n","keep":"a\n\n","kind":"ConfigMap","literal":"a\n b\n\nc\n","long":"text that goes on\nand on http://x:80/#a","metadata":{"empty":null,"labels":{},"list":["one","two",["three",{"five":["a b","c",[1,{"d":"e"}]],"four":4}],{"six":"a\tb c\nd"}],"name":"it's"},"number":10,"quoted key":"x","strip":"\na","é":"é"}"#);
}

#[test]
fn anything_unusual_takes_the_slow_path() {
    let texts = "a: &x b\n|a: *x\n|a: !t b\n|<<: {}\n|? a\n|a: [b,]\n|a: {b}\n|a: [b: c]\n|a: [b\n]\n|a: [b?]\n|scalar\n|[]\n|a: b\n...\n|a:\tb\n|\ta: b\n|\
            a: b\n c: d\n|a: b\r\n|a: \u{85}\n|a: \x7f\n|a: \"\\/\"\n|a: b||# only\n|a: %x\n|%YAML 1.1\n|a: >\n\n|- a\nb: c\n|\
            a: 'b' c\n|a : b\n|a: b: c\n|a\nb: c\n";
    for text in texts.split('|') {
        assert_eq!(fast(text), None, "{text:?}");
    }
    assert_eq!(fast(&"- ".repeat(300)), None);
}

/// Lines that are likely to form documents, and near misses.
fn lines() -> impl Strategy<Value = String> {
    let parts = "a: b~b: c # d~- a~- b: c~c:~-~- - d~|~k: |~l: >-~m: |+~- |2~n: >1~text on~'q~q' ~r'' s~o: 'x~p: \"x \\~y\" # z~\\n\"~\
            # note~~ ~a: 'x'~e: \"b\" # c~{}~f: []~q: [a, 'b', \"c\"]~- {a: b c, d: [e ]}~[a, b]: c~g: {}  ~key: b: c~x:y~\t~a\tb: c~---~...~é: ü~null: n~'k': v~<<: a~? a~: b~- # c~\
            h: # c~\"k\" : v~i: -~- -a~j: #x~a#b: c#d~\"\\x41\\u00e9\"~''~-\t~k: |  # c~\"e\\~z:   w  ~k: >+";
    let line = (0..5usize, proptest::sample::select(parts.split('~').collect::<Vec<_>>()))
        .prop_map(|(indent, part)| format!("{}{part}\n", " ".repeat(indent)));
    proptest::collection::vec(line, 0..9).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn the_fast_path_agrees_with_the_slow_path(text in lines()) {
        fast(&text);
    }

    #[test]
    fn written_documents_parse_the_same_on_both_paths(text in "([a-c:'\"# \n-]|  |\n  |: |- |\\\\|é){0,30}\n") {
        fast(&text);
    }
}
