//! Rehearsing every bundle of a catalog.

use bundle::Whole;
use serde_json::{Value, json};
use source::LoadedBundle;
use source::catalog_bundles::CatalogBundles;

use super::flags::{Generation, Output, RehearseArgs};
use super::{Rehearsal, found, refused_by_metadata, rehearsed};
use crate::exit::{Failure, Outcome};
use crate::printer::Printer;
use crate::table;

/// The results for one bundle.
struct Rehearsed {
    package: String,
    bundle: String,
    v0: Decision,
    v1: Decision,
}

/// Whether OLM installs a bundle.
#[derive(PartialEq, Eq)]
enum Decision {
    Installs,
    /// The first reason not to.
    Refused(String),
    /// The metadata in the catalog does not decide it.
    NeedsImage,
}

impl Decision {
    fn reason(&self) -> Option<&str> {
        match self {
            Decision::Refused(reason) => Some(reason),
            Decision::Installs | Decision::NeedsImage => None,
        }
    }
}

/// Reports which OLM installs each bundle, or its first reason to refuse it.
pub(super) fn run(args: &RehearseArgs, opened: &CatalogBundles<'_>, printer: &mut Printer) -> Outcome {
    let mut results = Vec::new();
    for package in opened.catalog.packages() {
        for (name, _) in package.bundles() {
            let (v0, v1) = match opened.read(package, name, !args.no_pull)? {
                Some(read) => (decided(args, &read, Generation::V0)?, decided(args, &read, Generation::V1)?),
                None => {
                    let whole = opened.described(package, name)?;
                    let decide = |generation| described(args, whole.as_ref(), generation);
                    (decide(Generation::V0)?, decide(Generation::V1)?)
                }
            };
            results.push(Rehearsed { package: package.name().to_owned(), bundle: name.to_owned(), v0, v1 });
        }
    }
    let text = match args.output {
        Output::Text => text(&results),
        Output::Json => format!("{:#}\n", Value::from(results.iter().map(as_json).collect::<Vec<_>>())),
        _ => return Err(Failure::usage("--all supports only the output formats text and json")),
    };
    printer.data().write_all(text.as_bytes())?;
    Ok(())
}

/// Rehearses a bundle.
fn decided(args: &RehearseArgs, read: &LoadedBundle, generation: Generation) -> Result<Decision, Failure> {
    let rehearsal: Rehearsal = rehearsed(args, read, generation, &args.namespace(&read.whole))?;
    if let Some(refusal) = rehearsal.refusal {
        return Ok(Decision::Refused(refusal.message));
    }
    let error = found(read, &rehearsal).into_iter().find(|finding| finding.severity >= bundle::Severity::Error);
    Ok(error.map_or(Decision::Installs, |finding| Decision::Refused(finding.message)))
}

/// Decides from the metadata in the catalog, if it contains a reason to refuse the bundle.
fn described(args: &RehearseArgs, whole: Option<&Whole>, generation: Generation) -> Result<Decision, Failure> {
    let Some(whole) = whole else { return Ok(Decision::NeedsImage) };
    let refusal = refused_by_metadata(args, whole, generation)?;
    Ok(refusal.map_or(Decision::NeedsImage, |refusal| Decision::Refused(refusal.message)))
}

fn text(results: &[Rehearsed]) -> String {
    let count = |of: fn(&Rehearsed) -> &Decision| {
        let count = |wanted: fn(&Decision) -> bool| results.iter().filter(|result| wanted(of(result))).count();
        let installed = count(|decision| *decision == Decision::Installs);
        (installed, count(|decision| decision.reason().is_some()), count(|decision| *decision == Decision::NeedsImage))
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
        let word = |decision: &Decision| match decision {
            Decision::Installs => "yes".to_owned(),
            Decision::Refused(_) => "no".to_owned(),
            Decision::NeedsImage => "?".to_owned(),
        };
        let why = result.v1.reason().or(result.v0.reason()).unwrap_or_default();
        let why = why.lines().next().unwrap_or_default().to_owned();
        vec![result.package.clone(), result.bundle.clone(), word(&result.v0), word(&result.v1), why]
    });
    let table = table::text(&["PACKAGE", "BUNDLE", "V0", "V1", "WHY NOT"], rows.collect());
    let lines: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    format!("{lines}\n{summary}")
}

fn as_json(result: &Rehearsed) -> Value {
    let side = |decision: &Decision| {
        let installs = match decision {
            Decision::Installs => Some(true),
            Decision::Refused(_) => Some(false),
            Decision::NeedsImage => None,
        };
        json!({"installs": installs, "reason": decision.reason()})
    };
    json!({"package": result.package, "bundle": result.bundle, "v0": side(&result.v0), "v1": side(&result.v1)})
}
