//! Reading the catalog that is to be served.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use catalog::{Catalog, Warnings};
use fbc::blob::TextBuffer;
use fbc::json::Raw;
use fbc::locate::Locator;
use fbc::{Blob, Content, Fbc, Limits, LoadOptions, Problem, Severity, Spot, Stage};

use crate::cache::Digest;

/// A directory with a file-based catalog.
#[derive(Debug, Clone)]
pub struct Directory {
    /// Where it is.
    pub root: PathBuf,
    /// Bounds for what is in it.
    pub limits: Limits,
    /// What happens when something in it is wrong.
    pub on_invalid: OnInvalid,
    /// What makes shelves of its packages for pages, if anything does.
    pub shelve: Option<Shelve>,
}

/// Starts to make of a package what pages for people need of it.
pub type Shelve = for<'a> fn(&'a catalog::Package) -> Box<dyn Shelver<'a> + 'a>;

/// Makes of a package what pages for people need of it, in the pass over its bundles that makes the answers.
pub trait Shelver<'a> {
    /// Takes a bundle: its text, and its CSV or what the catalog keeps of that. They come in any order.
    fn bundle(&mut self, name: &str, bundle: &'a catalog::Bundle, text: Raw<'_>, csv: Option<Raw<'_>>);

    /// Returns what was made. `blobs` are those of the package that are no bundles.
    ///
    /// # Errors
    /// Fails when files of the catalog changed.
    fn finish(self: Box<Self>, fbc: &Fbc, blobs: &[&Blob]) -> io::Result<Shelved>;
}

/// What pages for people need of a package.
#[derive(Debug, Clone, Default)]
pub struct Shelved {
    /// Everything but its picture, in a form that the pages know.
    pub shelf: Vec<u8>,
    /// Its picture.
    pub icon: Vec<u8>,
}

/// What happens to a catalog with something wrong in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInvalid {
    /// It is refused.
    Fail,
    /// It is served without the packages that are wrong.
    Quarantine,
}

/// A package that is not served, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name.
    pub package: String,
    /// What is wrong with it, in one line or several.
    pub reason: String,
}

/// A catalog that was read and is sound.
pub(crate) struct Sound {
    pub(crate) fbc: Fbc,
    pub(crate) catalog: Catalog,
    /// Of the content of each package.
    pub(crate) packages: BTreeMap<String, Digest>,
    /// Of the blobs that belong to no package.
    pub(crate) homeless: Digest,
    pub(crate) left_out: Vec<LeftOut>,
}

/// Why a catalog cannot be served.
#[derive(thiserror::Error)]
pub enum LoadError {
    /// The directory cannot be read.
    #[error("{}: {error}", .path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Something in the catalog is wrong.
    #[error("{}", in_short(.fbc, .problems.iter()))]
    Invalid {
        /// What could be read, for the places of the problems.
        fbc: Box<Fbc>,
        /// What is wrong.
        problems: Vec<Problem>,
    },
    /// A package is sound but cannot be served.
    #[error("build package index: process package {package:?}: {reason}")]
    Package {
        /// The package.
        package: String,
        /// Why not.
        reason: String,
    },
}

impl std::fmt::Debug for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Directory {
    /// Reads and checks the catalog.
    pub(crate) fn load(&self) -> Result<Sound, LoadError> {
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
        let loaded = fbc.load_dir(&self.root, &options).map_err(unreadable)?;
        let mut checked = catalog::check(&fbc, loaded, Warnings::Off);
        let mut left_out = Vec::new();
        while checked.catalog.is_err() && self.on_invalid == OnInvalid::Quarantine {
            let broken = broken_packages(&fbc, checked.problems());
            if broken.is_empty() && !left_out.is_empty() {
                break;
            }
            fbc.retain(|blob| !broken.contains_key(&*blob.package));
            left_out.extend(broken.into_iter().map(|(package, reason)| LeftOut { package, reason }));
            checked = catalog::check(&fbc, fbc::Loaded::default(), Warnings::Off);
        }
        let catalog = match checked.catalog {
            Ok(catalog) => catalog,
            Err(problems) => {
                return Err(LoadError::Invalid { problems: problems.into_errors(), fbc: Box::new(fbc) });
            }
        };
        let (packages, homeless) = self.digests(&fbc, &catalog).map_err(unreadable)?;
        Ok(Sound { fbc, catalog, packages, homeless, left_out })
    }

    /// Makes one digest of all blobs of each package.
    fn digests(&self, fbc: &Fbc, catalog: &Catalog) -> io::Result<(BTreeMap<String, Digest>, Digest)> {
        let mut lists: BTreeMap<&str, Vec<u8>> =
            catalog.packages().iter().map(|package| (package.name(), Vec::new())).collect();
        let mut homeless = Vec::new();
        let mut buffer = TextBuffer::default();
        for blob in fbc.blobs() {
            let Some(digest) = blob.digest() else { continue };
            let list = lists.get_mut(&*blob.package).unwrap_or(&mut homeless);
            list.extend_from_slice(&digest.to_le_bytes());
            // Objects in other files are no part of the blob's text.
            if matches!(&blob.content, Content::Bundle(bundle) if !bundle.references.is_empty()) {
                let text = fbc.text(blob, &mut buffer)?;
                for object in fbc.objects(blob, text, &self.limits) {
                    list.extend_from_slice(&Digest::of(object.as_bytes()).0.to_le_bytes());
                }
            }
        }
        let packages = lists.into_iter().map(|(name, list)| (name.to_owned(), Digest::of(&list))).collect();
        Ok((packages, Digest::of(&homeless)))
    }
}

/// Finds the packages that problems are about, with what is wrong.
///
/// A file that cannot be read makes all packages wrong that have something in it: what is
/// missing from them is anybody's guess.
fn broken_packages(fbc: &Fbc, problems: &[Problem]) -> BTreeMap<String, String> {
    let mut broken: BTreeMap<String, Vec<&Problem>> = BTreeMap::new();
    for problem in problems.iter().filter(|problem| problem.severity == Severity::Error) {
        if let Some(package) = &problem.scope.package {
            broken.entry(package.clone()).or_default().push(problem);
            continue;
        }
        let Some(file) = problem.place.as_ref().map(|place| place.file) else { continue };
        let there = fbc.blobs().iter().filter(|blob| blob.origin.is_some_and(|(origin, _)| origin == file));
        for package in there.map(|blob| &*blob.package).collect::<BTreeSet<&str>>() {
            broken.entry(package.to_owned()).or_default().push(problem);
        }
    }
    broken.into_iter().map(|(package, problems)| (package, in_short(fbc, problems.into_iter()))).collect()
}

/// So many problems are described where there is one line for all.
const DESCRIBED: usize = 3;

/// Describes problems in one line, the first of them with their files and lines.
fn in_short<'a>(fbc: &Fbc, problems: impl Iterator<Item = &'a Problem>) -> String {
    let errors: Vec<&Problem> = problems.filter(|problem| problem.severity == Severity::Error).collect();
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
        let channel = scope.channel.as_ref().filter(|_| problem.stage == Stage::Model);
        let channel = channel.map(|channel| format!("channel {channel:?}: ")).unwrap_or_default();
        format!("{place}{channel}{}", problem.message)
    };
    let mut described: Vec<String> = errors.iter().take(DESCRIBED).map(describe).collect();
    if errors.len() > DESCRIBED {
        described.push(format!("and {} more problems", errors.len() - DESCRIBED));
    }
    format!("invalid catalog: {}", described.join("; "))
}
