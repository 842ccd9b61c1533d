//! What a bundle may do on a cluster, and what an upgrade changes.
//!
//! [`facts`] reads what manifests hold. [`crd`] compares CustomResourceDefinitions as OLM v1 does before an upgrade, and says beside it what the
//! change means. [`security`] reports what an operator may do, and what grew between two versions: `rights`
//! collects what accounts may do and `judge` says how bad that is; `pods` and `parts` cover everything else;
//! `compare` finds what is new. Nothing here reads files.

pub mod crd;
pub mod facts;
pub mod security;

mod compare;
mod judge;
mod parts;
mod pods;
mod rights;

use serde_json::Value;

/// Returns a text of an object; what is absent or no text is empty.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a list of an object; what is absent or no list is empty.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the texts of a list.
pub(crate) fn texts<'a>(value: &'a Value, pointer: &str) -> Vec<&'a str> {
    list(value, pointer).iter().filter_map(Value::as_str).collect()
}
