//! `oc-mirror delete`: lists the images of a file in a registry, and removes the images of such a list.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use image::Store;
use mirror::imageset::Kind;
use mirror::listed::{self, Listed};
use mirror::lock::Role;

use super::{ChoiceFlags, Common, Place, disk, place};
use crate::commands::mirror::open;
use crate::commands::mirror::prepare::{Input, Request, prepare};
use crate::exit::{Failure, Outcome, in_path};
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::transfer::Moved;

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

pub(super) fn run(args: &DeleteArgs, printer: &mut Printer) -> Outcome {
    args.common.check()?;
    let Place::Registry(registry) = place(&args.registry)? else {
        return Err(Failure::message("expected docker://REGISTRY[/PATH]"));
    };
    let target = mirror::destination::Target::parse(&registry, None).map_err(Failure::message)?;
    match (&args.delete_yaml_file, args.generate) {
        (Some(file), _) => remove(args, file, &target, printer),
        (None, true) => generate(args, &target, printer),
        (None, false) => Err(Failure::message("give --generate to create a list, or --delete-yaml-file to apply one")),
    }
}

fn generate(args: &DeleteArgs, target: &mirror::destination::Target, printer: &mut Printer) -> Outcome {
    let (tls, moving) = args.common.source_side();
    let file = args.config.clone().unwrap_or_default();
    let workspace = disk(args.workspace.as_deref().unwrap_or_default())?;
    let limits = crate::limits::from_env()?;
    let text = crate::commands::read_input(&file, &limits).map_err(|error| in_path(file.as_ref(), &error))?;
    let set = open::image_set(&file, &text, Kind::Delete, &[], printer)?;
    let scratch = Unfinished::private("opm-mirror-")?;
    let moved: Arc<Moved> = Arc::default();
    let client = moving.client(&tls, Store::open(&scratch.path().join("store"))?, &moved)?;
    let opener = moving.images(&tls, Some(&scratch.path().join("source")));
    let choice = ChoiceFlags { without_referrers: true, ..ChoiceFlags::defaults() };
    let request = Request { set, request: image::Digest::of(&text), installed: None };
    let input = Input::Set(Box::new(request));
    let prepared = prepare(input, &choice, std::path::Path::new(""), &client, &opener, printer)?;
    let mut images: BTreeMap<String, Listed> = BTreeMap::new();
    // Catalogs are never removed.
    for image in prepared.plan.images.iter().filter(|image| image.role != Role::Catalog) {
        let name = format!("{}/{}:{}", target.host, target.path(&image.path), image.tag);
        images.entry(name).or_insert(Listed { source: image.source.clone(), role: image.role });
    }
    let out = listed::write(&images);
    let id = args.delete_id.as_ref().map(|id| format!("-{id}")).unwrap_or_default();
    let place = workspace.join(format!("working-dir/delete/delete-images{id}.yaml"));
    mirror::set::write_whole(&place, out.as_bytes()).map_err(Failure::message)?;
    let copy = workspace.join(format!("working-dir/delete/delete-imageset-config{id}.yaml"));
    mirror::set::write_whole(&copy, &text).map_err(Failure::message)?;
    printer.report(&format!("listed {} images in {}", images.len(), place.display()));
    Ok(())
}

fn remove(args: &DeleteArgs, file: &PathBuf, target: &mirror::destination::Target, printer: &mut Printer) -> Outcome {
    let (tls, moving) = args.common.destination_side();
    let about = std::fs::metadata(file).map_err(|error| in_path(file, &error))?;
    if about.len() > listed::LIMIT {
        return Err(Failure::message(format!("{}: larger than {} bytes", file.display(), listed::LIMIT)));
    }
    let text = std::fs::read(file).map_err(|error| in_path(file, &error))?;
    let named = |error: mirror::MirrorError| Failure::fault(error.named(file.display()));
    let (names, others) = listed::read(&text, target).map_err(named)?;
    for name in &others {
        printer.error(&format!("{name}: not below {target}"));
    }
    let mut failed = others.len();
    let scratch = Unfinished::private("opm-mirror-")?;
    let moved: Arc<Moved> = Arc::default();
    let client = moving.client(&tls, Store::open(&scratch.path().join("store"))?, &moved)?;
    let pruning = mirror::prune::find_listed(&client, target, &names, &[]).map_err(Failure::message)?;
    for image in &pruning.absent {
        printer.report(&format!("{image} does not exist"));
    }
    for (image, tags) in &pruning.foreign {
        printer.report(&format!("keeping {image}: other tags need it: {}", tags.join(", ")));
    }
    let mut digests: Vec<image::Reference> =
        pruning.images.keys().filter_map(|image| image::Reference::parse(image).ok()).collect();
    if args.delete_signatures {
        let tags = digests.iter().filter_map(|it| it.with_tag(&format!("sha256-{}.sig", it.digest()?.hex())));
        let tags: Vec<image::Reference> = tags.collect();
        for (name, outcome) in tags.iter().zip(client.current_digests(&tags)) {
            match outcome {
                // Unsigned images are fine.
                Ok(found) => digests.extend(found.map(|digest| name.with_digest(digest))),
                Err(error) => {
                    printer.error(&format!("{name}: {error}"));
                    failed += 1;
                }
            }
        }
    }
    digests.sort_by_key(ToString::to_string);
    digests.dedup();
    for (name, outcome) in digests.iter().zip(client.remove(&digests)) {
        if let Err(error) = outcome {
            printer.error(&format!("{name}: {error}"));
            failed += 1;
        }
    }
    printer.report(&format!("removed: {}", digests.len()));
    if failed > 0 { Err(Failure::Reported) } else { Ok(()) }
}
