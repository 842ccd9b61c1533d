//! Generates channels from bundle versions.

use std::collections::BTreeMap;

use fbc::blob::ChannelEntry;
use fbc::version::Version;

/// The lists of bundles, from least to most stable.
pub(super) const ARCHETYPES: [&str; 3] = ["candidate", "fast", "stable"];

/// A list per archetype.
pub(super) type Archetypes<T> = [Vec<T>; ARCHETYPES.len()];

/// The naming scheme of channels: by major version, or by major and minor version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChannelNaming {
    Major,
    Minor,
}

/// A bundle of an archetype.
pub(super) struct ArchetypeBundle<'a> {
    pub(super) name: &'a str,
    pub(super) version: &'a Version,
}

/// Generates the channels of all archetypes and selects the default channel.
///
/// The default is selected by the first, lowest bundle of each channel: the most stable archetype wins, then the
/// highest such bundle, then the preferred kind.
pub(super) fn generate(
    archetypes: &Archetypes<ArchetypeBundle<'_>>,
    streams: &[ChannelNaming],
    preference: ChannelNaming,
) -> (BTreeMap<String, Vec<ChannelEntry>>, String) {
    let mut channels: BTreeMap<String, Vec<ChannelEntry>> = BTreeMap::new();
    let mut default: Option<(usize, &Version, bool, String)> = None;
    for (trust, members) in archetypes.iter().enumerate() {
        for (member, entry) in members.iter().zip(linked(members)) {
            let version = member.version;
            for stream in streams {
                let name = match stream {
                    ChannelNaming::Major => format!("{}-v{}", ARCHETYPES[trust], version.major()),
                    ChannelNaming::Minor => format!("{}-v{}.{}", ARCHETYPES[trust], version.major(), version.minor()),
                };
                let entries = channels.entry(name.clone()).or_default();
                if entries.is_empty() {
                    let preferred = *stream == preference;
                    let better = default.as_ref().is_none_or(|(old_trust, old_version, old_preferred, _)| {
                        let by_version = || version.cmp_precedence(old_version);
                        let order = trust.cmp(old_trust).then_with(by_version).then(preferred.cmp(old_preferred));
                        order.is_gt()
                    });
                    if better {
                        default = Some((trust, version, preferred, name));
                    }
                }
                entries.push(entry.clone());
            }
        }
    }
    (channels, default.map(|(.., name)| name).unwrap_or_default())
}

/// Builds entries from bundles in version order. The highest patch of each minor version gets edges to the older
/// bundles of its major version.
fn linked(members: &[ArchetypeBundle<'_>]) -> Vec<ChannelEntry> {
    let mut entries = Vec::with_capacity(members.len());
    // The older bundles of the major version: the highest patch of the previous minor version, and all names.
    let mut replaced: Option<&str> = None;
    let mut older: Vec<&str> = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let minor = |member: &ArchetypeBundle<'_>| (member.version.major(), member.version.minor());
        let mut entry = ChannelEntry { name: member.name.into(), ..ChannelEntry::default() };
        if members.get(index + 1).is_none_or(|next| minor(next) != minor(member)) {
            entry.replaces = replaced.unwrap_or_default().into();
            entry.skips = older.iter().filter(|name| Some(**name) != replaced).map(|name| (*name).into()).collect();
            replaced = Some(member.name);
        }
        let place = older.partition_point(|name| *name < member.name);
        older.insert(place, member.name);
        if members.get(index + 1).is_some_and(|next| next.version.major() != member.version.major()) {
            replaced = None;
            older.clear();
        }
        entries.push(entry);
    }
    entries
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    /// Generates channels for lists of versions, and formats the default channel and all entries.
    fn generated(archetypes: [&str; 3], streams: &[ChannelNaming], preference: ChannelNaming) -> String {
        let versions = archetypes
            .map(|list| list.split_whitespace().map(|text| Version::parse_strict(text).unwrap()).collect::<Vec<_>>());
        let names = versions.each_ref().map(|list| list.iter().map(Version::to_string).collect::<Vec<_>>());
        let members = |at: usize| {
            names[at]
                .iter()
                .zip(&versions[at])
                .map(|(name, version)| ArchetypeBundle { name, version })
                .collect::<Vec<_>>()
        };
        let (channels, default) = generate(&[members(0), members(1), members(2)], streams, preference);
        let mut lines = vec![format!("default {default}")];
        for (name, entries) in channels {
            let entries = entries.iter().map(|entry| {
                let replaces = if entry.replaces.is_empty() { "" } else { " replaces " };
                let skips = if entry.skips.is_empty() { "" } else { " skips " };
                format!("{}{replaces}{}{skips}{}", entry.name, entry.replaces, entry.skips.join(" "))
            });
            lines.push(format!("{name}: {}", entries.collect::<Vec<_>>().join("; ")));
        }
        lines.join("\n")
    }

    const BOTH: &[ChannelNaming] = &[ChannelNaming::Major, ChannelNaming::Minor];

    fn default(archetypes: [&str; 3], streams: &[ChannelNaming], preference: ChannelNaming) -> String {
        generated(archetypes, streams, preference).lines().next().unwrap().to_owned()
    }

    #[test]
    fn skips_add_up_over_the_minor_versions_of_a_major_one() {
        let versions = "0.1.0 0.1.1 0.1.2 0.2.0 0.2.1 0.3.0 1.0.0 1.0.1";
        assert_snapshot!(generated(["", versions, ""], &[ChannelNaming::Major], ChannelNaming::Major), @"
        default fast-v1
        fast-v0: 0.1.0; 0.1.1; 0.1.2 skips 0.1.0 0.1.1; 0.2.0; 0.2.1 replaces 0.1.2 skips 0.1.0 0.1.1 0.2.0; 0.3.0 replaces 0.2.1 skips 0.1.0 0.1.1 0.1.2 0.2.0
        fast-v1: 1.0.0; 1.0.1 skips 1.0.0
        ");
        assert_snapshot!(generated(["", versions, ""], &[ChannelNaming::Minor], ChannelNaming::Minor), @"
        default fast-v1.0
        fast-v0.1: 0.1.0; 0.1.1; 0.1.2 skips 0.1.0 0.1.1
        fast-v0.2: 0.2.0; 0.2.1 replaces 0.1.2 skips 0.1.0 0.1.1 0.2.0
        fast-v0.3: 0.3.0 replaces 0.2.1 skips 0.1.0 0.1.1 0.1.2 0.2.0
        fast-v1.0: 1.0.0; 1.0.1 skips 1.0.0
        ");
    }

    #[test]
    fn pre_releases_are_included_and_skips_are_sorted_as_text() {
        assert_snapshot!(generated(["0.2.0 0.9.0 0.10.0-rc.1 0.10.0 0.10.1-rc.1", "", ""], &[ChannelNaming::Major], ChannelNaming::Major), @"
        default candidate-v0
        candidate-v0: 0.2.0; 0.9.0 replaces 0.2.0; 0.10.0-rc.1; 0.10.0; 0.10.1-rc.1 replaces 0.9.0 skips 0.10.0 0.10.0-rc.1 0.2.0
        ");
    }

    #[test]
    fn the_most_trusted_archetype_has_the_default_channel() {
        assert_eq!(
            default(["2.0.0", "1.0.0 1.1.0", ""], &[ChannelNaming::Minor], ChannelNaming::Minor),
            "default fast-v1.1"
        );
        assert_eq!(
            default(["2.0.0", "1.0.0", "0.1.0"], &[ChannelNaming::Major], ChannelNaming::Major),
            "default stable-v0"
        );
    }

    #[test]
    fn the_preference_decides_only_between_channels_of_one_lowest_bundle() {
        assert_eq!(default(["", "", "1.0.1"], BOTH, ChannelNaming::Major), "default stable-v1");
        assert_eq!(default(["", "", "1.0.1"], BOTH, ChannelNaming::Minor), "default stable-v1.0");
        assert_eq!(default(["", "", "1.0.1 1.1.0"], BOTH, ChannelNaming::Major), "default stable-v1.1");
    }

    #[test]
    fn the_lowest_possible_version_has_a_default_channel_too() {
        assert_eq!(default(["0.0.0-alpha", "", ""], BOTH, ChannelNaming::Minor), "default candidate-v0.0");
        assert_eq!(default(["0.0.0", "", ""], BOTH, ChannelNaming::Major), "default candidate-v0");
        assert_eq!(default(["", "", ""], BOTH, ChannelNaming::Major), "default ");
    }
}
