//! Rehearsed catalogs as text.

use bundle::rehearse::InstallDecision;
use fbc::spelling::table::Table;

use super::RehearsedBundle;

/// Formats which OLM installs each bundle of a catalog.
pub fn text(results: &[RehearsedBundle]) -> String {
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
    let table = Table::new(&["PACKAGE", "BUNDLE", "V0", "V1", "WHY NOT"], rows).trimmed();
    format!("{table}\n{summary}")
}
