//! `opm edit set-default`: sets the default channel.

use edit::verify::Purpose;

use super::workbench::{self, EditFlags};
use crate::exit::Outcome;
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

pub(super) fn run(args: &SetDefaultArgs, printer: &mut Printer) -> Outcome {
    workbench::change(&args.flags, Purpose::Keep, printer, |_, outline| {
        edit::set_default::set_default(outline, &args.package, &args.channel).map(|()| Vec::new())
    })
}
