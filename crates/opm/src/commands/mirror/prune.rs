//! `opm mirror prune`: removes mirrored images that no kept set needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{Reference, Store};
use mirror::listed;
use mirror::prune::{find, find_listed, remove};
use mirror::set::read_lock;

use super::flags::MoveFlags;
use crate::exit::{Failure, Outcome, in_path};
use crate::images::TlsFlags;
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::transfer::Moved;

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
    moving: MoveFlags,
}

pub(super) fn run(args: &PruneArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let nested = args.max_nested_paths.map(usize::from);
    let target = mirror::destination::Target::parse(&args.registry, nested).map_err(Failure::message)?;
    let keep: Result<Vec<_>, mirror::MirrorError> = args.keep.iter().map(|path| read_lock(path)).collect();
    let keep = keep.map_err(Failure::message)?;
    let scratch = Unfinished::private("opm-mirror-")?;
    let moved: Arc<Moved> = Arc::default();
    let client = args.moving.client(tls, Store::open(&scratch.path().join("store"))?, &moved)?;
    let pruning = match &args.list {
        None => find(&client, &target, &keep),
        Some(file) => find_listed(&client, &target, &read_list(file, &target)?, &keep),
    };
    let pruning = pruning.map_err(Failure::message)?;
    if let Some(out) = &args.write_list {
        let list = listed::write(&pruning.images);
        mirror::set::write_whole(out, list.as_bytes()).map_err(Failure::message)?;
    }
    for image in pruning.images.keys() {
        writeln!(printer.data(), "{image}")?;
    }
    for (image, names) in &pruning.foreign {
        printer.report(&format!("keeping {image}: other tags need it: {}", names.join(", ")));
    }
    let (known, sets, count) = (pruning.known, pruning.sets.len(), pruning.images.len());
    if !args.yes {
        let which = if args.list.is_some() { String::new() } else { format!(" of {sets} of {known} sets") };
        printer.report(&format!("{count} images{which} can be removed; --yes removes them"));
        return Ok(());
    }
    let failed = remove(&client, &target, &pruning);
    for (image, error) in &failed {
        printer.error(&format!("{image}: {error}"));
    }
    if !failed.is_empty() {
        return Err(Failure::Reported);
    }
    let which = if args.list.is_some() { String::new() } else { format!(" of {sets} of {known} sets") };
    printer.report(&format!("removed: {count} images{which}"));
    Ok(())
}

/// Reads a list, whose images must all be below the target path.
fn read_list(file: &Path, target: &mirror::destination::Target) -> Result<Vec<Reference>, Failure> {
    let mut limits = crate::limits::from_env()?;
    limits.file_size = limits.file_size.min(listed::LIMIT);
    let shown = file.display().to_string();
    let text = crate::commands::read_input(&shown, &limits).map_err(|error| in_path(file, &error))?;
    let (names, others) = listed::read(&text, target).map_err(|error| Failure::message(format!("{shown}: {error}")))?;
    match others.is_empty() {
        true => Ok(names),
        false => Err(Failure::message(format!(
            "{shown}: nothing removed, because these images are not below {target}: {}",
            others.join(", ")
        ))),
    }
}
