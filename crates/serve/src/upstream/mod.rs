//! Writes the `json` cache of the existing tool, for images that another `opm` serves.
//!
//! A directory with a file for each bundle of each channel, one file for all packages, other blobs by schema, and a
//! digest of catalog and cache that the existing tool verifies before it serves.

mod digest;
mod json;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use catalog::query::Query;
use fbc::blob::TextBuffer;
use fbc::json::{JsonLayout, write_canonical};
use fbc::{Blob, BlobContent};

use crate::load::{CheckedCatalog, LoadError, ServedDirectory};
use digest::{Fnv, TreeModes};

/// The directory of the cache; the digest file is beside it.
pub const CACHE: &str = "cache";
/// The digest file.
pub const DIGEST: &str = "digest";
/// The file modes of the catalog that the digest assumes.
pub const CATALOG_MODES: TreeModes = TreeModes { root: 0o755, directory: 0o755, file: 0o644 };
/// The file modes that the cache must have, since the digest covers them.
pub const CACHE_MODES: TreeModes = TreeModes { root: 0o755, directory: 0o750, file: 0o640 };

/// The reason why no cache could be written for the existing tool.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The catalog is invalid.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The catalog is valid, but this cache format cannot represent it.
    #[error("{0}; the cache format of the existing tool cannot represent that")]
    Refused(String),
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

fn in_path(path: &Path) -> impl FnOnce(io::Error) -> UpstreamError + '_ {
    move |error| UpstreamError::Io { path: path.into(), error }
}

/// Writes the cache of a catalog into `target`, which must be empty; `answers` serves the same catalog.
///
/// The digest is correct if the catalog has [`CATALOG_MODES`] and the cache [`CACHE_MODES`] where they are served;
/// links to files count as those files.
///
/// # Errors
/// Fails when the catalog is invalid, a name cannot be a file name, or files cannot be written.
pub fn build(directory: &ServedDirectory, answers: &dyn Query, target: &Path) -> Result<(), UpstreamError> {
    let content = directory.load()?;
    let cache = target.join(CACHE);
    fs::create_dir(&cache).map_err(in_path(&cache))?;
    write_bundles(&content, answers, &cache)?;
    write_packages(&content, &cache)?;
    write_metas(&content, &cache)?;
    let mut digest = Fnv::default();
    digest::tree(&directory.root, CATALOG_MODES, &mut digest)?;
    digest::tree(&cache, CACHE_MODES, &mut digest)?;
    write_new(&target.join(DIGEST), format!("{:x}", digest.value()).as_bytes())
}

/// Writes a file that must not exist: another blob would have the same name.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), UpstreamError> {
    let file = fs::File::options().write(true).create_new(true).open(path);
    file.and_then(|mut file| file.write_all(bytes)).map_err(in_path(path))
}

/// Checks that a name can be part of a file name.
fn check_name(kind: &str, name: &str) -> Result<(), UpstreamError> {
    if name.is_empty() || name.contains(['/', '\0']) || name == "." || name == ".." {
        return Err(UpstreamError::Refused(format!("{kind} {} cannot be a file name", fbc::quote::quote(name))));
    }
    Ok(())
}

fn write_bundles(content: &CheckedCatalog, answers: &dyn Query, cache: &Path) -> Result<(), UpstreamError> {
    for package in content.catalog.packages() {
        check_name("package", package.name())?;
        for channel in package.channels() {
            check_name("channel", channel.name())?;
            for entry in channel.entries() {
                check_name("bundle", &entry.name)?;
                let reply = answers.bundle(package.name(), channel.name(), &entry.name);
                let reply = reply.map_err(|error| UpstreamError::Refused(error.to_string()))?;
                let bundle = json::bundle(&reply, entry).map_err(|error| UpstreamError::Refused(error.to_string()))?;
                let path = cache.join(format!("{}_{}_{}.json", package.name(), channel.name(), entry.name));
                match write_new(&path, &bundle) {
                    Err(UpstreamError::Io { error, .. }) if error.kind() == io::ErrorKind::AlreadyExists => {
                        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                        return Err(UpstreamError::Refused(format!("two bundles would have the file name {name}")));
                    }
                    written => written?,
                }
            }
        }
    }
    Ok(())
}

fn write_packages(content: &CheckedCatalog, cache: &Path) -> Result<(), UpstreamError> {
    let blobs: BTreeMap<&str, &Blob> = content
        .fbc
        .blobs()
        .iter()
        .filter(|blob| &*blob.schema == fbc::blob::PACKAGE)
        .map(|blob| (&*blob.name, blob))
        .collect();
    let mut buffer = TextBuffer::default();
    let mut out = json::Packages::default();
    for package in content.catalog.packages() {
        let text = match blobs.get(package.name()) {
            Some(blob) => Some(content.fbc.text(blob, &mut buffer).map_err(in_path(cache))?),
            None => None,
        };
        out.add(package, text);
    }
    write_new(&cache.join("packages.json"), &out.finish())
}

/// Writes the blobs of other schemas, each named by a digest of its text.
fn write_metas(content: &CheckedCatalog, cache: &Path) -> Result<(), UpstreamError> {
    let mut buffer = TextBuffer::default();
    for blob in content.fbc.blobs().iter().filter(|blob| matches!(blob.content, BlobContent::Other)) {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if !blob.schema.starts_with(|c: char| c.is_ascii_alphanumeric()) || !blob.schema.chars().all(plain) {
            return Err(UpstreamError::Refused(format!(
                "schema {} cannot be a directory name",
                fbc::quote::quote(&blob.schema)
            )));
        }
        let mut folder = cache.join("metas").join(&*blob.schema);
        if !blob.package.is_empty() {
            check_name("package", &blob.package)?;
            folder.push(&*blob.package);
        }
        fs::create_dir_all(&folder).map_err(in_path(&folder))?;
        let mut text = Vec::new();
        let raw = content.fbc.text(blob, &mut buffer).map_err(in_path(&folder))?;
        write_canonical(raw, JsonLayout::Compact, &mut text);
        text.push(b'\n');
        let mut digest = Fnv::default();
        digest.add(&text);
        // Blobs with the same text share a file.
        let path = folder.join(format!("{:x}.json", digest.value()));
        fs::write(&path, text).map_err(in_path(&path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
