//! `opm rehearse`: the objects that OLM would create for a bundle, without a cluster.

mod cluster;
mod flags;
mod report;
mod write;

use std::path::Path;

use bundle::rehearse::{Installer, OlmGeneration, Prediction, Rehearse, rehearse};
use bundle::{Findings, LoadedBundle};
use source::catalog_bundles::{self, BundleOrCatalog, RehearsedBundle};
use source::{Images, bundles};

use crate::exit::{CommandResult, Failure};
use crate::images::{self, TlsFlags};
use crate::printer::Printer;
use crate::{findings, limits};
use flags::RehearsalOutput;

pub(crate) use flags::RehearseArgs;

pub(crate) fn run(args: &RehearseArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let images = images::open(tls, &args.pull);
    let request = args.request()?;
    let Some((old, new)) = given(args, &request, &images, printer)? else { return Ok(()) };
    let mut rehearsal = rehearse(&request, old.as_ref(), &new);
    if let (Some(refusal), Some(from)) = (&rehearsal.previous_refusal, &args.from) {
        printer.warning(&format!("OLM would not install {from}: {}", refusal.message));
    }
    if args.against_cluster {
        let on_cluster = cluster::compared(args, &rehearsal.prediction, printer)?;
        rehearsal.compare_with_cluster(&on_cluster, &new);
    }
    let prediction = &rehearsal.prediction;
    if let Some(how) = args.installer {
        return installer(prediction, how, printer);
    }
    if let Some(directory) = &args.output_dir {
        refuse(prediction)?;
        write::directory(&prediction.objects, directory)?;
        printer.report(&format!("wrote {} objects to {}", prediction.objects.len(), directory.display()));
    }
    match args.output {
        _ if args.output_dir.is_some() && args.output == RehearsalOutput::Text => {}
        RehearsalOutput::Yaml => {
            refuse(prediction)?;
            printer.data().write_all(&write::stream(&prediction.objects))?;
        }
        RehearsalOutput::Text => printer.data().write_all(report::text(&rehearsal).as_bytes())?,
        RehearsalOutput::Json => printer.json(&rehearsal)?,
        RehearsalOutput::Findings(output) => {
            let passed = rehearsal.is_installable();
            findings::print(&Findings { passed, ..rehearsal.findings.clone() }, output, printer)?;
        }
    }
    if rehearsal.is_installable() { Ok(()) } else { Err(Failure::Reported) }
}

/// Reads the bundle and its predecessor. Returns `None` after rehearsing all bundles of a catalog.
fn given(
    args: &RehearseArgs,
    request: &Rehearse,
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
        print_all(&opened.rehearse_all(request, !args.no_pull)?, args.output, printer)?;
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

/// Prints which OLM installs each bundle of a catalog, or its first reason to refuse it.
fn print_all(results: &[RehearsedBundle], output: RehearsalOutput, printer: &mut Printer) -> CommandResult {
    match output {
        RehearsalOutput::Text => Ok(printer.data().write_all(report::all(results).as_bytes())?),
        RehearsalOutput::Json => Ok(printer.json(&results)?),
        _ => Err(Failure::usage("--all supports only the output formats text and json")),
    }
}

/// Fails with OLM's own message if OLM refuses the bundle.
fn refuse(prediction: &Prediction) -> CommandResult {
    match &prediction.refusal {
        None => Ok(()),
        Some(refusal) => Err(Failure::message(format!("{} refuses: {}", prediction.title, refusal.message))),
    }
}

fn installer(prediction: &Prediction, how: Installer, printer: &mut Printer) -> CommandResult {
    if prediction.generation == OlmGeneration::V0 {
        return Err(Failure::usage("--installer requires OLM v1: OLM v0 installs with its own permissions"));
    }
    refuse(prediction)?;
    let role = bundle::rehearse::installer(&prediction.objects, &prediction.extension, how);
    printer.data().write_all(&write::stream(&[role]))?;
    Ok(())
}
