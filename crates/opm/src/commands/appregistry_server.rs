//! `appregistry-server`: serves the registry API from application registries.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::query::Query;
use clap::{Command, CommandFactory, Parser};
use cluster::Access;
use fbc::Limits;
use legacy::app_registry::{Download, Downloaded, PackageSource, PublishError, WantedPackage};
use legacy::{EmptyIndex, Strictness};
use source::Images;

use super::read_input;
use super::registry::serve::{ServeArgs, run_prepared};
use crate::cli::{self, go_conventions};
use crate::exit::{CommandResult, Failure, in_path};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{limits, runtime};

/// Serve operators from application registries
#[derive(Parser)]
#[command(
    name = "appregistry-server",
    bin_name = "appregistry-server",
    version,
    long_about = "Serve operators from application registries, which predate bundle images.\n\n\
        Downloads packages, loads them into a database and serves them over gRPC. The server logs packages that fail \
        to download or load, and serves the rest.",
    after_help = "Examples:\n  \
        appregistry-server -r 'https://quay.io/cnr|community-operators' -o etcd,akka:1.0.0\n  \
        appregistry-server -r 'https://quay.io/cnr|mine|openshift/token' -k ~/.kube/config"
)]
struct AppRegistryServer {
    #[command(flatten)]
    app_registry: AppRegistryFlags,
    /// Directory for downloaded packages
    #[arg(short = 'f', long, value_name = "DIR", default_value = "downloaded")]
    download_folder: PathBuf,
    /// Fail if a package cannot be downloaded or loaded
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    serve: ServeArgs,
    #[command(flatten)]
    pull: PullFlags,
    #[command(flatten)]
    tls: TlsFlags,
}

/// The packages to download and their sources.
#[derive(clap::Args)]
pub(crate) struct AppRegistryFlags {
    /// Application registry: URL|NAMESPACE, or URL|NAMESPACE|SECRET-NAMESPACE/SECRET with a Secret of the cluster
    #[arg(short = 'r', long = "registry", value_name = "SOURCE", value_parser = PackageSource::parse)]
    registries: Vec<PackageSource>,
    /// Packages to download, each NAME or NAME:RELEASE; defaults to all
    #[arg(long, value_name = "PACKAGES", value_delimiter = ',', value_parser = WantedPackage::parse, requires = "registries")]
    packages: Vec<WantedPackage>,
    /// File with a token for application registries without a Secret
    #[arg(long, value_name = "FILE", requires = "registries")]
    token_file: Option<String>,
    /// Path to the kubeconfig file of the cluster with the Secrets
    #[arg(short, long, value_name = "FILE", requires = "registries")]
    kubeconfig: Option<PathBuf>,
}

impl AppRegistryFlags {
    /// Returns whether an application registry is given.
    pub(crate) fn are_given(&self) -> bool {
        !self.registries.is_empty()
    }

    /// Downloads the packages to directories below `folder`, replacing those of earlier downloads.
    pub(crate) fn download(&self, images: &Images, limits: &Limits, folder: &Path) -> Result<Downloaded, Failure> {
        let token = self.token_file.as_deref().map(|file| {
            let text = read_input(file, limits).map_err(|error| in_path(Path::new(file), &error))?;
            String::from_utf8(text).map_err(|_| Failure::message(format!("{file}: not UTF-8 text")))
        });
        let access = Access { kubeconfig: self.kubeconfig.clone(), ..Access::default() };
        let secret = |namespace: &str, name: &str| {
            let read = async { access.connect().await?.secret(namespace, name, "token").await };
            Ok(runtime::block_on(read)??)
        };
        let download = Download {
            sources: &self.registries,
            wanted: &self.packages,
            client: images.client()?,
            token: token.transpose()?,
            secret: &secret,
            limits,
        };
        Ok(download.run(folder))
    }
}

/// Parses the command line and runs the command.
/// Returns the arguments of the program.
pub(crate) fn command() -> Command {
    let command = go_conventions(AppRegistryServer::command());
    command.mut_arg("registries", |it| it.required(true)).mut_arg("packages", |it| it.short('o'))
}

pub(crate) fn run(arguments: Vec<OsString>, printer: &mut Printer) -> CommandResult {
    let Some(args) = cli::parse::<AppRegistryServer>(command(), arguments, printer)? else { return Ok(()) };
    images::check_flags(&args.tls, printer)?;
    run_prepared(&args.serve, || load(&args))
}

/// Downloads the packages and loads them into a database. If nothing loads, returns a querier that answers every call
/// with an error.
fn load(args: &AppRegistryServer) -> Result<Option<Arc<dyn Query>>, Failure> {
    let limits = limits::from_env()?;
    fs::create_dir_all(&args.download_folder).map_err(|error| in_path(&args.download_folder, &error))?;
    let images = images::open(&args.tls, &args.pull);
    let downloaded = args.app_registry.download(&images, &limits, &args.download_folder)?;
    let strictness = Strictness::new(!args.strict);
    let (packages, problems) =
        downloaded.publish(args.serve.database(), strictness, &limits).map_err(|error| match error {
            PublishError::Incomplete(error) => Failure::fault(error),
            PublishError::Database(error) => error.into(),
        })?;
    problems.iter().for_each(|problem| tracing::warn!("{problem}"));
    if packages == 0 {
        tracing::warn!("no package could be loaded: every call returns an error");
        return Ok(Some(Arc::new(EmptyIndex)));
    }
    Ok(None)
}
