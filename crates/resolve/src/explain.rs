//! Explains why something cannot be installed.

use std::collections::{BTreeMap, BTreeSet};

use catalog::needs::Need;
use fbc::version::Version;

use crate::input::ClusterNamespace;
use crate::place::MemberPlace;
use crate::pool::{MemberIndex, Pool};
use crate::resolver::{Conflict, ConflictPart, SolutionItem, bundle};
use crate::words::and;

/// The maximum number of names in a list.
const MAX_NAMES: usize = 5;

/// Explains a conflict: a line for each part of it, and indented lines for near misses.
pub fn explain(pool: &Pool<'_>, state: &ClusterNamespace, conflict: &Conflict) -> Vec<String> {
    let mut lines = Vec::new();
    let name = |item: SolutionItem| bundle(pool, state, item).name.clone();
    let mut parts: Vec<&ConflictPart> = conflict.parts.iter().collect();
    // Requests come first.
    parts.sort_by_key(|part| !matches!(part, ConflictPart::NothingFound { .. } | ConflictPart::Subscription { .. }));
    for part in parts {
        match part {
            ConflictPart::NothingFound { subscription, .. } => nothing_found(pool, state, *subscription, &mut lines),
            ConflictPart::Subscription { subscription, candidates } => {
                let request = &state.subscriptions[*subscription];
                let (package, source) = (&request.package, &request.source.0);
                let channel = request.channel.as_ref().map(|name| format!(", channel {name}")).unwrap_or_default();
                match candidates.as_slice() {
                    [] => lines.push(format!("nothing in package {package}{channel} of {source} can be installed")),
                    candidates => {
                        let names: Vec<String> = candidates.iter().map(|&item| name(item)).collect();
                        lines.push(format!("package {package}{channel} of {source} offers {}", few(&names)));
                    }
                }
            }
            ConflictPart::Forbidden(item) => {
                lines.push(format!("{} is never installed: it has the property olm.deprecated", name(*item)));
            }
            ConflictPart::Unmanaged(item) => {
                let name = name(*item);
                lines.push(format!("{name} is installed without a Subscription, so that nothing may take its place"));
            }
            ConflictPart::OnePackage(package, members) => {
                let names: Vec<String> = distinct(members.iter().map(|&item| described(pool, state, item)));
                lines.push(format!("only one bundle of package {package} can be installed: {}", few(&names)));
            }
            ConflictPart::OneProvider([group, version, kind], members) => {
                let names: Vec<String> = distinct(members.iter().map(|&item| described(pool, state, item)));
                lines.push(format!("only one bundle can provide {kind} ({group}/{version}): {}", few(&names)));
            }
            ConflictPart::Replaces(..) | ConflictPart::Need { .. } => {}
        }
    }
    needs(pool, state, conflict, &mut lines);
    lines
}

/// Reports the requirements that cannot be met, once for all bundles with the same requirement.
fn needs(pool: &Pool<'_>, state: &ClusterNamespace, conflict: &Conflict, lines: &mut Vec<String>) {
    let mut by_need: BTreeMap<String, (Vec<String>, &Need, &[SolutionItem])> = BTreeMap::new();
    for part in &conflict.parts {
        let ConflictPart::Need { by, requirement, candidates } = part else { continue };
        let entry = by_need.entry(requirement.need.to_string());
        let known = entry.or_insert_with(|| (Vec::new(), &requirement.need, candidates));
        known.0.push(bundle(pool, state, *by).name.clone());
    }
    for (text, (names, need, candidates)) in by_need {
        let verb = if names.len() == 1 { "requires" } else { "require" };
        lines.push(format!("{} {verb} {text}", few(&distinct(names))));
        if candidates.is_empty() {
            lines.extend(near_misses(pool, need).into_iter().map(|line| format!("  {line}")));
            continue;
        }
        let mut reasons: Vec<String> = Vec::new();
        // At most this many are shown.
        for &item in candidates.iter().take(10 * MAX_NAMES) {
            let own = bundle(pool, state, item);
            let why = conflict.parts.iter().find_map(|part| match part {
                ConflictPart::Forbidden(other) if *other == item => {
                    Some("is never installed (olm.deprecated)".to_owned())
                }
                ConflictPart::Need { by, requirement, .. } if *by == item => {
                    Some(format!("requires {} in its turn", requirement.need))
                }
                ConflictPart::OneProvider([_, _, kind], members) if members.contains(&item) => {
                    Some(format!("provides {kind}, which has another provider"))
                }
                ConflictPart::OnePackage(package, members) if members.contains(&item) => {
                    Some(format!("is not the bundle of package {package} that is installed or wanted"))
                }
                _ => None,
            });
            let why = why.unwrap_or_else(|| "would do, but not with the rest".to_owned());
            reasons.push(format!("{} {why}", own.name));
        }
        let reasons = distinct(reasons);
        let rest = reasons.len().saturating_sub(MAX_NAMES);
        lines.extend(reasons.into_iter().take(MAX_NAMES).map(|line| format!("  {line}")));
        if rest > 0 {
            lines.push(format!("  and {rest} more"));
        }
    }
}

fn nothing_found(pool: &Pool<'_>, state: &ClusterNamespace, subscription: usize, lines: &mut Vec<String>) {
    let request = &state.subscriptions[subscription];
    let (package, (source, _)) = (&request.package, &request.source);
    let Some(number) =
        pool.sources.iter().position(|it| it.name == request.source.0 && it.namespace == request.source.1)
    else {
        let names: Vec<String> = pool.sources.iter().map(|source| source.name.clone()).collect();
        lines.push(format!("there is no catalog {source:?} here, only {}", few(&names)));
        return;
    };
    let here: Vec<MemberIndex> =
        pool.of_package(package).iter().copied().filter(|&node| pool.member(node).source == number).collect();
    if here.is_empty() {
        lines.push(format!("catalog {source} has no package {package:?}"));
        let others: Vec<String> =
            distinct(pool.of_package(package).iter().map(|&node| pool.sources[pool.member(node).source].name.clone()));
        if !others.is_empty() {
            lines.push(format!("  but {} has", few(&others)));
        } else if let Some(stem) = package.split(['-', '.']).next().filter(|stem| stem.len() > 2) {
            let known = pool.sources[number].packages.keys().filter(|name| name.contains(stem)).cloned();
            let alike: BTreeSet<String> = known.collect();
            if !alike.is_empty() {
                lines.push(format!("  but {}", few(&alike.into_iter().collect::<Vec<_>>())));
            }
        }
        return;
    }
    let channel = request.channel.as_deref().unwrap_or_default();
    let in_channel: Vec<MemberIndex> = match &request.channel {
        None => here.clone(),
        Some(name) => here.iter().copied().filter(|&node| pool.member(node).channel == name).collect(),
    };
    if in_channel.is_empty() {
        lines.push(format!("package {package} of catalog {source} has no channel {channel:?}"));
        let channels = distinct(here.iter().map(|&node| pool.member(node).channel.to_owned()));
        lines.push(format!("  its channels are {}", and(&channels)));
        if let Some(old) = &request.installed {
            lines.push(format!("  as long as the Subscription that installed {old} names it, nothing is resolved"));
        }
        return;
    }
    let name = request.starting_csv.as_deref().unwrap_or_default();
    lines.push(format!("package {package} of catalog {source} has no bundle {name:?} there"));
    let names = newest_first(pool, &in_channel);
    lines.push(format!("  there is {}", few(&names)));
}

/// Describes the near misses of a requirement that no bundle meets.
pub(crate) fn near_misses(pool: &Pool<'_>, need: &Need) -> Vec<String> {
    match need {
        Need::Package(package, range) => {
            let nodes = pool.of_package(package);
            if nodes.is_empty() {
                return vec![format!("no catalog here has package {package:?}")];
            }
            let (inside, outside): (Vec<MemberIndex>, Vec<MemberIndex>) = nodes.iter().copied().partition(|&node| {
                pool.member(node).bundle.version.as_ref().is_some_and(|version| range.contains(version))
            });
            let mut lines = not_chosen(pool, &inside);
            let versions = newest_first(pool, &outside);
            if !versions.is_empty() {
                lines.push(format!("not in the range: {}", few(&versions)));
            }
            lines
        }
        Need::Api(api) => {
            let nodes = pool.of_api(api);
            if !nodes.is_empty() {
                return not_chosen(pool, nodes);
            }
            let [group, _, kind] = api;
            let other = pool.members().filter_map(|(_, member)| {
                let same = |api: &&[String; 3]| api[0] == *group && api[2] == *kind;
                let found = member.bundle.facts.provides.iter().find(same)?;
                Some(format!("{} ({})", member.bundle.name, found[1]))
            });
            let other = distinct(other);
            match other.is_empty() {
                true => vec!["no bundle here provides it".to_owned()],
                false => vec![format!("no bundle here provides this version of it; others do: {}", few(&other))],
            }
        }
        Need::Label(label) => vec![format!("no bundle here has the label {label:?}")],
        Need::All(_) => vec!["no single bundle here meets all of it".to_owned()],
        _ => vec!["no bundle here meets it".to_owned()],
    }
}

/// Explains why clusters do not choose bundles that would meet a requirement.
fn not_chosen(pool: &Pool<'_>, nodes: &[MemberIndex]) -> Vec<String> {
    let lines = nodes.iter().filter_map(|&node| {
        let member = pool.member(node);
        let why = MemberPlace::of(pool, node).why_not()?;
        Some(format!("{} would do, but in channel {} it is {why}", member.bundle.name, member.channel))
    });
    let lines = distinct(lines);
    let rest = lines.len().saturating_sub(MAX_NAMES);
    let mut shown: Vec<String> = lines.into_iter().take(MAX_NAMES).collect();
    if rest > 0 {
        shown.push(format!("and {rest} more"));
    }
    shown
}

/// Names an item unambiguously.
fn described(pool: &Pool<'_>, state: &ClusterNamespace, item: SolutionItem) -> String {
    match item {
        SolutionItem::Installed(place) => format!("{} (installed)", state.installed[place].name),
        SolutionItem::Member(node) => pool.member(node).bundle.name.clone(),
    }
}

/// Returns the names of the bundles of members, the newest first.
pub(crate) fn newest_first(pool: &Pool<'_>, nodes: &[MemberIndex]) -> Vec<String> {
    let mut bundles: Vec<(Option<&Version>, &str)> =
        nodes.iter().map(|&node| pool.member(node).bundle).map(|it| (it.version.as_ref(), it.name.as_str())).collect();
    bundles.sort_by(|(a, a_name), (b, b_name)| match (a, b) {
        (Some(a), Some(b)) => b.cmp_precedence(a).then(a_name.cmp(b_name)),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    distinct(bundles.into_iter().map(|(_, name)| name.to_owned()))
}

/// Removes duplicates, keeping the first.
fn distinct(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.into_iter().filter(|name| seen.insert(name.clone())).collect()
}

/// Lists the first names, and the number of others.
pub(crate) fn few(names: &[String]) -> String {
    match names.len().checked_sub(MAX_NAMES) {
        None | Some(0 | 1) => and(names),
        Some(rest) => format!("{} and {rest} more", names[..MAX_NAMES].join(", ")),
    }
}
