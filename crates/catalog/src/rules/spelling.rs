//! Names that decide what a blob is are not misspelt.
//!
//! These rules explain problems. Whatever they find is reported only beside other problems of the same package.

use fbc::blob::PACKAGE;
use fbc::json::{PathStep, Raw};
use fbc::schema::BlobSchema;
use fbc::{Blob, Problem, ProblemStage, path, unknown_fields};

use super::{Check, Guesses, Report, Rule};
use crate::draft::{DraftChannel, DraftPackage, Head};

const NAME: &str = "spelling";
const ABOUT: &str =
    "no schema, field or edge looks like a misspelt one (reported beside the problems that it explains)";

pub(super) const OF_SCHEMAS: Rule = Rule { name: NAME, about: ABOUT, check: Check::Text(check_schema) };
pub(super) const OF_FIELDS: Rule = Rule { name: NAME, about: ABOUT, check: Check::Text(check_fields) };
pub(super) const OF_EDGES: Rule = Rule { name: NAME, about: ABOUT, check: Check::Channel(check_edges) };

/// The fields whose absence makes a catalog invalid.
const DECISIVE: [&str; 13] = [
    "defaultChannel",
    "entries",
    "image",
    "message",
    "name",
    "package",
    "properties",
    "reference",
    "replaces",
    "skips",
    "skipRange",
    "type",
    "value",
];

fn new(message: String) -> Problem {
    Problem::new(NAME, ProblemStage::Spelling, message)
}

fn check_schema(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    if BlobSchema::named(&blob.schema).is_some() {
        return;
    }
    let known = fbc::schema::BLOBS.iter().map(|schema| schema.name);
    let Some(near) = Guesses::new().nearest(&blob.schema, known) else { return };
    let package = if near == PACKAGE { text.get_str("name") } else { blob.package.as_ref().into() };
    let problem = new(format!("unknown schema \"{}\"", blob.schema)).about(&package, "", "");
    problems.report(problem.meant(near, &package, ""), blob.place(path!["schema"]));
}

fn check_fields(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    if !blob.may_have_unknown_fields() {
        return;
    }
    let mut guesses = Guesses::new();
    unknown_fields::fields(&blob.schema, text, &mut |field| {
        let Some(PathStep::Key(key)) = field.path.0.last() else { return };
        let known = field.known.iter().copied();
        let Some(near) = guesses.nearest(key, known).filter(|near| DECISIVE.contains(near)) else { return };
        // The misspelt field can be the one that says to what package the blob belongs.
        let names_package =
            field.path.0.len() == 1 && near == if &*blob.schema == PACKAGE { "name" } else { "package" };
        let package = if names_package {
            text.get_str(key)
        } else if &*blob.schema == PACKAGE {
            blob.name.as_ref().into()
        } else {
            blob.package.as_ref().into()
        };
        let problem = new(format!("{} has no field \"{}\"", blob.schema, field.path)).about(&package, "", "");
        problems.report(problem.meant(near, &package, ""), blob.place(field.path));
    });
}

/// Finds edges to names that the channel does not list, if it lists a similar one that no edge leads to.
fn check_edges(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, problems: &mut Vec<Problem>) {
    let view = channel.view();
    let name = |number: usize| &*view.entries()[number].name;
    let lost: Vec<&str> = match channel.head() {
        Head::None => return,
        Head::One(head) => view.number(head).map(|head| view.stranded(head)).unwrap_or_default(),
        Head::Several(_) => view.heads(),
    }
    .into_iter()
    .map(name)
    .collect();
    if lost.is_empty() {
        return;
    }
    let mut guesses = Guesses::new();
    for (index, entry) in channel.entries.iter().enumerate() {
        let target = &*entry.replaces;
        if target.is_empty() || view.number(target).is_some() || package.bundles.contains_key(target) {
            continue;
        }
        let others = lost.iter().copied().filter(|lost| *lost != &*entry.name);
        if let Some(near) = guesses.nearest(target, others) {
            let problem = new(format!("{} replaces {target}, which no bundle is called", entry.name))
                .about(package.name, channel.name, "")
                .meant(near, package.name, channel.name);
            problems.report(problem, channel.entry_place(index, "replaces"));
        }
    }
}
