//! `opm edit merge`: merges two catalogs.

use std::path::PathBuf;

use edit::operations::{Merge, merge};

use super::flags::EditFlags;
use crate::exit::CommandResult;
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;

/// Merge another catalog into a catalog
#[derive(clap::Args)]
#[command(
    long_about = "Merge another catalog into a catalog.\n\n\
        Packages that only OTHER has are copied with their formatting. For packages in both, missing channels, entries, \
        bundles, deprecations and other blobs are added. If the catalogs conflict, opm reports the conflicts and changes \
        nothing.",
    after_help = "Examples:\n  \
        opm edit merge my-catalog contributed-catalog --dry-run\n  \
        opm edit merge my-catalog contributed-catalog --to both\n  \
        opm edit merge my-catalog contributed-catalog --prefer-first"
)]
pub(super) struct MergeArgs {
    #[command(flatten)]
    flags: EditFlags,
    /// Other catalog: a directory, image or database
    #[arg(value_name = "OTHER")]
    other: PathBuf,
    /// Keep the content of the first catalog on conflicts
    #[arg(long)]
    prefer_first: bool,
    #[command(flatten)]
    pull: PullFlags,
}

pub(super) fn run(args: &MergeArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let images = images::open(tls, &args.pull);
    let (options, _opened) = args.flags.options_of_any(&images)?;
    let other = source::directory(&args.other.to_string_lossy(), &images, &options.limits)?;
    let request = Merge { options, other: other.path().to_path_buf(), prefer_first: args.prefer_first };
    args.flags.print(merge(&request, printer), printer)
}
