//! Outlines for tests in a compact notation.

use fbc::blob::ChannelEntry;
use fbc::version::Version;

use crate::outline::{Outline, OutlineBundle, OutlinePackage};

/// Parses lines such as `package/channel: a.v1.0.0; a.v1.1.0 r=a.v1.0.0 s=x,y R=<1.1.0`. Entries are separated by `;`,
/// and the first channel of a package is its default channel.
pub(crate) fn outline(lines: &str) -> Outline {
    let mut outline = Outline::default();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (place, entries) = line.split_once(": ").expect("a channel");
        let (package, channel) = place.split_once('/').expect("a package");
        let package = outline
            .packages
            .entry(package.to_owned())
            .or_insert_with(|| OutlinePackage { default_channel: channel.to_owned(), ..OutlinePackage::default() });
        let entries: Vec<ChannelEntry> = entries.split(';').map(|text| entry(text.trim())).collect();
        for entry in &entries {
            let version = entry.name.split_once(".v").and_then(|(_, version)| Version::parse_strict(version).ok());
            let bundle = OutlineBundle { blob: None, new_blob: None, version: version.map(|version| (version, None)) };
            package.bundles.insert(entry.name.to_string(), bundle);
        }
        package.channels.entry(channel.to_owned()).or_default().entries = entries;
    }
    outline
}

pub(crate) fn entry(text: &str) -> ChannelEntry {
    let mut entry = ChannelEntry::default();
    let mut words = text.split(' ');
    entry.name = words.next().unwrap_or_default().into();
    for word in words {
        match word.split_once('=').expect("an edge") {
            ("r", name) => entry.replaces = name.into(),
            ("s", names) => entry.skips = names.split(',').map(Into::into).collect(),
            (_, range) => entry.skip_range = range.replace('_', " ").into(),
        }
    }
    entry
}

/// Formats an outline as lines that [`outline`] can parse.
pub(crate) fn shown(outline: &Outline) -> String {
    let mut out = String::new();
    for (name, package) in &outline.packages {
        for (channel, members) in &package.channels {
            let default = if *channel == package.default_channel { "*" } else { "" };
            let entries: Vec<String> = members.entries.iter().map(shown_entry).collect();
            out += &format!("{name}/{channel}{default}: {}\n", entries.join("; "));
        }
        for entry in package.deprecations.iter().flat_map(|it| &it.entries) {
            out += &format!("{name} deprecates {} {}: {}\n", entry.schema, entry.name, entry.message);
        }
    }
    out
}

fn shown_entry(entry: &ChannelEntry) -> String {
    let mut out = entry.name.to_string();
    if !entry.replaces.is_empty() {
        out += &format!(" r={}", entry.replaces);
    }
    if !entry.skips.is_empty() {
        out += &format!(" s={}", entry.skips.join(","));
    }
    if !entry.skip_range.is_empty() {
        out += &format!(" R={}", entry.skip_range);
    }
    out
}
