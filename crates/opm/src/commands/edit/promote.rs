//! `opm edit promote`: a bundle into a channel.

use edit::promote::{Policy, Promotion};

use super::workbench::{self, Where};
use crate::exit::Outcome;
use crate::printer::Printer;

/// Put a bundle of the catalog into a channel
#[derive(clap::Args)]
#[command(
    long_about = "Put a bundle of the catalog into a channel.\n\n\
        With --edge replaces it becomes the head and replaces the head there was. With --edge semver it goes to its \
        place by version. With --edge skip-patch it does too, and skips the earlier patches of its minor version.",
    after_help = "Examples:\n  \
        opm edit promote my-catalog etcd.v1.2.0 stable\n  \
        opm edit promote my-catalog etcd.v1.1.3 stable --edge skip-patch --dry-run\n  \
        opm edit promote my-catalog etcd.v2.0.0 candidate --create"
)]
pub(super) struct PromoteArgs {
    #[command(flatten)]
    place: Where,
    /// The bundle
    #[arg(value_name = "BUNDLE")]
    bundle: String,
    /// The channel
    #[arg(value_name = "CHANNEL")]
    channel: String,
    /// The package, if several have a bundle of that name
    #[arg(short, long, value_name = "PACKAGE")]
    package: Option<String>,
    #[command(flatten)]
    edge: EntryArgs,
}

/// How an entry is put into a channel
#[derive(clap::Args)]
pub(super) struct EntryArgs {
    /// How it is put between the others; defaults to replaces
    #[arg(long, value_name = "POLICY", conflicts_with = "replaces")]
    pub(super) edge: Option<Edge>,
    /// Bundle that it replaces, in place of what --edge would choose; empty for none
    #[arg(long, value_name = "BUNDLE")]
    pub(super) replaces: Option<String>,
    /// Bundles that it skips as well; can be given several times
    #[arg(long, value_name = "BUNDLE", value_delimiter = ',')]
    pub(super) skip: Vec<String>,
    /// Versions that upgrade to it directly
    #[arg(long, value_name = "RANGE")]
    pub(super) skip_range: Option<String>,
    /// Make the channel if there is none
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

/// How an entry is put between the others of a channel.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum Edge {
    /// It becomes the head and replaces the head there was
    Replaces,
    /// It goes to its place by version
    Semver,
    /// The same, and it skips the earlier patches of its minor version
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
    workbench::change(&args.place, printer, |_, outline| {
        edit::promote::promote(outline, args.package.as_deref(), &args.bundle, &args.channel, &promotion)
            .map(|()| Vec::new())
    })
}
