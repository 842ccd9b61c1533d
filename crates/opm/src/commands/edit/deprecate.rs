//! `opm edit deprecate`: deprecates a package, channel or bundle.

use edit::operations::{Deprecate, deprecate};

use super::TargetArgs;
use super::flags::EditFlags;
use crate::exit::CommandResult;
use crate::printer::Printer;

/// Deprecate a package, channel or bundle
#[derive(clap::Args)]
#[command(
    long_about = "Deprecate a package, channel or bundle: consoles show the message to its users.\n\n\
        The message is stored in the olm.deprecations blob of the package, which is created if necessary. Upgrades do \
        not change.",
    after_help = "Examples:\n  \
        opm edit deprecate my-catalog --bundle etcd.v1.0.0 --message 'has a leak; use 1.2'\n  \
        opm edit deprecate my-catalog --package etcd --channel alpha --message 'use stable'\n  \
        opm edit deprecate my-catalog --package etcd --message 'see etcd-next'\n  \
        opm edit deprecate my-catalog --package etcd --channel alpha --undo"
)]
pub(super) struct DeprecateArgs {
    #[command(flatten)]
    flags: EditFlags,
    #[command(flatten)]
    target: TargetArgs,
    /// Message for users
    #[arg(short, long, value_name = "TEXT", required_unless_present = "undo", conflicts_with = "undo")]
    message: Option<String>,
    /// Remove the deprecation
    #[arg(long)]
    undo: bool,
}

pub(super) fn run(args: &DeprecateArgs, printer: &mut Printer) -> CommandResult {
    let target = args.target.target()?;
    let request = Deprecate { options: args.flags.options()?, target, message: args.message.clone() };
    args.flags.print(deprecate(&request, printer), printer)
}
