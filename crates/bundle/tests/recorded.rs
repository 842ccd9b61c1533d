//! Comparison with the objects that operator-controller of OLM v1 created from published bundles.
//!
//! Objects of one kind are compared as a set, because their order comes from a hash.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bundle::rehearse::v1::{self, CertificateProvider, Profile, V1Install};
use bundle::rehearse::{RehearsalInput, display_name};
use fbc::Limits;
use serde_json::Value;
use testkit::published::{BUNDLES, RELEASES};

/// The minor version of the recorded operator-controller: it sets no annotation `olm.operatorNamespace` yet.
const MINOR: u32 = 10;

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Normalizes numbers: `1` and `1.0` are equal.
fn normalize(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e15) {
                *value = (float as i64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::Object(members) => members.values_mut().for_each(normalize),
        _ => {}
    }
}

/// Returns where two values first differ.
fn difference(path: &str, ours: &Value, theirs: &Value) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let mut keys: Vec<&String> = ours.keys().chain(theirs.keys()).collect();
            keys.sort();
            keys.dedup();
            keys.into_iter().find_map(|key| match (ours.get(key), theirs.get(key)) {
                (Some(ours), Some(theirs)) => difference(&format!("{path}/{key}"), ours, theirs),
                (Some(ours), None) => Some(format!("{path}/{key} is only ours: {ours}")),
                (None, Some(theirs)) => Some(format!("{path}/{key} is only theirs: {theirs}")),
                (None, None) => None,
            })
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let both = ours.iter().zip(theirs).enumerate();
            both.into_iter().find_map(|(at, (ours, theirs))| difference(&format!("{path}/{at}"), ours, theirs))
        }
        _ => (ours != theirs).then(|| format!("{path}: ours {ours}, theirs {theirs}")),
    }
}

/// Sorts the keys of all objects.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<&String, Value> = members.iter().map(|(key, value)| (key, sorted(value))).collect();
            members.into_iter().map(|(key, value)| (key.clone(), value)).collect::<serde_json::Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// Returns whether the cluster ran an unrecorded version, whose objects come from another bundle.
fn of_another_version(record: &Value) -> bool {
    text(record, "/progressing/message").starts_with("error upgrading from currently installed version")
}

/// Splits a list of messages, because the order of objects of one kind does not matter.
fn parts(message: &str) -> Vec<String> {
    let mut parts: Vec<String> = message
        .split("resource mapping not found")
        .map(|part| part.trim_matches(|c| "[], ".contains(c)).to_owned())
        .collect();
    parts.sort();
    parts
}

fn compare(record: &Value, bundles: &Path) -> Result<(), String> {
    let directory = bundles.join("operators").join(text(record, "/operator")).join(text(record, "/version"));
    let whole = bundle::read_whole(&directory, &Limits::default()).map_err(|error| error.to_string())?;
    let bundle = RehearsalInput::new(&whole);
    let extension: String = text(record, "/operator").chars().take(50).collect();
    let options = V1Install {
        profile: Profile::of(MINOR).unwrap(),
        namespace: text(record, "/namespace").into(),
        extension,
        certificates: CertificateProvider::CertManager,
        config: None,
    };
    let installed = v1::install(&bundle, &options);
    let message = text(record, "/progressing/message");
    let Some(manifest) = record.get("manifest").and_then(Value::as_str) else {
        if message.contains("already exists") {
            return Ok(());
        }
        let ours = installed.err().map(|refusal| refusal.message).unwrap_or_default();
        let equal = parts(&ours) == parts(message);
        return if equal { Ok(()) } else { Err(format!("ours: {ours}\ntheirs: {message}")) };
    };
    let installed = installed.map_err(|refusal| refusal.message)?;
    let mut theirs: Vec<Value> = manifest
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut ours = installed.objects;
    let kinds = |objects: &[Value]| objects.iter().map(|object| text(object, "/kind").to_owned()).collect::<Vec<_>>();
    if kinds(&ours) != kinds(&theirs) {
        return Err(format!("ours: {:?}\ntheirs: {:?}", kinds(&ours), kinds(&theirs)));
    }
    for object in &mut theirs {
        // The name contains the identity of an object on that cluster.
        object["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    }
    for objects in [&mut ours, &mut theirs] {
        objects.iter_mut().for_each(normalize);
        objects.sort_by_cached_key(|object| (display_name(object), sorted(object).to_string()));
    }
    for (ours, theirs) in ours.iter().zip(&theirs) {
        if let Some(difference) = difference("", ours, theirs) {
            return Err(format!("{}: {difference}", display_name(theirs)));
        }
    }
    // Objects that the cluster rejected on apply must be reported too.
    for line in message.lines().filter(|line| line.contains("is invalid")) {
        let line = line.trim().trim_start_matches("* ");
        if !installed.notes.iter().any(|note| note.refused && note.message == line) {
            return Err(format!("not reported: {line}"));
        }
    }
    Ok(())
}

#[test]
#[expect(clippy::print_stderr, reason = "the number of compared bundles is reported")]
fn objects_and_refusals_match_the_real_controller() {
    let (Some(bundles), Some(releases)) = (BUNDLES.unpack(), RELEASES.unpack()) else { return };
    let mut failures = BTreeMap::new();
    let (mut compared, mut rendered, mut other) = (0, 0, 0);
    for entry in fs::read_dir(releases.path()).unwrap() {
        let record: Value = serde_json::from_slice(&fs::read(entry.unwrap().path()).unwrap()).unwrap();
        if of_another_version(&record) {
            other += 1;
            continue;
        }
        compared += 1;
        rendered += usize::from(record.get("manifest").is_some_and(Value::is_string));
        if let Err(failure) = compare(&record, bundles.path()) {
            failures.insert(text(&record, "/operator").to_owned(), failure);
        }
    }
    eprintln!("{compared} recordings compared, {rendered} of them with objects; {other} are of versions not at hand");
    let shown: Vec<String> = failures.iter().map(|(operator, failure)| format!("{operator}: {failure}")).collect();
    assert!(failures.is_empty(), "{} of {compared} differ\n{}", failures.len(), shown.join("\n"));
    assert!(compared > 180 && rendered > 120);
}
