//! `opm edit remove`: bundles, channels and packages out of a catalog.

use edit::deprecate::Target;
use edit::remove::Removal;

use super::TargetArgs;
use super::workbench::{self, Where};
use crate::exit::Outcome;
use crate::printer::Printer;

/// Remove a package, channel or bundle and stitch the edges around it
#[derive(clap::Args)]
#[command(
    long_about = "Remove a package, channel or bundle and stitch the edges around it.\n\n\
        What replaced a removed bundle replaces what that one replaced, and skips it, so that clusters which run it \
        can go on. Bundles that are in no channel any more go too, as do deprecations of what is removed.",
    after_help = "Examples:\n  \
        opm edit remove my-catalog --bundle etcd.v1.1.1 --dry-run\n  \
        opm edit remove my-catalog --bundle etcd.v1.1.1 --channel stable\n  \
        opm edit remove my-catalog --package etcd --channel alpha --default-channel stable\n  \
        opm edit remove my-catalog --package etcd"
)]
pub(super) struct RemoveArgs {
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    target: TargetArgs,
    /// The default channel from now on, if the one there is goes
    #[arg(long, value_name = "CHANNEL")]
    default_channel: Option<String>,
    /// Remove a bundle as if it had never been there: nothing skips it
    #[arg(long, requires = "bundle")]
    forget: bool,
}

pub(super) fn run(args: &RemoveArgs, printer: &mut Printer) -> Outcome {
    let target = args.target.target()?;
    let removal = Removal {
        channel: args.target.channel.clone().filter(|_| matches!(target, Target::Bundle { .. })),
        default_channel: args.default_channel.clone(),
        forget: args.forget,
    };
    workbench::change(&args.place, printer, |_, outline| edit::remove::remove(outline, &target, &removal))
}
