//! `opm index inspect`: shows the content of an index.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use fbc::json::{JsonLayout, Text};
use legacy::{OperationError, PackageInfo};
use serde::Serialize;
use serde_json::json;
use source::NamedSource;

use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags, or_latest};
use crate::printer::Printer;
use crate::{catalogs, database};

/// Show the content of an index
#[derive(clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        opm index inspect packages --database index.db\n  \
        opm index inspect package etcd -f quay.io/example/index:v1"
)]
pub(crate) struct InspectArgs {
    #[command(subcommand)]
    command: InspectCommand,
}

#[derive(Subcommand)]
enum InspectCommand {
    /// List the packages with their channels
    Packages(IndexFlags),
    /// List the bundles of a package with their predecessors and successors
    Package(PackageArgs),
}

#[derive(clap::Args)]
struct PackageArgs {
    /// Name of the package
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    which: IndexFlags,
}

/// The flags that select an index.
#[derive(clap::Args)]
pub(crate) struct IndexFlags {
    /// Index image
    #[arg(short, long, value_name = "REF", value_parser = or_latest)]
    pub(crate) from_index: Option<String>,
    /// Database file; without --from-index defaults to the first of database/index.db, index.db and bundles.db
    #[arg(long, value_name = "FILE")]
    pub(crate) database: Option<PathBuf>,
    #[command(flatten)]
    pull: PullFlags,
}

/// The location of an index.
pub(crate) enum IndexLocation<'a> {
    Image(&'a str),
    File(PathBuf),
}

/// Returns the location of the selected index.
pub(crate) fn index_location<'a>(
    from_index: Option<&'a str>,
    database: Option<&Path>,
) -> Result<IndexLocation<'a>, Failure> {
    match (from_index, database) {
        (Some(_), Some(_)) => Err(Failure::message("--from-index and --database cannot be used together")),
        (Some(image), None) => Ok(IndexLocation::Image(image)),
        (None, Some(file)) => Ok(IndexLocation::File(file.to_owned())),
        (None, None) => {
            let usual = ["database/index.db", "index.db", "bundles.db"].map(PathBuf::from);
            let found = usual.into_iter().find(|file| file.is_file());
            found
                .map(IndexLocation::File)
                .ok_or_else(|| Failure::message("no index found: use --from-index or --database"))
        }
    }
}

pub(crate) fn run(args: &InspectArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let text = match &args.command {
        InspectCommand::Packages(which) => {
            let packages: Vec<_> = read(which, tls, printer)?.iter().map(PackageInfo::summary).collect();
            pretty(&json!({ "packages": packages }), 2)?
        }
        InspectCommand::Package(PackageArgs { name, which }) => {
            let packages = read(which, tls, printer)?;
            let package = packages.iter().find(|package| package.name == *name);
            let package = package.ok_or_else(|| OperationError::UnknownPackage(name.clone()))?;
            pretty(&package.details(), 4)?
        }
    };
    printer.data().write_all(text.as_bytes())?;
    Ok(())
}

/// Reads the packages of the selected index.
fn read(args: &IndexFlags, tls: &TlsFlags, printer: &Printer) -> Result<Vec<PackageInfo>, Failure> {
    let images = images::open(tls, &args.pull);
    let of_file = |file: &Path| {
        database::notice(printer);
        Ok(database::read(file, printer)?.packages()?)
    };
    match index_location(args.from_index.as_deref(), args.database.as_deref())? {
        IndexLocation::File(file) => of_file(&file),
        IndexLocation::Image(image) => match source::resolve_one(image, &images)? {
            NamedSource::Database(file) => of_file(&file),
            NamedSource::Catalog(_) => {
                let (_, catalog) = catalogs::checked(image, false, &images)?;
                Ok(catalog.packages().iter().map(PackageInfo::from).collect())
            }
            NamedSource::Bundle(..) => Err(Failure::message(format!("\"{image}\" is a bundle, not an index"))),
        },
    }
}

fn pretty(report: &impl Serialize, indent: usize) -> Result<String, Failure> {
    let value = serde_json::to_value(report).map_err(Failure::message)?;
    Ok(format!("{}\n", Text::as_written(Text::from(&value).raw(), JsonLayout::Indented(indent))))
}
