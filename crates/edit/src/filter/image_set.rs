//! Reduces a catalog to the selection of an ImageSetConfiguration.
//!
//! The rules are those of the tool that defines the file format: heads by default, ranges along `replaces`. Edges stay
//! unchanged unless bridging is requested.

mod dependencies;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::bounds::Bounds;
use super::{AllFacts, KeptBundles, KeptPart, channel, settle_default};
use crate::outline::{Outline, OutlineChannel, OutlinePackage, suggestions};
use crate::refusal::EditRefusal;

pub use dependencies::unmet;

/// The selection from one catalog.
#[derive(Debug, Clone, Default)]
pub struct ImageSetRequest {
    /// Keep every bundle of the selected channels, not only heads.
    pub full: bool,
    /// The packages; empty keeps all.
    pub packages: Vec<PackageRequest>,
    /// Ignore names that the catalog does not contain.
    pub ignore_unknown: bool,
    /// Make the channel with the newest head the default if the default channel is removed.
    pub choose_default: bool,
    /// Keep the dependencies of kept bundles.
    pub dependencies: bool,
    /// Make the newest kept bundle of a channel skip entries that lost their upgrade path.
    pub bridge: bool,
}

/// The selection from a package.
#[derive(Debug, Clone, Default)]
pub struct PackageRequest {
    pub name: String,
    /// The new default channel.
    pub default_channel: Option<String>,
    /// The versions, for channels without their own bounds.
    pub bounds: Bounds,
    /// The channels; empty keeps all.
    pub channels: Vec<(String, Bounds)>,
    /// Exactly these bundles, by channel, for a selection made elsewhere.
    pub exactly: Option<KeptBundles>,
}

/// One of the catalogs in an ImageSetConfiguration.
pub struct ImageSetCatalog<'a> {
    /// The catalog; reduced to the selection afterwards.
    pub outline: &'a mut Outline,
    /// The selection; `None` keeps the whole catalog unchanged.
    pub request: Option<&'a ImageSetRequest>,
    /// Facts about the dependencies of its bundles.
    pub facts: &'a AllFacts,
}

/// The bundles of a catalog kept so far.
struct Choice {
    kept: BTreeMap<String, KeptBundles>,
    notes: Vec<String>,
}

/// Removes everything that is not selected, and returns notes for the user.
///
/// # Errors
/// Refuses with all reasons if a selected item does not exist, a range is empty, or the default channel would be
/// ambiguous.
pub fn choose(
    outline: &mut Outline,
    request: &ImageSetRequest,
    facts: &AllFacts,
) -> Result<Vec<String>, Vec<EditRefusal>> {
    let mut side = [ImageSetCatalog { outline, request: Some(request), facts }];
    choose_all(&mut side).pop().unwrap_or_else(|| Ok(Vec::new()))
}

/// Does the same for several catalogs that are on one cluster, so that bundles can depend on those of another catalog.
pub fn choose_all(sides: &mut [ImageSetCatalog<'_>]) -> Vec<Result<Vec<String>, Vec<EditRefusal>>> {
    let started: Vec<Result<Choice, Vec<EditRefusal>>> = sides
        .iter()
        .map(|side| match side.request {
            Some(request) => start(side.outline, request),
            None => Ok(Choice { kept: everything(side.outline), notes: Vec::new() }),
        })
        .collect();
    // After a refusal there is no result, so dependencies need no resolution.
    if started.iter().any(Result::is_err) {
        return started.into_iter().map(|outcome| outcome.map(|choice| choice.notes)).collect();
    }
    let mut choices: Vec<Choice> = started.into_iter().flatten().collect();
    dependencies::dependencies(sides, &mut choices);
    let finished = sides.iter_mut().zip(choices).map(|(side, choice)| match side.request {
        Some(request) => finish(side.outline, request, choice),
        None => Ok(Vec::new()),
    });
    finished.collect()
}

/// Returns all bundles of a catalog.
fn everything(outline: &Outline) -> BTreeMap<String, KeptBundles> {
    let packages = outline.packages.iter().map(|(name, package)| {
        let channels = package.channels.iter().map(|(name, channel)| {
            (name.clone(), channel.entries.iter().map(|entry| entry.name.to_string()).collect())
        });
        (name.clone(), channels.collect())
    });
    packages.collect()
}

/// Selects the requested bundles.
fn start(outline: &Outline, request: &ImageSetRequest) -> Result<Choice, Vec<EditRefusal>> {
    let (mut notes, mut refused) = (Vec::new(), Vec::new());
    let mut kept: BTreeMap<String, KeptBundles> = BTreeMap::new();
    let any = PackageRequest::default();
    if request.packages.is_empty() {
        for (name, package) in &outline.packages {
            match select(name, package, &any, request, &mut notes) {
                Ok(channels) => drop(kept.insert(name.clone(), channels)),
                Err(refusals) => refused.extend(refusals),
            }
        }
    }
    for wanted in &request.packages {
        let Some(package) = outline.packages.get(&wanted.name) else {
            let message = format!("the catalog has no package {:?}", wanted.name);
            match request.ignore_unknown {
                true => notes.push(format!("{message}; ignored")),
                false => {
                    refused.push(EditRefusal::new(message).help(suggestions(&wanted.name, outline.packages.keys())))
                }
            }
            continue;
        };
        match select(&wanted.name, package, wanted, request, &mut notes) {
            Ok(channels) => drop(kept.insert(wanted.name.clone(), channels)),
            Err(refusals) => refused.extend(refusals),
        }
    }
    if refused.is_empty() && kept.is_empty() {
        refused.push(EditRefusal::new("the selection leaves no bundle of the catalog"));
    }
    if refused.is_empty() { Ok(Choice { kept, notes }) } else { Err(refused) }
}

/// Removes all other bundles.
fn finish(outline: &mut Outline, request: &ImageSetRequest, choice: Choice) -> Result<Vec<String>, Vec<EditRefusal>> {
    let Choice { kept, mut notes } = choice;
    let mut refused = Vec::new();
    outline.packages.retain(|name, _| kept.contains_key(name));
    for (name, package) in &mut outline.packages {
        let Some(channels) = kept.get(name) else { continue };
        let wanted = request.packages.iter().find(|wanted| wanted.name == *name);
        package.channels.retain(|channel, _| channels.contains_key(channel));
        for (channel, members) in &mut package.channels {
            notes.extend(cut(name, channel, members, &channels[channel], &package.bundles, request.bridge));
        }
        package.drop_unlisted();
        let default = wanted.and_then(|wanted| wanted.default_channel.clone());
        let settling = KeptPart {
            default_channels: default.into_iter().map(|channel| (name.clone(), channel)).collect(),
            choose_default: request.choose_default,
            ..KeptPart::default()
        };
        match settle_default(name, package, &settling, &mut notes) {
            Ok(None) => {}
            Ok(Some(undecided)) => refused.push(
                EditRefusal::new(format!("the selection removes the default channel of package {undecided}")).help(
                    "set defaultChannel in the file, or use --choose-default for the channel with the newest head",
                ),
            ),
            Err(refusal) => refused.push(refusal),
        }
    }
    if refused.is_empty() { Ok(notes) } else { Err(refused) }
}

/// Describes the dependencies of kept bundles that are not kept.
fn missing_dependencies(kept: &BTreeMap<String, KeptBundles>, whole: &BTreeMap<String, KeptBundles>) -> Vec<String> {
    let mut notes = Vec::new();
    for (package, channels) in whole {
        let has = |channel: &String, bundle: &String| {
            kept.get(package).and_then(|own| own.get(channel)).is_some_and(|own| own.contains(bundle))
        };
        let missing = channels.iter().flat_map(|(channel, bundles)| bundles.iter().map(move |it| (channel, it)));
        let missing: BTreeSet<&String> =
            missing.filter(|(channel, bundle)| !has(channel, bundle)).map(|(_, bundle)| bundle).collect();
        if !missing.is_empty() {
            let names: Vec<&str> = missing.into_iter().map(String::as_str).collect();
            notes.push(format!("{package}: other packages need {}, which is not kept", names.join(", ")));
        }
    }
    notes
}

/// Returns the selected bundles of a package, by channel.
fn select(
    name: &str,
    package: &OutlinePackage,
    wanted: &PackageRequest,
    request: &ImageSetRequest,
    notes: &mut Vec<String>,
) -> Result<KeptBundles, Vec<EditRefusal>> {
    let mut refused = Vec::new();
    let unversioned = package.bundles.iter().filter(|(_, bundle)| bundle.version.is_none());
    for (bundle, _) in unversioned {
        refused.push(EditRefusal::new(format!("bundle {bundle:?} of package {name:?} has no valid version")));
    }
    for (channel, _) in wanted.channels.iter().filter(|(channel, _)| !package.channels.contains_key(channel)) {
        let refusal = package.no_channel(name, channel);
        match request.ignore_unknown {
            true => notes.push(format!("{}; ignored", refusal.message)),
            false => refused.push(refusal),
        }
    }
    if let Some(exactly) = &wanted.exactly {
        return if refused.is_empty() { Ok(exactly.clone()) } else { Err(refused) };
    }
    let mut kept = KeptBundles::new();
    let mut ranges: Vec<String> = Vec::new();
    for (channel, members) in &package.channels {
        let named = wanted.channels.iter().find(|(wanted, _)| wanted == channel);
        if named.is_none() && !wanted.channels.is_empty() {
            continue;
        }
        let bounds = match named {
            Some((_, own)) if !own.is_open() => own,
            _ => &wanted.bounds,
        };
        match of_channel(name, channel, package, members, bounds, request.full, notes) {
            Ok(bundles) if bundles.is_empty() => {
                ranges.push(format!("{channel} ({bounds})"));
                notes.push(format!("{name}: channel {channel:?} has no bundle in the range {bounds} and is removed"));
            }
            Ok(bundles) => drop(kept.insert(channel.clone(), bundles)),
            Err(refusal) => refused.push(refusal),
        }
    }
    if kept.is_empty() && refused.is_empty() {
        let message = match ranges.is_empty() {
            true => format!("the selection leaves no bundle of package {name:?}"),
            false => format!("no bundle of package {name:?} is in the range: {}", ranges.join(", ")),
        };
        refused.push(EditRefusal::new(message).help(versions(package)));
    }
    if refused.is_empty() { Ok(kept) } else { Err(refused) }
}

/// Describes the lowest and highest version of a package.
fn versions(package: &OutlinePackage) -> String {
    let mut all: Vec<_> = package.bundles.values().filter_map(|bundle| bundle.version.as_ref()).collect();
    all.sort_by(|(a, _), (b, _)| a.cmp_precedence(b));
    match (all.first(), all.last()) {
        (Some((low, _)), Some((high, _))) => format!("it has versions from {low} to {high}"),
        _ => "it has no bundles".to_owned(),
    }
}

fn of_channel(
    name: &str,
    channel: &str,
    package: &OutlinePackage,
    members: &OutlineChannel,
    bounds: &Bounds,
    full: bool,
    notes: &mut Vec<String>,
) -> Result<BTreeSet<String>, EditRefusal> {
    let heads = members.heads();
    let [head] = heads.as_slice() else {
        return Err(EditRefusal::new(format!("channel {channel:?} of package {name:?} has no single head"))
            .help("'opm validate' shows the problem"));
    };
    if full {
        return Ok(members.entries.iter().map(|entry| entry.name.to_string()).collect());
    }
    if bounds.is_open() {
        return Ok(BTreeSet::from([(*head).to_owned()]));
    }
    let version = |entry: &str| package.bundles.get(entry).and_then(|bundle| bundle.version.as_ref()).map(|it| &it.0);
    if let Some(exact) = bounds.exact() {
        let same = |entry: &str| version(entry).is_some_and(|version| version.cmp_precedence(exact).is_eq());
        let found = members.entries.iter().map(|entry| &*entry.name).filter(|entry| same(entry));
        return Ok(found.map(str::to_owned).collect());
    }
    let fits = |entry: &str| version(entry).is_some_and(|version| bounds.contains(version));
    let kept = in_range(members, head, fits);
    for entry in &kept {
        match version(entry) {
            Some(version) if !bounds.contains(version) => {
                notes.push(format!(
                    "{name}: {entry:?} is kept in channel {channel:?}: it is on the upgrade path between others"
                ));
            }
            Some(version) if bounds.excluded_by_existing_tool(version) => {
                notes.push(format!("{name}: {entry:?} in channel {channel:?} is a pre-release in the range {bounds}"));
            }
            _ => {}
        }
    }
    Ok(kept)
}

/// Walks a channel from its head along `replaces` and keeps the entries that a range selects.
///
/// The count of an entry is the number of distinct matching entries among itself, its skips and all entries below. The
/// new head is the lowest entry with the highest count. All entries from there down to the first with a count of zero
/// are kept, with their matching skips.
fn in_range(channel: &OutlineChannel, head: &str, fits: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let view = channel.view();
    let chain = channel.chain(head);
    let fitting = |entry: &str| view.number(entry).is_some() && fits(entry);
    let skips = |name: &str| -> Vec<&str> {
        view.entry(name).map(|entry| entry.skips.iter().map(|skip| &**skip).collect()).unwrap_or_default()
    };
    let mut seen: HashSet<&str> = HashSet::new();
    let mut counts = vec![0; chain.len()];
    for (number, name) in chain.iter().enumerate().rev() {
        let own = view.entry(name).map_or(&[][..], |entry| &entry.skips);
        seen.extend(own.iter().map(|skip| &**skip).filter(|skip| fitting(skip)));
        if fitting(name) {
            seen.insert(name);
        }
        counts[number] = seen.len();
    }
    let greatest = counts.first().copied().unwrap_or_default();
    let top = counts.iter().rposition(|count| *count == greatest && greatest > 0);
    let tail = counts.iter().position(|count| *count == 0).unwrap_or(chain.len());
    let Some(top) = top else { return BTreeSet::new() };
    let mut kept = BTreeSet::new();
    for name in &chain[top..tail] {
        kept.insert((*name).to_owned());
        kept.extend(skips(name).into_iter().filter(|skip| fitting(skip)).map(str::to_owned));
    }
    kept
}

/// Reduces a channel to the kept entries. Edges stay unchanged unless the result would be invalid or bridging is
/// requested.
fn cut(
    package: &str,
    name: &str,
    members: &mut OutlineChannel,
    kept: &BTreeSet<String>,
    bundles: &BTreeMap<String, crate::outline::OutlineBundle>,
    bridge: bool,
) -> Vec<String> {
    let mut plain = members.clone();
    plain.entries.retain(|entry| kept.contains(&*entry.name));
    let view = plain.view();
    let whole = matches!(view.heads().as_slice(), [head] if view.stranded(*head).is_empty());
    if whole && !bridge {
        *members = plain;
        return Vec::new();
    }
    channel::cut(package, name, members, kept, bundles)
}

#[cfg(test)]
mod tests;
