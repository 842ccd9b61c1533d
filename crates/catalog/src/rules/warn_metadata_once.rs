//! A bundle has one description.

use fbc::blob::BUNDLE;
use fbc::{BlobContent, Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule = Rule {
    name: "csv-metadata-once",
    about: "a bundle has at most one olm.csv.metadata property, and no objects beside it",
    check: Check::Catalog(check),
};

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    for blob in draft.blobs(BUNDLE) {
        let BlobContent::Bundle(bundle) = &blob.content else { continue };
        let message = match (bundle.csv_metadata, bundle.objects) {
            (0, _) | (1, 0) => continue,
            (1, _) => format!("bundle \"{}\" has olm.csv.metadata and olm.bundle.object properties", blob.name),
            (n, _) => {
                format!(
                    "bundle \"{}\" has {n} olm.csv.metadata properties, and a server refuses more than one",
                    blob.name
                )
            }
        };
        let problem =
            Problem::new(RULE.name, ProblemStage::Bundles, message).warning().about(&blob.package, "", &blob.name);
        problems.report(problem, blob.place(path!["properties"]));
    }
}
