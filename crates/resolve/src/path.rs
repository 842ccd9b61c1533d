//! The upgrade path of a cluster from one version to the newest, step by step.

use std::collections::HashSet;

use catalog::chain::EntryEdge;

use crate::explain::explain;
use crate::input::{CandidateBundle, ClusterNamespace, NamespaceSubscription};
use crate::place::MemberPlace;
use crate::pool::{MemberIndex, Pool};
use crate::resolver::{Chosen, InclusionReason, Resolution, ResolutionRefusal, SolutionItem, bundle, edge, resolve};

/// The start of a path.
#[derive(Debug, Clone)]
pub struct Start<'a> {
    /// The catalog.
    pub source: usize,
    pub package: &'a str,
    /// The channel; all of them if unset.
    pub channel: Option<&'a str>,
    /// The installed bundle.
    pub from: CandidateBundle,
    /// The target, if it is not the newest.
    pub to: Option<&'a str>,
}

/// The steps, and their end.
#[derive(Debug)]
pub struct V0Path {
    /// The steps in order.
    pub steps: Vec<V0Step>,
    /// Why it ends.
    pub end: V0End,
}

/// One resolution that changes the namespace.
#[derive(Debug)]
pub struct V0Step {
    /// The bundle that is installed after it.
    pub to: MemberIndex,
    /// The upgrade edge.
    pub edge: EntryEdge,
    /// The other bundles that are installed or upgraded with it.
    pub companions: Vec<Companion>,
}

/// A bundle that is installed or upgraded with another.
#[derive(Debug)]
pub struct Companion {
    /// The bundle.
    pub node: MemberIndex,
    /// The bundle that it replaces.
    pub replaces: Option<String>,
    /// The requirements that it meets, with the bundles that have them.
    pub needed: Vec<String>,
}

/// The end of a path.
#[derive(Debug)]
pub enum V0End {
    /// There is no newer bundle.
    Latest,
    /// The target is reached.
    Reached,
    /// There is a newer bundle, but no edge leads to it; the lines explain why.
    Stuck(Vec<String>),
    /// The resolution fails; the message, and the lines that explain it.
    Blocked(ResolutionRefusal, Vec<String>),
}

/// Follows the upgrades of a package.
pub fn path(pool: &Pool<'_>, start: &Start<'_>) -> V0Path {
    let source = &pool.sources[start.source];
    let mut state =
        ClusterNamespace { installed: vec![start.from.clone()], subscriptions: vec![subscription(pool, start)] };
    state.installed.extend(dependencies(pool, start, &start.from.name));
    subscribe(pool, &mut state);
    let mut steps: Vec<V0Step> = Vec::new();
    let mut seen: HashSet<String> = HashSet::new();
    loop {
        let current = state.subscriptions[0].installed.clone().unwrap_or_default();
        if start.to == Some(current.as_str()) {
            return V0Path { steps, end: V0End::Reached };
        }
        if !seen.insert(current.clone()) {
            return V0Path { steps, end: V0End::Stuck(vec![format!("the upgrades lead back to {current}")]) };
        }
        let chosen = match resolve(pool, &state) {
            Resolution::Solved(chosen) => chosen,
            Resolution::Unsatisfiable(conflict) => {
                let lines = explain(pool, &state, &conflict);
                return V0Path { steps, end: V0End::Blocked(ResolutionRefusal::Olm(conflict.message()), lines) };
            }
            Resolution::Error(refusal) => return V0Path { steps, end: V0End::Blocked(refusal, Vec::new()) },
        };
        let main = chosen.iter().find(|chosen| chosen.reasons.contains(&InclusionReason::Subscription(0)));
        let to = match main.map(|chosen| (chosen.item, edge(pool, &state, chosen))) {
            Some((SolutionItem::Member(node), Some(edge))) if pool.member(node).bundle.name != current => {
                Some((node, edge))
            }
            _ => None,
        };
        let Some((to, edge)) = to else {
            let end = why_no_further(pool, &state, start, source.name.as_str(), &current);
            return V0Path { steps, end };
        };
        steps.push(V0Step { to, edge, companions: companions(pool, &state, &chosen, to) });
        state = apply(pool, &state, &chosen);
    }
}

/// Follows the edges of a channel from the installed bundle to the newest, ignoring dependencies: the path if other
/// operators change too.
pub fn by_edges(pool: &Pool<'_>, start: &Start<'_>) -> Vec<MemberIndex> {
    let channels = pool.channels_of(start.source, start.package, start.channel);
    let (mut name, mut version) = (start.from.name.as_str(), start.from.version.as_ref());
    let (mut way, mut seen) = (Vec::new(), HashSet::from([name]));
    loop {
        // As clusters choose: among the targets of edges, the one nearest to the head.
        let targets = channels.iter().flat_map(|&channel| pool.upgrades(channel, name, version).unwrap_or_default());
        let known = targets.filter(|&node| {
            let bundle = pool.member(node).bundle;
            bundle.package == start.package && !seen.contains(bundle.name.as_str())
        });
        let next = known.filter_map(|node| Some((pool.below_head(node)?, node))).min();
        let Some((_, node)) = next else { return way };
        let bundle = pool.member(node).bundle;
        (name, version) = (bundle.name.as_str(), bundle.version.as_ref());
        seen.insert(name);
        way.push(node);
    }
}

fn subscription(pool: &Pool<'_>, start: &Start<'_>) -> NamespaceSubscription {
    let source = &pool.sources[start.source];
    NamespaceSubscription {
        name: start.package.to_owned(),
        package: start.package.to_owned(),
        channel: start.channel.map(str::to_owned),
        starting_csv: None,
        installed: Some(start.from.name.clone()),
        source: (source.name.clone(), source.namespace.clone()),
    }
}

/// Returns the bundles that are installed as dependencies, as far as the catalogs show.
fn dependencies(pool: &Pool<'_>, start: &Start<'_>, name: &str) -> Vec<CandidateBundle> {
    let request = NamespaceSubscription {
        starting_csv: Some(name.to_owned()),
        installed: None,
        channel: None,
        ..subscription(pool, start)
    };
    let state = ClusterNamespace { installed: Vec::new(), subscriptions: vec![request] };
    match resolve(pool, &state) {
        Resolution::Solved(chosen) => {
            let bundles = chosen.iter().map(|chosen| bundle(pool, &state, chosen.item));
            bundles.filter(|bundle| bundle.name != name).cloned().collect()
        }
        _ => Vec::new(),
    }
}

/// Gives each installed bundle the Subscription that a cluster creates for dependencies.
fn subscribe(pool: &Pool<'_>, state: &mut ClusterNamespace) {
    for csv in &state.installed {
        if state.subscriptions.iter().any(|request| request.installed.as_deref() == Some(csv.name.as_str())) {
            continue;
        }
        let mut nodes = pool.of_package(&csv.package).iter().copied();
        let Some(node) = nodes.find(|&node| pool.member(node).bundle.name == csv.name) else { continue };
        state.subscriptions.push(dependency_subscription(pool, node));
    }
}

/// Returns the Subscription that a cluster creates for a dependency.
fn dependency_subscription(pool: &Pool<'_>, node: MemberIndex) -> NamespaceSubscription {
    let member = pool.member(node);
    let source = &pool.sources[member.source];
    let (package, channel) = (&member.bundle.package, member.channel);
    NamespaceSubscription {
        name: format!("{package}-{channel}-{}-{}", source.name, source.namespace),
        package: package.clone(),
        channel: Some(channel.to_owned()),
        starting_csv: Some(member.bundle.name.clone()),
        installed: Some(member.bundle.name.clone()),
        source: (source.name.clone(), source.namespace.clone()),
    }
}

fn companions(pool: &Pool<'_>, state: &ClusterNamespace, chosen: &[Chosen], main: MemberIndex) -> Vec<Companion> {
    let mut companions = Vec::new();
    for chosen in chosen {
        let SolutionItem::Member(node) = chosen.item else { continue };
        if node == main {
            continue;
        }
        let needed = chosen.reasons.iter().filter_map(|reason| match reason {
            InclusionReason::Needed { by, need } => Some(format!("{} requires {need}", bundle(pool, state, *by).name)),
            _ => None,
        });
        let replaces = chosen.replaces.map(|place| state.installed[place].name.clone());
        companions.push(Companion { node, replaces, needed: needed.collect() });
    }
    companions
}

/// Returns the namespace after a solution is applied.
pub fn apply(pool: &Pool<'_>, state: &ClusterNamespace, chosen: &[Chosen]) -> ClusterNamespace {
    let mut next = ClusterNamespace { installed: Vec::new(), subscriptions: state.subscriptions.clone() };
    for chosen in chosen {
        let new = bundle(pool, state, chosen.item);
        next.installed.push(new.clone());
        let SolutionItem::Member(node) = chosen.item else { continue };
        let mut known = false;
        for reason in &chosen.reasons {
            if let InclusionReason::Subscription(place) = reason {
                next.subscriptions[*place].installed = Some(new.name.clone());
                known = true;
            }
        }
        if !known {
            next.subscriptions.push(dependency_subscription(pool, node));
        }
    }
    next
}

/// Explains why a bundle is not upgraded, if it is not the newest.
fn why_no_further(pool: &Pool<'_>, state: &ClusterNamespace, start: &Start<'_>, source: &str, current: &str) -> V0End {
    let csv = state.installed.iter().find(|csv| csv.name == current);
    let version = csv.and_then(|csv| csv.version.as_ref());
    let groups = pool.of_subscription(start.source, start.package, start.channel);
    let nodes: Vec<MemberIndex> = groups.into_iter().flatten().collect();
    let heads: Vec<MemberIndex> = nodes.iter().copied().filter(|&node| pool.below_head(node) == Some(0)).collect();
    if heads.iter().any(|&node| pool.member(node).bundle.name == current) {
        return V0End::Latest;
    }
    let mut lines = Vec::new();
    let leads = |node: &MemberIndex| EntryEdge::between(pool.member(*node).entry, current, version).is_some();
    for node in nodes.iter().copied().filter(leads) {
        let member = pool.member(node);
        let name = &member.bundle.name;
        if name == current {
            continue;
        }
        if let Some(why) = MemberPlace::of(pool, node).why_not() {
            lines.push(format!("{name} would upgrade {current}, but in channel {} it is {why}", member.channel));
            continue;
        }
        let why = cannot_be(pool, state, start, current, node);
        lines.push(format!("{name} would upgrade {current}, but cannot be installed:"));
        lines.extend(why.into_iter().map(|line| format!("  {line}")));
    }
    if lines.is_empty() {
        let heads: Vec<String> = heads.iter().map(|&node| pool.member(node).bundle.name.clone()).collect();
        let newest = if heads.is_empty() { String::new() } else { format!("; the newest is {}", heads.join(", ")) };
        let channel = start.channel.map(|name| format!(", channel {name}")).unwrap_or_default();
        let place = format!("{}{channel} of {source}", start.package);
        lines.push(format!("in {place} nothing replaces or skips {current} or has it in its skipRange{newest}"));
    }
    V0End::Stuck(lines)
}

/// Explains why a bundle cannot replace another.
fn cannot_be(
    pool: &Pool<'_>,
    state: &ClusterNamespace,
    start: &Start<'_>,
    current: &str,
    node: MemberIndex,
) -> Vec<String> {
    let member = pool.member(node);
    let mut without = state.clone();
    without.installed.retain(|csv| csv.name != current);
    without.subscriptions[0] = NamespaceSubscription {
        starting_csv: Some(member.bundle.name.clone()),
        installed: None,
        channel: Some(member.channel.to_owned()),
        ..subscription(pool, start)
    };
    match resolve(pool, &without) {
        Resolution::Unsatisfiable(conflict) => explain(pool, &without, &conflict),
        Resolution::Error(refusal) => vec![refusal.to_string()],
        Resolution::Solved(_) => vec!["the rest of the namespace is preferred as it is".to_owned()],
    }
}
