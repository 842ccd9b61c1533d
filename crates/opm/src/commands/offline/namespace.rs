//! What is installed in a namespace, put together from a file and from flags.

use fbc::stream;
use fbc::version::Version;
use resolve::input::{Bundle, Source, State, Subscription};
use resolve::objects::Objects;
use resolve::place::Place;
use resolve::pool::{Node, Pool};

use super::wish::Wish;
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
    #[arg(long, value_name = "BUNDLE|PACKAGE[@CHANNEL]=VERSION", value_parser = super::wish::wish)]
    pub(crate) installed: Vec<Wish>,
    /// Bundle that is installed without a Subscription; can be given several times
    #[arg(long, value_name = "BUNDLE|PACKAGE=VERSION", value_parser = super::wish::wish)]
    pub(crate) unsubscribed: Vec<Wish>,
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
        printer.tell(&format!(
            "{} {name} is not among the ClusterServiceVersions of the file; {note}",
            printer.paint(Style::Note, "note:")
        ));
        let bundle = known.cloned().unwrap_or_else(|| unknown(name, &wish.package, None));
        state.installed.push(bundle);
    }
    Ok((namespace, state))
}

/// Adds what flags say is installed.
pub(crate) fn add_installed(args: &NamespaceArgs, pool: &Pool<'_>, state: &mut State) -> Result<(), Failure> {
    for wish in &args.installed {
        let wish = wish.settle(pool);
        let (bundle, node) = installed(&wish, pool)?;
        let channel = wish.channel.clone().or_else(|| channel_of(pool, &bundle, node));
        let source = node.map_or_else(|| source_of(pool, &bundle.package), |node| pool.member(node).source);
        let source = &pool.sources[source];
        state.subscriptions.push(Subscription {
            name: bundle.package.clone(),
            package: bundle.package.clone(),
            channel,
            starting_csv: None,
            installed: Some(bundle.name.clone()),
            source: (source.name.clone(), source.namespace.clone()),
        });
        state.installed.push(bundle);
    }
    for wish in &args.unsubscribed {
        state.installed.push(installed(&wish.settle(pool), pool)?.0);
    }
    Ok(())
}

/// Finds the bundle that is installed, in the catalogs if it is there.
pub(crate) fn installed(wish: &Wish, pool: &Pool<'_>) -> Result<(Bundle, Option<Node>), Failure> {
    let anywhere = Wish { channel: None, ..wish.clone() };
    let nodes = anywhere.members(pool);
    let in_channel = nodes.iter().copied().find(|&node| Some(pool.member(node).channel) == wish.channel.as_deref());
    if let Some(node) = in_channel.or_else(|| nodes.first().copied()) {
        return Ok((pool.member(node).bundle.clone(), Some(node)));
    }
    // A bundle that has left the catalog can still be named, and upgraded from.
    let Some(version) = &wish.version else {
        let named_version = wish.package.rsplit_once(".v").and_then(|(_, it)| Version::parse_tolerant(it).ok());
        let package = wish.package.split(".v").next().unwrap_or_default();
        return match named_version {
            Some(version) if !pool.of_package(package).is_empty() => {
                Ok((unknown(&wish.package, package, Some(version)), None))
            }
            _ if pool.of_package(&wish.package).is_empty() => Err(wish.unknown(pool)),
            _ => Err(Failure::message(format!(
                "which version of {} is installed? Write {}=VERSION or the name of the bundle",
                wish.package, wish.package
            ))),
        };
    };
    if pool.of_package(&wish.package).is_empty() {
        return Err(wish.unknown(pool));
    }
    Ok(match Version::parse_tolerant(version) {
        // Bundles are nearly always called like that.
        Ok(parsed) => (unknown(&format!("{}.v{version}", wish.package), &wish.package, Some(parsed)), None),
        Err(_) => {
            let parsed = version.rsplit_once(".v").and_then(|(_, it)| Version::parse_tolerant(it).ok());
            (unknown(version, &wish.package, parsed), None)
        }
    })
}

/// A bundle of which no more is known than its name.
fn unknown(name: &str, package: &str, version: Option<Version>) -> Bundle {
    let mut bundle = Bundle::installed(name, version.clone(), "[]");
    bundle.package = package.to_owned();
    bundle.facts.packages.push((package.to_owned(), version));
    bundle
}

/// Returns the channel that somebody who has a bundle probably follows: the default one if it has it or leads on from
/// it, or the first that does.
fn channel_of(pool: &Pool<'_>, bundle: &Bundle, node: Option<Node>) -> Option<String> {
    let leads = |node: &Node| {
        let member = pool.member(*node);
        member.bundle.name == bundle.name
            || catalog::chain::Edge::between(member.entry, &bundle.name, bundle.version.as_ref()).is_some()
    };
    let mut nodes: Vec<Node> = pool.of_package(&bundle.package).iter().copied().filter(leads).collect();
    nodes.sort_by_key(|&node| (!pool.is_default(node), pool.member(node).channel));
    nodes.first().copied().or(node).map(|node| pool.member(node).channel.to_owned())
}

/// Returns the catalog that a package is taken from: the one of the highest priority that has it, then by name.
pub(crate) fn source_of(pool: &Pool<'_>, package: &str) -> usize {
    let mut sources: Vec<usize> = pool.of_package(package).iter().map(|&node| pool.member(node).source).collect();
    sources.sort_by_key(|&source| (-pool.sources[source].priority, &pool.sources[source].name));
    sources.first().copied().unwrap_or_default()
}

/// Adds a Subscription for what is wished, or changes the one that is there.
pub(crate) fn subscribe(wish: &Wish, pool: &Pool<'_>, state: &mut State) -> Result<(), Failure> {
    let wish = wish.settle(pool);
    let known = state.subscriptions.iter_mut().find(|it| it.package == wish.package);
    if let Some(known) = known {
        if let Some(version) = &wish.version {
            return Err(Failure::message(format!(
                "{} is subscribed to already, so that {version} cannot be asked for: clusters choose by the channel",
                wish.package
            )));
        }
        if wish.channel.is_some() {
            known.channel = wish.channel;
        }
        return Ok(());
    }
    let mut nodes = wish.members(pool);
    if wish.version.is_some() && nodes.is_empty() {
        return Err(wish.unknown(pool));
    }
    nodes.sort_by_key(|&node| (!Place::of(pool, node).is_on_chain(), !pool.is_default(node)));
    let first = nodes.first().map(|&node| *pool.member(node));
    let source = first.map_or_else(|| source_of(pool, &wish.package), |member| member.source);
    let source = &pool.sources[source];
    let default = || {
        let nodes = pool.of_package(&wish.package).iter();
        let mut here = nodes.filter(|&&node| pool.sources[pool.member(node).source].name == source.name);
        here.find(|&&node| pool.is_default(node)).map(|&node| pool.member(node).channel.to_owned())
    };
    state.subscriptions.push(Subscription {
        name: wish.package.clone(),
        package: wish.package.clone(),
        channel: wish.channel.clone().or_else(|| first.map(|member| member.channel.to_owned())).or_else(default),
        starting_csv: first.map(|member| member.bundle.name.clone()),
        installed: None,
        source: (source.name.clone(), source.namespace.clone()),
    });
    Ok(())
}
