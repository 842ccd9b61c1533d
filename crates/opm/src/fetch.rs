//! Fetches bundles and database indexes from images or directories.

use std::fs;
use std::path::{Path, PathBuf};

use image::{Reference, ReferenceError};
#[cfg(feature = "sqlite")]
use sqlite_index::NewBundle;

use crate::container::ContainerTool;
use crate::exit::Failure;
use crate::images::{self, CONFIGS_LABEL, DATABASE_LABEL, Images, Kind, PullFlags, TlsFlags};
use crate::interrupt::Unfinished;

/// Fetches references. Dropping it removes the unpacked files.
pub(crate) struct Fetcher {
    images: Images,
    tool: ContainerTool,
    plain_http: bool,
    /// Whether to record bundles by digest.
    pin: bool,
    /// The directories unpacked by a container tool.
    unpacked: std::cell::RefCell<Vec<Unfinished>>,
}

impl Fetcher {
    pub(crate) fn new(tls: &TlsFlags, pull: &PullFlags, tool: ContainerTool) -> Result<Fetcher, Failure> {
        if pull.ca_file.is_some() && tls.skips_verification() {
            return Err(Failure::message("--skip-tls-verify must be false when --ca-file is set"));
        }
        if pull.ca_file.is_some() && tool != ContainerTool::None {
            let tool = tool.name();
            return Err(Failure::message(format!(
                "--ca-file cannot be set with --container-tool={tool}; certificates must be configured specifically \
                 for {tool}"
            )));
        }
        let plain_http = tls.uses_http();
        Ok(Fetcher { images: Images::new(tls, pull), tool, plain_http, pin: false, unpacked: Default::default() })
    }

    /// Sets whether to record bundles by digest along with the tag.
    pub(crate) fn pinning(mut self, pin: bool) -> Fetcher {
        self.pin = pin;
        self
    }

    /// Fetches all bundles: images are unpacked, directories are used in place.
    #[cfg(feature = "sqlite")]
    pub(crate) fn bundles(&self, references: &[String]) -> Result<Vec<NewBundle>, String> {
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
        match &failures[..] {
            [] => {}
            [one] => return Err(one.clone()),
            several => return Err(format!("[{}]", several.join(", "))),
        }
        let bundle = |reference: &String| match unpacked.get(reference.as_str()) {
            Some((directory, pinned)) => {
                let image = if self.pin { pinned } else { reference };
                NewBundle { image: image.clone(), directory: directory.clone() }
            }
            None => NewBundle { image: String::new(), directory: reference.into() },
        };
        Ok(references.iter().map(bundle).collect())
    }

    /// Unpacks images and returns their directories.
    pub(crate) fn unpack(&self, references: &[&str]) -> Vec<Result<PathBuf, String>> {
        match self.tool {
            ContainerTool::None if references.is_empty() => Vec::new(),
            ContainerTool::None => self.images.bundles(references),
            tool => references.iter().map(|reference| self.unpack_with(tool, reference)).collect(),
        }
    }

    /// Like [`Fetcher::unpack`], but also returns each reference with its digest.
    fn unpack_pinned(&self, references: &[&str]) -> Vec<Result<(PathBuf, String), String>> {
        let with_tool = |tool: ContainerTool, reference: &str| {
            let directory = self.unpack_with(tool, reference)?;
            let name = if self.pin { images::pinned(reference, tool.digest(reference)?) } else { reference.to_owned() };
            Ok((directory, name))
        };
        match self.tool {
            ContainerTool::None if references.is_empty() => Vec::new(),
            ContainerTool::None => self.images.pinned_bundles(references),
            tool => references.iter().map(|reference| with_tool(tool, reference)).collect(),
        }
    }

    fn unpack_with(&self, tool: ContainerTool, reference: &str) -> Result<PathBuf, String> {
        tool.pull(reference, self.plain_http)?;
        let directory = Unfinished::private("opm-unpacked-").map_err(|error| error.to_string())?;
        tool.unpack(reference, directory.path())?;
        let path = directory.path().to_path_buf();
        self.unpacked.borrow_mut().push(directory);
        Ok(path)
    }

    /// Copies the database of an index image to `target`.
    pub(crate) fn database(&self, reference: &str, target: &Path) -> Result<(), String> {
        let missing = |is_catalog: bool| match is_catalog {
            true => format!(
                "`opm index` commands only support sqlite-based catalogs, but {reference} is a file-based catalog: \
                 unpack it and edit its files"
            ),
            false => format!("index image {reference} missing label {DATABASE_LABEL}"),
        };
        let file = match self.tool {
            ContainerTool::None => {
                let fetched = self.images.fetch_one(reference)?;
                let path = match &fetched.kind {
                    Kind::Database(path) => path,
                    kind => return Err(missing(matches!(kind, Kind::Catalog(_)))),
                };
                let root = self.images.unpack_aside(&fetched.image, Some(Path::new(path)))?;
                images::inside(&root, path)?
            }
            tool => {
                tool.pull(reference, self.plain_http)?;
                let labels = tool.labels(reference)?;
                let path = labels.get(DATABASE_LABEL).ok_or_else(|| missing(labels.contains_key(CONFIGS_LABEL)))?;
                images::inside(&self.unpack_with(tool, reference)?, path)?
            }
        };
        fs::copy(&file, target).map_err(|error| format!("{}: {error}", target.display()))?;
        Ok(())
    }
}

/// Parses a reference for the index commands: without a tag, it means `:latest`.
///
/// Existing paths stay unchanged. The user of the value reports invalid references.
pub(crate) fn or_latest(text: &str) -> Result<String, String> {
    match Reference::parse(text) {
        Err(ReferenceError::NoVersion(name)) if !Path::new(text).exists() => Ok(format!("{name}:latest")),
        _ => Ok(text.to_owned()),
    }
}

/// Returns whether a reference is a directory instead of an image.
fn is_directory(reference: &str) -> bool {
    Path::new(reference).is_dir()
}
