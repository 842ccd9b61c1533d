//! `opm mirror plan`: shows the selection and its size.

use std::path::PathBuf;

use mirror::known_blobs::KnownBlobs;
use mirror::plan::mapping_line;
use mirror::set::write_whole;

use super::flags::{self, ChoiceFlags, Input, MoveFlags, TargetFlags, read, unresolved};
use crate::exit::{CommandResult, Failure};
use crate::images::TlsFlags;
use crate::printer::Printer;

/// Show what would be mirrored, and its size
#[derive(clap::Args)]
#[command(
    long_about = "Show what would be mirrored, and its size.\n\n\
        opm reads the catalogs and resolves every image to its digest, but fetches only manifests of the images. It shows \
        packages, bundles, images, the size of all unique blobs, and how much remains to fetch, given --have. --lock writes the \
        selection, with every image by digest, for 'pull' and 'copy'.\n\n\
        The exit code is 1 if an image is missing.",
    after_help = "Examples:\n  \
        opm mirror plan imageset.yaml\n  \
        opm mirror plan imageset.yaml --lock lock.json --have last-set\n  \
        opm mirror plan imageset.yaml -o mapping --to registry.example.com/mirror\n  \
        opm mirror plan imageset.yaml --to registry.example.com/mirror --resources cluster-resources\n  \
        opm mirror plan imageset.yaml -o json"
)]
pub(super) struct PlanArgs {
    /// ImageSetConfiguration or lock file, or '-' for standard input
    #[arg(value_name = "FILE|LOCK")]
    file: String,
    /// Output format; mapping prints one line SOURCE=DESTINATION per image
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json", "mapping"])]
    output: String,
    /// Write the lock to this file
    #[arg(long, value_name = "OUT")]
    lock: Option<PathBuf>,
    /// Existing blobs: a set directory, its blobs.txt or lock.json, or a list from 'verify --have'
    #[arg(long, visible_alias = "since", value_name = "DIR|FILE")]
    have: Vec<PathBuf>,
    /// Destination registry with an optional path prefix
    #[arg(long, value_name = "REGISTRY[/PATH]")]
    to: Option<String>,
    /// With --to, directory for the objects that point clusters to the mirror
    #[arg(long, value_name = "DIR", requires = "to")]
    resources: Option<PathBuf>,
    /// Maximum number of repository path components; excess components are joined with '-'
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_nested_paths: Option<u16>,
    #[command(flatten)]
    choice: ChoiceFlags,
    #[command(flatten)]
    moving: MoveFlags,
}

pub(super) fn run(args: &PlanArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let target = args.to.as_ref().map(|to| flags::target(to, args.max_nested_paths)).transpose()?;
    let Input { request, options, .. } = read(&args.file, &args.choice, printer)?;
    let have = KnownBlobs::read(&args.have)?;
    let run = args.moving.open_scratch(tls)?;
    let report = mirror::plan::plan(request, &options, &have, target.as_ref(), &run.session()?).map_err(unresolved)?;
    match args.output.as_str() {
        "json" => printer.json(&report)?,
        "mapping" => {
            for image in &report.lock.images {
                printer.data().write_all(mapping_line(image, target.as_ref()).as_bytes())?;
            }
        }
        _ => write!(printer.data(), "{report}")?,
    }
    if report.incomplete {
        return Err(Failure::Reported);
    }
    if let (Some(resources), Some(target)) = (&args.resources, &target) {
        let flags = TargetFlags { resources: resources.clone(), ..TargetFlags::default() };
        flags.write_resources(&report.lock, target, tls, printer)?;
    }
    if let Some(out) = &args.lock {
        write_whole(out, report.lock.to_text().as_bytes())?;
        printer.report(&format!("lock: {}, {}", out.display(), report.lock.digest()));
    }
    Ok(())
}
