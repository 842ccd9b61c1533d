//! `opm registry prune`: all packages out of a database but some.

use std::path::PathBuf;

use super::items;
use crate::database;
use crate::exit::Outcome;
use crate::printer::Printer;

/// Keep only some packages of a database index
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  opm registry prune -d index.db -p etcd")]
pub(crate) struct PruneArgs {
    /// Database to change
    #[arg(short, long, value_name = "FILE", default_value = "bundles.db")]
    database: PathBuf,
    /// Packages to keep; names that do not exist are ignored
    #[arg(short, long, value_name = "PACKAGE", value_delimiter = ',', required = true)]
    packages: Vec<String>,
    /// Accepted as older versions do
    #[arg(long)]
    permissive: bool,
    /// Log in detail
    #[arg(long)]
    debug: bool,
}

pub(crate) fn run(args: &PruneArgs, printer: &mut Printer) -> Outcome {
    database::notice(printer);
    let database = database::existing(&args.database)?;
    database::report(database.prune(&items(&args.packages)), printer)
}
