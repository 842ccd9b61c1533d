//! `opm registry prune-stranded`: removes bundles that are in no channel.

use std::path::PathBuf;

use legacy::{DatabaseTarget, IfMissing};

use crate::database;
use crate::exit::CommandResult;
use crate::printer::Printer;

/// Remove bundles that are in no channel from a database index
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  opm registry prune-stranded -d index.db")]
pub(crate) struct PruneStrandedArgs {
    /// Database to change
    #[arg(short, long, value_name = "FILE", default_value = "bundles.db")]
    database: PathBuf,
    /// Accepted for compatibility; has no effect
    #[arg(long)]
    debug: bool,
}

pub(crate) fn run(args: &PruneStrandedArgs, printer: &mut Printer) -> CommandResult {
    database::notice(printer);
    let target = DatabaseTarget::in_place(&args.database, IfMissing::Reject);
    database::change(&target, printer, |database| database.prune_stranded())
}
