//! `appregistry-server`: serves the registry API from application registries.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use catalog::query::{Answer, Api, Counts, Query, QueryError, Rows};
use clap::{CommandFactory, Parser};
use legacy::{Database, Strictness};

use super::registry::serve::{ServeArgs, run_prepared};
use crate::app_registry::AppRegistryFlags;
use crate::cli::{self, go_conventions};
use crate::exit::{Failure, Outcome, in_path};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{database, limits};

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

/// Parses the command line and runs the command.
pub(crate) fn run(arguments: Vec<OsString>, printer: &mut Printer) -> Outcome {
    let command = go_conventions(AppRegistryServer::command());
    let command = command.mut_arg("registries", |it| it.required(true)).mut_arg("packages", |it| it.short('o'));
    let Some(args) = cli::parse::<AppRegistryServer>(command, arguments, printer)? else { return Ok(()) };
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
    let mut problems = downloaded.problems;
    // A new database, because removed packages must not reappear.
    let database = Database::temporary().and_then(|database| database.migrate().map(|()| database));
    let database = database.map_err(database::failure)?;
    let mut loaded = 0;
    for package in &downloaded.packages {
        match database.load_directories(std::slice::from_ref(package), &limits, Strictness::Permissive) {
            Ok(skipped) => {
                loaded += 1;
                problems.extend(skipped.into_iter().map(|problem| format!("{}: {problem}", package.display())));
            }
            Err(error) => problems.push(format!("{}: {error}", package.display())),
        }
    }
    if args.strict && !problems.is_empty() {
        return Err(Failure::message(problems.join("\n")));
    }
    problems.iter().for_each(|problem| tracing::warn!("{problem}"));
    database.publish(args.serve.database()).map_err(database::failure)?;
    if loaded == 0 {
        tracing::warn!("no package could be loaded: every call returns an error");
        return Ok(Some(Arc::new(EmptyQuerier)));
    }
    Ok(None)
}

/// Answers every call with an error, because nothing could be loaded.
struct EmptyQuerier;

fn cannot<T>(what: &str) -> Result<T, QueryError> {
    Err(QueryError::Absent(format!("empty querier: cannot {what}")))
}

impl Query for EmptyQuerier {
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
