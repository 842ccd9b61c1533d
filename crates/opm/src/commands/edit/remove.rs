//! `opm edit remove`: removes bundles, channels and packages from a catalog.

use edit::deprecate::DeprecationTarget;
use edit::operations::{Remove, remove};
use edit::remove::Removal;

use super::TargetArgs;
use super::flags::EditFlags;
use crate::exit::CommandResult;
use crate::printer::Printer;

/// Remove a package, channel or bundle and reconnect the upgrade edges
#[derive(clap::Args)]
#[command(
    long_about = "Remove a package, channel or bundle and reconnect the upgrade edges.\n\n\
        The successor of a removed bundle replaces its predecessor, and skips the removed bundle so that clusters that \
        run it can upgrade. Bundles that are no longer in a channel are removed too, as are the deprecations of removed \
        items.",
    after_help = "Examples:\n  \
        opm edit remove my-catalog --bundle etcd.v1.1.1 --dry-run\n  \
        opm edit remove my-catalog --bundle etcd.v1.1.1 --channel stable\n  \
        opm edit remove my-catalog --package etcd --channel alpha --default-channel stable\n  \
        opm edit remove my-catalog --package etcd"
)]
pub(super) struct RemoveArgs {
    #[command(flatten)]
    flags: EditFlags,
    #[command(flatten)]
    target: TargetArgs,
    /// New default channel if the current one is removed
    #[arg(long, value_name = "CHANNEL")]
    default_channel: Option<String>,
    /// Remove a bundle as if it had never existed: no entry skips it
    #[arg(long, requires = "bundle")]
    forget: bool,
}

pub(super) fn run(args: &RemoveArgs, printer: &mut Printer) -> CommandResult {
    let target = args.target.target()?;
    let removal = Removal {
        channel: args.target.channel.clone().filter(|_| matches!(target, DeprecationTarget::Bundle { .. })),
        default_channel: args.default_channel.clone(),
        forget: args.forget,
    };
    let request = Remove { options: args.flags.options()?, target, removal };
    args.flags.print(remove(&request, printer), printer)
}
