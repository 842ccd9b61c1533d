//! Checks whether a schema is structural: API servers reject all others.

use serde_json::{Map, Value};

use super::{MAX_FAULTS, SchemaFault, fits};

/// Keywords that CRD schemas must not use.
const FORBIDDEN: [&str; 6] = ["$ref", "definitions", "dependencies", "id", "patternProperties", "additionalItems"];
/// Keywords that are allowed only outside of `allOf`, `anyOf`, `oneOf` and `not`.
const OUTSIDE: [&str; 6] = ["type", "description", "default", "nullable", "title", "additionalProperties"];

/// Returns the first few reasons why a schema is not structural or its defaults are invalid.
pub(super) fn faults(schema: &Value) -> Vec<SchemaFault> {
    let mut checker = Checker { faults: Vec::new() };
    match schema.get("type").and_then(Value::as_str) {
        _ if !schema.is_object() => checker.fault(&Path::Root, "is not an object"),
        Some(kind) if kind != "object" => {
            checker.fault(&Path::Root, "the type of the root must be object");
            checker.node(schema, &Path::Root);
        }
        _ => checker.node(schema, &Path::Root),
    }
    checker.faults
}

/// The path of a schema, formatted only for faults.
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Items(&'a Path<'a>),
    Members(&'a Path<'a>),
}

impl Path<'_> {
    fn write(&self, out: &mut String) {
        match self {
            Path::Root => {}
            Path::Field(above, name) => {
                above.write(out);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Path::Items(above) => {
                above.write(out);
                out.push_str("[]");
            }
            Path::Members(above) => {
                above.write(out);
                out.push_str("{}");
            }
        }
    }
}

struct Checker {
    faults: Vec<SchemaFault>,
}

/// The keywords of a schema, collected in one pass.
#[derive(Default)]
struct Parts<'a> {
    kind: &'a str,
    int_or_string: bool,
    open: bool,
    unique: bool,
    forbidden: bool,
    combinators: bool,
    properties: Option<&'a Map<String, Value>>,
    items: Option<&'a Value>,
    additional: Option<&'a Value>,
    default: Option<&'a Value>,
}

impl<'a> Parts<'a> {
    fn of(fields: &'a Map<String, Value>) -> Parts<'a> {
        let mut parts = Parts::default();
        for (key, value) in fields {
            let is_true = *value == Value::Bool(true);
            match key.as_str() {
                "type" => parts.kind = value.as_str().unwrap_or_default(),
                "x-kubernetes-int-or-string" => parts.int_or_string = is_true,
                "x-kubernetes-preserve-unknown-fields" => parts.open = is_true,
                "uniqueItems" => parts.unique = is_true,
                "properties" => parts.properties = value.as_object(),
                "items" => parts.items = Some(value),
                "additionalProperties" => parts.additional = Some(value),
                "default" => parts.default = Some(value).filter(|default| !default.is_null()),
                "allOf" | "anyOf" | "oneOf" | "not" => parts.combinators = true,
                other => parts.forbidden |= FORBIDDEN.contains(&other),
            }
        }
        parts
    }
}

impl Checker {
    fn fault(&mut self, path: &Path<'_>, why: impl Into<String>) {
        if self.faults.len() < MAX_FAULTS {
            let mut written = String::new();
            path.write(&mut written);
            self.faults.push(SchemaFault { path: written, why: why.into() });
        }
    }

    /// Checks a schema outside of logical combinators. Recursion ends with the depth of the document, which is limited.
    fn node(&mut self, schema: &Value, path: &Path<'_>) {
        let Some(fields) = schema.as_object() else { return };
        let parts = Parts::of(fields);
        if parts.kind.is_empty() && !parts.int_or_string && !parts.open {
            self.fault(path, "the type is missing");
        }
        for key in FORBIDDEN.iter().filter(|key| parts.forbidden && fields.contains_key(**key)) {
            self.fault(path, format!("{key} is not allowed"));
        }
        if parts.unique {
            self.fault(path, "uniqueItems is not allowed: use x-kubernetes-list-type: set");
        }
        if parts.properties.is_some_and(|properties| !properties.is_empty()) && parts.additional.is_some() {
            self.fault(path, "properties and additionalProperties exclude each other");
        }
        if parts.kind == "array" && !parts.items.is_some_and(Value::is_object) {
            self.fault(path, "an array needs items");
        }
        for (name, property) in parts.properties.into_iter().flatten() {
            self.node(property, &Path::Field(path, name));
        }
        if let Some(items) = parts.items {
            self.node(items, &Path::Items(path));
        }
        if let Some(additional) = parts.additional {
            self.node(additional, &Path::Members(path));
        }
        if parts.combinators {
            self.combinators(fields, path, parts.int_or_string);
        }
        // Another check rejects `default` at the root.
        if let Some(default) = parts.default
            && let Ok(faults) = fits::faults(schema, default)
        {
            for fault in faults {
                let why = format!("the default does not match the schema: {}", fault.why);
                match fault.path.as_str() {
                    "" => self.fault(path, why),
                    below => self.fault(&Path::Field(path, below), why),
                }
            }
        }
    }

    /// Checks the schemas below `allOf`, `anyOf`, `oneOf` and `not`, which may only narrow the outer schema.
    fn combinators(&mut self, fields: &Map<String, Value>, path: &Path<'_>, int_or_string: bool) {
        for key in ["allOf", "anyOf", "oneOf"] {
            for inner in fields.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object) {
                // This pair of types expresses int-or-string.
                let spelled = int_or_string && inner.len() == 1 && inner.contains_key("type");
                self.inside(inner, path, key, spelled, int_or_string);
            }
        }
        if let Some(inner) = fields.get("not").and_then(Value::as_object) {
            self.inside(inner, path, "not", false, false);
        }
    }

    fn inside(
        &mut self,
        fields: &Map<String, Value>,
        path: &Path<'_>,
        combinator: &str,
        spelled: bool,
        int_or_string: bool,
    ) {
        for key in OUTSIDE.iter().filter(|key| fields.contains_key(**key) && !spelled) {
            self.fault(path, format!("{key} is not allowed below {combinator}"));
        }
        for (name, property) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if let Some(inner) = property.as_object() {
                self.inside(inner, &Path::Field(path, name), combinator, false, false);
            }
        }
        if let Some(inner) = fields.get("items").and_then(Value::as_object) {
            self.inside(inner, &Path::Items(path), combinator, false, false);
        }
        self.combinators(fields, path, int_or_string);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(schema: Value) -> String {
        faults(&schema).iter().map(SchemaFault::message).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn schemas_that_api_servers_reject_are_reported() {
        let of = |field: Value| json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": field}}}});
        assert_eq!(messages(of(json!({"type": "string"}))), "");
        assert_eq!(
            messages(of(
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})
            )),
            ""
        );
        assert_eq!(messages(of(json!({"x-kubernetes-preserve-unknown-fields": true}))), "");
        assert_eq!(messages(of(json!({}))), "spec.a: the type is missing");
        assert_eq!(messages(of(json!({"type": "array"}))), "spec.a: an array needs items");
        assert_eq!(
            messages(of(
                json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": true})
            )),
            "spec.a: properties and additionalProperties exclude each other"
        );
        assert_eq!(messages(of(json!({"type": "string", "$ref": "#/x"}))), "spec.a: $ref is not allowed");
        assert_eq!(
            messages(of(json!({"type": "string", "anyOf": [{"type": "string"}]}))),
            "spec.a: type is not allowed below anyOf"
        );
        assert_eq!(messages(of(json!({"type": "array", "items": {}}))), "spec.a[]: the type is missing");
        assert_eq!(
            messages(of(json!({"type": "integer", "default": "x"}))),
            "spec.a: the default does not match the schema: string instead of integer"
        );
        assert_eq!(
            messages(of(json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}}))),
            "spec.a: uniqueItems is not allowed: use x-kubernetes-list-type: set"
        );
        assert_eq!(messages(json!({"properties": {}})), "the type is missing");
        assert_eq!(
            messages(json!({"type": "array", "items": {"type": "string"}})),
            "the type of the root must be object"
        );
        assert_eq!(messages(json!(1)), "is not an object");
    }
}
