//! Whether a schema is structural: API servers refuse all others.

use serde_json::{Map, Value};

use super::{FAULTS, Fault, fits};

/// What no schema of a CRD may have.
const FORBIDDEN: [&str; 6] = ["$ref", "definitions", "dependencies", "id", "patternProperties", "additionalItems"];
/// What stands outside of `allOf`, `anyOf`, `oneOf` and `not` alone.
const OUTSIDE: [&str; 6] = ["type", "description", "default", "nullable", "title", "additionalProperties"];

/// Returns why a schema is not structural, or its defaults do not fit; no more than a few faults.
pub(super) fn faults(schema: &Value) -> Vec<Fault> {
    let mut judge = Judge { faults: Vec::new() };
    match schema.as_object() {
        None => judge.fault("", "is no object"),
        Some(fields) => {
            if fields.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "object") {
                judge.fault("", "the type of the whole must be object");
            }
            judge.node(fields, "");
        }
    }
    judge.faults
}

struct Judge {
    faults: Vec<Fault>,
}

impl Judge {
    fn fault(&mut self, path: &str, why: impl Into<String>) {
        if self.faults.len() < FAULTS {
            self.faults.push(Fault { path: path.to_owned(), why: why.into() });
        }
    }

    /// Judges a schema outside of logical junctors. Recursion ends with the depth of the document, which is limited.
    fn node(&mut self, fields: &Map<String, Value>, path: &str) {
        let is_true = |key: &str| fields.get(key) == Some(&Value::Bool(true));
        let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
        let free = is_true("x-kubernetes-int-or-string") || is_true("x-kubernetes-preserve-unknown-fields");
        if kind.is_empty() && !free {
            self.fault(path, "the type is missing");
        }
        for key in FORBIDDEN.iter().filter(|key| fields.contains_key(**key)) {
            self.fault(path, format!("{key} is not allowed"));
        }
        if is_true("uniqueItems") {
            self.fault(path, "uniqueItems is not allowed: use x-kubernetes-list-type: set");
        }
        let properties = fields.get("properties").and_then(Value::as_object);
        if properties.is_some_and(|properties| !properties.is_empty()) && fields.contains_key("additionalProperties") {
            self.fault(path, "properties and additionalProperties exclude each other");
        }
        if kind == "array" && !fields.get("items").is_some_and(Value::is_object) {
            self.fault(path, "an array needs items");
        }
        for (name, property) in properties.into_iter().flatten() {
            self.below(Some(property), &join(path, name));
        }
        self.below(fields.get("items"), &format!("{path}[]"));
        self.below(fields.get("additionalProperties").filter(|value| value.is_object()), &format!("{path}{{}}"));
        self.junctors(fields, path, is_true("x-kubernetes-int-or-string"));
        // The field `default` of the root is refused elsewhere.
        if let Some(default) = fields.get("default").filter(|default| !default.is_null())
            && let Ok(faults) = fits::faults(&Value::Object(fields.clone()), default)
        {
            for fault in faults {
                self.fault(&join(path, &fault.path), format!("the default does not fit: {}", fault.why));
            }
        }
    }

    fn below(&mut self, schema: Option<&Value>, path: &str) {
        if let Some(fields) = schema.and_then(Value::as_object) {
            self.node(fields, path);
        }
    }

    /// Judges what is below `allOf`, `anyOf`, `oneOf` and `not`, which only narrows what is outside.
    fn junctors(&mut self, fields: &Map<String, Value>, path: &str, int_or_string: bool) {
        for key in ["allOf", "anyOf", "oneOf"] {
            for inner in fields.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object) {
                // This pair of types is how int-or-string is spelled.
                let spelled = int_or_string && inner.len() == 1 && inner.contains_key("type");
                self.inside(inner, path, key, spelled, int_or_string);
            }
        }
        if let Some(inner) = fields.get("not").and_then(Value::as_object) {
            self.inside(inner, path, "not", false, false);
        }
    }

    fn inside(&mut self, fields: &Map<String, Value>, path: &str, junctor: &str, spelled: bool, int_or_string: bool) {
        for key in OUTSIDE.iter().filter(|key| fields.contains_key(**key) && !spelled) {
            self.fault(path, format!("{key} is not allowed below {junctor}"));
        }
        for (name, property) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if let Some(inner) = property.as_object() {
                self.inside(inner, &join(path, name), junctor, false, false);
            }
        }
        if let Some(inner) = fields.get("items").and_then(Value::as_object) {
            self.inside(inner, &format!("{path}[]"), junctor, false, false);
        }
        self.junctors(fields, path, int_or_string);
    }
}

fn join(path: &str, name: &str) -> String {
    match (path, name) {
        ("", name) => name.to_owned(),
        (path, "") => path.to_owned(),
        (path, name) => format!("{path}.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(schema: Value) -> String {
        faults(&schema).iter().map(Fault::said).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn schemas_that_api_servers_refuse_are_named() {
        let of = |field: Value| json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": field}}}});
        assert_eq!(said(of(json!({"type": "string"}))), "");
        assert_eq!(
            said(of(json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}))),
            ""
        );
        assert_eq!(said(of(json!({"x-kubernetes-preserve-unknown-fields": true}))), "");
        assert_eq!(said(of(json!({}))), "spec.a: the type is missing");
        assert_eq!(said(of(json!({"type": "array"}))), "spec.a: an array needs items");
        assert_eq!(
            said(of(json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": true}))),
            "spec.a: properties and additionalProperties exclude each other"
        );
        assert_eq!(said(of(json!({"type": "string", "$ref": "#/x"}))), "spec.a: $ref is not allowed");
        assert_eq!(
            said(of(json!({"type": "string", "anyOf": [{"type": "string"}]}))),
            "spec.a: type is not allowed below anyOf"
        );
        assert_eq!(said(of(json!({"type": "array", "items": {}}))), "spec.a[]: the type is missing");
        assert_eq!(
            said(of(json!({"type": "integer", "default": "x"}))),
            "spec.a: the default does not fit: string instead of integer"
        );
        assert_eq!(
            said(of(json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}}))),
            "spec.a: uniqueItems is not allowed: use x-kubernetes-list-type: set"
        );
        assert_eq!(said(json!({"properties": {}})), "the type is missing");
        assert_eq!(said(json!({"type": "array", "items": {"type": "string"}})), "the type of the whole must be object");
        assert_eq!(said(json!(1)), "is no object");
    }
}
