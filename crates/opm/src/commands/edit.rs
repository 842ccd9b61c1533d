//! `opm edit`: edits a catalog in place, keeps it valid and preserves the formatting of its files.

mod add_bundle;
mod deprecate;
mod filter;
mod flags;
mod merge;
mod promote;
mod remove;
mod set_default;
mod set_edge;

use clap::Subcommand;
use edit::deprecate::DeprecationTarget;

use crate::exit::{CommandResult, Failure};
use crate::images::TlsFlags;
use crate::printer::Printer;

/// Edit a catalog and keep it valid
#[derive(clap::Args)]
#[command(
    long_about = "Edit a catalog and keep it valid.\n\n\
        An edit rewrites only the affected parts of files and keeps all other comments, order and formatting. opm \
        checks the result before it writes, and either all files change or none. --dry-run prints the changes as a \
        unified diff; --to writes the changed catalog to a new directory.",
    after_help = "Examples:\n  \
        opm edit add-bundle my-catalog quay.io/example/etcd-bundle:v1.2.0 --channel fast\n  \
        opm edit set-default my-catalog etcd stable --dry-run\n  \
        opm edit promote my-catalog etcd.v1.2.0 stable\n  \
        opm edit set-edge my-catalog etcd.v1.2.0 --channel stable --add-skip etcd.v1.1.1\n  \
        opm edit deprecate my-catalog --bundle etcd.v1.0.0 --message 'use 1.2'\n  \
        opm edit remove my-catalog --bundle etcd.v1.1.1\n  \
        opm edit filter my-catalog --package etcd --with-dependencies --to small\n  \
        opm edit merge my-catalog other-catalog --to both",
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct EditArgs {
    #[command(subcommand)]
    command: EditCommand,
}

#[derive(Subcommand)]
enum EditCommand {
    AddBundle(Box<add_bundle::AddBundleArgs>),
    Promote(promote::PromoteArgs),
    SetDefault(set_default::SetDefaultArgs),
    SetEdge(set_edge::SetEdgeArgs),
    Deprecate(deprecate::DeprecateArgs),
    Remove(remove::RemoveArgs),
    Filter(Box<filter::FilterArgs>),
    Merge(Box<merge::MergeArgs>),
}

pub(crate) fn run(args: &EditArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    match &args.command {
        EditCommand::AddBundle(args) => add_bundle::run(args, tls, printer),
        EditCommand::Promote(args) => promote::run(args, printer),
        EditCommand::SetDefault(args) => set_default::run(args, printer),
        EditCommand::SetEdge(args) => set_edge::run(args, printer),
        EditCommand::Deprecate(args) => deprecate::run(args, printer),
        EditCommand::Remove(args) => remove::run(args, printer),
        EditCommand::Filter(args) => filter::run(args, tls, printer),
        EditCommand::Merge(args) => merge::run(args, tls, printer),
    }
}

/// The target: a package, one of its channels, or a bundle
#[derive(clap::Args)]
#[group(required = true, multiple = true)]
struct TargetArgs {
    /// Package, or the package of --channel or --bundle
    #[arg(short, long, value_name = "PACKAGE")]
    package: Option<String>,
    /// Channel of --package
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// Bundle; requires --package if several packages have a bundle of that name
    #[arg(long, value_name = "BUNDLE")]
    bundle: Option<String>,
}

impl TargetArgs {
    fn target(&self) -> Result<DeprecationTarget, Failure> {
        match (&self.package, &self.channel, &self.bundle) {
            (package, _, Some(bundle)) => {
                Ok(DeprecationTarget::Bundle { package: package.clone(), bundle: bundle.clone() })
            }
            (Some(package), Some(channel), None) => {
                Ok(DeprecationTarget::Channel { package: package.clone(), channel: channel.clone() })
            }
            (Some(package), None, None) => Ok(DeprecationTarget::Package(package.clone())),
            (None, _, None) => Err(Failure::usage("--channel requires --package")),
        }
    }
}
