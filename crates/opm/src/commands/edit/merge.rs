//! `opm edit merge`: two catalogs into one.

use std::path::PathBuf;

use edit::merge::Side;

use super::texts::Texts;
use super::workbench::{self, Where};
use crate::exit::Outcome;
use crate::images::{Images, PullFlags, TlsFlags};
use crate::printer::Printer;

/// Merge another catalog into the catalog
#[derive(clap::Args)]
#[command(
    long_about = "Merge another catalog into the catalog.\n\n\
        Packages that only the other one has come as they are written there. Of packages that both have, channels, \
        entries, bundles, deprecations and other blobs that are missing are added. What the two disagree on is named, \
        and then nothing is changed.",
    after_help = "Examples:\n  \
        opm edit merge my-catalog contributed-catalog --dry-run\n  \
        opm edit merge my-catalog contributed-catalog --to both\n  \
        opm edit merge my-catalog contributed-catalog --prefer-first"
)]
pub(super) struct MergeArgs {
    #[command(flatten)]
    place: Where,
    /// The other catalog: a directory, an image or a database
    #[arg(value_name = "OTHER")]
    other: PathBuf,
    /// Keep what the first one says wherever they disagree
    #[arg(long)]
    prefer_first: bool,
    #[command(flatten)]
    pull: PullFlags,
}

pub(super) fn run(args: &MergeArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let images = Images::new(tls, &args.pull);
    let (place, _aside) = workbench::fetched(&args.place, &images, printer)?;
    let (other, _other_aside) = workbench::directory(&args.other, &images, printer)?;
    let other = workbench::load_with_text(&other, printer)?;
    workbench::change_with_text(&place, printer, |loaded, outline| {
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
