//! `opm list` and `opm alpha list`: the packages, channels and bundles of a catalog.

use catalog::list::{self, DisplayNames, Order};
use catalog::{Catalog, Package};
use clap::Subcommand;
use clap::builder::TypedValueParser;
use serde::Serialize;

use crate::choice::choice;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{catalogs, limits};

/// List the packages, channels or bundles of a catalog
#[derive(clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        opm list packages my-catalog\n  \
        opm list bundles my-catalog etcd -o csv\n  \
        opm list channels my-catalog -o json | jq '.[].head'"
)]
pub(crate) struct ListArgs {
    #[command(subcommand)]
    command: ListCommand,
}

#[derive(Subcommand)]
enum ListCommand {
    /// List packages
    #[command(after_help = "Examples:\n  \
        opm list packages my-catalog\n  \
        opm list packages quay.io/example/catalog:latest -o json")]
    Packages(PackagesArgs),
    /// List channels with their heads
    #[command(after_help = "Examples:\n  \
        opm list channels my-catalog\n  \
        opm list channels my-catalog etcd -o csv")]
    Channels(MembersArgs),
    /// List bundles with their versions and upgrade edges, once per channel, newest first
    #[command(after_help = "Examples:\n  \
        opm list bundles my-catalog etcd\n  \
        opm list bundles my-catalog etcd -o wide    # with images, skips and deprecations")]
    Bundles(MembersArgs),
}

#[derive(clap::Args)]
struct PackagesArgs {
    /// Catalog directory, image or database
    #[arg(value_name = "SOURCE")]
    source: String,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    pull: PullFlags,
}

/// A catalog, or one of its packages.
#[derive(clap::Args)]
struct MembersSource {
    /// Catalog directory, image or database
    #[arg(value_name = "SOURCE")]
    source: String,
    /// List only this package
    #[arg(value_name = "PACKAGE")]
    named: Option<String>,
}

#[derive(clap::Args)]
struct MembersArgs {
    #[command(flatten)]
    of: MembersSource,
    /// List only this package
    #[arg(short, long, value_name = "PACKAGE", conflicts_with = "named")]
    package: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    pull: PullFlags,
}

impl MembersArgs {
    /// Returns the requested package, from the positional argument or the flag.
    fn package(&self) -> Option<&str> {
        self.of.named.as_deref().or(self.package.as_deref())
    }
}

#[derive(clap::Args)]
struct OutputArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = output())]
    output: ListOutput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListOutput {
    Table,
    Wide,
    Json,
    Yaml,
    Csv,
}

fn output() -> impl TypedValueParser<Value = ListOutput> {
    choice([
        ("table", ListOutput::Table),
        ("wide", ListOutput::Wide),
        ("json", ListOutput::Json),
        ("yaml", ListOutput::Yaml),
        ("csv", ListOutput::Csv),
    ])
}

/// List the packages, channels or bundles of a catalog
#[derive(clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "'opm list' is the stable command; it adds versions, deprecations and more output formats.\n\n\
        Examples:\n  opm alpha list packages my-catalog\n  opm alpha list bundles my-catalog etcd"
)]
pub(crate) struct AlphaListArgs {
    #[command(subcommand)]
    command: AlphaListCommand,
}

#[derive(Subcommand)]
enum AlphaListCommand {
    /// List packages
    Packages {
        /// Catalog directory, image or database
        #[arg(value_name = "SOURCE")]
        source: String,
        #[command(flatten)]
        pull: PullFlags,
    },
    /// List channels with their heads
    Channels(AlphaMembersArgs),
    /// List bundles with their upgrade edges, once per channel
    Bundles(AlphaMembersArgs),
}

#[derive(clap::Args)]
struct AlphaMembersArgs {
    #[command(flatten)]
    of: MembersSource,
    #[command(flatten)]
    pull: PullFlags,
}

pub(crate) fn run(args: &ListArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    match &args.command {
        ListCommand::Packages(args) => {
            let (fbc, catalog) = catalogs::checked(&args.source, true, &images::open(tls, &args.pull))?;
            let rows = list::packages(&catalog, &fbc, DisplayNames::Any, &limits::from_env()?)?;
            print(&rows, args.output.output, printer)
        }
        ListCommand::Channels(args) => {
            let (_, catalog) = catalogs::checked(&args.of.source, false, &images::open(tls, &args.pull))?;
            print(&list::channels(packages(&catalog, args.package())?), args.output.output, printer)
        }
        ListCommand::Bundles(args) => {
            let (_, catalog) = catalogs::checked(&args.of.source, false, &images::open(tls, &args.pull))?;
            let rows = list::bundles(packages(&catalog, args.package())?, Order::NewestFirst);
            match args.output.output {
                ListOutput::Table => Ok(printer.table(&list::summary(&rows, args.package().is_none()))?),
                output => print(&rows, output, printer),
            }
        }
    }
}

pub(crate) fn run_alpha(args: &AlphaListArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let table = match &args.command {
        AlphaListCommand::Packages { source, pull } => {
            let (fbc, catalog) = catalogs::checked(source, true, &images::open(tls, pull))?;
            list::package_table(list::packages(&catalog, &fbc, DisplayNames::OfObjects, &limits::from_env()?)?)
        }
        AlphaListCommand::Channels(args) => {
            let (_, catalog) = catalogs::checked(&args.of.source, false, &images::open(tls, &args.pull))?;
            list::channel_table(&list::channels(packages(&catalog, args.of.named.as_deref())?))
        }
        AlphaListCommand::Bundles(args) => {
            let (_, catalog) = catalogs::checked(&args.of.source, false, &images::open(tls, &args.pull))?;
            list::bundle_table(&list::bundles(packages(&catalog, args.of.named.as_deref())?, Order::Name))
        }
    };
    Ok(printer.data().write_all(table.text().as_bytes())?)
}

/// Returns all packages, or only the one called `name`.
fn packages<'a>(catalog: &'a Catalog, name: Option<&str>) -> Result<Vec<&'a Package>, Failure> {
    list::named(catalog, name).map_err(Failure::fault)
}

/// Prints rows in a format.
fn print(rows: &[impl Serialize], output: ListOutput, printer: &mut Printer) -> CommandResult {
    let text = match output {
        ListOutput::Json => return Ok(printer.json(&rows)?),
        ListOutput::Yaml => list::yaml(rows),
        ListOutput::Csv => list::csv(rows),
        ListOutput::Table => return Ok(printer.table(&list::table(rows)?)?),
        ListOutput::Wide => list::table(rows).map(|table| table.text()),
    };
    Ok(printer.data().write_all(text?.as_bytes())?)
}
