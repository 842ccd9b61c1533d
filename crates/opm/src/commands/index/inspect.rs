//! `opm index inspect`: shows the content of an index.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use fbc::json::{Layout, Text};
use fbc::version::Version;
use legacy::{BundleInfo, ChannelInfo, PackageInfo};
use serde_json::{Value, json};
use source::Source;

use crate::exit::{Failure, Outcome};
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

pub(crate) fn run(args: &InspectArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let text = match &args.command {
        InspectCommand::Packages(which) => {
            let packages: Vec<Value> = read(which, tls, printer)?.iter().map(in_short).collect();
            pretty(&json!({ "packages": packages }), 2)
        }
        InspectCommand::Package(PackageArgs { name, which }) => {
            let packages = read(which, tls, printer)?;
            let package = packages.iter().find(|package| package.name == *name);
            let package = package.ok_or_else(|| Failure::message(format!("package \"{name}\" not found in index")))?;
            pretty(&in_full(package), 4)
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
        database::read(file, printer).and_then(|database| database.packages()).map_err(database::failure)
    };
    match index_location(args.from_index.as_deref(), args.database.as_deref())? {
        IndexLocation::File(file) => of_file(&file),
        IndexLocation::Image(image) => match source::resolve_one(image, &images)? {
            Source::Database(file) => of_file(&file),
            Source::Catalog(_) => {
                let (_, catalog) = catalogs::checked(image, false, &images)?;
                Ok(catalog.packages().iter().map(of_catalog).collect())
            }
            Source::Bundle(..) => Err(Failure::message(format!("\"{image}\" is a bundle, not an index"))),
        },
    }
}

/// Describes a package of a file-based catalog as one of a database.
fn of_catalog(package: &catalog::Package) -> PackageInfo {
    let rows = catalog::list::bundles(vec![package], catalog::list::Order::Name);
    let channel = |channel: &catalog::Channel| ChannelInfo {
        name: channel.name().to_owned(),
        head: channel.head().name.to_string(),
        bundles: rows
            .iter()
            .filter(|row| row.channel == channel.name())
            .map(|row| BundleInfo {
                name: row.bundle.to_owned(),
                version: row.version.to_string(),
                image: row.image.to_owned(),
                edges: Some(row.replaces.to_owned())
                    .filter(|replaces| !replaces.is_empty())
                    .into_iter()
                    .chain(row.skips.iter().map(|skip| skip.to_string()))
                    .collect(),
            })
            .collect(),
    };
    PackageInfo {
        name: package.name().to_owned(),
        default_channel: package.default_channel().name().to_owned(),
        channels: package.channels().iter().map(channel).collect(),
    }
}

/// Summarizes a package; its default channel comes first.
fn in_short(package: &PackageInfo) -> Value {
    let mut channels: Vec<&str> = package.channels.iter().map(|channel| channel.name.as_str()).collect();
    channels.sort_by_key(|name| *name != package.default_channel);
    json!({ "name": package.name, "channels": channels, "defaultChannel": package.default_channel })
}

fn in_full(package: &PackageInfo) -> Value {
    let channels: Vec<Value> =
        package.channels.iter().map(|channel| json!({ "name": channel.name, "bundles": bundles(channel) })).collect();
    json!({ "name": package.name, "defaultChannel": package.default_channel, "channels": channels })
}

fn bundles(channel: &ChannelInfo) -> Vec<Value> {
    let versions: BTreeMap<&str, &str> =
        channel.bundles.iter().map(|bundle| (bundle.name.as_str(), bundle.version.as_str())).collect();
    let order = |name: &str| {
        let version = versions.get(name).and_then(|version| Version::parse_strict(version).ok());
        (version.is_none(), version, name.to_owned())
    };
    let compare = |a: &str, b: &str| {
        let ((no_a, a, name_a), (no_b, b, name_b)) = (order(a), order(b));
        let by_version = match (a, b) {
            (Some(a), Some(b)) => a.cmp_precedence(&b),
            _ => no_a.cmp(&no_b),
        };
        by_version.then(name_a.cmp(&name_b))
    };
    let edges: BTreeMap<&str, &[String]> =
        channel.bundles.iter().map(|bundle| (bundle.name.as_str(), &bundle.edges[..])).collect();
    let below: BTreeMap<&str, BTreeSet<&str>> =
        channel.bundles.iter().map(|bundle| (bundle.name.as_str(), reachable(&bundle.name, &edges))).collect();
    let list = |mut names: Vec<&str>| {
        names.sort_by(|a, b| compare(a, b));
        let item = |name: &&str| json!({ "version": or_null(versions.get(name).copied()), "csv": name });
        if names.is_empty() { Value::Null } else { Value::Array(names.iter().map(item).collect()) }
    };
    let mut sorted: Vec<&BundleInfo> = channel.bundles.iter().collect();
    sorted.sort_by(|a, b| compare(&a.name, &b.name));
    let describe = |bundle: &BundleInfo| {
        let name = bundle.name.as_str();
        let replaces = below.get(name).into_iter().flatten().copied().collect();
        let replacements = below.iter().filter(|(_, below)| below.contains(name)).map(|(above, _)| *above).collect();
        json!({
            "version": or_null(Some(&bundle.version)),
            "csv": name,
            "bundlePath": or_null(Some(&bundle.image)),
            "replaces": list(replaces),
            "replacements": list(replacements),
        })
    };
    sorted.into_iter().map(describe).collect()
}

fn or_null(text: Option<&str>) -> Value {
    text.filter(|text| !text.is_empty()).map_or(Value::Null, Value::from)
}

/// Returns all names reachable by edges from a name.
fn reachable<'a>(name: &str, edges: &BTreeMap<&str, &'a [String]>) -> BTreeSet<&'a str> {
    let mut found: BTreeSet<&str> = BTreeSet::new();
    let mut waiting: Vec<&str> =
        edges.get(name).into_iter().flat_map(|names| names.iter()).map(String::as_str).collect();
    while let Some(next) = waiting.pop() {
        if next != name && found.insert(next) {
            waiting.extend(edges.get(next).into_iter().flat_map(|names| names.iter()).map(String::as_str));
        }
    }
    found
}

fn pretty(value: &Value, indent: usize) -> String {
    format!("{}\n", Text::as_written(Text::from(value).raw(), Layout::Indented(indent)))
}
