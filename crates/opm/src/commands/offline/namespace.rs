//! The installed bundles of a namespace, read from a file and from flags.

use fbc::stream;
use resolve::NamespaceError;
use resolve::input::{CatalogInput, ClusterNamespace};
use resolve::objects::{MissingCsv, Objects};
use resolve::pool::Pool;
use resolve::request::{self, InstallRequest};

use crate::exit::{Failure, in_path};
use crate::limits;
use crate::printer::{Printer, Style};

/// Installed bundles
#[derive(clap::Args)]
#[command(next_help_heading = "Installed bundles")]
pub(crate) struct NamespaceArgs {
    /// Output of 'kubectl get subscriptions,clusterserviceversions -o json', or '-' for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<String>,
    /// Namespace to use if the file has several
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Installed bundle with a Subscription; can be repeated
    #[arg(long, value_name = "BUNDLE|PACKAGE[@CHANNEL]=VERSION", value_parser = request::parse)]
    pub(crate) installed: Vec<InstallRequest>,
    /// Installed bundle without a Subscription; can be repeated
    #[arg(long, value_name = "BUNDLE|PACKAGE=VERSION", value_parser = request::parse)]
    pub(crate) unsubscribed: Vec<InstallRequest>,
}

/// Reads the objects of the namespace from the file. Catalogs get the names and priorities they have in the cluster.
pub(crate) fn read(
    args: &NamespaceArgs,
    sources: &mut [CatalogInput],
    printer: &Printer,
) -> Result<(String, ClusterNamespace), Failure> {
    let default = args.namespace.clone().unwrap_or_else(|| "operators".to_owned());
    let Some(file) = &args.state else { return Ok((default, ClusterNamespace::default())) };
    let limits = limits::from_env()?;
    let text = super::super::read_input(file, &limits).map_err(|error| in_path(file.as_ref(), &error))?;
    let named = |error: &dyn std::fmt::Display| Failure::message(format!("{file}: {error}"));
    let documents = stream::documents(&text, &limits)
        .map_err(|error| named(&format_args!("line {}: {error}", super::super::line_of(&text, error.offset))))?;
    let objects = Objects::read(&documents).map_err(|error| named(&error))?;
    let (namespace, state, missing) =
        objects.with_catalogs(args.namespace.as_deref(), sources).map_err(|error| match error {
            NamespaceError::UnknownCatalog { .. } => Failure::usage(error),
            error => named(&error),
        })?;
    for MissingCsv { name, in_catalog } in missing {
        let note = match in_catalog {
            true => "using its properties from the catalog",
            false => "its properties are unknown",
        };
        printer.report(&format!(
            "{} the file has no ClusterServiceVersion {name}; {note}",
            printer.paint(Style::Note, "note:")
        ));
    }
    Ok((namespace, state))
}

/// Adds the bundles that flags declare as installed.
pub(crate) fn add_installed(
    args: &NamespaceArgs,
    pool: &Pool<'_>,
    state: &mut ClusterNamespace,
) -> Result<(), Failure> {
    for wish in &args.installed {
        request::add_installed(wish, pool, state).map_err(Failure::fault)?;
    }
    for wish in &args.unsubscribed {
        state.installed.push(request::installed(&wish.resolve(pool), pool).map_err(Failure::fault)?.0);
    }
    Ok(())
}
