//! `opm index prune-stranded`: removes bundles without a channel from an index image.

use super::build::{BuildArgs, OneToolArgs};
use crate::database;
use crate::exit::CommandResult;
use crate::images::{TlsFlags, or_latest};
use crate::printer::Printer;

/// Remove bundles that are in no channel from an index image
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  opm index prune-stranded -f quay.io/example/index:v1 --generate")]
pub(crate) struct PruneStrandedArgs {
    /// Index image to prune
    #[arg(short, long, value_name = "REF", value_parser = or_latest)]
    from_index: String,
    #[command(flatten)]
    tools: OneToolArgs,
    #[command(flatten)]
    build: BuildArgs,
}

pub(crate) fn run(args: &PruneStrandedArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    database::notice(printer);
    let tools = args.tools.tools()?;
    let fetcher = args.build.fetcher(tls, &tools)?;
    let built = args
        .build
        .rebuild(Some(&args.from_index), &fetcher, &tools, tls, printer, |database| database.prune_stranded())?;
    built.print(printer)
}
