//! Two catalogs into one; what they disagree on is named.

use std::collections::{BTreeMap, BTreeSet};

use fbc::blob::Entry;
use fbc::json::{Layout, Raw, write_canonical};
use fbc::limits::MAX_DEPTH;

use crate::add_bundle::version;
use crate::new_blob::{AttachedContent, NewBlob};
use crate::outline::{Bundle, Channel, Deprecations, Outline, Package};
use crate::refusal::Refusal;
use crate::verify::{deprecations, entries, nothing_beside};

/// Gives the text of a blob, by its place in its catalog.
pub type Text<'a> = dyn Fn(usize) -> Result<NewBlob, Refusal> + 'a;

/// One of two catalogs to be merged.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// What it says.
    pub outline: &'a Outline,
    /// The text of its blobs.
    pub text: &'a Text<'a>,
}

/// So many conflicts are named.
const MOST_NAMED: usize = 50;

/// Merges two catalogs into an outline of the first one, and returns what the user should know.
///
/// With `prefer_first`, what they disagree on stays as the first has it.
///
/// # Errors
/// Refuses when they disagree, naming all they disagree on.
pub fn merge(first: Side<'_>, second: Side<'_>, prefer_first: bool) -> Result<(Outline, Vec<String>), Refusal> {
    let mut merge = Merge { first, second, conflicts: Vec::new() };
    let mut merged = first.outline.clone();
    for (name, package) in &second.outline.packages {
        match merged.packages.get_mut(name) {
            None => {
                let new = merge.whole(package)?;
                merged.packages.insert(name.clone(), new);
            }
            Some(into) => merge.package(name, into, package)?,
        }
    }
    merged.more.extend(merge.missing(&first.outline.globals, &second.outline.globals)?);
    let mut conflicts = merge.conflicts;
    if conflicts.is_empty() || prefer_first {
        return Ok((merged, conflicts.iter().map(|conflict| format!("{conflict}; the first one stays")).collect()));
    }
    let count = conflicts.len();
    conflicts.truncate(MOST_NAMED);
    let more = if count > MOST_NAMED { format!("\n  and {} more", count - MOST_NAMED) } else { String::new() };
    Err(Refusal::new(format!("the catalogs disagree:\n  {}{more}", conflicts.join("\n  ")))
        .help("--prefer-first keeps what the first one says; to keep what the second says, name that first"))
}

struct Merge<'a> {
    first: Side<'a>,
    second: Side<'a>,
    conflicts: Vec<String>,
}

impl Merge<'_> {
    /// Takes over a package that the first catalog has not.
    fn whole(&self, package: &Package) -> Result<Package, Refusal> {
        let made = |blob: Option<usize>| blob.map(|blob| (self.second.text)(blob)).transpose();
        let mut new = Package {
            made: made(package.blob)?,
            default_channel: package.default_channel.clone(),
            deprecations: package.deprecations.clone(),
            more: package.others.iter().map(|&blob| (self.second.text)(blob)).collect::<Result<_, _>>()?,
            ..Package::default()
        };
        if let Some(deprecations) = &mut new.deprecations {
            deprecations.made = made(deprecations.blob.take())?;
        }
        for (name, channel) in &package.channels {
            new.channels.insert(name.clone(), self.channel(channel)?);
        }
        for (name, bundle) in &package.bundles {
            new.bundles.insert(name.clone(), self.bundle(bundle)?);
        }
        Ok(new)
    }

    fn channel(&self, channel: &Channel) -> Result<Channel, Refusal> {
        let made = channel.blob.map(|blob| (self.second.text)(blob)).transpose()?;
        Ok(Channel { blob: None, made, entries: channel.entries.clone() })
    }

    fn bundle(&self, bundle: &Bundle) -> Result<Bundle, Refusal> {
        let Some(blob) = bundle.blob else { return Ok(bundle.clone()) };
        let made = (self.second.text)(blob)?;
        let version = Raw::parse(&made.json, MAX_DEPTH).ok().and_then(version);
        Ok(Bundle { blob: None, made: Some(made), version })
    }

    /// Merges a package that both have.
    fn package(&mut self, name: &str, into: &mut Package, from: &Package) -> Result<(), Refusal> {
        if into.default_channel != from.default_channel {
            self.conflicts.push(format!(
                "package {name:?}: the default channel is {:?} or {:?}",
                into.default_channel, from.default_channel
            ));
        }
        self.compare(into.blob, from.blob, "defaultChannel", || format!("package {name:?} is described differently"))?;
        for (channel, members) in &from.channels {
            match into.channels.get_mut(channel) {
                None => {
                    let new = self.channel(members)?;
                    into.channels.insert(channel.clone(), new);
                }
                Some(there) => {
                    let (first, second) = self.compare(there.blob, members.blob, "entries", || {
                        format!("package {name:?}: channel {channel:?} is described differently")
                    })?;
                    let beside = Beside { first: beside(first, entries), second: beside(second, entries) };
                    self.entries(name, channel, there, members, &beside);
                }
            }
        }
        for (bundle, from) in &from.bundles {
            match into.bundles.get(bundle) {
                None => {
                    let new = self.bundle(from)?;
                    into.bundles.insert(bundle.clone(), new);
                }
                Some(there) => {
                    self.compare(there.blob, from.blob, "", || format!("package {name:?}: bundle {bundle:?} differs"))?;
                }
            }
        }
        if let Some(from) = from.deprecations.as_ref().filter(|from| !from.entries.is_empty()) {
            let there = into.deprecations.as_ref().and_then(|it| it.blob);
            let (first, second) = self.compare(there, from.blob, "entries", || {
                format!("package {name:?}: the deprecations are described differently")
            })?;
            if into.deprecations.is_none() {
                let made = from.blob.map(|blob| (self.second.text)(blob)).transpose()?;
                into.deprecations = Some(Deprecations { blob: None, made, entries: from.entries.clone() });
            }
            let beside = Beside { first: beside(first, deprecations), second: beside(second, deprecations) };
            let entries = &mut into.deprecations.get_or_insert_default().entries;
            for entry in &from.entries {
                let key = format!("{}\0{}", entry.schema, entry.name);
                match entries.iter().find(|there| there.schema == entry.schema && there.name == entry.name) {
                    None if beside.second.contains_key(&key) => self.conflicts.push(format!(
                        "package {name:?}: the deprecation of {} {:?} has fields that are not known and would be lost",
                        entry.schema, &*entry.name
                    )),
                    None => entries.push(entry.clone()),
                    Some(there) if there.message == entry.message && beside.agree(&key) => {}
                    Some(there) if there.message == entry.message => self.conflicts.push(format!(
                        "package {name:?}: the deprecation of {} {:?} has other fields",
                        entry.schema, &*entry.name
                    )),
                    Some(_) => self.conflicts.push(format!(
                        "package {name:?}: the deprecation of {} {:?} has two messages",
                        entry.schema, &*entry.name
                    )),
                }
            }
        }
        let more = self.missing(&into.others, &from.others)?;
        into.more.extend(more);
        Ok(())
    }

    /// Adds the entries that a channel has not, each behind the one it replaces, else behind the one before it.
    fn entries(&mut self, package: &str, name: &str, into: &mut Channel, from: &Channel, beside: &Beside) {
        let mut before: Option<&Entry> = None;
        for entry in &from.entries {
            match into.entry(&entry.name) {
                Some(there) if there == entry && beside.agree(&entry.name) => {}
                Some(there) if there == entry => self
                    .conflicts
                    .push(format!("package {package:?}: entry {:?} of channel {name:?} has other fields", &*entry.name)),
                None if beside.second.contains_key(&*entry.name) => self.conflicts.push(format!(
                    "package {package:?}: entry {:?} of channel {name:?} has fields that are not known and would be lost",
                    &*entry.name
                )),
                Some(_) => self
                    .conflicts
                    .push(format!("package {package:?}: entry {:?} of channel {name:?} has other edges", &*entry.name)),
                None => {
                    let place = |name: &str| into.entries.iter().position(|it| *it.name == *name);
                    let behind = place(&entry.replaces).or_else(|| place(&before?.name));
                    let at = behind.map_or(into.entries.len(), |at| at + 1);
                    into.entries.insert(at, entry.clone());
                }
            }
            before = Some(entry);
        }
    }

    /// Compares two blobs but for one of their members, and returns their texts.
    fn compare(
        &mut self,
        first: Option<usize>,
        second: Option<usize>,
        but: &str,
        conflict: impl FnOnce() -> String,
    ) -> Result<(Option<NewBlob>, Option<NewBlob>), Refusal> {
        let (Some(first), Some(second)) = (first, second) else { return Ok((None, None)) };
        let (first, second) = ((self.first.text)(first)?, (self.second.text)(second)?);
        let files = |made: &NewBlob| -> BTreeMap<String, AttachedContent> {
            made.files.iter().map(|file| (file.reference.clone(), file.content.clone())).collect()
        };
        let (a, b) = (files(&first), files(&second));
        // Equal names may lead to different files.
        let same_files = a.iter().all(|(name, content)| b.get(name).is_none_or(|other| other.same_as(content)));
        if !same_files || members(&first.json, but) != members(&second.json, but) {
            self.conflicts.push(conflict());
        }
        Ok((Some(first), Some(second)))
    }

    /// Returns the blobs of the second catalog that are not the same as any of the first.
    fn missing(&self, first: &[usize], second: &[usize]) -> Result<Vec<NewBlob>, Refusal> {
        if second.is_empty() {
            return Ok(Vec::new());
        }
        let mut there = BTreeSet::new();
        for &blob in first {
            there.insert(members(&(self.first.text)(blob)?.json, ""));
        }
        let mut missing = Vec::new();
        for &blob in second {
            let made = (self.second.text)(blob)?;
            if there.insert(members(&made.json, "")) {
                missing.push(made);
            }
        }
        Ok(missing)
    }
}

/// What the items of two lists say beside what edits know, by what identifies them; nothing for those that say no more.
struct Beside {
    first: BTreeMap<String, u128>,
    second: BTreeMap<String, u128>,
}

impl Beside {
    /// Returns whether both say the same of an item that both have.
    fn agree(&self, key: &str) -> bool {
        self.first.get(key) == self.second.get(key)
    }
}

fn beside(blob: Option<NewBlob>, read: fn(Raw<'_>) -> BTreeMap<String, u128>) -> BTreeMap<String, u128> {
    let mut items = blob.as_ref().and_then(|blob| Raw::parse(&blob.json, MAX_DEPTH).ok()).map(read).unwrap_or_default();
    items.retain(|_, digest| *digest != nothing_beside());
    items
}

/// Returns the members of a blob in one spelling and order, but for one.
fn members(json: &str, but: &str) -> Vec<(String, Vec<u8>)> {
    let mut members: Vec<(String, Vec<u8>)> = Raw::parse(json, MAX_DEPTH)
        .into_iter()
        .flat_map(Raw::members)
        .filter(|(name, _)| !name.eq_ignore_ascii_case(but))
        .map(|(name, value)| {
            let mut out = Vec::new();
            write_canonical(value, Layout::Compact, &mut out);
            (name.into_owned(), out)
        })
        .collect();
    members.sort();
    members
}

#[cfg(test)]
mod tests;
