//! `oc-mirror delete`: lists the images of a file in a registry, and removes the images of such a list.

use std::path::{Path, PathBuf};

use mirror::destination::MirrorDestination;
use mirror::listed;
use mirror::oc_mirror::{GenerateList, GeneratedList, Workspace, registry};
use mirror::prune::remove_listed;

use super::{ChoiceFlags, Common};
use crate::commands::mirror::flags::{invalid, report_missing, target, unresolved};
use crate::exit::{CommandResult, Failure, in_path};
use crate::printer::Printer;

/// Remove images from a registry: first generate a list, then apply it
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    oc-mirror delete --v2 --generate -c delete.yaml --workspace file:///data/mirror docker://registry.example.com\n  \
    oc-mirror delete --v2 --delete-yaml-file /data/mirror/working-dir/delete/delete-images.yaml docker://registry.example.com")]
pub(super) struct DeleteArgs {
    /// Registry: docker://REGISTRY[/PATH]
    #[arg(value_name = "docker://REGISTRY[/PATH]")]
    registry: String,
    /// Generate the list
    #[arg(long, requires = "config", requires = "workspace")]
    generate: bool,
    /// DeleteImageSetConfiguration file
    #[arg(short, long, value_name = "FILE")]
    config: Option<String>,
    /// Working directory: file://DIR
    #[arg(long, value_name = "file://DIR")]
    workspace: Option<String>,
    /// Suffix for the name of the list
    #[arg(long, value_name = "ID")]
    delete_id: Option<String>,
    /// List of images to remove
    #[arg(long, value_name = "FILE", conflicts_with = "generate")]
    delete_yaml_file: Option<PathBuf>,
    /// Also remove the signatures of images, by tag
    #[arg(long, conflicts_with = "generate")]
    delete_signatures: bool,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(args: &DeleteArgs, printer: &mut Printer) -> CommandResult {
    args.common.check()?;
    let target = target(&registry(&args.registry).map_err(Failure::message)?, None)?;
    match (&args.delete_yaml_file, args.generate) {
        (Some(file), _) => remove(args, file, &target, printer),
        (None, true) => generate(args, &target, printer),
        (None, false) => Err(Failure::message("give --generate to create a list, or --delete-yaml-file to apply one")),
    }
}

fn generate(args: &DeleteArgs, target: &MirrorDestination, printer: &mut Printer) -> CommandResult {
    let (tls, moving) = args.common.source_side();
    let file = args.config.clone().unwrap_or_default();
    let workspace = Workspace::parse(args.workspace.as_deref().unwrap_or_default()).map_err(Failure::message)?;
    let limits = crate::limits::from_env()?;
    let text = crate::commands::read_input(&file, &limits).map_err(|error| in_path(file.as_ref(), &error))?;
    let choice = ChoiceFlags { without_referrers: true, ..ChoiceFlags::defaults() };
    let (id, options) = (args.delete_id.as_deref(), choice.options("")?);
    let list = GenerateList { text: &text, options, workspace: &workspace, id };
    let request = list.request().map_err(|problems| invalid(&file, &problems, printer))?;
    let run = moving.open_scratch(&tls)?;
    let GeneratedList { missing, written } = list.run(request, target, &run.session()?).map_err(unresolved)?;
    report_missing(&missing, printer);
    let (images, place) = written.ok_or(Failure::Reported)?;
    printer.report(&format!("listed {images} images in {}", place.display()));
    Ok(())
}

fn remove(args: &DeleteArgs, file: &Path, target: &MirrorDestination, printer: &mut Printer) -> CommandResult {
    let (tls, moving) = args.common.destination_side();
    let (names, others) = listed::read_file(file, target)?;
    for name in &others {
        printer.error(&format!("{name}: not below {target}"));
    }
    let run = moving.open_scratch(&tls)?;
    let report = remove_listed(target, &names, args.delete_signatures, &run.session()?)?;
    for image in &report.absent {
        printer.report(&format!("{image} does not exist"));
    }
    for (image, tags) in &report.foreign {
        printer.report(&format!("keeping {image}: other tags need it: {}", tags.join(", ")));
    }
    for (name, error) in &report.failed {
        printer.error(&format!("{name}: {error}"));
    }
    printer.report(&format!("removed: {}", report.removed));
    if others.is_empty() && report.failed.is_empty() { Ok(()) } else { Err(Failure::Reported) }
}
