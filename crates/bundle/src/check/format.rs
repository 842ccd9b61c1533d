//! Checks the layout and annotations of a bundle.

use std::path::Path;

use fbc::Limits;
use fbc::range::VersionRange;
use serde_json::Value;

use super::media_type::{has_broken_manifest, media_type_of};
use super::{Collector, MANIFESTS, MEDIA_TYPE, METADATA, MediaType, read};
use crate::error::Error;
use crate::file;
use crate::metadata::{CHANNELS, DEFAULT_CHANNEL, PACKAGE};
use crate::pointer::text;
use crate::whole::ParsedBundle;

/// Checks the directories of a bundle, its annotations and its dependencies; does not read a manifest of `known` again.
pub(super) fn check_format(dir: &Path, known: Option<&ParsedBundle>, limits: &Limits) -> Collector {
    let mut findings = Collector::default();
    let mut errors = Vec::new();
    findings.has_broken_rule = check(dir, known, limits, &mut errors);
    errors.into_iter().for_each(|text| findings.error("bundle-format", "", text));
    findings
}

/// Returns whether a rule of a dependency is missing or malformed.
fn check(dir: &Path, known: Option<&ParsedBundle>, limits: &Limits, errors: &mut Vec<String>) -> bool {
    let missing: Vec<String> = ["manifests", "metadata"]
        .iter()
        .filter(|name| !crate::file::is_directory(&dir.join(name)))
        .map(|name| format!("Unable to locate {name} directory"))
        .collect();
    if !missing.is_empty() {
        errors.extend(missing);
        return false;
    }
    let metadata = dir.join("metadata");
    let names = match file::names(&metadata, limits) {
        Ok(names) => names,
        Err(error) => {
            errors.push(error.to_string());
            return false;
        }
    };
    let documents: Vec<Value> = names.iter().filter_map(|name| read(&metadata.join(name), limits).ok()).collect();
    match documents.iter().find_map(|document| document.get("annotations").filter(|found| found.is_object())) {
        None => errors.push("Could not find annotations file".into()),
        Some(annotations) => {
            let manifests = dir.join("manifests");
            let kind = match media_type_of(&manifests, known, limits) {
                Ok(MediaType::Plain) if has_broken_manifest(&manifests, known, limits) => Ok(None),
                kind => kind.map(Some),
            };
            check_annotations(annotations, kind, errors);
        }
    }
    let dependencies =
        documents.iter().map(|document| crate::pointer::list(document, "/dependencies")).find(|list| !list.is_empty());
    let mut has_broken_rule = false;
    for dependency in dependencies.unwrap_or_default() {
        has_broken_rule |= check_dependency(dependency, errors);
    }
    has_broken_rule
}

fn check_annotations(annotations: &Value, kind: Result<Option<MediaType>, Error>, errors: &mut Vec<String>) {
    // Numbers and booleans are accepted as strings.
    let value = |key: &str| match annotations.get(key) {
        None => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Null) => Some(String::new()),
        Some(other) => Some(other.to_string()),
    };
    let missing = |key: &str| format!("Missing annotation \"{key}\"");
    let empty = |key: &str| format!("Expecting annotation \"{key}\" to have non-empty value");
    match (value(MEDIA_TYPE), kind) {
        (None, _) => errors.push(missing(MEDIA_TYPE)),
        (_, Err(error)) => errors.push(error.to_string()),
        (Some(have), Ok(Some(want))) if have != want.to_string() => {
            errors.push(format!("Expecting annotation \"{MEDIA_TYPE}\" to have value \"{want}\" instead of \"{have}\""))
        }
        _ => {}
    }
    errors.extend([MANIFESTS, METADATA, PACKAGE].iter().filter(|key| value(key).is_none()).map(|key| missing(key)));
    match value(CHANNELS) {
        None => errors.push(missing(CHANNELS)),
        Some(channels) if channels.is_empty() => errors.push(empty(CHANNELS)),
        Some(_) => {}
    }
    if value(DEFAULT_CHANNEL).is_some_and(|channel| channel.is_empty()) {
        errors.push(empty(DEFAULT_CHANNEL));
    }
}

/// Returns whether the rule of the dependency is missing or malformed.
fn check_dependency(dependency: &Value, errors: &mut Vec<String>) -> bool {
    let kind = text(dependency, "/type");
    let Some(value) = dependency.get("value").filter(|value| value.is_object()) else {
        errors.push(format!("couldn't parse dependency of type {kind}"));
        return false;
    };
    let mut need = |pointer: &str, message: &str| {
        let present = !text(value, pointer).is_empty();
        if !present {
            errors.push(message.into());
        }
        present
    };
    match kind {
        "olm.gvk" => {
            need("/group", "API Group is empty");
            need("/version", "API Version is empty");
            need("/kind", "API Kind is empty");
        }
        "olm.package" => {
            need("/packageName", "Package name is empty");
            if need("/version", "Package version is empty") && VersionRange::parse(text(value, "/version")).is_err() {
                errors.push("Invalid semver format version".into());
            }
        }
        "olm.label" => {
            need("/label", "Label information is missing");
        }
        "olm.constraint" => {
            let error = match value.get("cel").filter(|cel| cel.is_object()) {
                None => Some("The CEL field is missing".to_owned()),
                Some(cel) => match text(cel, "/rule").trim() {
                    "" => Some("The CEL expression is missing".to_owned()),
                    rule => syntax_error(rule).map(|why| format!("Invalid CEL expression: {why}")),
                },
            };
            let is_broken = error.is_some();
            errors.extend(error);
            return is_broken;
        }
        _ => errors.push(format!("couldn't parse dependency of type {kind}")),
    }
    false
}

/// Reports syntax errors that make any expression invalid: unterminated strings and unbalanced brackets.
fn syntax_error(rule: &str) -> Option<&'static str> {
    let mut open = Vec::new();
    let mut letters = rule.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' | '\'' => loop {
                match letters.next() {
                    None => return Some("a text has no end"),
                    Some('\\') => drop(letters.next()),
                    Some(other) if other == letter => break,
                    Some(_) => {}
                }
            },
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.pop() != Some(letter) => return Some("a bracket is closed that is not open"),
            _ => {}
        }
    }
    (!open.is_empty()).then_some("a bracket is not closed")
}
