//! `opm edit merge`: merges two catalogs.

use std::path::PathBuf;

use edit::merge::Side;

use super::texts::Texts;
use super::workbench::{self, EditFlags};
use crate::exit::Outcome;
use crate::images::{Images, PullFlags, TlsFlags};
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

pub(super) fn run(args: &MergeArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let images = Images::new(tls, &args.pull);
    let (flags, _staging) = workbench::fetched(&args.flags, &images, printer)?;
    let (other, _other_staging) = workbench::directory(&args.other, &images, printer)?;
    let other = workbench::load_with_text(&other, printer)?;
    workbench::change_with_text(&flags, printer, |loaded, outline| {
        let (first, second) = (Texts::new(loaded), Texts::new(&other));
        let (first, second) = (|blob: usize| first.of(blob), |blob: usize| second.of(blob));
        let (merged, notes) = edit::merge::merge(
            Side { outline: &loaded.outline, text: &first },
            Side { outline: &other.outline, text: &second },
            args.prefer_first,
        )?;
        *outline = merged;
        Ok(notes)
    })
}
