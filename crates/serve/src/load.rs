//! Loads the catalog to serve.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use catalog::{Catalog, Warnings};
use fbc::blob::TextBuffer;
use fbc::locate::Locator;
use fbc::{BlobContent, Fbc, Limits, LoadOptions, Members, Problem, ProblemSeverity, ProblemStage, Spot};

use crate::cache::{ContentDigest, EncodeError};

/// A directory with a file-based catalog.
#[derive(Debug, Clone)]
pub struct ServedDirectory {
    /// Its path.
    pub root: PathBuf,
    /// Limits for reading it.
    pub limits: Limits,
    /// The policy for invalid packages.
    pub on_invalid: OnInvalid,
    /// Which directories without a single blob are accepted. Usually they are the wrong directory.
    pub empty: Empty,
    /// Whether to extract the page data of its packages.
    pub summarize: bool,
}

/// Which directories without a single blob are accepted as catalogs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Empty {
    /// None.
    Rejected,
    /// Those without files.
    WithoutFiles,
    /// All.
    Accepted,
}

/// The policy for invalid catalogs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInvalid {
    /// The catalog is refused.
    Fail,
    /// The invalid packages are quarantined, and the rest is served.
    Quarantine,
}

/// A package that is not served, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Its name.
    pub package: String,
    /// The problems of the package, in one line or several.
    pub reason: String,
}

/// A catalog that passed all checks.
pub(crate) struct CheckedCatalog {
    pub(crate) fbc: Fbc,
    pub(crate) catalog: Catalog,
    /// The digest of the content of each package.
    pub(crate) packages: BTreeMap<String, ContentDigest>,
    /// The digest of the blobs that belong to no package.
    pub(crate) unowned: ContentDigest,
    pub(crate) quarantined: Vec<Quarantined>,
    members: Members,
}

/// The reason why a catalog cannot be served.
#[derive(thiserror::Error)]
pub enum LoadError {
    /// The directory cannot be read.
    #[error("{}: {error}", .path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The directory has no blobs.
    #[error("\"{}\" contains no catalog: opm found no blobs in it; check the path", .0.display())]
    Empty(PathBuf),
    /// The catalog is invalid.
    #[error("{}", summarize(.fbc, .problems.iter()))]
    Invalid {
        /// The blobs that could be read, to locate the problems.
        fbc: Box<Fbc>,
        problems: Vec<Problem>,
    },
    /// A package is valid but cannot be encoded.
    #[error("build package index: process package {package:?}: {source}")]
    Package {
        package: String,
        /// The cause.
        source: EncodeError,
    },
}

impl std::fmt::Debug for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl ServedDirectory {
    /// Reads and checks the catalog, and returns the files that belong to it.
    ///
    /// # Errors
    /// Fails when the catalog is invalid.
    pub fn members(&self) -> Result<Members, LoadError> {
        Ok(self.load()?.members)
    }

    /// Reads and checks the catalog.
    pub(crate) fn load(&self) -> Result<CheckedCatalog, LoadError> {
        let inspect = catalog::inspect(Warnings::Off);
        let options = LoadOptions {
            limits: self.limits.clone(),
            keep_text: true,
            migrate: false,
            inspect: Some(&inspect),
            progress: None,
        };
        let unreadable = |error| LoadError::Unreadable { path: self.root.clone(), error };
        let mut fbc = Fbc::default();
        let mut loaded = fbc.load_dir(&self.root, &options).map_err(unreadable)?;
        let members = std::mem::take(&mut loaded.members);
        if fbc.blobs().is_empty() && loaded.problems.is_empty() {
            let accepted = match self.empty {
                Empty::Rejected => false,
                Empty::WithoutFiles => !has_files(&self.root).map_err(unreadable)?,
                Empty::Accepted => true,
            };
            if !accepted {
                return Err(LoadError::Empty(self.root.clone()));
            }
            tracing::warn!(configs = %self.root.display(), "the directory contains no catalog blobs");
        }
        let mut checked = catalog::check(&fbc, loaded, Warnings::Off);
        let mut quarantined = Vec::new();
        while checked.catalog.is_err() && self.on_invalid == OnInvalid::Quarantine {
            let broken = broken_packages(&fbc, checked.problems());
            if broken.is_empty() && !quarantined.is_empty() {
                break;
            }
            fbc.retain(|blob| !broken.contains_key(&*blob.package));
            quarantined.extend(broken.into_iter().map(|(package, reason)| Quarantined { package, reason }));
            checked = catalog::check(&fbc, fbc::LoadReport::default(), Warnings::Off);
        }
        let catalog = match checked.catalog {
            Ok(catalog) => catalog,
            Err(problems) => {
                return Err(LoadError::Invalid { problems: problems.into_errors(), fbc: Box::new(fbc) });
            }
        };
        let (packages, unowned) = self.digests(&fbc, &catalog).map_err(unreadable)?;
        Ok(CheckedCatalog { fbc, catalog, packages, unowned, quarantined, members })
    }

    /// Computes one digest of all blobs of each package.
    fn digests(&self, fbc: &Fbc, catalog: &Catalog) -> io::Result<(BTreeMap<String, ContentDigest>, ContentDigest)> {
        let mut lists: BTreeMap<&str, Vec<u8>> =
            catalog.packages().iter().map(|package| (package.name(), Vec::new())).collect();
        let mut unowned = Vec::new();
        let mut buffer = TextBuffer::default();
        for blob in fbc.blobs() {
            let Some(digest) = blob.digest() else { continue };
            let list = lists.get_mut(&*blob.package).unwrap_or(&mut unowned);
            list.extend_from_slice(&digest.to_le_bytes());
            // Objects in other files are not part of the text of the blob.
            if matches!(&blob.content, BlobContent::Bundle(bundle) if !bundle.references.is_empty()) {
                let text = fbc.text(blob, &mut buffer)?;
                for object in fbc.objects(blob, text, &self.limits) {
                    list.extend_from_slice(&ContentDigest::of(object.as_bytes()).0.to_le_bytes());
                }
            }
        }
        let packages = lists.into_iter().map(|(name, list)| (name.to_owned(), ContentDigest::of(&list))).collect();
        Ok((packages, ContentDigest::of(&unowned)))
    }
}

/// Returns whether there are files anywhere below a directory, hidden ones included.
fn has_files(root: &Path) -> io::Result<bool> {
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                directories.push(entry.path());
            } else if !entry.path().is_dir() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Groups problems by package, described in one line.
///
/// A file that cannot be read breaks all packages with blobs in it, because they may miss content.
fn broken_packages(fbc: &Fbc, problems: &[Problem]) -> BTreeMap<String, String> {
    let mut broken: BTreeMap<String, Vec<&Problem>> = BTreeMap::new();
    for problem in problems.iter().filter(|problem| problem.severity == ProblemSeverity::Error) {
        if let Some(package) = &problem.scope.package {
            broken.entry(package.clone()).or_default().push(problem);
            continue;
        }
        let Some(file) = problem.place.as_ref().map(|place| place.file) else { continue };
        let blobs = fbc.blobs().iter().filter(|blob| blob.origin.is_some_and(|(origin, _)| origin == file));
        for package in blobs.map(|blob| &*blob.package).collect::<BTreeSet<&str>>() {
            broken.entry(package.to_owned()).or_default().push(problem);
        }
    }
    broken.into_iter().map(|(package, problems)| (package, summarize(fbc, problems.into_iter()))).collect()
}

/// The maximum number of problems in a one-line description.
const MAX_DESCRIBED: usize = 3;

/// Describes problems in one line, the first of them with file and line.
fn summarize<'a>(fbc: &Fbc, problems: impl Iterator<Item = &'a Problem>) -> String {
    let errors: Vec<&Problem> = problems.filter(|problem| problem.severity == ProblemSeverity::Error).collect();
    let mut locator = Locator::new(fbc);
    let describe = |problem: &&Problem| {
        let place = problem.place.as_ref();
        let file = place.and_then(|place| fbc.full_path_of(place.file)).map(|path| path.display().to_string());
        let line = place
            .filter(|place| place.spot != Spot::File)
            .and_then(|place| locator.locate(place))
            .map(|it| format!(":{}:{}", it.line, it.column));
        let place = file.map(|file| format!("{file}{}: ", line.unwrap_or_default())).unwrap_or_default();
        let scope = &problem.scope;
        let channel = scope.channel.as_ref().filter(|_| problem.stage == ProblemStage::Model);
        let channel = channel.map(|channel| format!("channel {channel:?}: ")).unwrap_or_default();
        format!("{place}{channel}{}", problem.message)
    };
    let mut described: Vec<String> = errors.iter().take(MAX_DESCRIBED).map(describe).collect();
    if errors.len() > MAX_DESCRIBED {
        described.push(format!("and {} more problems", errors.len() - MAX_DESCRIBED));
    }
    format!("invalid catalog: {}", described.join("; "))
}
