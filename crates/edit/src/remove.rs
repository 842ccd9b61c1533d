//! Bundles, channels and packages out of a catalog; the edges around them are stitched together.

use fbc::blob::Entry;

use crate::deprecate::Target;
use crate::outline::{Channel, Outline};
use crate::refusal::Refusal;
use crate::set_edge::add;

/// How something is removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// The only channel that a bundle is removed from.
    pub channel: Option<String>,
    /// The default channel from now on, for when the one there was goes.
    pub default_channel: Option<String>,
    /// Whether a bundle is removed as if it had never been there, so that clusters which run it get no way on.
    pub forget: bool,
}

/// Removes something, and returns what else happened because of it.
///
/// See [`Removal`] for how.
///
/// # Errors
/// Refuses when it is not there, or when the package cannot do without it.
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
                    take_out(members, bundle, removal.forget);
                }
            }
            found.channels.retain(|name, members| {
                let stays = !members.entries.is_empty();
                if !stays {
                    notes.push(format!("channel {name:?} had no other entry and goes too"));
                }
                stays
            });
            finish(outline, &package, default_channel, &mut notes)?;
            notes.retain(|note| !note.starts_with(&format!("bundle {bundle:?} ")) || channel.is_some());
        }
    }
    Ok(notes)
}

/// Drops what is in no channel any more, and settles the default channel.
fn finish(
    outline: &mut Outline,
    name: &str,
    default_channel: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<(), Refusal> {
    let package = outline.package_mut(name)?;
    if package.channels.is_empty() {
        return Err(Refusal::new(format!("nothing would be left of package {name:?}"))
            .help(format!("to remove all of it: opm edit remove CATALOG --package {name}")));
    }
    for bundle in package.drop_unlisted() {
        notes.push(format!("bundle {bundle:?} is in no channel any more and goes too"));
    }
    if let Some(default_channel) = default_channel {
        if !package.channels.contains_key(default_channel) {
            return Err(package.no_channel(name, default_channel));
        }
        package.default_channel = default_channel.to_owned();
    }
    if !package.channels.contains_key(&package.default_channel) {
        let names: Vec<&str> = package.channels.keys().map(String::as_str).collect();
        return Err(Refusal::new(format!("the default channel of package {name:?} would go"))
            .help(format!("choose another one with --default-channel: {}", names.join(", "))));
    }
    Ok(())
}

/// Takes an entry out of a channel and stitches the edges around it.
///
/// What replaced it replaces what it replaced, and skips it and all it skipped: clusters that run it, or would have
/// upgraded to it, have a way on.
///
/// With `forget`, nothing is left of it.
pub(crate) fn take_out(channel: &mut Channel, bundle: &str, forget: bool) {
    if forget {
        channel.entries.iter_mut().for_each(|entry| entry.skips.retain(|skip| **skip != *bundle));
    }
    let Some(at) = channel.entries.iter().position(|entry| &*entry.name == bundle) else { return };
    let gone = channel.entries.remove(at);
    for entry in channel.entries.iter_mut().filter(|entry| *entry.replaces == *bundle) {
        entry.replaces = if gone.replaces == entry.name { "".into() } else { gone.replaces.clone() };
        if !forget {
            inherit(entry, &gone);
        }
    }
}

fn inherit(entry: &mut Entry, gone: &Entry) {
    let inherited: Vec<String> = [&gone.name]
        .into_iter()
        .chain(&gone.skips)
        .filter(|skip| **skip != entry.name)
        .map(|skip| skip.to_string())
        .collect();
    add(&mut entry.skips, &inherited);
    if !gone.skip_range.is_empty() && gone.skip_range != entry.skip_range {
        entry.skip_range = match entry.skip_range.is_empty() {
            true => gone.skip_range.clone(),
            false => format!("{} || {}", entry.skip_range, gone.skip_range).into(),
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
    fn edges_are_stitched_together() {
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
    fn a_channel_goes_with_what_is_only_in_it() {
        let channel = |channel: &str| Target::Channel { package: "p".into(), channel: channel.into() };
        insta::assert_snapshot!(removed(&channel("alpha"), &Removal::default()), @r#"
        p/stable*: p.v1.0.0; p.v1.1.0 r=p.v1.0.0 s=x R=<1.0.0; p.v2.0.0 r=p.v1.1.0 R=<2.0.0
        bundle "p.v3.0.0" is in no channel any more and goes too
        "#);
        insta::assert_snapshot!(removed(&channel("stable"), &Removal::default()), @r#"the default channel of package "p" would go; choose another one with --default-channel: alpha"#);
    }
}
