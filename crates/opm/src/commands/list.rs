//! `opm list` and `opm alpha list`: the packages, channels and bundles of a catalog.

use std::io;

use catalog::list::{self, DisplayNames, ListedBundle, Order};
use catalog::{Catalog, Package};
use clap::Subcommand;
use clap::builder::TypedValueParser;
use fbc::json::Text;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::choice::choice;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{catalogs, limits, table};

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

#[derive(clap::Args)]
struct MembersArgs {
    /// Catalog directory, image or database
    #[arg(value_name = "SOURCE")]
    source: String,
    /// List only this package
    #[arg(value_name = "PACKAGE")]
    named: Option<String>,
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
        self.named.as_deref().or(self.package.as_deref())
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
    Channels {
        /// Catalog directory, image or database
        #[arg(value_name = "SOURCE")]
        source: String,
        /// List only this package
        #[arg(value_name = "PACKAGE")]
        package: Option<String>,
        #[command(flatten)]
        pull: PullFlags,
    },
    /// List bundles with their upgrade edges, once per channel
    Bundles {
        /// Catalog directory, image or database
        #[arg(value_name = "SOURCE")]
        source: String,
        /// List only this package
        #[arg(value_name = "PACKAGE")]
        package: Option<String>,
        #[command(flatten)]
        pull: PullFlags,
    },
}

pub(crate) fn run(args: &ListArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    match &args.command {
        ListCommand::Packages(args) => {
            let images = images::open(tls, &args.pull);
            let (fbc, catalog) = catalogs::checked(&args.source, true, &images)?;
            print(
                &list::packages(&catalog, &fbc, DisplayNames::Any, &limits::from_env()?)?,
                args.output.output,
                printer,
            )
        }
        ListCommand::Channels(args) => {
            let images = images::open(tls, &args.pull);
            let (_, catalog) = catalogs::checked(&args.source, false, &images)?;
            print(&list::channels(packages(&catalog, args.package())?), args.output.output, printer)
        }
        ListCommand::Bundles(args) => {
            let images = images::open(tls, &args.pull);
            let (_, catalog) = catalogs::checked(&args.source, false, &images)?;
            let rows = list::bundles(packages(&catalog, args.package())?, Order::NewestFirst);
            match args.output.output {
                ListOutput::Table => print_bundles(&rows, args.package().is_none(), printer),
                output => print(&rows, output, printer),
            }
        }
    }
}

pub(crate) fn run_alpha(args: &AlphaListArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let text = match &args.command {
        AlphaListCommand::Packages { source, pull } => {
            let images = images::open(tls, pull);
            let (fbc, catalog) = catalogs::checked(source, true, &images)?;
            let rows = list::packages(&catalog, &fbc, DisplayNames::OfObjects, &limits::from_env()?)?;
            let rows = rows.into_iter().map(|row| vec![row.name.into(), row.display_name, row.default_channel.into()]);
            table::text(&["NAME", "DISPLAY NAME", "DEFAULT CHANNEL"], rows.collect())
        }
        AlphaListCommand::Channels { source, package, pull } => {
            let images = images::open(tls, pull);
            let (_, catalog) = catalogs::checked(source, false, &images)?;
            let rows = list::channels(packages(&catalog, package.as_deref())?);
            let rows = rows.iter().map(|row| vec![row.package.into(), row.channel.into(), row.head.into()]);
            table::text(&["PACKAGE", "CHANNEL", "HEAD"], rows.collect())
        }
        AlphaListCommand::Bundles { source, package, pull } => {
            let images = images::open(tls, pull);
            let (_, catalog) = catalogs::checked(source, false, &images)?;
            let rows = list::bundles(packages(&catalog, package.as_deref())?, Order::Name);
            let rows = rows.iter().map(|row| {
                vec![
                    row.package.into(),
                    row.channel.into(),
                    row.bundle.into(),
                    row.replaces.into(),
                    row.skips.join(","),
                    row.skip_range.into(),
                    row.image.into(),
                ]
            });
            table::text(&["PACKAGE", "CHANNEL", "BUNDLE", "REPLACES", "SKIPS", "SKIP RANGE", "IMAGE"], rows.collect())
        }
    };
    printer.data().write_all(text.as_bytes())?;
    Ok(())
}

/// Returns all packages, or only the one called `name`.
fn packages<'a>(catalog: &'a Catalog, name: Option<&str>) -> Result<Vec<&'a Package>, Failure> {
    list::named(catalog, name).map_err(Failure::fault)
}

/// Prints one short line per bundle; `-o wide` has every field.
fn print_bundles(rows: &[ListedBundle<'_>], with_package: bool, printer: &mut Printer) -> CommandResult {
    let mut headings = vec!["PACKAGE", "CHANNEL", "VERSION", "BUNDLE", "REPLACES", "NOTE"];
    let mut cells: Vec<Vec<String>> = Vec::new();
    for row in rows {
        let mut notes: Vec<String> = Vec::new();
        notes.extend(row.head.then(|| "head".to_owned()));
        notes.extend(row.deprecation.is_some().then(|| "deprecated".to_owned()));
        notes.extend((!row.skips.is_empty()).then(|| format!("skips {}", row.skips.len())));
        notes.extend((!row.skip_range.is_empty()).then(|| row.skip_range.to_owned()));
        // Most bundle names start with the package name and a dot.
        let short = |name: &str| {
            let rest = name.strip_prefix(row.package).and_then(|rest| rest.strip_prefix('.'));
            rest.unwrap_or(name).to_owned()
        };
        let version = row.version.to_string();
        let texts = [row.package, row.channel, &version, row.bundle];
        let mut line: Vec<String> = texts.into_iter().map(str::to_owned).collect();
        line.extend([short(row.replaces), notes.join(", ")]);
        cells.push(line);
    }
    if !with_package {
        headings.remove(0);
        cells.iter_mut().for_each(|line| drop(line.remove(0)));
    }
    Ok(printer.table(&headings, cells)?)
}

/// Prints rows, which must all have the same fields.
fn print(rows: &[impl Serialize], output: ListOutput, printer: &mut Printer) -> CommandResult {
    let rows = serde_json::to_value(rows).map_err(io::Error::from)?;
    let text = match output {
        ListOutput::Json => format!("{rows:#}\n"),
        ListOutput::Yaml => {
            let mut out = Vec::new();
            fbc::yaml::write_document(Text::from(&rows).raw(), &mut out);
            String::from_utf8_lossy(&out).into_owned()
        }
        ListOutput::Table | ListOutput::Wide | ListOutput::Csv => {
            let rows: Vec<&Map<String, Value>> =
                rows.as_array().into_iter().flatten().filter_map(Value::as_object).collect();
            let columns: Vec<String> = rows.first().map(|row| row.keys().cloned().collect()).unwrap_or_default();
            let cells: Vec<Vec<String>> =
                rows.iter().map(|row| row.values().map(|value| cell(value, output)).collect()).collect();
            match output {
                ListOutput::Csv => table::csv(&columns, &cells),
                _ => {
                    let heads: Vec<String> = columns.iter().map(|name| table::heading(name)).collect();
                    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
                    if output == ListOutput::Table {
                        return Ok(printer.table(&heads, cells)?);
                    }
                    table::text(&heads, cells)
                }
            }
        }
    };
    printer.data().write_all(text.as_bytes())?;
    Ok(())
}

fn cell(value: &Value, output: ListOutput) -> String {
    match value {
        Value::Null => String::new(),
        // Fold line breaks: a row is one line.
        Value::String(text) if output != ListOutput::Csv => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        Value::Bool(false) if output != ListOutput::Csv => String::new(),
        Value::Bool(true) if output != ListOutput::Csv => "yes".into(),
        other => other.to_string(),
    }
}
