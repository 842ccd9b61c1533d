//! Runs as `oc-mirror`: maps the command lines of oc-mirror v2 to `opm mirror`.

mod common;
mod delete;
mod refused;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{CommandFactory, Parser, Subcommand};
use common::Common;
use mirror::lock::Role;
use mirror::report::Missing;

use super::flags::{CatalogProgram, ChoiceFlags, TargetFlags, catalog_program};
use super::plan::Mapping;
use super::{copy, plan, pull, push};
use crate::cli::{self, go_conventions};
use crate::exit::{Failure, Outcome};
use crate::printer::Printer;

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
enum Place {
    Disk(PathBuf),
    Registry(String),
}

fn place(text: &str) -> Result<Place, Failure> {
    match (text.strip_prefix("file://"), text.strip_prefix("docker://")) {
        (Some(path), _) if !path.is_empty() => Ok(Place::Disk(path.into())),
        (_, Some(registry)) if !registry.is_empty() => Ok(Place::Registry(registry.to_owned())),
        _ => Err(Failure::message(format!("{text:?}: expected file://DIR or docker://REGISTRY[/PATH]"))),
    }
}

fn disk(text: &str) -> Result<PathBuf, Failure> {
    match place(text)? {
        Place::Disk(path) => Ok(path),
        Place::Registry(_) => Err(Failure::message(format!("{text:?}: expected file://DIR"))),
    }
}

pub(crate) fn run(arguments: Vec<OsString>, printer: &mut Printer) -> Outcome {
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

fn mirror(args: &OcMirrorArgs, printer: &mut Printer) -> Outcome {
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
        (Place::Disk(_), _) => args.common.source_side(),
        (Place::Registry(_), Some(_)) => args.common.destination_side(),
        (Place::Registry(registry), None) => args.common.between(registry),
    };
    moving.enforce_policy = args.secure_policy;
    let target = |workspace: &Path| TargetFlags {
        max_nested_paths: args.max_nested_paths,
        resources: workspace.join("working-dir/cluster-resources"),
        ..TargetFlags::default()
    };
    let children = args.dry_run_manifest_lists;
    let mut lacking = Vec::new();
    let outcome = match (destination, &args.from, &args.workspace) {
        (Place::Disk(_), Some(_), _) | (Place::Disk(_), _, Some(_)) => {
            return Err(Failure::message("--from and --workspace require a destination docker://REGISTRY"));
        }
        (Place::Registry(_), Some(_), Some(_)) => {
            return Err(Failure::message("--from and --workspace cannot be combined"));
        }
        (Place::Registry(_), None, None) => {
            return Err(Failure::message("docker://REGISTRY requires --from file://DIR or --workspace file://DIR"));
        }
        (Place::Disk(directory), None, None) if args.dry_run => {
            let set = set_of(&directory);
            let place = directory.join("working-dir/dry-run");
            let mapping = Mapping { place: &place, target: None, set: Some(&set), children };
            plan::mapping(&config()?, &mapping, &choice, &moving, &tls, printer)
        }
        (Place::Disk(directory), None, None) => {
            let file = config()?;
            let args = pull::PullArgs {
                file,
                directory: set_of(&directory),
                volumes: None,
                to: Some(directory),
                have: Vec::new(),
                drain: false,
                choice,
                moving,
            };
            pull::run_with_archives(&args, ARCHIVE, &tls, printer, &mut lacking)
        }
        (Place::Registry(registry), Some(from), None) => {
            let from = disk(from)?;
            let archives = std::fs::read_dir(&from).into_iter().flatten().flatten().any(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                name.starts_with("mirror-") && name.ends_with(".tar")
            });
            let source = if archives { newest(&from)? } else { vec![set_of(&from).display().to_string()] };
            if args.dry_run {
                // Without network access: the archives hold all the information.
                let paths: Vec<PathBuf> = source.iter().map(PathBuf::from).collect();
                let read = push::OpenSet::open(&paths, &moving, &Arc::default(), &tls)?;
                let (flags, place) = (target(&from), from.join("working-dir/dry-run"));
                let to = flags.target(&registry)?;
                let mapping = Mapping { place: &place, target: Some((&to, &flags)), set: None, children };
                return plan::write_mapping(&mapping, &read.lock, &read.contents, &tls, printer);
            }
            let places = source.into_iter().chain([registry]).collect();
            let args = push::PushArgs { places, expect: None, part: false, target: target(&from), moving };
            push::run_collecting(&args, &tls, printer, &mut lacking)
        }
        (Place::Registry(registry), None, Some(workspace)) => {
            let workspace = disk(workspace)?;
            let file = config()?;
            if args.dry_run {
                let (flags, place) = (target(&workspace), workspace.join("working-dir/dry-run"));
                let to = flags.target(&registry)?;
                let mapping = Mapping { place: &place, target: Some((&to, &flags)), set: None, children };
                return plan::mapping(&file, &mapping, &choice, &moving, &tls, printer);
            }
            let args = copy::CopyArgs {
                file,
                registry,
                spool: 4 << 30,
                lock: Some(workspace.join("working-dir/lock.json")),
                choice,
                target: target(&workspace),
                moving,
            };
            copy::run_collecting(&args, &tls, printer, &mut lacking)
        }
    };
    outcome.map_err(|failure| match (failure.text(), code(&lacking)) {
        (Some(text), Some(code)) => Failure::Exit(code, text),
        _ => failure,
    })
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
fn code(missing: &[Missing]) -> Option<u8> {
    let has = |wanted: fn(Role) -> bool| missing.iter().any(|one| wanted(one.role));
    let operators = has(|role| role != Role::Additional);
    let additional = has(|role| role == Role::Additional);
    match (operators, additional) {
        (false, false) => None,
        (operators, additional) => Some(u8::from(operators) * 4 + u8::from(additional) * 8),
    }
}
