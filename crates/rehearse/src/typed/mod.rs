//! Objects as the types of Kubernetes see them.
//!
//! What passes through a type loses the fields that the type does not know, gains those that are always
//! written, and has its quantities written canonically.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::quantity;

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

/// The fields of a type.
struct Type {
    fields: Vec<Field>,
    /// The numbers of the fields, in the order of their names.
    by_name: Vec<usize>,
}

/// A field of a type.
struct Field {
    name: &'static str,
    /// Whether it is written even if it was not given.
    always: bool,
    /// Whether it is written even if it is zero.
    zero: bool,
    kind: Kind,
}

/// What a field holds.
enum Kind {
    Text,
    Number,
    Bool,
    Any,
    Quantity,
    List(Box<Kind>),
    Map(Box<Kind>),
    /// A type, by its number if it is known.
    Type(&'static str, Option<usize>),
}

fn type_of(fields: &'static str, numbers: &HashMap<&'static str, usize>) -> Type {
    let fields = fields.split(' ').filter_map(|word| {
        let (name, kind) = word.rsplit_once(':')?;
        let (always, kind) = kind.strip_prefix('!').map_or((false, kind), |kind| (true, kind));
        let (zero, kind) = kind.strip_prefix('?').map_or((false, kind), |kind| (true, kind));
        Some(Field { name, always, zero, kind: kind_of(kind, numbers) })
    });
    let fields: Vec<Field> = fields.collect();
    let mut by_name: Vec<usize> = (0..fields.len()).collect();
    by_name.sort_by_key(|at| fields[*at].name);
    Type { fields, by_name }
}

fn kind_of(kind: &'static str, numbers: &HashMap<&'static str, usize>) -> Kind {
    if let Some(item) = kind.strip_prefix("[]") {
        return Kind::List(Box::new(kind_of(item, numbers)));
    }
    if let Some(item) = kind.strip_prefix("{}") {
        return Kind::Map(Box::new(kind_of(item, numbers)));
    }
    match kind {
        "s" => Kind::Text,
        "i" | "f" | "x" => Kind::Number,
        "b" => Kind::Bool,
        "j" => Kind::Any,
        "q" => Kind::Quantity,
        name => Kind::Type(name, numbers.get(name).copied()),
    }
}

impl Type {
    /// Returns the number of a field.
    fn number(&self, name: &str) -> Option<usize> {
        let found = self.by_name.binary_search_by(|at| self.fields[*at].name.cmp(name)).ok()?;
        self.by_name.get(found).copied()
    }
}

/// A field that was given and that the type does not know, as a JSON pointer.
pub(crate) type Dropped = String;

/// Passes a value through the type `kind`.
///
/// `pointer` says where the value stands; what vanishes is added to `dropped`.
pub(crate) fn through(kind: &str, value: &Value, pointer: &str, dropped: &mut Vec<Dropped>) -> Value {
    let mut pass = Pass { dropped, base: pointer, steps: Vec::new() };
    match (TYPES.numbers.get(kind).and_then(|number| TYPES.all.get(*number)), value) {
        (Some(of), Value::Object(members)) => pass.members(of, members),
        _ => value.clone(),
    }
}

/// A step from a value to one in it.
enum Step<'v> {
    Key(&'v str),
    At(usize),
}

struct Pass<'a, 'v> {
    dropped: &'a mut Vec<Dropped>,
    base: &'a str,
    /// The way from there to the value; it is written down only where something vanishes.
    steps: Vec<Step<'v>>,
}

impl<'v> Pass<'_, 'v> {
    fn below(&mut self, step: Step<'v>, kind: &'static Kind, value: &'v Value) -> Value {
        self.steps.push(step);
        let value = self.value(kind, value);
        self.steps.pop();
        value
    }

    fn value(&mut self, kind: &'static Kind, value: &'v Value) -> Value {
        match (kind, value) {
            (Kind::List(item), Value::Array(items)) => self.items(item, items),
            (Kind::Map(item), Value::Object(members)) => {
                let members = members.iter();
                members.map(|(key, value)| (key.clone(), self.below(Step::Key(key), item, value))).collect()
            }
            (Kind::Quantity, Value::String(text)) => {
                quantity::canonical(text).map_or_else(|| value.clone(), Value::String)
            }
            (Kind::Quantity, Value::Number(number)) => {
                quantity::canonical(&number.to_string()).map_or_else(|| value.clone(), Value::String)
            }
            // A schema can be a boolean or a list of schemas, depending on where it stands.
            (Kind::Type("JSONSchemaProps", _), Value::Array(items)) => self.items(kind, items),
            (Kind::Type(_, Some(number)), Value::Object(members)) => self.members(&TYPES.all[*number], members),
            (_, other) => other.clone(),
        }
    }

    fn items(&mut self, item: &'static Kind, items: &'v [Value]) -> Value {
        items.iter().enumerate().map(|(index, value)| self.below(Step::At(index), item, value)).collect()
    }

    fn members(&mut self, of: &'static Type, members: &'v Map<String, Value>) -> Value {
        // Objects have a few fields, and types many.
        let mut given: Vec<(usize, &'v str, &'v Value)> = Vec::with_capacity(members.len());
        for (key, value) in members.iter().filter(|(_, value)| !value.is_null()) {
            match of.number(key) {
                Some(number) => given.push((number, key, value)),
                None => self.dropped.push(self.pointer(key)),
            }
        }
        given.sort_unstable_by_key(|(number, ..)| *number);
        let mut given = given.into_iter().peekable();
        let mut out = Map::new();
        for (number, field) in of.fields.iter().enumerate() {
            let value = match given.next_if(|(given, ..)| *given == number) {
                Some((_, key, value)) => {
                    let value = self.below(Step::Key(key), &field.kind, value);
                    if !field.always && !field.zero && is_zero(&field.kind, &value) {
                        continue;
                    }
                    value
                }
                None if field.always => empty(&field.kind),
                None => continue,
            };
            out.insert(field.name.to_owned(), value);
        }
        Value::Object(out)
    }

    /// Writes where a member of the value stands.
    fn pointer(&self, last: &str) -> String {
        let mut pointer = self.base.to_owned();
        for step in &self.steps {
            pointer.push('/');
            match step {
                Step::Key(key) => pointer.push_str(&escaped(key)),
                Step::At(index) => pointer.push_str(&index.to_string()),
            }
        }
        pointer.push('/');
        pointer + &escaped(last)
    }
}

/// Writes a key for a JSON pointer.
pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn is_zero(kind: &Kind, value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        // An empty part is something, an empty map is nothing.
        Value::Object(members) => matches!(kind, Kind::Map(_)) && members.is_empty(),
        Value::Null => true,
    }
}

/// Returns what is written for a field that was not given.
fn empty(kind: &Kind) -> Value {
    match kind {
        Kind::Text => "".into(),
        Kind::Quantity => "0".into(),
        Kind::Number => 0.into(),
        Kind::Bool => false.into(),
        Kind::Any | Kind::List(_) | Kind::Map(_) | Kind::Type("LabelSelector", _) => Value::Null,
        Kind::Type(_, number) => {
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
