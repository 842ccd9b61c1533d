//! `opm why`: why something is installed, chosen or offered, or why it is not.

use std::collections::{BTreeMap, BTreeSet};

use catalog::chain::Edge;
use resolve::dependencies;
use resolve::explain::explain;
use resolve::input::State;
use resolve::place::Place;
use resolve::pool::{Node, Pool};
use resolve::resolver::{self, Item, Outcome as Resolved, Reason};
use serde_json::{Value, json};

use super::offline::namespace;
use super::offline::wish::{self, Wish};
use super::offline::{Output, output, sources};
use super::resolve::origin;
use crate::exit::{Failure, Outcome};
use crate::images::{Images, PullFlags, TlsFlags};
use crate::printer::Printer;

/// Show why a package or version is chosen by clusters, or why it is not
#[derive(clap::Args)]
#[command(
    override_usage = "opm why [OPTIONS] <[NAME=]CATALOG>... <PACKAGE[@CHANNEL][=VERSION]>",
    long_about = "Show why a package or version is chosen by clusters, or why it is not.\n\n\
        For a package: which channels it has, what a new installation gets and why, and who requires it. For a version: \
        where it stands in each channel, whether it can be installed, what upgrades to it and what it is upgraded to. \
        When something is in the way (skipped, not on the chain, forbidden, a dependency that is missing), it is named.",
    after_help = "Examples:\n  \
        opm why my-catalog etcd\n  \
        opm why my-catalog etcd@clusterwide-alpha=0.9.2\n  \
        opm why my-catalog etcdoperator.v0.9.2\n  \
        opm why my-catalog other-catalog prometheus=0.47.0 -o json"
)]
pub(crate) struct WhyArgs {
    /// Catalogs, and last what is asked about: PACKAGE[@CHANNEL][=VERSION] or the name of a bundle
    #[arg(value_name = "CATALOG... PACKAGE", num_args = 2.., required = true)]
    catalogs_and_package: Vec<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = output())]
    output: Output,
    #[command(flatten)]
    pull: PullFlags,
}

/// A heading, and lines below it.
struct Part {
    key: &'static str,
    heading: String,
    lines: Vec<String>,
}

pub(crate) fn run(args: &WhyArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let Some((what, catalogs)) = args.catalogs_and_package.split_last() else {
        return Err(Failure::message("say which catalog, and what in it"));
    };
    let what = wish::wish(what).map_err(|error| Failure::message(format!("{what}: {error}")))?;
    let images = Images::new(tls, &args.pull);
    let sources = sources::load(catalogs, &[], &images, printer)?;
    let pool = Pool::new(&sources, "operators");
    let wish = what.settle(&pool);
    let parts = match &wish.version {
        None => of_package(&pool, &wish)?,
        Some(_) => of_version(&pool, &wish)?,
    };
    let answer = match args.output {
        Output::Text => {
            let mut out = String::new();
            for part in &parts {
                out += &format!("{}\n", part.heading);
                part.lines.iter().for_each(|line| out += &format!("  {line}\n"));
            }
            out
        }
        Output::Json => {
            let parts: Vec<Value> = parts
                .iter()
                .map(|part| json!({"about": part.key, "summary": part.heading, "details": part.lines}))
                .collect();
            format!("{:#}\n", json!({"package": wish.package, "version": wish.version, "answers": parts}))
        }
    };
    printer.data().write_all(answer.as_bytes())?;
    Ok(())
}

/// Answers for a package, or a channel of it.
fn of_package(pool: &Pool<'_>, wish: &Wish) -> Result<Vec<Part>, Failure> {
    let in_channel = |node: &&Node| wish.channel.as_ref().is_none_or(|name| *name == pool.member(**node).channel);
    let nodes: Vec<Node> = pool.of_package(&wish.package).iter().filter(in_channel).copied().collect();
    if nodes.is_empty() {
        return Err(wish.unknown(pool));
    }
    let mut parts = vec![channels(pool, wish, &nodes)];
    parts.extend(messages(pool, &nodes));
    let mut state = State::default();
    namespace::subscribe(wish, pool, &mut state)?;
    parts.push(installed(pool, wish, &state));
    parts.push(required_by(pool, wish, &nodes));
    Ok(parts)
}

fn channels(pool: &Pool<'_>, wish: &Wish, nodes: &[Node]) -> Part {
    let mut lines: BTreeMap<(usize, &str), String> = BTreeMap::new();
    for &node in nodes {
        let member = pool.member(node);
        let default = if pool.is_default(node) { " (default)" } else { "" };
        let source = &pool.sources[member.source].name;
        let line = match &*pool.chain_of(node) {
            Ok(chain) => {
                let head = chain.first().map(|&head| pool.member(head).bundle.name.as_str()).unwrap_or_default();
                let (all, left) = (pool.channel_of(node).len(), chain.len());
                let hidden = all - left;
                let hidden = match hidden {
                    0 => String::new(),
                    _ => format!(", {hidden} of them skipped or not on the chain"),
                };
                let bundles = if all == 1 { "bundle" } else { "bundles" };
                format!("{}{default} of {source}: head {head}, {all} {bundles}{hidden}", member.channel)
            }
            Err(error) => format!("{}{default} of {source}: {error}", member.channel),
        };
        lines.entry((member.source, member.channel)).or_insert(line);
    }
    let heading = format!("channels of {}:", wish.package);
    Part { key: "channels", heading, lines: lines.into_values().collect() }
}

/// Reports what users see about a package, its channels and bundles.
fn messages(pool: &Pool<'_>, nodes: &[Node]) -> Option<Part> {
    let one_line = |message: &str| message.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines = BTreeSet::new();
    for &node in nodes {
        let member = pool.member(node);
        let package = &member.bundle.package;
        if let Some(Some(message)) = pool.sources[member.source].packages.get(package) {
            lines.insert(format!("package {package}: {}", one_line(message)));
        }
        if let Some(message) = pool.channel_deprecation(node) {
            lines.insert(format!("channel {}: {}", member.channel, one_line(message)));
        }
        if let Some(message) = &member.bundle.deprecation {
            lines.insert(format!("bundle {}: {}", member.bundle.name, one_line(message)));
        }
    }
    let heading = "deprecated (a message for users; clusters choose all the same):".to_owned();
    (!lines.is_empty()).then(|| Part { key: "deprecations", heading, lines: lines.into_iter().collect() })
}

/// Reports what a new installation gets.
fn installed(pool: &Pool<'_>, wish: &Wish, state: &State) -> Part {
    let package = &wish.package;
    let part = |heading, lines| Part { key: "install", heading, lines };
    match resolver::resolve(pool, state) {
        Resolved::Solved(chosen) => {
            let mut heading = String::new();
            let mut lines = Vec::new();
            for chosen in chosen {
                let Item::Member(node) = chosen.item else { continue };
                let name = &pool.member(node).bundle.name;
                if chosen.reasons.contains(&Reason::Subscription(0)) {
                    heading = format!("a new installation gets {name} ({})", origin(pool, node));
                    lines.extend(passed_over(pool, node));
                    continue;
                }
                lines.push(format!("with {name} ({})", origin(pool, node)));
                for reason in &chosen.reasons {
                    if let Reason::Needed { by, need } = reason {
                        lines.push(format!("  {} requires {need}", resolver::bundle(pool, state, *by).name));
                    }
                }
            }
            part(heading, lines)
        }
        Resolved::Unsatisfiable(conflict) => {
            let mut lines = explain(pool, state, &conflict);
            lines.push(format!("OLM says: {}", conflict.message()));
            part(format!("{package} cannot be installed"), lines)
        }
        Resolved::Error(message) => {
            part(format!("{package} cannot be installed"), vec![format!("OLM says: {message}")])
        }
    }
}

/// Says why what is newer than a bundle on its chain is passed over.
fn passed_over(pool: &Pool<'_>, node: Node) -> Vec<String> {
    let mut lines = Vec::new();
    if let Ok(chain) = &*pool.chain_of(node) {
        for &newer in chain.iter().take_while(|&&other| other != node).take(3) {
            let name = &pool.member(newer).bundle.name;
            lines
                .push(format!("{name} is newer, but cannot be installed: {}", cannot(pool, newer).unwrap_or_default()));
        }
    }
    lines
}

/// Says why a bundle cannot be installed, in one line.
fn cannot(pool: &Pool<'_>, node: Node) -> Option<String> {
    let (reason, hints) = dependencies::why_not(pool, node)?;
    let hints: Vec<&str> = hints.iter().map(|hint| hint.trim()).collect();
    Some(if hints.is_empty() { reason } else { format!("{reason}; {}", hints.join("; ")) })
}

/// Reports who requires a package.
fn required_by(pool: &Pool<'_>, wish: &Wish, nodes: &[Node]) -> Part {
    let own: BTreeSet<Node> = nodes.iter().copied().collect();
    let mut lines: BTreeMap<(&str, String), BTreeSet<&str>> = BTreeMap::new();
    for (_, member) in pool.members().filter(|(_, member)| member.bundle.package != wish.package) {
        for requirement in &member.bundle.facts.needs {
            let found = pool.candidates(&requirement.need, None);
            if matches!(&*found, Ok(found) if found.iter().any(|node| own.contains(node))) {
                let key = (member.bundle.package.as_str(), requirement.need.to_string());
                lines.entry(key).or_default().insert(&member.bundle.name);
            }
        }
    }
    let lines: Vec<String> = lines
        .into_iter()
        .map(|((package, need), bundles)| match bundles.len() {
            1 => format!("{} requires {need}", bundles.first().copied().unwrap_or_default()),
            number => format!("{number} bundles of {package} require {need}"),
        })
        .collect();
    let heading = match lines.is_empty() {
        true => format!("nothing here requires {}", wish.package),
        false => format!("{} meets what others require:", wish.package),
    };
    Part { key: "required", heading, lines }
}

/// Answers for one version.
fn of_version(pool: &Pool<'_>, wish: &Wish) -> Result<Vec<Part>, Failure> {
    let nodes = wish.members(pool);
    let Some(&first) = nodes.first() else { return Err(wish.unknown(pool)) };
    let bundle = pool.member(first).bundle;
    let name = &bundle.name;
    let mut parts = Vec::new();
    let mut places = Vec::new();
    let impossible = cannot(pool, first);
    for &node in &nodes {
        let member = pool.member(node);
        let source = &pool.sources[member.source].name;
        let place = match Place::of(pool, node) {
            Place::Head if impossible.is_some() => "the head".to_owned(),
            Place::Head => "the head: new installations get it".to_owned(),
            Place::Below(1) => "directly below the head".to_owned(),
            Place::Below(number) => format!("{number} below the head"),
            Place::Skipped(by) => {
                format!(
                    "skipped by {}: not offered; a Subscription with startingCSV {name} still gets it",
                    by.join(", ")
                )
            }
            Place::Unreachable => format!(
                "not on the chain, since 'replaces' does not lead to it from the head: not offered; a Subscription \
                 with startingCSV {name} still gets it"
            ),
            Place::Broken(error) => error,
        };
        places.push(format!("channel {} of {source}: {place}", member.channel));
    }
    parts.push(Part { key: "place", heading: format!("{name}:"), lines: places });
    parts.extend(messages(pool, &nodes));
    parts.push(match impossible {
        None if bundle.facts.needs.is_empty() => {
            Part { key: "install", heading: "it can be installed; it requires nothing".to_owned(), lines: Vec::new() }
        }
        None => {
            let needs = bundle.facts.needs.iter().map(|requirement| met(pool, first, &requirement.need));
            let lines: BTreeSet<String> = needs.collect();
            let heading = "it can be installed, with what it requires:".to_owned();
            Part { key: "install", heading, lines: lines.into_iter().collect() }
        }
        Some(reason) => Part { key: "install", heading: "it cannot be installed:".to_owned(), lines: vec![reason] },
    });
    parts.push(edges(pool, &nodes));
    Ok(parts)
}

/// Says what meets a need.
fn met(pool: &Pool<'_>, node: Node, need: &catalog::needs::Need) -> String {
    match &*pool.candidates(need, Some(pool.member(node).source)) {
        Ok(found) => match found.first() {
            Some(&first) => format!("{need}: {} ({})", pool.member(first).bundle.name, origin(pool, first)),
            None => format!("{need}: it meets that itself"),
        },
        Err(error) => error.clone(),
    }
}

/// Reports what upgrades to a bundle, and what it is upgraded to.
fn edges(pool: &Pool<'_>, nodes: &[Node]) -> Part {
    let mut lines = BTreeSet::new();
    for &node in nodes {
        let member = pool.member(node);
        let (bundle, entry, channel) = (member.bundle, member.entry, member.channel);
        if Place::of(pool, node).is_on_chain() {
            let mut from: Vec<String> = Vec::new();
            if !entry.replaces.is_empty() {
                from.push(entry.replaces.to_string());
            }
            from.extend(entry.skips.iter().map(ToString::to_string));
            if !entry.skip_range.is_empty() {
                from.push(format!("versions {}", entry.skip_range));
            }
            if !from.is_empty() {
                lines.insert(format!("channel {channel}: {} upgrades to it", from.join(", ")));
            }
        }
        if let Ok(chain) = &*pool.chain_of(node) {
            let next = chain.iter().copied().filter(|&other| other != node).find_map(|other| {
                let edge = Edge::between(pool.member(other).entry, &bundle.name, bundle.version.as_ref())?;
                Some((other, edge))
            });
            let line = match next {
                Some((other, edge)) => {
                    let name = &pool.member(other).bundle.name;
                    format!("channel {channel}: it is upgraded to {name} ({})", edge.field())
                }
                None if chain.first() == Some(&node) => format!("channel {channel}: it is the newest"),
                None => format!("channel {channel}: nothing upgrades it"),
            };
            lines.insert(line);
        }
    }
    Part { key: "upgrades", heading: "upgrades:".to_owned(), lines: lines.into_iter().collect() }
}
