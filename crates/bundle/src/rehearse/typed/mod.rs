//! Converts objects to Kubernetes types.
//!
//! A conversion drops fields that the type does not know, adds fields that are always serialized, and formats
//! quantities canonically.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::rehearse::quantity;

static TYPES: LazyLock<Types> = LazyLock::new(|| {
    let tables = [include_str!("kubernetes.txt"), include_str!("olm.txt")];
    let lines = tables.iter().flat_map(|table| table.lines()).filter(|line| !line.starts_with('#'));
    let lines: Vec<(&'static str, &'static str)> =
        lines.map(|line| line.split_once(' ').unwrap_or((line, ""))).collect();
    let numbers: HashMap<&'static str, usize> = lines.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
    let all = lines.iter().map(|(_, fields)| type_of(fields, &numbers)).collect();
    Types { numbers, all }
});

/// All types.
struct Types {
    numbers: HashMap<&'static str, usize>,
    all: Vec<Type>,
}

/// A type.
struct Type {
    /// The fields, sorted by name.
    fields: Vec<TypedField>,
}

/// A field of a type.
struct TypedField {
    name: &'static str,
    /// Whether it is serialized even if it is absent.
    always: bool,
    /// Whether it is serialized even if it is zero.
    zero: bool,
    kind: FieldType,
}

/// The type of a field.
enum FieldType {
    Text,
    Number,
    Bool,
    Any,
    Quantity,
    List(Box<FieldType>),
    Map(Box<FieldType>),
    /// A named type, with its index if it is known.
    Type(&'static str, Option<usize>),
}

fn type_of(fields: &'static str, numbers: &HashMap<&'static str, usize>) -> Type {
    let fields = fields.split(' ').filter_map(|word| {
        let (name, kind) = word.rsplit_once(':')?;
        let (always, kind) = kind.strip_prefix('!').map_or((false, kind), |kind| (true, kind));
        let (zero, kind) = kind.strip_prefix('?').map_or((false, kind), |kind| (true, kind));
        Some(TypedField { name, always, zero, kind: kind_of(kind, numbers) })
    });
    let mut fields: Vec<TypedField> = fields.collect();
    fields.sort_by_key(|field| field.name);
    Type { fields }
}

fn kind_of(kind: &'static str, numbers: &HashMap<&'static str, usize>) -> FieldType {
    if let Some(item) = kind.strip_prefix("[]") {
        return FieldType::List(Box::new(kind_of(item, numbers)));
    }
    if let Some(item) = kind.strip_prefix("{}") {
        return FieldType::Map(Box::new(kind_of(item, numbers)));
    }
    match kind {
        "s" => FieldType::Text,
        "i" | "f" | "x" => FieldType::Number,
        "b" => FieldType::Bool,
        "j" => FieldType::Any,
        "q" => FieldType::Quantity,
        name => FieldType::Type(name, numbers.get(name).copied()),
    }
}

impl Type {
    fn field(&self, name: &str) -> Option<&TypedField> {
        let found = self.fields.binary_search_by(|field| field.name.cmp(name)).ok()?;
        self.fields.get(found)
    }
}

/// A field that the type does not know, as a JSON pointer.
pub(crate) type Dropped = String;

/// Converts a value to the type `kind`.
///
/// `pointer` is the location of the value; dropped fields are added to `dropped`. The value is changed in place, since
/// nearly all of a schema stays unchanged and schemas are most of a bundle.
pub(crate) fn convert(kind: &str, mut value: Value, pointer: &str, dropped: &mut Vec<Dropped>) -> Value {
    let of = TYPES.numbers.get(kind).and_then(|number| TYPES.all.get(*number));
    if let (Some(of), Value::Object(members)) = (of, &mut value) {
        Pass { dropped, base: pointer }.members(of, members, None);
    }
    value
}

/// A step from a value to a nested one.
enum Descent<'w> {
    Key(&'w str),
    At(usize),
}

/// The path from the outermost value; formatted only for dropped fields.
struct PathTo<'w> {
    before: Option<&'w PathTo<'w>>,
    step: Descent<'w>,
}

struct Pass<'a> {
    dropped: &'a mut Vec<Dropped>,
    base: &'a str,
}

impl Pass<'_> {
    fn value(&mut self, kind: &'static FieldType, value: &mut Value, path: &PathTo<'_>) {
        let below = |step| PathTo { before: Some(path), step };
        match (value, kind) {
            (Value::Array(items), FieldType::List(item)) => {
                for (index, value) in items.iter_mut().enumerate() {
                    self.value(item, value, &below(Descent::At(index)));
                }
            }
            (Value::Object(members), FieldType::Map(item)) => {
                for (key, value) in members {
                    self.value(item, value, &below(Descent::Key(key)));
                }
            }
            (Value::Object(members), FieldType::Type(_, Some(number))) => {
                self.members(&TYPES.all[*number], members, Some(path));
            }
            // A schema may be a boolean or a list of schemas, depending on its position.
            (Value::Array(items), FieldType::Type("JSONSchemaProps", _)) => {
                for (index, value) in items.iter_mut().enumerate() {
                    self.value(kind, value, &below(Descent::At(index)));
                }
            }
            (Value::String(text), FieldType::Quantity) => {
                if let Some(canonical) = quantity::canonical(text) {
                    *text = canonical;
                }
            }
            (value, FieldType::Quantity) => {
                let number = value.as_number().map(ToString::to_string);
                if let Some(canonical) = number.and_then(|number| quantity::canonical(&number)) {
                    *value = Value::String(canonical);
                }
            }
            _ => {}
        }
    }

    fn members(&mut self, of: &'static Type, members: &mut Map<String, Value>, path: Option<&PathTo<'_>>) {
        let mut vanishing = false;
        for (key, value) in members.iter_mut() {
            if !value.is_null() {
                let path = PathTo { before: path, step: Descent::Key(key) };
                match of.field(key) {
                    Some(field) => {
                        self.value(&field.kind, value, &path);
                        if field.always || field.zero || !is_zero(&field.kind, value) {
                            continue;
                        }
                    }
                    None => self.dropped.push(self.pointer(&path)),
                }
            }
            *value = Value::Null;
            vanishing = true;
        }
        if vanishing {
            members.retain(|_, value| !value.is_null());
        }
        let known = members.len();
        for field in of.fields.iter().filter(|field| field.always) {
            if !members.contains_key(field.name) {
                members.insert(field.name.to_owned(), empty(&field.kind));
            }
        }
        if members.len() > known {
            members.sort_keys();
        }
    }

    /// Formats the JSON pointer of a value.
    fn pointer(&self, path: &PathTo<'_>) -> String {
        let mut steps = Vec::new();
        let mut next = Some(path);
        while let Some(path) = next {
            steps.push(&path.step);
            next = path.before;
        }
        let mut pointer = self.base.to_owned();
        for step in steps.into_iter().rev() {
            pointer.push('/');
            match step {
                Descent::Key(key) => pointer.push_str(&escaped(key)),
                Descent::At(index) => pointer.push_str(&index.to_string()),
            }
        }
        pointer
    }
}

/// Escapes a key for a JSON pointer.
pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn is_zero(kind: &FieldType, value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        // An empty struct is serialized, an empty map is not.
        Value::Object(members) => matches!(kind, FieldType::Map(_)) && members.is_empty(),
        Value::Null => true,
    }
}

/// Returns the serialized value of an absent field.
fn empty(kind: &FieldType) -> Value {
    match kind {
        FieldType::Text => "".into(),
        FieldType::Quantity => "0".into(),
        FieldType::Number => 0.into(),
        FieldType::Bool => false.into(),
        FieldType::Any | FieldType::List(_) | FieldType::Map(_) | FieldType::Type("LabelSelector", _) => Value::Null,
        FieldType::Type(_, number) => {
            let fields = number.and_then(|number| TYPES.all.get(number)).map(|of| of.fields.as_slice());
            let written = fields.unwrap_or_default().iter().filter(|field| field.always);
            Value::Object(written.map(|field| (field.name.to_owned(), empty(&field.kind))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_of_a_type_are_dropped() {
        let given = json!({"name": "a", "oops": 1, "stdin": false, "securityContext": {"privileged": false},
            "resources": {"limits": {"cpu": 0.1, "memory": "1024Mi"}}, "env": [{"name": "x", "value": "", "y": {}}]});
        let mut dropped = Vec::new();
        let passed = convert("Container", given, "/c", &mut dropped);
        assert_eq!(
            passed,
            json!({"name": "a", "securityContext": {"privileged": false}, "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}}, "env": [{"name": "x"}]})
        );
        assert_eq!(dropped, ["/c/oops", "/c/env/0/y"]);
    }

    #[test]
    fn fields_that_are_always_serialized_are_added() {
        let crd = convert("CustomResourceDefinition", json!({"kind": "CustomResourceDefinition"}), "", &mut Vec::new());
        assert_eq!(
            crd["status"],
            json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": null})
        );
        assert_eq!(convert("DeploymentSpec", json!({}), "", &mut Vec::new())["strategy"], json!({}));
    }
}
