//! `opm mirror push`: uploads a set from a directory or volumes to a registry.

use std::path::PathBuf;

use fbc::spelling::size::bytes;
use mirror::destination::MirrorDestination;
use mirror::lock::Lock;
use mirror::push::{MirrorSet, PushOptions, PushReport, PushedBlobs, SetPlace};

use super::flags::{MoveFlags, TargetFlags, report_missing};
use crate::exit::{CommandResult, Failure};
use crate::images::TlsFlags;
use crate::output::OutputFlag;
use crate::printer::Printer;

/// Upload a set from a directory or volumes to a registry
#[derive(clap::Args)]
#[command(
    long_about = "Upload a set from a directory or volumes to a registry.\n\n\
        opm connects only to the registry. It sends each blob once, then manifests, signatures and tags. Catalog tags come \
        last, so that a cluster sees either the old set or the new one. opm does not resend what the registry has. It reads \
        volumes directly, in any order. Before it sends anything, it checks that every blob exists in the directory, in the \
        volumes or, for delta volumes, in the registry.\n\n\
        opm writes the objects that point a cluster to the mirror to --resources: mirror sets, CatalogSources, \
        ClusterCatalogs, and settings for CRI-O, podman and containerd.",
    after_help = "Examples:\n  \
        opm mirror push set registry.example.com:5000/mirror\n  \
        opm mirror push /media/usb/mirror-*.tar registry.example.com:5000/mirror\n  \
        opm mirror push set registry.example.com:5000 --expect sha256:0123..."
)]
pub(super) struct PushArgs {
    /// Set directory or volumes, then the registry with an optional path prefix
    #[arg(value_name = "DIR|VOLUME... REGISTRY[/PATH]", num_args = 2.., required = true)]
    pub(super) places: Vec<String>,
    /// Expected digest of the lock
    #[arg(long, value_name = "DIGEST")]
    pub(super) expect: Option<String>,
    /// Send only the blobs of the given volumes, for media that arrive one after the other
    #[arg(long)]
    pub(super) part: bool,
    #[command(flatten)]
    pub(super) output: OutputFlag,
    #[command(flatten)]
    pub(super) target: TargetFlags,
    #[command(flatten)]
    pub(super) moving: MoveFlags,
}

pub(super) fn run(args: &PushArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    match args.part {
        true => push_part(args, tls, printer),
        false => outcome(&push(args, tls, printer)?),
    }
}

/// Splits the arguments into the places of the set and the destination.
fn places(args: &PushArgs) -> Result<(Vec<PathBuf>, MirrorDestination), Failure> {
    let Some((registry, paths)) = args.places.split_last() else {
        return Err(Failure::message("expected a directory or volumes, and a registry"));
    };
    Ok((paths.iter().map(PathBuf::from).collect(), args.target.target(registry)?))
}

/// Pushes the set, prints the report, and writes the cluster objects if everything arrived.
pub(super) fn push(args: &PushArgs, tls: &TlsFlags, printer: &mut Printer) -> Result<PushReport, Failure> {
    let (paths, target) = places(args)?;
    let place = SetPlace::open(&paths)?;
    let run = args.moving.open_set(tls, &place)?;
    let session = run.session()?;
    let set = MirrorSet::read(place, &session)?;
    let options = PushOptions { expected: args.expect.as_deref(), enforce_policy: args.moving.enforce_policy };
    let report = mirror::push::push(&set, &target, &options, &session)?;
    finish(&report, &set.lock, &target, &args.target, tls, args.output, printer)?;
    Ok(report)
}

/// Prints the report of a push or a copy, and writes the cluster objects if everything arrived.
pub(super) fn finish(
    report: &PushReport,
    lock: &Lock,
    target: &MirrorDestination,
    flags: &TargetFlags,
    tls: &TlsFlags,
    output: OutputFlag,
    printer: &mut Printer,
) -> CommandResult {
    if let Some(PushedBlobs { blobs, bytes: size, mounted, present }) = report.sent {
        let size = bytes(size);
        printer.report(&format!("sent: {blobs} blobs ({size}), mounted: {mounted}, already present: {present}"));
    }
    match report.complete {
        true => flags.write_resources(lock, target, tls, printer)?,
        false => report_missing(&report.missing, printer),
    }
    match &report.lock {
        _ if output.is_json() => printer.json(report)?,
        Some(lock) if report.complete => writeln!(printer.data(), "{lock}")?,
        _ => {}
    }
    Ok(())
}

/// Returns whether everything arrived.
pub(super) fn outcome(report: &PushReport) -> CommandResult {
    match (report.complete, &report.sent) {
        (true, _) => Ok(()),
        (false, None) => Err(Failure::message("images are missing, so nothing was sent\nhelp: see --missing")),
        (false, Some(_)) => Err(Failure::message(
            "the upload is incomplete, so the catalog tags stay unchanged\nhelp: run the command again to resume",
        )),
    }
}

/// Sends the blobs of some volumes, without manifests and tags.
fn push_part(args: &PushArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let (paths, target) = places(args)?;
    if args.moving.enforce_policy {
        return Err(Failure::message("--part sends blobs without their images, which --enforce-policy cannot check"));
    }
    let run = args.moving.open_scratch(tls)?;
    let report = mirror::push::push_part(&paths, &target, &run.session()?)?;
    if let Some(PushedBlobs { blobs, bytes: size, present, .. }) = report.sent {
        printer.report(&format!("sent: {blobs} blobs ({}), already present: {present}", bytes(size)));
    }
    if args.output.is_json() { Ok(printer.json(&report)?) } else { Ok(()) }
}
