//! `opm edit promote`: adds a bundle to a channel.

use edit::operations::{Promote, promote};
use edit::promote::{EdgePolicy, Promotion};

use super::flags::EditFlags;
use crate::exit::CommandResult;
use crate::printer::Printer;

/// Add a bundle of the catalog to a channel
#[derive(clap::Args)]
#[command(
    long_about = "Add a bundle of the catalog to a channel.\n\n\
        With --edge replaces the bundle becomes the head and replaces the previous head. With --edge semver it is \
        inserted by version. With --edge skip-patch it is inserted by version and skips the earlier patches of its minor \
        version.",
    after_help = "Examples:\n  \
        opm edit promote my-catalog etcd.v1.2.0 stable\n  \
        opm edit promote my-catalog etcd.v1.1.3 stable --edge skip-patch --dry-run\n  \
        opm edit promote my-catalog etcd.v2.0.0 candidate --create"
)]
pub(super) struct PromoteArgs {
    #[command(flatten)]
    flags: EditFlags,
    /// Bundle to add
    #[arg(value_name = "BUNDLE")]
    bundle: String,
    /// Channel to add it to
    #[arg(value_name = "CHANNEL")]
    channel: String,
    /// Package of the bundle; required if several packages have a bundle of that name
    #[arg(short, long, value_name = "PACKAGE")]
    package: Option<String>,
    #[command(flatten)]
    edge: EntryArgs,
}

/// The edges of a new channel entry
#[derive(clap::Args)]
pub(super) struct EntryArgs {
    /// Position among the other entries; defaults to replaces
    #[arg(long, value_name = "POLICY", conflicts_with = "replaces")]
    pub(super) edge: Option<Edge>,
    /// Bundle that it replaces, instead of the one that --edge selects; empty for none
    #[arg(long, value_name = "BUNDLE")]
    pub(super) replaces: Option<String>,
    /// Additional bundles to skip; can be repeated
    #[arg(long, value_name = "BUNDLE", value_delimiter = ',')]
    pub(super) skip: Vec<String>,
    /// Versions that can upgrade to it directly
    #[arg(long, value_name = "RANGE")]
    pub(super) skip_range: Option<String>,
    /// Create the channel if it does not exist
    #[arg(long)]
    pub(super) create: bool,
}

/// The position of a new entry in a channel.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum Edge {
    /// Become the head and replace the previous head
    Replaces,
    /// Insert by version
    Semver,
    /// Insert by version and skip the earlier patches of the minor version
    SkipPatch,
}

impl Edge {
    pub(super) fn policy(self) -> EdgePolicy {
        match self {
            Edge::Replaces => EdgePolicy::Replaces,
            Edge::Semver => EdgePolicy::Semver,
            Edge::SkipPatch => EdgePolicy::SkipPatch,
        }
    }
}

pub(super) fn run(args: &PromoteArgs, printer: &mut Printer) -> CommandResult {
    let promotion = Promotion {
        policy: args.edge.edge.map(Edge::policy).unwrap_or_default(),
        replaces: args.edge.replaces.clone(),
        skips: args.edge.skip.clone(),
        skip_range: args.edge.skip_range.clone(),
        create: args.edge.create,
    };
    let request = Promote {
        options: args.flags.options()?,
        package: args.package.clone(),
        bundle: args.bundle.clone(),
        channel: args.channel.clone(),
        promotion,
    };
    args.flags.print(promote(&request, printer), printer)
}
