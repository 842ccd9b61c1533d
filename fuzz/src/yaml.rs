//! YAML: the result is canonical JSON, every value has a span in the text, and writing and parsing round-trips.

use crate::{LIMITS, canonical, paths};
use fbc::json::{PathStep, Raw};
use fbc::spans::Spans;
use fbc::yaml::{documents, to_json, write_document};

/// Maximum number of values that are located in a document.
const LOCATED_VALUES: usize = 20;

/// Runs the target with one input.
pub fn run(stream: &[u8]) {
    for document in documents(stream) {
        match document {
            Ok(document) => {
                assert!(stream[document.offset..].starts_with(document.text));
                check(document.text);
            }
            Err(bad) => assert!(stream[bad.offset..].starts_with(b"---")),
        }
    }
}

fn check(text: &[u8]) {
    let json = parse(text);
    compare_with_libyaml(text, json.as_deref());
    let Some(json) = json else {
        Spans::of_yaml(text).map(|spans| spans.find_or_ancestor(&[PathStep::Key("a".into()), PathStep::Index(1)]));
        return;
    };
    let value = Raw::parse(&json, LIMITS.depth).expect("the result is JSON");
    assert_eq!(canonical(value), json, "the result is not canonical");
    // An empty document is null and has no span.
    let count = if json == "null" { 0 } else { LOCATED_VALUES };
    let spans = Spans::of_yaml(text).expect("an accepted document has spans");
    for path in paths(value, count) {
        let range = spans.find(&path.0).unwrap_or_else(|| panic!("{path} has no span"));
        assert!(text.get(range).is_some(), "{path} is outside of the text");
    }
    let mut written = Vec::new();
    write_document(value, &mut written);
    let reparsed = parse(&written);
    let reparsed = reparsed.as_deref().map(without_signed_zeros);
    assert_eq!(reparsed, Some(without_signed_zeros(&json)), "written as {}", String::from_utf8_lossy(&written));
}

/// Parses a document; on failure, checks that the position of the error is inside it.
fn parse(text: &[u8]) -> Option<String> {
    let mut out = b"before".to_vec();
    match to_json(text, &LIMITS, &mut out) {
        Ok(()) => Some(String::from_utf8(out.split_off(6)).expect("JSON is text")),
        Err(error) => {
            assert_eq!(out, b"before", "a failure changed the output");
            assert!(error.offset <= text.len() && !error.to_string().is_empty());
            None
        }
    }
}

/// Removes the sign of zeros, which YAML output does not have.
fn without_signed_zeros(json: &str) -> String {
    let json = if json == "-0" { "0" } else { json };
    json.replace("-0,", "0,").replace("-0]", "0]").replace("-0}", "0}")
}

/// Compares with libyaml: the fast path does not handle documents with a directive.
///
/// Skips texts that mean something else after a directive: several documents, directives, other encodings.
fn compare_with_libyaml(text: &[u8], json: Option<&str>) {
    let marks = text.windows(3).any(|mark| matches!(mark, b"---" | b"..."));
    let order_mark = ["\u{feff}".as_bytes(), b"\xfe\xff", b"\xff\xfe"].iter().any(|mark| text.starts_with(mark));
    if marks || order_mark || text.starts_with(b"%") {
        return;
    }
    let slow = parse(&[b"%YAML 1.1\n---\n", text].concat());
    assert_eq!(json, slow.as_deref(), "the fast path differs from libyaml");
}
