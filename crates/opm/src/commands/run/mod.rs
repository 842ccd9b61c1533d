//! `opm run`: test operators on a cluster.

mod bundle;
mod bundle_upgrade;
mod flags;
pub(crate) mod olm;
pub(crate) mod session;

use clap::Subcommand;

use crate::exit::CommandResult;
use crate::images::TlsFlags;
use crate::printer::Printer;

pub(crate) use flags::WorkFlags;

/// Test an operator on a cluster
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct RunArgs {
    #[command(subcommand)]
    command: RunCommand,
}

#[derive(Subcommand)]
enum RunCommand {
    Bundle(Box<bundle::BundleArgs>),
    BundleUpgrade(Box<bundle_upgrade::BundleUpgradeArgs>),
}

pub(crate) fn run(args: &RunArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    match &args.command {
        RunCommand::Bundle(args) => bundle::run(args, tls, printer),
        RunCommand::BundleUpgrade(args) => bundle_upgrade::run(args, tls, printer),
    }
}
