//! `opm mirror prune`: removes mirrored images that no kept set needs.

use std::path::{Path, PathBuf};

use image::Reference;
use mirror::destination::MirrorDestination;
use mirror::listed;
use mirror::set::{read_lock, write_whole};

use super::flags::{self, MoveFlags};
use crate::exit::{CommandResult, Failure, in_path};
use crate::images::TlsFlags;
use crate::output::OutputFlag;
use crate::printer::Printer;

/// Remove mirrored images that no kept set needs from a registry
#[derive(clap::Args)]
#[command(
    long_about = "Remove mirrored images that no kept set needs from a registry.\n\n\
        The registry records the sets that 'push' and 'copy' uploaded. opm lists the images of these sets that no --keep lock \
        needs, and removes them with --yes. It keeps images from other sources, and images that a tag of someone else needs, \
        directly or through an index. It removes only manifests; the garbage collection of the registry frees the space.\n\n\
        --list reads the images from a file instead, as written by 'oc-mirror delete --generate' or --write-list. Combined \
        with --keep, images that the kept sets need stay.",
    after_help = "Examples:\n  \
        opm mirror prune registry.example.com:5000/mirror --list delete-images.yaml --yes\n  \
        opm mirror prune registry.example.com:5000/mirror --keep set/mirror/lock.json\n  \
        opm mirror prune registry.example.com:5000/mirror --keep set/mirror/lock.json --yes"
)]
pub(super) struct PruneArgs {
    /// Registry with an optional path prefix
    #[arg(value_name = "REGISTRY[/PATH]")]
    registry: String,
    /// Lock of a set to keep; can be repeated
    #[arg(long, value_name = "LOCK", required_unless_present = "list")]
    keep: Vec<PathBuf>,
    /// DeleteImageList file with the images to remove
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Write the list of images to remove to this file
    #[arg(long, value_name = "OUT")]
    write_list: Option<PathBuf>,
    /// Remove the images instead of only listing them
    #[arg(long)]
    yes: bool,
    /// Maximum number of repository path components; excess components are joined with '-'
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_nested_paths: Option<u16>,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    moving: MoveFlags,
}

pub(super) fn run(args: &PruneArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let target = flags::target(&args.registry, args.max_nested_paths)?;
    let keep = args.keep.iter().map(|path| read_lock(path)).collect::<Result<Vec<_>, _>>()?;
    let run = args.moving.open_scratch(tls)?;
    let session = run.session()?;
    let list = args.list.as_ref().map(|file| read_list(file, &target)).transpose()?;
    let found = mirror::prune::find_unneeded(&target, list.as_deref(), &keep, &session)?;
    if let Some(out) = &args.write_list {
        write_whole(out, listed::write(found.images()).as_bytes())?;
    }
    if !args.output.is_json() {
        for image in found.images().keys() {
            writeln!(printer.data(), "{image}")?;
        }
    }
    let report = found.prune(&target, args.yes, &session);
    for (image, names) in &report.foreign {
        printer.report(&format!("keeping {image}: other tags need it: {}", names.join(", ")));
    }
    for (image, error) in &report.failed {
        printer.error(&format!("{image}: {error}"));
    }
    if args.output.is_json() {
        printer.json(&report)?;
    }
    let count = report.images.len();
    let which = report.sets.map(|sets| format!(" of {} of {} sets", sets.unneeded, sets.known)).unwrap_or_default();
    match (report.removed, report.failed.is_empty()) {
        (false, _) => printer.report(&format!("{count} images{which} can be removed; --yes removes them")),
        (true, true) => printer.report(&format!("removed: {count} images{which}")),
        (true, false) => return Err(Failure::Reported),
    }
    Ok(())
}

/// Reads a list, whose images must all be below the target path.
fn read_list(file: &Path, target: &MirrorDestination) -> Result<Vec<Reference>, Failure> {
    let mut limits = crate::limits::from_env()?;
    limits.file_size = limits.file_size.min(listed::LIMIT);
    let shown = file.display().to_string();
    let text = crate::commands::read_input(&shown, &limits).map_err(|error| in_path(file, &error))?;
    let (names, others) = listed::read(&text, target).map_err(|error| error.named(&shown))?;
    match others.is_empty() {
        true => Ok(names),
        false => Err(Failure::message(format!(
            "{shown}: nothing removed, because these images are not below {target}: {}",
            others.join(", ")
        ))),
    }
}
