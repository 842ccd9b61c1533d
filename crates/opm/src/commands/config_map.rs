//! `operator-registry configmap` and `configmap-server`: load and serve the content of ConfigMaps.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory, Parser};
use cluster::{Access, ResourceKind, StoredBundle};
use legacy::{DatabaseTarget, IfMissing, Strictness};
use serde_json::Value;

use super::registry;
use crate::cli::{self, go_conventions};
use crate::cluster_flags::{ClusterFlags, block_on, failure};
use crate::database;
use crate::exit::{CommandResult, Failure, in_path};
use crate::limits;
use crate::printer::Printer;
use fbc::scratch::TempFolder;

/// Load the catalog or bundle in a ConfigMap
#[derive(clap::Args)]
#[command(
    long_about = "Load the catalog or bundle in a ConfigMap.\n\n\
        Loads a catalog, with the keys customResourceDefinitions, clusterServiceVersions and packages, into a \
        database. Writes a bundle, as 'opm bundle extract' stores it, to a directory.",
    after_help = "Examples:\n  \
        operator-registry configmap my-catalog -n olm -o bundles.db\n  \
        operator-registry configmap my-bundle -n olm --bundle my-bundle"
)]
pub(crate) struct ConfigMapArgs {
    /// Name of the ConfigMap
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    cluster: ClusterFlags,
    /// Database to load a catalog into; created if it does not exist
    #[arg(short, long, value_name = "DB", default_value = "bundles.db", conflicts_with = "bundle")]
    output: PathBuf,
    /// Directory to write a bundle to; it must not exist
    #[arg(long, value_name = "DIR")]
    bundle: Option<PathBuf>,
    /// Warn about content that cannot be loaded instead of failing
    #[arg(long)]
    permissive: bool,
}

pub(crate) fn run(args: &ConfigMapArgs, printer: &Printer) -> CommandResult {
    let map = get(args.cluster.access(), &args.name)?;
    match (&args.bundle, StoredBundle::is_in(&map)) {
        (Some(directory), _) => write_bundle(&map, directory),
        (None, true) => Err(Failure::message(format!("ConfigMap {} contains a bundle: use --bundle DIR", args.name))),
        (None, false) => load(&map, &args.output, args.permissive, printer),
    }
}

fn get(access: Access, name: &str) -> Result<cluster::ClusterObject, Failure> {
    let mut found = None;
    block_on("", async {
        let cluster = access.connect().await.map_err(failure)?;
        found = Some(cluster.get(ResourceKind::CONFIG_MAP, name).await.map_err(failure)?);
        Ok(())
    })?;
    found.ok_or_else(|| Failure::message("no answer"))
}

fn load(map: &cluster::ClusterObject, output: &Path, permissive: bool, printer: &Printer) -> CommandResult {
    let limits = limits::from_env()?;
    let data = map.data.get("data").cloned().unwrap_or(Value::Null);
    let text = serde_json::json!({ "data": data }).to_string();
    database::change(&DatabaseTarget::in_place(output, IfMissing::Create), printer, |database| {
        database.load_config_map(text.as_bytes(), &limits, Strictness::new(permissive))
    })
}

fn write_bundle(map: &cluster::ClusterObject, directory: &Path) -> CommandResult {
    if directory.exists() {
        return Err(Failure::message(format!("{} already exists", directory.display())));
    }
    let bundle = StoredBundle::of_map(map).map_err(failure)?;
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let staging = TempFolder::inside(parent, ".opm-bundle-").map_err(|error| in_path(parent, &error))?;
    let inside = staging.path().join("bundle");
    bundle.write_to(&inside, &limits::from_env()?).map_err(failure)?;
    fbc::scratch::move_folder(&inside, directory).map_err(|error| in_path(directory, &error))
}

/// Serve the catalog in a ConfigMap
#[derive(Parser)]
#[command(
    name = "configmap-server",
    bin_name = "configmap-server",
    version,
    long_about = "Serve the catalog in a ConfigMap.\n\n\
        The ConfigMap has the keys customResourceDefinitions, clusterServiceVersions and packages. The server loads it \
        once, into a database.",
    after_help = "Examples:\n  configmap-server -c my-catalog -n olm"
)]
struct ConfigMapServer {
    /// Name of the ConfigMap
    #[arg(short = 'c', long = "configMapName", value_name = "NAME")]
    name: String,
    /// Namespace of the ConfigMap
    #[arg(short = 'n', long = "configMapNamespace", value_name = "NAME")]
    namespace: Option<String>,
    /// Path to the kubeconfig; defaults to KUBECONFIG, ~/.kube/config or the in-cluster configuration
    #[arg(short, long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Warn about content that cannot be loaded instead of failing
    #[arg(long)]
    permissive: bool,
    #[command(flatten)]
    serve: registry::serve::ServeArgs,
}

/// Parses the command line of `configmap-server` and serves.
/// Returns the arguments of the program.
pub(crate) fn command() -> Command {
    go_conventions(ConfigMapServer::command())
}

pub(crate) fn serve(arguments: Vec<OsString>, printer: &mut Printer) -> CommandResult {
    let Some(args) = cli::parse::<ConfigMapServer>(command(), arguments, printer)? else { return Ok(()) };
    let (kubeconfig, namespace) = (args.kubeconfig.clone(), args.namespace.clone());
    let prepare = || {
        let map = get(Access { kubeconfig, context: None, namespace }, &args.name)?;
        load(&map, args.serve.database(), args.permissive, printer).map(|()| None)
    };
    registry::serve::run_prepared(&args.serve, prepare)
}
