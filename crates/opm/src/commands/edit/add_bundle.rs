//! `opm edit add-bundle`: adds a bundle to a catalog.

use bundle::Contents;
use edit::add_bundle::NewBundle;
use edit::promote::Promotion;
use edit::verify::Purpose;
use fbc::Fbc;

use super::promote::EntryArgs;
use super::workbench::{self, EditFlags};
use crate::exit::{Failure, Outcome};
use crate::images::{Images, PullFlags, TlsFlags};
use crate::limits;
use crate::printer::Printer;
use crate::source::{self, Source};

/// Add a bundle to a catalog and its channels
#[derive(clap::Args)]
#[command(
    long_about = "Add a bundle to a catalog and its channels.\n\n\
        The blob follows the other bundles of its package, in their format. A new package gets its own file. --edge \
        selects the position in each channel, as for 'opm edit promote'.\n\n\
        Many bundles name their channels, the bundle that they replace and those that they skip. These names apply \
        unless --channel, --edge or --replaces, --skip and --skip-range are given. Channels that the bundle names are \
        created if they do not exist.",
    after_help = "Examples:\n  \
        opm edit add-bundle my-catalog quay.io/example/etcd-bundle:v1.2.0\n  \
        opm edit add-bundle my-catalog quay.io/example/etcd-bundle:v1.2.0 --channel stable\n  \
        opm edit add-bundle my-catalog ./bundle --image quay.io/example/etcd-bundle:v1.2.0 --channel stable,fast \\\n      \
        --edge skip-patch --dry-run"
)]
pub(super) struct AddBundleArgs {
    #[command(flatten)]
    flags: EditFlags,
    /// Bundle directory or image
    #[arg(value_name = "BUNDLE")]
    bundle: String,
    /// Channels to add the bundle to; can be repeated; defaults to the channels in the bundle
    #[arg(long, value_name = "CHANNEL", value_delimiter = ',')]
    channel: Vec<String>,
    /// Image reference to record for a bundle directory
    #[arg(long, value_name = "REF")]
    image: Option<String>,
    /// Pin the image by digest and keep its tag
    #[arg(long, conflicts_with = "image")]
    pin: bool,
    /// Store olm.csv.metadata instead of all objects of the bundle; requires an image
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
                "not a bundle: expected a directory with 'manifests' and 'metadata', or a bundle image".into(),
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
        printer.warning(&format!("{}: the bundle has no image, which clusters need: set it with --image", args.bundle));
    }
    let contents = bundle::read(&path, &options.limits).map_err(|error| named(error.to_string()))?;
    let new = NewBundle { name: rendered.name, package: rendered.package, json: rendered.json, csv, files: Vec::new() };
    let mut promotion = args.edge.promotion();
    let mut channels: Vec<String> = args.channel.iter().filter(|channel| !channel.is_empty()).cloned().collect();
    let taken = take_from_bundle(args, contents, &mut channels, &mut promotion);
    workbench::change(&args.flags, Purpose::Keep, printer, |_, outline| {
        let mut notes = taken;
        notes.extend(edit::add_bundle::add_bundle(outline, &new, &channels, &promotion)?);
        Ok(notes)
    })
}

/// Fills channels and edges that the user does not set from the bundle. Returns a note about them.
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
