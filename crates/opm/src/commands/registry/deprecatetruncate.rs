//! `opm registry deprecatetruncate`: deprecates bundles and truncates their channels below them.

use std::path::PathBuf;

use legacy::{DatabaseTarget, IfMissing, Strictness};

use super::items;
use crate::database;
use crate::exit::CommandResult;
use crate::printer::Printer;

/// Deprecate bundles of a database index and remove the bundles they replace
#[derive(clap::Args)]
#[command(
    long_about = "Deprecate bundles of a database index and remove the bundles they replace.\n\n\
        A deprecated bundle becomes the tail of its channels. A channel whose head is deprecated is removed. The head of \
        a default channel cannot be deprecated.",
    after_help = "Examples:\n  opm registry deprecatetruncate -d index.db -b quay.io/example/bundle:v1.0.0"
)]
pub(crate) struct DeprecateArgs {
    /// Database to change
    #[arg(short, long, value_name = "FILE", default_value = "index.db")]
    database: PathBuf,
    /// Bundles to deprecate, by image
    #[arg(short, long, value_name = "REF", value_delimiter = ',')]
    bundle_images: Vec<String>,
    /// Warn about bundles that cannot be deprecated, and deprecate the others
    #[arg(long)]
    permissive: bool,
    /// Remove a package if all its channel heads are listed
    #[arg(long)]
    allow_package_removal: bool,
    /// Accepted for compatibility; has no effect
    #[arg(long)]
    debug: bool,
}

pub(crate) fn run(args: &DeprecateArgs, printer: &mut Printer) -> CommandResult {
    database::notice(printer);
    let (target, images) = (DatabaseTarget::in_place(&args.database, IfMissing::Reject), items(&args.bundle_images));
    let strictness = Strictness::new(args.permissive);
    database::change(&target, printer, |database| database.deprecate(&images, args.allow_package_removal, strictness))
}
