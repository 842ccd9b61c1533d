//! Reads members of objects by JSON pointer: what is absent or of another kind counts as empty.

use serde_json::Value;

/// Returns a string of an object, or an empty one if it is absent or not a string.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    fbc::step_counter::step();
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a list of an object, or an empty one if it is absent or not a list.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the strings of a list.
pub(crate) fn texts<'a>(value: &'a Value, pointer: &str) -> Vec<&'a str> {
    list(value, pointer).iter().filter_map(Value::as_str).collect()
}
