//! Reduces a catalog to a selection and its dependencies.

pub mod bounds;
mod channel;
pub mod image_set;
mod needs;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use fbc::range::VersionRange;

use crate::outline::{Outline, OutlineChannel, OutlinePackage};
use crate::refusal::EditRefusal;
use catalog::needs::BundleNeeds;

/// The part of a catalog to keep.
#[derive(Debug, Clone, Default)]
pub struct KeptPart {
    /// The packages; empty keeps all.
    pub packages: Vec<String>,
    /// The channels, each with its package; packages not listed here keep all channels.
    pub channels: Vec<(String, String)>,
    /// The version range of each package; a range without a package applies to all packages without their own.
    pub versions: Vec<(Option<String>, VersionRange)>,
    /// Whether to keep only the newest bundle of each channel.
    pub heads_only: bool,
    /// Whether to keep the dependencies of kept bundles.
    pub dependencies: bool,
    /// The new default channels, each with its package.
    pub default_channels: Vec<(String, String)>,
    /// Whether the channel with the newest head becomes the default if the current default is not kept.
    pub choose_default: bool,
}

/// Facts about bundles, by package and name.
pub type AllFacts = HashMap<(String, String), BundleNeeds>;

/// The kept bundles of each channel of a package.
pub type KeptBundles = BTreeMap<String, BTreeSet<String>>;

/// Removes everything that `selection` does not keep, and returns notes for the user.
///
/// # Errors
/// Refuses if a selected item does not exist, or if the default channel would be ambiguous.
pub fn filter(outline: &mut Outline, selection: &KeptPart, facts: &AllFacts) -> Result<Vec<String>, EditRefusal> {
    let mut notes = Vec::new();
    check_names(outline, selection)?;
    let mut kept: BTreeMap<String, KeptBundles> = BTreeMap::new();
    for (name, package) in &outline.packages {
        if selection.selects(name) {
            let channels = select(name, package, selection);
            if channels.is_empty() {
                // A user who names a package expects to get it.
                if selection.packages.contains(name) || selection.range(name).is_some_and(|(named, _)| named) {
                    return Err(EditRefusal::new(format!("no bundle of package {name:?} is in the version range"))
                        .help("widen its range, or remove the package from the selection"));
                }
                notes.push(format!("package {name:?} has no bundle in the version range and is removed"));
                continue;
            }
            kept.insert(name.clone(), channels);
        }
    }
    if selection.dependencies {
        let unmet = needs::add(outline, selection, facts, &mut kept, &mut notes);
        notes.extend(unmet.iter().map(ToString::to_string));
    }
    outline.packages.retain(|name, _| kept.contains_key(name));
    let mut undecided = Vec::new();
    for (name, package) in &mut outline.packages {
        let Some(channels) = kept.get(name) else { continue };
        package.channels.retain(|channel, _| channels.contains_key(channel));
        for (channel, members) in &mut package.channels {
            let cut = cut(name, channel, members, channels)?;
            notes.extend(channel::cut(name, channel, members, cut, &package.bundles));
        }
        package.drop_unlisted();
        undecided.extend(settle_default(name, package, selection, &mut notes)?);
    }
    if !undecided.is_empty() {
        return Err(EditRefusal::new(format!("default channels would be removed:\n  {}", undecided.join("\n  "))).help(
            "set others with --default-channel PACKAGE/CHANNEL, or use --choose-default for those with the newest heads",
        ));
    }
    Ok(notes)
}

fn cut<'a>(
    package: &str,
    channel: &str,
    members: &OutlineChannel,
    kept: &'a KeptBundles,
) -> Result<&'a BTreeSet<String>, EditRefusal> {
    kept.get(channel).filter(|_| members.heads().len() == 1).ok_or_else(|| {
        EditRefusal::new(format!("channel {channel:?} of package {package:?} has no single head"))
            .help("fix it first; 'opm validate' shows what is wrong")
    })
}

impl KeptPart {
    /// Returns whether a package is selected, rather than kept as a dependency at most.
    fn selects(&self, package: &str) -> bool {
        self.packages.is_empty() && self.channels.is_empty()
            || self.packages.iter().any(|name| name == package)
            || self.names_channels(package)
    }

    /// Returns whether a channel is selected, rather than kept as a dependency at most.
    pub(crate) fn selects_channel(&self, package: &str, channel: &str) -> bool {
        let named = self.channels.iter().any(|(of, name)| of == package && name == channel);
        named || self.selects(package) && !self.names_channels(package)
    }

    /// Returns whether only some channels of a package are selected.
    fn names_channels(&self, package: &str) -> bool {
        self.channels.iter().any(|(of, _)| of == package)
    }

    /// Returns the range of a package, and whether it is specific to that package.
    fn range(&self, package: &str) -> Option<(bool, &VersionRange)> {
        let own = self.versions.iter().find(|(name, _)| name.as_deref() == Some(package));
        let (name, range) = own.or_else(|| self.versions.iter().find(|(name, _)| name.is_none()))?;
        Some((name.is_some(), range))
    }
}

fn check_names(outline: &Outline, selection: &KeptPart) -> Result<(), EditRefusal> {
    let ranged = selection.versions.iter().filter_map(|(name, _)| name.as_ref());
    for name in selection.packages.iter().chain(ranged) {
        outline.package(name)?;
    }
    for (package, channel) in selection.channels.iter().chain(&selection.default_channels) {
        let found = outline.package(package)?;
        if !found.channels.contains_key(channel) {
            return Err(found.no_channel(package, channel));
        }
    }
    Ok(())
}

/// Returns the selected bundles of a package.
fn select(name: &str, package: &OutlinePackage, selection: &KeptPart) -> KeptBundles {
    let named: HashSet<&str> =
        selection.channels.iter().filter(|(of, _)| of == name).map(|(_, channel)| channel.as_str()).collect();
    let range = selection.range(name).map(|(_, range)| range);
    let channels = package.channels.iter().filter(|(channel, _)| named.is_empty() || named.contains(channel.as_str()));
    let kept = channels.map(|(channel, members)| {
        let in_range = |entry: &str| match range {
            None => true,
            Some(range) => {
                let version = package.bundles.get(entry).and_then(|bundle| bundle.version.as_ref());
                version.is_some_and(|(version, _)| range.contains(version))
            }
        };
        let bundles = match selection.heads_only {
            false => members.entries.iter().map(|entry| &*entry.name).filter(|name| in_range(name)).collect(),
            true => newest(package, members, in_range),
        };
        (channel.clone(), bundles.into_iter().map(str::to_owned).collect())
    });
    kept.filter(|(_, bundles): &(String, BTreeSet<String>)| !bundles.is_empty()).collect()
}

/// Returns the newest bundle of a channel that `fits`: the first on the chain, or else the highest version.
fn newest<'a>(package: &OutlinePackage, channel: &'a OutlineChannel, fits: impl Fn(&str) -> bool) -> Vec<&'a str> {
    let heads = channel.heads();
    let on_chain = heads.first().and_then(|head| channel.chain(head).into_iter().find(|name| fits(name)));
    let highest = || {
        let fitting = channel.entries.iter().map(|entry| &*entry.name).filter(|name| fits(name));
        fitting.max_by(|a, b| package.cmp_versions(a, b).unwrap_or(std::cmp::Ordering::Equal))
    };
    on_chain.or_else(highest).into_iter().collect()
}

/// Ensures that the default channel is a kept one, and reports if the choice is ambiguous.
fn settle_default(
    name: &str,
    package: &mut OutlinePackage,
    selection: &KeptPart,
    notes: &mut Vec<String>,
) -> Result<Option<String>, EditRefusal> {
    let names: Vec<&str> = package.channels.keys().map(String::as_str).collect();
    let chosen = selection.default_channels.iter().find(|(of, _)| of == name).map(|(_, channel)| channel.clone());
    let default = match chosen {
        Some(chosen) if package.channels.contains_key(&chosen) => chosen,
        Some(chosen) => {
            return Err(EditRefusal::new(format!("channel {chosen:?} of package {name:?} is not kept"))
                .help(format!("kept channels: {}", names.join(", "))));
        }
        None if package.channels.contains_key(&package.default_channel) => return Ok(None),
        None => match names.as_slice() {
            [only] => {
                notes.push(format!("package {name:?}: {only:?} is the only remaining channel and becomes the default"));
                (*only).to_owned()
            }
            _ if selection.choose_default => {
                let newest = newest_channel(package);
                notes.push(format!("package {name:?}: {newest:?} has the newest head and becomes the default"));
                newest
            }
            _ => {
                return Ok(Some(format!(
                    "{name}: {:?}; remaining channels: {}",
                    package.default_channel,
                    names.join(", ")
                )));
            }
        },
    };
    package.default_channel = default;
    Ok(None)
}

/// Returns the channel with the newest head; ties go to the first by name.
fn newest_channel(package: &OutlinePackage) -> String {
    let head = |channel: &str| package.channels.get(channel).and_then(|it| it.heads().first().copied());
    let newer = |a: &str, b: &str| match (head(a), head(b)) {
        (Some(a), Some(b)) => package.cmp_versions(a, b).is_some_and(std::cmp::Ordering::is_gt),
        _ => false,
    };
    let mut names = package.channels.keys();
    let first = names.next().cloned().unwrap_or_default();
    names.fold(first, |best, name| if newer(name, &best) { name.clone() } else { best })
}

#[cfg(test)]
mod tests;
