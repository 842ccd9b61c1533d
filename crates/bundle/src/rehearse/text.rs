//! Rehearsals as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use fbc::spelling::table::Table;
use serde_json::Value;

use crate::rehearse::{FIELDS, ObjectChange, Prediction, Rehearsal, display_name, v1};

fn field<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the notes about objects, by object.
fn notes(prediction: &Prediction) -> BTreeMap<&str, Vec<&'static str>> {
    let mut notes: BTreeMap<&str, Vec<&'static str>> = BTreeMap::new();
    prediction.notes.iter().for_each(|note| notes.entry(&note.object).or_default().push(note.id));
    notes
}

impl Rehearsal {
    /// Formats the rehearsal as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let prediction = &self.prediction;
        let name = self.bundle.as_deref().unwrap_or_default();
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
                out.push_str(&Table::new(&[order, "KIND", "NAME", "BYTES", "NOTE"], rows).trimmed());
            }
        }
        let found = &self.findings.findings;
        for finding in found {
            let place = match (&*finding.file, finding.position) {
                ("", _) => String::new(),
                (file, Some(at)) => format!(" ({file}:{})", at.line),
                (file, None) => format!(" ({file})"),
            };
            let _ = write!(out, "\n{}: {}{place} [{}]", finding.severity, finding.described(), finding.id);
        }
        if !found.is_empty() {
            out.push('\n');
        }
        if let Some(changes) = &self.upgrade {
            out.push_str("\nThe upgrade:\n");
            changes.iter().for_each(|change| out.push_str(&change_line(change)));
            if changes.is_empty() {
                out.push_str("  changes nothing\n");
            }
        }
        if !self.differences.is_empty() {
            let _ = writeln!(out, "\n{} differs:", self.other);
            self.differences.iter().for_each(|difference| {
                let _ = writeln!(out, "  {difference}");
            });
        }
        out
    }
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
