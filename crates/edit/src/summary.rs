//! Summarizes an edit in one line.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fbc::blob::{BUNDLE, CHANNEL, ChannelEntry, Deprecation};

use crate::outline::{Outline, OutlinePackage};

/// The maximum number of names to list; longer lists are counted.
const NAMES: usize = 3;

/// Summarizes the differences in `new` in one line, or returns `None` if the outlines are equal.
pub fn summary(old: &Outline, new: &Outline) -> Option<String> {
    let mut found = OutlineDiff::default();
    let nothing = OutlinePackage::default();
    let names: BTreeSet<&String> = old.packages.keys().chain(new.packages.keys()).collect();
    for name in names {
        match (old.packages.get(name), new.packages.get(name)) {
            (Some(was), None) => found.removed.packages.push((name, was)),
            (None, Some(is)) => {
                found.added.packages.push((name, is));
                found.compare(name, &nothing, is);
            }
            (Some(was), Some(is)) => found.compare(name, was, is),
            (None, None) => {}
        }
    }
    let blobs = new.new_blobs.len() + new.packages.values().map(|package| package.new_blobs.len()).sum::<usize>();
    let mut parts: Vec<String> = [found.added_part(), found.removed_part()].into_iter().flatten().collect();
    parts.extend(found.changed_part(parts.is_empty()));
    parts.extend(found.sentences);
    if blobs > 0 {
        parts.push(format!("added {}", count(blobs, "other blob")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The differences between two outlines.
#[derive(Default)]
struct OutlineDiff<'a> {
    added: Side<'a>,
    removed: Side<'a>,
    /// The channel and entry of each entry with changed edges.
    changed: Vec<(&'a str, &'a ChannelEntry)>,
    /// Sentences about default channels and deprecations.
    sentences: Vec<String>,
}

/// The items that only one of the outlines has.
#[derive(Default)]
struct Side<'a> {
    packages: Vec<(&'a String, &'a OutlinePackage)>,
    /// Package and channel.
    channels: Vec<(&'a str, &'a str)>,
    bundles: Vec<&'a str>,
    /// The channels and entries of bundles, by name.
    entries: BTreeMap<&'a str, Vec<(&'a str, &'a ChannelEntry)>>,
}

impl<'a> OutlineDiff<'a> {
    fn compare(&mut self, name: &'a str, old: &'a OutlinePackage, new: &'a OutlinePackage) {
        self.added.note(name, new, old);
        self.removed.note(name, old, new);
        for (channel, is) in &new.channels {
            let Some(was) = old.channels.get(channel) else { continue };
            let before: BTreeMap<&str, &ChannelEntry> = was.entries.iter().map(|entry| (&*entry.name, entry)).collect();
            let changed = is.entries.iter().filter(|entry| before.get(&*entry.name).is_some_and(|was| *was != *entry));
            self.changed.extend(changed.map(|entry| (channel.as_str(), entry)));
        }
        if !old.default_channel.is_empty() && old.default_channel != new.default_channel {
            let (is, was) = (&new.default_channel, &old.default_channel);
            self.sentences.push(format!("the default channel of {name} is {is}, was {was}"));
        }
        self.deprecations(name, old, new);
    }

    fn deprecations(&mut self, package: &str, old: &'a OutlinePackage, new: &'a OutlinePackage) {
        let shown = |it: &Deprecation| match &*it.schema {
            BUNDLE => it.name.to_string(),
            CHANNEL => format!("channel {} of {package}", it.name),
            _ => format!("package {package}"),
        };
        let [was, is] = [old, new].map(|package| package.deprecations.iter().flat_map(|it| &it.entries));
        let by_key =
            |entries: &mut dyn Iterator<Item = &'a Deprecation>| -> HashMap<(&'a str, &'a str), &'a Deprecation> {
                entries.map(|entry| ((&*entry.schema, &*entry.name), entry)).collect()
            };
        let (before, after) = (by_key(&mut was.clone()), by_key(&mut is.clone()));
        for entry in is {
            match before.get(&(&*entry.schema, &*entry.name)) {
                None => self.sentences.push(format!("deprecated {}", shown(entry))),
                Some(was) if was.message != entry.message => {
                    self.sentences.push(format!("changed the deprecation of {}", shown(entry)));
                }
                Some(_) => {}
            }
        }
        let is_left = |it: &Deprecation| match &*it.schema {
            BUNDLE => new.bundles.contains_key(&*it.name),
            CHANNEL => new.channels.contains_key(&*it.name),
            _ => true,
        };
        for entry in was.filter(|was| is_left(was) && !after.contains_key(&(&*was.schema, &*was.name))) {
            self.sentences.push(format!("{} is no longer deprecated", shown(entry)));
        }
    }

    fn added_part(&self) -> Option<String> {
        let added = &self.added;
        if let ([], [], [], true) | ([], [], [_], true) =
            (&*added.packages, &*added.channels, &*added.bundles, added.entries.is_empty())
        {
            return added.bundles.first().map(|bundle| format!("added {bundle}"));
        }
        if let (Some((bundle, entries)), 1) = (added.entries.first_key_value(), added.entries.len()) {
            return Some(format!("added {bundle} to {}", places(entries)));
        }
        Some(format!("added {}", added.counts()))
    }

    fn removed_part(&self) -> Option<String> {
        let removed = &self.removed;
        match (&*removed.packages, &*removed.channels, &*removed.bundles, removed.entries.len()) {
            ([], [], [], 0) => None,
            ([(name, package)], [], [], 0) => {
                let (channels, bundles) = (package.channels.len(), package.bundles.len());
                Some(format!("removed package {name} ({}, {})", count(channels, "channel"), count(bundles, "bundle")))
            }
            ([], [(package, channel)], bundles, entries) if entries != 1 => {
                let with = if bundles.is_empty() { String::new() } else { format!(" with {}", names(bundles)) };
                Some(format!("removed channel {channel} of {package}{with}"))
            }
            ([], _, [] | [_], 1) => {
                let (bundle, entries) = removed.entries.first_key_value()?;
                let channels: Vec<&str> = entries.iter().map(|(channel, _)| *channel).collect();
                Some(format!("removed {bundle} from {}", channels.join(", ")))
            }
            _ => Some(format!("removed {}", removed.counts())),
        }
    }

    /// Describes entries with changed edges; `alone` if there is nothing else to describe.
    fn changed_part(&self, alone: bool) -> Option<String> {
        let changed = &self.changed;
        match changed.len() {
            0 => None,
            1 | 2 => {
                let shown: Vec<String> = changed
                    .iter()
                    .map(|(channel, entry)| match edges(entry) {
                        edges if edges.is_empty() => format!("{} in {channel} replaces and skips nothing", entry.name),
                        edges => format!("{} in {channel} {edges}", entry.name),
                    })
                    .collect();
                Some(format!("{}{}", if alone { "changed: " } else { "" }, shown.join("; ")))
            }
            many => Some(format!("changed the edges of {}", count(many, "entry"))),
        }
    }
}

impl<'a> Side<'a> {
    /// Records the items that `package` has and `other` lacks.
    fn note(&mut self, name: &'a str, package: &'a OutlinePackage, other: &'a OutlinePackage) {
        for (channel, is) in &package.channels {
            let other_channel = other.channels.get(channel);
            if other_channel.is_none() {
                self.channels.push((name, channel));
            }
            let known: BTreeSet<&str> =
                other_channel.map(|it| it.entries.iter().map(|entry| &*entry.name).collect()).unwrap_or_default();
            for entry in is.entries.iter().filter(|entry| !known.contains(&*entry.name)) {
                self.entries.entry(&entry.name).or_default().push((channel, entry));
            }
        }
        self.bundles.extend(package.bundles.keys().filter(|it| !other.bundles.contains_key(*it)).map(String::as_str));
    }

    fn counts(&self) -> String {
        let whole =
            |of: fn(&OutlinePackage) -> usize| self.packages.iter().map(|(_, package)| of(package)).sum::<usize>();
        // Items removed with their package are not recorded individually.
        let is_noted = !self.entries.is_empty() || !self.bundles.is_empty();
        let channels = self.channels.len() + if is_noted { 0 } else { whole(|it| it.channels.len()) };
        let bundles = self.bundles.len() + if is_noted { 0 } else { whole(|it| it.bundles.len()) };
        let mut parts = Vec::new();
        for (number, what) in [(self.packages.len(), "package"), (channels, "channel"), (bundles, "bundle")] {
            if number > 0 {
                parts.push(count(number, what));
            }
        }
        if parts.is_empty() {
            parts.push(count(self.entries.values().map(Vec::len).sum(), "entry"));
        }
        parts.join(", ")
    }
}

/// Formats the channels of a bundle, grouped by equal edges.
fn places(entries: &[(&str, &ChannelEntry)]) -> String {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (channel, entry) in entries {
        let edges = edges(entry);
        match groups.iter_mut().find(|(known, _)| *known == edges) {
            Some((_, channels)) => channels.push(channel),
            None => groups.push((edges, vec![channel])),
        }
    }
    let shown = |(edges, channels): &(String, Vec<&str>)| match edges.as_str() {
        "" => channels.join(", "),
        edges => format!("{}: {edges}", channels.join(", ")),
    };
    groups.iter().map(shown).collect::<Vec<_>>().join("; to ")
}

/// Formats the edges of an entry.
fn edges(entry: &ChannelEntry) -> String {
    let mut parts = Vec::new();
    if !entry.replaces.is_empty() {
        parts.push(format!("replaces {}", entry.replaces));
    }
    if !entry.skips.is_empty() {
        let skips: Vec<&str> = entry.skips.iter().map(|skip| &**skip).collect();
        parts.push(format!("skips {}", names(&skips)));
    }
    if !entry.skip_range.is_empty() {
        parts.push(format!("skips versions {}", entry.skip_range));
    }
    parts.join(", ")
}

fn names(names: &[&str]) -> String {
    match names {
        [first, .., last] if names.len() > NAMES => {
            format!("{} ({first} to {last})", count(names.len(), "bundle"))
        }
        _ => names.join(", "),
    }
}

fn count(number: usize, what: &str) -> String {
    match (number, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        _ => format!("{number} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::outline;

    const CATALOG: &str = "
        p/stable: p.v1.0.0; p.v1.1.0 r=p.v1.0.0
        p/fast: p.v1.1.0";

    fn sentences(new: &str) -> String {
        summary(&outline(CATALOG), &outline(new)).unwrap_or_else(|| "nothing".into())
    }

    #[test]
    fn additions_are_summarized_with_channels_and_edges() {
        insta::assert_snapshot!(sentences(CATALOG), @"nothing");
        let with = |entry: &str| CATALOG.replace("r=p.v1.0.0", &format!("r=p.v1.0.0; {entry}"));
        insta::assert_snapshot!(sentences(&with("p.v1.2.0 r=p.v1.1.0 s=a,b R=>=1.0.0_<1.2.0")), @"added p.v1.2.0 to stable: replaces p.v1.1.0, skips a, b, skips versions >=1.0.0 <1.2.0");
        insta::assert_snapshot!(sentences(&with("p.v1.2.0 r=p.v1.1.0 s=a,b,c,d").replace("t: p.v1.1.0", "t: p.v1.1.0; p.v1.2.0 r=p.v1.1.0")), @"added p.v1.2.0 to fast: replaces p.v1.1.0; to stable: replaces p.v1.1.0, skips 4 bundles (a to d)");
        insta::assert_snapshot!(sentences(&with("p.v1.2.0; p.v1.3.0")), @"added 2 bundles");
        insta::assert_snapshot!(sentences(&format!("{CATALOG}\nq/a: q.v1.0.0; q.v2.0.0")), @"added 1 package, 1 channel, 2 bundles");
        insta::assert_snapshot!(sentences(&format!("{CATALOG}\nq/a: q.v1.0.0")), @"added q.v1.0.0 to a");
    }

    #[test]
    fn removals_are_summarized_with_the_new_edges() {
        insta::assert_snapshot!(sentences("p/stable: p.v1.0.0; p.v1.1.0 r=p.v1.0.0"), @"removed p.v1.1.0 from fast");
        insta::assert_snapshot!(sentences("q/stable: q.v1.0.0"), @"added q.v1.0.0 to stable; removed package p (2 channels, 2 bundles)");
        insta::assert_snapshot!(sentences("p/stable: p.v1.1.0 s=p.v1.0.0\np/fast: p.v1.1.0"), @"removed p.v1.0.0 from stable; p.v1.1.0 in stable skips p.v1.0.0");
    }

    #[test]
    fn changed_edges_and_defaults_are_summarized() {
        insta::assert_snapshot!(sentences(&CATALOG.replace(" r=p.v1.0.0", " R=<1.1.0")), @"changed: p.v1.1.0 in stable skips versions <1.1.0");
        insta::assert_snapshot!(sentences("p/fast: p.v1.1.0\np/stable: p.v1.0.0; p.v1.1.0 r=p.v1.0.0"), @"the default channel of p is fast, was stable");
    }
}
