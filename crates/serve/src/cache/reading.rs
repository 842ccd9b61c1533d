//! Tracks a catalog while it is read.

use std::io;

use super::Cache;
use super::format::ContentDigest;
use super::sources::{self, Fingerprint};
use super::store::PrepareError;
use crate::load::{CheckedCatalog, LoadError, ServedDirectory};

/// A catalog while it is read: the fingerprint of its files before any of them was read, and their content.
pub(crate) struct Reading {
    pub(super) fingerprint: Fingerprint,
    pub(super) digests: Option<Vec<ContentDigest>>,
    pub(crate) checked: Option<CheckedCatalog>,
}

impl Reading {
    /// Takes the fingerprint of the files.
    pub(crate) fn start(directory: &ServedDirectory) -> Result<Reading, PrepareError> {
        Ok(Reading { fingerprint: fingerprint(directory)?, digests: None, checked: None })
    }

    /// Takes the fingerprint once the files are stable, if that is soon.
    ///
    /// A cache of files that changed a moment ago cannot rely on their stamps: each start with it would read all of
    /// them.
    pub(super) fn when_stable(directory: &ServedDirectory) -> Result<Reading, PrepareError> {
        let reading = Reading::start(directory)?;
        match reading.fingerprint.until_stable() {
            Some(delay) => {
                std::thread::sleep(delay);
                Reading::start(directory)
            }
            None => Ok(reading),
        }
    }

    /// Returns the digests of the files. They match what is loaded later if [`Reading::is_current`] holds then.
    pub(super) fn digests(&mut self, directory: &ServedDirectory) -> io::Result<&[ContentDigest]> {
        let digests = match self.digests.take() {
            Some(digests) => digests,
            None => sources::digests(&directory.root, &self.fingerprint.stamps)?,
        };
        Ok(self.digests.insert(digests))
    }

    pub(super) fn total(&mut self, directory: &ServedDirectory) -> io::Result<ContentDigest> {
        self.digests(directory)?;
        Ok(sources::total(&self.fingerprint.stamps, self.digests.as_deref().unwrap_or_default()))
    }

    /// Loads the catalog, unless it is loaded.
    pub(crate) fn load(&mut self, directory: &ServedDirectory) -> Result<&CheckedCatalog, PrepareError> {
        if self.fingerprint.is_fresh() {
            self.digests(directory)?;
        }
        let checked = match self.checked.take() {
            Some(checked) => checked,
            None => directory.load()?,
        };
        Ok(self.checked.insert(checked))
    }

    /// Returns whether the files are unchanged since reading began.
    pub(crate) fn is_current(&self, directory: &ServedDirectory) -> bool {
        let same = || fingerprint(directory).is_ok_and(|now| now == self.fingerprint);
        // Files that changed a moment ago can change again with the same stamps.
        let digests = || sources::digests(&directory.root, &self.fingerprint.stamps).ok();
        same() && (!self.fingerprint.is_fresh() || self.digests.is_none() || digests() == self.digests && same())
    }

    /// Replaces the fingerprint by a later one of the same content.
    pub(crate) fn confirm(&mut self, later: Fingerprint) {
        if self.fingerprint.is_fresh() && !later.is_fresh() && self.fingerprint == later {
            self.fingerprint = later;
        }
    }

    /// Returns the reading without the loaded catalog.
    pub(crate) fn without_catalog(&self) -> Reading {
        Reading { fingerprint: self.fingerprint.clone(), digests: self.digests.clone(), checked: None }
    }

    /// Returns the fingerprint of the files.
    pub(crate) fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Returns whether the cache was built from the loaded catalog.
    pub(crate) fn matches(&self, cache: &Cache) -> bool {
        self.checked.as_ref().is_some_and(|checked| cache.has_all_of(checked) && cache.has_only(checked))
    }
}

/// Takes the fingerprint of the files of a catalog.
pub(crate) fn fingerprint(directory: &ServedDirectory) -> Result<Fingerprint, PrepareError> {
    let unreadable = |error| LoadError::Unreadable { path: directory.root.clone(), error };
    Ok(Fingerprint::within(&directory.root, directory.limits.files).map_err(unreadable)?)
}

#[cfg(test)]
mod tests {
    use super::super::store::{Integrity, prepare};
    use super::*;

    #[test]
    fn recently_written_files_are_recognized_by_their_stamps() {
        let root = tempfile::tempdir().unwrap();
        let (catalog, cache) = (root.path().join("catalog"), root.path().join("cache"));
        std::fs::create_dir(&catalog).unwrap();
        let blobs = r#"{"schema": "olm.package", "name": "lamp", "defaultChannel": "stable"}
            {"schema": "olm.channel", "package": "lamp", "name": "stable", "entries": [{"name": "lamp.v1.0.0"}]}
            {"schema": "olm.bundle", "package": "lamp", "name": "lamp.v1.0.0", "image": "example.com/lamp:1",
             "properties": [{"type": "olm.package", "value": {"packageName": "lamp", "version": "1.0.0"}}]}"#;
        std::fs::write(catalog.join("lamp.json"), blobs).unwrap();
        let (limits, on_invalid) = (Default::default(), crate::load::OnInvalid::Fail);
        let directory = ServedDirectory {
            root: catalog,
            limits,
            on_invalid,
            empty: crate::load::Empty::Accepted,
            summarize: false,
        };
        let built = prepare(&directory, Some(&cache), Integrity::Rebuild).unwrap();
        assert!(built.built);
        let started = prepare(&directory, Some(&cache), Integrity::Rebuild).unwrap();
        assert!(!started.built);
        assert!(started.reading.digests.is_none(), "the start read the content of the files");
    }
}
