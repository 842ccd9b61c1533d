//! `appregistry-server`: the registry API from application registries.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::query::{Answer, Api, Counts, Query, QueryError, Rows};
use clap::{CommandFactory, Parser};
use cluster::Access;
use sqlite_index::{Database, Index, Strictness};

use super::operator_registry::token;
use super::registry::serve::serve_query;
use super::serve::TerminationLog;
use crate::app_registry::{self, Download, Source, Wanted};
use crate::cli::{self, go_conventions};
use crate::exit::{Failure, Outcome, in_path};
use crate::images::{self, Images, PullFlags, TlsFlags};
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::{database, limits, log, tree};

/// Serve operators from application registries
#[derive(Parser)]
#[command(
    name = "appregistry-server",
    bin_name = "appregistry-server",
    version,
    long_about = "Serve operators from application registries, as there were before images of bundles.\n\n\
        Packages are downloaded, loaded into a database, and served over gRPC. What cannot be had or loaded is \
        logged, and the rest is served.",
    after_help = "Examples:\n  \
        appregistry-server -r 'https://quay.io/cnr|community-operators' -o etcd,akka:1.0.0\n  \
        appregistry-server -r 'https://quay.io/cnr|mine|openshift/token' -k ~/.kube/config"
)]
struct AppRegistryServer {
    /// Application registry: URL|NAMESPACE, or URL|NAMESPACE|SECRET-NAMESPACE/SECRET with a secret of the cluster
    #[arg(short = 'r', long = "registry", value_name = "SOURCE", required = true, value_parser = app_registry::source)]
    registries: Vec<Source>,
    /// Packages to take, each NAME or NAME:RELEASE; all if none is named
    #[arg(short = 'o', long, value_name = "PACKAGES", value_delimiter = ',', value_parser = app_registry::wanted)]
    packages: Vec<Wanted>,
    /// File with a token for application registries without a secret
    #[arg(long, value_name = "FILE")]
    token_file: Option<String>,
    /// Directory that packages are downloaded to
    #[arg(short = 'f', long, value_name = "DIR", default_value = "downloaded")]
    download_folder: PathBuf,
    /// Database to make
    #[arg(short, long, value_name = "FILE", default_value = "bundles.db")]
    database: PathBuf,
    /// Port to listen on; 0 picks a free one and names it in the log
    #[arg(short, long, value_name = "PORT", default_value_t = 50051)]
    port: u16,
    /// File that the reason of a failure is written to; none if empty
    #[arg(short, long, value_name = "FILE", default_value = "/dev/termination-log")]
    termination_log: String,
    /// Kubeconfig of the cluster that has the secrets
    #[arg(short, long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Fail when something cannot be had or loaded
    #[arg(long)]
    strict: bool,
    /// Log every call, with its headers
    #[arg(long)]
    debug: bool,
    #[command(flatten)]
    pull: PullFlags,
    #[command(flatten)]
    tls: TlsFlags,
}

/// Parses the command line and runs the command.
pub(crate) fn run(arguments: Vec<OsString>, printer: &mut Printer) -> Outcome {
    let command = go_conventions(AppRegistryServer::command());
    let Some(args) = cli::parse::<AppRegistryServer>(command, arguments, printer)? else { return Ok(()) };
    images::check_flags(&args.tls, printer)?;
    log::start(args.debug);
    let wanted = (!args.termination_log.is_empty()).then_some(Path::new(&args.termination_log));
    let termination_log = wanted.and_then(TerminationLog::open);
    let outcome = load(&args).and_then(|catalog| serve_query(catalog, args.port, None));
    if let (Err(Failure::Message(text)), Some(log)) = (&outcome, termination_log) {
        log.write(text);
    }
    outcome
}

/// Downloads the packages and makes a database of them.
fn load(args: &AppRegistryServer) -> Result<Arc<dyn Query>, Failure> {
    let limits = limits::from_env()?;
    fs::create_dir_all(&args.download_folder).map_err(|error| in_path(&args.download_folder, &error))?;
    let token = args.token_file.as_deref().map(|file| token(file, &limits)).transpose()?;
    let images = Images::new(&args.tls, &args.pull);
    let download = Download {
        sources: &args.registries,
        wanted: &args.packages,
        client: images.client().map_err(Failure::Message)?,
        token: token.as_deref(),
        access: Access { kubeconfig: args.kubeconfig.clone(), ..Access::default() },
        limits: &limits,
    };
    let downloaded = download.run(&args.download_folder);
    let mut problems = downloaded.problems;
    // Made anew, since packages that are gone must not come back, and put in its place when it is whole.
    let parent = tree::parent(&args.database);
    let aside = Unfinished::create(parent, ".opm-db-").map_err(|error| in_path(parent, &error))?;
    let made = aside.path().join("bundles.db");
    Database::create(&made).map_err(database::failure)?;
    let database = Database::write(&made).map_err(database::failure)?;
    let mut loaded = 0;
    for package in &downloaded.packages {
        match database.load_directory(package, &limits, Strictness::Permissive) {
            Ok(forgiven) => {
                loaded += 1;
                problems.extend(forgiven.into_iter().map(|problem| format!("{}: {problem}", package.display())));
            }
            Err(error) => problems.push(format!("{}: {error}", package.display())),
        }
    }
    if args.strict && !problems.is_empty() {
        return Err(Failure::Message(problems.join("\n")));
    }
    problems.iter().for_each(|problem| tracing::warn!("{problem}"));
    drop(database);
    fs::rename(&made, &args.database).map_err(|error| in_path(&args.database, &error))?;
    if loaded == 0 {
        tracing::warn!("nothing could be loaded: every call is answered with an error");
        return Ok(Arc::new(Nothing));
    }
    let index = Database::copy(&args.database).and_then(Index::new).map_err(database::failure)?;
    Ok(Arc::new(index))
}

/// A catalog that could not be loaded, and says so.
struct Nothing;

fn cannot<T>(what: &str) -> Result<T, QueryError> {
    Err(QueryError::Absent(format!("empty querier: cannot {what}")))
}

impl Query for Nothing {
    fn packages(self: Arc<Self>) -> Rows {
        Box::new(std::iter::once(cannot("list packages")))
    }

    fn package(&self, _: &str) -> Answer {
        cannot("get package")
    }

    fn bundle(&self, _: &str, _: &str, _: &str) -> Answer {
        cannot("get bundle")
    }

    fn head(&self, _: &str, _: &str) -> Answer {
        cannot("get bundle for channel")
    }

    fn replacements(self: Arc<Self>, _: &str) -> Result<Rows, QueryError> {
        cannot("get channel entries that replace")
    }

    fn replacement(&self, _: &str, _: &str, _: &str) -> Answer {
        cannot("get bundle that replaces")
    }

    fn providers(self: Arc<Self>, _: &Api) -> Result<Rows, QueryError> {
        cannot("get channel entries that provide")
    }

    fn latest_providers(self: Arc<Self>, _: &Api) -> Result<Rows, QueryError> {
        cannot("get latest channel entries that provide")
    }

    fn default_provider(&self, _: &Api) -> Answer {
        cannot("get bundle that provides")
    }

    fn bundles(self: Arc<Self>) -> Rows {
        Box::new(std::iter::once(cannot("list bundles")))
    }

    fn custom(self: Arc<Self>, _: &str, _: &str) -> Rows {
        Box::new(std::iter::once(cannot("list package custom schemas")))
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}
