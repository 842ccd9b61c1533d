//! Formats rehearsals as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use bundle::rehearse::{FIELDS, InstallDecision, ObjectChange, Prediction, Rehearsal, display_name, v1};
use serde_json::Value;
use source::catalog_bundles::RehearsedBundle;

use crate::{findings, table};

fn field<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the notes about objects, by object.
fn notes(prediction: &Prediction) -> BTreeMap<&str, Vec<&'static str>> {
    let mut notes: BTreeMap<&str, Vec<&'static str>> = BTreeMap::new();
    prediction.notes.iter().for_each(|note| notes.entry(&note.object).or_default().push(note.id));
    notes
}

pub(super) fn text(rehearsal: &Rehearsal) -> String {
    let mut out = String::new();
    let prediction = &rehearsal.prediction;
    let name = rehearsal.bundle.as_deref().unwrap_or_default();
    match &prediction.refusal {
        Some(_) => {
            let _ = writeln!(out, "{} refuses {name}", prediction.title);
        }
        None => {
            let watched = match &*prediction.targets {
                [only] if only.is_empty() => "all namespaces".to_owned(),
                targets => targets.join(", "),
            };
            let (title, namespace) = (&prediction.title, &prediction.namespace);
            let _ = writeln!(out, "{title} installs {name} in namespace {namespace}, watching {watched}\n");
            let notes = notes(prediction);
            let rows = prediction.objects.iter().enumerate().map(|(at, object)| {
                let kind = field(object, "/kind");
                let order = if prediction.phases { v1::phase(kind).to_owned() } else { (at + 1).to_string() };
                let shown = display_name(object);
                let noted = notes.get(&*shown).map(|ids| ids.join(", ")).unwrap_or_default();
                let name = shown.strip_prefix(kind).unwrap_or(&shown).trim().to_owned();
                vec![order, kind.to_owned(), name, object.to_string().len().to_string(), noted]
            });
            let order = if prediction.phases { "PHASE" } else { "#" };
            out.push_str(&trimmed(&table::text(&[order, "KIND", "NAME", "BYTES", "NOTE"], rows.collect())));
        }
    }
    let found = &rehearsal.findings.findings;
    for finding in found {
        let place = match (&*finding.file, finding.position) {
            ("", _) => String::new(),
            (file, Some(at)) => format!(" ({file}:{})", at.line),
            (file, None) => format!(" ({file})"),
        };
        let _ = write!(out, "\n{}: {}{place} [{}]", finding.severity, findings::message(finding), finding.id);
    }
    if !found.is_empty() {
        out.push('\n');
    }
    if let Some(changes) = &rehearsal.upgrade {
        out.push_str("\nThe upgrade:\n");
        changes.iter().for_each(|change| out.push_str(&change_line(change)));
        if changes.is_empty() {
            out.push_str("  changes nothing\n");
        }
    }
    if !rehearsal.differences.is_empty() {
        let _ = writeln!(out, "\n{} differs:", rehearsal.other);
        rehearsal.differences.iter().for_each(|difference| {
            let _ = writeln!(out, "  {difference}");
        });
    }
    out
}

/// Removes the spaces at the ends of lines.
fn trimmed(table: &str) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn change_line(change: &ObjectChange) -> String {
    let verb = change.effect.verb();
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

/// Formats which OLM installs each bundle of a catalog.
pub(super) fn all(results: &[RehearsedBundle]) -> String {
    let count = |of: fn(&RehearsedBundle) -> &InstallDecision| {
        let count = |wanted: fn(&InstallDecision) -> bool| results.iter().filter(|result| wanted(of(result))).count();
        let installed = count(|decision| *decision == InstallDecision::Installs);
        (
            installed,
            count(|decision| decision.reason().is_some()),
            count(|decision| *decision == InstallDecision::NeedsImage),
        )
    };
    let counts = [("v0", count(|result| &result.v0)), ("v1", count(|result| &result.v1))];
    let all = results.len();
    let summary = match counts {
        [(_, (v0, _, 0)), (_, (v1, _, 0))] => format!("OLM v0 installs {v0} of {all} bundles, OLM v1 {v1}\n"),
        counts => counts
            .map(|(name, (installed, refused, unknown))| {
                format!("OLM {name} installs {installed} and refuses {refused} of {all} bundles; {unknown} need their images\n")
            })
            .concat(),
    };
    let rows = results.iter().map(|result| {
        let word = |decision: &InstallDecision| match decision {
            InstallDecision::Installs => "yes".to_owned(),
            InstallDecision::Refused(_) => "no".to_owned(),
            InstallDecision::NeedsImage => "?".to_owned(),
        };
        let why = result.v1.reason().or(result.v0.reason()).unwrap_or_default();
        let why = why.lines().next().unwrap_or_default().to_owned();
        vec![result.package.clone(), result.bundle.clone(), word(&result.v0), word(&result.v1), why]
    });
    let table = table::text(&["PACKAGE", "BUNDLE", "V0", "V1", "WHY NOT"], rows.collect());
    format!("{}\n{summary}", trimmed(&table))
}
