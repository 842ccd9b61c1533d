//! `opm check-upgrades`: reports the clusters that are stranded when one catalog replaces another.

use std::slice;

use clap::builder::TypedValueParser;
use edit::Outline;
use edit::upgrades::{self, Offered, UpgradeReport};
use fbc::json::Raw;
use fbc::{Blob, Fbc, Problem};
use resolve::input::{CatalogInput, InputReader};
use source::{Images, SourceOptions};

use super::offline::sources;
use crate::choice::choice;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{limits, report};

/// Check which upgrades break when one catalog replaces another
#[derive(clap::Args)]
#[command(
    long_about = "Check which upgrades break when one catalog replaces another.\n\n\
        For each bundle in a channel of the old catalog, computes how a cluster that runs it and follows that channel \
        upgrades with the new catalog. Upgrades follow replaces, skips and skipRange along the channel, as in the \
        Operator Lifecycle Manager. A cluster does not upgrade to a bundle whose dependencies are neither in the new \
        catalog nor in one given by --with. Dependencies that the old catalog does not satisfy either are assumed to \
        come from elsewhere.\n\n\
        A bundle that reached the channel head before and no longer does is a regression. The report includes the \
        smallest change that fixes each regression, and the exit code is 1.",
    after_help = "Examples:\n  \
        opm check-upgrades released-catalog my-catalog\n  \
        opm check-upgrades quay.io/example/catalog:latest my-catalog --all\n  \
        opm check-upgrades released-catalog my-catalog -o github    # annotations in a GitHub workflow"
)]
pub(crate) struct CheckUpgradesArgs {
    /// Catalog that clusters use now: directory, image, database or file
    #[arg(value_name = "OLD")]
    old: String,
    /// Catalog that replaces it
    #[arg(value_name = "NEW")]
    new: String,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = output())]
    output: UpgradesOutput,
    /// Show all bundles instead of regressions only; json always does
    #[arg(long)]
    all: bool,
    /// Another catalog on the clusters, which can satisfy dependencies; can be repeated
    #[arg(long, value_name = "CATALOG")]
    with: Vec<String>,
    #[command(flatten)]
    pull: PullFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UpgradesOutput {
    Text,
    Json,
    Github,
}

fn output() -> impl TypedValueParser<Value = UpgradesOutput> {
    choice([("text", UpgradesOutput::Text), ("json", UpgradesOutput::Json), ("github", UpgradesOutput::Github)])
}

pub(crate) fn run(args: &CheckUpgradesArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let images = images::open(tls, &args.pull);
    let old = read(&args.old, &images, printer)?;
    let new = read(&args.new, &images, printer)?;
    let others = sources::load(&args.with, &[], &images, printer)?;
    let with_others =
        |source: CatalogInput| -> Vec<CatalogInput> { [source].into_iter().chain(others.iter().cloned()).collect() };
    let (old_sources, new_sources) = (with_others(old.source.clone()), with_others(new.source.clone()));
    let reports = upgrades::compare(
        Offered { outlines: slice::from_ref(&old.outline), sources: &old_sources },
        Offered { outlines: slice::from_ref(&new.outline), sources: &new_sources },
    )
    .concat();
    match args.output {
        UpgradesOutput::Text => printer.data().write_all(upgrades::text(&reports, &args.new, args.all).as_bytes())?,
        UpgradesOutput::Json => printer.json(&UpgradeReport::new(&reports, &args.new))?,
        UpgradesOutput::Github => {
            let text = upgrades::github(&reports, &args.new, &new.outline, &new.fbc);
            printer.data().write_all(text.as_bytes())?;
        }
    }
    match upgrades::regressions(&reports) {
        0 => Ok(()),
        _ => Err(Failure::Reported),
    }
}

/// One of the two catalogs.
struct OpenedCatalog {
    fbc: Fbc,
    outline: Outline,
    source: CatalogInput,
}

fn read(reference: &str, images: &Images, printer: &Printer) -> Result<OpenedCatalog, Failure> {
    let reader = InputReader::default();
    let look = |blob: &Blob, text: Raw<'_>, _: &mut Vec<Problem>| reader.add(blob, text);
    let options = SourceOptions { inspect: Some(&look), ..SourceOptions::catalogs(limits::from_env()?, images) };
    let found = source::resolve_one(reference, images).map_err(|error| error.named(reference))?;
    let (fbc, loaded) = source::read_unchecked(reference, &found, &options)?;
    if !loaded.problems.is_empty() {
        report::show(printer, &report::find(&fbc, &loaded.problems));
        return Err(Failure::Reported);
    }
    let (outline, source) = (Outline::new(&fbc), reader.finish(&fbc));
    Ok(OpenedCatalog { fbc, outline, source })
}
