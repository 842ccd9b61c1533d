//! Fetches bundles and database indexes from images or directories.

use std::fs;
use std::path::{Path, PathBuf};

use catalog::DATABASE_LABEL;
use fbc::scratch::TempFolder;
use legacy::{BundleToAdd, Fetch, FetchError};

use crate::container::ContainerTool;
use crate::error::{SourceError, at};
use crate::images::{ImageKind, Images, inside, pinned};
use image::CONFIGS_LABEL;

/// Fetches references. Dropping it removes the unpacked files.
pub struct Fetcher {
    images: Images,
    tool: ContainerTool,
    /// Whether to record bundles by digest.
    pin: bool,
    /// The directories unpacked by a container tool.
    unpacked: std::cell::RefCell<Vec<TempFolder>>,
}

impl Fetcher {
    /// Fetches with a container tool, or by itself.
    pub fn new(images: Images, tool: ContainerTool) -> Fetcher {
        Fetcher { images, tool, pin: false, unpacked: Default::default() }
    }

    /// Sets whether to record bundles by digest along with the tag.
    pub fn pinning(mut self, pin: bool) -> Fetcher {
        self.pin = pin;
        self
    }

    /// Fetches all bundles: images are unpacked, directories are used in place.
    fn all_bundles(&self, references: &[String]) -> Result<Vec<BundleToAdd>, SourceError> {
        let mut pulled: Vec<&str> = Vec::new();
        for reference in references {
            if !is_directory(reference) && !pulled.contains(&reference.as_str()) {
                pulled.push(reference);
            }
        }
        let mut failures = Vec::new();
        let mut unpacked: std::collections::HashMap<&str, (PathBuf, String)> = std::collections::HashMap::new();
        for (reference, outcome) in pulled.iter().zip(self.unpack_pinned(&pulled)) {
            match outcome {
                Ok((directory, pinned)) => drop(unpacked.insert(reference, (directory, pinned))),
                Err(error) => failures.push(error),
            }
        }
        match failures.len() {
            0 => {}
            1 => return Err(failures.swap_remove(0)),
            _ => return Err(SourceError::Several(failures)),
        }
        let bundle = |reference: &String| match unpacked.get(reference.as_str()) {
            Some((directory, pinned)) => {
                let image = if self.pin { pinned } else { reference };
                BundleToAdd { image: image.clone(), directory: directory.clone() }
            }
            None => BundleToAdd { image: String::new(), directory: reference.into() },
        };
        Ok(references.iter().map(bundle).collect())
    }

    /// Unpacks images, and returns their directories and references with their digests.
    fn unpack_pinned(&self, references: &[&str]) -> Vec<Result<(PathBuf, String), SourceError>> {
        let with_tool = |tool: ContainerTool, reference: &str| {
            let directory = self.unpack_with(tool, reference)?;
            let name = if self.pin { pinned(reference, tool.digest(reference)?) } else { reference.to_owned() };
            Ok((directory, name))
        };
        match self.tool {
            ContainerTool::None if references.is_empty() => Vec::new(),
            ContainerTool::None => self.images.pinned_bundles(references),
            tool => references.iter().map(|reference| with_tool(tool, reference)).collect(),
        }
    }

    fn unpack_with(&self, tool: ContainerTool, reference: &str) -> Result<PathBuf, SourceError> {
        tool.pull(reference, self.images.settings().use_http)?;
        let directory = TempFolder::private("opm-unpacked-")?;
        tool.unpack(reference, directory.path())?;
        let path = directory.path().to_path_buf();
        self.unpacked.borrow_mut().push(directory);
        Ok(path)
    }

    fn copy_database(&self, reference: &str, target: &Path) -> Result<(), SourceError> {
        let missing = |is_catalog: bool| match is_catalog {
            true => SourceError::NotADatabaseImage(reference.to_owned()),
            false => SourceError::NoDatabaseLabel(reference.to_owned()),
        };
        let file = match self.tool {
            ContainerTool::None => {
                let fetched = self.images.fetch_one(reference)?;
                let path = match &fetched.kind {
                    ImageKind::Database(path) => path,
                    kind => return Err(missing(matches!(kind, ImageKind::Catalog(_)))),
                };
                self.images.index(&fetched.image, path)?.path
            }
            tool => {
                tool.pull(reference, self.images.settings().use_http)?;
                let labels = tool.labels(reference)?;
                let path = labels.get(DATABASE_LABEL).ok_or_else(|| missing(labels.contains_key(CONFIGS_LABEL)))?;
                inside(&self.unpack_with(tool, reference)?, path)?
            }
        };
        fs::copy(&file, target).map_err(at(target))?;
        Ok(())
    }
}

impl Fetch for Fetcher {
    fn bundles(&self, references: &[String]) -> Result<Vec<BundleToAdd>, FetchError> {
        self.all_bundles(references).map_err(FetchError::new)
    }

    fn unpack(&self, images: &[&str]) -> Vec<Result<PathBuf, FetchError>> {
        let unpacked = match self.tool {
            ContainerTool::None if images.is_empty() => Vec::new(),
            ContainerTool::None => self.images.bundles(images),
            tool => images.iter().map(|image| self.unpack_with(tool, image)).collect(),
        };
        unpacked.into_iter().map(|unpacked| unpacked.map_err(FetchError::new)).collect()
    }

    fn unpack_one(&self, image: &str) -> Result<PathBuf, FetchError> {
        let unpacked = match self.tool {
            ContainerTool::None => {
                self.images.fetch_one(image).and_then(|fetched| self.images.unpack_to_temp(&fetched.image))
            }
            tool => self.unpack_with(tool, image),
        };
        unpacked.map_err(FetchError::new)
    }

    fn database(&self, image: &str, target: &Path) -> Result<(), FetchError> {
        self.copy_database(image, target).map_err(FetchError::new)
    }
}

/// Returns whether a reference is a directory instead of an image.
fn is_directory(reference: &str) -> bool {
    Path::new(reference).is_dir()
}
