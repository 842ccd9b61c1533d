//! `opm bundle validate` and `opm alpha bundle validate`: report all problems of a bundle.

use std::path::{Path, PathBuf};

use bundle::{
    Categories, CategoriesError, CategoriesFault, ContentOptions, Finding, Findings, Optional, Severity, Whole,
};
use catalog::needs::Facts;
use clap::builder::TypedValueParser;
use fbc::Limits;
use fbc::json::Raw;
use olm_cel::Rule;
use source::{ContainerTool, Images, SourceError};

use super::optional;
use super::suites::{self, SuiteFlags};
use crate::choice::choice;
use crate::exit::{Failure, Outcome};
use crate::images::{self, PullFlags, TlsFlags};
use crate::interrupt::Unfinished;
use crate::limits;
use crate::printer::{Printer, Style};

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

pub(super) fn run(args: &ValidateArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
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
        [(root, _)] if args.more.is_default() => report(root, &args.optional_validators, printer),
        bundles => suites::run(bundles, &args.optional_validators, &args.more, &images, printer),
    }
}

pub(super) fn run_alpha(args: &AlphaValidateArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    printer.warning("'opm alpha bundle validate' is deprecated, use 'opm bundle validate' instead");
    match args.image_builder {
        ContainerTool::None => {
            let images = images::open(tls, &args.pull);
            report(&pulled(&images, &args.tag)?, &args.optional_validators, printer)
        }
        tool => {
            let scratch = Unfinished::private("opm-bundle-")?;
            tool.pull(&args.tag, false).map_err(SourceError::from)?;
            tool.unpack(&args.tag, scratch.path()).map_err(SourceError::from)?;
            report(scratch.path(), &args.optional_validators, printer)
        }
    }
}

fn pulled(images: &Images, reference: &str) -> Result<PathBuf, Failure> {
    let fetched = images.fetch_one(reference)?;
    Ok(images.unpack_aside(&fetched.image)?)
}

fn report(dir: &Path, optional: &[Optional], printer: &Printer) -> Outcome {
    let found = compatible(dir, None, optional, &limits::from_env()?);
    found.warnings().for_each(|warning| printer.warning(warning));
    let mut errors: Vec<&str> = found.errors().collect();
    // Both checks report a missing manifests directory.
    errors.dedup();
    errors.iter().for_each(|error| printer.error(error));
    if !dir.join("manifests").exists() && !dir.join("metadata").exists() {
        let help = "a bundle is a directory with 'manifests' and 'metadata'; 'opm validate' checks a catalog";
        printer.report(&format!("{} {help}", printer.paint(Style::Help, "help:")));
    }
    if errors.is_empty() { Ok(()) } else { Err(Failure::Reported) }
}

/// Runs the checks of the Go tool; reuses `known` instead of reading the bundle again.
pub(super) fn compatible(dir: &Path, known: Option<&Whole>, optional: &[Optional], limits: &Limits) -> Findings {
    let mut found = bundle::check_format_of(dir, known, limits);
    let categories = custom_categories();
    let asked = ContentOptions { known, optional, categories: categories.as_ref() };
    // Without the manifests directory there are no objects to check.
    if found.list.is_empty() || dir.join("manifests").is_dir() {
        found.list.extend(bundle::check_content_of(dir, &asked, limits).list);
    }
    if !found.has_broken_rule {
        let wrong = rules(dir, known, limits).into_iter();
        found.list.extend(wrong.map(|text| Finding::new("dependency-rule", Severity::Error, text)));
    }
    found
}

/// Reads custom categories from the file in `OPERATOR_BUNDLE_CATEGORIES`, which replace the standard ones.
pub(super) fn custom_categories() -> Option<Categories> {
    /// The maximum size of the file in bytes.
    const MAX_SIZE: u64 = 1 << 20;
    let path = std::env::var("OPERATOR_BUNDLE_CATEGORIES").ok().filter(|path| !path.is_empty())?;
    let wrong = |fault: CategoriesFault| CategoriesError { path: path.clone(), fault };
    let read = || -> Categories {
        let size = std::fs::metadata(&path).map_err(|error| wrong(error.into()))?.len();
        if size > MAX_SIZE {
            return Err(wrong(CategoriesFault::TooLarge(MAX_SIZE)));
        }
        let text = std::fs::read(&path).map_err(|error| wrong(error.into()))?;
        let json: serde_json::Value = serde_json::from_slice(&text).map_err(|error| wrong(error.into()))?;
        let listed = json["categories"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(listed.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect())
    };
    Some(read())
}

/// Compiles the CEL rules in the dependencies of a bundle and returns the errors.
fn rules(dir: &Path, known: Option<&Whole>, limits: &Limits) -> Vec<String> {
    if !has_rules(dir, known, limits) {
        return Vec::new();
    }
    let options = bundle::Options { image: "", image_template: None, migrate: false, limits: limits.clone() };
    // Other problems of the bundle are already reported.
    let Ok(rendered) = bundle::render(dir, &options) else { return Vec::new() };
    let Ok(raw) = Raw::parse(&rendered.json, limits.depth) else { return Vec::new() };
    let facts = Facts::read(raw);
    let rules = facts.needs.iter().flat_map(|requirement| requirement.need.rules());
    let wrong = rules.filter_map(|rule| Rule::compile(rule).err().map(|why| (rule, why)));
    wrong.map(|(rule, why)| format!("Invalid CEL expression {rule:?}: {why}")).collect()
}

/// Returns whether a file of the bundle can contain a rule. Few bundles do, and the others need no rendering.
fn has_rules(dir: &Path, known: Option<&Whole>, limits: &Limits) -> bool {
    const RULE: &str = "olm.constraint";
    let has = |text: &[u8]| match std::str::from_utf8(text) {
        Ok(text) => text.contains(RULE),
        Err(_) => String::from_utf8_lossy(text).contains(RULE),
    };
    let folders: &[&str] = match known {
        // In manifests, only the annotations of the CSV contain properties.
        Some(known) => {
            let mut annotations =
                known.of_kind("ClusterServiceVersion").map(|csv| &csv.value["metadata"]["annotations"]);
            if annotations.any(|annotations| annotations.to_string().contains(RULE)) {
                return true;
            }
            &["metadata"]
        }
        None => &["manifests", "metadata"],
    };
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(dir.join(folder)).ok());
    let plain = files
        .flatten()
        .flatten()
        .filter(|entry| entry.metadata().is_ok_and(|it| it.is_file() && it.len() <= limits.file_size));
    let mut texts = plain.filter_map(|entry| std::fs::read(entry.path()).ok());
    texts.any(|text| has(&text))
}
