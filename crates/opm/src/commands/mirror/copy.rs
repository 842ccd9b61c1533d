//! `opm mirror copy`: mirrors from registry to registry, on a machine that reaches both sides.

use std::path::PathBuf;

use image::Store;
use mirror::copy::CopyOptions;
use mirror::push::PushReport;
use mirror::set::write_whole;
use mirror::volume::parse_size;

use super::flags::{ChoiceFlags, Input, MoveFlags, TargetFlags, read, unresolved};
use super::push::{finish, outcome};
use crate::commands::build::CatalogImageBuilder;
use crate::exit::{CommandResult, Failure};
use crate::images::TlsFlags;
use crate::output::OutputFlag;
use crate::printer::Printer;
use fbc::scratch::TempFolder;

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
    pub(super) output: OutputFlag,
    #[command(flatten)]
    pub(super) choice: ChoiceFlags,
    #[command(flatten)]
    pub(super) target: TargetFlags,
    #[command(flatten)]
    pub(super) moving: MoveFlags,
}

pub(super) fn run(args: &CopyArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    outcome(&copy(args, tls, printer)?)
}

/// Copies the set, prints the report, and writes the lock and the cluster objects.
pub(super) fn copy(args: &CopyArgs, tls: &TlsFlags, printer: &mut Printer) -> Result<PushReport, Failure> {
    let target = args.target.target(&args.registry)?;
    let Input { request, options, .. } = read(&args.file, &args.choice, printer)?;
    let scratch = TempFolder::private("opm-mirror-")?;
    let run = args.moving.open(tls, Store::open(&scratch.path().join("store"))?)?;
    let options = CopyOptions { selection: &options, spool: args.spool, scratch: scratch.path() };
    let (report, lock) =
        mirror::copy::copy(request, &target, &options, &CatalogImageBuilder::default(), &run.session()?)
            .map_err(unresolved)?;
    match lock {
        Some(lock) => {
            if let Some(out) = &args.lock {
                write_whole(out, lock.to_text().as_bytes())?;
            }
            finish(&report, &lock, &target, &args.target, tls, args.output, printer)?;
        }
        None if args.output.is_json() => printer.json(&report)?,
        None => {}
    }
    Ok(report)
}
