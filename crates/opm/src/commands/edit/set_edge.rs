//! `opm edit set-edge`: changes the upgrade edges of a channel entry.

use edit::operations::{SetEdge, set_edge};
use edit::set_edge::Edges;

use super::flags::EditFlags;
use crate::exit::CommandResult;
use crate::printer::Printer;

/// Change the upgrade edges to a bundle in a channel
#[derive(clap::Args)]
#[command(
    long_about = "Change the upgrade edges to a bundle in a channel.\n\n\
        Other edges do not change. An empty value removes an edge.",
    after_help = "Examples:\n  \
        opm edit set-edge my-catalog etcd.v1.2.0 --channel stable --replaces etcd.v1.1.0\n  \
        opm edit set-edge my-catalog etcd.v1.2.0 --channel stable --add-skip etcd.v1.1.1\n  \
        opm edit set-edge my-catalog etcd.v1.2.0 --channel stable --skip-range '>=1.0.0 <1.2.0'\n  \
        opm edit set-edge my-catalog etcd.v1.2.0 --channel stable --skip-range ''"
)]
pub(super) struct SetEdgeArgs {
    #[command(flatten)]
    flags: EditFlags,
    /// Bundle whose incoming edges change
    #[arg(value_name = "BUNDLE")]
    bundle: String,
    /// Channel of the bundle
    #[arg(long, value_name = "CHANNEL")]
    channel: String,
    /// Package of the bundle; required if several packages have a bundle of that name
    #[arg(short, long, value_name = "PACKAGE")]
    package: Option<String>,
    #[command(flatten)]
    edges: EdgeArgs,
}

/// The edges
#[derive(clap::Args)]
#[group(required = true, multiple = true)]
struct EdgeArgs {
    /// Bundle that it replaces
    #[arg(long, value_name = "BUNDLE")]
    replaces: Option<String>,
    /// Bundles that it skips; replaces the current list
    #[arg(long, value_name = "BUNDLE", value_delimiter = ',')]
    skips: Option<Vec<String>>,
    /// Bundles to add to its skips; can be repeated
    #[arg(long, value_name = "BUNDLE", value_delimiter = ',')]
    add_skip: Vec<String>,
    /// Bundles to remove from its skips; can be repeated
    #[arg(long, value_name = "BUNDLE", value_delimiter = ',')]
    remove_skip: Vec<String>,
    /// Versions that can upgrade to it directly
    #[arg(long, value_name = "RANGE")]
    skip_range: Option<String>,
}

pub(super) fn run(args: &SetEdgeArgs, printer: &mut Printer) -> CommandResult {
    let edges = Edges {
        replaces: args.edges.replaces.clone(),
        skips: args.edges.skips.clone(),
        add_skips: args.edges.add_skip.clone(),
        remove_skips: args.edges.remove_skip.clone(),
        skip_range: args.edges.skip_range.clone(),
    };
    let request = SetEdge {
        options: args.flags.options()?,
        package: args.package.clone(),
        channel: args.channel.clone(),
        bundle: args.bundle.clone(),
        edges,
    };
    args.flags.print(set_edge(&request, printer), printer)
}
