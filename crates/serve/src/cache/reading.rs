//! A catalog while it is read.

use std::io;

use super::Cache;
use super::format::Digest;
use super::sources::{self, Glance};
use super::store::PrepareError;
use crate::load::{Directory, LoadError, Sound};

/// A catalog while it is read: what its files looked like before anything of them was read, and what was found in them.
pub(crate) struct Reading {
    pub(super) glance: Glance,
    pub(super) digests: Option<Vec<Digest>>,
    pub(crate) sound: Option<Sound>,
}

impl Reading {
    /// Looks at the files.
    pub(crate) fn start(directory: &Directory) -> Result<Reading, PrepareError> {
        Ok(Reading { glance: glance(directory)?, digests: None, sound: None })
    }

    /// Looks at the files when they rest, if that is soon.
    ///
    /// A cache of files that changed a moment ago cannot know them by their stamps: each start with it would read
    /// all of them.
    pub(super) fn at_rest(directory: &Directory) -> Result<Reading, PrepareError> {
        let reading = Reading::start(directory)?;
        match reading.glance.rest() {
            Some(rest) => {
                std::thread::sleep(rest);
                Reading::start(directory)
            }
            None => Ok(reading),
        }
    }

    /// Returns the digests of the files, which are of what is loaded later if [`Reading::holds`].
    pub(super) fn digests(&mut self, directory: &Directory) -> io::Result<&[Digest]> {
        let digests = match self.digests.take() {
            Some(digests) => digests,
            None => sources::digests(&directory.root, &self.glance.stamps)?,
        };
        Ok(self.digests.insert(digests))
    }

    pub(super) fn total(&mut self, directory: &Directory) -> io::Result<Digest> {
        self.digests(directory)?;
        Ok(sources::total(&self.glance.stamps, self.digests.as_deref().unwrap_or_default()))
    }

    /// Loads the catalog, unless that is done.
    pub(crate) fn load(&mut self, directory: &Directory) -> Result<&Sound, PrepareError> {
        if self.glance.is_fresh() {
            self.digests(directory)?;
        }
        let sound = match self.sound.take() {
            Some(sound) => sound,
            None => directory.load()?,
        };
        Ok(self.sound.insert(sound))
    }

    /// Returns whether the files are what they were when reading began.
    pub(crate) fn holds(&self, directory: &Directory) -> bool {
        let same = || glance(directory).is_ok_and(|now| now == self.glance);
        // Files that changed a moment ago look the same when they change again.
        let digests = || sources::digests(&directory.root, &self.glance.stamps).ok();
        same() && (!self.glance.is_fresh() || self.digests.is_none() || digests() == self.digests && same())
    }

    /// Takes a later look at files that did not change since.
    pub(crate) fn settle(&mut self, later: Glance) {
        if self.glance.is_fresh() && !later.is_fresh() && self.glance == later {
            self.glance = later;
        }
    }

    /// Returns the same reading without what was loaded.
    pub(crate) fn outline(&self) -> Reading {
        Reading { glance: self.glance.clone(), digests: self.digests.clone(), sound: None }
    }

    /// Returns what the files looked like.
    pub(crate) fn glance(&self) -> &Glance {
        &self.glance
    }

    /// Returns whether the catalog that was loaded is the one that a cache was made from.
    pub(crate) fn is_of(&self, cache: &Cache) -> bool {
        self.sound.as_ref().is_some_and(|sound| cache.has_all_of(sound) && cache.has_no_more_than(sound))
    }
}

/// Looks at the files of a catalog.
pub(crate) fn glance(directory: &Directory) -> Result<Glance, PrepareError> {
    let unreadable = |error| LoadError::Unreadable { path: directory.root.clone(), error };
    Ok(Glance::within(&directory.root, directory.limits.files).map_err(unreadable)?)
}

#[cfg(test)]
mod tests {
    use super::super::store::{Integrity, prepare};
    use super::*;

    #[test]
    fn files_that_were_just_written_are_known_by_their_stamps() {
        let root = tempfile::tempdir().unwrap();
        let (catalog, cache) = (root.path().join("catalog"), root.path().join("cache"));
        std::fs::create_dir(&catalog).unwrap();
        let blobs = r#"{"schema": "olm.package", "name": "lamp", "defaultChannel": "stable"}
            {"schema": "olm.channel", "package": "lamp", "name": "stable", "entries": [{"name": "lamp.v1.0.0"}]}
            {"schema": "olm.bundle", "package": "lamp", "name": "lamp.v1.0.0", "image": "example.com/lamp:1",
             "properties": [{"type": "olm.package", "value": {"packageName": "lamp", "version": "1.0.0"}}]}"#;
        std::fs::write(catalog.join("lamp.json"), blobs).unwrap();
        let (limits, on_invalid) = (Default::default(), crate::load::OnInvalid::Fail);
        let directory = Directory { root: catalog, limits, on_invalid, shelve: None };
        let built = prepare(&directory, Some(&cache), Integrity::Rebuild).unwrap();
        assert!(built.built);
        let started = prepare(&directory, Some(&cache), Integrity::Rebuild).unwrap();
        assert!(!started.built);
        assert!(started.reading.digests.is_none(), "the start read the content of the files");
    }
}
