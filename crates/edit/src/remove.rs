//! Removes bundles, channels and packages from a catalog and reconnects the edges around them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use fbc::blob::ChannelEntry;

use crate::deprecate::DeprecationTarget;
use crate::outline::{Outline, OutlineBundle, OutlineChannel, OutlinePackage, cmp_versions};
use crate::refusal::EditRefusal;
use crate::set_edge::add;

/// How to remove something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// The only channel to remove a bundle from.
    pub channel: Option<String>,
    /// The new default channel, if the current one is removed.
    pub default_channel: Option<String>,
    /// Whether to remove a bundle without a trace, so that clusters that run it get no upgrade.
    pub forget: bool,
}

/// Removes a target and returns notes about further changes.
///
/// See [`Removal`] for the options.
///
/// # Errors
/// Refuses if the target does not exist, or if the package would be invalid without it.
pub fn remove(
    outline: &mut Outline,
    target: &DeprecationTarget,
    removal: &Removal,
) -> Result<Vec<String>, EditRefusal> {
    let (channel, default_channel) = (removal.channel.as_deref(), removal.default_channel.as_deref());
    let mut notes = Vec::new();
    match target {
        DeprecationTarget::Package(package) => {
            outline.package(package)?;
            outline.packages.remove(package);
            return Ok(notes);
        }
        DeprecationTarget::Channel { package, channel } => {
            let found = outline.package_mut(package)?;
            if found.channels.remove(channel).is_none() {
                return Err(found.no_channel(package, channel));
            }
            finish(outline, package, default_channel, &mut notes)?;
        }
        DeprecationTarget::Bundle { package, bundle } => {
            let package = outline.package_of(package.as_deref(), bundle)?;
            let found = outline.package_mut(&package)?;
            if let Some(name) = channel {
                let only = found.channel_mut(&package, name)?;
                if only.entry(bundle).is_none() {
                    return Err(EditRefusal::new(format!("channel {name:?} has no entry {bundle:?}")));
                }
            }
            let OutlinePackage { channels, bundles, .. } = &mut *found;
            for (name, members) in channels {
                if channel.is_none_or(|only| only == name) {
                    remove_entry(members, bundles, bundle, removal.forget);
                }
            }
            found.channels.retain(|name, members| {
                let stays = !members.entries.is_empty();
                if !stays {
                    notes.push(format!("removed channel {name:?} too, which had no other entry"));
                }
                stays
            });
            finish(outline, &package, default_channel, &mut notes)?;
            notes.retain(|note| !note.starts_with(&format!("bundle {bundle:?} ")) || channel.is_some());
        }
    }
    Ok(notes)
}

/// Removes bundles that are in no channel, and updates the default channel.
fn finish(
    outline: &mut Outline,
    name: &str,
    default_channel: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<(), EditRefusal> {
    let package = outline.package_mut(name)?;
    if package.channels.is_empty() {
        return Err(EditRefusal::new(format!("package {name:?} would be empty"))
            .help(format!("to remove the package: opm edit remove CATALOG --package {name}")));
    }
    for bundle in package.drop_unlisted() {
        notes.push(format!("bundle {bundle:?} is no longer in any channel and is removed too"));
    }
    if let Some(default_channel) = default_channel {
        if !package.channels.contains_key(default_channel) {
            return Err(package.no_channel(name, default_channel));
        }
        package.default_channel = default_channel.to_owned();
    }
    if !package.channels.contains_key(&package.default_channel) {
        let names: Vec<&str> = package.channels.keys().map(String::as_str).collect();
        return Err(EditRefusal::new(format!("the default channel of package {name:?} would be removed"))
            .help(format!("set another one with --default-channel: {}", names.join(", "))));
    }
    Ok(())
}

/// Removes an entry from a channel and reconnects the edges around it.
///
/// Its successor inherits its `replaces` and `skips` and skips the entry itself. Clusters that run it, or would have
/// upgraded to it, can still upgrade.
///
/// With `forget`, no edge refers to it afterwards: its successor replaces the newest entry that it replaced or skipped.
///
/// Entries of the channel that only the removed one led to are replaced or skipped by the newest head.
fn remove_entry(channel: &mut OutlineChannel, bundles: &BTreeMap<String, OutlineBundle>, bundle: &str, forget: bool) {
    if forget {
        channel.entries.iter_mut().for_each(|entry| entry.skips.retain(|skip| **skip != *bundle));
    }
    let Some(at) = channel.entries.iter().position(|entry| &*entry.name == bundle) else { return };
    let removed = channel.entries.remove(at);
    let compare = |a: &str, b: &str| cmp_versions(bundles, a, b).unwrap_or(Ordering::Equal);
    let replaces = if forget { predecessor(channel, &removed, compare) } else { removed.replaces.clone() };
    for entry in channel.entries.iter_mut().filter(|entry| *entry.replaces == *bundle) {
        entry.replaces = if replaces == entry.name { "".into() } else { replaces.clone() };
        if !forget {
            inherit(entry, &removed);
        }
    }
    let Some(top) = channel.newest_head(compare) else { return };
    // The head of a minor version often has the only edge to the previous one.
    let orphan = channel.entry(&removed.replaces).is_some_and(|_| {
        let heads = channel.heads();
        heads.len() > 1 && *top != *removed.replaces && heads.contains(&&*removed.replaces)
    });
    if let Some(entry) = channel.entry_mut(&top).filter(|entry| orphan && entry.replaces.is_empty()) {
        entry.replaces = removed.replaces;
    }
    channel.connect_to(&top);
}

/// Returns the newest entry that `removed` replaced or skipped, if the chain from there continues to the entry that it
/// replaced.
fn predecessor(channel: &OutlineChannel, removed: &ChannelEntry, compare: impl Fn(&str, &str) -> Ordering) -> Box<str> {
    let view = channel.view();
    let skipped = removed.skips.iter().filter(|skip| view.number(skip).is_some() && !view.is_skipped(skip));
    let Some(newest) = skipped.max_by(|a, b| compare(a, b)) else { return removed.replaces.clone() };
    let leads_on = removed.replaces.is_empty() || {
        let chain = view.number(newest).map(|newest| view.chain(newest).numbers).unwrap_or_default();
        chain.into_iter().any(|number| {
            let entry = view.entries()[number];
            entry.name == removed.replaces || entry.replaces == removed.replaces
        })
    };
    if leads_on { newest.clone() } else { removed.replaces.clone() }
}

fn inherit(entry: &mut ChannelEntry, removed: &ChannelEntry) {
    let inherited: Vec<String> = [&removed.name]
        .into_iter()
        .chain(&removed.skips)
        .filter(|skip| **skip != entry.name)
        .map(|skip| skip.to_string())
        .collect();
    add(&mut entry.skips, &inherited);
    if !removed.skip_range.is_empty() && removed.skip_range != entry.skip_range {
        entry.skip_range = match entry.skip_range.is_empty() {
            true => removed.skip_range.clone(),
            false => format!("{} || {}", entry.skip_range, removed.skip_range).into(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{outline, shown};

    fn removed(target: &DeprecationTarget, removal: &Removal) -> String {
        let mut outline = outline(
            "p/stable: p.v1.0.0; p.v1.1.0 r=p.v1.0.0 s=x R=<1.0.0; p.v2.0.0 r=p.v1.1.0 R=<2.0.0
             p/alpha: p.v2.0.0 r=p.v1.0.0 s=p.v1.1.0; p.v3.0.0 r=p.v2.0.0",
        );
        match remove(&mut outline, target, removal) {
            Ok(notes) => shown(&outline) + &notes.join("\n"),
            Err(refusal) => format!("{refusal}; {}", refusal.help.clone().unwrap_or_default()),
        }
    }

    fn bundle(name: &str) -> DeprecationTarget {
        DeprecationTarget::Bundle { package: None, bundle: name.to_owned() }
    }

    #[test]
    fn removal_reconnects_edges() {
        insta::assert_snapshot!(removed(&bundle("p.v1.1.0"), &Removal::default()), @r"
        p/alpha: p.v2.0.0 r=p.v1.0.0 s=p.v1.1.0; p.v3.0.0 r=p.v2.0.0
        p/stable*: p.v1.0.0; p.v2.0.0 r=p.v1.0.0 s=p.v1.1.0,x R=<2.0.0 || <1.0.0
        ");
        let removal = Removal { forget: true, ..Removal::default() };
        insta::assert_snapshot!(removed(&bundle("p.v1.1.0"), &removal), @r"
        p/alpha: p.v2.0.0 r=p.v1.0.0; p.v3.0.0 r=p.v2.0.0
        p/stable*: p.v1.0.0; p.v2.0.0 r=p.v1.0.0 R=<2.0.0
        ");
    }

    /// Removes a bundle from a channel whose entries are given.
    fn removed_from(entries: &str, name: &str, forget: bool) -> String {
        let mut outline = outline(&format!("p/c: {entries}"));
        remove(&mut outline, &bundle(name), &Removal { forget, ..Removal::default() }).unwrap();
        shown(&outline).trim().to_owned()
    }

    #[test]
    fn the_newest_of_the_entries_that_a_head_skipped_becomes_the_head() {
        // As semver templates generate them.
        const TEMPLATE: &str =
            "p.v1.0.0; p.v1.0.1 s=p.v1.0.0; p.v1.1.0; p.v1.1.1; p.v1.1.2 r=p.v1.0.1 s=p.v1.1.0,p.v1.1.1";
        insta::assert_snapshot!(removed_from(TEMPLATE, "p.v1.1.2", false), @"p/c*: p.v1.0.0; p.v1.0.1 s=p.v1.0.0; p.v1.1.0; p.v1.1.1 r=p.v1.0.1 s=p.v1.1.0");
        // The chain continues without it.
        insta::assert_snapshot!(removed_from("p.v1.0.0; p.v1.0.1 r=p.v1.0.0; p.v1.0.2 r=p.v1.0.1 s=p.v1.0.0", "p.v1.0.2", false), @"p/c*: p.v1.0.0; p.v1.0.1 r=p.v1.0.0");
        // An entry that is skipped itself has the only edge to another.
        insta::assert_snapshot!(removed_from("p.v1.0.0; p.v1.1.0 s=p.v1.0.0; p.v1.2.0 s=p.v1.1.0", "p.v1.1.0", false), @"p/c*: p.v1.0.0; p.v1.2.0 s=p.v1.1.0,p.v1.0.0");
    }

    #[test]
    fn a_forgotten_patch_gives_its_place_back_to_those_that_it_skipped() {
        const BEFORE: &str = "p.v1.0.0; p.v1.1.0 r=p.v1.0.0; p.v1.1.1 r=p.v1.1.0; p.v2.0.0 r=p.v1.1.1";
        let promoted =
            BEFORE.replace("p.v2.0.0 r=p.v1.1.1", "p.v1.1.2 r=p.v1.0.0 s=p.v1.1.1,p.v1.1.0; p.v2.0.0 r=p.v1.1.2");
        assert_eq!(removed_from(&promoted, "p.v1.1.2", true), format!("p/c*: {BEFORE}"));
    }

    #[test]
    fn a_channel_is_removed_with_its_exclusive_bundles() {
        let channel = |channel: &str| DeprecationTarget::Channel { package: "p".into(), channel: channel.into() };
        insta::assert_snapshot!(removed(&channel("alpha"), &Removal::default()), @r#"
        p/stable*: p.v1.0.0; p.v1.1.0 r=p.v1.0.0 s=x R=<1.0.0; p.v2.0.0 r=p.v1.1.0 R=<2.0.0
        bundle "p.v3.0.0" is no longer in any channel and is removed too
        "#);
        insta::assert_snapshot!(removed(&channel("stable"), &Removal::default()), @r#"the default channel of package "p" would be removed; set another one with --default-channel: alpha"#);
    }
}
