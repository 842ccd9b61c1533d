//! Bundle checks beyond those of the Go tool: by suite, by name, and as configured.

use std::path::PathBuf;

use bundle::{BundleCheck, Optional, PlatformsError, SUITES, Severity, VALIDATORS};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use fbc::spelling::table::Table;
use source::{CheckBundles, CheckBundlesError, Images};

use super::validate::custom_categories;
use crate::choice::choice;
use crate::exit::{CommandResult, Failure};
use crate::findings::{self, FindingsOutput};
use crate::printer::Printer;
use crate::{catalogs, limits};

/// The flags for checks beyond those of the Go tool.
#[derive(clap::Args)]
pub(super) struct SuiteFlags {
    /// Check suites to run; can be repeated
    #[arg(long, value_name = "SUITE", value_delimiter = ',', value_parser = suite())]
    suite: Vec<String>,
    /// Select optional checks by label, like name=good-practices or suite=operatorframework
    #[arg(long, value_name = "SELECTOR")]
    select_optional: Option<String>,
    /// Parameters of optional checks: k8s-version=VERSION, index-path=FILE, container-tools=TOOL
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    optional_values: Vec<String>,
    /// List all available checks
    #[arg(long)]
    pub(super) list_optional: bool,
    /// Fail on findings of this severity or higher
    #[arg(long, value_name = "SEVERITY", default_value = "error", value_parser = fail_on())]
    fail_on: Severity,
    /// File with levels and waivers; defaults to .opm.yaml or .opm-checks.yaml in the bundle or a parent directory
    #[arg(long, value_name = "FILE")]
    checks: Option<std::path::PathBuf>,
    /// Operator directory with a subdirectory per version, as in operator repositories; checks names and upgrades
    /// across all versions
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) repo: Option<PathBuf>,
    /// Package manifest to check, from the layout that predates bundles
    #[arg(long, value_name = "FILE")]
    pub(super) package_manifest: Option<PathBuf>,
    /// Catalog with the bundles of the operator, to run the pipeline checks on; can be repeated
    #[arg(long, value_name = "CATALOG")]
    pub(super) catalog: Vec<String>,
    /// Previous version: a bundle, or a catalog that contains it (directory, image or file). Reports CRD changes that
    /// OLM v1 refuses or that break custom resources
    #[arg(long, value_name = "BUNDLE|CATALOG")]
    previous: Option<String>,
    /// Registry or name prefix that is allowed for bundle images in catalogs; can be repeated
    #[arg(long, value_name = "PREFIX")]
    bundle_registry: Vec<String>,
    /// Check in registries that all images of the bundle exist, and their platforms
    #[arg(long)]
    images: bool,
    /// Output format
    #[arg(short = 'O', long, value_name = "FORMAT", default_value = "text", value_parser = findings::output())]
    output: FindingsOutput,
}

fn suite() -> PossibleValuesParser {
    PossibleValuesParser::new(SUITES.into_iter().chain(["all"]))
}

fn fail_on() -> impl TypedValueParser<Value = Severity> {
    choice([("error", Severity::Error), ("warning", Severity::Warning)])
}

impl SuiteFlags {
    /// Returns whether the flags select only the checks of the Go tool.
    pub(super) fn is_default(&self) -> bool {
        self.suite.is_empty()
            && self.select_optional.is_none()
            && self.optional_values.is_empty()
            && self.checks.is_none()
            && self.repo.is_none()
            && self.package_manifest.is_none()
            && self.catalog.is_empty()
            && self.previous.is_none()
            && self.bundle_registry.is_empty()
            && !self.images
            && self.fail_on == Severity::Error
            && self.output == FindingsOutput::Text
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.optional_values
            .iter()
            .find_map(|given| given.split_once('=').filter(|(name, _)| *name == key))
            .map(|it| it.1)
    }
}

/// Lists all available checks.
pub(super) fn list(printer: &mut Printer) -> CommandResult {
    let rows = VALIDATORS.iter().map(|validator| {
        let mut labels = vec![format!("name={}", validator.name)];
        labels.extend(validator.suites.iter().map(|suite| format!("suite={suite}")));
        vec![validator.name.to_owned(), labels.join(","), validator.about.to_owned()]
    });
    let text = Table::new(&["NAME", "LABELS", "DESCRIPTION"], rows).text();
    printer.data().write_all(text.as_bytes())?;
    Ok(())
}

/// Checks bundles, each given as a directory and, for local bundles, the path that the user typed.
pub(super) fn run(
    bundles: &[(PathBuf, Option<&str>)],
    optional: &[Optional],
    flags: &SuiteFlags,
    images: &Images,
    printer: &mut Printer,
) -> CommandResult {
    let limits = limits::from_env()?;
    let categories = custom_categories();
    let platforms = |image: &str| images.platforms(image).map_err(PlatformsError::new);
    let check = BundleCheck {
        optional,
        suites: &flags.suite,
        selector: flags.select_optional.as_deref(),
        images: flags.images,
        kubernetes: flags.value("k8s-version"),
        index: flags.value("index-path"),
        container_tool: flags.value("container-tools"),
        categories: categories.as_ref(),
        platforms: Some(&platforms),
        configuration: flags.checks.as_deref(),
        unused_waivers: true,
        ..BundleCheck::plain(&limits, fbc::spelling::calendar::today())
    };
    let request = CheckBundles {
        bundles,
        check,
        previous: flags.previous.as_deref(),
        operator: flags.repo.as_deref(),
        catalogs: &flags.catalog,
        registries: &flags.bundle_registry,
        package_manifest: flags.package_manifest.as_deref(),
        fail_on: flags.fail_on,
    };
    let found = source::check_bundles(&request, images).map_err(|error| match error {
        CheckBundlesError::Source(error) => error.into(),
        CheckBundlesError::Check(error) => error.into(),
        CheckBundlesError::Catalog(rejected) => catalogs::report_rejected(&rejected, printer),
    })?;
    findings::print(&found, flags.output, printer)?;
    if found.passed { Ok(()) } else { Err(Failure::Reported) }
}
