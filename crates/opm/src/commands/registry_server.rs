//! `registry-server`: serves the registry API from a database, under the name that the first index images use.

use std::ffi::OsString;

use clap::{Command, CommandFactory, Parser};

use super::registry::serve::{self, ServeArgs};
use crate::cli::{self, go_conventions};
use crate::exit::CommandResult;
use crate::printer::Printer;

/// Serve a database index
#[derive(Parser)]
#[command(
    name = "registry-server",
    bin_name = "registry-server",
    version,
    long_about = "Serve a database index: 'opm registry serve' under the name that the first index images use.",
    after_help = "Examples:\n  registry-server --database /bundles.db"
)]
struct RegistryServer {
    #[command(flatten)]
    serve: ServeArgs,
}

/// Parses the command line and serves.
/// Returns the arguments of the program.
pub(crate) fn command() -> Command {
    go_conventions(RegistryServer::command())
}

pub(crate) fn run(arguments: Vec<OsString>, printer: &mut Printer) -> CommandResult {
    let Some(args) = cli::parse::<RegistryServer>(command(), arguments, printer)? else { return Ok(()) };
    serve::run(&args.serve, printer)
}
