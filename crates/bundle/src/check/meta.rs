//! Checks the names and metadata of objects as Kubernetes does.

use serde_json::Value;

use super::Collector;
use crate::pointer::{list, text};

/// Returns why a name is not a DNS subdomain, if it is not.
pub(super) fn subdomain(name: &str) -> Option<String> {
    if name.len() > 253 {
        return Some("must be no more than 253 characters".into());
    }
    let good = name.split('.').all(|part| is_label(part, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
    (!good).then(|| {
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
         and must start and end with an alphanumeric character"
            .into()
    })
}

/// Returns why a string is not a DNS label that starts with a letter, if it is not.
pub(super) fn label_1035(name: &str) -> Option<String> {
    let good = name.len() <= 63
        && name.starts_with(|letter: char| letter.is_ascii_lowercase())
        && is_label(name, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    (!good).then(|| {
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
         character, end with an alphanumeric character, and have at most 63 characters"
            .into()
    })
}

/// Returns why a string is not a label value, if it is not.
pub(super) fn label_value(value: &str) -> Option<String> {
    if value.len() > 63 {
        return Some("must be no more than 63 characters".into());
    }
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let ends = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = value.as_bytes();
    let good = bytes.iter().all(|byte| inner(*byte)) && ends(bytes.first()) && ends(bytes.last());
    (!good).then(|| {
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
         and must start and end with an alphanumeric character"
            .into()
    })
}

/// Returns why a string is not the key of a label or annotation, if it is not.
fn qualified(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if name.is_empty() {
        return Some("name part must be non-empty".into());
    }
    prefix.and_then(subdomain).or_else(|| label_value(name))
}

fn is_label(part: &str, alphanumeric: impl Fn(u8) -> bool) -> bool {
    let bytes = part.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_some_and(|byte| alphanumeric(*byte));
    ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(|byte| alphanumeric(*byte) || *byte == b'-')
}

/// Checks the metadata of an object without a namespace.
pub(super) fn check(object: &Value, findings: &mut Collector) {
    let kind = text(object, "/kind");
    let name = text(object, "/metadata/name");
    for problem in problems(object) {
        let text = format!("error validating object metadata: {kind} \"{name}\": {problem}");
        findings.error("object-metadata", "/metadata", text);
    }
    if text(object, "/apiVersion").is_empty() {
        findings.error("object-metadata", "", format!("{kind} \"{name}\": 'apiVersion' is missing"));
    }
}

/// Returns the problems in the metadata of an object.
pub(super) fn problems(object: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let (name, generated) = (text(object, "/metadata/name"), text(object, "/metadata/generateName"));
    match (name, generated) {
        ("", "") => problems.push("metadata.name: Required value: name or generateName is required".into()),
        ("", _) => {}
        // Names of roles and bindings only have to be valid path segments.
        (name, _) if text(object, "/apiVersion").starts_with("rbac.authorization.k8s.io/") => {
            if matches!(name, "." | "..") || name.contains(['/', '%']) {
                problems.push(format!("metadata.name: Invalid value: {name:?}: may not contain '/' or '%'"));
            }
        }
        (name, _) => {
            problems.extend(subdomain(name).map(|why| format!("metadata.name: Invalid value: {name:?}: {why}")))
        }
    }
    let namespace = text(object, "/metadata/namespace");
    if !namespace.is_empty() {
        problems.push("metadata.namespace: Forbidden: not allowed on this type".into());
    }
    for (field, values) in [("labels", true), ("annotations", false)] {
        let Some(map) = object.pointer(&format!("/metadata/{field}")).and_then(Value::as_object) else { continue };
        for (key, value) in map {
            // Annotation keys may be upper case.
            let lowered = if values { key.clone() } else { key.to_lowercase() };
            problems.extend(qualified(&lowered).map(|why| format!("metadata.{field}: Invalid value: {key:?}: {why}")));
            match value.as_str() {
                None => problems.push(format!("metadata.{field}: Invalid value: {key:?}: the value must be a string")),
                Some(value) if values => problems
                    .extend(label_value(value).map(|why| format!("metadata.{field}: Invalid value: {value:?}: {why}"))),
                Some(_) => {}
            }
        }
    }
    for finalizer in list(object, "/metadata/finalizers") {
        let finalizer = finalizer.as_str().unwrap_or_default();
        let wrong = qualified(finalizer);
        problems.extend(wrong.map(|why| format!("metadata.finalizers: Invalid value: {finalizer:?}: {why}")));
    }
    for (index, owner) in list(object, "/metadata/ownerReferences").iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, &format!("/{field}")).is_empty() {
                problems.push(format!("metadata.ownerReferences[{index}].{field}: Required value"));
            }
        }
    }
    problems
}
