//! `operator-registry`: the original commands for database indexes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory, Parser, Subcommand};
use legacy::{Database, DatabaseTarget, FetchError, IfMissing, ImageList, Shrink, Strictness};
use source::ContainerTool;

use super::appregistry_server::AppRegistryFlags;
use super::bundle::extract;
use super::config_map;
use super::read_input;
use super::registry::add::{HowArgs, Manner};
use crate::cli::{self, go_conventions};
use crate::database;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags, container_tool, latest};
use crate::printer::Printer;
use crate::{limits, tree};
use fbc::scratch::TempFolder;

/// Build database indexes bundle by bundle
#[derive(Parser)]
#[command(
    name = "operator-registry",
    bin_name = "operator-registry",
    version,
    long_about = "Build database indexes bundle by bundle.\n\n\
        Every command changes the database in one transaction, or writes the changed content to --output. A failed \
        command changes nothing. Only channel heads keep their manifests; the database records other bundles by \
        image.",
    after_help = "Examples:\n  \
        operator-registry create index.db\n  \
        operator-registry add quay.io/example/foo:v1.0.0,quay.io/example/foo:v1.1.0 index.db\n  \
        operator-registry manifest index.db | operator-registry add - copy.db",
    subcommand_required = true,
    arg_required_else_help = true
)]
struct OperatorRegistry {
    #[command(subcommand)]
    command: OperatorRegistryCommand,
    #[command(flatten)]
    tls: TlsFlags,
}

#[derive(Subcommand)]
enum OperatorRegistryCommand {
    Create(CreateArgs),
    Add(AddArgs),
    Delete(DeleteArgs),
    DeleteLatest(DeleteLatestArgs),
    Manifest(ManifestArgs),
    Initializer(InitializerArgs),
    #[command(name = "configmap")]
    ConfigMap(config_map::ConfigMapArgs),
    Serve(ServeArgs),
}

/// Create an empty database
#[derive(clap::Args)]
struct CreateArgs {
    /// Database to create
    #[arg(value_name = "DB", default_value = "bundles.db")]
    database: PathBuf,
}

/// Add bundles to a database
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
        operator-registry add quay.io/example/foo:v1.0.0 index.db\n  \
        operator-registry add --batch quay.io/example/foo:v1.0.0,quay.io/example/bar:v2.0.0 index.db\n  \
        operator-registry manifest index.db | operator-registry add - copy.db")]
struct AddArgs {
    /// Bundle images or directories, separated by commas; '-' reads them from standard input
    #[arg(value_name = "IMAGES")]
    images: String,
    /// Database to add to; created if missing
    #[arg(value_name = "DB")]
    database: PathBuf,
    /// Accepted for compatibility; has no effect
    #[arg(long)]
    batch: bool,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    get: GetArgs,
}

/// Remove a package from a database
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  operator-registry delete bar index.db")]
struct DeleteArgs {
    /// Name of the package
    #[arg(value_name = "NAME")]
    name: String,
    /// Database to remove from
    #[arg(value_name = "DB")]
    database: PathBuf,
    /// Write the result to this database instead
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Remove the head of a package's default channel from a database
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  operator-registry delete-latest foo index.db")]
struct DeleteLatestArgs {
    /// Name of the package
    #[arg(value_name = "NAME")]
    name: String,
    /// Database to remove from
    #[arg(value_name = "DB")]
    database: PathBuf,
    /// Warn about new channel heads that cannot be pulled
    #[arg(long)]
    permissive: bool,
    #[command(flatten)]
    get: GetArgs,
}

/// Image and output flags.
#[derive(clap::Args)]
struct GetArgs {
    /// Tool that pulls images
    #[arg(short, long, value_name = "TOOL", default_value = "none", value_parser = container_tool())]
    container_tool: ContainerTool,
    /// Write the result to this database instead
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    pull: PullFlags,
}

impl GetArgs {
    fn target(&self, database: &Path, missing: IfMissing) -> DatabaseTarget {
        DatabaseTarget { output: self.output.clone(), ..DatabaseTarget::in_place(database, missing) }
    }
}

/// List the images that a database was built from
#[derive(clap::Args)]
#[command(
    long_about = "List the images that a database was built from.\n\n\
        'operator-registry add' records images by digest, so that the list rebuilds the same database. For packages that \
        were added with --mode semver or semver-skippatch, the list has the mode. The command warns about images that are \
        recorded only by tag; --pin resolves their current digests.",
    after_help = "Examples:\n  \
        operator-registry manifest index.db\n  \
        operator-registry manifest --pin index.db | operator-registry add - copy.db"
)]
struct ManifestArgs {
    /// Database to read
    #[arg(value_name = "DB")]
    database: PathBuf,
    /// File to write instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Resolve the digests of images that are recorded only by tag
    #[arg(long)]
    pin: bool,
    #[command(flatten)]
    pull: PullFlags,
}

/// Load manifests from a directory, ConfigMap or application registry into a database
#[derive(clap::Args)]
#[command(
    long_about = "Load manifests from a directory, ConfigMap or application registry into a database.\n\n\
        A directory holds one directory per operator version, and files that define packages and channels. A ConfigMap \
        has the keys customResourceDefinitions, clusterServiceVersions and packages, each with a list as text. An \
        application registry, the predecessor of bundle images, has one archive per package.",
    after_help = "Examples:\n  \
        operator-registry initializer -m manifests -o bundles.db\n  \
        operator-registry initializer --configmap configmap.yaml -o bundles.db\n  \
        operator-registry initializer -r 'https://quay.io/cnr|community-operators' --packages etcd,akka:1.0.0"
)]
struct InitializerArgs {
    /// Directory with packages
    #[arg(short, long, value_name = "DIR", default_value = "manifests", conflicts_with = "registries")]
    manifests: PathBuf,
    /// File with a ConfigMap to load instead of a directory
    #[arg(long, value_name = "FILE", conflicts_with_all = ["manifests", "registries"])]
    configmap: Option<String>,
    #[command(flatten)]
    app_registry: AppRegistryFlags,
    /// Database to load into; created if missing
    #[arg(short, long, value_name = "DB", default_value = "bundles.db")]
    output: PathBuf,
    /// Warn about manifests that cannot be loaded, and load the others
    #[arg(long)]
    permissive: bool,
    #[command(flatten)]
    pull: PullFlags,
}

/// Load manifests from a directory, ConfigMap or application registry into a database
#[derive(Parser)]
#[command(name = "initializer", bin_name = "initializer", version)]
struct Initializer {
    #[command(flatten)]
    args: InitializerArgs,
    #[command(flatten)]
    tls: TlsFlags,
}

/// Write a bundle to a ConfigMap of a cluster
#[derive(clap::Args)]
#[command(
    long_about = "Write a bundle to a ConfigMap of a cluster.\n\n\
        In a bundle image, this command passes the manifests to OLM; 'opm bundle extract' does the same. The metadata \
        directory must be next to the manifest directory.",
    after_help = "Examples:\n  operator-registry serve --manifestdir ./manifests/ -n olm -c my-bundle"
)]
struct ServeArgs {
    /// Directory of the manifests or of the bundle
    #[arg(long, value_name = "DIR", default_value = "./manifests/")]
    manifestdir: PathBuf,
    #[command(flatten)]
    to: extract::ToArgs,
}

impl ServeArgs {
    /// Returns the bundle directory.
    fn root(&self) -> PathBuf {
        let named_manifests = self.manifestdir.file_name().is_some_and(|name| name == "manifests");
        match self.manifestdir.parent().filter(|_| named_manifests) {
            Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
            Some(parent) => parent.to_path_buf(),
            None => self.manifestdir.clone(),
        }
    }
}

/// Parses the command line and runs the command.
/// Returns the arguments of the program.
pub(crate) fn command() -> Command {
    go_conventions(OperatorRegistry::command())
}

/// Returns the arguments of `initializer`.
pub(crate) fn initializer() -> Command {
    go_conventions(Initializer::command())
}

pub(crate) fn run(mut arguments: Vec<OsString>, printer: &mut Printer) -> CommandResult {
    // The original documentation writes the flag with one dash.
    for argument in arguments.iter_mut().skip(1) {
        if argument.to_str().is_some_and(|text| text == "-manifestdir" || text.starts_with("-manifestdir=")) {
            let mut long = OsString::from("-");
            long.push(&*argument);
            *argument = long;
        }
    }
    let Some(args) = cli::parse::<OperatorRegistry>(command(), arguments, printer)? else { return Ok(()) };
    images::check_flags(&args.tls, printer)?;
    // The others pass a bundle to OLM.
    if !matches!(args.command, OperatorRegistryCommand::ConfigMap(_) | OperatorRegistryCommand::Serve(_)) {
        database::notice(printer);
    }
    match &args.command {
        OperatorRegistryCommand::Create(args) => Ok(Database::create(&args.database)?),
        OperatorRegistryCommand::Add(add_args) => run_add(add_args, &args.tls, printer),
        OperatorRegistryCommand::Delete(args) => {
            let target = DatabaseTarget {
                output: args.output.clone(),
                ..DatabaseTarget::in_place(&args.database, IfMissing::Reject)
            };
            let packages = std::slice::from_ref(&args.name);
            database::change(&target, printer, |database| database.remove_packages(packages, Strictness::Strict))
        }
        OperatorRegistryCommand::DeleteLatest(latest) => {
            let fetcher = images::fetcher(&args.tls, &latest.get.pull, latest.get.container_tool)?;
            let strictness = Strictness::new(latest.permissive);
            let shrink = Shrink { strictness, images: &fetcher, limits: limits::from_env()? };
            let target = latest.get.target(&latest.database, IfMissing::Reject);
            database::change(&target, printer, |database| database.delete_latest(&latest.name, &shrink))
        }
        OperatorRegistryCommand::Manifest(manifest) => run_manifest(manifest, &args.tls, printer),
        OperatorRegistryCommand::Initializer(initializer) => run_initializer(initializer, &args.tls, printer),
        OperatorRegistryCommand::ConfigMap(args) => config_map::run(args, printer),
        OperatorRegistryCommand::Serve(args) => extract::write(&args.root(), &args.to, printer),
    }
}

/// Parses and runs the command line of `initializer`, formerly a separate program.
pub(crate) fn initialize(arguments: Vec<OsString>, printer: &mut Printer) -> CommandResult {
    let Some(args) = cli::parse::<Initializer>(initializer(), arguments, printer)? else { return Ok(()) };
    images::check_flags(&args.tls, printer)?;
    database::notice(printer);
    run_initializer(&args.args, &args.tls, printer)
}

fn run_add(args: &AddArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let text = match args.images.as_str() {
        "-" => {
            let text = read_input("-", &limits::from_env()?)?;
            String::from_utf8(text).map_err(|_| Failure::message("standard input: not UTF-8 text"))?
        }
        images => images.to_owned(),
    };
    let list = ImageList::parse(&text).map_err(Failure::message)?;
    let references: Vec<String> = list.images.iter().map(|image| latest(image)).collect();
    let fetcher = images::fetcher(tls, &args.get.pull, args.get.container_tool)?.pinning(args.how.pins(true));
    let options = args.how.options(Manner { heads_only: true, modes: list.modes, ..Manner::default() })?;
    let target = args.get.target(&args.database, IfMissing::Create);
    database::change(&target, printer, |database| database.add_images(&references, &options, &fetcher))
}

fn run_manifest(args: &ManifestArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let manifest = database::read(&args.database, printer)?.manifest()?;
    let images = images::open(tls, &args.pull);
    let pin = |image: &str| images.pin(image).map_err(FetchError::new);
    let report = manifest.report(if args.pin { Some(&pin) } else { None })?;
    report.warnings.iter().for_each(|warning| printer.warning(warning));
    let text = format!("{}\n", serde_json::to_string_pretty(&report).map_err(Failure::message)?);
    match &args.output {
        Some(file) => tree::write_file(file, &text)?,
        None => printer.data().write_all(text.as_bytes())?,
    }
    Ok(())
}

fn run_initializer(args: &InitializerArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let limits = limits::from_env()?;
    let strictness = Strictness::new(args.permissive);
    let target = DatabaseTarget::in_place(&args.output, IfMissing::Create);
    if args.app_registry.are_given() {
        let folder = TempFolder::private("opm-packages-")?;
        let images = images::open(tls, &args.pull);
        let downloaded = args.app_registry.download(&images, &limits, folder.path())?;
        downloaded.check(strictness).map_err(Failure::fault)?;
        database::forgive(&downloaded.problems, printer);
        let load = |database: &Database| database.load_directories(&downloaded.packages, &limits, strictness);
        return database::change(&target, printer, load);
    }
    match &args.configmap {
        Some(file) => {
            let text = read_input(file, &limits).map_err(|error| Failure::message(format!("{file}: {error}")))?;
            database::change(&target, printer, |database| database.load_config_map(&text, &limits, strictness))
        }
        None => {
            let directories = std::slice::from_ref(&args.manifests);
            database::change(&target, printer, |database| database.load_directories(directories, &limits, strictness))
        }
    }
}
