//! Whether a changed catalog says what it was meant to say, and everything else what it said before.
//!
//! [`Outline::agrees_with`](crate::Outline::agrees_with) compares what edits know of. This compares the rest: every
//! blob that an edit does not touch has to be the same text, and of one that it touches everything but the fields
//! that the edit is about has to be the same.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fbc::blob::{CHANNEL, DEPRECATIONS, PACKAGE};
use fbc::json::{Layout, Raw, write_canonical};
use fbc::limits::MAX_DEPTH;
use fbc::{Blob, Fbc, FileId};
use twox_hash::XxHash3_128;

use crate::changes::Changes;
use crate::new_blob::NewBlob;
use crate::rewrite::Change;

/// What the blobs of a catalog say, as digests, by the place they stand in.
#[derive(Debug, Default)]
pub struct Contents {
    blobs: Mutex<BTreeMap<(FileId, u64), Content>>,
    /// What there was before, if this is the changed form of a catalog.
    before: Option<Before>,
}

#[derive(Debug)]
struct Before {
    /// The texts that there were.
    texts: HashSet<u128>,
    /// The blobs that are added: schema, package and name.
    added: HashSet<[String; 3]>,
}

/// What one blob says.
#[derive(Debug, Clone, Default)]
struct Content {
    /// Its text.
    whole: u128,
    /// All that it says, however it is written; of blobs that are new only.
    meaning: Option<u128>,
    /// All but the fields that edits change.
    rest: u128,
    /// The same for each item of its list, by what identifies it.
    items: BTreeMap<String, u128>,
}

impl Contents {
    /// Makes what the changed form of the catalog is read into.
    ///
    /// `new` are the blobs of new files, by their paths.
    pub fn of_changed(before: &Contents, changes: &Changes, new: &BTreeMap<PathBuf, Vec<NewBlob>>) -> Contents {
        let texts = before.lock().values().map(|content| content.whole).collect();
        let added = changes.files.values().flat_map(|change| change.added.values().flatten());
        let named = added.chain(new.values().flatten()).filter_map(|made| {
            let blob = Raw::parse(&made.json, MAX_DEPTH).ok()?;
            let (schema, name) = (text(blob, "schema"), text(blob, "name"));
            let package = if schema == PACKAGE { name.clone() } else { text(blob, "package") };
            Some([schema, package, name])
        });
        Contents { blobs: Mutex::default(), before: Some(Before { texts, added: named.collect() }) }
    }

    /// Takes note of a blob while its text is at hand.
    pub fn note(&self, blob: &Blob, text: Raw<'_>) {
        let Some(origin) = blob.origin else { return };
        let whole = XxHash3_128::oneshot(text.text().as_bytes());
        let is_new = self.before.as_ref().is_some_and(|Before { texts, added }| {
            let named = [&blob.schema, &blob.package, &blob.name].map(|part| part.to_string());
            !texts.contains(&whole) || added.contains(&named)
        });
        let meaning = is_new.then(|| digest(text));
        let mut content = Content { whole, meaning, ..Content::default() };
        match &*blob.schema {
            PACKAGE => content.rest = but(text, &["defaultChannel"]),
            CHANNEL => {
                content.rest = but(text, &["entries"]);
                content.items = entries(text);
            }
            DEPRECATIONS => {
                content.rest = but(text, &["entries"]);
                content.items = deprecations(text);
            }
            _ => {}
        }
        self.lock().insert(origin, content);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(FileId, u64), Content>> {
        self.blobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the blobs of each file, in their order, by its path below the catalog.
    fn by_path(&self, fbc: &Fbc, root: &Path) -> BTreeMap<PathBuf, Vec<(FileId, u64, Content)>> {
        let mut files: BTreeMap<PathBuf, Vec<(FileId, u64, Content)>> = BTreeMap::new();
        for ((file, start), content) in self.lock().iter() {
            let path = fbc.full_path_of(*file).unwrap_or_default();
            let path = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
            files.entry(path).or_default().push((*file, *start, content.clone()));
        }
        files
    }
}

/// A catalog with what its blobs say.
#[derive(Clone, Copy)]
pub struct Edition<'a> {
    /// The catalog.
    pub fbc: &'a Fbc,
    /// Its directory.
    pub root: &'a Path,
    /// What its blobs say.
    pub contents: &'a Contents,
}

/// What is expected of a blob of the changed catalog.
enum Expected<'a> {
    Same(u128),
    Changed(&'a Content),
    New(&'a NewBlob),
}

/// Checks that `after` is `before` with `changes`, where `new` are the blobs of new files by their paths.
///
/// # Errors
/// Fails with the path of the first file that says something else.
pub fn unchanged_but(
    before: Edition<'_>,
    changes: &Changes,
    new: &BTreeMap<PathBuf, Vec<NewBlob>>,
    after: Edition<'_>,
) -> Result<(), PathBuf> {
    let old = before.contents.by_path(before.fbc, before.root);
    let mut now = after.contents.by_path(after.fbc, after.root);
    for (path, blobs) in &old {
        let mut expected = Vec::new();
        for (file, start, content) in blobs {
            let change = changes.files.get(file);
            match change.and_then(|change| change.changed.get(start)) {
                Some(Change::Remove) => {}
                Some(_) => expected.push(Expected::Changed(content)),
                None => expected.push(Expected::Same(content.whole)),
            }
            let added = change.and_then(|change| change.added.get(start)).into_iter().flatten();
            expected.extend(added.map(Expected::New));
        }
        compare(path, &expected, &now.remove(path).unwrap_or_default())?;
    }
    for (path, made) in new {
        let expected: Vec<Expected<'_>> = made.iter().map(Expected::New).collect();
        compare(path, &expected, &now.remove(path).unwrap_or_default())?;
    }
    match now.into_keys().next() {
        Some(path) => Err(path),
        None => Ok(()),
    }
}

fn compare(path: &Path, expected: &[Expected<'_>], found: &[(FileId, u64, Content)]) -> Result<(), PathBuf> {
    let agree = |(expected, (_, _, found)): (&Expected<'_>, &(FileId, u64, Content))| match expected {
        Expected::Same(whole) => *whole == found.whole,
        Expected::Changed(before) => {
            let same = |(key, digest): (&String, &u128)| found.items.get(key).is_none_or(|now| now == digest);
            before.rest == found.rest && before.items.iter().all(same)
        }
        Expected::New(made) => {
            let meaning = Raw::parse(&made.json, MAX_DEPTH).ok().map(digest);
            meaning.is_some() && found.meaning == meaning
        }
    };
    match expected.len() == found.len() && expected.iter().zip(found).all(agree) {
        true => Ok(()),
        false => Err(path.to_path_buf()),
    }
}

/// Returns a digest of what a value says.
fn digest(value: Raw<'_>) -> u128 {
    let mut out = Vec::new();
    write_canonical(value, Layout::Compact, &mut out);
    XxHash3_128::oneshot(&out)
}

/// The same for an object without some of its members.
fn but(object: Raw<'_>, left_out: &[&str]) -> u128 {
    let mut members: Vec<(String, u128)> = Vec::new();
    for (key, value) in object.members() {
        if !left_out.iter().any(|name| name.eq_ignore_ascii_case(&key)) {
            members.push((key.into_owned(), digest(value)));
        }
    }
    members.sort();
    let mut out = Vec::new();
    for (key, digest) in members {
        out.extend_from_slice(key.as_bytes());
        out.push(0);
        out.extend_from_slice(&digest.to_le_bytes());
    }
    XxHash3_128::oneshot(&out)
}

/// Returns what the entries of a channel say beside their edges, by name.
pub(crate) fn entries(channel: Raw<'_>) -> BTreeMap<String, u128> {
    let entries = channel.get("entries").into_iter().flat_map(Raw::items);
    entries.map(|entry| (text(entry, "name"), but(entry, &["name", "replaces", "skips", "skipRange"]))).collect()
}

/// Returns what deprecations say beside their messages, by what they are about.
pub(crate) fn deprecations(blob: Raw<'_>) -> BTreeMap<String, u128> {
    let entries = blob.get("entries").into_iter().flat_map(Raw::items);
    entries
        .map(|entry| {
            let reference = entry.get("reference");
            let part = |name: &str| reference.map(|reference| text(reference, name)).unwrap_or_default();
            let key = format!("{}\0{}", part("schema"), part("name"));
            let inner = reference.map_or(nothing_beside(), |reference| but(reference, &["schema", "name"]));
            let outer = but(entry, &["reference", "message"]);
            let both = [inner.to_le_bytes(), outer.to_le_bytes()].concat();
            (key, if inner == nothing_beside() { outer } else { XxHash3_128::oneshot(&both) })
        })
        .collect()
}

/// Returns what an entry says that has nothing beside its edges.
pub(crate) fn nothing_beside() -> u128 {
    XxHash3_128::oneshot(&[])
}

fn text(object: Raw<'_>, name: &str) -> String {
    object.get(name).and_then(Raw::as_str).unwrap_or_default().into_owned()
}

#[cfg(test)]
mod tests;
