//! A schema is unchanged if only its documentation changes.

use proptest::prelude::*;
use serde_json::{Value, json};

fn crd(schema: Value) -> Value {
    json!({
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {"scope": "Namespaced", "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    })
}

fn compare(old: &Value, new: &Value) -> Vec<bundle::review::crd::CrdDifference> {
    bundle::review::crd::compare([old], [new])
}

/// Schemas of all shapes that the comparison handles.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string", "maxLength": 5, "pattern": "a"})),
        Just(json!({"type": "integer", "minimum": 0, "maximum": 9, "default": 1})),
        Just(json!({"enum": ["a", "b"], "nullable": true})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({})),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            prop::collection::btree_map("[a-d]", inner.clone(), 0..4)
                .prop_map(|properties| json!({"type": "object", "properties": properties, "required": ["a"]})),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner.clone().prop_map(|values| json!({"additionalProperties": values})),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|alternatives| json!({"oneOf": alternatives})),
            prop::collection::vec(inner, 1..3).prop_map(|parts| json!({"anyOf": parts, "not": {"type": "string"}})),
        ]
    })
}

/// Adds a description to every schema, and reverses the order of keys.
fn described(schema: &Value, words: &str) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut out = serde_json::Map::new();
    for (key, value) in fields.iter().rev() {
        let value = match (&**key, value) {
            ("properties", Value::Object(properties)) => properties
                .iter()
                .rev()
                .map(|(name, schema)| (name.clone(), described(schema, words)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            ("items", value) => described(value, words),
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    out.insert("description".into(), words.into());
    Value::Object(out)
}

proptest! {
    #[test]
    fn documentation_changes_nothing(schema in schema(), words in "[a-z ]{0,20}") {
        prop_assert_eq!(compare(&crd(schema.clone()), &crd(schema.clone())), []);
        prop_assert_eq!(compare(&crd(schema.clone()), &crd(described(&schema, &words))), []);
    }

    #[test]
    fn a_removed_field_is_always_reported(schema in schema()) {
        let with = json!({"type": "object", "properties": {"kept": {}, "gone": schema}});
        let without = json!({"type": "object", "properties": {"kept": {}}});
        let changes = compare(&crd(with.clone()), &crd(without.clone()));
        prop_assert_eq!(changes.len(), 1);
        prop_assert!(changes[0].blocks && changes[0].words.ends_with("field/^.gone may not be removed"));
        // A new optional field is no breaking change.
        prop_assert_eq!(compare(&crd(without), &crd(with)), []);
    }
}
