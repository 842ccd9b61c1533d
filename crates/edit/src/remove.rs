//! Removes bundles, channels and packages from a catalog and reconnects the edges around them.

use fbc::blob::Entry;

use crate::deprecate::Target;
use crate::outline::{Channel, Outline};
use crate::refusal::Refusal;
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
pub fn remove(outline: &mut Outline, target: &Target, removal: &Removal) -> Result<Vec<String>, Refusal> {
    let (channel, default_channel) = (removal.channel.as_deref(), removal.default_channel.as_deref());
    let mut notes = Vec::new();
    match target {
        Target::Package(package) => {
            outline.package(package)?;
            outline.packages.remove(package);
            return Ok(notes);
        }
        Target::Channel { package, channel } => {
            let found = outline.package_mut(package)?;
            if found.channels.remove(channel).is_none() {
                return Err(found.no_channel(package, channel));
            }
            finish(outline, package, default_channel, &mut notes)?;
        }
        Target::Bundle { package, bundle } => {
            let package = outline.package_of(package.as_deref(), bundle)?;
            let found = outline.package_mut(&package)?;
            if let Some(name) = channel {
                let only = found.channel_mut(&package, name)?;
                if only.entry(bundle).is_none() {
                    return Err(Refusal::new(format!("channel {name:?} has no entry {bundle:?}")));
                }
            }
            for (name, members) in &mut found.channels {
                if channel.is_none_or(|only| only == name) {
                    remove_entry(members, bundle, removal.forget);
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
) -> Result<(), Refusal> {
    let package = outline.package_mut(name)?;
    if package.channels.is_empty() {
        return Err(Refusal::new(format!("package {name:?} would be empty"))
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
        return Err(Refusal::new(format!("the default channel of package {name:?} would be removed"))
            .help(format!("set another one with --default-channel: {}", names.join(", "))));
    }
    Ok(())
}

/// Removes an entry from a channel and reconnects the edges around it.
///
/// Its successor inherits its `replaces` and `skips` and skips the entry itself. Clusters that run it, or would have
/// upgraded to it, can still upgrade.
///
/// With `forget`, no edge refers to it afterwards.
pub(crate) fn remove_entry(channel: &mut Channel, bundle: &str, forget: bool) {
    if forget {
        channel.entries.iter_mut().for_each(|entry| entry.skips.retain(|skip| **skip != *bundle));
    }
    let Some(at) = channel.entries.iter().position(|entry| &*entry.name == bundle) else { return };
    let removed = channel.entries.remove(at);
    for entry in channel.entries.iter_mut().filter(|entry| *entry.replaces == *bundle) {
        entry.replaces = if removed.replaces == entry.name { "".into() } else { removed.replaces.clone() };
        if !forget {
            inherit(entry, &removed);
        }
    }
}

fn inherit(entry: &mut Entry, removed: &Entry) {
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

    fn removed(target: &Target, removal: &Removal) -> String {
        let mut outline = outline(
            "p/stable: p.v1.0.0; p.v1.1.0 r=p.v1.0.0 s=x R=<1.0.0; p.v2.0.0 r=p.v1.1.0 R=<2.0.0
             p/alpha: p.v2.0.0 r=p.v1.0.0 s=p.v1.1.0; p.v3.0.0 r=p.v2.0.0",
        );
        match remove(&mut outline, target, removal) {
            Ok(notes) => shown(&outline) + &notes.join("\n"),
            Err(refusal) => format!("{refusal}; {}", refusal.help.clone().unwrap_or_default()),
        }
    }

    fn bundle(name: &str) -> Target {
        Target::Bundle { package: None, bundle: name.to_owned() }
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

    #[test]
    fn a_channel_is_removed_with_its_exclusive_bundles() {
        let channel = |channel: &str| Target::Channel { package: "p".into(), channel: channel.into() };
        insta::assert_snapshot!(removed(&channel("alpha"), &Removal::default()), @r#"
        p/stable*: p.v1.0.0; p.v1.1.0 r=p.v1.0.0 s=x R=<1.0.0; p.v2.0.0 r=p.v1.1.0 R=<2.0.0
        bundle "p.v3.0.0" is no longer in any channel and is removed too
        "#);
        insta::assert_snapshot!(removed(&channel("stable"), &Removal::default()), @r#"the default channel of package "p" would be removed; set another one with --default-channel: alpha"#);
    }
}
