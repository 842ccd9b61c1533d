//! The rules for comparing two schemas.

use std::collections::BTreeSet;

use crate::Severity;
use crate::pointer::{list, text, texts};
use serde_json::{Map, Value};

use super::node::SchemaChange;

/// Keywords that have their own rules or contain nested schemas.
const HANDLED: [&str; 17] = [
    "type",
    "required",
    "default",
    "enum",
    "maximum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minimum",
    "minItems",
    "minLength",
    "minProperties",
    "pattern",
    "nullable",
    "oneOf",
    "description",
    "properties",
];

const ERROR: Option<Severity> = Some(Severity::Error);
const WARNING: Option<Severity> = Some(Severity::Warning);

/// Compares two schemas, excluding nested schemas.
pub(super) fn check(old: &Value, new: &Value, path: &str, found: &mut Vec<SchemaChange>) {
    let mut report = |rule, words: String, meaning| {
        found.push(SchemaChange { path: path.to_owned(), rule, words, blocks: true, meaning });
    };
    let (was, is) = (text(old, "/type"), text(new, "/type"));
    if was != is {
        let wider = is.is_empty() && new.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
        report("type", format!("type changed : {was:?} -> {is:?}"), if wider { WARNING } else { ERROR });
    }
    let required: BTreeSet<&str> = texts(old, "/required").into_iter().collect();
    let added: Vec<&str> = texts(new, "/required").into_iter().filter(|name| !required.contains(name)).collect();
    if !added.is_empty() {
        let field = |name: &str| new.get("properties").and_then(|all| all.get(name)).unwrap_or(&Value::Null);
        let meaning = added.iter().filter_map(|name| requiring(field(name))).max();
        report("required", format!("new required fields: [{}]", added.join(" ")), meaning);
    }
    match (old.get("default"), new.get("default")) {
        (None, Some(now)) => {
            report("default", format!("default added when there was none previously : {:?}", now.to_string()), WARNING);
        }
        (Some(was), None) => report("default", format!("default value removed : {:?}", was.to_string()), WARNING),
        (Some(was), Some(now)) if !same(was, now) => {
            let words = format!("default value changed : {:?} -> {:?}", was.to_string(), now.to_string());
            report("default", words, WARNING);
        }
        _ => {}
    }
    let values = |schema| list(schema, "/enum").iter().map(Value::to_string).collect::<BTreeSet<_>>();
    let (was, now) = (values(old), values(new));
    let shown = |values: &mut dyn Iterator<Item = &String>| values.cloned().collect::<Vec<_>>().join(" ");
    if was.is_empty() && !now.is_empty() {
        let words = format!("enum constraint added when there was none previously: [{}]", shown(&mut now.iter()));
        report("enum", words, ERROR);
    } else if was.difference(&now).next().is_some() {
        // OLM v1 reports removed values even if all values are allowed afterwards.
        let meaning = if now.is_empty() { None } else { ERROR };
        report("enum", format!("allowed enum values removed : [{}]", shown(&mut was.difference(&now))), meaning);
    }
    bounds(old, new, &mut report);
    let (was, is) = (text(old, "/pattern"), text(new, "/pattern"));
    match (was, is) {
        _ if was == is => {}
        ("", _) => report("pattern", format!("pattern added : {was:?} -> {is:?}"), ERROR),
        (_, "") => report("pattern", format!("pattern removed : {was:?} -> {is:?}"), None),
        _ => report("pattern", format!("pattern changed : {was:?} -> {is:?}"), ERROR),
    }
    let nullable = |schema: &Value| schema.get("nullable") == Some(&Value::Bool(true));
    match (nullable(old), nullable(new)) {
        (false, true) => report("nullable", "nullable added : false -> true".into(), None),
        (true, false) => report("nullable", "nullable removed : true -> false".into(), ERROR),
        _ => {}
    }
    one_of(old, new, &mut report);
    unhandled(old, new, &mut report);
}

/// Returns the severity of requiring a field that was optional or unknown.
pub(super) fn requiring(field: &Value) -> Option<Severity> {
    if field.get("default").is_some() { WARNING } else { ERROR }
}

/// Returns whether two values are equal, regardless of number formatting.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

fn bounds(old: &Value, new: &Value, report: &mut impl FnMut(&'static str, String, Option<Severity>)) {
    let number = |schema: &Value, field: &str| schema.get(field).and_then(Value::as_f64);
    for field in ["maximum", "maxItems", "maxLength", "maxProperties"] {
        match (number(old, field), number(new, field)) {
            (None, Some(now)) => {
                report(field, format!("maximum constraint added when there was none previously : {now}"), ERROR);
            }
            (Some(was), Some(now)) if now < was => report(field, format!("maximum decreased : {was} -> {now}"), ERROR),
            _ => {}
        }
    }
    for field in ["minimum", "minItems", "minLength", "minProperties"] {
        match (number(old, field), number(new, field)) {
            (None, Some(now)) => {
                // A minimum length of zero excludes nothing.
                let meaning = if now <= 0.0 && field != "minimum" { None } else { ERROR };
                report(field, format!("minimum constraint added when there was none previously : {now}"), meaning);
            }
            (Some(was), Some(now)) if now > was => report(field, format!("minimum increased : {was} -> {now}"), ERROR),
            _ => {}
        }
    }
}

fn one_of(old: &Value, new: &Value, report: &mut impl FnMut(&'static str, String, Option<Severity>)) {
    let alternatives = |schema| -> BTreeSet<String> {
        list(schema, "/oneOf").iter().map(|alternative| without_docs(alternative).to_string()).collect()
    };
    let (was, now) = (alternatives(old), alternatives(new));
    let removed: Vec<&String> = was.difference(&now).collect();
    let added: Vec<&String> = now.difference(&was).collect();
    let shown = |all: &[&String]| all.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(" ");
    if was.is_empty() && !now.is_empty() {
        report("oneOf", "oneOf constraint added when there was none previously".into(), ERROR);
    } else if !added.is_empty() {
        report("oneOf", format!("allowed oneOf schemas added: [{}]", shown(&added)), WARNING);
    }
    if !removed.is_empty() {
        let meaning = if now.is_empty() { None } else { ERROR };
        report("oneOf", format!("allowed oneOf schemas removed: [{}]", shown(&removed)), meaning);
    }
}

/// Returns a schema without documentation, with sorted keys.
fn without_docs(schema: &Value) -> Value {
    match normalized(schema) {
        Value::Object(mut fields) => {
            fields.remove("description");
            fields.remove("example");
            let mut sorted: Vec<(String, Value)> = fields.into_iter().collect();
            sorted.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(sorted.into_iter().collect())
        }
        other => other,
    }
}

/// Returns a value without absent, empty and false members, which are equivalent.
fn normalized(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().map(|(key, value)| (key.clone(), normalized(value)));
            Value::Object(
                kept.filter(|(key, value)| key == "properties" || !is_empty_value(value)).collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => items.iter().map(normalized).collect(),
        other => other.clone(),
    }
}

fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Reports other differences: OLM v1 rejects all of them, opm only some.
fn unhandled(old: &Value, new: &Value, report: &mut impl FnMut(&'static str, String, Option<Severity>)) {
    let empty = Map::new();
    let fields = |schema: &Value| -> Map<String, Value> {
        let all = schema.as_object().unwrap_or(&empty).iter();
        let rest = all.filter(|(key, _)| !HANDLED.contains(&&***key) && *key != "items");
        rest.map(|(key, value)| (key.clone(), normalized(value))).filter(|(_, value)| !is_empty_value(value)).collect()
    };
    let (was, now) = (fields(old), fields(new));
    let mut differing: Vec<&String> =
        was.keys().chain(now.keys()).filter(|key| was.get(*key) != now.get(*key)).collect();
    differing.sort();
    differing.dedup();
    if differing.is_empty() {
        return;
    }
    let meaning = differing.iter().filter_map(|key| part_meaning(key, was.get(*key), now.get(*key))).max();
    let names = differing.iter().map(|key| key.as_str()).collect::<Vec<_>>().join(", ");
    report("unhandled", format!("unhandled changes found ({names})"), meaning);
}

/// Returns the severity of a change for which OLM v1 has no rule.
fn part_meaning(key: &str, was: Option<&Value>, now: Option<&Value>) -> Option<Severity> {
    match key {
        "title" | "example" | "externalDocs" => None,
        "format" => now.and(ERROR),
        "x-kubernetes-validations" => {
            let rules = |value: Option<&Value>| -> BTreeSet<String> {
                let all = value.and_then(Value::as_array).into_iter().flatten();
                all.map(|rule| text(rule, "/rule").to_owned()).collect()
            };
            let (was, now) = (rules(was), rules(now));
            now.difference(&was).next().and(ERROR)
        }
        "x-kubernetes-preserve-unknown-fields" => {
            if now.is_none() {
                ERROR
            } else {
                None
            }
        }
        "x-kubernetes-list-type" | "x-kubernetes-map-type" | "x-kubernetes-list-map-keys" => ERROR,
        "x-kubernetes-int-or-string" => {
            if now.is_none() {
                ERROR
            } else {
                None
            }
        }
        // Nested differences are reported separately.
        "additionalProperties" | "not" if was.is_some_and(Value::is_object) && now.is_some_and(Value::is_object) => {
            None
        }
        "anyOf" | "allOf" if was.map(count) == now.map(count) => None,
        "anyOf" | "allOf" | "not" => now.and(ERROR),
        "additionalProperties" => match now {
            None | Some(Value::Bool(true)) => None,
            Some(_) => ERROR,
        },
        _ => WARNING,
    }
}

fn count(value: &Value) -> usize {
    value.as_array().map_or(0, Vec::len)
}
