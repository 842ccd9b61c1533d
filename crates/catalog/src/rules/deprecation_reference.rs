//! A deprecation refers to the package, a channel or a bundle, and each once.

use std::collections::BTreeSet;

use fbc::blob::{BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE};
use fbc::{BlobContent, Problem, ProblemStage, path};

use super::{Check, Guesses, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule = Rule {
    name: "deprecation-reference",
    about: "a deprecation refers to the package (without a name), a channel or a bundle that exist, and to each once",
    check: Check::Catalog(check),
};

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    let mut guesses = Guesses::new();
    for blob in draft.blobs(DEPRECATIONS) {
        let (BlobContent::Deprecations { entries }, Some(package)) =
            (&blob.content, draft.packages.get(&*blob.package))
        else {
            continue;
        };
        let mut seen = BTreeSet::new();
        for (index, entry) in entries.iter().enumerate() {
            let (schema, name, owner) = (&*entry.schema, &*entry.name, package.name);
            let (message, field) = match schema {
                "" => (format!("schema must be set for deprecation entry [{index}] for package \"{owner}\""), "schema"),
                _ if !seen.insert((schema, name)) => (
                    format!(
                        "duplicate deprecation entry (schema \"{schema}\", name \"{name}\") for package \"{owner}\""
                    ),
                    "schema",
                ),
                BUNDLE if !package.bundles.contains_key(name) && !draft.incomplete => {
                    (format!("cannot deprecate bundle \"{name}\" for package \"{owner}\": bundle not found"), "name")
                }
                CHANNEL
                    if package
                        .channels
                        .get(name)
                        .is_none_or(|channel| channel.blob.is_none() && channel.entries.is_empty())
                        && !draft.incomplete =>
                {
                    (format!("cannot deprecate channel \"{name}\" for package \"{owner}\": channel not found"), "name")
                }
                PACKAGE if !name.is_empty() => (
                    format!("package name must be empty for deprecated package \"{owner}\" (specified \"{name}\")"),
                    "name",
                ),
                BUNDLE | CHANNEL | PACKAGE => continue,
                other => (
                    format!(
                        "cannot deprecate object (schema \"{other}\", name \"{name}\") for package \"{owner}\": \
                         object schema unknown"
                    ),
                    "schema",
                ),
            };
            let problem = Problem::new(RULE.name, ProblemStage::Deprecations, message).about(owner, "", "");
            let near = match (schema, field) {
                (BUNDLE, "name") => guesses.nearest(name, package.bundles.keys().copied()),
                (CHANNEL, "name") => guesses.nearest(name, package.channels.keys().copied()),
                (_, "schema") => guesses.nearest(schema, [BUNDLE, CHANNEL, PACKAGE].into_iter()),
                _ => None,
            };
            let problem = match near.filter(|near| *near != schema) {
                Some(near) => problem.meant(near, "", ""),
                None => problem.help("name the package itself, or a channel or bundle of it, and each once"),
            };
            problems.report(problem, blob.place(path!["entries", index, "reference", field]));
        }
    }
}
