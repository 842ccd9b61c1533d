//! `opm registry rm`: removes packages from a database.

use std::path::PathBuf;

use legacy::{DatabaseTarget, IfMissing, Strictness};

use super::items;
use crate::database;
use crate::exit::CommandResult;
use crate::printer::Printer;

/// Remove packages from a database index
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  opm registry rm -d index.db -o etcd,prometheus")]
pub(crate) struct RmArgs {
    /// Database to change
    #[arg(short, long, value_name = "FILE", default_value = "bundles.db")]
    database: PathBuf,
    /// Packages to remove
    #[arg(short = 'o', long, value_name = "PACKAGE", value_delimiter = ',', required = true)]
    packages: Vec<String>,
    /// Warn about packages that do not exist, and remove the others
    #[arg(long)]
    permissive: bool,
    /// Accepted for compatibility; has no effect
    #[arg(long)]
    debug: bool,
}

pub(crate) fn run(args: &RmArgs, printer: &mut Printer) -> CommandResult {
    database::notice(printer);
    let (target, packages) = (DatabaseTarget::in_place(&args.database, IfMissing::Reject), items(&args.packages));
    let strictness = Strictness::new(args.permissive);
    database::change(&target, printer, |database| database.remove_packages(&packages, strictness))
}
