//! `opm index add`: adds bundles to an index image.

use super::build::{BuildArgs, ToolArgs};
use crate::commands::registry::add::{HowArgs, Manner};
use crate::commands::registry::items;
use crate::database;
use crate::exit::CommandResult;
use crate::images::{TlsFlags, or_latest};
use crate::printer::Printer;

/// Add bundles to an index image
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
        opm index add -b quay.io/example/bundle:v1.0.0 --generate\n  \
        opm index add -f quay.io/example/index:v1 -b quay.io/example/bundle:v1.1.0 -t quay.io/example/index:v2\n  \
        opm index add quay.io/example/bundle:v1.1.0 --mode semver --generate")]
pub(crate) struct AddArgs {
    /// Bundle images or directories to add
    #[arg(value_name = "REF", value_parser = or_latest)]
    references: Vec<String>,
    /// Bundle images or directories to add
    #[arg(
        short,
        long,
        value_name = "REF",
        value_delimiter = ',',
        value_parser = or_latest,
        required_unless_present = "references"
    )]
    bundles: Vec<String>,
    /// Index image to add to
    #[arg(short, long, value_name = "REF", value_parser = or_latest)]
    from_index: Option<String>,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    build: BuildArgs,
}

pub(crate) fn run(args: &AddArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    database::notice(printer);
    let tools = args.tools.tools()?;
    let fetcher = args.build.fetcher(tls, &tools)?.pinning(args.how.pins(false));
    let options = args.how.options(Manner::default())?;
    let mut bundles = items(&args.bundles);
    bundles.extend(items(&args.references));
    let built = args.build.rebuild(args.from_index.as_deref(), &fetcher, &tools, tls, printer, |database| {
        database.add_images(&bundles, &options, &fetcher)
    })?;
    built.print(printer)
}
