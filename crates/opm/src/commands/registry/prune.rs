//! `opm registry prune`: removes all packages from a database except some.

use std::path::PathBuf;

use legacy::{DatabaseTarget, IfMissing};

use super::items;
use crate::database;
use crate::exit::CommandResult;
use crate::printer::Printer;

/// Remove all packages from a database index except the given ones
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  opm registry prune -d index.db -p etcd")]
pub(crate) struct PruneArgs {
    /// Database to change
    #[arg(short, long, value_name = "FILE", default_value = "bundles.db")]
    database: PathBuf,
    /// Packages to keep; unknown names are ignored
    #[arg(short, long, value_name = "PACKAGE", value_delimiter = ',', required = true)]
    packages: Vec<String>,
    /// Accepted for compatibility; has no effect
    #[arg(long)]
    permissive: bool,
    /// Accepted for compatibility; has no effect
    #[arg(long)]
    debug: bool,
}

pub(crate) fn run(args: &PruneArgs, printer: &mut Printer) -> CommandResult {
    database::notice(printer);
    let target = DatabaseTarget::in_place(&args.database, IfMissing::Reject);
    database::change(&target, printer, |database| database.prune(&items(&args.packages)))
}
