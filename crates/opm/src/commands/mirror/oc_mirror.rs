//! Runs as `oc-mirror`: maps the command lines of oc-mirror v2 to `opm mirror`.

mod common;
mod delete;
mod refused;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser, Subcommand};
use common::Common;
use mirror::destination::MirrorDestination;
use mirror::lock::{Lock, Role};
use mirror::plan::Mapping;
use mirror::push::{MirrorSet, SetPlace};
use mirror::report::MissingImage;
use mirror::request::CatalogProgram;
use mirror::selection::MirrorSelection;
use mirror::set::Inventory;

use super::flags::{ChoiceFlags, Input, MoveFlags, TargetFlags, catalog_program, read, report_missing, unresolved};
use super::{copy, pull, push};
use crate::cli::{self, go_conventions};
use crate::exit::{CommandResult, Failure};
use crate::images::TlsFlags;
use crate::output::OutputFlag;
use crate::printer::Printer;
use fbc::scratch::TempFolder;

/// The default size of an archive in bytes.
const ARCHIVE: u64 = 500 << 30;

/// Mirror catalogs and their images: to disk, from disk, or from registry to registry
#[derive(Parser)]
#[command(
    name = "oc-mirror",
    bin_name = "oc-mirror",
    version,
    long_about = "Mirror catalogs and their images, with the command lines of oc-mirror v2.\n\n\
        To disk, opm writes archives to the directory and keeps their content below its 'working-dir', so that the next run \
        fetches only new blobs. From disk, it reads the archives or the working directory and does not need the file. The \
        objects for the cluster are in 'working-dir/cluster-resources'.",
    after_help = "Examples:\n  \
        oc-mirror --v2 -c imageset.yaml file:///data/mirror\n  \
        oc-mirror --v2 -c imageset.yaml --from file:///data/mirror docker://registry.example.com:5000\n  \
        oc-mirror --v2 -c imageset.yaml --workspace file:///data/mirror docker://registry.example.com:5000",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct OcMirror {
    #[command(subcommand)]
    command: Option<OcMirrorCommand>,
    #[command(flatten)]
    args: OcMirrorArgs,
}

#[derive(Subcommand)]
enum OcMirrorCommand {
    Delete(Box<delete::DeleteArgs>),
    /// Print the version
    Version,
}

#[derive(clap::Args)]
struct OcMirrorArgs {
    /// Destination: file://DIR or docker://REGISTRY[/PATH]
    #[arg(value_name = "DESTINATION", required = true)]
    destination: Option<String>,
    /// ImageSetConfiguration file
    #[arg(short, long, value_name = "FILE")]
    config: Option<String>,
    /// Directory to read from: file://DIR
    #[arg(long, value_name = "file://DIR")]
    from: Option<String>,
    /// Working directory for mirroring between registries: file://DIR
    #[arg(long, value_name = "file://DIR")]
    workspace: Option<String>,
    /// Mirror nothing; write the plan below working-dir/dry-run
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run, also list the images of every platform
    #[arg(long, requires = "dry_run")]
    dry_run_manifest_lists: bool,
    #[command(flatten)]
    common: Common,
    /// Maximum number of repository path components
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_nested_paths: Option<u16>,
    /// Do not mirror signatures
    #[arg(long)]
    remove_signatures: bool,
    /// Accept only images that policy.json accepts
    #[arg(long)]
    secure_policy: bool,
    /// Accepted for compatibility: archives never exceed archiveSize, larger blobs are split
    #[arg(long)]
    strict_archive: bool,
    /// Program that serves the catalog in its image: opm (ours), the original, or none
    #[arg(long, value_name = "WHICH", default_value = "original", value_parser = catalog_program())]
    catalog_program: CatalogProgram,
}

/// The destination argument.
enum OcDestination {
    Disk(PathBuf),
    Registry(String),
}

fn place(text: &str) -> Result<OcDestination, Failure> {
    match (text.strip_prefix("file://"), text.strip_prefix("docker://")) {
        (Some(path), _) if !path.is_empty() => Ok(OcDestination::Disk(path.into())),
        (_, Some(registry)) if !registry.is_empty() => Ok(OcDestination::Registry(registry.to_owned())),
        _ => Err(Failure::message(format!("{text:?}: expected file://DIR or docker://REGISTRY[/PATH]"))),
    }
}

fn disk(text: &str) -> Result<PathBuf, Failure> {
    match place(text)? {
        OcDestination::Disk(path) => Ok(path),
        OcDestination::Registry(_) => Err(Failure::message(format!("{text:?}: expected file://DIR"))),
    }
}

pub(crate) fn run(arguments: Vec<OsString>, printer: &mut Printer) -> CommandResult {
    let command = refused::add(go_conventions(OcMirror::command()));
    let Some(parsed) = cli::parse::<OcMirror>(command, arguments, printer)? else { return Ok(()) };
    match &parsed.command {
        Some(OcMirrorCommand::Delete(args)) => delete::run(args, printer),
        Some(OcMirrorCommand::Version) => {
            writeln!(printer.data(), "oc-mirror of opm {}", env!("CARGO_PKG_VERSION"))?;
            Ok(())
        }
        None => mirror(&parsed.args, printer),
    }
}

fn mirror(args: &OcMirrorArgs, printer: &mut Printer) -> CommandResult {
    args.common.check()?;
    let destination = place(args.destination.as_deref().unwrap_or_default())?;
    let config = || args.config.clone().ok_or_else(|| Failure::message("-c FILE is required"));
    let choice = ChoiceFlags {
        without_referrers: args.remove_signatures,
        catalog_program: Some(args.catalog_program),
        takes_binary: false,
        choose_default: false,
        ..ChoiceFlags::defaults()
    };
    let (tls, mut moving) = match (&destination, &args.from) {
        (OcDestination::Disk(_), _) => args.common.source_side(),
        (OcDestination::Registry(_), Some(_)) => args.common.destination_side(),
        (OcDestination::Registry(registry), None) => args.common.between(registry),
    };
    moving.enforce_policy = args.secure_policy;
    let target = |workspace: &Path| TargetFlags {
        max_nested_paths: args.max_nested_paths,
        resources: workspace.join("working-dir/cluster-resources"),
        ..TargetFlags::default()
    };
    let children = args.dry_run_manifest_lists;
    let (outcome, missing) = match (destination, &args.from, &args.workspace) {
        (OcDestination::Disk(_), Some(_), _) | (OcDestination::Disk(_), _, Some(_)) => {
            return Err(Failure::message("--from and --workspace require a destination docker://REGISTRY"));
        }
        (OcDestination::Registry(_), Some(_), Some(_)) => {
            return Err(Failure::message("--from and --workspace cannot be combined"));
        }
        (OcDestination::Registry(_), None, None) => {
            return Err(Failure::message("docker://REGISTRY requires --from file://DIR or --workspace file://DIR"));
        }
        (OcDestination::Disk(directory), None, None) if args.dry_run => {
            let set = set_of(&directory);
            let place = directory.join("working-dir/dry-run");
            let mapping = Mapping { place: &place, target: None, set: Some(&set), children };
            return resolve_mapping(&config()?, &mapping, None, (&choice, &moving, &tls), printer);
        }
        (OcDestination::Disk(directory), None, None) => {
            let file = config()?;
            let args = pull::PullArgs {
                file,
                directory: set_of(&directory),
                volumes: None,
                to: Some(directory),
                have: Vec::new(),
                drain: false,
                output: OutputFlag::default(),
                choice,
                moving,
            };
            let report = pull::pull(&args, Some(ARCHIVE), &tls, printer)?;
            (pull::outcome(&report), report.missing)
        }
        (OcDestination::Registry(registry), Some(from), None) => {
            let from = disk(from)?;
            let archives = std::fs::read_dir(&from).into_iter().flatten().flatten().any(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                name.starts_with("mirror-") && name.ends_with(".tar")
            });
            let source = if archives { newest(&from)? } else { vec![set_of(&from).display().to_string()] };
            if args.dry_run {
                // Without network access: the archives hold all the information.
                let paths: Vec<PathBuf> = source.iter().map(PathBuf::from).collect();
                let scratch = TempFolder::private("opm-mirror-")?;
                let place = SetPlace::open(&paths)?;
                let run = moving.open(&tls, place.store(&scratch.path().join("store"))?)?;
                let set = MirrorSet::read(place, &run.session()?)?;
                let (flags, place) = (target(&from), from.join("working-dir/dry-run"));
                let to = flags.target(&registry)?;
                let mapping = Mapping { place: &place, target: Some(&to), set: None, children };
                return write_mapping(&mapping, (&set.lock, &set.inventory), Some((&to, &flags)), &tls, printer);
            }
            let places = source.into_iter().chain([registry]).collect();
            let output = OutputFlag::default();
            let args = push::PushArgs { places, expect: None, part: false, output, target: target(&from), moving };
            let report = push::push(&args, &tls, printer)?;
            (push::outcome(&report), report.missing)
        }
        (OcDestination::Registry(registry), None, Some(workspace)) => {
            let workspace = disk(workspace)?;
            let file = config()?;
            if args.dry_run {
                let (flags, place) = (target(&workspace), workspace.join("working-dir/dry-run"));
                let to = flags.target(&registry)?;
                let mapping = Mapping { place: &place, target: Some(&to), set: None, children };
                return resolve_mapping(&file, &mapping, Some((&to, &flags)), (&choice, &moving, &tls), printer);
            }
            let args = copy::CopyArgs {
                file,
                registry,
                spool: 4 << 30,
                lock: Some(workspace.join("working-dir/lock.json")),
                output: OutputFlag::default(),
                choice,
                target: target(&workspace),
                moving,
            };
            let report = copy::copy(&args, &tls, printer)?;
            (push::outcome(&report), report.missing)
        }
    };
    outcome.map_err(|failure| match (failure.text(), code(&missing)) {
        (Some(text), Some(code)) => Failure::Exit(code, text),
        _ => failure,
    })
}

/// Resolves an image set, and writes its mapping.
fn resolve_mapping(
    file: &str,
    mapping: &Mapping<'_>,
    target: Option<(&MirrorDestination, &TargetFlags)>,
    (choice, moving, tls): (&ChoiceFlags, &MoveFlags, &TlsFlags),
    printer: &Printer,
) -> CommandResult {
    let Input { request, options, .. } = read(file, choice, printer)?;
    let scratch = TempFolder::private("opm-mirror-")?;
    let run = moving.open_scratch(tls, &scratch)?;
    let selection = MirrorSelection::resolve(request, &options, &run.session()?).map_err(unresolved)?;
    let missing = selection.missing().to_vec();
    let (lock, inventory) = selection.into_lock();
    write_mapping(mapping, (&lock, &inventory), target, tls, printer)?;
    report_missing(&missing, printer);
    if missing.is_empty() { Ok(()) } else { Err(Failure::Reported) }
}

/// Writes a mapping and the cluster objects.
fn write_mapping(
    mapping: &Mapping<'_>,
    (lock, inventory): (&Lock, &Inventory),
    target: Option<(&MirrorDestination, &TargetFlags)>,
    tls: &TlsFlags,
    printer: &Printer,
) -> CommandResult {
    mapping.write(lock, inventory)?;
    if let Some((target, flags)) = target {
        flags.write_resources(lock, target, tls, printer)?;
    }
    let file = mapping.place.join("mapping.txt");
    printer.report(&format!("listed {} images in {}", lock.images.len(), file.display()));
    Ok(())
}

/// Returns the path of the set in a directory.
fn set_of(directory: &Path) -> PathBuf {
    directory.join("working-dir/set")
}

/// Returns the archives of the newest set in a directory.
fn newest(directory: &Path) -> Result<Vec<String>, Failure> {
    let mut found: Vec<(std::time::SystemTime, String, String)> = Vec::new();
    for entry in std::fs::read_dir(directory)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(series) = name.strip_suffix(".tar").and_then(|name| name.rsplit_once('-')).map(|(series, _)| series)
            && series.starts_with("mirror-")
        {
            let time = entry.metadata()?.modified()?;
            found.push((time, series.to_owned(), entry.path().display().to_string()));
        }
    }
    let series = found.iter().max().map(|(_, series, _)| series.clone()).unwrap_or_default();
    Ok(found.into_iter().filter(|(_, of, _)| *of == series).map(|(_, _, path)| path).collect())
}

/// Returns the exit code for missing images: 4 for operators, 8 for additional images, or their sum.
fn code(missing: &[MissingImage]) -> Option<u8> {
    let has = |wanted: fn(Role) -> bool| missing.iter().any(|one| wanted(one.role));
    let operators = has(|role| role != Role::Additional);
    let additional = has(|role| role == Role::Additional);
    match (operators, additional) {
        (false, false) => None,
        (operators, additional) => Some(u8::from(operators) * 4 + u8::from(additional) * 8),
    }
}
