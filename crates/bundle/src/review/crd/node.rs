//! Walks two schemas in parallel.

use crate::Severity;
use serde_json::Value;

use super::{CrdDifference, rules};

/// The meaning of a removed field.
pub(super) const REMOVED: Option<Severity> = Some(Severity::Error);

/// A change in a schema.
pub(super) struct SchemaChange {
    pub(super) path: String,
    pub(super) rule: &'static str,
    pub(super) words: String,
    pub(super) blocks: bool,
    pub(super) meaning: Option<Severity>,
}

impl SchemaChange {
    pub(super) fn into_change(self, crd: &str, version: &str, served: bool) -> CrdDifference {
        let SchemaChange { path, rule, words, blocks, meaning } = self;
        // A version that is not served affects no client immediately.
        let meaning = if served { meaning } else { meaning.map(|severity| severity.min(Severity::Warning)) };
        if rule == "existingFieldRemoval" && !version.contains(' ') {
            let words = format!("crd/{crd} version/{version} field/{path} may not be removed");
            return CrdDifference {
                crd: crd.into(),
                version: String::new(),
                path: String::new(),
                rule,
                words,
                blocks,
                meaning,
            };
        }
        CrdDifference { crd: crd.into(), version: version.into(), path, rule, words, blocks, meaning }
    }
}

/// Compares the schemas at a path, and all schemas below the old one.
pub(super) fn compare(old: &Value, new: &Value, path: &str, found: &mut Vec<SchemaChange>) {
    rules::check(old, new, path, found);
    for (step, below) in children(old) {
        let path = format!("{path}{step}");
        match child(new, &step, old) {
            Some(now) => compare(below, now, &path, found),
            None => found.push(SchemaChange {
                words: removed_message(below, &path),
                path,
                rule: "existingFieldRemoval",
                blocks: true,
                meaning: REMOVED,
            }),
        }
    }
}

/// Returns the message of OLM v1 for a field that a newer version of the API lacks: its type disappears.
fn removed_message(schema: &Value, path: &str) -> String {
    match schema.get("type").and_then(Value::as_str) {
        Some(kind) => format!("type changed : \"{kind}\" -> \"\""),
        None => format!("field {path} may not be removed"),
    }
}

/// Returns the direct child schemas, each with its path step.
fn children(schema: &Value) -> Vec<(String, &Value)> {
    let mut children = Vec::new();
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        children.push((format!(".{name}"), property));
    }
    for field in ["items", "not", "additionalProperties"] {
        if let Some(below) = schema.get(field).filter(|below| below.is_object()) {
            children.push((format!(".{field}"), below));
        }
    }
    for field in ["allOf", "anyOf", "oneOf"] {
        for (at, below) in schema.get(field).and_then(Value::as_array).into_iter().flatten().enumerate() {
            children.push((format!(".{field}[{at}]"), below));
        }
    }
    children
}

/// Returns the child at the same step of the other schema.
fn child<'a>(schema: &'a Value, step: &str, other: &Value) -> Option<&'a Value> {
    let name = step.strip_prefix('.')?;
    if other.pointer("/properties").and_then(|all| all.get(name)).is_some() {
        return schema.get("properties")?.get(name);
    }
    match name.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
        Some((field, at)) => schema.get(field)?.get(at.parse::<usize>().ok()?),
        None => schema.get(name).filter(|below| below.is_object()),
    }
}
