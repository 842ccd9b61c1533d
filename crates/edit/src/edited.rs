//! The report of an edit.

use std::collections::HashMap;

use fbc::blob::ChannelEntry;
use schemars::JsonSchema;
use serde::Serialize;

use crate::outline::Outline;
use crate::transaction::{ChangedFile, NewContent};
use crate::verify::StrandedVersions;

/// What an edit changed, or would change in a dry run.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Edited {
    /// The changes in one line, if packages, channels, bundles or edges change.
    pub summary: Option<String>,
    /// The changed channel entries.
    pub entries: Vec<ChangedEntry>,
    /// What the edit did beyond the request.
    pub notes: Vec<String>,
    /// The versions that lose their upgrade path.
    pub stranded: Vec<StrandedVersions>,
    /// The changed files, by path.
    pub files: Vec<FileReport>,
    /// The changes as a unified diff, in a dry run only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// What happened to a file or an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EditedPart {
    /// It is new.
    Added,
    /// It has another content.
    Changed,
    /// It no longer exists.
    Removed,
}

/// A changed file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileReport {
    /// The path relative to the catalog.
    pub path: String,
    /// What happened to it.
    pub change: EditedPart,
}

impl FileReport {
    pub(crate) fn new(file: &ChangedFile) -> FileReport {
        let change = match (&file.content, file.exists) {
            (NewContent::Removed, _) => EditedPart::Removed,
            (_, true) => EditedPart::Changed,
            (_, false) => EditedPart::Added,
        };
        FileReport { path: file.path.display().to_string(), change }
    }
}

/// A changed entry of a channel. A removed one has the edges that it had.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedEntry {
    pub package: String,
    pub channel: String,
    /// The bundle.
    pub name: String,
    /// What happened to it.
    pub change: EditedPart,
    /// The bundle that it replaces.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub replaces: Box<str>,
    /// The bundles that it skips.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<Box<str>>,
    /// The versions that it skips.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub skip_range: Box<str>,
}

/// Returns the channel entries that differ: first those that are gone, then those that are new or changed.
pub(crate) fn changed_entries(before: &Outline, after: &Outline) -> Vec<ChangedEntry> {
    let mut changed = Vec::new();
    compare(before, after, |package, channel, entry, other| {
        if other.is_none() {
            changed.push(changed_entry(package, channel, entry, EditedPart::Removed));
        }
    });
    compare(after, before, |package, channel, entry, other| match other {
        None => changed.push(changed_entry(package, channel, entry, EditedPart::Added)),
        Some(other) if other != entry => changed.push(changed_entry(package, channel, entry, EditedPart::Changed)),
        Some(_) => {}
    });
    changed
}

/// Calls `found` with every entry of `outline`, its package and channel, and the same entry of `other`.
fn compare(
    outline: &Outline,
    other: &Outline,
    mut found: impl FnMut(&str, &str, &ChannelEntry, Option<&ChannelEntry>),
) {
    for (package, of) in &outline.packages {
        for (channel, of) in &of.channels {
            let other = other.packages.get(package).and_then(|package| package.channels.get(channel));
            let known: HashMap<&str, &ChannelEntry> =
                other.into_iter().flat_map(|it| &it.entries).map(|entry| (&*entry.name, entry)).collect();
            for entry in &of.entries {
                found(package, channel, entry, known.get(&*entry.name).copied());
            }
        }
    }
}

fn changed_entry(package: &str, channel: &str, entry: &ChannelEntry, change: EditedPart) -> ChangedEntry {
    ChangedEntry {
        package: package.to_owned(),
        channel: channel.to_owned(),
        name: entry.name.to_string(),
        change,
        replaces: entry.replaces.clone(),
        skips: entry.skips.clone(),
        skip_range: entry.skip_range.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::outline;

    #[test]
    fn added_removed_and_changed_entries_are_listed() {
        let before = outline("p/stable: p.v1.0.0; p.v1.1.0 r=p.v1.0.0; p.v1.2.0 r=p.v1.1.0\nq/a: q.v1.0.0");
        let after = outline("p/stable: p.v1.0.0; p.v1.2.0 r=p.v1.0.0 s=p.v1.1.0\np/fast: p.v1.2.0\nq/a: q.v1.0.0");
        let lines: Vec<String> = changed_entries(&before, &after)
            .iter()
            .map(|entry| format!("{}\n", serde_json::to_string(entry).unwrap()))
            .collect();
        insta::assert_snapshot!(lines.concat(), @r#"
        {"package":"p","channel":"stable","name":"p.v1.1.0","change":"removed","replaces":"p.v1.0.0"}
        {"package":"p","channel":"fast","name":"p.v1.2.0","change":"added"}
        {"package":"p","channel":"stable","name":"p.v1.2.0","change":"changed","replaces":"p.v1.0.0","skips":["p.v1.1.0"]}
        "#);
    }
}
