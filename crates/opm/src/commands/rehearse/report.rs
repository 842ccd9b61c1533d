//! Formats a rehearsal as text and JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use bundle::rehearse::{Change, Effect, FIELDS, display_name, v1};
use bundle::{Finding, Severity};
use serde_json::{Map, Value, json};
use source::LoadedBundle;

use super::Rehearsal;
use crate::{findings, table};

fn field<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the notes about objects, by object.
fn notes(rehearsal: &Rehearsal) -> BTreeMap<&str, Vec<&'static str>> {
    let mut notes: BTreeMap<&str, Vec<&'static str>> = BTreeMap::new();
    rehearsal.notes.iter().for_each(|note| notes.entry(&note.object).or_default().push(note.id));
    notes
}

pub(super) fn text(
    read: &LoadedBundle,
    rehearsal: &Rehearsal,
    other: &Rehearsal,
    found: &[Finding],
    upgrade: Option<&[Change]>,
) -> String {
    let mut out = String::new();
    let name = read.whole.csv().map(|csv| csv.name().to_owned()).unwrap_or_default();
    match &rehearsal.refusal {
        Some(_) => {
            let _ = writeln!(out, "{} refuses {name}", rehearsal.title);
        }
        None => {
            let watched = match &*rehearsal.targets {
                [only] if only.is_empty() => "all namespaces".to_owned(),
                targets => targets.join(", "),
            };
            let (title, namespace) = (&rehearsal.title, &rehearsal.namespace);
            let _ = writeln!(out, "{title} installs {name} in namespace {namespace}, watching {watched}");
            let notes = notes(rehearsal);
            let rows = rehearsal.objects.iter().enumerate().map(|(at, object)| {
                let kind = field(object, "/kind");
                let order = if rehearsal.phases { v1::phase(kind).to_owned() } else { (at + 1).to_string() };
                let shown = display_name(object);
                let noted = notes.get(&*shown).map(|ids| ids.join(", ")).unwrap_or_default();
                let name = shown.strip_prefix(kind).unwrap_or(&shown).trim().to_owned();
                vec![order, kind.to_owned(), name, object.to_string().len().to_string(), noted]
            });
            let order = if rehearsal.phases { "PHASE" } else { "#" };
            out.push('\n');
            let table = table::text(&[order, "KIND", "NAME", "BYTES", "NOTE"], rows.collect());
            table.lines().for_each(|line| {
                out.push_str(line.trim_end());
                out.push('\n');
            });
        }
    }
    for finding in found {
        let object = if finding.object.is_empty() { String::new() } else { format!("{}: ", finding.object) };
        let place = match (&*finding.file, finding.position) {
            ("", _) => String::new(),
            (file, Some(at)) => format!(" ({file}:{})", at.line),
            (file, None) => format!(" ({file})"),
        };
        let _ = write!(out, "\n{}: {object}{}{place} [{}]", finding.severity, finding.message, finding.id);
    }
    if !found.is_empty() {
        out.push('\n');
    }
    if let Some(changes) = upgrade {
        out.push_str("\nThe upgrade:\n");
        changes.iter().for_each(|change| out.push_str(&change_line(change)));
        if changes.is_empty() {
            out.push_str("  changes nothing\n");
        }
    }
    let differences = differences(rehearsal, other);
    if !differences.is_empty() {
        let _ = writeln!(out, "\n{} differs:", other.title);
        differences.iter().for_each(|difference| {
            let _ = writeln!(out, "  {difference}");
        });
    }
    out
}

fn change_line(change: &Change) -> String {
    let verb = verb(change.effect);
    let mut line = format!("  {verb} {}", change.object);
    if !change.fields.is_empty() {
        let _ = write!(line, ": {}", change.fields.join(", "));
        if change.fields.len() == FIELDS {
            line.push_str(", ...");
        }
    }
    line.push('\n');
    line
}

fn verb(effect: Effect) -> &'static str {
    match effect {
        Effect::Deleted => "deletes",
        Effect::Restarted => "restarts",
        Effect::Changed => "changes",
        Effect::Created => "creates",
    }
}

/// Lists the differences between the two generations of OLM.
fn differences(this: &Rehearsal, other: &Rehearsal) -> Vec<String> {
    if let Some(refusal) = &other.refusal {
        return vec![format!("refuses: {}", refusal.message)];
    }
    if this.refusal.is_some() {
        return vec!["installs the bundle".into()];
    }
    // Role names contain a hash that each generation computes differently.
    let names = |objects: &[Value]| -> BTreeSet<String> {
        let generated = |name: &str| name.rsplit_once('-').is_some_and(|(_, end)| end.len() > 30);
        let named = objects.iter().filter(|object| !generated(field(object, "/metadata/name")));
        named.filter(|object| !field(object, "/metadata/name").is_empty()).map(display_name).collect()
    };
    let (ours, theirs) = (names(&this.objects), names(&other.objects));
    let mut lines = Vec::new();
    let list = |names: Vec<&String>| names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    let more: Vec<&String> = theirs.difference(&ours).collect();
    if !more.is_empty() {
        lines.push(format!("also makes: {}", list(more)));
    }
    let less: Vec<&String> = ours.difference(&theirs).collect();
    if !less.is_empty() {
        lines.push(format!("does not make: {}", list(less)));
    }
    let (our_pods, their_pods) = (pod_annotations(&this.objects), pod_annotations(&other.objects));
    for (name, ours) in our_pods {
        let Some(theirs) = their_pods.get(&name) else { continue };
        let differing: Vec<&str> = ours
            .iter()
            .filter(|(key, value)| theirs.get(*key).is_some_and(|it| it != *value))
            .map(|(key, _)| &**key)
            .collect();
        if !differing.is_empty() {
            lines.push(format!("annotates pods of {name} differently: {}", differing.join(", ")));
        }
    }
    lines
}

/// Returns the annotations of the pods of deployments, by the name of the deployment.
fn pod_annotations(objects: &[Value]) -> BTreeMap<String, &Map<String, Value>> {
    let deployments = objects.iter().filter(|object| field(object, "/kind") == "Deployment");
    let mut found = BTreeMap::new();
    for object in deployments {
        if let Some(annotations) = object.pointer("/spec/template/metadata/annotations").and_then(Value::as_object) {
            found.entry(display_name(object)).or_insert(annotations);
        }
    }
    found
}

pub(super) fn json(
    read: &LoadedBundle,
    rehearsal: &Rehearsal,
    other: &Rehearsal,
    found: &[Finding],
    upgrade: Option<&[Change]>,
    installable: bool,
) -> Value {
    let objects: Vec<Value> = rehearsal
        .objects
        .iter()
        .map(|object| {
            json!({
                "phase": rehearsal.phases.then(|| v1::phase(field(object, "/kind"))),
                "bytes": object.to_string().len(),
                "object": object,
            })
        })
        .collect();
    let changes = upgrade.map(|changes| {
        let change =
            |change: &Change| json!({"effect": verb(change.effect), "object": change.object, "fields": change.fields});
        changes.iter().map(change).collect::<Vec<_>>()
    });
    let mut out = json!({
        "olm": rehearsal.title,
        "bundle": read.whole.csv().map(bundle::Object::name),
        "package": read.whole.package,
        "namespace": rehearsal.namespace,
        "targets": rehearsal.targets,
        "installable": installable,
        "refusal": rehearsal.refusal.as_ref().map(|it| json!({"id": it.id, "message": it.message})),
        "objects": objects,
        "upgrade": changes,
        "other": {"olm": other.title, "differences": differences(rehearsal, other)},
    });
    let passed = !found.iter().any(|finding| finding.severity >= Severity::Error);
    let findings = findings::json(found, passed);
    out["findings"] = findings["findings"].clone();
    out["counts"] = findings["counts"].clone();
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::rehearse::flags::Generation;

    fn rehearsal(generation: Generation, deployments: usize) -> Rehearsal {
        let object = |at: usize| {
            let annotations = json!({"by": format!("{generation:?}")});
            json!({
                "kind": "Deployment", "metadata": {"name": format!("d{at}")},
                "spec": {"template": {"metadata": {"annotations": annotations}}},
            })
        };
        Rehearsal {
            generation,
            title: String::new(),
            namespace: String::new(),
            targets: Vec::new(),
            refusal: None,
            objects: (0..deployments).map(object).collect(),
            notes: Vec::new(),
            limits: Vec::new(),
            phases: false,
        }
    }

    #[test]
    fn deployments_of_both_generations_are_matched_by_name() {
        let steps = |deployments: usize| {
            let [v0, v1] = [Generation::V0, Generation::V1].map(|generation| rehearsal(generation, deployments));
            let before = fbc::work::count();
            let lines = differences(&v1, &v0);
            assert_eq!(lines.len(), deployments);
            assert_eq!(lines[0], "annotates pods of Deployment d0 differently: by");
            fbc::work::count() - before
        };
        let (once, twice) = (steps(200), steps(400));
        assert!(once >= 200 && twice * 2 <= once * 5, "{once}, {twice} steps");
    }
}
