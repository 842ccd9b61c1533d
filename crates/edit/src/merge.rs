//! Merges two catalogs and reports conflicts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fbc::blob::{ChannelEntry, Deprecation};
use fbc::json::{JsonLayout, Raw, write_canonical};
use fbc::limits::MAX_DEPTH;

use crate::add_bundle::version;
use crate::new_blob::{AttachedContent, NewBlob};
use crate::outline::{Deprecations, Outline, OutlineBundle, OutlineChannel, OutlinePackage};
use crate::refusal::EditRefusal;
use crate::verify::{deprecations, entries, no_extra_fields};

/// Returns the text of a blob, by its index in its catalog.
pub type BlobTexts<'a> = dyn Fn(usize) -> Result<NewBlob, EditRefusal> + 'a;

/// One of the two catalogs to merge.
#[derive(Clone, Copy)]
pub struct MergeSide<'a> {
    pub outline: &'a Outline,
    pub text: &'a BlobTexts<'a>,
}

/// The maximum number of conflicts in a message.
const MAX_CONFLICTS: usize = 50;

/// Merges two catalogs into an outline of the first one, and returns notes for the user.
///
/// With `prefer_first`, conflicts are resolved in favor of the first catalog.
///
/// # Errors
/// Refuses if there are conflicts, and lists them.
pub fn merge(
    first: MergeSide<'_>,
    second: MergeSide<'_>,
    prefer_first: bool,
) -> Result<(Outline, Vec<String>), EditRefusal> {
    let mut merge = Merge { first, second, conflicts: Vec::new() };
    let mut merged = first.outline.clone();
    for (name, package) in &second.outline.packages {
        match merged.packages.get_mut(name) {
            None => {
                let new = merge.copy_package(package)?;
                merged.packages.insert(name.clone(), new);
            }
            Some(into) => merge.package(name, into, package)?,
        }
    }
    merged.new_blobs.extend(merge.missing(&first.outline.globals, &second.outline.globals)?);
    let mut conflicts = merge.conflicts;
    if conflicts.is_empty() || prefer_first {
        return Ok((merged, conflicts.iter().map(|conflict| format!("{conflict}; kept the first")).collect()));
    }
    let count = conflicts.len();
    conflicts.truncate(MAX_CONFLICTS);
    let more = if count > MAX_CONFLICTS { format!("\n  and {} more", count - MAX_CONFLICTS) } else { String::new() };
    Err(EditRefusal::new(format!("the catalogs conflict:\n  {}{more}", conflicts.join("\n  ")))
        .help("use --prefer-first to keep the first; to keep the second, pass it first"))
}

struct Merge<'a> {
    first: MergeSide<'a>,
    second: MergeSide<'a>,
    conflicts: Vec<String>,
}

impl Merge<'_> {
    /// Copies a package that only the second catalog contains.
    fn copy_package(&self, package: &OutlinePackage) -> Result<OutlinePackage, EditRefusal> {
        let new_blob = |blob: Option<usize>| blob.map(|blob| (self.second.text)(blob)).transpose();
        let mut new = OutlinePackage {
            new_blob: new_blob(package.blob)?,
            default_channel: package.default_channel.clone(),
            deprecations: package.deprecations.clone(),
            new_blobs: package.others.iter().map(|&blob| (self.second.text)(blob)).collect::<Result<_, _>>()?,
            ..OutlinePackage::default()
        };
        if let Some(deprecations) = &mut new.deprecations {
            deprecations.new_blob = new_blob(deprecations.blob.take())?;
        }
        for (name, channel) in &package.channels {
            new.channels.insert(name.clone(), self.channel(channel)?);
        }
        for (name, bundle) in &package.bundles {
            new.bundles.insert(name.clone(), self.bundle(bundle)?);
        }
        Ok(new)
    }

    fn channel(&self, channel: &OutlineChannel) -> Result<OutlineChannel, EditRefusal> {
        let new_blob = channel.blob.map(|blob| (self.second.text)(blob)).transpose()?;
        Ok(OutlineChannel { blob: None, new_blob, entries: channel.entries.clone() })
    }

    fn bundle(&self, bundle: &OutlineBundle) -> Result<OutlineBundle, EditRefusal> {
        let Some(blob) = bundle.blob else { return Ok(bundle.clone()) };
        let new_blob = (self.second.text)(blob)?;
        let version = Raw::parse(&new_blob.json, MAX_DEPTH).ok().and_then(version);
        Ok(OutlineBundle { blob: None, new_blob: Some(new_blob), version })
    }

    /// Merges a package that both catalogs contain.
    fn package(&mut self, name: &str, into: &mut OutlinePackage, from: &OutlinePackage) -> Result<(), EditRefusal> {
        if into.default_channel != from.default_channel {
            self.conflicts.push(format!(
                "package {name:?}: the default channels {:?} and {:?} differ",
                into.default_channel, from.default_channel
            ));
        }
        self.compare(into.blob, from.blob, "defaultChannel", || format!("the metadata of package {name:?} differs"))?;
        for (channel, members) in &from.channels {
            match into.channels.get_mut(channel) {
                None => {
                    let new = self.channel(members)?;
                    into.channels.insert(channel.clone(), new);
                }
                Some(existing) => {
                    let (first, second) = self.compare(existing.blob, members.blob, "entries", || {
                        format!("package {name:?}: the metadata of channel {channel:?} differs")
                    })?;
                    let extra_fields =
                        ExtraFields { first: extra_fields(first, entries), second: extra_fields(second, entries) };
                    self.entries(name, channel, existing, members, &extra_fields);
                }
            }
        }
        for (bundle, from) in &from.bundles {
            match into.bundles.get(bundle) {
                None => {
                    let new = self.bundle(from)?;
                    into.bundles.insert(bundle.clone(), new);
                }
                Some(existing) => {
                    self.compare(existing.blob, from.blob, "", || {
                        format!("package {name:?}: bundle {bundle:?} differs")
                    })?;
                }
            }
        }
        if let Some(from) = from.deprecations.as_ref().filter(|from| !from.entries.is_empty()) {
            let existing = into.deprecations.as_ref().and_then(|it| it.blob);
            let (first, second) = self.compare(existing, from.blob, "entries", || {
                format!("package {name:?}: the metadata of the deprecations differs")
            })?;
            if into.deprecations.is_none() {
                let new_blob = from.blob.map(|blob| (self.second.text)(blob)).transpose()?;
                into.deprecations = Some(Deprecations { blob: None, new_blob, entries: from.entries.clone() });
            }
            let extra_fields =
                ExtraFields { first: extra_fields(first, deprecations), second: extra_fields(second, deprecations) };
            let entries = &mut into.deprecations.get_or_insert_default().entries;
            let key = |entry: &Deprecation| format!("{}\0{}", entry.schema, entry.name);
            // The first counts if several have one key.
            let mut places: HashMap<String, usize> =
                entries.iter().enumerate().rev().map(|(at, entry)| (key(entry), at)).collect();
            for entry in &from.entries {
                let key = key(entry);
                match places.get(&key).map(|at| &entries[*at]) {
                    None if extra_fields.second.contains_key(&key) => self.conflicts.push(format!(
                        "package {name:?}: the deprecation of {} {:?} has unknown fields that would be dropped",
                        entry.schema, &*entry.name
                    )),
                    None => {
                        places.insert(key, entries.len());
                        entries.push(entry.clone());
                    }
                    Some(existing) if existing.message == entry.message && extra_fields.agree(&key) => {}
                    Some(existing) if existing.message == entry.message => self.conflicts.push(format!(
                        "package {name:?}: the deprecation of {} {:?} has different fields",
                        entry.schema, &*entry.name
                    )),
                    Some(_) => self.conflicts.push(format!(
                        "package {name:?}: the deprecation of {} {:?} has different messages",
                        entry.schema, &*entry.name
                    )),
                }
            }
        }
        let more = self.missing(&into.others, &from.others)?;
        into.new_blobs.extend(more);
        Ok(())
    }

    /// Adds missing entries to a channel, each after the entry it replaces, or else after the entry before it.
    fn entries(
        &mut self,
        package: &str,
        name: &str,
        into: &mut OutlineChannel,
        from: &OutlineChannel,
        extra_fields: &ExtraFields,
    ) {
        let mut list = LinkedEntries::new(std::mem::take(&mut into.entries));
        let mut before: Option<&ChannelEntry> = None;
        for entry in &from.entries {
            match list.place(&entry.name).map(|at| &list.entries[at]) {
                Some(existing) if existing == entry && extra_fields.agree(&entry.name) => {}
                Some(existing) if existing == entry => self.conflicts.push(format!(
                    "package {package:?}: entry {:?} of channel {name:?} has different fields",
                    &*entry.name
                )),
                None if extra_fields.second.contains_key(&*entry.name) => self.conflicts.push(format!(
                    "package {package:?}: entry {:?} of channel {name:?} has unknown fields that would be dropped",
                    &*entry.name
                )),
                Some(_) => self.conflicts.push(format!(
                    "package {package:?}: entry {:?} of channel {name:?} has different edges",
                    &*entry.name
                )),
                None => {
                    let behind = list.place(&entry.replaces).or_else(|| list.place(&before?.name));
                    list.insert(behind, entry.clone());
                }
            }
            before = Some(entry);
        }
        into.entries = list.into_entries();
    }

    /// Compares two blobs except for one member, and returns their texts.
    fn compare(
        &mut self,
        first: Option<usize>,
        second: Option<usize>,
        but: &str,
        conflict: impl FnOnce() -> String,
    ) -> Result<(Option<NewBlob>, Option<NewBlob>), EditRefusal> {
        let (Some(first), Some(second)) = (first, second) else { return Ok((None, None)) };
        let (first, second) = ((self.first.text)(first)?, (self.second.text)(second)?);
        let files = |new_blob: &NewBlob| -> BTreeMap<String, AttachedContent> {
            new_blob.files.iter().map(|file| (file.reference.clone(), file.content.clone())).collect()
        };
        let (a, b) = (files(&first), files(&second));
        // Equal names may refer to different files.
        let same_files = a.iter().all(|(name, content)| b.get(name).is_none_or(|other| other.same_as(content)));
        if !same_files || members(&first.json, but) != members(&second.json, but) {
            self.conflicts.push(conflict());
        }
        Ok((Some(first), Some(second)))
    }

    /// Returns the blobs of the second catalog that differ from all blobs of the first.
    fn missing(&self, first: &[usize], second: &[usize]) -> Result<Vec<NewBlob>, EditRefusal> {
        if second.is_empty() {
            return Ok(Vec::new());
        }
        let mut existing = BTreeSet::new();
        for &blob in first {
            existing.insert(members(&(self.first.text)(blob)?.json, ""));
        }
        let mut missing = Vec::new();
        for &blob in second {
            let new_blob = (self.second.text)(blob)?;
            if existing.insert(members(&new_blob.json, "")) {
                missing.push(new_blob);
            }
        }
        Ok(missing)
    }
}

/// The entries of a channel as a linked list, so that an insertion does not move the others.
struct LinkedEntries {
    entries: Vec<ChannelEntry>,
    /// For each entry, the one behind it.
    next: Vec<Option<usize>>,
    last: Option<usize>,
    /// The first entry of each name.
    places: HashMap<Box<str>, usize>,
}

impl LinkedEntries {
    fn new(entries: Vec<ChannelEntry>) -> LinkedEntries {
        let last = entries.len().checked_sub(1);
        let next = (0..entries.len()).map(|at| Some(at + 1).filter(|_| Some(at) != last)).collect();
        let places = entries.iter().enumerate().rev().map(|(at, entry)| (entry.name.clone(), at)).collect();
        LinkedEntries { entries, next, last, places }
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// Inserts an entry behind another, or at the end.
    fn insert(&mut self, behind: Option<usize>, entry: ChannelEntry) {
        let new = self.entries.len();
        let behind = behind.or(self.last);
        let next = behind.and_then(|behind| self.next[behind].replace(new));
        self.next.push(next);
        if behind == self.last {
            self.last = Some(new);
        }
        self.places.entry(entry.name.clone()).or_insert(new);
        self.entries.push(entry);
    }

    fn into_entries(self) -> Vec<ChannelEntry> {
        let mut order = vec![0; self.entries.len()];
        // Nothing is inserted before the first entry.
        let mut at = if self.entries.is_empty() { None } else { Some(0) };
        let mut number = 0;
        while let Some(place) = at {
            order[place] = number;
            number += 1;
            at = self.next[place];
        }
        let mut entries: Vec<(usize, ChannelEntry)> = order.into_iter().zip(self.entries).collect();
        entries.sort_by_key(|(number, _)| *number);
        entries.into_iter().map(|(_, entry)| entry).collect()
    }
}

/// Fingerprints of the fields that edits do not know, for the items of two lists; items without such fields are absent.
struct ExtraFields {
    first: BTreeMap<String, u128>,
    second: BTreeMap<String, u128>,
}

impl ExtraFields {
    /// Returns whether these fields are equal for an item of both lists.
    fn agree(&self, key: &str) -> bool {
        self.first.get(key) == self.second.get(key)
    }
}

fn extra_fields(blob: Option<NewBlob>, read: fn(Raw<'_>) -> BTreeMap<String, u128>) -> BTreeMap<String, u128> {
    let mut items = blob.as_ref().and_then(|blob| Raw::parse(&blob.json, MAX_DEPTH).ok()).map(read).unwrap_or_default();
    items.retain(|_, digest| *digest != no_extra_fields());
    items
}

/// Returns the members of a blob except one, in canonical form and order.
fn members(json: &str, but: &str) -> Vec<(String, Vec<u8>)> {
    let mut members: Vec<(String, Vec<u8>)> = Raw::parse(json, MAX_DEPTH)
        .into_iter()
        .flat_map(Raw::members)
        .filter(|(name, _)| !name.eq_ignore_ascii_case(but))
        .map(|(name, value)| {
            let mut out = Vec::new();
            write_canonical(value, JsonLayout::Compact, &mut out);
            (name.into_owned(), out)
        })
        .collect();
    members.sort();
    members
}

#[cfg(test)]
mod tests;
