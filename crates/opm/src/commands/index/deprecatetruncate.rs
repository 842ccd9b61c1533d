//! `opm index deprecatetruncate`: deprecates bundles of an index image and removes their predecessors.

use legacy::Strictness;

use super::build::{BuildArgs, ToolArgs};
use crate::commands::registry::items;
use crate::database;
use crate::exit::CommandResult;
use crate::images::{TlsFlags, or_latest};
use crate::printer::Printer;

/// Deprecate bundles of an index image and remove the bundles that they replace
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
        opm index deprecatetruncate -f quay.io/example/index:v1 -b quay.io/example/bundle:v1.0.0 --generate")]
pub(crate) struct DeprecateArgs {
    /// Images of the bundles to deprecate
    #[arg(short, long, value_name = "REF", value_delimiter = ',', required = true)]
    bundles: Vec<String>,
    /// Index image to change
    #[arg(short, long, value_name = "REF", value_parser = or_latest)]
    from_index: Option<String>,
    /// Warn about bundles that cannot be deprecated and continue with the others
    #[arg(long)]
    permissive: bool,
    /// Remove a package if the heads of all its channels are given
    #[arg(long)]
    allow_package_removal: bool,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    build: BuildArgs,
}

pub(crate) fn run(args: &DeprecateArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    database::notice(printer);
    let tools = args.tools.tools()?;
    let fetcher = args.build.fetcher(tls, &tools)?;
    let (images, strictness) = (items(&args.bundles), Strictness::new(args.permissive));
    let built = args.build.rebuild(args.from_index.as_deref(), &fetcher, &tools, tls, printer, |database| {
        database.deprecate(&images, args.allow_package_removal, strictness)
    })?;
    built.print(printer)
}
