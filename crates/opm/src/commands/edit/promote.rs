//! `opm edit promote`: adds a bundle to a channel.

use edit::promote::{Policy, Promotion};
use edit::verify::Purpose;

use super::workbench::{self, EditFlags};
use crate::exit::Outcome;
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

impl EntryArgs {
    pub(super) fn promotion(&self) -> Promotion {
        Promotion {
            policy: self.edge.unwrap_or(Edge::Replaces).policy(),
            replaces: self.replaces.clone(),
            skips: self.skip.clone(),
            skip_range: self.skip_range.clone(),
            create: self.create,
        }
    }
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
    fn policy(self) -> Policy {
        match self {
            Edge::Replaces => Policy::Replaces,
            Edge::Semver => Policy::Semver,
            Edge::SkipPatch => Policy::SkipPatch,
        }
    }
}

pub(super) fn run(args: &PromoteArgs, printer: &mut Printer) -> Outcome {
    let promotion = args.edge.promotion();
    workbench::change(&args.flags, Purpose::Keep, printer, |_, outline| {
        edit::promote::promote(outline, args.package.as_deref(), &args.bundle, &args.channel, &promotion)
            .map(|()| Vec::new())
    })
}
