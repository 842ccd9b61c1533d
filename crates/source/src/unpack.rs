//! Catalog images unpacked for editing.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fbc::fault::{Class, Fault};
use fbc::scratch::TempFolder;
use fbc::{Fbc, FileId, Limits, Problem, Unportable};
use image::{ImageReferenceError, Location};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::database::load_database;
use crate::error::{SourceError, at};
use crate::images::{ImageKind, Images, UnpackedIndex};
use crate::load::{SourceOptions, load_catalog};
use crate::write::{CatalogLayout, write};
use image::CONFIGS_LABEL;

/// The rule of files that cannot be read at all, such as dangling links.
const UNREADABLE: &str = "file-readable";

/// A catalog image to unpack.
#[derive(Debug, Clone)]
pub struct UnpackRequest<'a> {
    pub image: &'a str,
    /// The directory to write; it appears only when it is complete.
    pub target: &'a Path,
    /// The files to write; defaults to those of the image, or one per package if a file holds several packages.
    pub files: Option<UnpackedFiles>,
    /// Size limits.
    pub limits: Limits,
}

/// The files to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnpackedFiles {
    /// The files of the image, unchanged.
    Image,
    /// New files in this layout.
    New(CatalogLayout),
}

/// The result of unpacking.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UnpackReport {
    /// The digest of the image.
    pub digest: image::Digest,
    /// The directory that was written.
    pub directory: PathBuf,
    /// The path of the catalog in the image.
    pub path: String,
    /// Why files that cannot be read were left out.
    pub unreadable: Vec<String>,
    /// The files that cannot leave an image.
    #[serde(serialize_with = "paths")]
    #[schemars(with = "Vec<PathBuf>")]
    pub unportable: Vec<(PathBuf, Unportable)>,
}

fn paths<S: Serializer>(files: &[(PathBuf, Unportable)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(files.iter().map(|(path, _)| path))
}

/// Why an image was not unpacked; there is no directory then.
#[derive(Debug, thiserror::Error)]
pub enum CatalogUnpackError {
    /// The image cannot be pulled.
    #[error("error pulling image from remote registry. Error: {0}")]
    Pull(SourceError),
    /// The name is not an image.
    #[error("error pulling image from remote registry. Error: {0}")]
    Reference(#[from] ImageReferenceError),
    /// The name of the image does not give one for the directory.
    #[error("{0}: cannot derive a directory name; give --unpack-dir")]
    NoName(String),
    /// The image has no catalog.
    #[error("index image \"{0}\" missing label \"{CONFIGS_LABEL}\"")]
    NoCatalog(String),
    /// A database has no files to keep.
    #[error("--layout image: the image holds a database, not files")]
    Database,
    /// A catalog with problems can only be copied.
    #[error("index image \"{image}\": cannot rewrite its files; use --layout image to copy them")]
    Problems {
        image: String,
        /// The blobs that could be read.
        fbc: Box<Fbc>,
        problems: Vec<Problem>,
    },
    /// A file, the catalog or the image cannot be read or written.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl From<io::Error> for CatalogUnpackError {
    fn from(error: io::Error) -> CatalogUnpackError {
        CatalogUnpackError::Source(error.into())
    }
}

impl Fault for CatalogUnpackError {
    fn class(&self) -> Class {
        match self {
            CatalogUnpackError::Pull(error) | CatalogUnpackError::Source(error) => error.class(),
            _ => Class::Refused,
        }
    }
}

/// Unpacks the catalog of an image to a new directory: its files without those that do not belong to it, or new ones.
///
/// # Errors
/// Fails as [`CatalogUnpackError`] says.
pub fn unpack_image(request: &UnpackRequest<'_>, images: &Images) -> Result<UnpackReport, CatalogUnpackError> {
    let &UnpackRequest { image, target, files, .. } = request;
    let fetched = images.fetch_one(image).map_err(CatalogUnpackError::Pull)?;
    let path = match &fetched.kind {
        ImageKind::Catalog(path) | ImageKind::Database(path) => path,
        ImageKind::Bundle | ImageKind::Other(_) => return Err(CatalogUnpackError::NoCatalog(image.to_owned())),
    };
    let UnpackedIndex { root, path: configs } = images.index(&fetched.image, path)?;
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(at(parent))?;
    let aside = TempFolder::inside(parent, ".opm-unpack-").map_err(at(parent))?;
    let mut unpacked = UnpackReport {
        digest: fetched.image.digest,
        directory: target.to_owned(),
        path: path.clone(),
        unreadable: Vec::new(),
        unportable: Vec::new(),
    };
    let options = SourceOptions { keep_text: true, ..SourceOptions::catalogs(request.limits.clone(), images) };
    let mut fbc = Fbc::default();
    if matches!(fetched.kind, ImageKind::Database(_)) {
        let layout = match files {
            None => CatalogLayout::Package,
            Some(UnpackedFiles::New(layout)) => layout,
            Some(UnpackedFiles::Image) => return Err(CatalogUnpackError::Database),
        };
        load_database(&mut fbc, &configs, &options)?;
        write(&fbc, aside.path(), layout)?;
    } else {
        let mut loaded = load_catalog(&mut fbc, &configs, &options)?;
        // A catalog that cannot be read completely can only be copied.
        let whole = loaded.problems.is_empty() && fbc.orphans().next().is_none();
        let layout = match files {
            Some(UnpackedFiles::Image) => None,
            Some(UnpackedFiles::New(layout)) if whole => Some(layout),
            Some(UnpackedFiles::New(_)) => {
                let (image, problems) = (image.to_owned(), loaded.problems);
                return Err(CatalogUnpackError::Problems { image, fbc: Box::new(fbc), problems });
            }
            None => (whole && holds_several_packages(&fbc)).then_some(CatalogLayout::Package),
        };
        if let Some(layout) = layout {
            write(&fbc, aside.path(), layout)?;
        } else {
            let unreadable = loaded.problems.iter().filter(|problem| problem.rule == UNREADABLE);
            unpacked.unreadable = unreadable.map(|problem| problem.message.to_string()).collect();
            unpacked.unportable = loaded.members.remove_unportable(&root)?;
            loaded.members.copy_to(aside.path())?;
        }
    }
    aside.finish(target).map_err(at(target))?;
    Ok(unpacked)
}

/// Returns whether a file of a catalog holds blobs of several packages.
fn holds_several_packages(fbc: &Fbc) -> bool {
    let mut packages: HashMap<FileId, &str> = HashMap::new();
    let placed = fbc.blobs().iter().filter_map(|blob| Some((blob.origin?.0, &*blob.package)));
    placed.into_iter().any(|(file, package)| *packages.entry(file).or_insert(package) != package)
}

/// Derives the name of the directory to unpack an image to.
///
/// # Errors
/// Fails when the name is not that of an image, or has no last part.
pub fn unpack_directory(image: &str) -> Result<PathBuf, CatalogUnpackError> {
    let name = match Location::parse(image)? {
        Location::Registry(reference) => reference.repository().rsplit('/').next().map(PathBuf::from),
        Location::Layout { path, .. } | Location::LayoutArchive { path, .. } | Location::DockerArchive { path, .. } => {
            path.file_stem().map(|name| PathBuf::from(format!("{}.unpacked", name.to_string_lossy())))
        }
    };
    name.filter(|name| !name.as_os_str().is_empty()).ok_or_else(|| CatalogUnpackError::NoName(image.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_has_the_name_of_the_repository() {
        let name = |image: &str| unpack_directory(image).map_err(|error| error.to_string());
        assert_eq!(name("quay.io/me/catalog:v1"), Ok("catalog".into()));
        assert_eq!(name("oci:some/layout:v1"), Ok("layout.unpacked".into()));
        assert!(name("Not an image").unwrap_err().starts_with("error pulling image from remote registry. Error: "));
    }
}
