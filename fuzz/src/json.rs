//! JSON: we accept what serde_json accepts, all walks agree, and the canonical form is stable.

use crate::{LIMITS, canonical, paths};
use fbc::json::{Cursor, JsonErrorKind, JsonKind, JsonLayout, Raw, write_as_written, write_canonical};
use fbc::spans::Spans;
use serde::de::IgnoredAny;
use serde_json::Value;

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // `IgnoredAny` does not decode numbers and escapes; neither do we.
    let theirs = serde_json::from_str::<IgnoredAny>(text);
    match Raw::parse(text, LIMITS.depth) {
        Ok(value) => {
            assert!(theirs.is_ok(), "serde_json rejects it");
            check(text, value);
        }
        Err(error) => {
            assert!(error.offset <= text.len() && !error.to_string().is_empty());
            let deep = matches!(error.kind, JsonErrorKind::Depth { .. });
            assert!(deep || theirs.is_err(), "serde_json accepts it: {error}");
        }
    }
}

fn check(text: &str, value: Raw<'_>) {
    let mut spans = Vec::new();
    let indexed = Raw::parse_indexed(text, 0, LIMITS.depth, &mut spans).expect("the text is valid");
    assert_eq!(indexed.text(), value.text());
    assert_eq!(walk(value), walk(indexed), "the indexed walk differs");
    let mut cursor = Vec::new();
    walk_cursor(&mut Cursor::new(value), &mut cursor);
    assert_eq!(walk(value), cursor, "the cursor differs");
    let compact = canonical(value);
    let reparsed = Raw::parse(&compact, LIMITS.depth).expect("the canonical form is JSON");
    assert_eq!(canonical(reparsed), compact, "the canonical form is not stable");
    // Keys of the canonical form are unique, so every path has a span.
    let spans = Spans::of_json(reparsed);
    for path in paths(reparsed, 50) {
        let range = spans.find(&path.0).unwrap_or_else(|| panic!("{path} has no span"));
        assert!(compact.get(range).is_some());
    }
    for write in [write_canonical as fn(Raw<'_>, JsonLayout, &mut Vec<u8>), |value, layout, out| {
        write_as_written(value, layout, 0, out);
    }] {
        let mut indented = Vec::new();
        write(value, JsonLayout::Indented(4), &mut indented);
        let indented = String::from_utf8(indented).expect("JSON is text");
        let reparsed = Raw::parse(&indented, LIMITS.depth).expect("the indented form is JSON");
        assert_eq!(canonical(reparsed), compact, "the layout changed a value");
    }
    // serde_json rejects huge numbers and lone surrogates.
    if let Ok(theirs) = serde_json::from_str::<Value>(text) {
        let ours = serde_json::from_str(&compact).expect("the canonical form is JSON");
        assert!(same(&ours, &theirs), "{compact} has another value");
    }
}

/// Compares values; numbers by value, not by spelling.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// Returns all keys, and the text of all other scalars, in order.
fn walk(value: Raw<'_>) -> Vec<String> {
    let mut seen = Vec::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value.kind() {
            JsonKind::Object => {
                let members: Vec<_> = value.members().collect();
                seen.push(format!("object of {}", members.len()));
                for (key, inner) in members.into_iter().rev() {
                    seen.push(key.into_owned());
                    assert_eq!(&value.text()[value.offset_of(inner)..][..inner.text().len()], inner.text());
                    open.push(inner);
                }
            }
            JsonKind::Array => {
                let items: Vec<_> = value.items().collect();
                seen.push(format!("list of {}", items.len()));
                open.extend(items.into_iter().rev());
            }
            _ => seen.push(value.text().to_owned()),
        }
    }
    seen.sort();
    seen
}

fn walk_cursor(cursor: &mut Cursor<'_>, seen: &mut Vec<String>) {
    collect(cursor, seen);
    seen.sort();
}

fn collect(cursor: &mut Cursor<'_>, seen: &mut Vec<String>) {
    let mut count = 0;
    match cursor.kind() {
        JsonKind::Object => {
            cursor.members(|key, cursor| {
                count += 1;
                seen.push(key.to_owned());
                collect(cursor, seen);
            });
            seen.push(format!("object of {count}"));
        }
        JsonKind::Array => {
            cursor.items(|cursor| {
                count += 1;
                collect(cursor, seen);
            });
            seen.push(format!("list of {count}"));
        }
        _ => seen.push(cursor.value().text().to_owned()),
    }
}
