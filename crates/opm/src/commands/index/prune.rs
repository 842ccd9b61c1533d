//! `opm index prune`: removes all but the selected packages from an index image.

use super::build::{BuildArgs, OneToolArgs};
use crate::commands::registry::items;
use crate::database;
use crate::exit::CommandResult;
use crate::images::{TlsFlags, or_latest};
use crate::printer::Printer;

/// Keep only selected packages of an index image
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  opm index prune -f quay.io/example/index:v1 -p etcd --generate")]
pub(crate) struct PruneArgs {
    /// Packages to keep; unknown names are ignored
    #[arg(short, long, value_name = "PACKAGE", value_delimiter = ',', required = true)]
    packages: Vec<String>,
    /// Index image to prune
    #[arg(short, long, value_name = "REF", value_parser = or_latest)]
    from_index: String,
    /// Ignored; accepted for compatibility with older versions
    #[arg(long)]
    permissive: bool,
    #[command(flatten)]
    tools: OneToolArgs,
    #[command(flatten)]
    build: BuildArgs,
}

pub(crate) fn run(args: &PruneArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    database::notice(printer);
    let tools = args.tools.tools()?;
    let fetcher = args.build.fetcher(tls, &tools)?;
    let packages = items(&args.packages);
    let built = args
        .build
        .rebuild(Some(&args.from_index), &fetcher, &tools, tls, printer, |database| database.prune(&packages))?;
    built.print(printer)
}
