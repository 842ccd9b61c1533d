//! `opm mirror copy`: mirrors from registry to registry, on a machine that reaches both sides.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{BlobSource, Store};
use mirror::preflight::{Need, disk_space};
use mirror::report::Missing;
use mirror::volume::parse_size;

use super::flags::{ChoiceFlags, MoveFlags, TargetFlags, notes};
use super::prepare::{prepare, read};
use super::pull::{contents, disk_full, reuse};
use super::push::finish;
use crate::exit::{Failure, Outcome};
use crate::images::TlsFlags;
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::transfer::Moved;

/// Mirror an image set directly to a registry
#[derive(clap::Args)]
#[command(
    long_about = "Mirror an image set directly to a registry.\n\n\
        This is 'pull' and 'push' in one command, without a local copy: the disk holds at most --spool bytes of blobs at a \
        time. opm neither fetches nor sends blobs that the registry has.",
    after_help = "Examples:\n  \
        opm mirror copy imageset.yaml registry.example.com:5000/mirror\n  \
        opm mirror copy lock.json registry.example.com:5000/mirror --spool 500M"
)]
pub(super) struct CopyArgs {
    /// ImageSetConfiguration or lock file
    #[arg(value_name = "FILE|LOCK")]
    pub(super) file: String,
    /// Registry with an optional path prefix
    #[arg(value_name = "REGISTRY[/PATH]")]
    pub(super) registry: String,
    /// Maximum size of blobs on the local disk at a time; a single larger blob can exceed it
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    pub(super) spool: u64,
    /// Write the lock to this file
    #[arg(long, value_name = "OUT")]
    pub(super) lock: Option<PathBuf>,
    #[command(flatten)]
    pub(super) choice: ChoiceFlags,
    #[command(flatten)]
    pub(super) target: TargetFlags,
    #[command(flatten)]
    pub(super) moving: MoveFlags,
}

pub(super) fn run(args: &CopyArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    run_collecting(args, tls, printer, &mut Vec::new())
}

/// Runs the command, and returns missing images in `lacking`.
pub(super) fn run_collecting(
    args: &CopyArgs,
    tls: &TlsFlags,
    printer: &mut Printer,
    lacking: &mut Vec<Missing>,
) -> Outcome {
    let target = args.target.target(&args.registry)?;
    let (input, _) = read(&args.file, &args.choice, printer)?;
    let scratch = Unfinished::private("opm-mirror-")?;
    let store = Store::open(&scratch.path().join("store"))?;
    let moved: Arc<Moved> = Arc::default();
    let client = args.moving.client(tls, store, &moved)?;
    let base = Path::new(&args.file).parent().unwrap_or(Path::new(""));
    // The unpacked catalogs are needed until their images are built.
    let images = args.moving.images(tls, Some(&scratch.path().join("source")));
    let mut prepared = prepare(input, &args.choice, base, &client, &images, printer)?;
    prepared.settle(Vec::new(), &args.choice, printer)?;
    if !prepared.plan.missing.is_empty() {
        lacking.clone_from(&prepared.plan.missing);
        return Err(Failure::message("images are missing, so nothing was sent\nhelp: see --missing"));
    }
    prepared.build(&scratch.path().join("catalogs"), &client, tls, printer)?;
    let lock = prepared.into_lock();
    drop(images);
    let contents = contents(&client.options().store, &lock, &client)?;
    let store = &client.options().store;
    reuse(&scratch.path().join("source"), store, contents.lacking(store, &lock));
    let _ = std::fs::remove_dir_all(scratch.path().join("source"));
    let from = mirror::push::sources(&lock, &contents);
    let largest = contents.blobs.values().map(|blob| blob.size).max().unwrap_or_default();
    let all: u64 = contents.blobs.values().map(|blob| blob.size).sum();
    let needed = all.min(args.spool.max(largest));
    disk_space(&[Need { place: scratch.path().to_owned(), bytes: needed }]).map_err(disk_full)?;
    let ready =
        mirror::push::ready(&client, &client, &lock, &contents, &target, &BTreeMap::new()).map_err(Failure::message)?;
    notes(&ready.notes, printer);
    let shown = moved.show("copying", all);
    let pushed = ready.send(BlobSource::Registries { from, spool: args.spool });
    drop(shown);
    if let Some(out) = &args.lock {
        mirror::set::write_whole(out, lock.to_text().as_bytes()).map_err(Failure::message)?;
    }
    finish(pushed, &lock, &target, &args.target, tls, printer, lacking)
}
