//! `opm edit add-bundle`: a new bundle into a catalog.

use bundle::Contents;
use edit::add_bundle::NewBundle;
use edit::promote::Promotion;
use fbc::Fbc;

use super::promote::EntryArgs;
use super::workbench::{self, Where};
use crate::exit::{Failure, Outcome};
use crate::images::{Images, PullFlags, TlsFlags};
use crate::limits;
use crate::printer::Printer;
use crate::source::{self, Source};

/// Add a bundle to the catalog and put it into channels
#[derive(clap::Args)]
#[command(
    long_about = "Add a bundle to the catalog and put it into channels.\n\n\
        The blob comes behind the other bundles of its package, in their format. A package that is not in the catalog \
        yet gets a file of its own. --edge decides how the bundle is put between those of a channel, as with 'promote'.\n\n\
        The bundle itself often names its channels, what it replaces and what it skips: those count unless --channel, \
        --edge or --replaces, --skip and --skip-range are given. Channels that the bundle names are made if there are \
        none.",
    after_help = "Examples:\n  \
        opm edit add-bundle my-catalog quay.io/example/etcd-bundle:v1.2.0\n  \
        opm edit add-bundle my-catalog quay.io/example/etcd-bundle:v1.2.0 --channel stable\n  \
        opm edit add-bundle my-catalog ./bundle --image quay.io/example/etcd-bundle:v1.2.0 --channel stable,fast \\\n      \
        --edge skip-patch --dry-run"
)]
pub(super) struct AddBundleArgs {
    #[command(flatten)]
    place: Where,
    /// Directory or image of the bundle
    #[arg(value_name = "BUNDLE")]
    bundle: String,
    /// Channels to put it into; can be given several times; defaults to those that the bundle names
    #[arg(long, value_name = "CHANNEL", value_delimiter = ',')]
    channel: Vec<String>,
    /// Image that the bundle of a directory is going to have
    #[arg(long, value_name = "REF")]
    image: Option<String>,
    /// Record the image by its digest beside its tag
    #[arg(long, conflicts_with = "image")]
    pin: bool,
    /// Keep what consoles show of the bundle in place of all its objects; it needs an image
    #[arg(long)]
    migrate: bool,
    #[command(flatten)]
    edge: EntryArgs,
    #[command(flatten)]
    pull: PullFlags,
}

pub(super) fn run(args: &AddBundleArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let images = Images::new(tls, &args.pull);
    let named = |message: String| Failure::message(format!("{}: {message}", args.bundle));
    let (path, image) = match source::resolve_one(&args.bundle, &images).map_err(named)? {
        Source::Bundle(path, image) => (path, if args.pin { images.pulled_name(&image) } else { image }),
        Source::Catalog(_) | Source::Database(_) => {
            return Err(named(
                "is no bundle: that is a directory with 'manifests' and 'metadata', or an image of one".into(),
            ));
        }
    };
    let image = args.image.clone().unwrap_or(image);
    let options =
        bundle::Options { image: &image, image_template: None, migrate: args.migrate, limits: limits::from_env()? };
    let rendered = bundle::render(&path, &options).map_err(|error| named(error.to_string()))?;
    rendered.warnings.iter().for_each(|warning| printer.warning(&format!("{}: {warning}", args.bundle)));
    let csv = match rendered.csv {
        Some(csv) => Some(csv.into_string()),
        None => {
            let fbc = Fbc::default();
            fbc.generated_blob(&rendered.json, &options.limits).and_then(|blob| fbc.csv(&blob, &options.limits))?
        }
    };
    if image.is_empty() {
        printer.warning(&format!("{}: the bundle has no image, which clusters need: name it by --image", args.bundle));
    }
    let contents = bundle::read(&path, &options.limits).map_err(|error| named(error.to_string()))?;
    let new = NewBundle { name: rendered.name, package: rendered.package, json: rendered.json, csv, files: Vec::new() };
    let mut promotion = args.edge.promotion();
    let mut channels: Vec<String> = args.channel.iter().filter(|channel| !channel.is_empty()).cloned().collect();
    let taken = take_from_bundle(args, contents, &mut channels, &mut promotion);
    workbench::change(&args.place, printer, |_, outline| {
        let mut notes = taken;
        notes.extend(edit::add_bundle::add_bundle(outline, &new, &channels, &promotion)?);
        Ok(notes)
    })
}

/// Takes channels and edges from the bundle where the user gives none; returns a note on what it took.
fn take_from_bundle(
    args: &AddBundleArgs,
    contents: Contents,
    channels: &mut Vec<String>,
    promotion: &mut Promotion,
) -> Vec<String> {
    let mut taken = Vec::new();
    let of_bundle: Vec<String> = contents.channels.into_iter().filter(|channel| !channel.is_empty()).collect();
    if channels.is_empty() && !of_bundle.is_empty() {
        let what = if of_bundle.len() == 1 { "channel" } else { "channels" };
        taken.push(format!("{what} {}", of_bundle.join(", ")));
        *channels = of_bundle;
        promotion.create = true;
    }
    let EntryArgs { edge, replaces, skip, skip_range, .. } = &args.edge;
    if edge.is_none() && replaces.is_none() && !contents.replaces.is_empty() {
        taken.push(format!("replaces {}", contents.replaces));
        promotion.replaces = Some(contents.replaces);
    }
    if skip.is_empty() && !contents.skips.is_empty() {
        taken.push(format!("skips {}", contents.skips.join(", ")));
        promotion.skips = contents.skips;
    }
    if skip_range.is_none() && !contents.skip_range.is_empty() {
        taken.push(format!("skipRange {}", contents.skip_range));
        promotion.skip_range = Some(contents.skip_range);
    }
    if taken.is_empty() { Vec::new() } else { vec![format!("from the bundle: {}", taken.join("; "))] }
}
