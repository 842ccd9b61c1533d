//! `opm edit add-bundle`: adds a bundle to a catalog.

use edit::operations::{AddBundle, add_bundle};
use source::NamedSource;

use super::flags::EditFlags;
use super::promote::{Edge, EntryArgs};
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;

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
    /// Store olm.csv.metadata instead of all objects of the bundle, which requires an image; false stores the objects,
    /// and the default is what most bundles of the package do
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    migrate: Option<bool>,
    #[command(flatten)]
    edge: EntryArgs,
    #[command(flatten)]
    pull: PullFlags,
}

pub(super) fn run(args: &AddBundleArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let images = images::open(tls, &args.pull);
    let named = |failure: Failure| failure.context(&args.bundle);
    let (directory, image) = match source::resolve_one(&args.bundle, &images).map_err(|error| named(error.into()))? {
        NamedSource::Bundle(path, image) => (path, if args.pin { images.pulled_name(&image) } else { image }),
        NamedSource::Catalog(_) | NamedSource::Database(_) => {
            return Err(named(Failure::message(
                "not a bundle: expected a directory with 'manifests' and 'metadata', or a bundle image",
            )));
        }
    };
    let request = AddBundle {
        options: args.flags.options()?,
        name: args.bundle.clone(),
        directory,
        image: args.image.clone().unwrap_or(image),
        migrate: args.migrate,
        channels: args.channel.iter().filter(|channel| !channel.is_empty()).cloned().collect(),
        policy: args.edge.edge.map(Edge::policy),
        replaces: args.edge.replaces.clone(),
        skips: args.edge.skip.clone(),
        skip_range: args.edge.skip_range.clone(),
        create: args.edge.create,
    };
    args.flags.print(add_bundle(&request, printer), printer)
}
