//! Runs as `oc-mirror`: maps the command lines of oc-mirror v2 to `opm mirror`.

mod common;
mod delete;
mod refused;

use std::ffi::OsString;

use clap::{Command, CommandFactory, Parser, Subcommand};
use common::Common;
use mirror::destination::MirrorDestination;
use mirror::lock::Lock;
use mirror::oc_mirror::{ARCHIVE_SIZE, OcOperation, exit_code};
use mirror::plan::Mapping;
use mirror::push::{MirrorSet, SetPlace};
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

/// Returns the arguments of the program.
pub(crate) fn command() -> Command {
    refused::add(go_conventions(OcMirror::command()))
}

pub(crate) fn run(arguments: Vec<OsString>, printer: &mut Printer) -> CommandResult {
    let Some(parsed) = cli::parse::<OcMirror>(command(), arguments, printer)? else { return Ok(()) };
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
    let (from, workspace) = (args.from.as_deref(), args.workspace.as_deref());
    let operation = OcOperation::parse(args.destination.as_deref().unwrap_or_default(), from, workspace);
    let operation = operation.map_err(Failure::message)?;
    let config = || args.config.clone().ok_or_else(|| Failure::message("-c FILE is required"));
    let choice = ChoiceFlags {
        without_referrers: args.remove_signatures,
        catalog_program: Some(args.catalog_program),
        takes_binary: false,
        choose_default: false,
        ..ChoiceFlags::defaults()
    };
    let (tls, mut moving) = match &operation {
        OcOperation::ToDisk(_) => args.common.source_side(),
        OcOperation::FromDisk(..) => args.common.destination_side(),
        OcOperation::Between(_, registry) => args.common.between(registry),
    };
    moving.enforce_policy = args.secure_policy;
    let workspace = operation.workspace().clone();
    let target = TargetFlags {
        max_nested_paths: args.max_nested_paths,
        resources: workspace.resources(),
        ..TargetFlags::default()
    };
    let (place, set, children) = (workspace.mappings(), workspace.set(), args.dry_run_manifest_lists);
    let output = OutputFlag::default();
    let (outcome, missing) = match operation {
        OcOperation::ToDisk(_) if args.dry_run => {
            let mapping = Mapping { place: &place, target: None, set: Some(&set), children };
            return resolve_mapping(&config()?, &mapping, None, (&choice, &moving, &tls), printer);
        }
        OcOperation::ToDisk(_) => {
            let args = pull::PullArgs {
                file: config()?,
                directory: set,
                volumes: None,
                to: Some(workspace.path().to_owned()),
                have: Vec::new(),
                drain: false,
                output,
                choice,
                moving,
            };
            let report = pull::pull(&args, Some(ARCHIVE_SIZE), &tls, printer)?;
            (pull::outcome(&report), report.missing)
        }
        OcOperation::FromDisk(_, registry) if args.dry_run => {
            // Without network access: the archives hold all the information.
            let source = SetPlace::open(&workspace.sources()?)?;
            let run = moving.open_set(&tls, &source)?;
            let set = MirrorSet::read(source, &run.session()?)?;
            let to = target.target(&registry)?;
            let mapping = Mapping { place: &place, target: Some(&to), set: None, children };
            return write_mapping(&mapping, (&set.lock, &set.inventory), Some((&to, &target)), &tls, printer);
        }
        OcOperation::FromDisk(_, registry) => {
            let sources = workspace.sources()?.into_iter().map(|path| path.display().to_string());
            let places = sources.chain([registry]).collect();
            let args = push::PushArgs { places, expect: None, part: false, output, target, moving };
            let report = push::push(&args, &tls, printer)?;
            (push::outcome(&report), report.missing)
        }
        OcOperation::Between(_, registry) if args.dry_run => {
            let to = target.target(&registry)?;
            let mapping = Mapping { place: &place, target: Some(&to), set: None, children };
            return resolve_mapping(&config()?, &mapping, Some((&to, &target)), (&choice, &moving, &tls), printer);
        }
        OcOperation::Between(_, registry) => {
            let lock = Some(workspace.lock());
            let args =
                copy::CopyArgs { file: config()?, registry, spool: 4 << 30, lock, output, choice, target, moving };
            let report = copy::copy(&args, &tls, printer)?;
            (push::outcome(&report), report.missing)
        }
    };
    outcome.map_err(|failure| match (failure.text(), exit_code(&missing)) {
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
    let run = moving.open_scratch(tls)?;
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
