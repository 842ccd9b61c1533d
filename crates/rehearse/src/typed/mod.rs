//! Objects as the types of Kubernetes see them.
//!
//! What passes through a type loses the fields that the type does not know, gains those that are always
//! written, and has its quantities written canonically.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::quantity;

static TYPES: LazyLock<HashMap<&'static str, Vec<Field>>> = LazyLock::new(|| {
    let tables = [include_str!("kubernetes.txt"), include_str!("olm.txt")];
    tables.iter().flat_map(|table| table.lines()).filter(|line| !line.starts_with('#')).map(type_of).collect()
});

/// A field of a type.
struct Field {
    name: &'static str,
    /// Whether it is written even if it was not given.
    always: bool,
    /// Whether it is written even if it is zero.
    zero: bool,
    kind: &'static str,
}

fn type_of(line: &'static str) -> (&'static str, Vec<Field>) {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let fields = words.filter_map(|word| {
        let (name, kind) = word.rsplit_once(':')?;
        let (always, kind) = kind.strip_prefix('!').map_or((false, kind), |kind| (true, kind));
        let (zero, kind) = kind.strip_prefix('?').map_or((false, kind), |kind| (true, kind));
        Some(Field { name, always, zero, kind })
    });
    (name, fields.collect())
}

/// A field that was given and that the type does not know, as a JSON pointer.
pub(crate) type Dropped = String;

/// Passes a value through the type `kind`.
///
/// `pointer` says where the value stands; what vanishes is added to `dropped`.
pub(crate) fn through(kind: &str, value: &Value, pointer: &str, dropped: &mut Vec<Dropped>) -> Value {
    Pass { dropped }.value(kind, value, pointer)
}

struct Pass<'a> {
    dropped: &'a mut Vec<Dropped>,
}

impl Pass<'_> {
    fn value(&mut self, kind: &str, value: &Value, pointer: &str) -> Value {
        if let Some(item) = kind.strip_prefix("[]") {
            let Value::Array(items) = value else { return value.clone() };
            let items = items.iter().enumerate();
            return items.map(|(index, value)| self.value(item, value, &format!("{pointer}/{index}"))).collect();
        }
        if let Some(item) = kind.strip_prefix("{}") {
            let Value::Object(members) = value else { return value.clone() };
            let members = members.iter();
            let through = |(key, value): (&String, &Value)| {
                (key.clone(), self.value(item, value, &format!("{pointer}/{}", escaped(key))))
            };
            return Value::Object(members.map(through).collect());
        }
        match kind {
            "s" | "i" | "b" | "f" | "x" | "j" => value.clone(),
            "q" => match value {
                Value::String(text) => quantity::canonical(text).map_or_else(|| value.clone(), Value::String),
                Value::Number(number) => {
                    quantity::canonical(&number.to_string()).map_or_else(|| value.clone(), Value::String)
                }
                other => other.clone(),
            },
            // A schema can be a boolean or a list of schemas, depending on where it stands.
            "JSONSchemaProps" if value.is_array() => self.value("[]JSONSchemaProps", value, pointer),
            name => match value {
                Value::Object(members) => self.members(name, members, pointer),
                other => other.clone(),
            },
        }
    }

    fn members(&mut self, name: &str, members: &Map<String, Value>, pointer: &str) -> Value {
        let Some(fields) = TYPES.get(name) else { return Value::Object(members.clone()) };
        for (key, value) in members {
            if !value.is_null() && !fields.iter().any(|field| field.name == key) {
                self.dropped.push(format!("{pointer}/{}", escaped(key)));
            }
        }
        let mut out = Map::new();
        for field in fields {
            let given = members.get(field.name).filter(|value| !value.is_null());
            let value = match given {
                Some(value) => {
                    let value = self.value(field.kind, value, &format!("{pointer}/{}", escaped(field.name)));
                    if !field.always && !field.zero && is_zero(field.kind, &value) {
                        continue;
                    }
                    value
                }
                None if field.always => empty(field.kind),
                None => continue,
            };
            out.insert(field.name.to_owned(), value);
        }
        Value::Object(out)
    }
}

/// Writes a key for a JSON pointer.
pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn is_zero(kind: &str, value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        // An empty part is something, an empty map is nothing.
        Value::Object(members) => kind.starts_with("{}") && members.is_empty(),
        Value::Null => true,
    }
}

/// Returns what is written for a field that was not given.
fn empty(kind: &str) -> Value {
    match kind {
        "s" => "".into(),
        "q" => "0".into(),
        "i" | "f" | "x" => 0.into(),
        "b" => false.into(),
        "j" | "LabelSelector" => Value::Null,
        _ if kind.starts_with(['[', '{']) => Value::Null,
        name => {
            let fields = TYPES.get(name).map(Vec::as_slice).unwrap_or_default();
            let written = fields.iter().filter(|field| field.always);
            Value::Object(written.map(|field| (field.name.to_owned(), empty(field.kind))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_a_type_does_not_know_vanish() {
        let given = json!({"name": "a", "oops": 1, "stdin": false, "securityContext": {"privileged": false},
            "resources": {"limits": {"cpu": 0.1, "memory": "1024Mi"}}, "env": [{"name": "x", "value": "", "y": {}}]});
        let mut dropped = Vec::new();
        let passed = through("Container", &given, "/c", &mut dropped);
        assert_eq!(
            passed,
            json!({"name": "a", "securityContext": {"privileged": false}, "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}}, "env": [{"name": "x"}]})
        );
        assert_eq!(dropped, ["/c/oops", "/c/env/0/y"]);
    }

    #[test]
    fn fields_that_are_always_written_appear() {
        let crd =
            through("CustomResourceDefinition", &json!({"kind": "CustomResourceDefinition"}), "", &mut Vec::new());
        assert_eq!(
            crd["status"],
            json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": null})
        );
        assert_eq!(through("DeploymentSpec", &json!({}), "", &mut Vec::new())["strategy"], json!({}));
    }
}
