//! `opm index rmb`: removes a bundle from an index and reconnects the others.

use std::path::PathBuf;

use legacy::{AddMode, Database, DatabaseTarget, IfMissing, Shrink, Strictness};

use super::build::{BuildArgs, ToolArgs};
use super::inspect::{IndexLocation, index_location};
use crate::database;
use crate::exit::{CommandResult, Failure};
use crate::images::{TlsFlags, or_latest};
use crate::limits;
use crate::printer::Printer;

/// Remove a bundle from an index and order the others by version
#[derive(clap::Args)]
#[command(
    long_about = "Remove a bundle from an index and order the others by version.\n\n\
        Changes a database file in place, and builds a new image from an index image. In mode semver each version then \
        replaces the previous one; in mode semver-skippatch the last patch of each minor version does, and skips the \
        earlier patches.",
    after_help = "Examples:\n  \
        opm index rmb quay.io/etcd/etcd-operator-bundle@sha256:defghi --mode=semver --database index.db"
)]
pub(crate) struct RmbArgs {
    /// Image of the bundle
    #[arg(value_name = "IMAGE")]
    image: String,
    /// Upgrade graph mode (semver|semver-skippatch)
    #[arg(long, value_name = "MODE", required = true)]
    mode: String,
    /// Index image
    #[arg(short, long, value_name = "REF", value_parser = or_latest)]
    from_index: Option<String>,
    /// Database file; without --from-index defaults to the first of database/index.db, index.db and bundles.db
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
    /// Warn about new channel heads that cannot be pulled
    #[arg(long)]
    permissive: bool,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    build: BuildArgs,
}

pub(crate) fn run(args: &RmbArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    database::notice(printer);
    let mode = AddMode::parse(&args.mode).map_err(Failure::message)?;
    let tools = args.tools.tools()?;
    let fetcher = args.build.fetcher(tls, &tools)?;
    let shrink = Shrink { strictness: Strictness::new(args.permissive), images: &fetcher, limits: limits::from_env()? };
    let change = |database: &Database| database.remove_image(&args.image, mode, &shrink);
    match index_location(args.from_index.as_deref(), args.database.as_deref())? {
        IndexLocation::File(file) => {
            database::change(&DatabaseTarget::in_place(&file, IfMissing::Reject), printer, change)
        }
        IndexLocation::Image(image) => {
            args.build.rebuild(Some(image), &fetcher, &tools, tls, printer, change)?.print(printer)
        }
    }
}
