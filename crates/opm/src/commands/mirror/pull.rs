//! `opm mirror pull`: fetches an image set to a directory.

use std::path::PathBuf;

use fbc::spelling::size::bytes;
use mirror::known_blobs::KnownBlobs;
use mirror::pull::{PullOptions, PullReport, VolumePlan};
use mirror::set::SetDir;
use mirror::volume;

use super::flags::{ChoiceFlags, Input, MoveFlags, read, unresolved};
use crate::commands::build::CatalogImageBuilder;
use crate::exit::{CommandResult, Failure};
use crate::images::TlsFlags;
use crate::output::OutputFlag;
use crate::printer::Printer;

/// Fetch an image set to a directory
#[derive(clap::Args)]
#[command(
    long_about = "Fetch an image set to a directory.\n\n\
        The directory is an OCI image layout that stores every blob once. The lock, the list of blobs and the catalogs are \
        below 'mirror'. Run the command again to resume, even after it was killed: it keeps existing blobs and continues \
        partial ones. The set is complete when the lock exists. The command prints the digest of the lock, so that both \
        sides can compare it.\n\n\
        --volumes splits the set into plain tar files of at most that size, for removable media. With --have, they hold only \
        the blobs that the other side lacks.",
    after_help = "Examples:\n  \
        opm mirror pull imageset.yaml set\n  \
        opm mirror pull imageset.yaml set --missing drop\n  \
        opm mirror pull lock.json set --volumes 4G --to /media/usb\n  \
        opm mirror pull imageset.yaml set --volumes 4G --to /media/usb --have last/mirror/blobs.txt"
)]
pub(super) struct PullArgs {
    /// ImageSetConfiguration or lock file
    #[arg(value_name = "FILE|LOCK")]
    pub(super) file: String,
    /// Directory for the set
    #[arg(value_name = "DIR")]
    pub(super) directory: PathBuf,
    /// Write volumes of at most this size, such as 4G or 4GiB; with --to alone, archiveSize of the file applies
    #[arg(long, value_name = "SIZE", value_parser = volume::parse_size)]
    pub(super) volumes: Option<u64>,
    /// Directory for the volumes; defaults to 'volumes' in the set directory
    #[arg(long, value_name = "DIR")]
    pub(super) to: Option<PathBuf>,
    /// Blobs that the other side has: a set directory, its blobs.txt or lock.json, or a list from 'verify --have'
    #[arg(long, visible_alias = "since", value_name = "DIR|FILE")]
    pub(super) have: Vec<PathBuf>,
    /// Remove blobs from the directory after writing their volume
    #[arg(long)]
    pub(super) drain: bool,
    #[command(flatten)]
    pub(super) output: OutputFlag,
    #[command(flatten)]
    pub(super) choice: ChoiceFlags,
    #[command(flatten)]
    pub(super) moving: MoveFlags,
}

pub(super) fn run(args: &PullArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    outcome(&pull(args, None, tls, printer)?)
}

/// Pulls the set and prints the report. Archives have the size given by flags or the file, or else `archives`.
pub(super) fn pull(
    args: &PullArgs,
    archives: Option<u64>,
    tls: &TlsFlags,
    printer: &mut Printer,
) -> Result<PullReport, Failure> {
    let Input { request, text, options } = read(&args.file, &args.choice, printer)?;
    let have = KnownBlobs::read(&args.have)?;
    let size = args.volumes.or(request.archive_size().filter(|_| args.to.is_some())).or(archives);
    let volumes = size.map(|size| VolumePlan {
        size,
        directory: args.to.clone().unwrap_or_else(|| args.directory.join("volumes")),
        drain: args.drain,
    });
    let set = SetDir::open(&args.directory)?;
    let _writing = set.write()?;
    let run = args.moving.open(tls, set.store()?)?;
    let options = PullOptions {
        selection: &options,
        have: &have,
        volumes: volumes.as_ref(),
        enforce_policy: args.moving.enforce_policy,
    };
    let (mut report, pulled) =
        mirror::pull::pull(&set, request, &text, &options, &CatalogImageBuilder::default(), &run.session()?)
            .map_err(unresolved)?;
    if let Some(lock) = &report.lock {
        match report.in_volumes {
            Some(moved) => printer.report(&format!("the set is complete: {moved} of its blobs are already in volumes")),
            None => {
                let PullReport { images, blobs, .. } = report;
                let size = bytes(report.bytes);
                printer.report(&format!("the set is complete: {images} images, {size} in {blobs} unique blobs"));
            }
        }
        if !args.output.is_json() {
            writeln!(printer.data(), "{lock}")?;
        }
    }
    if let (Some(plan), Some(pulled)) = (&volumes, pulled) {
        let written = pulled.write_volumes(&set, plan, &have)?;
        printer.report(&format!(
            "volumes: {} in {} ({}), already present: {} blobs",
            written.files.len(),
            plan.directory.display(),
            bytes(written.bytes),
            written.left_out
        ));
        report.volumes = Some(written);
    }
    if args.output.is_json() {
        printer.json(&report)?;
    }
    Ok(report)
}

/// Returns whether the set is complete.
pub(super) fn outcome(report: &PullReport) -> CommandResult {
    match report.lock {
        Some(_) => Ok(()),
        None => Err(Failure::message(
            "the set is incomplete\nhelp: run the command again to fetch only the missing images, or see --missing",
        )),
    }
}
