//! YAML: whatever is read is canonical JSON, its values are found again in the text, and writing
//! and reading it gives the same.
#![no_main]

use fbc::json::{Raw, Step};
use fbc::spans::Spans;
use fbc::yaml::{documents, to_json, write_document};
use libfuzzer_sys::fuzz_target;
use opm_fuzz::{LIMITS, canonical, paths};

/// So many values of a document are looked up.
const LOOK_UPS: usize = 20;

fuzz_target!(|stream: &[u8]| {
    for document in documents(stream) {
        match document {
            Ok(document) => {
                assert!(stream[document.offset..].starts_with(document.text));
                check(document.text);
            }
            Err(bad) => assert!(stream[bad.offset..].starts_with(b"---")),
        }
    }
});

fn check(text: &[u8]) {
    let json = read(text);
    compare_with_the_long_way(text, json.as_deref());
    let Some(json) = json else {
        Spans::of_yaml(text).map(|spans| spans.find_or_ancestor(&[Step::Key("a".into()), Step::Index(1)]));
        return;
    };
    let value = Raw::parse(&json, LIMITS.depth).expect("what is read is JSON");
    assert_eq!(canonical(value), json, "what is read is canonical");
    // An empty document is null and stands nowhere.
    let looked_up = if json == "null" { 0 } else { LOOK_UPS };
    let spans = Spans::of_yaml(text).expect("what is read has places");
    for path in paths(value, looked_up) {
        let range = spans.find(&path.0).unwrap_or_else(|| panic!("{path} is nowhere"));
        assert!(text.get(range).is_some(), "{path} is outside of the text");
    }
    let mut written = Vec::new();
    write_document(value, &mut written);
    let again = read(&written);
    let again = again.as_deref().map(without_signed_zeros);
    assert_eq!(again, Some(without_signed_zeros(&json)), "written as {}", String::from_utf8_lossy(&written));
}

/// Reads a document, or fails with an error that stands inside of it.
fn read(text: &[u8]) -> Option<String> {
    let mut out = b"before".to_vec();
    match to_json(text, &LIMITS, &mut out) {
        Ok(()) => Some(String::from_utf8(out.split_off(6)).expect("JSON is text")),
        Err(error) => {
            assert_eq!(out, b"before", "a failure leaves the output alone");
            assert!(error.offset <= text.len() && !error.message.is_empty());
            None
        }
    }
}

/// Takes the sign from zeros, which YAML output does not have.
fn without_signed_zeros(json: &str) -> String {
    let json = if json == "-0" { "0" } else { json };
    json.replace("-0,", "0,").replace("-0]", "0]").replace("-0}", "0}")
}

/// A directive keeps a document from the reader that takes the short way. Texts that may hold
/// several documents, directives or another encoding, mean something else behind one.
fn compare_with_the_long_way(text: &[u8], json: Option<&str>) {
    let marks = text.windows(3).any(|mark| matches!(mark, b"---" | b"..."));
    let order_mark = ["\u{feff}".as_bytes(), b"\xfe\xff", b"\xff\xfe"].iter().any(|mark| text.starts_with(mark));
    if marks || order_mark || text.starts_with(b"%") {
        return;
    }
    let long = read(&[b"%YAML 1.1\n---\n", text].concat());
    assert_eq!(json, long.as_deref(), "both ways lead to the same");
}
