//! `opm mirror verify`: checks that a set is complete and undamaged.

use std::path::{Path, PathBuf};

use fbc::spelling::size::bytes;
use mirror::push::{MirrorSet, SetPlace};
use mirror::set::{read_lock, write_whole};
use mirror::verify::VerifyReport;

use super::flags::{self, MoveFlags, report_missing};
use crate::exit::{CommandResult, Failure};
use crate::images::TlsFlags;
use crate::output::OutputFlag;
use crate::printer::Printer;

/// Check that a set is complete and undamaged
#[derive(clap::Args)]
#[command(
    long_about = "Check that a set is complete and undamaged.\n\n\
        For a directory or volumes, opm hashes every blob and uses no network. For a registry, it checks that every manifest, \
        tag and blob of the lock exists; --deep fetches and hashes them all. opm reports problems by package and bundle and \
        exits with code 1. --have writes the list of existing blobs, for 'pull --have' on the other side.",
    after_help = "Examples:\n  \
        opm mirror verify set\n  \
        opm mirror verify /media/usb\n  \
        opm mirror verify registry.example.com:5000/mirror --lock set/mirror/lock.json\n  \
        opm mirror verify registry.example.com:5000/mirror --lock set/mirror/lock.json --have there.txt"
)]
pub(super) struct VerifyArgs {
    /// Set directory, volumes, a directory of volumes, or a registry with an optional path prefix
    #[arg(value_name = "DIR|VOLUME...|REGISTRY[/PATH]", required = true)]
    places: Vec<String>,
    /// Lock of the set that the registry must contain
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Expected digest of the lock
    #[arg(long, value_name = "DIGEST")]
    expect: Option<String>,
    /// Fetch and hash every blob of the registry
    #[arg(long)]
    deep: bool,
    /// Write the list of existing blobs to this file
    #[arg(long, value_name = "OUT")]
    have: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlag,
    /// Maximum number of repository path components; excess components are joined with '-'
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_nested_paths: Option<u16>,
    #[command(flatten)]
    moving: MoveFlags,
}

pub(super) fn run(args: &VerifyArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let local = args.places.iter().all(|place| Path::new(place).exists());
    if local && args.deep {
        return Err(Failure::message("--deep requires a registry: local blobs are always hashed"));
    }
    let report = if local { verify_local(args, tls)? } else { verify_registry(args, tls)? };
    if let Some(out) = &args.have {
        write_whole(out, report.list().as_bytes())?;
    }
    if args.output.is_json() {
        printer.json(&report)?;
    } else {
        report_missing(&report.missing, printer);
        for line in &report.damage {
            printer.error(line);
        }
    }
    if !report.is_complete() {
        return Err(Failure::Reported);
    }
    let (images, blobs, total) = (report.images, report.have.len(), report.have.values().sum());
    printer.report(&format!("complete: {images} images, {} in {blobs} blobs", bytes(total)));
    if !args.output.is_json() {
        writeln!(printer.data(), "{}", report.lock)?;
    }
    Ok(())
}

fn verify_local(args: &VerifyArgs, tls: &TlsFlags) -> Result<VerifyReport, Failure> {
    let paths: Vec<PathBuf> = args.places.iter().map(PathBuf::from).collect();
    let place = SetPlace::open(&paths)?;
    let run = args.moving.open_set(tls, &place)?;
    let session = run.session()?;
    let set = MirrorSet::read(place, &session)?;
    Ok(mirror::verify::verify_set(&set, args.expect.as_deref(), &session)?)
}

fn verify_registry(args: &VerifyArgs, tls: &TlsFlags) -> Result<VerifyReport, Failure> {
    let [place] = args.places.as_slice() else {
        return Err(Failure::message("expected one registry, or existing files"));
    };
    let target = flags::target(place, args.max_nested_paths)?;
    let Some(file) = &args.lock else {
        return Err(Failure::message("a registry requires --lock"));
    };
    let lock = read_lock(file)?;
    let run = args.moving.open_scratch(tls)?;
    let session = run.session()?;
    Ok(mirror::verify::verify_registry(&lock, &target, args.expect.as_deref(), args.deep, &session)?)
}
