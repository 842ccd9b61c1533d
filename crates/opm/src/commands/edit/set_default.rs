//! `opm edit set-default`: sets the default channel.

use edit::operations::{SetDefault, set_default};

use super::flags::EditFlags;
use crate::exit::CommandResult;
use crate::printer::Printer;

/// Set the default channel of a package
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    opm edit set-default my-catalog etcd stable\n  \
    opm edit set-default my-catalog etcd stable --dry-run")]
pub(super) struct SetDefaultArgs {
    #[command(flatten)]
    flags: EditFlags,
    /// Package to change
    #[arg(value_name = "PACKAGE")]
    package: String,
    /// New default channel
    #[arg(value_name = "CHANNEL")]
    channel: String,
}

pub(super) fn run(args: &SetDefaultArgs, printer: &mut Printer) -> CommandResult {
    let options = args.flags.options()?;
    let request = SetDefault { options, package: args.package.clone(), channel: args.channel.clone() };
    args.flags.print(set_default(&request, printer), printer)
}
