//! `opm index export`: writes packages of an index image as directories of manifests.

use std::path::PathBuf;

use legacy::{Fetch, OperationError};
use source::{ContainerTool, NewFiles};

use crate::commands::registry::items;
use crate::database;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags, container_tool};
use crate::printer::Printer;
use fbc::scratch::TempFolder;

/// Write packages of an index image as directories of manifests
#[derive(clap::Args)]
#[command(
    long_about = "Write packages of an index image as directories of manifests.\n\n\
        Writes a directory per package, with the manifests of each version and a 'package.yaml' that lists its \
        channels. Writes nothing until all images are pulled, and overwrites nothing.",
    after_help = "Examples:\n  opm index export -i quay.io/example/index:v1 -p etcd -f packages"
)]
pub(crate) struct ExportArgs {
    /// Index image
    #[arg(short, long, value_name = "REF")]
    index: String,
    /// Packages to write; defaults to all
    #[arg(short, long, value_name = "PACKAGE", value_delimiter = ',')]
    package: Vec<String>,
    /// Packages to write
    #[arg(short = 'o', long, value_name = "PACKAGE", value_delimiter = ',', hide = true)]
    xpackage: Vec<String>,
    /// Directory to write to
    #[arg(short = 'f', long, value_name = "DIR", default_value = "downloaded")]
    download_folder: PathBuf,
    /// Program to pull images with
    #[arg(short, long, value_name = "TOOL", default_value = "none", value_parser = container_tool())]
    container_tool: ContainerTool,
    #[command(flatten)]
    pull: PullFlags,
    /// Enable debug logging
    #[arg(long, hide = true)]
    debug: bool,
}

pub(crate) fn run(args: &ExportArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    database::notice(printer);
    let (named, old) = (items(&args.package), items(&args.xpackage));
    if !named.is_empty() && !old.is_empty() {
        return Err(Failure::message("cannot simultaneously set '-p' and '-o' flags, remove '-o'"));
    }
    let wanted = if named.is_empty() { old } else { named };
    let fetcher = images::fetcher(tls, &args.pull, args.container_tool)?;
    let scratch = TempFolder::private("opm-index-")?;
    let file = scratch.path().join("index.db");
    fetcher.database(&args.index, &file).map_err(OperationError::from)?;
    let database = database::read(&file, printer)?;
    let packages = database.select_packages(&wanted)?;
    let new = NewFiles::start(&args.download_folder)?;
    database.export(&packages, &fetcher, new.path())?;
    Ok(new.finish()?)
}
