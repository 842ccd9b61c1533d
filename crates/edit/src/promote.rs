//! Adds a bundle to a channel, with edges determined by a policy.

use std::cmp::Ordering;

use fbc::blob::ChannelEntry;

use crate::outline::{Outline, OutlineChannel, OutlinePackage};
use crate::refusal::EditRefusal;
use crate::set_edge::{add, check_range};

/// How to insert a bundle into a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EdgePolicy {
    /// It becomes the head and replaces the previous head.
    #[default]
    Replaces,
    /// It is inserted by version.
    Semver,
    /// Like `Semver`, but only the last patch of each minor version is on the upgrade path: it skips earlier patches.
    SkipPatch,
}

/// How to add a bundle to a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Promotion {
    /// How to insert it, unless `replaces` is given.
    pub policy: EdgePolicy,
    /// The bundle it replaces; an empty name for none.
    pub replaces: Option<String>,
    /// Further bundles that it skips.
    pub skips: Vec<String>,
    /// The version range that upgrades to it directly.
    pub skip_range: Option<String>,
    /// Whether to create the channel if it does not exist.
    pub create: bool,
}

/// Adds `bundle` to `channel`.
///
/// # Errors
/// Refuses if the bundle or channel does not exist, if the channel has the bundle already, or if the policy does not
/// apply.
pub fn promote(
    outline: &mut Outline,
    package: Option<&str>,
    bundle: &str,
    channel: &str,
    promotion: &Promotion,
) -> Result<(), EditRefusal> {
    check_range(promotion.skip_range.as_deref())?;
    let name = outline.package_of(package, bundle)?;
    let package = outline.package_mut(&name)?;
    if !package.channels.contains_key(channel) {
        if !promotion.create {
            let refusal = package.no_channel(&name, channel);
            let help = format!("{}; --create creates a new one", refusal.help.unwrap_or_default());
            return Err(EditRefusal::new(refusal.message).help(help));
        }
        package.channels.insert(channel.to_owned(), OutlineChannel::default());
        if package.default_channel.is_empty() {
            package.default_channel = channel.to_owned();
        }
    }
    let mut target = package.channels[channel].clone();
    if target.entry(bundle).is_some() {
        return Err(EditRefusal::new(format!("{bundle:?} is already in channel {channel:?}"))
            .help("'opm edit set-edge' changes its edges"));
    }
    // Entries keep their direction: oldest first unless the list is newest first.
    let newest_first =
        target.entries.len() > 1 && target.heads().first() == target.entries.first().map(|it| &*it.name).as_ref();
    let mut entry = ChannelEntry { name: bundle.into(), ..ChannelEntry::default() };
    match &promotion.replaces {
        Some(replaces) => entry.replaces = replaces.as_str().into(),
        None if target.entries.is_empty() => {}
        None => place(package, &mut target, &mut entry, channel, promotion.policy)?,
    }
    add(&mut entry.skips, &promotion.skips);
    if let Some(range) = &promotion.skip_range {
        entry.skip_range = range.as_str().into();
    }
    let replaced_at = target.entries.iter().position(|other| other.name == entry.replaces);
    let at = match replaced_at {
        Some(index) if newest_first => index,
        Some(index) => index + 1,
        None if newest_first || promotion.policy == EdgePolicy::Replaces => target.entries.len(),
        None => 0,
    };
    target.entries.insert(at, entry);
    check_no_cycle(&target, bundle, channel)?;
    if let Some(replaces) = &promotion.replaces {
        check_head(&target, bundle, replaces, channel)?;
    }
    package.channels.insert(channel.to_owned(), target);
    Ok(())
}

/// Refuses a bundle that an entry of the channel already replaces or skips, since no entry would remain a head.
fn check_no_cycle(target: &OutlineChannel, bundle: &str, channel: &str) -> Result<(), EditRefusal> {
    if !target.heads().is_empty() {
        return Ok(());
    }
    let supersedes =
        |entry: &&ChannelEntry| &*entry.replaces == bundle || entry.skips.iter().any(|skipped| &**skipped == bundle);
    let by: Vec<&str> = target.entries.iter().filter(supersedes).map(|entry| &*entry.name).collect();
    let by = by.join(", ");
    Err(EditRefusal::new(format!(
        "{bundle:?} would leave channel {channel:?} without a head, because {by} replaces or skips it"
    ))
    .help("change that entry with 'opm edit set-edge' first"))
}

/// Refuses edges that leave the channel with a head other than the new bundle.
fn check_head(target: &OutlineChannel, bundle: &str, replaces: &str, channel: &str) -> Result<(), EditRefusal> {
    let heads = target.heads();
    let Some(other) = heads.iter().find(|head| **head != bundle) else { return Ok(()) };
    let edge = if replaces.is_empty() { "nothing".to_owned() } else { format!("{replaces:?}") };
    Err(EditRefusal::new(format!(
        "{bundle:?} replaces {edge}, so {other:?} remains a second head of channel {channel:?}"
    ))
    .help(format!("use --edge replaces to replace {other:?}, or --edge semver to insert it by version")))
}

/// Determines the edges of `entry` in a channel with other entries, and changes theirs.
fn place(
    package: &OutlinePackage,
    channel: &mut OutlineChannel,
    entry: &mut ChannelEntry,
    name: &str,
    policy: EdgePolicy,
) -> Result<(), EditRefusal> {
    let heads = channel.heads();
    let [head] = heads.as_slice() else {
        return Err(EditRefusal::new(format!("channel {name:?} has no single head: {}", heads.join(", ")))
            .help("fix its edges with 'opm edit set-edge' first"));
    };
    let compare = |a: &str, b: &str| {
        package.cmp_versions(a, b).ok_or_else(|| {
            EditRefusal::new(format!("{a:?} or {b:?} has no valid version"))
                .help("set the edges with 'opm edit set-edge'")
        })
    };
    if policy == EdgePolicy::Replaces {
        if compare(&entry.name, head)? == Ordering::Less {
            return Err(EditRefusal::new(format!(
                "{:?} is older than {head:?}, the head of channel {name:?}",
                &*entry.name
            ))
            .help("use --edge semver to insert it by version"));
        }
        entry.replaces = (*head).into();
        return Ok(());
    }
    let head = (*head).to_owned();
    drop_stale_edges(package, channel, &entry.name);
    // Upgrades lead to the entries of the trunk; those below it on the chain are skipped.
    let chain: Vec<String> = channel.chain(&head).into_iter().map(str::to_owned).collect();
    let view = channel.view();
    let trunk = view.number(&head).map_or(0, |head| view.trunk(head).numbers.len());
    // Walk down the chain to the first older entry.
    let mut newer: Option<String> = None;
    let mut older: Option<String> = None;
    let mut same_minor: Vec<String> = Vec::new();
    let mut passed: Vec<String> = Vec::new();
    let last = chain.last().cloned();
    for (place, other) in chain.into_iter().enumerate() {
        let on_trunk = place < trunk;
        match compare(&other, &entry.name)? {
            Ordering::Equal => {
                return Err(EditRefusal::new(format!("{other:?} has the same version as {:?}", &*entry.name)));
            }
            Ordering::Less
                if on_trunk
                    && policy == EdgePolicy::SkipPatch
                    && minor(package, &other) == minor(package, &entry.name) =>
            {
                same_minor.push(other);
            }
            Ordering::Greater if same_minor.is_empty() && on_trunk => newer = Some(other),
            Ordering::Greater if same_minor.is_empty() => passed.push(other),
            _ => {
                older = Some(other);
                break;
            }
        }
    }
    if policy == EdgePolicy::SkipPatch
        && let Some(newer) = &newer
        && minor(package, newer) == minor(package, &entry.name)
    {
        return Err(EditRefusal::new(format!("{newer:?} is a later patch of the same minor version"))
            .help("no cluster would upgrade to this one; use --edge semver to insert it anyway"));
    }
    // The last entry of the chain may replace a bundle that is not in the channel; the new entry inherits that edge.
    let beyond = last.and_then(|last| channel.entry(&last)).map(|it| it.replaces.clone());
    // That missing bundle may be the new one itself, which then replaces nothing.
    let beyond = beyond.filter(|beyond| *beyond != entry.name).unwrap_or_default();
    entry.replaces = older.as_deref().map_or(beyond, Into::into);
    // Upgrades to it may also skip everything that the earlier patches skipped.
    for patch in &same_minor {
        if let Some(patch) = channel.entry(patch) {
            let skips: Vec<String> = patch.skips.iter().map(|skip| skip.to_string()).collect();
            add(&mut entry.skips, &skips);
        }
    }
    add(&mut entry.skips, &same_minor);
    if let Some(newer) = newer.and_then(|newer| channel.entry_mut(&newer)) {
        newer.replaces = entry.name.clone();
        // It replaced the first of these.
        passed.truncate(1);
        add(&mut newer.skips, &passed);
    }
    Ok(())
}

/// Drops the edges that treat `bundle` as absent from the channel: no entry skips it any more, and no older entry
/// replaces it.
fn drop_stale_edges(package: &OutlinePackage, channel: &mut OutlineChannel, bundle: &str) {
    for other in &mut channel.entries {
        other.skips.retain(|skip| **skip != *bundle);
        if *other.replaces == *bundle && package.cmp_versions(&other.name, bundle).is_some_and(Ordering::is_lt) {
            other.replaces = "".into();
        }
    }
}

fn minor(package: &OutlinePackage, bundle: &str) -> Option<(u64, u64)> {
    let (version, _) = package.bundles.get(bundle)?.version.as_ref()?;
    Some((version.major(), version.minor()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{outline, shown};

    fn promoted(catalog: &str, bundle: &str, policy: EdgePolicy) -> String {
        let mut outline = outline(catalog);
        let promotion = Promotion { policy, ..Promotion::default() };
        match promote(&mut outline, None, bundle, "stable", &promotion) {
            Ok(()) => shown(&outline).lines().find(|line| line.starts_with("p/stable")).unwrap().to_owned(),
            Err(refusal) => format!("{refusal}; {}", refusal.help.clone().unwrap_or_default()),
        }
    }

    const CATALOG: &str = "
        p/stable: p.v1.0.0; p.v1.1.0 r=p.v1.0.0; p.v1.1.1 r=p.v1.1.0; p.v2.0.0 r=p.v1.1.1
        p/all: p.v0.9.0; p.v1.1.2; p.v1.1.0-rc1; p.v3.0.0; p.v2.0.0+b";

    #[test]
    fn the_new_head_replaces_the_old_one() {
        insta::assert_snapshot!(promoted(CATALOG, "p.v3.0.0", EdgePolicy::Replaces), @"p/stable*: p.v1.0.0; p.v1.1.0 r=p.v1.0.0; p.v1.1.1 r=p.v1.1.0; p.v2.0.0 r=p.v1.1.1; p.v3.0.0 r=p.v2.0.0");
        insta::assert_snapshot!(promoted(CATALOG, "p.v0.9.0", EdgePolicy::Replaces), @r#""p.v0.9.0" is older than "p.v2.0.0", the head of channel "stable"; use --edge semver to insert it by version"#);
        insta::assert_snapshot!(promoted(CATALOG, "p.v1.0.0", EdgePolicy::Replaces), @r#""p.v1.0.0" is already in channel "stable"; 'opm edit set-edge' changes its edges"#);
    }

    #[test]
    fn a_bundle_that_was_missing_does_not_replace_itself() {
        const GAP: &str = "
            p/stable: p.v1.1.0 r=p.v1.0.0; p.v1.2.0 r=p.v1.1.0
            p/all: p.v1.0.0";
        insta::assert_snapshot!(promoted(GAP, "p.v1.0.0", EdgePolicy::Semver), @"p/stable*: p.v1.0.0; p.v1.1.0 r=p.v1.0.0; p.v1.2.0 r=p.v1.1.0");
    }

    #[test]
    fn edges_that_treat_the_bundle_as_absent_are_dropped() {
        const SKIPPED: &str = "
            p/stable: p.v1.0.0; p.v1.1.0 r=p.v1.0.0 s=p.v1.0.1,x
            p/all: p.v1.0.1";
        insta::assert_snapshot!(promoted(SKIPPED, "p.v1.0.1", EdgePolicy::Semver), @"p/stable*: p.v1.0.0; p.v1.0.1 r=p.v1.0.0; p.v1.1.0 r=p.v1.0.1 s=x");
        insta::assert_snapshot!(promoted(SKIPPED, "p.v1.0.1", EdgePolicy::SkipPatch), @"p/stable*: p.v1.0.1 s=p.v1.0.0; p.v1.0.0; p.v1.1.0 r=p.v1.0.1 s=x");
        const REPLACED: &str = "
            p/stable: p.v1.0.0 r=p.v1.0.1; p.v1.1.0 r=p.v1.0.0
            p/all: p.v1.0.1";
        insta::assert_snapshot!(promoted(REPLACED, "p.v1.0.1", EdgePolicy::Semver), @"p/stable*: p.v1.0.0; p.v1.0.1 r=p.v1.0.0; p.v1.1.0 r=p.v1.0.1");
    }

    #[test]
    fn a_bundle_is_inserted_where_upgrades_lead_to_it() {
        // The newer entry below the head is skipped, so nothing leads to what it replaces.
        const BELOW: &str = "
            p/stable: p.v1.0.0; p.v1.2.0 r=p.v1.0.0; p.v1.3.0 r=p.v1.2.0 s=p.v1.2.0,p.v1.0.0
            p/all: p.v1.1.0";
        insta::assert_snapshot!(promoted(BELOW, "p.v1.1.0", EdgePolicy::Semver), @"p/stable*: p.v1.0.0; p.v1.1.0 r=p.v1.0.0; p.v1.2.0 r=p.v1.0.0; p.v1.3.0 r=p.v1.1.0 s=p.v1.2.0,p.v1.0.0");
    }

    #[test]
    fn the_list_keeps_its_direction() {
        const NEWEST_FIRST: &str = "
            p/stable: p.v2.0.0 r=p.v1.0.0; p.v1.0.0
            p/all: p.v1.1.0; p.v0.9.0";
        insta::assert_snapshot!(promoted(NEWEST_FIRST, "p.v1.1.0", EdgePolicy::Semver), @"p/stable*: p.v2.0.0 r=p.v1.1.0; p.v1.1.0 r=p.v1.0.0; p.v1.0.0");
        insta::assert_snapshot!(promoted(NEWEST_FIRST, "p.v0.9.0", EdgePolicy::Semver), @"p/stable*: p.v2.0.0 r=p.v1.0.0; p.v1.0.0 r=p.v0.9.0; p.v0.9.0");
    }

    #[test]
    fn versions_are_inserted_by_precedence() {
        insta::assert_snapshot!(promoted(CATALOG, "p.v1.1.2", EdgePolicy::Semver), @"p/stable*: p.v1.0.0; p.v1.1.0 r=p.v1.0.0; p.v1.1.1 r=p.v1.1.0; p.v1.1.2 r=p.v1.1.1; p.v2.0.0 r=p.v1.1.2");
        insta::assert_snapshot!(promoted(CATALOG, "p.v0.9.0", EdgePolicy::Semver), @"p/stable*: p.v0.9.0; p.v1.0.0 r=p.v0.9.0; p.v1.1.0 r=p.v1.0.0; p.v1.1.1 r=p.v1.1.0; p.v2.0.0 r=p.v1.1.1");
        insta::assert_snapshot!(promoted(CATALOG, "p.v2.0.0+b", EdgePolicy::Semver), @r#""p.v2.0.0" has the same version as "p.v2.0.0+b"; "#);
    }

    #[test]
    fn a_replaced_entry_does_not_become_the_head_again() {
        let catalog = "
            p/stable: p.v1.0.0 s=p.v2.0.0; p.v1.1.0 r=p.v1.0.0
            p/all: p.v2.0.0";
        insta::assert_snapshot!(promoted(catalog, "p.v2.0.0", EdgePolicy::Replaces), @r#""p.v2.0.0" would leave channel "stable" without a head, because p.v1.0.0 replaces or skips it; change that entry with 'opm edit set-edge' first"#);
    }

    #[test]
    fn earlier_patches_are_skipped() {
        insta::assert_snapshot!(promoted(CATALOG, "p.v1.1.2", EdgePolicy::SkipPatch), @"p/stable*: p.v1.0.0; p.v1.1.2 r=p.v1.0.0 s=p.v1.1.1,p.v1.1.0; p.v1.1.0 r=p.v1.0.0; p.v1.1.1 r=p.v1.1.0; p.v2.0.0 r=p.v1.1.2");
        insta::assert_snapshot!(promoted(CATALOG, "p.v1.1.0-rc1", EdgePolicy::SkipPatch), @r#""p.v1.1.0" is a later patch of the same minor version; no cluster would upgrade to this one; use --edge semver to insert it anyway"#);
    }
}
