//! Bundle checks beyond those of the Go tool: by suite, by name, and as configured.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bundle::rehearse::v1::{self, Certificates, Profile, Runtime};
use bundle::rehearse::{Bundle, Level, Mode, OlmTarget, v0};
use bundle::{CheckInput, Finding, Optional, Severity, VALIDATORS};
use clap::builder::TypedValueParser;
use rayon::prelude::*;
use source::Images;

use super::previous::{self, Previous};
use super::validate::{compatible, custom_categories};
use super::{catalogs, packed, repository};
use crate::checks_file::Configuration;
use crate::choice::choice;
use crate::exit::{Failure, Outcome};
use crate::findings::{self, Output, Waived};
use crate::printer::Printer;
use crate::{limits, table};

/// The flags for checks beyond those of the Go tool.
#[derive(clap::Args)]
pub(super) struct SuiteFlags {
    /// Check suites to run; can be repeated
    #[arg(long, value_name = "SUITE", value_delimiter = ',', value_parser = SUITES)]
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
    output: Output,
}

const SUITES: [&str; 6] = ["olm-v0", "olm-v1", "community", "certified", "marketplace", "all"];

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
            && self.output == Output::Text
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.optional_values
            .iter()
            .find_map(|given| given.split_once('=').filter(|(name, _)| *name == key))
            .map(|it| it.1)
    }
}

/// Lists all available checks.
pub(super) fn list(printer: &mut Printer) -> Outcome {
    let rows = VALIDATORS.iter().map(|validator| {
        let mut labels = vec![format!("name={}", validator.name)];
        labels.extend(validator.suites.iter().map(|suite| format!("suite={suite}")));
        vec![validator.name.to_owned(), labels.join(","), validator.about.to_owned()]
    });
    let text = table::text(&["NAME", "LABELS", "DESCRIPTION"], rows.collect());
    printer.data().write_all(text.as_bytes())?;
    Ok(())
}

/// Returns the names of the selected checks.
fn names(flags: &SuiteFlags) -> Result<Vec<&'static str>, Failure> {
    let mut names: Vec<&'static str> = Vec::new();
    for validator in VALIDATORS {
        // Checks that access registries or are specific to one marketplace must be selected by name.
        let by_name_only = matches!(validator.name, "operatorhub" | "multiarch" | "images" | "marketplace");
        let all = flags.suite.iter().any(|suite| suite == "all") && !by_name_only;
        let named = flags.suite.iter().any(|suite| validator.suites.contains(&&**suite));
        let asked = flags.images && matches!(validator.name, "multiarch" | "images");
        if all || named || asked {
            names.push(validator.name);
        }
    }
    if let Some(selector) = &flags.select_optional {
        let selected: Vec<&'static str> = VALIDATORS
            .iter()
            .filter(|validator| validator.optional && selects(selector, validator.name, validator.suites))
            .map(|validator| validator.name)
            .collect();
        if selected.is_empty() {
            let text = format!("invalid command args: selector \"{selector}\" does not match any validator labels");
            return Err(Failure::message(text));
        }
        names.extend(selected.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
    }
    Ok(names)
}

/// Returns whether a label selector matches a check.
fn selects(selector: &str, name: &str, suites: &[&str]) -> bool {
    selector.split(',').map(str::trim).filter(|part| !part.is_empty()).all(|part| {
        let (part, wanted) = match part.split_once("!=") {
            Some((key, value)) => ((key, value), false),
            None => (part.split_once("==").or_else(|| part.split_once('=')).unwrap_or((part, "")), true),
        };
        let (key, value) = (part.0.trim(), part.1.trim());
        let has = match key {
            "name" => value.is_empty() || value == name,
            "suite" => value.is_empty() && !suites.is_empty() || suites.contains(&value),
            _ => false,
        };
        has == wanted
    })
}

/// Checks bundles, each given as a directory and, for local bundles, the path that the user typed.
pub(super) fn run(
    bundles: &[(PathBuf, Option<&str>)],
    optional: &[Optional],
    flags: &SuiteFlags,
    images: &Images,
    printer: &mut Printer,
) -> Outcome {
    let previous = flags.previous.as_deref().map(|it| previous::open(it, images)).transpose()?;
    let request = Request { optional, flags, images, previous: previous.as_ref() };
    let each = bundles.par_iter().map(|(root, shown)| check_bundle(root, *shown, &request));
    let (mut found, mut waived) = (Vec::new(), Vec::new());
    for one in each.collect::<Vec<_>>() {
        let (findings, accepted) = one?;
        found.extend(findings);
        waived.extend(accepted);
    }
    let (mut catalogs, mut registries) = (flags.catalog.clone(), flags.bundle_registry.clone());
    if let Some(repo) = &flags.repo {
        found.extend(repository::siblings(repo)?);
        let (found, allowed) = repository::catalogs_and_registries(repo)?;
        catalogs.extend(found.into_iter().map(|path| path.display().to_string()));
        registries.extend(allowed);
    }
    found.extend(catalogs::check(&catalogs, &registries, images, printer)?);
    if let Some(file) = &flags.package_manifest {
        found.extend(repository::package_manifest(file)?);
    }
    findings::sort(&mut found);
    let passed = !found.iter().any(|finding| finding.severity >= flags.fail_on);
    findings::print_with_waived(&found, &waived, passed, flags.output, printer)?;
    if passed { Ok(()) } else { Err(Failure::Reported) }
}

/// Caches the platforms of images, as registries report them.
#[derive(Default)]
struct PlatformCache(RefCell<BTreeMap<String, Platforms>>);

/// Pairs of operating system and architecture, or why they are unknown.
type Platforms = Result<Vec<(String, String)>, String>;

impl PlatformCache {
    fn platforms(&self, image: &str, images: &Images) -> Platforms {
        let mut known = self.0.borrow_mut();
        known
            .entry(image.to_owned())
            .or_insert_with(|| images.platforms(image).map_err(|error| error.to_string()))
            .clone()
    }
}

/// The checks to run on each bundle.
struct Request<'a> {
    optional: &'a [Optional],
    flags: &'a SuiteFlags,
    images: &'a Images,
    previous: Option<&'a Previous<'a>>,
}

/// Returns the findings about a bundle, and those that waivers accept.
fn check_bundle(
    root: &Path,
    shown: Option<&str>,
    request: &Request<'_>,
) -> Result<(Vec<Finding>, Vec<Waived>), Failure> {
    let Request { optional, flags, images, previous } = *request;
    let limits = limits::from_env()?;
    let configuration = Configuration::find(flags.checks.as_deref(), shown.map(Path::new))?;
    let whole = bundle::read_whole(root, &limits).ok();
    let mut found = compatible(root, whole.as_ref(), optional, &limits).list;
    if let Some(whole) = whole {
        let index = flags.value("index-path").map(|path| {
            let text = std::fs::read_to_string(path);
            (path, text)
        });
        let categories = custom_categories();
        // Several checks query the same images.
        let cache = PlatformCache::default();
        let platforms = |image: &str| cache.platforms(image, images).map_err(Into::into);
        let given = CheckInput {
            kubernetes: flags.value("k8s-version"),
            index,
            platforms: Some(&platforms),
            container_tool: flags.value("container-tools"),
            categories: categories.as_ref(),
            ..CheckInput::new(&whole, packed::size(root, &whole))
        };
        let mut names = names(flags)?;
        if shown.is_some() && repository::uses_catalog(root) {
            names.retain(|name| !bundle::WITHOUT_CATALOG.contains(name));
        }
        found.extend(bundle::run_validators(&given, &names).list);
        if let Some(previous) = previous {
            found.extend(previous.check(&whole)?);
        }
        let name = whole.csv().map(|csv| csv.name().to_owned()).unwrap_or_default();
        add_rehearsals(whole, flags, &mut found);
        found = found.into_iter().map(|finding| finding.of(&name)).collect();
    }
    // Two checks can report the same finding.
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|finding| seen.insert((finding.message.clone(), finding.file.clone(), finding.pointer.clone())));
    findings::locate(&mut found, root, shown, &limits);
    let mut waived = configuration.apply(&mut found);
    for finding in found.iter_mut().chain(waived.iter_mut().map(|it| &mut it.finding)) {
        let plain = finding.message.trim_start_matches("Error: ").trim_start_matches("Warning: ");
        finding.message = plain.trim_start_matches("Value : ").trim_start_matches(": ").to_owned();
    }
    Ok((found, waived))
}

/// Adds what each selected OLM generation would refuse.
fn add_rehearsals(whole: bundle::Whole, flags: &SuiteFlags, found: &mut Vec<Finding>) {
    let asked = |suite: &str| flags.suite.iter().any(|it| it == suite || it == "all");
    let (v0, v1) = (asked("olm-v0"), asked("olm-v1"));
    if !v0 && !v1 {
        return;
    }
    let place = |whole: &bundle::Whole| whole.csv().map(|csv| (csv.file.clone(), csv.document));
    let csv = place(&whole);
    // OLM v0 reads only the first document of each file; for nearly all bundles that is everything.
    let same = whole.has_first_documents_only();
    if v0 && !same {
        let first = whole.clone().first_documents();
        let csv = place(&first);
        rehearse_v0(&Bundle::without_schemas(first), csv.as_ref(), found);
    }
    let bundle = Bundle::without_schemas(whole);
    if v0 && same {
        rehearse_v0(&bundle, csv.as_ref(), found);
    }
    if v1 {
        rehearse_v1(&bundle, csv.as_ref(), found);
    }
}

fn add_limits(found: &mut Vec<Finding>, limits: Vec<bundle::rehearse::Limit>) {
    for limit in limits {
        let (severity, words) = match limit.level {
            Level::Over => (Severity::Error, "more than"),
            Level::Near => (Severity::Warning, "near"),
        };
        let text = format!("{} has {}, {words} {} for {}", limit.object, limit.size, limit.limit, limit.what);
        found.push(Finding::new(limit.id, severity, text));
    }
}

fn add_refused_notes(found: &mut Vec<Finding>, notes: Vec<bundle::rehearse::Note>) {
    let refused = notes.into_iter().filter(|note| note.refused);
    found.extend(refused.map(|note| Finding::new(note.id, Severity::Error, note.message).about(note.object)));
}

/// The file and document of a CSV.
type Place = (String, usize);

fn add_refusal(found: &mut Vec<Finding>, refusal: bundle::rehearse::Refusal, csv: Option<&Place>) {
    let finding = Finding::new(refusal.id, Severity::Error, refusal.message);
    found.push(match csv {
        Some((file, document)) => finding.at(file, *document, ""),
        None => finding,
    });
}

fn rehearse_v1(bundle: &Bundle, csv: Option<&Place>, found: &mut Vec<Finding>) {
    let options = v1::Options {
        profile: Profile::default(),
        namespace: format!("{}-system", bundle.package),
        extension: bundle.package.clone(),
        certificates: Certificates::CertManager,
        config: None,
    };
    match v1::install(bundle, &options) {
        Err(refusal) => add_refusal(found, refusal, csv),
        Ok(installed) => {
            add_limits(
                found,
                bundle::rehearse::check_limits_of(bundle, &installed.objects, OlmTarget::V1(Runtime::Helm)),
            );
            add_refused_notes(found, installed.notes);
        }
    }
    for field in &bundle.unknown {
        let text = format!("{} is no field of Kubernetes and vanishes", field.pointer);
        let finding = Finding::new("rehearse-unknown-field", Severity::Warning, text);
        found.push(finding.at(&field.file, field.document, field.pointer.clone()));
    }
}

fn rehearse_v0(bundle: &Bundle, csv: Option<&Place>, found: &mut Vec<Finding>) {
    let namespace = format!("{}-system", bundle.package);
    let targets = match &*bundle.modes {
        [] => vec![String::new()],
        modes if modes.contains(&Mode::AllNamespaces) => vec![String::new()],
        modes if modes.contains(&Mode::OwnNamespace) => vec![namespace.clone()],
        modes if modes.contains(&Mode::SingleNamespace) => vec!["watched".into()],
        _ => vec!["watched".into(), "watched-too".into()],
    };
    let options = v0::Options { namespace, targets, group: "operators".into(), config: None };
    match v0::install(bundle, &options) {
        Err(refusal) => add_refusal(found, refusal, csv),
        Ok(installed) => {
            add_limits(found, bundle::rehearse::check_limits_of(bundle, installed.objects(), OlmTarget::V0));
            add_refused_notes(found, installed.notes);
        }
    }
}
