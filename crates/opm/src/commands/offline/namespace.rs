//! What is installed in a namespace, put together from a file and from flags.

use fbc::stream;
use resolve::input::{Source, State};
use resolve::objects::Objects;
use resolve::pool::Pool;
use resolve::request::{self, Request};

use crate::exit::{Failure, in_path};
use crate::limits;
use crate::printer::{Printer, Style};

/// What is installed already
#[derive(clap::Args)]
#[command(next_help_heading = "What is installed")]
pub(crate) struct NamespaceArgs {
    /// Objects of the namespace: what 'kubectl get subscriptions,clusterserviceversions -o json' printed; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<String>,
    /// Namespace to look at, if the file has several
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Bundle that is installed and subscribed to; can be given several times
    #[arg(long, value_name = "BUNDLE|PACKAGE[@CHANNEL]=VERSION", value_parser = request::parse)]
    pub(crate) installed: Vec<Request>,
    /// Bundle that is installed without a Subscription; can be given several times
    #[arg(long, value_name = "BUNDLE|PACKAGE=VERSION", value_parser = request::parse)]
    pub(crate) unsubscribed: Vec<Request>,
}

/// Reads the file with objects of the namespace, and gives catalogs the names and priorities they have there.
pub(crate) fn read(
    args: &NamespaceArgs,
    sources: &mut [Source],
    printer: &Printer,
) -> Result<(String, State), Failure> {
    let default = args.namespace.clone().unwrap_or_else(|| "operators".to_owned());
    let Some(file) = &args.state else { return Ok((default, State::default())) };
    let limits = limits::from_env()?;
    let text = super::super::read_input(file, &limits).map_err(|error| in_path(file.as_ref(), &error))?;
    let named = |error: String| Failure::message(format!("{file}: {error}"));
    let documents = stream::documents(&text, &limits)
        .map_err(|error| named(format!("line {}: {error}", super::super::line_of(&text, error.offset))))?;
    let objects = Objects::read(&documents).map_err(named)?;
    let (namespace, mut state) = objects.namespace(args.namespace.as_deref()).map_err(named)?;
    // With one catalog at hand it is the one that is meant, whatever it is called there.
    if let ([only], Some(first)) = (&mut *sources, state.subscriptions.first()) {
        only.name.clone_from(&first.source.0);
    }
    for wish in &state.subscriptions {
        if let Some(source) = sources.iter_mut().find(|source| source.name == wish.source.0) {
            source.namespace.clone_from(&wish.source.1);
        } else {
            let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
            let (missing, names) = (&wish.source.0, names.join(", "));
            let message = format!(
                "Subscription {} follows catalog {missing:?}, and the catalogs here are called {names}",
                wish.name
            );
            return Err(Failure::message(format!("{message}\nhelp: name it on the command line: {missing}=SOURCE")));
        }
    }
    for ((name, namespace), priority) in &objects.priorities {
        if let Some(source) = sources.iter_mut().find(|it| it.name == *name && it.namespace == *namespace) {
            source.priority = *priority;
        }
    }
    // A Subscription alone shows what it has installed.
    for wish in &state.subscriptions {
        let Some(name) = &wish.installed else { continue };
        if state.installed.iter().any(|csv| csv.name == *name) {
            continue;
        }
        let bundles = sources.iter().flat_map(|source| &source.bundles);
        let known = bundles.into_iter().find(|bundle| bundle.name == *name && bundle.package == wish.package);
        let note = match known {
            Some(_) => "its properties are taken from the catalog",
            None => "neither the file nor the catalogs say more about it",
        };
        printer.report(&format!(
            "{} {name} is not among the ClusterServiceVersions of the file; {note}",
            printer.paint(Style::Note, "note:")
        ));
        let bundle = known.cloned().unwrap_or_else(|| request::unknown(name, &wish.package, None));
        state.installed.push(bundle);
    }
    Ok((namespace, state))
}

/// Adds what flags say is installed.
pub(crate) fn add_installed(args: &NamespaceArgs, pool: &Pool<'_>, state: &mut State) -> Result<(), Failure> {
    for wish in &args.installed {
        request::add_installed(wish, pool, state).map_err(Failure::message)?;
    }
    for wish in &args.unsubscribed {
        state.installed.push(request::installed(&wish.resolve(pool), pool).map_err(Failure::message)?.0);
    }
    Ok(())
}
