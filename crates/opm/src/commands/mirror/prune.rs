//! `opm mirror prune`: what mirrors put into a registry and nobody needs any more.

use std::path::PathBuf;
use std::sync::Arc;

use image::Store;
use mirror::prune::{find, remove};
use mirror::set::read_lock;

use super::flags::MoveFlags;
use crate::exit::{Failure, Outcome};
use crate::images::TlsFlags;
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::transfer::Moved;

/// Remove from a registry what no kept set needs
#[derive(clap::Args)]
#[command(
    long_about = "Remove from a registry what no kept set needs.\n\n\
        The registry has on record which sets 'push' and 'copy' brought to it. What none of the kept locks needs of them \
        is shown, and removed with --yes. What others brought stays, and so does an image that somebody else has given \
        a tag of their own. Only manifests are removed: the registry's own garbage collection frees the room.",
    after_help = "Examples:\n  \
        opm mirror prune registry.example.com:5000/mirror --keep set/mirror/lock.json\n  \
        opm mirror prune registry.example.com:5000/mirror --keep set/mirror/lock.json --yes"
)]
pub(super) struct PruneArgs {
    /// Registry, with the path in front of all repositories
    #[arg(value_name = "REGISTRY[/PATH]")]
    registry: String,
    /// Lock of a set that stays; can be given several times
    #[arg(long, value_name = "LOCK", required = true)]
    keep: Vec<PathBuf>,
    /// Remove it
    #[arg(long)]
    yes: bool,
    /// How many components the path of a repository may have; what is too much is joined with '-'
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_nested_paths: Option<u16>,
    #[command(flatten)]
    moving: MoveFlags,
}

pub(super) fn run(args: &PruneArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let nested = args.max_nested_paths.map(usize::from);
    let target = mirror::destination::Target::parse(&args.registry, nested).map_err(Failure::message)?;
    let keep: Result<Vec<_>, String> = args.keep.iter().map(|path| read_lock(path)).collect();
    let keep = keep.map_err(Failure::message)?;
    let scratch = Unfinished::private("opm-mirror-")?;
    let moved: Arc<Moved> = Arc::default();
    let client = args.moving.client(tls, Store::open(&scratch.path().join("store"))?, &moved)?;
    let pruning = find(&client, &target, &keep).map_err(Failure::message)?;
    for image in &pruning.images {
        writeln!(printer.data(), "{image}")?;
    }
    for (image, names) in &pruning.foreign {
        printer.tell(&format!("stays: {image}, which has other names as well: {}", names.join(", ")));
    }
    let (known, sets, count) = (pruning.known, pruning.sets.len(), pruning.images.len());
    if !args.yes {
        printer.tell(&format!("{count} images of {sets} of {known} sets would go; --yes removes them"));
        return Ok(());
    }
    let failed = remove(&client, &target, &pruning);
    for (image, error) in &failed {
        printer.error(&format!("{image}: {error}"));
    }
    if !failed.is_empty() {
        return Err(Failure::Told);
    }
    printer.tell(&format!("removed: {count} images of {sets} of {known} sets"));
    Ok(())
}
