//! Explains why something is installed, chosen or offered, or why not.

use std::collections::{BTreeMap, BTreeSet};

use catalog::chain::EntryEdge;
use schemars::JsonSchema;
use serde::Serialize;

use crate::dependencies;
use crate::error::RequestError;
use crate::explain::explain;
use crate::input::ClusterNamespace;
use crate::place::MemberPlace;
use crate::plan::origin;
use crate::pool::{MemberIndex, Pool};
use crate::request::{self, InstallRequest};
use crate::requirers::Requirers;
use crate::resolver::{self, InclusionReason, Resolution as Resolved, ResolutionRefusal, SolutionItem};

/// The answers for a request, as programs read them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WhyReport<'a> {
    pub package: &'a str,
    /// The version or bundle in question.
    pub version: Option<&'a str>,
    pub answers: &'a [ReasonPart],
}

/// A heading, and lines below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReasonPart {
    /// The key of the topic.
    #[serde(rename = "about")]
    pub key: &'static str,
    /// The short answer.
    #[serde(rename = "summary")]
    pub heading: String,
    /// The details.
    #[serde(rename = "details")]
    pub lines: Vec<String>,
}

/// Answers for a request: a package, a channel of it, or a version.
///
/// # Errors
/// Fails when nothing matches, and lists what exists.
pub fn why(
    pool: &Pool<'_>,
    requirers: &Requirers<'_>,
    request: &InstallRequest,
) -> Result<Vec<ReasonPart>, RequestError> {
    match &request.version {
        None => of_package(pool, requirers, request),
        Some(_) => of_version(pool, request),
    }
}

/// Answers for a package, or a channel of it.
fn of_package(
    pool: &Pool<'_>,
    requirers: &Requirers<'_>,
    request: &InstallRequest,
) -> Result<Vec<ReasonPart>, RequestError> {
    let in_channel =
        |node: &&MemberIndex| request.channel.as_ref().is_none_or(|name| *name == pool.member(**node).channel);
    let nodes: Vec<MemberIndex> = pool.of_package(&request.package).iter().filter(in_channel).copied().collect();
    if nodes.is_empty() {
        return Err(request.unknown(pool));
    }
    let mut parts = vec![channels(pool, request, &nodes)];
    parts.extend(messages(pool, &nodes));
    let mut state = ClusterNamespace::default();
    request::subscribe(request, pool, &mut state)?;
    parts.push(installed(pool, request, &state));
    parts.push(required_by(requirers, request, &nodes));
    Ok(parts)
}

fn channels(pool: &Pool<'_>, request: &InstallRequest, nodes: &[MemberIndex]) -> ReasonPart {
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
    let heading = format!("channels of {}:", request.package);
    ReasonPart { key: "channels", heading, lines: lines.into_values().collect() }
}

/// Reports the deprecation messages of a package, its channels and bundles.
fn messages(pool: &Pool<'_>, nodes: &[MemberIndex]) -> Option<ReasonPart> {
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
    (!lines.is_empty()).then(|| ReasonPart { key: "deprecations", heading, lines: lines.into_iter().collect() })
}

/// Reports the result of a new installation.
fn installed(pool: &Pool<'_>, request: &InstallRequest, state: &ClusterNamespace) -> ReasonPart {
    let package = &request.package;
    let part = |heading, lines| ReasonPart { key: "install", heading, lines };
    match resolver::resolve(pool, state) {
        Resolved::Solved(chosen) => {
            let mut heading = String::new();
            let mut lines = Vec::new();
            for chosen in chosen {
                let SolutionItem::Member(node) = chosen.item else { continue };
                let name = &pool.member(node).bundle.name;
                if chosen.reasons.contains(&InclusionReason::Subscription(0)) {
                    heading = format!("a new installation gets {name} ({})", origin(pool, node));
                    lines.extend(passed_over(pool, node));
                    continue;
                }
                lines.push(format!("with {name} ({})", origin(pool, node)));
                for reason in &chosen.reasons {
                    if let InclusionReason::Needed { by, need } = reason {
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
        Resolved::Error(refusal @ ResolutionRefusal::GaveUp) => part(refusal.said(), Vec::new()),
        Resolved::Error(refusal) => part(format!("{package} cannot be installed"), vec![refusal.said()]),
    }
}

/// Explains why newer bundles on the chain are passed over.
fn passed_over(pool: &Pool<'_>, node: MemberIndex) -> Vec<String> {
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

/// Explains why a bundle cannot be installed, in one line.
fn cannot(pool: &Pool<'_>, node: MemberIndex) -> Option<String> {
    let (reason, hints) = dependencies::why_not(pool, node)?;
    let hints: Vec<&str> = hints.iter().map(|hint| hint.trim()).collect();
    Some(if hints.is_empty() { reason } else { format!("{reason}; {}", hints.join("; ")) })
}

/// Reports the reverse dependencies of a package.
fn required_by(requirers: &Requirers<'_>, request: &InstallRequest, nodes: &[MemberIndex]) -> ReasonPart {
    let lines = requirers.of_package(&request.package, nodes);
    let heading = match lines.is_empty() {
        true => format!("nothing here requires {}", request.package),
        false => format!("{} meets what others require:", request.package),
    };
    ReasonPart { key: "required", heading, lines }
}

/// Answers for one version.
fn of_version(pool: &Pool<'_>, request: &InstallRequest) -> Result<Vec<ReasonPart>, RequestError> {
    let nodes = request.members(pool);
    let Some(&first) = nodes.first() else { return Err(request.unknown(pool)) };
    let bundle = pool.member(first).bundle;
    let name = &bundle.name;
    let mut parts = Vec::new();
    let mut places = Vec::new();
    let impossible = cannot(pool, first);
    for &node in &nodes {
        let member = pool.member(node);
        let source = &pool.sources[member.source].name;
        let place = match MemberPlace::of(pool, node) {
            MemberPlace::Head if impossible.is_some() => "the head".to_owned(),
            MemberPlace::Head => "the head: new installations get it".to_owned(),
            MemberPlace::Below(1) => "directly below the head".to_owned(),
            MemberPlace::Below(number) => format!("{number} below the head"),
            MemberPlace::Skipped(by) => {
                format!(
                    "skipped by {}: not offered; a Subscription with startingCSV {name} still gets it",
                    by.join(", ")
                )
            }
            MemberPlace::Unreachable => format!(
                "not on the chain, since 'replaces' does not lead to it from the head: not offered; a Subscription \
                 with startingCSV {name} still gets it"
            ),
            MemberPlace::Broken(error) => error,
        };
        places.push(format!("channel {} of {source}: {place}", member.channel));
    }
    parts.push(ReasonPart { key: "place", heading: format!("{name}:"), lines: places });
    parts.extend(messages(pool, &nodes));
    parts.push(match impossible {
        None if bundle.facts.needs.is_empty() => ReasonPart {
            key: "install",
            heading: "it can be installed; it requires nothing".to_owned(),
            lines: Vec::new(),
        },
        None => {
            let needs = bundle.facts.needs.iter().map(|requirement| met(pool, first, &requirement.need));
            let lines: BTreeSet<String> = needs.collect();
            let heading = "it can be installed, with what it requires:".to_owned();
            ReasonPart { key: "install", heading, lines: lines.into_iter().collect() }
        }
        Some(reason) => {
            ReasonPart { key: "install", heading: "it cannot be installed:".to_owned(), lines: vec![reason] }
        }
    });
    parts.push(edges(pool, &nodes));
    Ok(parts)
}

/// Describes the bundle that meets a requirement.
fn met(pool: &Pool<'_>, node: MemberIndex, need: &catalog::needs::Need) -> String {
    match &*pool.candidates(need, Some(pool.member(node).source)) {
        Ok(found) => match found.first() {
            Some(&first) => format!("{need}: {} ({})", pool.member(first).bundle.name, origin(pool, first)),
            None => format!("{need}: it meets that itself"),
        },
        Err(error) => error.to_string(),
    }
}

/// Reports the upgrade edges to and from a bundle.
fn edges(pool: &Pool<'_>, nodes: &[MemberIndex]) -> ReasonPart {
    let mut lines = BTreeSet::new();
    for &node in nodes {
        let member = pool.member(node);
        let (bundle, entry, channel) = (member.bundle, member.entry, member.channel);
        if MemberPlace::of(pool, node).is_on_chain() {
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
                let edge = EntryEdge::between(pool.member(other).entry, &bundle.name, bundle.version.as_ref())?;
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
    ReasonPart { key: "upgrades", heading: "upgrades:".to_owned(), lines: lines.into_iter().collect() }
}
