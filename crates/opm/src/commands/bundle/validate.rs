//! `opm bundle validate` and `opm alpha bundle validate`: report all problems of a bundle.

use std::path::{Path, PathBuf};

use bundle::{BundleCheck, BundleDirectory, Categories, CheckedBundle, Finding, Optional, Severity};
use clap::builder::TypedValueParser;
use fbc::spelling::calendar::today;
use source::{ContainerTool, Images, SourceError};

use super::optional;
use super::suites::{self, SuiteFlags};
use crate::choice::choice;
use crate::exit::{CommandResult, Failure};
use crate::findings;
use crate::images::{self, PullFlags, TlsFlags};
use crate::limits;
use crate::printer::Printer;
use fbc::scratch::TempFolder;

/// Check a bundle
#[derive(clap::Args)]
#[command(
    long_about = "Check a bundle, given as a directory or an image.\n\n\
        Reports all problems in one run: in the bundle format, the annotations, the dependencies and the objects. The \
        exit code is 1 if a problem prevents the installation of the bundle. Suites add the requirements of an OLM \
        generation, the community repositories or certification. docs/bundle-checks.md lists all checks and their \
        configuration.",
    after_help = "Examples:\n  \
        opm bundle validate ./bundle\n  \
        opm bundle validate quay.io/me/foo-bundle:v1.0.0 --optional-validators operatorhub\n  \
        opm bundle validate ./bundle --suite olm-v1,community\n  \
        opm bundle validate ./bundle --select-optional suite=operatorframework --optional-values k8s-version=1.25\n  \
        opm bundle validate ./bundle --suite all -O sarif > findings.sarif\n  \
        opm bundle validate ./bundle --suite olm-v1 --previous quay.io/me/foo-bundle:v0.9.0\n  \
        opm bundle validate --repo ./operators/foo                 # all versions of an operator\n  \
        opm bundle validate --list-optional"
)]
pub(super) struct ValidateArgs {
    /// Bundle directories or images; several are checked together, as with --suite
    #[arg(value_name = "BUNDLE", required_unless_present_any = ["list_optional", "repo", "package_manifest", "catalog"])]
    sources: Vec<String>,
    /// Optional checks to run; can be repeated
    #[arg(short, long, value_name = "CHECK", value_delimiter = ',', value_parser = optional())]
    optional_validators: Vec<Optional>,
    #[command(flatten)]
    more: SuiteFlags,
    #[command(flatten)]
    pull: PullFlags,
}

/// Check a bundle image
#[derive(clap::Args)]
#[command(
    long_about = "Check a bundle image. Deprecated: use 'opm bundle validate'.\n\n\
        With --image-builder docker or podman, that program pulls the image.",
    after_help = "Examples:\n  opm alpha bundle validate --tag quay.io/me/foo-bundle:v1.0.0 --image-builder none"
)]
pub(super) struct AlphaValidateArgs {
    /// Bundle image
    #[arg(short, long, value_name = "REF")]
    tag: String,
    /// Program that pulls the image
    #[arg(short = 'b', long, value_name = "PROGRAM", default_value = "docker", value_parser = puller())]
    image_builder: ContainerTool,
    /// Optional checks to run; can be repeated
    #[arg(short, long, value_name = "CHECK", value_delimiter = ',', value_parser = optional())]
    optional_validators: Vec<Optional>,
    #[command(flatten)]
    pull: PullFlags,
}

fn puller() -> impl TypedValueParser<Value = ContainerTool> {
    choice([("docker", ContainerTool::Docker), ("podman", ContainerTool::Podman), ("none", ContainerTool::None)])
}

pub(super) fn run(args: &ValidateArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    if args.more.list_optional {
        return suites::list(printer);
    }
    // Unpacked images live as long as this value.
    let images = images::open(tls, &args.pull);
    let mut bundles = Vec::new();
    for source in &args.sources {
        let local = Path::new(source).is_dir();
        if let Some(why) = source::no_source(source).filter(|_| !local) {
            return Err(Failure::message(format!("\"{source}\": {why}")));
        }
        let root = if local { PathBuf::from(source) } else { pulled(&images, source)? };
        bundles.push((root, local.then_some(source.as_str())));
    }
    match bundles.as_slice() {
        [(root, shown)] if args.more.is_default() => report(root, *shown, &args.optional_validators, printer),
        bundles => suites::run(bundles, &args.optional_validators, &args.more, &images, printer),
    }
}

pub(super) fn run_alpha(args: &AlphaValidateArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    printer.warning("'opm alpha bundle validate' is deprecated, use 'opm bundle validate' instead");
    match args.image_builder {
        ContainerTool::None => {
            let images = images::open(tls, &args.pull);
            report(&pulled(&images, &args.tag)?, None, &args.optional_validators, printer)
        }
        tool => {
            let scratch = TempFolder::private("opm-bundle-")?;
            tool.pull(&args.tag, false).map_err(SourceError::from)?;
            tool.unpack(&args.tag, scratch.path()).map_err(SourceError::from)?;
            report(scratch.path(), None, &args.optional_validators, printer)
        }
    }
}

fn pulled(images: &Images, reference: &str) -> Result<PathBuf, Failure> {
    let fetched = images.fetch_one(reference)?;
    Ok(images.unpack_to_temp(&fetched.image)?)
}

/// Checks a bundle like the existing tools, and prints the findings as they do.
fn report(dir: &Path, shown: Option<&str>, optional: &[Optional], printer: &Printer) -> CommandResult {
    let limits = limits::from_env()?;
    let categories = custom_categories();
    let request = BundleCheck { optional, categories: categories.as_ref(), ..BundleCheck::plain(&limits, today()) };
    let bundle = BundleDirectory::read(dir.to_path_buf(), shown.map(str::to_owned), &limits);
    let CheckedBundle { findings, waived } = bundle::check(bundle, &request, None)?;
    let of = |wanted: fn(Severity) -> bool| findings.iter().filter(move |finding| wanted(finding.severity));
    // Messages of the existing validators begin with their level, which is printed before every message.
    let message =
        |finding: &Finding, level: &str| finding.message.strip_prefix(level).unwrap_or(&finding.message).to_owned();
    of(is_warning).for_each(|finding| printer.warning(&message(finding, "Warning: ")));
    for finding in of(is_error) {
        printer.error(&message(finding, "Error: "));
        // The tools name the file at most.
        if let ("bundle-readable", Some(at)) = (finding.id, finding.position) {
            printer.report(&format!("  --> {}:{}:{}", finding.file, at.line, at.column));
            printer.help(&finding.help);
        }
    }
    if !waived.is_empty() {
        printer.report(&findings::waived_line(waived.len()));
    }
    if !dir.join("manifests").exists() && !dir.join("metadata").exists() {
        let help = "a bundle is a directory with 'manifests' and 'metadata'; 'opm validate' checks a catalog";
        printer.help(help);
    }
    if of(is_error).next().is_none() { Ok(()) } else { Err(Failure::Reported) }
}

/// Returns whether a finding prevents the installation of a bundle.
pub(super) fn is_error(severity: Severity) -> bool {
    severity >= Severity::Error
}

/// Returns whether a finding is a warning of the existing tools.
pub(super) fn is_warning(severity: Severity) -> bool {
    (Severity::Warning..Severity::Error).contains(&severity)
}

/// Reads custom categories from the file in `OPERATOR_BUNDLE_CATEGORIES`, which replace the standard ones.
pub(super) fn custom_categories() -> Option<Categories> {
    let path = std::env::var("OPERATOR_BUNDLE_CATEGORIES").ok().filter(|path| !path.is_empty())?;
    Some(bundle::read_categories(&path))
}
