//! Validates a value against a schema: types, required fields, enums, bounds, patterns, and combinators.

use fbc::similar::nearest;
use serde_json::{Map, Value};

use super::pattern::Patterns;
use super::{MAX_FAULTS, SchemaFault};

/// The maximum number of comparisons between schemas and values; beyond it, there is no verdict.
const MAX_STEPS: usize = 200_000;
/// The cost of compiling a pattern, in comparisons.
const PATTERN_COST: usize = 1000;
/// The maximum number of characters of a string to show.
const MAX_SHOWN: usize = 100;
/// The maximum number of list items to compare with each other.
const MAX_COMPARED: usize = 1000;

/// Returns the first few violations of a schema by a value; an error if the check would take too long.
pub(super) fn faults(schema: &Value, value: &Value) -> Result<Vec<SchemaFault>, ()> {
    let mut validator = Validator { faults: Vec::new(), steps: MAX_STEPS, patterns: Patterns::default() };
    validator.value(schema, value, "")?;
    Ok(validator.faults)
}

struct Validator {
    faults: Vec<SchemaFault>,
    steps: usize,
    patterns: Patterns,
}

impl Validator {
    fn fault(&mut self, path: &str, why: impl Into<String>) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(SchemaFault { path: path.to_owned(), why: why.into() });
        }
    }

    fn value(&mut self, schema: &Value, value: &Value, path: &str) -> Result<(), ()> {
        self.steps = self.steps.checked_sub(1).ok_or(())?;
        let Some(fields) = schema.as_object() else { return Ok(()) };
        let is_true = |key: &str| fields.get(key) == Some(&Value::Bool(true));
        if value.is_null() && is_true("nullable") {
            return Ok(());
        }
        let either = is_true("x-kubernetes-int-or-string");
        if either && !(value.is_string() || is_integer(value)) {
            self.fault(path, format!("{} instead of integer or string", kind(value)));
            return Ok(());
        }
        if let Some(wanted) = fields.get("type").and_then(Value::as_str)
            && !either
            && !has_type(value, wanted)
        {
            self.fault(path, format!("{} instead of {wanted}", kind(value)));
            return Ok(());
        }
        if let Some(values) = fields.get("enum").and_then(Value::as_array)
            && !values.contains(value)
        {
            let known: Vec<String> = values.iter().take(10).map(ToString::to_string).collect();
            self.fault(path, format!("{value} is none of {}", known.join(", ")));
        }
        match value {
            Value::Object(members) => self.object(fields, members, path)?,
            Value::Array(items) => self.array(fields, items, path)?,
            Value::String(text) => {
                self.bounds(fields, text.chars().count() as f64, ["minLength", "maxLength"], "characters", path);
                self.pattern(fields, text, path)?;
            }
            Value::Number(number) => self.number(fields, number.as_f64().unwrap_or_default(), path),
            _ => {}
        }
        self.combinators(fields, value, path)
    }

    fn object(&mut self, fields: &Map<String, Value>, members: &Map<String, Value>, path: &str) -> Result<(), ()> {
        let properties = fields.get("properties").and_then(Value::as_object);
        for name in fields.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            let schema = properties.and_then(|all| all.get(name));
            let given = members.get(name).is_some_and(|value| !is_dropped(schema, value));
            if !given && schema.is_none_or(|schema| schema.get("default").is_none()) {
                // A misspelt name is among those that the schema does not know.
                let unknown = |name: &&String| !properties.is_some_and(|all| all.contains_key(*name));
                let others = members.keys().filter(unknown).map(String::as_str);
                let near = nearest(name, others).map(|near| format!("; \"{near}\" is not known"));
                self.fault(&join(path, name), format!("is required{}", near.unwrap_or_default()));
            }
        }
        self.bounds(fields, members.len() as f64, ["minProperties", "maxProperties"], "fields", path);
        let rest = fields.get("additionalProperties").filter(|rest| rest.is_object());
        let closed = fields.get("additionalProperties") == Some(&Value::Bool(false));
        for (name, member) in members {
            if closed && !properties.is_some_and(|all| all.contains_key(name)) {
                let known = properties.into_iter().flat_map(Map::keys).map(String::as_str);
                let near = nearest(name, known).map(|near| format!("; did you mean \"{near}\"?"));
                self.fault(&join(path, name), format!("is not known{}", near.unwrap_or_default()));
            }
            // API servers drop fields that no schema knows.
            if let Some(schema) = properties.and_then(|all| all.get(name)).or(rest)
                && !is_dropped(Some(schema), member)
            {
                self.value(schema, member, &join(path, name))?;
            }
        }
        Ok(())
    }

    fn array(&mut self, fields: &Map<String, Value>, items: &[Value], path: &str) -> Result<(), ()> {
        self.bounds(fields, items.len() as f64, ["minItems", "maxItems"], "items", path);
        let unique = fields.get("uniqueItems") == Some(&Value::Bool(true));
        if unique
            && items.len() <= MAX_COMPARED
            && items.iter().enumerate().any(|(at, item)| items[..at].contains(item))
        {
            self.fault(path, "contains an item twice");
        }
        if let Some(schema) = fields.get("items") {
            for (at, item) in items.iter().enumerate() {
                self.value(schema, item, &format!("{path}[{at}]"))?;
            }
        }
        Ok(())
    }

    fn pattern(&mut self, fields: &Map<String, Value>, text: &str, path: &str) -> Result<(), ()> {
        let Some(pattern) = fields.get("pattern").and_then(Value::as_str) else { return Ok(()) };
        if !self.patterns.knows(pattern) {
            self.steps = self.steps.checked_sub(PATTERN_COST).ok_or(())?;
        }
        if self.patterns.excludes(pattern, text) {
            let shown: String = text.chars().take(MAX_SHOWN).collect();
            let more = if shown.len() < text.len() { "…" } else { "" };
            self.fault(path, format!("{shown:?}{more} does not match {pattern:?}"));
        }
        Ok(())
    }

    fn number(&mut self, fields: &Map<String, Value>, number: f64, path: &str) {
        let bound = |key: &str| fields.get(key).and_then(Value::as_f64);
        let excludes = |key: &str| fields.get(key) == Some(&Value::Bool(true));
        if let Some(least) = bound("minimum")
            && (number < least || number <= least && excludes("exclusiveMinimum"))
        {
            self.fault(path, format!("{number} is below the minimum {least}"));
        }
        if let Some(most) = bound("maximum")
            && (number > most || number >= most && excludes("exclusiveMaximum"))
        {
            self.fault(path, format!("{number} is above the maximum {most}"));
        }
    }

    fn bounds(&mut self, fields: &Map<String, Value>, count: f64, keys: [&str; 2], what: &str, path: &str) {
        let bound = |key: &str| fields.get(key).and_then(Value::as_f64);
        if let Some(least) = bound(keys[0]).filter(|least| count < *least) {
            self.fault(path, format!("has {count} {what}; the schema requires at least {least}"));
        }
        if let Some(most) = bound(keys[1]).filter(|most| count > *most) {
            self.fault(path, format!("has {count} {what}; the schema allows at most {most}"));
        }
    }

    fn combinators(&mut self, fields: &Map<String, Value>, value: &Value, path: &str) -> Result<(), ()> {
        let inner = |key: &str| fields.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for schema in inner("allOf") {
            self.value(schema, value, path)?;
        }
        for (key, words) in
            [("anyOf", "matches none of the alternatives"), ("oneOf", "does not match exactly one of the alternatives")]
        {
            let schemas = inner(key);
            let mut fitting = 0;
            for schema in schemas {
                fitting += usize::from(self.fits(schema, value)?);
            }
            let good = if key == "anyOf" { fitting > 0 } else { fitting == 1 };
            if !schemas.is_empty() && !good {
                self.fault(path, words);
            }
        }
        if let Some(schema) = fields.get("not")
            && self.fits(schema, value)?
        {
            self.fault(path, "is excluded by `not`");
        }
        Ok(())
    }

    /// Returns whether a value is valid, without recording faults.
    fn fits(&mut self, schema: &Value, value: &Value) -> Result<bool, ()> {
        let patterns = std::mem::take(&mut self.patterns);
        let mut validator = Validator { faults: Vec::new(), steps: self.steps, patterns };
        let outcome = validator.value(schema, value, "");
        self.steps = validator.steps;
        self.patterns = validator.patterns;
        outcome.map(|()| validator.faults.is_empty())
    }
}

/// Returns whether API servers drop a member before validation: a null where none is allowed.
fn is_dropped(schema: Option<&Value>, value: &Value) -> bool {
    let nullable = schema.is_some_and(|schema| schema.get("nullable") == Some(&Value::Bool(true)));
    value.is_null() && !nullable
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn has_type(value: &Value, wanted: &str) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => is_integer(value),
        _ => true,
    }
}

/// Returns the JSON Schema type name of a value.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(schema: Value, value: Value) -> String {
        faults(&schema, &value).unwrap().iter().map(SchemaFault::message).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn invalid_values_are_reported_with_their_path() {
        let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": {
        "type": "object", "required": ["size", "kept"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 9},
            "kept": {"type": "string", "default": "x"},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "name": {"type": "string", "pattern": "^[a-z]+$"},
            "size-of": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+(Mi|Gi)$"},
            "list": {"type": "array", "minItems": 1, "items": {"type": "string", "maxLength": 2}},
            "port": {"x-kubernetes-int-or-string": true},
            "either": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            "maybe": {"type": "string", "nullable": true},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        }}}});
        let spec = |spec: Value| messages(schema.clone(), json!({"spec": spec}));
        let good = json!({"size": 3, "mode": "a", "list": ["x"], "port": "http", "either": {"a": 1}, "maybe": null, "map": {"k": 1}, "unknown": 1});
        assert_eq!(spec(good), "");
        assert_eq!(messages(schema.clone(), json!({})), "spec: is required");
        assert_eq!(spec(json!({})), "spec.size: is required");
        assert_eq!(spec(json!({"size": null})), "spec.size: is required");
        assert_eq!(spec(json!({"size": 1, "kept": null, "list": null})), "");
        assert_eq!(spec(json!({"size": "3"})), "spec.size: string instead of integer");
        assert_eq!(spec(json!({"size": 0})), "spec.size: 0 is below the minimum 1");
        assert_eq!(spec(json!({"size": 1, "mode": "c"})), "spec.mode: \"c\" is none of \"a\", \"b\"");
        assert_eq!(
            spec(json!({"size": 1, "list": ["abc"]})),
            "spec.list[0]: has 3 characters; the schema allows at most 2"
        );
        assert_eq!(spec(json!({"size": 1, "list": []})), "spec.list: has 0 items; the schema requires at least 1");
        assert_eq!(spec(json!({"size": 1, "port": true})), "spec.port: boolean instead of integer or string");
        assert_eq!(
            spec(json!({"size": 1, "either": {"a": 1, "b": 2}})),
            "spec.either: does not match exactly one of the alternatives"
        );
        assert_eq!(spec(json!({"size": 1, "name": "foo", "size-of": "1Gi"})), "");
        assert_eq!(spec(json!({"size": 1, "size-of": 1})), "", "a number has no pattern");
        assert_eq!(spec(json!({"size": 1, "name": "Foo"})), "spec.name: \"Foo\" does not match \"^[a-z]+$\"");
        assert_eq!(spec(json!({"size": 1, "size-of": "1"})), "spec.size-of: \"1\" does not match \"^[0-9]+(Mi|Gi)$\"");
        assert_eq!(spec(json!({"size": 1, "map": {"k": "v"}})), "spec.map.k: string instead of integer");
    }

    #[test]
    fn a_comparison_that_takes_too_long_is_aborted() {
        let many: Vec<Value> = (0..1000).map(|_| json!({"type": "string"})).collect();
        let schema = json!({"type": "array", "items": {"anyOf": many}});
        let items: Vec<Value> = (0..1000).map(|_| json!(1)).collect();
        assert!(faults(&schema, &Value::Array(items)).is_err());
    }
}
