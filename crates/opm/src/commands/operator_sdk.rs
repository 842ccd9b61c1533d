//! `operator-sdk`: the commands that test bundles on a cluster, under their original name.

use std::ffi::OsString;

use clap::{Command, CommandFactory, Parser, Subcommand};

use super::{cleanup, run as run_commands};
use crate::cli::{self, go_conventions};
use crate::exit::CommandResult;
use crate::images::{self, TlsFlags};
use crate::printer::Printer;

/// Test bundles on a cluster
#[derive(Parser)]
#[command(
    name = "operator-sdk",
    bin_name = "operator-sdk",
    version,
    after_help = "Examples:\n  \
        operator-sdk run bundle quay.io/example/foo-bundle:v1.0.0\n  \
        operator-sdk run bundle-upgrade quay.io/example/foo-bundle:v1.1.0\n  \
        operator-sdk cleanup foo",
    subcommand_required = true,
    arg_required_else_help = true
)]
struct OperatorSdk {
    #[command(subcommand)]
    command: OperatorSdkCommand,
    #[command(flatten)]
    tls: TlsFlags,
}

#[derive(Subcommand)]
enum OperatorSdkCommand {
    Run(Box<run_commands::RunArgs>),
    Cleanup(cleanup::CleanupArgs),
}

/// Returns the arguments of the program.
pub(crate) fn command() -> Command {
    go_conventions(OperatorSdk::command())
}

pub(crate) fn run(arguments: Vec<OsString>, printer: &mut Printer) -> CommandResult {
    let Some(sdk) = cli::parse::<OperatorSdk>(command(), arguments, printer)? else { return Ok(()) };
    images::check_flags(&sdk.tls, printer)?;
    match &sdk.command {
        OperatorSdkCommand::Run(args) => run_commands::run(args, &sdk.tls, printer),
        OperatorSdkCommand::Cleanup(args) => cleanup::run(args, printer),
    }
}
