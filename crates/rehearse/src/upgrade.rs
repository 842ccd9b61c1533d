//! What an upgrade changes, deletes and restarts.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::called;
use crate::input::text;

/// What becomes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// It is deleted.
    Deleted,
    /// It changes, and its pods are replaced.
    Restarted,
    /// It changes.
    Changed,
    /// It is new.
    Created,
}

/// What an upgrade does to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What becomes of it.
    pub effect: Effect,
    /// The object, as `KIND NAMESPACE/NAME`.
    pub object: String,
    /// The fields that differ, as JSON pointers; at most [`FIELDS`], the outermost where all of it differs.
    pub fields: Vec<String>,
}

/// So many fields of an object are named.
pub const FIELDS: usize = 5;

/// Compares two installations of one operator; the worst comes first.
pub fn upgrade(old: &[Value], new: &[Value]) -> Vec<Change> {
    let by_name = |objects: &[Value]| -> BTreeMap<String, Value> {
        objects
            .iter()
            .map(|object| (format!("{} {}", text(object, "/apiVersion"), called(object)), object.clone()))
            .collect()
    };
    let (old, new) = (by_name(old), by_name(new));
    let mut changes = Vec::new();
    for (key, object) in &old {
        if !new.contains_key(key) {
            changes.push(Change { effect: Effect::Deleted, object: called(object), fields: Vec::new() });
        }
    }
    for (key, object) in &new {
        let Some(before) = old.get(key) else {
            changes.push(Change { effect: Effect::Created, object: called(object), fields: Vec::new() });
            continue;
        };
        let mut fields = Vec::new();
        differences(before, object, "", &mut fields);
        if fields.is_empty() {
            continue;
        }
        let restarts =
            text(object, "/kind") == "Deployment" && fields.iter().any(|field| field.starts_with("/spec/template"));
        let effect = if restarts { Effect::Restarted } else { Effect::Changed };
        fields.truncate(FIELDS);
        changes.push(Change { effect, object: called(object), fields });
    }
    changes.sort_by(|a, b| (a.effect, &a.object).cmp(&(b.effect, &b.object)));
    changes
}

/// Collects the fields in which two values differ.
fn differences(old: &Value, new: &Value, at: &str, fields: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old {
                let at = format!("{at}/{}", crate::typed::escaped(key));
                match new.get(key) {
                    Some(other) => differences(value, other, &at, fields),
                    None => fields.push(at),
                }
            }
            let added = new.keys().filter(|key| !old.contains_key(*key));
            fields.extend(added.map(|key| format!("{at}/{}", crate::typed::escaped(key))));
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                differences(old, new, &format!("{at}/{index}"), fields);
            }
        }
        _ if old != new => fields.push(at.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_reported_with_the_worst_first() {
        let named =
            |kind: &str, name: &str, spec: Value| json!({"kind": kind, "metadata": {"name": name}, "spec": spec});
        let old = [
            named("Deployment", "d", json!({"template": {"a": 1}, "replicas": 1})),
            named("Deployment", "e", json!({"replicas": 1})),
            named("Role", "gone", json!({})),
            named("Role", "same", json!({})),
        ];
        let new = [
            named("Deployment", "d", json!({"template": {"a": 2}, "replicas": 1})),
            named("Deployment", "e", json!({"replicas": 2})),
            named("Role", "same", json!({})),
            named("Role", "new", json!({})),
        ];
        let said: Vec<String> = upgrade(&old, &new)
            .iter()
            .map(|change| format!("{:?} {} {}", change.effect, change.object, change.fields.join(",")))
            .collect();
        assert_eq!(
            said,
            [
                "Deleted Role gone ",
                "Restarted Deployment d /spec/template/a",
                "Changed Deployment e /spec/replicas",
                "Created Role new "
            ]
        );
    }
}
