//! Rehearsing every bundle of a catalog.

use serde_json::{Value, json};

use super::flags::{Generation, Output, RehearseArgs};
use super::{Rehearsal, found, rehearsed};
use crate::bundles::Read;
use crate::catalog_bundles::Opened;
use crate::exit::{Failure, Outcome};
use crate::printer::Printer;
use crate::table;

/// The results for one bundle.
struct Rehearsed {
    package: String,
    bundle: String,
    /// Why OLM v0 and v1 refuse the bundle, if they do.
    refused: [Option<String>; 2],
}

/// Reports which OLM installs each bundle, or its first reason to refuse it.
pub(super) fn run(args: &RehearseArgs, opened: &Opened<'_>, printer: &mut Printer) -> Outcome {
    let (mut results, mut left_out) = (Vec::new(), Vec::new());
    for package in opened.catalog.packages() {
        for (name, _) in package.bundles() {
            let Some(read) = opened.read(package, name, !args.no_pull)? else {
                left_out.push(name.to_owned());
                continue;
            };
            let refused = [reason(args, &read, Generation::V0)?, reason(args, &read, Generation::V1)?];
            results.push(Rehearsed { package: package.name().to_owned(), bundle: name.to_owned(), refused });
        }
    }
    if !left_out.is_empty() {
        let names = table::some(&left_out.iter().map(String::as_str).collect::<Vec<_>>(), 3);
        printer.warning(&format!("skipped {} bundles whose objects are only in their images: {names}", left_out.len()));
    }
    let text = match args.output {
        Output::Text => text(results),
        Output::Json => format!("{:#}\n", Value::from(results.iter().map(as_json).collect::<Vec<_>>())),
        _ => return Err(Failure::Usage("--all supports only the output formats text and json".into())),
    };
    printer.data().write_all(text.as_bytes())?;
    Ok(())
}

/// Returns the first reason why OLM does not install a bundle.
fn reason(args: &RehearseArgs, read: &Read, generation: Generation) -> Result<Option<String>, Failure> {
    let rehearsal: Rehearsal = rehearsed(args, read, generation)?;
    if let Some(refusal) = &rehearsal.refusal {
        return Ok(Some(refusal.message.clone()));
    }
    let found = found(read, &rehearsal);
    Ok(found.into_iter().find(|finding| finding.severity >= bundle::Severity::Error).map(|finding| finding.message))
}

fn text(results: Vec<Rehearsed>) -> String {
    let installed = |at: usize| results.iter().filter(|result| result.refused[at].is_none()).count();
    let summary = format!("OLM v0 installs {} of {} bundles, OLM v1 {}\n", installed(0), results.len(), installed(1));
    let rows = results.into_iter().map(|result| {
        let word = |refused: &Option<String>| if refused.is_none() { "yes" } else { "no" }.to_owned();
        let (v0, v1) = (word(&result.refused[0]), word(&result.refused[1]));
        let [old, new] = result.refused;
        let why = new.or(old).unwrap_or_default();
        vec![result.package, result.bundle, v0, v1, why.lines().next().unwrap_or_default().to_owned()]
    });
    let table = table::text(&["PACKAGE", "BUNDLE", "V0", "V1", "WHY NOT"], rows.collect());
    let lines: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    format!("{lines}\n{summary}")
}

fn as_json(result: &Rehearsed) -> Value {
    let side = |refused: &Option<String>| json!({"installs": refused.is_none(), "reason": refused});
    json!({
        "package": result.package, "bundle": result.bundle,
        "v0": side(&result.refused[0]), "v1": side(&result.refused[1]),
    })
}
