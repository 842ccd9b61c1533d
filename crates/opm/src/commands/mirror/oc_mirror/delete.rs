//! `oc-mirror delete`: lists the images of a file in a registry, and removes the images of such a list.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mirror::destination::MirrorDestination;
use mirror::imageset::ImageSetKind;
use mirror::listed::{self, ListedImage};
use mirror::lock::Role;
use mirror::prune::remove_listed;
use mirror::request::{MirrorRequest, SetRequest};
use mirror::selection::MirrorSelection;
use mirror::set::write_whole;

use super::{ChoiceFlags, Common, OcDestination, disk, place};
use crate::commands::mirror::flags::{invalid, report_missing, target, unresolved};
use crate::exit::{CommandResult, Failure, in_path};
use crate::printer::Printer;
use fbc::scratch::TempFolder;

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
    let OcDestination::Registry(registry) = place(&args.registry)? else {
        return Err(Failure::message("expected docker://REGISTRY[/PATH]"));
    };
    let target = target(&registry, None)?;
    match (&args.delete_yaml_file, args.generate) {
        (Some(file), _) => remove(args, file, &target, printer),
        (None, true) => generate(args, &target, printer),
        (None, false) => Err(Failure::message("give --generate to create a list, or --delete-yaml-file to apply one")),
    }
}

fn generate(args: &DeleteArgs, target: &MirrorDestination, printer: &mut Printer) -> CommandResult {
    let (tls, moving) = args.common.source_side();
    let file = args.config.clone().unwrap_or_default();
    let workspace = disk(args.workspace.as_deref().unwrap_or_default())?;
    let limits = crate::limits::from_env()?;
    let text = crate::commands::read_input(&file, &limits).map_err(|error| in_path(file.as_ref(), &error))?;
    let choice = ChoiceFlags { without_referrers: true, ..ChoiceFlags::defaults() };
    let options = choice.options("")?;
    let request = SetRequest::parse(&text, ImageSetKind::Delete, &options);
    let request = request.map_err(|problems| invalid(&file, &problems, printer))?;
    let scratch = TempFolder::private("opm-mirror-")?;
    let run = moving.open_scratch(&tls, &scratch)?;
    let selection = MirrorSelection::resolve(MirrorRequest::Set(Box::new(request)), &options, &run.session()?)
        .map_err(unresolved)?;
    report_missing(selection.missing(), printer);
    // A list without images whose registry failed would not be what the file requests.
    if selection.missing().iter().any(|one| one.failed) {
        return Err(Failure::Reported);
    }
    let mut images: BTreeMap<String, ListedImage> = BTreeMap::new();
    // Catalogs are never removed.
    for image in selection.images().iter().filter(|image| image.role != Role::Catalog) {
        let name = format!("{}/{}:{}", target.host, target.path(&image.path), image.tag);
        images.entry(name).or_insert(ListedImage { source: image.source.clone(), role: image.role });
    }
    let out = listed::write(&images);
    let id = args.delete_id.as_ref().map(|id| format!("-{id}")).unwrap_or_default();
    let place = workspace.join(format!("working-dir/delete/delete-images{id}.yaml"));
    write_whole(&place, out.as_bytes())?;
    let copy = workspace.join(format!("working-dir/delete/delete-imageset-config{id}.yaml"));
    write_whole(&copy, &text)?;
    printer.report(&format!("listed {} images in {}", images.len(), place.display()));
    Ok(())
}

fn remove(args: &DeleteArgs, file: &PathBuf, target: &MirrorDestination, printer: &mut Printer) -> CommandResult {
    let (tls, moving) = args.common.destination_side();
    let about = std::fs::metadata(file).map_err(|error| in_path(file, &error))?;
    if about.len() > listed::LIMIT {
        return Err(Failure::message(format!("{}: larger than {} bytes", file.display(), listed::LIMIT)));
    }
    let text = std::fs::read(file).map_err(|error| in_path(file, &error))?;
    let (names, others) = listed::read(&text, target).map_err(|error| error.named(file.display()))?;
    for name in &others {
        printer.error(&format!("{name}: not below {target}"));
    }
    let scratch = TempFolder::private("opm-mirror-")?;
    let run = moving.open_scratch(&tls, &scratch)?;
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
