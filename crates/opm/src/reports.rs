//! The reports that commands print with `-o json`, and their schemas.

use bundle::Findings;
use bundle::rehearse::Rehearsal;
use bundle::review::crd::CrdChanges;
use catalog::list::{ChannelRow, ListedBundle, PackageRow};
use catalog::validation::Validation;
use cluster::run::{CleanupReport, RunReport};
use cluster::{CatalogList, CatalogStatus};
use edit::Edited;
use edit::diff::changes::CatalogChanges;
use edit::upgrades::UpgradeReport;
use image::{CopySummary, Explanation, Verification};
use mirror::plan::PlanReport;
use mirror::prune::PruneReport;
use mirror::pull::PullReport;
use mirror::push::PushReport;
use mirror::verify::VerifyReport;
use resolve::plan::NamespacePlan;
use resolve::upgrade_path::PathReport;
use resolve::v1::ExtensionChoices;
use resolve::why::WhyReport;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::RestrictFormats;
use serde::Serialize;
use serde_json::{Map, Value};
use source::UnpackReport;
use source::catalog_bundles::RehearsedBundle;

use crate::commands::version::VersionReport;

/// The prefix of the names of report schemas.
pub(crate) const PREFIX: &str = "report/";

/// A kind of report.
pub(crate) struct Report {
    pub(crate) name: &'static str,
    /// The commands that print it.
    pub(crate) commands: &'static [&'static str],
    schema: fn() -> Map<String, Value>,
}

const fn report<T: JsonSchema>(name: &'static str, commands: &'static [&'static str]) -> Report {
    Report { name, commands, schema: schema::<T> }
}

/// All reports, by name.
pub(crate) const REPORTS: &[Report] = &[
    report::<CatalogList>("catalog-list", &["catalog list"]),
    report::<CatalogStatus>("catalog-status", &["catalog status"]),
    report::<UpgradeReport>("check-upgrades", &["check-upgrades"]),
    report::<CleanupReport>("cleanup", &["cleanup"]),
    report::<CopySummary>("copy", &["copy"]),
    report::<CrdChanges>("crd-diff", &["crd-diff"]),
    report::<CatalogChanges>("diff", &["diff"]),
    report::<Edited>(
        "edit",
        &[
            "edit add-bundle",
            "edit deprecate",
            "edit filter",
            "edit merge",
            "edit promote",
            "edit remove",
            "edit set-default",
            "edit set-edge",
        ],
    ),
    report::<Findings>("findings", &["bundle validate", "security"]),
    report::<Vec<ListedBundle<'_>>>("list-bundles", &["list bundles"]),
    report::<Vec<ChannelRow<'_>>>("list-channels", &["list channels"]),
    report::<Vec<PackageRow<'_>>>("list-packages", &["list packages"]),
    report::<PlanReport>("mirror-plan", &["mirror plan"]),
    report::<PruneReport>("mirror-prune", &["mirror prune"]),
    report::<PullReport>("mirror-pull", &["mirror pull"]),
    report::<PushReport>("mirror-push", &["mirror copy", "mirror push"]),
    report::<VerifyReport>("mirror-verify", &["mirror verify"]),
    report::<Explanation>("registry-doctor", &["registry doctor"]),
    report::<RehearseReport<'_>>("rehearse", &["rehearse"]),
    report::<ResolveReport<'_>>("resolve", &["resolve"]),
    report::<RunReport>("run", &["run bundle", "run bundle-upgrade"]),
    report::<UnpackReport>("unpack", &["unpack"]),
    report::<PathReport<'_>>("upgrade-path", &["upgrade-path"]),
    report::<Validation<'_>>("validate", &["validate"]),
    report::<Verification>("verify", &["verify"]),
    report::<VersionReport>("version", &["version"]),
    report::<WhyReport<'_>>("why", &["why"]),
];

/// The rehearsal of a bundle; with `--all`, what both generations of OLM do with each bundle of a catalog.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RehearseReport<'a> {
    Bundle(&'a Rehearsal),
    Catalog(&'a [RehearsedBundle]),
}

/// What a cluster does with OLM v0; with `--olm v1`, what it chooses for each package.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ResolveReport<'a> {
    Namespace(&'a NamespacePlan),
    Extensions(&'a ExtensionChoices),
}

impl Report {
    /// Returns the name of its schema.
    pub(crate) fn full_name(&self) -> String {
        format!("{PREFIX}{}", self.name)
    }

    /// Returns its JSON Schema.
    pub(crate) fn schema(&self) -> Value {
        let commands: Vec<String> = self.commands.iter().map(|name| format!("opm {name}")).collect();
        let comment = format!("Printed with --output json by: {}", commands.join(", "));
        let mut fields = (self.schema)();
        let dialect = fields.remove("$schema").unwrap_or_default();
        let first = [("$schema", dialect), ("title", self.full_name().into()), ("$comment", comment.into())];
        first.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(fields).collect()
    }
}

fn schema<T: JsonSchema>() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().with_transform(RestrictFormats::default()).for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    let mut fields = schema.ensure_object().clone();
    fields.remove("title");
    fields
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Command;

    use super::*;

    /// Commands whose `-o json` prints blobs or objects, which have their own schemas.
    const DOCUMENTS: &[&str] = &[
        "alpha convert-template basic",
        "alpha convert-template substitutes",
        "alpha diff",
        "alpha render-template",
        "alpha render-veneer",
        "catalog apply",
        "init",
        "migrate",
        "render",
        "template convert basic",
        "template convert substitutes",
        "template render",
    ];

    /// Collects the commands that print JSON if a flag asks for it.
    fn with_json(command: &Command, name: &str, found: &mut BTreeSet<String>) {
        for command in command.get_subcommands() {
            let name = format!("{name} {}", command.get_name()).trim_start().to_owned();
            let prints_json = command
                .get_arguments()
                .filter(|arg| arg.get_long() == Some("output"))
                .any(|arg| arg.get_possible_values().iter().any(|value| value.get_name() == "json"));
            if prints_json {
                found.insert(name.clone());
            }
            with_json(command, &name, found);
        }
    }

    #[test]
    fn every_command_that_prints_a_report_as_json_has_a_schema() {
        let mut found = BTreeSet::new();
        with_json(&crate::cli::command(), "", &mut found);
        let described: BTreeSet<String> =
            REPORTS.iter().flat_map(|report| report.commands).chain(DOCUMENTS).map(|name| (*name).to_owned()).collect();
        assert_eq!(found, described);
        assert!(REPORTS.is_sorted_by(|a, b| a.name < b.name));
    }
}
