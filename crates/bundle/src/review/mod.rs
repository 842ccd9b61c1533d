//! Reports what a bundle may do on a cluster, and what an upgrade changes.
//!
//! [`facts`] extracts facts from manifests. [`crd`] compares CustomResourceDefinitions as OLM v1 does before an
//! upgrade, and adds the actual effect of each change. [`security`] reports the rights of an operator and what grew
//! between two versions: `rights` collects the rights of accounts and `judge` rates them; `pods` and `parts` cover
//! everything else; `compare` finds what is new. The crate reads no files.

pub mod crd;
pub mod facts;
pub mod security;

mod compare;
pub use compare::TooManyRights;
mod judge;
mod parts;
mod pods;
mod rights;

use serde_json::Value;

/// Returns a string of an object, or an empty one if it is absent or not a string.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
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
