//! `opm edit set-default`: another default channel.

use super::workbench::{self, Where};
use crate::exit::Outcome;
use crate::printer::Printer;

/// Make another channel the default channel of a package
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    opm edit set-default my-catalog etcd stable\n  \
    opm edit set-default my-catalog etcd stable --dry-run")]
pub(super) struct SetDefaultArgs {
    #[command(flatten)]
    place: Where,
    /// The package
    #[arg(value_name = "PACKAGE")]
    package: String,
    /// One of its channels
    #[arg(value_name = "CHANNEL")]
    channel: String,
}

pub(super) fn run(args: &SetDefaultArgs, printer: &mut Printer) -> Outcome {
    workbench::change(&args.place, printer, |_, outline| {
        edit::set_default::set_default(outline, &args.package, &args.channel).map(|()| Vec::new())
    })
}
