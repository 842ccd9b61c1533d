//! Which findings does this bundle have? Every command and page asks [`check`].

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::needs::BundleNeeds;
use fbc::Limits;
use fbc::json::Raw;
use fbc::spelling::calendar::Date;
use olm_cel::CelRule;

use super::configuration::Configuration;
use super::content::{ContentOptions, check_content};
use super::format::check_format;
use super::hub::Categories;
use super::repository;
use super::suites::{CheckInput, SUITES, VALIDATORS, run_validators};
use super::{CheckError, Optional};
use crate::file::{self, ReadOutcome};
use crate::finding::{Finding, Severity, Waived};
use crate::loaded::{self, LoadedBundle};
use crate::rehearse::{OlmGeneration, RehearsalInput, Rehearse, limits};
use crate::render::{self, render};
use crate::review::crd::{self, Rules};
use crate::whole::ParsedBundle;

/// What to check of a bundle.
#[derive(Clone, Copy)]
pub struct BundleCheck<'a> {
    /// The limits for reading the bundle.
    pub limits: &'a Limits,
    /// Today's date, on which waivers are valid or not.
    pub today: Date,
    /// The optional checks of the existing tools.
    pub optional: &'a [Optional],
    pub suites: &'a [String],
    /// A selector for the labels of optional checks.
    pub selector: Option<&'a str>,
    /// Whether to run the checks that look up images in registries.
    pub images: bool,
    /// The Kubernetes version that bundles target.
    pub kubernetes: Option<&'a str>,
    /// The Dockerfile of the index that contains the bundle.
    pub index: Option<&'a str>,
    /// The container tool that the user names.
    pub container_tool: Option<&'a str>,
    /// The categories to accept instead of the standard ones.
    pub categories: Option<&'a Categories>,
    /// Looks up the platforms of an image.
    pub platforms: Option<&'a Platforms<'a>>,
    /// The configuration file; by default the nearest one of a directory that the user named.
    pub configuration: Option<&'a Path>,
    /// Whether to report waivers that match no finding. They can be meant for suites that do not run.
    pub unused_waivers: bool,
}

/// Looks up the platforms of an image: operating systems with architectures.
pub type Platforms<'a> = dyn Fn(&str) -> Result<Vec<(String, String)>, PlatformsError> + Sync + 'a;

/// Why the platforms of an image are unknown.
#[derive(Debug, Clone, thiserror::Error)]
#[error(transparent)]
pub struct PlatformsError(Arc<dyn Error + Send + Sync>);

impl PlatformsError {
    /// Wraps the reason.
    pub fn new(reason: impl Error + Send + Sync + 'static) -> PlatformsError {
        PlatformsError(Arc::new(reason))
    }
}

impl<'a> BundleCheck<'a> {
    /// Returns the request for the checks of the existing tools alone.
    pub fn plain(limits: &'a Limits, today: Date) -> BundleCheck<'a> {
        BundleCheck {
            limits,
            today,
            optional: &[],
            suites: &[],
            selector: None,
            images: false,
            kubernetes: None,
            index: None,
            container_tool: None,
            categories: None,
            platforms: None,
            configuration: None,
            unused_waivers: false,
        }
    }

    fn has_suite(&self, name: &str) -> bool {
        self.suites.iter().any(|suite| suite == name || suite == "all" && name != "marketplace")
    }

    /// Leaves the selected suites to a finding, and makes it a warning if none of them rejects a bundle for it.
    fn attribute(&self, finding: &mut Finding) {
        // In the order of the table, each once.
        let suites = SUITES.into_iter().filter(|suite| finding.suites.contains(suite));
        let selected: Vec<_> = suites.clone().filter(|suite| self.has_suite(suite)).collect();
        let is_selected = !selected.is_empty();
        finding.suites = if is_selected { selected } else { suites.collect() };
        if is_selected && finding.severity == Severity::Error && finding.rejected_by().next().is_none() {
            finding.severity = Severity::Warning;
        }
    }

    /// Returns the names of the validators to run.
    fn validators(&self) -> Result<Vec<&'static str>, CheckError> {
        let mut names: Vec<&'static str> = Vec::new();
        for validator in VALIDATORS {
            // Checks that access registries or are specific to one marketplace must be selected by name.
            let by_name_only = matches!(validator.name, "operatorhub" | "multiarch" | "images" | "marketplace");
            let all = self.suites.iter().any(|suite| suite == "all") && !by_name_only;
            let named = self.suites.iter().any(|suite| validator.suites.contains(&&**suite));
            let asked = self.images && matches!(validator.name, "multiarch" | "images");
            if all || named || asked {
                names.push(validator.name);
            }
        }
        if let Some(selector) = self.selector {
            let selected: Vec<&'static str> = VALIDATORS
                .iter()
                .filter(|validator| validator.optional && selects(selector, validator.name, validator.suites))
                .map(|validator| validator.name)
                .collect();
            if selected.is_empty() {
                return Err(CheckError::Selector(selector.to_owned()));
            }
            names.extend(selected.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
        }
        Ok(names)
    }
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

/// A bundle directory to check. It may be no bundle at all.
#[derive(Debug)]
pub struct BundleDirectory {
    path: PathBuf,
    /// The path as the user wrote it; `None` for an image.
    shown: Option<String>,
    loaded: Option<LoadedBundle>,
}

impl BundleDirectory {
    /// Reads a directory; `shown` is its path as the user wrote it, if the user can open it.
    pub fn read(path: PathBuf, shown: Option<String>, limits: &Limits) -> BundleDirectory {
        let loaded = LoadedBundle::from_directory(path.clone(), shown.clone(), limits).ok();
        BundleDirectory { path, shown, loaded }
    }

    /// Returns the bundle, unless it cannot be read.
    pub fn whole(&self) -> Option<&ParsedBundle> {
        self.loaded.as_ref().map(|loaded| &loaded.whole)
    }
}

/// What is known about the version before a bundle.
#[derive(Debug)]
pub enum Previous<'a> {
    /// It was read.
    Bundle(Cow<'a, ParsedBundle>),
    /// This catalog has none.
    NotIn(&'a str),
}

/// The findings about a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedBundle {
    /// The findings, in the order of the checks. Messages are those of the existing tools, so that scripts match them.
    pub findings: Vec<Finding>,
    /// The findings that waivers accept.
    pub waived: Vec<Waived>,
}

impl CheckedBundle {
    /// Removes the prefixes that the existing tools put before messages.
    #[must_use]
    pub fn without_prefixes(mut self) -> CheckedBundle {
        for finding in self.findings.iter_mut().chain(self.waived.iter_mut().map(|it| &mut it.finding)) {
            let plain = finding.message.trim_start_matches("Error: ").trim_start_matches("Warning: ");
            finding.message = plain.trim_start_matches("Value : ").trim_start_matches(": ").to_owned();
        }
        self
    }
}

/// Returns the findings about a bundle, with positions, and after the levels and waivers of its configuration.
///
/// # Errors
/// Fails if the configuration cannot be read, or if the request selects no check.
pub fn check(
    bundle: BundleDirectory,
    request: &BundleCheck<'_>,
    previous: Option<Previous<'_>>,
) -> Result<CheckedBundle, CheckError> {
    let BundleDirectory { path, shown, loaded } = bundle;
    let configuration = Configuration::find(request.configuration, shown.as_deref().map(Path::new))?;
    let mut found = compatible(&path, loaded.as_ref().map(|loaded| &loaded.whole), request);
    found.iter_mut().for_each(|finding| finding.suites = SUITES.to_vec());
    if let Some(loaded) = loaded {
        // Several checks look up the same images.
        let known: RefCell<BTreeMap<String, Result<Vec<_>, PlatformsError>>> = RefCell::default();
        let platforms = request.platforms.map(|platforms| {
            let known = &known;
            move |image: &str| known.borrow_mut().entry(image.to_owned()).or_insert_with(|| platforms(image)).clone()
        });
        let input = CheckInput {
            kubernetes: request.kubernetes,
            index: request.index.map(|path| (path, file::read_text(Path::new(path)))),
            platforms: platforms.as_ref().map(|platforms| platforms as _),
            container_tool: request.container_tool,
            categories: request.categories,
            ..CheckInput::new(&loaded.whole, loaded.size())
        };
        let mut names = request.validators()?;
        if shown.is_some() && repository::is_in_catalog(&path) {
            names.retain(|name| !repository::WITHOUT_CATALOG.contains(name));
        }
        found.extend(run_validators(&input, &names).list);
        match previous {
            Some(Previous::Bundle(old)) => {
                let changes = crd::findings(&old, &loaded.whole, Rules::Olm);
                found.extend(changes.into_iter().map(|finding| finding.in_suites(&["olm-v1"])));
            }
            Some(Previous::NotIn(catalog)) => {
                let text = format!("no version in {catalog} comes before it: its CRDs were not compared");
                found.push(Finding::new("previous-unknown", Severity::Info, text));
            }
            None => {}
        }
        let name = loaded.whole.csv().map(|csv| csv.name().to_owned()).unwrap_or_default();
        if found.iter().any(is_unreadable) {
            // What OLM and these rules say then only follows from the file that cannot be parsed.
            found.retain(|finding| !AFTER_UNREADABLE.contains(&finding.id));
        } else {
            add_rehearsals(loaded.whole, request, &mut found);
        }
        found.iter_mut().for_each(|finding| finding.bundle.clone_from(&name));
    }
    let mut found = unique(found);
    found.iter_mut().for_each(|finding| request.attribute(finding));
    loaded::locate(&mut found, &path, shown.as_deref(), request.limits);
    let waived = configuration.apply(&mut found, request.today, request.unused_waivers);
    Ok(CheckedBundle { findings: found, waived })
}

/// The rules about objects that can be in a file that cannot be parsed.
const AFTER_UNREADABLE: [&str; 6] =
    ["owned-crd", "crd-not-owned", "bundle-owned-crd", "bundle-crd-not-owned", "account-missing", "csv-example-api"];

/// Returns whether a finding is a syntax error of a manifest.
fn is_unreadable(finding: &Finding) -> bool {
    finding.id == "bundle-readable" && finding.position.is_some()
}

/// Merges findings that several checks report.
fn unique(found: Vec<Finding>) -> Vec<Finding> {
    let mut seen: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    let mut unique: Vec<Finding> = Vec::with_capacity(found.len());
    for finding in found {
        match seen.entry((finding.message.clone(), finding.file.clone(), finding.pointer.clone())) {
            Entry::Occupied(first) => {
                let first = &mut unique[*first.get()];
                first.suites.extend(finding.suites);
            }
            Entry::Vacant(place) => {
                place.insert(unique.len());
                unique.push(finding);
            }
        }
    }
    unique
}

/// Runs the checks of the existing tools; reuses `known` instead of reading the manifests again.
fn compatible(dir: &Path, known: Option<&ParsedBundle>, request: &BundleCheck<'_>) -> Vec<Finding> {
    let limits = request.limits;
    let format = check_format(dir, known, limits);
    let mut found = format.list;
    let asked = ContentOptions { known, optional: request.optional, categories: request.categories };
    // Without the manifests directory there are no objects to check.
    if found.is_empty() || file::is_directory(&dir.join("manifests")) {
        found.extend(check_content(dir, &asked, limits).list);
    }
    // The cause comes before what follows from it.
    found.sort_by_key(|finding| !is_unreadable(finding));
    if !format.has_broken_rule && has_rules(dir, known, limits) {
        found.extend(broken_rules(dir, limits));
    }
    found
}

/// Compiles the CEL rules in the dependencies of a bundle and reports the errors.
fn broken_rules(dir: &Path, limits: &Limits) -> Vec<Finding> {
    let options = render::RenderOptions { image: "", image_template: None, migrate: false, limits: limits.clone() };
    // Other problems of the bundle are already reported.
    let Ok(rendered) = render(dir, &options) else { return Vec::new() };
    let Ok(raw) = Raw::parse(&rendered.json, limits.depth) else { return Vec::new() };
    let facts = BundleNeeds::read(raw);
    let rules = facts.needs.iter().flat_map(|requirement| requirement.need.rules());
    let wrong = rules.filter_map(|rule| CelRule::compile(rule).err().map(|why| (rule, why)));
    let finding = |text| Finding::new("dependency-rule", Severity::Error, text);
    wrong.map(|(rule, why)| finding(format!("Invalid CEL expression {rule:?}: {why}"))).collect()
}

/// Returns whether a file of the bundle can contain a rule. Few bundles do, and the others need no rendering.
fn has_rules(dir: &Path, known: Option<&ParsedBundle>, limits: &Limits) -> bool {
    const RULE: &str = "olm.constraint";
    let folders: &[&str] = match known {
        // In manifests, only the annotations of the CSV contain properties.
        Some(known) => {
            let mut annotations =
                known.of_kind(fbc::csv::KIND).filter_map(|csv| csv.value.pointer("/metadata/annotations"));
            if annotations.any(|annotations| annotations.to_string().contains(RULE)) {
                return true;
            }
            &["metadata"]
        }
        None => &["manifests", "metadata"],
    };
    let mut text = Vec::new();
    folders.iter().map(|folder| dir.join(folder)).any(|folder| {
        file::names(&folder, limits).unwrap_or_default().iter().any(|name| {
            let read = file::read(&folder.join(name), limits, &mut text);
            matches!(read, Ok(ReadOutcome::Read)) && memchr::memmem::find(&text, RULE.as_bytes()).is_some()
        })
    })
}

/// Adds what each selected OLM generation would refuse.
fn add_rehearsals(whole: ParsedBundle, request: &BundleCheck<'_>, found: &mut Vec<Finding>) {
    let (v0, v1) = (request.has_suite("olm-v0"), request.has_suite("olm-v1"));
    if !v0 && !v1 {
        return;
    }
    let namespace = Rehearse::new(OlmGeneration::V1).namespace_of(&whole);
    let place = |whole: &ParsedBundle| whole.csv().map(|csv| (csv.file.clone(), csv.document));
    let mut rehearse = |generation, bundle: &RehearsalInput, csv: Option<&(String, usize)>| {
        let prediction = Rehearse::new(generation).predict(bundle, &namespace);
        let findings = prediction.findings(bundle, csv.map(|(file, document)| (file.as_str(), *document)));
        // Notes for those who install the bundle are no findings about it.
        found.extend(findings.into_iter().filter(|finding| finding.severity > Severity::Info));
        prediction.refusal.is_none()
    };
    // OLM v0 reads only the first document of each file; for nearly all bundles that is everything.
    let same = whole.has_first_documents_only();
    let first = (v0 && !same).then(|| whole.clone().first_documents());
    let message = match v0 {
        true => limits::check_message(first.as_ref().unwrap_or(&whole)),
        false => Vec::new(),
    };
    let mut installs = false;
    if let Some(first) = first {
        let csv = place(&first);
        installs = rehearse(OlmGeneration::V0, &RehearsalInput::without_schemas(first), csv.as_ref());
    }
    let csv = place(&whole);
    let bundle = RehearsalInput::without_schemas(whole);
    if v0 && same {
        installs = rehearse(OlmGeneration::V0, &bundle, csv.as_ref());
    }
    if v1 {
        rehearse(OlmGeneration::V1, &bundle, csv.as_ref());
    }
    // The validator `bundle` checks the size in a ConfigMap.
    if installs {
        found.extend(message.iter().map(|limit| limit.finding().in_suites(&["olm-v0"])));
    }
}
