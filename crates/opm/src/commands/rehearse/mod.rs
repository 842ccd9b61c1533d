//! `opm rehearse`: the objects that OLM would create for a bundle, without a cluster.

#[cfg_attr(not(feature = "cluster"), path = "no_cluster.rs")]
mod cluster;
mod flags;
mod many;
mod report;
mod write;

use std::path::Path;

use bundle::rehearse::v1::{self, Runtime};
use bundle::rehearse::{Bundle, Installer, Level, Limit, Mode, Note, OlmTarget, Refusal, v0};
use bundle::{Finding, Severity, Whole};
use serde_json::Value;
use source::catalog_bundles::{self, BundleOrCatalog};
use source::{Images, LoadedBundle, bundles};

use crate::exit::{Failure, Outcome};
use crate::images::{self, TlsFlags};
use crate::printer::Printer;
use crate::{findings, limits};
use flags::{Generation, Output};

pub(crate) use flags::RehearseArgs;

/// The result of one generation of OLM for a bundle.
struct Rehearsal {
    generation: Generation,
    /// The OLM release to display: `OLM v1 (1.11, helm)`.
    title: String,
    namespace: String,
    targets: Vec<String>,
    refusal: Option<Refusal>,
    objects: Vec<Value>,
    notes: Vec<Note>,
    limits: Vec<Limit>,
    /// Whether objects are applied in phases.
    phases: bool,
}

pub(crate) fn run(args: &RehearseArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let images = images::open(tls, &args.pull);
    let (old, new) = match given(args, &images, printer)? {
        Some(bundles) => bundles,
        None => return Ok(()),
    };
    // An installed operator stays in its namespace.
    let namespace = args.namespace(&old.as_ref().unwrap_or(&new).whole);
    let rehearsal = rehearsed(args, &new, args.olm, &namespace)?;
    let other = rehearsed(args, &new, args.olm.other(), &namespace)?;
    let upgrade = match &old {
        Some(old) => {
            let before = rehearsed(args, old, args.olm, &namespace)?;
            if let Some(refusal) = before.refusal {
                printer.warning(&format!("OLM would not install {}: {}", args.from(), refusal.message));
            }
            Some(bundle::rehearse::upgrade(&before.objects, &rehearsal.objects))
        }
        None => None,
    };
    let mut found = found(&new, &rehearsal);
    if let Some(old) = &old {
        let name = Bundle::new(&new.whole).name;
        let changes = bundle::review::crd::findings(&old.whole, &new.whole, args.olm.crd_rules());
        found.extend(changes.into_iter().map(|finding| finding.of(&name)));
        let suggested = args.namespace(&new.whole);
        if suggested != namespace {
            let why = match args.olm {
                Generation::V0 => "a Subscription stays in its namespace",
                Generation::V1 => "spec.namespace of a ClusterExtension is immutable",
            };
            let message = format!("the upgrade stays in namespace {namespace}, not in {suggested}: {why}");
            found.push(Finding::new("namespace-kept", Severity::Info, message).of(&name));
        }
    }
    if args.against_cluster {
        let name = Bundle::new(&new.whole).name;
        found.extend(cluster::compared(args, &rehearsal, printer)?.into_iter().map(|finding| finding.of(&name)));
    }
    findings::locate_in(&new, &mut found);
    findings::sort(&mut found);
    let installable = rehearsal.refusal.is_none() && !found.iter().any(|finding| finding.severity >= Severity::Error);
    if let Some(how) = args.installer {
        return installer(args, &rehearsal, how, printer);
    }
    if let Some(directory) = &args.output_dir {
        refuse(&rehearsal)?;
        write::directory(&rehearsal.objects, directory)?;
        printer.report(&format!("wrote {} objects to {}", rehearsal.objects.len(), directory.display()));
    }
    match args.output {
        _ if args.output_dir.is_some() && args.output == Output::Text => {}
        Output::Yaml => {
            refuse(&rehearsal)?;
            printer.data().write_all(&write::stream(&rehearsal.objects))?;
        }
        Output::Text => {
            let text = report::text(&new, &rehearsal, &other, &found, upgrade.as_deref());
            printer.data().write_all(text.as_bytes())?;
        }
        Output::Json => {
            let json = report::json(&new, &rehearsal, &other, &found, upgrade.as_deref(), installable);
            printer.data().write_all(format!("{json:#}\n").as_bytes())?;
        }
        Output::Findings(output) => findings::print(&found, installable, output, printer)?,
    }
    if installable { Ok(()) } else { Err(Failure::Reported) }
}

/// Reads the bundle and its predecessor. Returns `None` after rehearsing all bundles of a catalog.
fn given(
    args: &RehearseArgs,
    images: &Images,
    printer: &mut Printer,
) -> Result<Option<(Option<LoadedBundle>, LoadedBundle)>, Failure> {
    let limits = limits::from_env()?;
    let from = |from: &String| -> Result<LoadedBundle, Failure> { Ok(bundles::read(from, images, &limits)?) };
    let opened = match catalog_bundles::open(&args.source, images, &limits)? {
        BundleOrCatalog::Bundle(_) if args.all || args.package.is_some() => {
            return Err(Failure::usage(format!("{} is a bundle: PACKAGE and --all require a catalog", args.source)));
        }
        BundleOrCatalog::Bundle(new) => return Ok(Some((args.from.as_ref().map(from).transpose()?, *new))),
        BundleOrCatalog::Catalog(opened) => opened,
    };
    if args.all {
        many::run(args, &opened, printer)?;
        return Ok(None);
    }
    let Some(wish) = &args.package else {
        return Err(Failure::usage(format!("{} is a catalog: give a package or --all", args.source)));
    };
    let package = opened.package(&wish.package)?;
    let bundle = |name: &str| {
        let read = opened.read(package, name, true)?;
        read.ok_or_else(|| Failure::message(format!("bundle \"{name}\" has no objects")))
    };
    let new = bundle(opened.choose(package, wish.channel.as_deref(), wish.version.as_deref())?)?;
    let old = match &args.from {
        None => None,
        Some(version) => Some(match opened.choose(package, None, Some(version)) {
            Ok(name) => bundle(name)?,
            // A value that is not a version of the package can be a bundle directory or image.
            Err(unknown) if !Path::new(version).is_dir() && !version.contains('/') => return Err(unknown.into()),
            Err(_) => from(version)?,
        }),
    };
    Ok(Some((old, new)))
}

/// Fails with OLM's own message if OLM refuses the bundle.
fn refuse(rehearsal: &Rehearsal) -> Outcome {
    match &rehearsal.refusal {
        None => Ok(()),
        Some(refusal) => Err(Failure::message(format!("{} refuses: {}", rehearsal.title, refusal.message))),
    }
}

fn installer(args: &RehearseArgs, rehearsal: &Rehearsal, how: Installer, printer: &mut Printer) -> Outcome {
    if rehearsal.generation == Generation::V0 {
        return Err(Failure::usage("--installer requires OLM v1: OLM v0 installs with its own permissions"));
    }
    refuse(rehearsal)?;
    let role = bundle::rehearse::installer(&rehearsal.objects, &args.extension(rehearsal), how);
    printer.data().write_all(&write::stream(&[role]))?;
    Ok(())
}

fn rehearsed(
    args: &RehearseArgs,
    read: &LoadedBundle,
    generation: Generation,
    namespace: &str,
) -> Result<Rehearsal, Failure> {
    match generation {
        Generation::V1 => rehearsed_v1(args, read, namespace),
        Generation::V0 => rehearsed_v0(args, read, namespace),
    }
}

/// Returns why OLM refuses a bundle, as far as the metadata in a catalog decides it.
fn refused_by_metadata(args: &RehearseArgs, whole: &Whole, generation: Generation) -> Result<Option<Refusal>, Failure> {
    let (bundle, namespace) = (Bundle::new(whole), args.namespace(whole));
    Ok(match generation {
        Generation::V1 => v1::refused_by_metadata(&bundle, &options_v1(args, &bundle, &namespace)?),
        Generation::V0 => v0::refused_by_metadata(&bundle, &options_v0(args, &bundle, &namespace)?),
    })
}

fn options_v1(args: &RehearseArgs, bundle: &Bundle, namespace: &str) -> Result<v1::Options, Failure> {
    Ok(v1::Options {
        profile: args.profile()?,
        namespace: namespace.to_owned(),
        extension: args.name.clone().unwrap_or_else(|| bundle.package.clone()),
        certificates: args.certificates,
        config: args.config()?,
    })
}

fn options_v0(args: &RehearseArgs, bundle: &Bundle, namespace: &str) -> Result<v0::Options, Failure> {
    let targets = match &*args.watch_namespace {
        [] if bundle.supports(Mode::AllNamespaces) => vec![String::new()],
        [] => vec![namespace.to_owned()],
        given => given.to_vec(),
    };
    let config = args.config()?.and_then(|config| config.get("deploymentConfig").cloned());
    let group = format!("{namespace}-operators");
    Ok(v0::Options { namespace: namespace.to_owned(), targets, group, config })
}

fn rehearsed_v1(args: &RehearseArgs, read: &LoadedBundle, namespace: &str) -> Result<Rehearsal, Failure> {
    let bundle = Bundle::new(&read.whole);
    let options = options_v1(args, &bundle, namespace)?;
    let runtime = options.profile.runtime;
    let title = format!(
        "OLM v1 (1.{}, {})",
        options.profile.minor,
        if runtime == Runtime::Helm { "helm" } else { "boxcutter" }
    );
    let mut rehearsal = Rehearsal {
        generation: Generation::V1,
        title,
        namespace: namespace.to_owned(),
        targets: Vec::new(),
        refusal: None,
        objects: Vec::new(),
        notes: Vec::new(),
        limits: Vec::new(),
        phases: runtime == Runtime::Boxcutter,
    };
    match v1::install(&bundle, &options) {
        Ok(installed) => {
            rehearsal.limits = bundle::rehearse::check_limits(&installed.objects, OlmTarget::V1(runtime));
            rehearsal.objects = installed.objects;
            rehearsal.notes = installed.notes;
            rehearsal.targets = installed.targets;
        }
        Err(refusal) => rehearsal.refusal = Some(refusal),
    }
    Ok(rehearsal)
}

fn rehearsed_v0(args: &RehearseArgs, read: &LoadedBundle, namespace: &str) -> Result<Rehearsal, Failure> {
    let whole = read.whole.clone().first_documents();
    let bundle = Bundle::new(&whole);
    let options = options_v0(args, &bundle, namespace)?;
    let mut rehearsal = Rehearsal {
        generation: Generation::V0,
        title: "OLM v0".into(),
        namespace: namespace.to_owned(),
        targets: options.targets.clone(),
        refusal: None,
        objects: Vec::new(),
        notes: Vec::new(),
        limits: Vec::new(),
        phases: false,
    };
    match v0::install(&bundle, &options) {
        Ok(installed) => {
            rehearsal.limits = bundle::rehearse::check_limits(installed.objects(), OlmTarget::V0);
            let files: Vec<Vec<u8>> =
                whole.files.iter().filter_map(|file| content(&read.directory, &file.name)).collect();
            let measured = bundle::rehearse::check_bundle(&whole, files.iter().map(Vec::as_slice));
            rehearsal.limits.extend(measured);
            rehearsal.objects = installed.plan.into_iter().chain(installed.derived).collect();
            rehearsal.notes = installed.notes;
        }
        Err(refusal) => rehearsal.refusal = Some(refusal),
    }
    Ok(rehearsal)
}

/// Reads a file again; a file that is gone by now counts as absent.
fn content(directory: &Path, name: &str) -> Option<Vec<u8>> {
    std::fs::read(directory.join(name)).ok()
}

/// Collects the findings of a rehearsal.
fn found(read: &LoadedBundle, rehearsal: &Rehearsal) -> Vec<Finding> {
    let bundle = Bundle::new(&read.whole);
    let name = &bundle.name;
    let mut found = Vec::new();
    if let (Some(message), Some(csv)) = (read.whole.several_csvs(), read.whole.csv()) {
        let finding = Finding::new("csv-several", Severity::Error, message).of(name);
        found.push(finding.help("remove all but one").at(&csv.file, csv.document, ""));
    }
    if let Some(refusal) = &rehearsal.refusal {
        let csv = read.whole.csv();
        let mut finding = Finding::new(refusal.id, Severity::Error, refusal.message.clone()).of(name);
        if let Some(csv) = csv {
            finding = finding.at(&csv.file, csv.document, pointer_of(refusal.id));
        }
        found.push(finding);
    }
    for note in &rehearsal.notes {
        let severity = if note.refused { Severity::Error } else { Severity::Info };
        found.push(Finding::new(note.id, severity, note.message.clone()).of(name).about(note.object.clone()));
    }
    for limit in &rehearsal.limits {
        let (severity, words) = match limit.level {
            Level::Over => (Severity::Error, "more than"),
            Level::Near => (Severity::Warning, "near"),
        };
        let message = format!("{} has {}, {words} {} for {}", limit.object, limit.size, limit.limit, limit.what);
        found.push(Finding::new(limit.id, severity, message).of(name));
    }
    for field in &bundle.unknown {
        let message = format!("{} is no field of Kubernetes and vanishes", field.pointer);
        let help = "correct the name of the field, or remove it";
        let finding = Finding::new("rehearse-unknown-field", Severity::Warning, message).of(name).help(help);
        found.push(finding.at(&field.file, field.document, field.pointer.clone()));
    }
    for object in read.whole.objects.iter().filter(|object| object.document > 0) {
        let message =
            format!("{} {} is not in the first document: OLM v0 does not see it", object.kind(), object.name());
        let help = "give each object a file of its own";
        let finding = Finding::new("several-documents", Severity::Warning, message).of(name).help(help);
        found.push(finding.at(&object.file, object.document, ""));
    }
    found
}

/// Returns the JSON pointer of the CSV field that a refusal is about.
fn pointer_of(id: &str) -> &'static str {
    match id {
        "olmv1-all-namespaces" | "olmv1-install-modes" | "olmv1-targets" | "olmv0-install-mode" => "/spec/installModes",
        "olmv1-api-services" => "/spec/apiservicedefinitions/owned",
        "olmv1-webhooks" | "olmv0-webhook-name" | "olmv0-webhook-rules" => "/spec/webhookdefinitions",
        "namespace-name" => "/metadata/annotations",
        "olmv1-dependency" => "/spec/customresourcedefinitions/required",
        _ => "",
    }
}
