//! Determines what an upgrade changes, deletes and restarts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::pointer::text;
use crate::rehearse::display_name;

/// The effect on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum Effect {
    /// The object is deleted.
    #[serde(rename = "deletes")]
    Deleted,
    /// The object changes, and its pods are replaced.
    #[serde(rename = "restarts")]
    Restarted,
    /// The object changes.
    #[serde(rename = "changes")]
    Changed,
    /// The object is created.
    #[serde(rename = "creates")]
    Created,
}

impl Effect {
    /// Returns what an upgrade does to the object.
    pub fn verb(self) -> &'static str {
        match self {
            Effect::Deleted => "deletes",
            Effect::Restarted => "restarts",
            Effect::Changed => "changes",
            Effect::Created => "creates",
        }
    }
}

/// The change of an object in an upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ObjectChange {
    pub effect: Effect,
    /// The object, as `KIND NAMESPACE/NAME`.
    pub object: String,
    /// The differing fields, as JSON pointers; at most [`FIELDS`], or the outermost one if everything differs.
    pub fields: Vec<String>,
}

/// The maximum number of fields to list per object.
pub const FIELDS: usize = 5;

/// Compares two installations of one operator; the worst effects come first.
pub fn upgrade(old: &[Value], new: &[Value]) -> Vec<ObjectChange> {
    let by_name = |objects: &[Value]| -> BTreeMap<String, Value> {
        objects
            .iter()
            .map(|object| (format!("{} {}", text(object, "/apiVersion"), display_name(object)), object.clone()))
            .collect()
    };
    let (old, new) = (by_name(old), by_name(new));
    let mut changes = Vec::new();
    for (key, object) in &old {
        if !new.contains_key(key) {
            changes.push(ObjectChange { effect: Effect::Deleted, object: display_name(object), fields: Vec::new() });
        }
    }
    for (key, object) in &new {
        let Some(before) = old.get(key) else {
            changes.push(ObjectChange { effect: Effect::Created, object: display_name(object), fields: Vec::new() });
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
        changes.push(ObjectChange { effect, object: display_name(object), fields });
    }
    changes.sort_by(|a, b| (a.effect, &a.object).cmp(&(b.effect, &b.object)));
    changes
}

/// Collects the fields in which two values differ.
fn differences(old: &Value, new: &Value, at: &str, fields: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old {
                let at = format!("{at}/{}", crate::rehearse::typed::escaped(key));
                match new.get(key) {
                    Some(other) => differences(value, other, &at, fields),
                    None => fields.push(at),
                }
            }
            let added = new.keys().filter(|key| !old.contains_key(*key));
            fields.extend(added.map(|key| format!("{at}/{}", crate::rehearse::typed::escaped(key))));
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
        let shown: Vec<String> = upgrade(&old, &new)
            .iter()
            .map(|change| format!("{:?} {} {}", change.effect, change.object, change.fields.join(",")))
            .collect();
        assert_eq!(
            shown,
            [
                "Deleted Role gone ",
                "Restarted Deployment d /spec/template/a",
                "Changed Deployment e /spec/replicas",
                "Created Role new "
            ]
        );
    }
}
