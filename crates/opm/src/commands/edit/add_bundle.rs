//! `opm edit add-bundle`: a new bundle into a catalog.

use edit::add_bundle::NewBundle;
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
        yet gets a file of its own. --edge says how the bundle is put between those of a channel, as with 'promote'.",
    after_help = "Examples:\n  \
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
    /// Channels to put it into; can be given several times
    #[arg(long, value_name = "CHANNEL", value_delimiter = ',', required = true)]
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
        Some(csv) => Some(csv),
        None => {
            let fbc = Fbc::default();
            fbc.make(&rendered.json, &options.limits).and_then(|blob| fbc.csv(&blob, &options.limits))?
        }
    };
    let new = NewBundle { name: rendered.name, package: rendered.package, json: rendered.json, csv, files: Vec::new() };
    let promotion = args.edge.promotion();
    workbench::change(&args.place, printer, |_, outline| {
        edit::add_bundle::add_bundle(outline, &new, &args.channel, &promotion)
    })
}
