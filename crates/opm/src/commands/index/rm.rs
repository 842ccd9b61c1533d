//! `opm index rm`: removes packages from an index image.

use legacy::Strictness;

use super::build::{BuildArgs, ToolArgs};
use crate::commands::registry::items;
use crate::database;
use crate::exit::CommandResult;
use crate::images::{TlsFlags, or_latest};
use crate::printer::Printer;

/// Remove packages from an index image
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  opm index rm -f quay.io/example/index:v1 -o etcd --generate")]
pub(crate) struct RmArgs {
    /// Packages to remove
    #[arg(short = 'o', long, value_name = "PACKAGE", value_delimiter = ',', required = true)]
    operators: Vec<String>,
    /// Index image to remove from
    #[arg(short, long, value_name = "REF", value_parser = or_latest)]
    from_index: String,
    /// Warn about packages that do not exist and remove the others
    #[arg(long)]
    permissive: bool,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    build: BuildArgs,
}

pub(crate) fn run(args: &RmArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    database::notice(printer);
    let tools = args.tools.tools()?;
    let fetcher = args.build.fetcher(tls, &tools)?;
    let (packages, strictness) = (items(&args.operators), Strictness::new(args.permissive));
    let built = args.build.rebuild(Some(&args.from_index), &fetcher, &tools, tls, printer, |database| {
        database.remove_packages(&packages, strictness)
    })?;
    built.print(printer)
}
