//! Derives file changes from two outlines of a catalog.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fbc::blob::{DEPRECATIONS, Deprecation, PACKAGE, channel_json};
use fbc::json::{JsonObject, Raw, Text};
use fbc::{Fbc, FileId, base64};

use crate::new_blob::NewBlob;
use crate::outline::{Deprecations, Outline, OutlinePackage};
use crate::refusal::EditRefusal;
use crate::rewrite::{self, BlobChange, FileChange};

/// The changes to the files of a catalog.
#[derive(Debug, Default)]
pub struct FileChanges {
    /// The files that change.
    pub files: BTreeMap<FileId, FileChange>,
    /// The blobs of new packages, by package name; the empty name holds blobs without a package.
    pub new_packages: BTreeMap<String, Vec<NewBlob>>,
}

impl FileChanges {
    /// Compares the current outline with the desired one.
    ///
    /// # Errors
    /// Refuses if a change affects content in a form that edits do not support.
    pub fn between(fbc: &Fbc, old: &Outline, new: &Outline) -> Result<FileChanges, EditRefusal> {
        let mut changes = FileChanges::default();
        for (name, package) in &old.packages {
            match new.packages.get(name) {
                Some(wanted) => changes.package(fbc, name, package, wanted)?,
                None => {
                    // Channels that bundle properties declare are in no file; they go with the bundles.
                    for index in blobs(package).filter(|index| fbc.blobs()[*index].origin.is_some()) {
                        changes.set(fbc, name, index, BlobChange::Remove)?;
                    }
                }
            }
        }
        for (name, package) in new.packages.iter().filter(|(name, _)| !old.packages.contains_key(*name)) {
            changes.new_packages.insert(name.clone(), all_new(name, package));
        }
        let last = old.globals.iter().copied().filter(|index| fbc.blobs()[*index].origin.is_some()).max();
        for new_blob in &new.new_blobs {
            match last {
                Some(_) => changes.add(fbc, "", last, new_blob.clone())?,
                None => changes.new_packages.entry(String::new()).or_default().push(new_blob.clone()),
            }
        }
        Ok(changes)
    }

    /// Removes blobs that have no deprecations left, except those that had an empty list once. `text` returns the text of
    /// a file.
    ///
    /// # Errors
    /// Fails as `text` does, and if the text is not a catalog file.
    pub fn remove_emptied<E: From<EditRefusal>>(
        &mut self,
        text: impl Fn(FileId) -> Result<String, E>,
    ) -> Result<(), E> {
        for (file, change) in &mut self.files {
            let emptied = |change: &BlobChange| matches!(change, BlobChange::Deprecations(left) if left.is_empty());
            for (start, change) in change.changed.iter_mut().filter(|(_, change)| emptied(change)) {
                if !rewrite::was_empty(&text(*file)?, *start)? {
                    *change = BlobChange::Remove;
                }
            }
        }
        Ok(())
    }

    /// Returns whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.new_packages.is_empty()
    }

    /// Returns the path, relative to the catalog, of the file for a new package or for blobs without one.
    pub fn path_for(package: &str, json: bool) -> PathBuf {
        let extension = if json { "json" } else { "yaml" };
        match package {
            "" => PathBuf::from(format!("__global.{extension}")),
            package => PathBuf::from(package).join(format!("catalog.{extension}")),
        }
    }

    fn package(
        &mut self,
        fbc: &Fbc,
        name: &str,
        old: &OutlinePackage,
        new: &OutlinePackage,
    ) -> Result<(), EditRefusal> {
        if let (true, Some(index)) = (old.default_channel != new.default_channel, old.blob) {
            self.set(fbc, name, index, BlobChange::DefaultChannel(new.default_channel.clone()))?;
        }
        // The blobs that stay; new blobs go after them.
        let kept = |index: &Option<usize>| index.filter(|index| fbc.blobs()[*index].origin.is_some());
        let last = |indices: &mut dyn Iterator<Item = Option<usize>>| indices.filter_map(|it| kept(&it)).max();
        let last_channel = last(&mut new.channels.values().map(|channel| channel.blob));
        let last_bundle = last(&mut new.bundles.values().map(|bundle| bundle.blob));
        let last_other = last(&mut new.others.iter().map(|other| Some(*other)));
        let after_bundles = last_bundle.or(last_channel).or(kept(&old.blob));

        for (channel, was) in &old.channels {
            let Some(index) = was.blob else { continue };
            match new.channels.get(channel) {
                None => self.set(fbc, name, index, BlobChange::Remove)?,
                Some(is) if is.entries != was.entries => {
                    self.set(fbc, name, index, BlobChange::Entries(is.entries.clone()))?;
                }
                Some(_) => {}
            }
        }
        for (channel, is) in new.channels.iter().filter(|(channel, _)| !old.channels.contains_key(*channel)) {
            let new_blob =
                is.new_blob.clone().unwrap_or_else(|| NewBlob::json(channel_json(name, channel, &is.entries, None)));
            self.add(fbc, name, last_channel.or(kept(&old.blob)), new_blob)?;
        }
        for (_, bundle) in old.bundles.iter().filter(|(bundle, _)| !new.bundles.contains_key(*bundle)) {
            if let Some(index) = bundle.blob {
                self.set(fbc, name, index, BlobChange::Remove)?;
            }
        }
        for new_blob in new.bundles.values().filter_map(|bundle| bundle.new_blob.clone()) {
            self.add(fbc, name, after_bundles, new_blob)?;
        }
        for new_blob in &new.new_blobs {
            self.add(fbc, name, last_other.or(after_bundles), new_blob.clone())?;
        }
        match (&old.deprecations, &new.deprecations) {
            (Some(was), None) => {
                if let Some(index) = was.blob {
                    self.set(fbc, name, index, BlobChange::Deprecations(Vec::new()))?;
                }
            }
            (Some(was), Some(is)) if was.entries != is.entries => {
                if let Some(index) = was.blob {
                    self.set(fbc, name, index, BlobChange::Deprecations(is.entries.clone()))?;
                }
            }
            (None, Some(is)) => {
                self.add(fbc, name, last_other.max(after_bundles), is.text(name))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn set(&mut self, fbc: &Fbc, package: &str, index: usize, change: BlobChange) -> Result<(), EditRefusal> {
        let (file, start) = fbc.blobs()[index].origin.ok_or_else(|| old_form(package))?;
        self.files.entry(file).or_default().changed.insert(start, change);
        Ok(())
    }

    fn add(&mut self, fbc: &Fbc, package: &str, after: Option<usize>, new_blob: NewBlob) -> Result<(), EditRefusal> {
        let origin = after.and_then(|index| fbc.blobs()[index].origin);
        let (file, start) = origin.ok_or_else(|| old_form(package))?;
        self.files.entry(file).or_default().added.entry(start).or_default().push(new_blob);
        Ok(())
    }
}

fn old_form(package: &str) -> EditRefusal {
    EditRefusal::new(format!("package {package:?} declares its channels as bundle properties, as in the legacy format"))
        .help("convert the catalog with 'opm migrate', then edit the result")
}

/// Returns the blobs of a package.
fn blobs(package: &OutlinePackage) -> impl Iterator<Item = usize> {
    let parts = package
        .blob
        .into_iter()
        .chain(package.channels.values().filter_map(|channel| channel.blob))
        .chain(package.bundles.values().filter_map(|bundle| bundle.blob))
        .chain(package.deprecations.as_ref().and_then(|it| it.blob))
        .chain(package.others.iter().copied());
    parts.collect::<Vec<_>>().into_iter()
}

/// Returns the blobs of a package that is new to the catalog.
fn all_new(name: &str, package: &OutlinePackage) -> Vec<NewBlob> {
    let blob = package.new_blob.clone().unwrap_or_else(|| NewBlob::json(package_json(name, &package.default_channel)));
    let mut all = vec![blob];
    for (channel, it) in &package.channels {
        all.push(it.new_blob.clone().unwrap_or_else(|| NewBlob::json(channel_json(name, channel, &it.entries, None))));
    }
    all.extend(package.bundles.values().filter_map(|bundle| bundle.new_blob.clone()));
    all.extend(package.new_blobs.iter().cloned());
    if let Some(deprecations) = &package.deprecations {
        all.push(deprecations.text(name));
    }
    all
}

impl Deprecations {
    /// Returns the text of a new deprecations blob.
    fn text(&self, package: &str) -> NewBlob {
        self.new_blob.clone().unwrap_or_else(|| NewBlob::json(deprecations_json(package, &self.entries)))
    }
}

/// Writes the blob of a package.
fn package_json(name: &str, default_channel: &str) -> Text {
    described_package_json(name, default_channel, None)
}

/// Writes the blob of a package with the icon and description of a CSV.
pub(crate) fn described_package_json(name: &str, default_channel: &str, csv: Option<Raw<'_>>) -> Text {
    let object =
        JsonObject::new().string("schema", PACKAGE).string("name", name).string("defaultChannel", default_channel);
    let spec = csv.and_then(|csv| csv.get("spec"));
    let text = |value: Option<Raw<'_>>| value.and_then(Raw::as_str).unwrap_or_default().into_owned();
    let icon = spec.and_then(|spec| spec.get("icon")?.items().next());
    let [data, kind] = ["base64data", "mediatype"].map(|name| text(icon.and_then(|icon| icon.get(name))));
    let object = match data.is_empty() || base64::check(&data).is_err() {
        true => object,
        false => object.object("icon", JsonObject::new().string("base64data", &data).string("mediatype", &kind)),
    };
    object.string_if_any("description", &text(spec.and_then(|spec| spec.get("description")))).end()
}

fn deprecations_json(package: &str, entries: &[Deprecation]) -> Text {
    let entry = |entry: &Deprecation| {
        let reference = JsonObject::new().string("schema", &entry.schema).string_if_any("name", &entry.name);
        JsonObject::new().object("reference", reference).string("message", &entry.message)
    };
    JsonObject::new()
        .string("schema", DEPRECATIONS)
        .string("package", package)
        .objects("entries", entries.iter().map(entry))
        .end()
}
